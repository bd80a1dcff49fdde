//! Connections of a process with others: dials, accepted connections, and handshakes. The real handshake server does the same
//! with sockets.

use gristmill_client::{Dials, HandshakeFailure, HandshakeNext, Host, PendingHandshake};

use super::channel::{SimChannel, SimHandshake, Step};
use super::network::{Air, Side, look};

/// Longest duration of a handshake, nanoseconds; the same as in the real handshake server.
const MEETING_NS: u64 = 10_000_000_000;

/// The dials and handshakes of a process.
pub(crate) struct SimConnections {
    air: Air,
    side: Side,
    /// Nodes with which this process may have lines.
    nodes: Vec<usize>,
    /// Node of each dialled address; on a node, the node that dials.
    dialled: Vec<usize>,
    pub dials: Dials,
    handshakes: Vec<PendingHandshake<SimHandshake>>,
}

impl SimConnections {
    pub fn new(air: &Air, side: Side, nodes: Vec<usize>, dialled: Vec<usize>) -> Self {
        let addresses: Vec<_> = dialled.iter().map(|node| vec![format!("node {node}")]).collect();
        let dials = Dials::new(&addresses);
        Self { air: air.clone(), side, nodes, dialled, dials, handshakes: Vec::new() }
    }

    fn arrivals(&self) -> Vec<usize> {
        let air = look(&self.air);
        self.nodes.iter().flat_map(|&node| air.arrivals(node, self.side)).collect()
    }

    /// Returns whether [`attend`](Self::attend) has something to do.
    pub fn is_due(&self, now: u64) -> bool {
        self.dials.next_at() <= now
            || self.handshakes.iter().any(|pending| pending.handshake.is_due(now))
            || !self.arrivals().is_empty()
    }

    /// Returns the local time at which something is due even if no message comes.
    pub fn next_wake(&self) -> Option<u64> {
        let handshakes = self.handshakes.iter().map(|pending| pending.handshake.deadline_ns);
        let wake = handshakes.chain([self.dials.next_at()]).min();
        wake.filter(|&wake| wake != u64::MAX)
    }

    /// Accepts connections, dials, and continues all handshakes until each would have to wait.
    pub fn attend(&mut self, host: &mut impl Host<SimHandshake>, now: u64) {
        for line in self.arrivals() {
            look(&self.air).accept(line);
            self.enter(line, None, 0, now);
        }
        while let Some((place, lease)) = self.dials.next_due(now) {
            let line = look(&self.air).dial(self.dialled[place], self.side);
            self.enter(line, Some(place), lease, now);
        }
        for pending in std::mem::take(&mut self.handshakes) {
            if let Some(pending) = self.go_on(pending, host, now) {
                self.handshakes.push(pending);
            }
        }
    }

    fn enter(&mut self, line: usize, dial: Option<usize>, lease: u64, now: u64) {
        let channel = SimChannel::new(&self.air, line, self.side);
        let handshake = SimHandshake::new(channel, now + MEETING_NS);
        self.handshakes.push(PendingHandshake { handshake, dial, lease, theirs: None });
    }

    /// Continues one handshake; returns it if it has to wait.
    fn go_on(
        &mut self,
        mut pending: PendingHandshake<SimHandshake>,
        host: &mut impl Host<SimHandshake>,
        now: u64,
    ) -> Option<PendingHandshake<SimHandshake>> {
        let dial = pending.dial;
        loop {
            let turn = match pending.handshake.progress(now) {
                Step::Waiting => return Some(pending),
                Step::Open => {
                    host.open(&mut pending);
                    continue;
                }
                Step::Said(kind, body) => host.said(pending, (kind, &body), now),
                Step::Failed(text) => {
                    HandshakeNext::Failed(Box::new(pending), HandshakeFailure::passing(text))
                }
            };
            match turn {
                HandshakeNext::On(going_on) => pending = *going_on,
                HandshakeNext::Done => {
                    self.dials.met(dial);
                    return None;
                }
                HandshakeNext::Failed(pending, failure) => {
                    if let Some(place) = dial {
                        self.dials.failed(place, &failure, now);
                    }
                    host.failed(pending.name(), dial, &failure, now);
                    return None;
                }
            }
        }
    }
}
