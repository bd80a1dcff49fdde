//! Tests of peers that send without end.

use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use gristmill_transport::{Channel, ChannelError, ChunkHead, Flushed};

use super::intake::LinkWork as _;
use crate::workerless::{WorkerlessEngine, end};

/// A connection that always has another chunk to read, with these bytes and of this kind.
struct Flood {
    socket: UnixStream,
    kind: u8,
    bytes: Vec<u8>,
    sequence: u64,
}

impl Flood {
    fn of(kind: u8, bytes: Vec<u8>) -> Box<Self> {
        let (socket, _) = UnixStream::pair().expect("descriptors");
        Box::new(Self { socket, kind, bytes, sequence: 0 })
    }
}

impl Channel for Flood {
    fn send(&mut self, _: ChunkHead, _: &[u8]) -> Result<(), ChannelError> {
        Ok(())
    }

    fn flush(&mut self) -> Result<Flushed, ChannelError> {
        Ok(Flushed::All)
    }

    fn receive(&mut self, body: &mut Vec<u8>) -> Result<Option<ChunkHead>, ChannelError> {
        self.sequence += 1;
        body.clone_from(&self.bytes);
        Ok(Some(ChunkHead { kind: self.kind, sequence: self.sequence, acknowledged: 0 }))
    }

    fn close(&mut self) {}

    fn unsent(&self) -> usize {
        0
    }

    fn wants_write(&self) -> bool {
        false
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn peer(&self) -> &'static str {
        "the other end"
    }

    fn sent_bytes(&self) -> u64 {
        0
    }

    fn received_bytes(&self) -> u64 {
        self.sequence
    }
}

/// Asserts that other links are read in turn with a link that always has something to read.
fn others_have_their_turn(kind: u8, bytes: Vec<u8>) {
    let mut engine = WorkerlessEngine::new();
    engine.inner.attach(end("flood", Flood::of(kind, bytes), 0));
    let mut node = engine.join("n1", 1);
    let task = engine.submit_one();
    node.until_sent(&mut engine);
    node.answer_plainly();
    engine.until(&mut [&mut node], |inner| inner.is_final(task));
    assert!(engine.inner.port.links.has_more, "the flood goes on");
    assert!(engine.departures().is_empty());
}

#[test]
fn a_node_that_sends_without_end_leaves_others_their_turn() {
    let bytes = vec![0; 128 << 10];
    let mut piece = Vec::new();
    let (digest, size) = (gristmill_wire::Digest([7; 32]), bytes.len());
    gristmill_wire::peer::Piece::write(&mut piece, (digest, 0), size, |_| {});
    others_have_their_turn(super::link::WHOLE, piece);
}

#[test]
fn so_does_one_whose_message_has_no_end() {
    // The head of an answer of four gigabytes.
    let mut piece = u64::from(u32::MAX).to_le_bytes().to_vec();
    piece[4] = gristmill_wire::peer::MessageKind::Answer as u8;
    piece.extend([0; 8]);
    others_have_their_turn(super::link::PIECE, piece);
}
