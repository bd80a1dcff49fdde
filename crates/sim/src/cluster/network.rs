//! Connections that a seed delays and blocks; the module `breaks` cuts and forgets them.
//!
//! A *line* is one connection between the client and a node; end 0 is the client's. It delivers chunks in order and once, as
//! TCP does: data that a network drops arrives later, and of the data in flight when a line is cut only a prefix arrives. Each
//! end learns of a cut at a time of its own, or never: then it is half open. While a node is *apart* nothing arrives.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gristmill_transport::ChunkHead;

use super::wire::Wire;
use crate::random::SeededRandom;

/// Index of an end of a line.
pub(crate) type Side = usize;

/// A chunk: its head and its body.
pub(crate) type Packet = (ChunkHead, Vec<u8>);

/// Properties of a seed's network.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Weather {
    /// Delay from one end to the other, nanoseconds.
    pub delay_ns: u64,
    /// Upper limit of an additional delay, drawn for each chunk, nanoseconds.
    pub jitter_ns: u64,
    /// Bytes in flight in one direction above which the system accepts no more.
    pub window_size: usize,
}

/// One end of a line.
#[derive(Debug, Default)]
pub(super) struct End {
    /// Chunks that the system has not accepted yet.
    outbox: VecDeque<Packet>,
    /// Chunks in flight to the other end, each with its time of arrival.
    pub wire: VecDeque<(u64, Packet)>,
    /// Time at which this end learns that the line is cut.
    pub broken_at: Option<u64>,
    /// True if this end was dropped.
    pub is_gone: bool,
    /// Time at which the other end can learn that this one was dropped; `None` if it cannot.
    gone_at: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Line {
    pub node: usize,
    pub ends: [End; 2],
    opens_at: u64,
    /// True if chunks that are sent from now on are lost.
    pub is_cut: bool,
    /// True if the accepting side has taken its end.
    is_accepted: bool,
    dialled_by: Side,
}

/// All lines and wires of the cluster.
#[derive(Debug)]
pub(crate) struct Network {
    pub now: u64,
    weather: Weather,
    pub(super) random: SeededRandom,
    pub(super) lines: Vec<Line>,
    /// Connections between blob servers.
    pub(super) wires: Vec<Wire>,
    /// Number of blob pieces in a thousand that arrive with wrong bytes between nodes.
    pub(super) damage_rate: u64,
    /// Bytes that were received over wires.
    pub(super) heard_bytes: u64,
    /// Nodes that are apart: `[node]`.
    pub(super) apart: Vec<bool>,
    /// Number of chunks sent so far on all lines (`sent`), and its value when each side last sent a chunk to or from each node
    /// (`sent_by`: `[node][side]`).
    sent: u64,
    sent_by: Vec<[u64; 2]>,
}

/// Shared network, for the ends of its lines.
pub(crate) type Air = Arc<Mutex<Network>>;

/// Locks the network.
pub(crate) fn look(air: &Air) -> MutexGuard<'_, Network> {
    air.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Error of a broken line.
#[derive(Debug)]
pub(crate) struct Broken;

/// Returns the size of a chunk with its head, bytes.
pub(crate) fn size_of(packet: &Packet) -> usize {
    packet.1.len() + 24
}

impl Network {
    pub fn new(weather: Weather, random: SeededRandom, nodes: usize) -> Self {
        let (apart, sent_by) = (vec![false; nodes], vec![[0; 2]; nodes]);
        let (lines, wires) = (Vec::new(), Vec::new());
        Self {
            now: 0,
            weather,
            random,
            lines,
            wires,
            damage_rate: 0,
            heard_bytes: 0,
            apart,
            sent: 0,
            sent_by,
        }
    }

    pub(super) fn delay(&mut self) -> u64 {
        self.weather.delay_ns + self.random.below(self.weather.jitter_ns + 1)
    }

    /// Creates a line between the client and a node, dialled by one side.
    pub fn dial(&mut self, node: usize, dialled_by: Side) -> usize {
        let opens_at = self.now + 2 * self.delay();
        let ends = [End::default(), End::default()];
        let line = Line { node, ends, opens_at, is_cut: false, is_accepted: false, dialled_by };
        self.lines.push(line);
        self.lines.len() - 1
    }

    /// Returns the lines that a side may accept now.
    pub fn arrivals(&self, node: usize, side: Side) -> Vec<usize> {
        let is_due = |line: &Line| {
            let is_new = !line.is_accepted && !line.ends[line.dialled_by].is_gone;
            line.node == node && line.dialled_by != side && is_new && self.is_open(line)
        };
        (0..self.lines.len()).filter(|&place| is_due(&self.lines[place])).collect()
    }

    pub fn accept(&mut self, line: usize) {
        self.lines[line].is_accepted = true;
    }

    /// Returns the node of a line.
    pub fn node_of(&self, line: usize) -> usize {
        self.lines[line].node
    }

    /// Returns the side that has dialled a line.
    pub fn dialled_by(&self, line: usize) -> Side {
        self.lines[line].dialled_by
    }

    /// Refuses a line: the accepting process is gone, and the dialling side learns it.
    pub fn refuse(&mut self, line: usize) {
        let heard_at = self.now + self.delay();
        let line = &mut self.lines[line];
        line.is_accepted = true;
        line.is_cut = true;
        line.ends[line.dialled_by].broken_at = Some(heard_at);
        line.ends[1 - line.dialled_by].is_gone = true;
    }

