//! Health of peers. If the workers of one peer die repeatedly while those of other peers do not, the cause may be a
//! broken or full disk, or a bad GPU. Such a peer is distrusted: it gets no tasks for a while, longer each time.
//!
//! A function that kills workers does so at every peer, and makes no peer distrusted.

use gristmill_wire::PeerId;

use super::table::peer_id;
use crate::port::Port;
use crate::{Config, Core};

/// Health of a peer's workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PeerHealth {
    /// True if the peer gets no tasks until `until`.
    pub is_lost: bool,
    until: u64,
    pause_ns: u64,
    /// Workers that died in a row: since the last task succeeded there, and since the last worker died at another peer.
    row: u32,
    /// Workers that died there.
    deaths: u64,
    /// Workers of other peers that had died when the row began.
    elsewhere: u64,
}

impl PeerHealth {
    pub const WHOLE: Self =
        Self { is_lost: false, until: 0, pause_ns: 0, row: 0, deaths: 0, elsewhere: 0 };

    /// Ends the row of deaths, because a task succeeded.
    #[inline]
    pub fn confirm(&mut self) {
        if self.row > 0 {
            self.row = 0;
            self.pause_ns = 0;
        }
    }

    /// Counts the death of a worker, after `everywhere` deaths at all peers. Returns true if the peer must be distrusted
    /// now.
    fn note_death(&mut self, everywhere: u64, config: &Config) -> bool {
        let elsewhere = everywhere - self.deaths;
        self.deaths += 1;
        if elsewhere != self.elsewhere {
            self.elsewhere = elsewhere;
            self.row = 0;
        }
        self.row = self.row.saturating_add(1);
        // The remaining workers of a distrusted peer die too; their deaths are no new evidence.
        self.row >= config.peer_deaths_max && !self.is_lost
    }

    fn lose(&mut self, now: u64, config: &Config) {
        let (first, longest) = config.distrust_ns;
        self.pause_ns = self.pause_ns.saturating_mul(2).clamp(first, longest);
        self.until = now.saturating_add(self.pause_ns);
        self.is_lost = true;
    }

    /// Trusts the peer again. One more death makes it distrusted again, whatever died elsewhere during the pause.
    const fn regain(&mut self, everywhere: u64, config: &Config) {
        self.is_lost = false;
        self.elsewhere = everywhere - self.deaths;
        self.row = config.peer_deaths_max.saturating_sub(1);
    }
}

impl Core {
    /// Records that a worker of a peer died while it ran a task.
    #[cold]
    pub(crate) fn note_death_at(&mut self, place: usize, port: &mut impl Port) {
        let everywhere = self.peers.deaths;
        self.peers.deaths += 1;
        let is_too_many = self.peers.get_mut(place).trust.note_death(everywhere, &self.config);
        if is_too_many && self.has_trusted_beside(place) {
            self.peers.distrusted += 1;
            let peer = self.peers.get_mut(place);
            peer.trust.lose(self.now, &self.config);
            peer.is_recalled = true;
            self.peers.settle(place, &self.config);
            port.recall_from_peer(peer_id(place), u32::MAX);
        }
    }

    /// Returns true if another peer is trusted and could run tasks.
    fn has_trusted_beside(&self, place: usize) -> bool {
        (0..self.peers.end()).filter(|&other| other != place).any(|other| {
            let peer = self.peers.get(other);
            peer.is_joined && !peer.is_draining && !peer.trust.is_lost && peer.offer.workers > 0
        })
    }

    /// Returns when the first distrusted peer is trusted again; `None` if no task waits for that.
    pub(crate) fn next_trust(&self) -> Option<u64> {
        if self.peers.distrusted == 0 || self.waiting_count() == 0 {
            return None;
        }
        self.distrusted().map(|place| self.peers.get(place).trust.until).min()
    }

    fn distrusted(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.peers.end()).filter(|&place| self.peers.get(place).trust.is_lost)
    }

    /// Trusts the peers again whose pause is over, or all peers if no trusted one is left.
    pub(crate) fn regain_trust(&mut self) {
        if self.peers.distrusted == 0 {
            return;
        }
        let is_alone = !self.has_trusted_beside(usize::MAX);
        let is_over = |place: &usize| is_alone || self.peers.get(*place).trust.until <= self.now;
        let places: Vec<usize> = self.distrusted().filter(is_over).collect();
        let everywhere = self.peers.deaths;
        for place in places {
            self.peers.get_mut(place).trust.regain(everywhere, &self.config);
            self.peers.distrusted -= 1;
            self.peers.settle(place, &self.config);
            self.note_room(place);
        }
    }

    /// Returns true if a peer gets no tasks because its workers died repeatedly.
    #[must_use]
    pub fn is_distrusted(&self, peer: PeerId) -> bool {
        self.joined_peer(peer).is_some_and(|place| self.peers.get(place).trust.is_lost)
    }
}
