//! Connections between blob servers that a seed delays, cuts and damages.
//!
//! A *wire* joins the blob servers of two leases; end 0 is that of the dialling one. It delivers chunks in order and once, and
//! nothing while one of its two nodes is apart. The faults of a machine also affect its wires: [`super::breaks`].

use gristmill_client::{BlobConnection, BlobTransport};
use gristmill_wire::peer::{MessageKind, Messages, Piece};

use super::network::{Air, Network, Side, look};
use super::wire::{End, Wire};

/// Number of unread chunks that a wire holds.
const WINDOW: usize = 3;

impl Network {
    fn dial_wire(&mut self, leases: [usize; 2], nodes: [usize; 2]) -> usize {
        let opens_at = self.now + 2 * self.delay();
        let ends = [End::default(), End::default()];
        let wire = Wire { leases, nodes, ends, opens_at, is_accepted: false, is_cut: false };
        self.wires.push(wire);
        self.wires.len() - 1
    }

    fn is_wire_up(&self, wire: &Wire) -> bool {
        wire.opens_at <= self.now && !wire.nodes.iter().any(|&node| self.is_apart(node))
    }

    fn can_accept(&self, wire: &Wire, lease: usize) -> bool {
        let is_new = !wire.is_accepted && !wire.ends[0].is_gone && !wire.is_cut;
        wire.leases[1] == lease && is_new && self.is_wire_up(wire)
    }

    /// Refuses the wires to a node for which no lease that `is_there` can accept them; the dialling end learns it.
    pub fn refuse_wires(&mut self, node: usize, is_there: impl Fn(usize) -> bool) {
        let heard_at = self.now + self.delay();
        for place in 0..self.wires.len() {
            let wire = &self.wires[place];
            let lease = wire.leases[1];
            if wire.nodes[1] == node && !is_there(lease) && self.can_accept(wire, lease) {
                let wire = &mut self.wires[place];
                wire.is_accepted = true;
                wire.ends[1].is_gone = true;
                wire.ends[0].broken_at = Some(heard_at);
            }
        }
    }

    /// Cuts the wires of a node; each end learns it within `longest_ns`.
    pub fn cut_wires(&mut self, node: usize, longest_ns: u64) {
        for place in 0..self.wires.len() {
            let heard_at = [(); 2].map(|()| self.now + self.random.below(longest_ns + 1));
            let wire = &mut self.wires[place];
            if wire.nodes.contains(&node) && !wire.is_cut {
                wire.is_cut = true;
                for (end, at) in wire.ends.iter_mut().zip(heard_at) {
                    end.broken_at.get_or_insert(at);
                }
            }
        }
    }

    /// Silences the wires of a node, as if its machine had died: nothing more comes from it, and no peer learns of that.
    pub fn silence_wires(&mut self, node: usize) {
        let of_node = |wire: &&mut Wire| wire.nodes.contains(&node);
        self.wires.iter_mut().filter(of_node).for_each(|wire| wire.is_cut = true);
    }

    /// Restarts the network of a machine: it does not know its old wires, and their ends learn that.
    pub fn forget_wires(&mut self, node: usize) {
        let heard_at = self.now + self.delay();
        let is_old = |wire: &&mut Wire| wire.nodes.contains(&node) && wire.is_cut;
        for end in self.wires.iter_mut().filter(is_old).flat_map(|wire| &mut wire.ends) {
            end.broken_at.get_or_insert(heard_at);
        }
    }

    /// Returns the time at which the state of some wire next changes by itself.
    pub fn next_wire_event(&self) -> Option<u64> {
        let of_wire = |wire: &Wire| {
            let of_end = |end: &End| {
                let arrival = end.inbox.front().map(|(at, _)| *at);
                [arrival, end.gone_at, end.broken_at]
            };
            let [one, other] = &wire.ends;
            let events = of_end(one).into_iter().chain(of_end(other)).flatten();
            events.chain([wire.opens_at]).filter(|&at| at > self.now).min()
        };
        let is_used = |wire: &&Wire| !wire.ends.iter().all(|end| end.is_gone);
        self.wires.iter().filter(is_used).filter_map(of_wire).min()
    }

    /// Returns whether the blob server of a lease has a wire to serve.
    pub fn is_depot_due(&self, lease: usize) -> bool {
        self.wires.iter().any(|wire| {
            let sides = [0, 1].into_iter().filter(|&side| wire.leases[side] == lease);
            self.can_accept(wire, lease)
                || sides.into_iter().any(|side| self.is_end_due(wire, side))
        })
    }

    fn is_end_due(&self, wire: &Wire, side: Side) -> bool {
        let end = &wire.ends[side];
        let is_open = self.is_wire_up(wire) && wire.is_accepted;
        let has_room = wire.ends[1 - side].inbox.len() < WINDOW;
        // If a wire was cut before it was accepted, its accepting end has no owner.
        let is_held = side == 0 || wire.is_accepted;
        is_held
            && !end.is_gone
            && (self.has_come(wire, side)
                || self.is_lost(wire, side)
                || (is_open && !end.is_told)
                || (end.waits_for_room && has_room))
    }

    /// Returns whether the blob server of a lease has any wires.
    pub fn has_wires(&self, lease: usize) -> bool {
        let is_its =
            |wire: &Wire, side: Side| wire.leases[side] == lease && !wire.ends[side].is_gone;
        self.wires.iter().any(|wire| is_its(wire, 0) || is_its(wire, 1))
    }

