//! Results that the peers which sent the tasks have not received yet.

use std::collections::BTreeMap;

use gristmill_wire::{Digest, PeerId};

/// Results that peers have not received yet, each with the number of answers to the peer that name it.
#[derive(Debug, Default)]
pub(crate) struct RetainedResults(BTreeMap<(Digest, PeerId), usize>);

/// Peers for which a result is still kept, after one peer has received it for one answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum RetainedFor {
    /// It is kept for this peer, or was not kept for it at all.
    It,
    /// It is kept for other peers.
    Others,
    /// It is kept for no peer.
    NoPeer,
}

impl RetainedResults {
    /// Records that a result is named in one more answer to a peer.
    pub fn note(&mut self, digest: Digest, peer: PeerId) {
        *self.0.entry((digest, peer)).or_insert(0) += 1;
    }

    /// Records that a peer has received a result, for one answer.
    pub fn let_go(&mut self, digest: Digest, peer: PeerId) -> RetainedFor {
        let Some(answers) = self.0.get_mut(&(digest, peer)) else { return RetainedFor::It };
        *answers -= 1;
        if *answers > 0 {
            return RetainedFor::It;
        }
        self.0.remove(&(digest, peer));
        if self.is_retained(digest) { RetainedFor::Others } else { RetainedFor::NoPeer }
    }

    /// Removes a peer that is gone. Returns the results that are kept for no peer any more.
    pub fn forget(&mut self, peer: PeerId) -> Vec<Digest> {
        let its = self.0.keys().filter(|(_, one)| *one == peer);
        let mut digests: Vec<_> = its.map(|&(digest, _)| digest).collect();
        self.0.retain(|(_, one), _| *one != peer);
        digests.retain(|&digest| !self.is_retained(digest));
        digests
    }

    fn is_retained(&self, digest: Digest) -> bool {
        let range = (digest, PeerId(0))..=(digest, PeerId(u16::MAX));
        self.0.range(range).next().is_some()
    }

    /// Returns the number of pairs of a result and a peer.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEERS: [PeerId; 2] = [PeerId(0), PeerId(9)];

    #[test]
    fn a_result_is_kept_until_each_peer_has_it_for_each_answer() {
        let digest = Digest([1; 32]);
        let mut kept = RetainedResults::default();
        assert_eq!(kept.let_go(digest, PEERS[0]), RetainedFor::It, "it was not asked for");
        [0, 0, 1].into_iter().for_each(|place| kept.note(digest, PEERS[place]));
        assert_eq!(kept.let_go(digest, PEERS[0]), RetainedFor::It);
        assert_eq!(kept.let_go(digest, PEERS[0]), RetainedFor::Others);
        assert_eq!(
            kept.let_go(digest, PEERS[0]),
            RetainedFor::It,
            "a peer releases only its own results"
        );
        assert_eq!(kept.let_go(digest, PEERS[1]), RetainedFor::NoPeer);
        assert_eq!(kept.len(), 0);
    }

    #[test]
    fn nothing_is_kept_for_a_peer_that_is_gone() {
        let [both, its] = [1, 2].map(|seed| Digest([seed; 32]));
        let mut kept = RetainedResults::default();
        PEERS.into_iter().for_each(|peer| kept.note(both, peer));
        kept.note(its, PEERS[0]);
        assert_eq!(kept.forget(PEERS[0]), [its]);
        assert_eq!((kept.len(), kept.forget(PEERS[1])), (1, vec![both]));
    }
}
