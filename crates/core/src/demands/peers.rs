//! Demanding tasks that go to peers: to one that has what they need, and that nobody else needs it of.

use gristmill_wire::{Demand, WHOLE_GPU};

use super::{Kinds, LOOKS_MAX};
use crate::Core;
use crate::place::Placed;
use crate::port::Port;
use crate::task::State;

/// What demanding tasks have of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Taken {
    places: u64,
    /// Thousandths.
    gpus: u64,
    memory: u64,
}

impl Taken {
    pub const NONE: Self = Self { places: 0, gpus: 0, memory: 0 };

    pub fn add(&mut self, demand: &Demand) {
        self.places += u64::from(demand.places());
        self.gpus += u64::from(demand.gpus);
        self.memory = self.memory.saturating_add(demand.memory);
    }

    pub fn remove(&mut self, demand: &Demand) {
        self.places -= u64::from(demand.places());
        self.gpus -= u64::from(demand.gpus);
        self.memory = self.memory.saturating_sub(demand.memory);
    }
}

impl Core {
    /// Sends all that some peer has everything for.
    pub(super) fn send_demanding(&mut self, port: &mut impl Port) {
        while self.send_some_demanding(port) {}
    }

    /// Looks at the first few; says whether one was sent.
    fn send_some_demanding(&mut self, port: &mut impl Port) -> bool {
        let mut short = Kinds::default();
        let waiting: Vec<u32> = self.demands.queue.iter(&self.tasks).take(LOOKS_MAX).collect();
        let mut is_any_sent = false;
        for index in waiting {
            let kinds = Kinds::of(&self.demand(index));
            if short.meets(kinds) {
                continue;
            }
            is_any_sent |= match self.choose_peer_with(index) {
                Some(place) => self.send_demanding_to(place, index, port),
                None => {
                    short.add(kinds);
                    false
                }
            };
        }
        is_any_sent
    }

    fn send_demanding_to(&mut self, place: usize, index: u32, port: &mut impl Port) -> bool {
        self.dequeue_demanding(index);
        self.tasks[index].state = State::Loose;
        let is_sent = self.send_away(place, index, port) == Placed::Done;
        if !is_sent {
            self.queue_demanding(index, true);
        }
        is_sent
    }

    /// Of the peers that have what a task needs the one of whose workers the fewest are taken so.
    fn choose_peer_with(&self, index: u32) -> Option<usize> {
        let demand = self.demand(index);
        let run_ns = self.functions[self.tasks[index].function.0 as usize].mean_ns();
        let fits = |place: &usize| {
            let peer = self.peers.get(*place);
            peer.is_joined
                && !peer.is_draining
                && !peer.is_congested
                && !peer.trust.is_lost
                && peer.has_left(&demand)
                && peer.has_time_for(run_ns, self.now)
        };
        (0..self.peers.end()).filter(fits).min_by_key(|&place| {
            let peer = self.peers.get(place);
            let workers = u64::from(peer.offer.workers.max(1));
            (peer.taken.places * 1000 / workers, peer.backlog_ns / workers)
        })
    }

    /// Whether some peer could run a task if it had nothing else to do.
    pub(crate) fn has_able_peer(&self, demand: &Demand) -> bool {
        let peers = (0..self.peers.end()).map(|place| self.peers.get(place));
        peers.filter(|peer| peer.is_joined).any(|peer| peer.offer.covers(demand, &Taken::NONE))
    }
}

impl crate::PeerOffer {
    /// Whether there is enough for one more task.
    pub(crate) fn covers(&self, demand: &Demand, taken: &Taken) -> bool {
        taken.places + u64::from(demand.places()) <= u64::from(self.workers)
            && taken.memory.saturating_add(demand.memory) <= self.memory
            && taken.gpus + u64::from(demand.gpus) <= u64::from(self.gpus) * u64::from(WHOLE_GPU)
    }
}