    fn has_come(&self, wire: &Wire, side: Side) -> bool {
        let first = wire.ends[side].inbox.front();
        self.is_wire_up(wire) && first.is_some_and(|(at, _)| *at <= self.now)
    }

    /// Returns whether an end knows that nothing more comes.
    fn is_lost(&self, wire: &Wire, side: Side) -> bool {
        let (end, other) = (&wire.ends[side], &wire.ends[1 - side]);
        let has_left = other.gone_at.is_some_and(|at| at <= self.now) && self.is_wire_up(wire);
        let is_broken = end.broken_at.is_some_and(|at| at <= self.now);
        (has_left && end.inbox.is_empty()) || is_broken
    }
}

/// One end of a wire.
#[derive(Debug)]
pub(crate) struct SimWire {
    air: Air,
    wire: usize,
    side: Side,
    /// Time by which the other end must answer, by the clock of this end.
    deadline_ns: u64,
}

impl BlobConnection for SimWire {
    fn open(&mut self, now: u64) -> Result<bool, String> {
        let mut air = look(&self.air);
        let wire = &air.wires[self.wire];
        if wire.ends[self.side].is_told {
            return Ok(false);
        }
        let is_open = air.is_wire_up(wire) && wire.is_accepted;
        if air.is_lost(wire, self.side) || (!is_open && now >= self.deadline_ns) {
            return Err("no process listens there".to_owned());
        }
        air.wires[self.wire].ends[self.side].is_told = is_open;
        Ok(is_open)
    }

    fn say(&mut self, messages: &[u8]) -> Result<(), String> {
        let mut air = look(&self.air);
        let arrives_at = air.now + air.delay();
        let is_damaged = air.random.below(1_000) < air.damage_rate;
        let wire = &mut air.wires[self.wire];
        if wire.is_cut || wire.ends[1 - self.side].is_gone {
            return Ok(());
        }
        let other = &mut wire.ends[1 - self.side];
        let last = other.inbox.back().map_or(0, |(at, _)| *at);
        let chunk = if is_damaged { damaged(messages) } else { messages.to_vec() };
        other.inbox.push_back((arrives_at.max(last), chunk));
        Ok(())
    }

    fn flush(&mut self) -> Result<(), String> {
        // A blob server that still has something to send asks for room again.
        look(&self.air).wires[self.wire].ends[self.side].waits_for_room = false;
        Ok(())
    }

    fn hear(&mut self, chunk: &mut Vec<u8>) -> Result<bool, String> {
        let mut air = look(&self.air);
        let wire = &air.wires[self.wire];
        if air.has_come(wire, self.side) {
            let (_, bytes) =
                air.wires[self.wire].ends[self.side].inbox.pop_front().expect("it came");
            air.heard_bytes += bytes.len() as u64;
            *chunk = bytes;
            return Ok(true);
        }
        if air.is_lost(wire, self.side) { Err("the wire is cut".to_owned()) } else { Ok(false) }
    }

    fn unsent(&self) -> usize {
        let mut air = look(&self.air);
        let wire = &mut air.wires[self.wire];
        let is_full = wire.ends[1 - self.side].inbox.len() >= WINDOW;
        wire.ends[self.side].waits_for_room = is_full;
        if is_full || !wire.ends[self.side].is_told { usize::MAX } else { 0 }
    }
}

impl Drop for SimWire {
    fn drop(&mut self) {
        let mut air = look(&self.air);
        let gone_at = air.now + air.delay();
        let wire = &mut air.wires[self.wire];
        let is_cut = wire.is_cut;
        // If the wire was not accepted, the other end has no owner.
        wire.ends[1 - self.side].is_gone |= !wire.is_accepted;
        let end = &mut wire.ends[self.side];
        end.is_gone = true;
        end.inbox.clear();
        if !is_cut {
            end.gone_at = Some(gone_at);
        }
    }
}

/// Returns the messages with one byte changed if the first is a piece of a blob, and unchanged otherwise.
fn damaged(messages: &[u8]) -> Vec<u8> {
    let mut damaged = Vec::new();
    match Messages::new(messages).next() {
        Some(Ok((MessageKind::Piece, body))) => {
            let Piece { digest, offset, bytes } =
                Piece::read(body).expect("a blob server wrote it");
            Piece::write(&mut damaged, (digest, offset), bytes.len(), |space| {
                space.copy_from_slice(bytes);
                space[0] ^= 1;
            });
        }
        _ => damaged.extend_from_slice(messages),
    }
    damaged
}

/// Transport of the blob server of a lease.
#[derive(Debug)]
pub(crate) struct SimBlobTransport {
    pub air: Air,
    /// Number of the lease's engine, which is its address.
    pub lease: usize,
    pub node: usize,
}

impl BlobTransport for SimBlobTransport {
    type Connection = SimWire;

    fn accept(&mut self, deadline_ns: u64) -> Option<SimWire> {
        let mut air = look(&self.air);
        let wire = air.wires.iter().position(|wire| air.can_accept(wire, self.lease))?;
        air.wires[wire].is_accepted = true;
        Some(SimWire { air: self.air.clone(), wire, side: 1, deadline_ns })
    }

    fn connect(&mut self, address: &str, deadline_ns: u64) -> Result<SimWire, String> {
        let (lease, node) = address.split_once(" at ").expect("it is simulated");
        let number = |word: &str| word.parse().expect("it is simulated");
        let (leases, nodes) = ([self.lease, number(lease)], [self.node, number(node)]);
        let wire = look(&self.air).dial_wire(leases, nodes);
        Ok(SimWire { air: self.air.clone(), wire, side: 0, deadline_ns })
    }
}