    /// Returns whether both ends know each other.
    pub fn is_established(&self, line: usize) -> bool {
        self.lines[line].is_accepted && self.is_open(&self.lines[line])
    }

    fn is_open(&self, line: &Line) -> bool {
        line.opens_at <= self.now && !self.apart[line.node]
    }

    /// Returns the number of chunks sent so far on all lines.
    pub const fn sent(&self) -> u64 {
        self.sent
    }

    /// Returns whether a side has sent a numbered chunk between the client and the node of `line` since the number of sent
    /// chunks was `count`.
    pub fn has_sent_since(&self, line: usize, side: Side, count: u64) -> bool {
        self.sent_by[self.lines[line].node][side] > count
    }

    pub fn push(&mut self, line: usize, side: Side, packet: Packet) {
        self.sent += 1;
        if packet.0.sequence > 0 {
            self.sent_by[self.lines[line].node][side] = self.sent;
        }
        self.lines[line].ends[side].outbox.push_back(packet);
    }

    pub fn unsent(&self, line: usize, side: Side) -> usize {
        self.lines[line].ends[side].outbox.iter().map(size_of).sum()
    }

    fn is_broken(&self, line: usize, side: Side) -> bool {
        self.lines[line].ends[side].broken_at.is_some_and(|at| at <= self.now)
    }

    /// Moves chunks from the outbox to the wire while the window has room; returns whether the outbox is empty.
    pub fn flush(&mut self, line: usize, side: Side) -> Result<bool, Broken> {
        if self.is_broken(line, side) {
            return Err(Broken);
        }
        loop {
            let arrives_at = self.now + self.delay();
            let window = self.weather.window_size;
            let line = &mut self.lines[line];
            let is_lost = line.is_cut || line.ends[1 - side].is_gone;
            let end = &mut line.ends[side];
            let under_way: usize = end.wire.iter().map(|(_, packet)| size_of(packet)).sum();
            if under_way >= window {
                return Ok(end.outbox.is_empty());
            }
            let Some(packet) = end.outbox.pop_front() else { return Ok(true) };
            if !is_lost {
                let last = end.wire.back().map_or(0, |(at, _)| *at);
                end.wire.push_back((arrives_at.max(last), packet));
            }
        }
    }

    /// Returns the next chunk that has arrived at a side.
    pub fn receive(&mut self, line: usize, side: Side) -> Result<Option<Packet>, Broken> {
        if self.has_arrived(line, side) {
            let packet = self.lines[line].ends[1 - side].wire.pop_front();
            return Ok(packet.map(|(_, packet)| packet));
        }
        if self.is_broken(line, side) || self.has_left(line, side) { Err(Broken) } else { Ok(None) }
    }

    fn has_arrived(&self, line: usize, side: Side) -> bool {
        let line = &self.lines[line];
        let first = line.ends[1 - side].wire.front();
        self.is_open(line) && first.is_some_and(|(at, _)| *at <= self.now)
    }

    /// Returns whether a side knows that the other end is gone and has received everything that was sent before.
    fn has_left(&self, line: usize, side: Side) -> bool {
        let line = &self.lines[line];
        let other = &line.ends[1 - side];
        let is_known = other.gone_at.is_some_and(|at| at <= self.now);
        is_known && other.wire.is_empty() && self.is_open(line)
    }

    /// Returns whether a side has something to read, a chunk or an end.
    pub fn is_readable(&self, line: usize, side: Side) -> bool {
        self.has_arrived(line, side) || self.is_broken(line, side) || self.has_left(line, side)
    }

    /// Returns whether the system accepts more from a side.
    pub fn is_writable(&self, line: usize, side: Side) -> bool {
        let wire = &self.lines[line].ends[side].wire;
        wire.iter().map(|(_, packet)| size_of(packet)).sum::<usize>() < self.weather.window_size
    }

    /// Returns the time at which the state of some line or wire next changes by itself.
    pub fn next_event(&self) -> Option<u64> {
        let of_line = |line: &Line| {
            let is_apart = self.apart[line.node];
            let of_end = |end: &End| {
                let arrival = end.wire.front().map(|(at, _)| *at).or(end.gone_at);
                [arrival.filter(|_| !is_apart), end.broken_at.filter(|_| !end.is_gone)]
            };
            let opens_at = Some(line.opens_at).filter(|_| !is_apart);
            let [one, other] = &line.ends;
            let events = of_end(one).into_iter().chain(of_end(other)).chain([opens_at]);
            events.flatten().filter(|&at| at > self.now).min()
        };
        let is_used = |line: &&Line| !line.ends.iter().all(|end| end.is_gone);
        let events = self.lines.iter().filter(is_used).filter_map(of_line);
        events.chain(self.next_wire_event()).min()
    }

    /// Drops an end. The other end learns it after it has received everything that was sent, unless the line was cut before.
    pub fn drop_end(&mut self, line: usize, side: Side) {
        let gone_at = self.now + self.delay();
        let line = &mut self.lines[line];
        let is_cut = line.is_cut;
        line.ends[1 - side].wire.clear();
        let end = &mut line.ends[side];
        end.outbox.clear();
        end.is_gone = true;
        if !is_cut {
            end.gone_at = Some(gone_at);
        }
    }
}
