//! Faults of connections: cut lines, silent machines, nodes that are apart.

use super::network::{Line, Network, Side};

impl Network {
    /// Returns the lines of a node that are in use.
    pub fn lines_of(&self, node: usize) -> Vec<usize> {
        let is_used = |line: &Line| line.node == node && !line.is_cut && !line.ends[0].is_gone;
        (0..self.lines.len()).filter(|&place| is_used(&self.lines[place])).collect()
    }

    /// Cuts a line. A part of the chunks in flight still arrives; each end learns of the cut within `longest_ns`, or never.
    pub fn cut(&mut self, line: usize, longest_ns: u64) {
        for side in [0, 1] {
            let left = self.lines[line].ends[side].wire.len() as u64;
            let kept = usize::try_from(self.random.below(left + 1)).unwrap_or(0);
            let is_half_open = self.random.chance(25);
            let heard_at = self.now + self.random.below(longest_ns + 1);
            let end = &mut self.lines[line].ends[side];
            end.wire.truncate(kept);
            end.broken_at = (!is_half_open).then_some(heard_at);
        }
        self.lines[line].is_cut = true;
    }

    /// Silences a node, as if its machine had died: nothing more comes from it, and no peer learns of that.
    pub fn silence(&mut self, node: usize, side: Side) {
        for line in self.lines.iter_mut().filter(|line| line.node == node) {
            line.is_cut = true;
            line.ends[side].broken_at = None;
        }
    }

    /// Restarts the network of a machine: it does not know its old lines, and tells each peer that still uses one.
    pub fn forget_old(&mut self, node: usize, side: Side) {
        let heard_at = self.now + self.delay();
        let is_old = |line: &&mut Line| line.node == node && line.is_cut && line.ends[side].is_gone;
        for line in self.lines.iter_mut().filter(is_old) {
            line.ends[1 - side].broken_at.get_or_insert(heard_at);
        }
    }

    /// Sets a node apart from the network (`is_apart`), or connects it again.
    pub fn set_apart(&mut self, node: usize, is_apart: bool) {
        self.apart[node] = is_apart;
    }

    pub fn is_apart(&self, node: usize) -> bool {
        self.apart[node]
    }
}
