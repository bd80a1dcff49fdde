//! Blobs that are sent to one link's other end, a piece of each in turn.

use std::collections::VecDeque;

use gristmill_wire::Digest;
use gristmill_wire::peer::Piece;

use super::source::BlobSource;

/// Blob that is being sent.
#[derive(Debug)]
struct Feed {
    digest: Digest,
    source: BlobSource,
    offset: u64,
}

/// Blobs that are sent to one link's other end.
#[derive(Debug, Default)]
pub struct OutboundBlobs(VecDeque<Feed>);

impl OutboundBlobs {
    /// Returns true if there is nothing to send.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sends a blob from its byte `offset` on. Replaces an earlier transfer of the same blob.
    pub fn give(&mut self, digest: Digest, source: impl Into<BlobSource>, offset: u64) {
        self.cease(digest);
        self.0.push_back(Feed { digest, source: source.into(), offset });
    }

    /// Returns the byte up to which a blob was sent; `None` if it is not being sent.
    #[must_use]
    pub fn given(&self, digest: Digest) -> Option<u64> {
        self.0.iter().find(|feed| feed.digest == digest).map(|feed| feed.offset)
    }

    /// Stops sending a blob.
    pub fn cease(&mut self, digest: Digest) {
        self.0.retain(|feed| feed.digest != digest);
    }

    /// Appends the next piece to `out`, with at most `size_max` bytes of the blob. Returns the number of these bytes, or
    /// `None` if there is nothing to send.
    pub fn next_piece(&mut self, out: &mut Vec<u8>, size_max: usize) -> Option<u64> {
        let mut feed = self.0.pop_front()?;
        let left = feed.source.size().saturating_sub(feed.offset);
        let count = left.min(size_max as u64);
        let size = usize::try_from(count).unwrap_or(0);
        Piece::write(out, (feed.digest, feed.offset), size, |space| {
            feed.source.read_at(feed.offset, space);
        });
        feed.offset += count;
        if count < left {
            self.0.push_back(feed);
        }
        Some(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gristmill_shm::ClientArena;
    use gristmill_wire::peer::{MessageKind, Messages};

    #[test]
    fn blobs_take_turns_and_come_whole() {
        let arena = ClientArena::create(0).expect("an arena");
        let bytes = |seed: u8| vec![seed; 300_000];
        let mut feeds = OutboundBlobs::default();
        for seed in [1, 2] {
            feeds.give(Digest([seed; 32]), arena.store(&bytes(seed)).expect("a block"), 0);
        }
        feeds.give(Digest([2; 32]), arena.store(&bytes(2)).expect("a block"), 299_999);
        assert_eq!(
            [1, 2, 3].map(|seed| feeds.given(Digest([seed; 32]))),
            [Some(0), Some(299_999), None]
        );
        let (mut order, mut count) = (Vec::new(), [0; 3]);
        let mut out = Vec::new();
        while feeds.next_piece(&mut out, 128 << 10).is_some() {
            let (kind, body) = Messages::new(&out).next().expect("one").expect("whole");
            assert_eq!(kind, MessageKind::Piece);
            let piece = Piece::read(body).expect("it decodes");
            let seed = piece.digest.0[0];
            assert!(piece.bytes.iter().all(|&byte| byte == seed));
            order.push(seed);
            count[usize::from(seed)] += piece.bytes.len();
            out.clear();
        }
        assert_eq!((order, count), (vec![1, 2, 1, 1], [0, 300_000, 1]));
    }
}
