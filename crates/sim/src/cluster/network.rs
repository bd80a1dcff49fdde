//! Connections that a seed delays and blocks; `breaks` cuts and forgets them.
//!
//! A *line* is one connection between the client and a node; end 0 is the client's. It carries chunks in order and once, as
//! TCP does: what a network drops arrives later, and what was under way when a line is cut arrives up to some point. Each
//! end learns of a cut at a time of its own, or never: then it is half open. While a node is *apart* nothing arrives.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gristmill_transport::ChunkHead;

use super::wires::Wire;
use crate::random::Random;

/// Which end of a line.
pub(crate) type Side = usize;

/// A chunk.
pub(crate) type Packet = (ChunkHead, Vec<u8>);

/// What a seed's network is like.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Weather {
    /// From one end to the other, nanoseconds.
    pub delay_ns: u64,
    /// Up to so much more, drawn for each chunk.
    pub jitter_ns: u64,
    /// Bytes under way in one direction beyond which the system takes no more.
    pub window_size: usize,
}

/// One end of a line.
#[derive(Debug, Default)]
pub(super) struct End {
    /// What the system has not taken.
    outbox: VecDeque<Packet>,
    /// What is under way to the other end, each with when it arrives.
    pub wire: VecDeque<(u64, Packet)>,
    /// When this end learns that the line is cut.
    pub broken_at: Option<u64>,
    /// It was dropped.
    pub is_gone: bool,
    /// When the other end can learn that; none: it cannot.
    gone_at: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Line {
    pub node: usize,
    pub ends: [End; 2],
    opens_at: u64,
    /// What is sent from now on arrives nowhere.
    pub is_cut: bool,
    /// The accepting end has been taken.
    is_accepted: bool,
    dialled_by: Side,
}

/// All lines.
#[derive(Debug)]
pub(crate) struct Network {
    pub now: u64,
    weather: Weather,
    pub(super) random: Random,
    pub(super) lines: Vec<Line>,
    /// Connections between depots.
    pub(super) wires: Vec<Wire>,
    /// Of a thousand pieces of blobs between nodes, how many arrive with wrong bytes.
    pub(super) damage_rate: u64,
    /// Bytes that came over them.
    pub(super) heard_bytes: u64,
    /// Which nodes are apart.
    pub(super) apart: Vec<bool>,
    /// How many chunks were sent anywhere, and how many when each end last sent one to, or from, each node.
    sent: u64,
    sent_by: Vec<[u64; 2]>,
}

/// The network, for the ends of its lines.
pub(crate) type Air = Arc<Mutex<Network>>;

/// Looks at the network.
pub(crate) fn look(air: &Air) -> MutexGuard<'_, Network> {
    air.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The line is at its end.
#[derive(Debug)]
pub(crate) struct Broken;

/// The bytes of a chunk with its head.
pub(crate) fn size_of(packet: &Packet) -> usize {
    packet.1.len() + 24
}

impl Network {
    pub fn new(weather: Weather, random: Random, nodes: usize) -> Self {
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

    /// A line between the client and a node, which one side has dialled.
    pub fn dial(&mut self, node: usize, dialled_by: Side) -> usize {
        let opens_at = self.now + 2 * self.delay();
        let ends = [End::default(), End::default()];
        let line = Line { node, ends, opens_at, is_cut: false, is_accepted: false, dialled_by };
        self.lines.push(line);
        self.lines.len() - 1
    }

    /// The lines that a side may accept now.
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

    /// The node at the end of a line.
    pub fn node_of(&self, line: usize) -> usize {
        self.lines[line].node
    }

    /// Which side has dialled.
    pub fn dialled_by(&self, line: usize) -> Side {
        self.lines[line].dialled_by
    }

    /// Nobody is there: who dialled learns it.
    pub fn refuse(&mut self, line: usize) {
        let heard_at = self.now + self.delay();
        let line = &mut self.lines[line];
        line.is_accepted = true;
        line.is_cut = true;
        line.ends[line.dialled_by].broken_at = Some(heard_at);
        line.ends[1 - line.dialled_by].is_gone = true;
    }

    /// Whether both ends know each other.
    pub fn is_established(&self, line: usize) -> bool {
        self.lines[line].is_accepted && self.is_open(&self.lines[line])
    }

    fn is_open(&self, line: &Line) -> bool {
        line.opens_at <= self.now && !self.apart[line.node]
    }

    /// The count of what was sent anywhere.
    pub const fn sent(&self) -> u64 {
        self.sent
    }

    /// Whether an end has sent anything over a link, by its first line, since the count was that.
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

    /// Hands over what the system takes; says whether that was everything.
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

    /// What has arrived at a side next.
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

    /// Whether the other end is known to be gone, behind all that it has sent.
    fn has_left(&self, line: usize, side: Side) -> bool {
        let line = &self.lines[line];
        let other = &line.ends[1 - side];
        let is_known = other.gone_at.is_some_and(|at| at <= self.now);
        is_known && other.wire.is_empty() && self.is_open(line)
    }

    /// Whether a side has something to look at.
    pub fn is_readable(&self, line: usize, side: Side) -> bool {
        self.has_arrived(line, side) || self.is_broken(line, side) || self.has_left(line, side)
    }

    /// Whether the system takes more from a side.
    pub fn is_writable(&self, line: usize, side: Side) -> bool {
        let wire = &self.lines[line].ends[side].wire;
        wire.iter().map(|(_, packet)| size_of(packet)).sum::<usize>() < self.weather.window_size
    }

    /// When something next happens on some line by itself.
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

    /// An end is dropped; the other one learns it behind what was sent, unless the machine died with it.
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
