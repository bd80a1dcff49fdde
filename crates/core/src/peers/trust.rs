//! Peers whose workers die again and again while those of others do not: a broken disk, a full one, a bad GPU. They get
//! nothing for a while, longer each time.
//!
//! A function that kills workers does so everywhere, and costs no peer its trust.

use gristmill_wire::PeerId;

use super::table::peer_id;
use crate::port::Port;
use crate::{Config, Core};

/// What is known of a peer's workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Trust {
    /// It gets nothing until `until`.
    pub is_lost: bool,
    until: u64,
    pause_ns: u64,
    /// Workers that died since the last task succeeded there, and since the last worker died elsewhere.
    row: u32,
    /// Workers that died there.
    deaths: u64,
    /// Workers of others that had died when the row began.
    elsewhere: u64,
}

impl Trust {
    pub const WHOLE: Self =
        Self { is_lost: false, until: 0, pause_ns: 0, row: 0, deaths: 0, elsewhere: 0 };

    /// A task succeeded.
    #[inline]
    pub fn confirm(&mut self) {
        if self.row > 0 {
            self.row = 0;
            self.pause_ns = 0;
        }
    }

    /// A worker died; says whether that is one too many, with so many deaths everywhere.
    fn note_death(&mut self, everywhere: u64, config: &Config) -> bool {
        let elsewhere = everywhere - self.deaths;
        self.deaths += 1;
        if elsewhere != self.elsewhere {
            self.elsewhere = elsewhere;
            self.row = 0;
        }
        self.row = self.row.saturating_add(1);
        // What is still there dies too, and says nothing new.
        self.row >= config.peer_deaths_max && !self.is_lost
    }

    fn lose(&mut self, now: u64, config: &Config) {
        let (first, longest) = config.distrust_ns;
        self.pause_ns = self.pause_ns.saturating_mul(2).clamp(first, longest);
        self.until = now.saturating_add(self.pause_ns);
        self.is_lost = true;
    }

    /// One more death, and it is lost again: whatever has died elsewhere meanwhile.
    const fn regain(&mut self, everywhere: u64, config: &Config) {
        self.is_lost = false;
        self.elsewhere = everywhere - self.deaths;
        self.row = config.peer_deaths_max.saturating_sub(1);
    }
}

impl Core {
    /// Notes that a worker of a peer died while it ran a task.
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

    /// Whether somebody else could run tasks.
    fn has_trusted_beside(&self, place: usize) -> bool {
        (0..self.peers.end()).filter(|&other| other != place).any(|other| {
            let peer = self.peers.get(other);
            peer.is_joined && !peer.is_draining && !peer.trust.is_lost && peer.offer.workers > 0
        })
    }

    /// When a peer is trusted again, if that matters to anybody.
    pub(crate) fn next_trust(&self) -> Option<u64> {
        if self.peers.distrusted == 0 || self.waiting_count() == 0 {
            return None;
        }
        self.distrusted().map(|place| self.peers.get(place).trust.until).min()
    }

    fn distrusted(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.peers.end()).filter(|&place| self.peers.get(place).trust.is_lost)
    }

    /// Trusts those again whose time is over; all of them, if there is nobody else.
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
            self.demands.search.grow(place);
        }
    }

    /// Whether a peer gets nothing because its workers died again and again.
    #[must_use]
    pub fn is_distrusted(&self, peer: PeerId) -> bool {
        self.joined_peer(peer).is_some_and(|place| self.peers.get(place).trust.is_lost)
    }
}
