//! Results that whoever asked for their tasks does not have yet.

use std::collections::BTreeMap;

use gristmill_wire::{Digest, PeerId};

/// Results that peers do not have yet, each with how many answers to its peer name it.
#[derive(Debug, Default)]
pub(crate) struct Kept(BTreeMap<(Digest, PeerId), usize>);

/// For whom a result is still kept once a peer has it for one answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum KeptFor {
    /// It is kept for this peer, or was not.
    It,
    /// It is kept for others.
    Others,
    /// It is kept for nobody.
    Nobody,
}

impl Kept {
    /// A result is named in one more answer to a peer.
    pub fn note(&mut self, digest: Digest, peer: PeerId) {
        *self.0.entry((digest, peer)).or_insert(0) += 1;
    }

    /// A peer has a result, for one answer.
    pub fn let_go(&mut self, digest: Digest, peer: PeerId) -> KeptFor {
        let Some(answers) = self.0.get_mut(&(digest, peer)) else { return KeptFor::It };
        *answers -= 1;
        if *answers > 0 {
            return KeptFor::It;
        }
        self.0.remove(&(digest, peer));
        if self.is_kept(digest) { KeptFor::Others } else { KeptFor::Nobody }
    }

    /// A peer is gone: what is kept for nobody any more.
    pub fn forget(&mut self, peer: PeerId) -> Vec<Digest> {
        let its = self.0.keys().filter(|(_, one)| *one == peer);
        let mut digests: Vec<_> = its.map(|&(digest, _)| digest).collect();
        self.0.retain(|(_, one), _| *one != peer);
        digests.retain(|&digest| !self.is_kept(digest));
        digests
    }

    fn is_kept(&self, digest: Digest) -> bool {
        let range = (digest, PeerId(0))..=(digest, PeerId(u16::MAX));
        self.0.range(range).next().is_some()
    }

    /// How many there are.
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
        let mut kept = Kept::default();
        assert_eq!(kept.let_go(digest, PEERS[0]), KeptFor::It, "it was not asked for");
        [0, 0, 1].into_iter().for_each(|place| kept.note(digest, PEERS[place]));
        assert_eq!(kept.let_go(digest, PEERS[0]), KeptFor::It);
        assert_eq!(kept.let_go(digest, PEERS[0]), KeptFor::Others);
        assert_eq!(kept.let_go(digest, PEERS[0]), KeptFor::It, "nobody lets go for others");
        assert_eq!(kept.let_go(digest, PEERS[1]), KeptFor::Nobody);
        assert_eq!(kept.len(), 0);
    }

    #[test]
    fn nothing_is_kept_for_a_peer_that_is_gone() {
        let [both, its] = [1, 2].map(|seed| Digest([seed; 32]));
        let mut kept = Kept::default();
        PEERS.into_iter().for_each(|peer| kept.note(both, peer));
        kept.note(its, PEERS[0]);
        assert_eq!(kept.forget(PEERS[0]), [its]);
        assert_eq!((kept.len(), kept.forget(PEERS[1])), (1, vec![both]));
    }
}
