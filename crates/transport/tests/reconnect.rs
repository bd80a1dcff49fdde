//! Sessions over channels that are abandoned again and again. The tests show how to use both together, and that no chunk is
//! lost.

mod support;

use std::sync::Arc;

use gristmill_sync::random::Random;
use gristmill_transport::{
    Channel, ChannelError, EnqueueOutcome, OutboundChunk, ReceiveStatus, Session, SessionOptions,
};
use support::{ClientListens, Inproc, Kind, NodeListens};

/// The kind of a chunk that only states what has been received; all others have kind `BODY`.
const STATE: u8 = 0;
const BODY: u8 = 1;
const COUNT: u64 = 400;

const OPTIONS: SessionOptions = SessionOptions {
    unacknowledged_bytes_max: 200_000,
    unacknowledged_chunks_max: 50,
    acknowledge_bytes: 50_000,
    acknowledge_chunks: 10,
};

/// One side. It sends chunks that contain their numbers, and expects such chunks.
struct Side<C> {
    session: Session<Arc<[u8]>>,
    channel: C,
    submitted: u64,
    found: u64,
    is_resumed: bool,
}

impl<C: Channel> Side<C> {
    fn new(channel: C) -> Self {
        let session = Session::new(OPTIONS);
        let mut side = Self { session, channel, submitted: 0, found: 0, is_resumed: false };
        side.begin();
        side
    }

    fn reconnect(&mut self, channel: C) {
        std::mem::replace(&mut self.channel, channel).abandon();
        self.begin();
    }

    /// Begins a connection by stating what has been received.
    fn begin(&mut self) {
        self.is_resumed = false;
        let state = self.session.unnumbered(STATE);
        self.channel.send(state, b"").expect("it is new");
    }

    fn submit(&mut self, random: &mut Random) {
        if self.submitted == COUNT {
            return;
        }
        let size = if random.below(20) == 0 { 100_000 } else { random.below(2000) };
        let size = usize::try_from(size).expect("it is small");
        let mut body = (self.submitted + 1).to_le_bytes().to_vec();
        body.resize(8 + size, 0x55);
        if let EnqueueOutcome::Taken(sequence) = self.session.submit(BODY, body.into()) {
            self.submitted += 1;
            assert_eq!(sequence, self.submitted);
        }
    }

    fn send(&mut self) -> Result<(), ChannelError> {
        if self.is_resumed {
            while self.channel.unsent() < 60_000
                && let Some(OutboundChunk { head, body }) = self.session.next_outgoing()
            {
                self.channel.send(head, body)?;
            }
            if self.session.acknowledgement_is_due() {
                let state = self.session.unnumbered(STATE);
                self.channel.send(state, b"")?;
            }
        }
        self.channel.flush().map(drop)
    }

    /// Processes one chunk, if there is one.
    fn receive(&mut self) -> Result<(), ChannelError> {
        let mut body = Vec::new();
        let Some(head) = self.channel.receive(&mut body)? else { return Ok(()) };
        if !self.is_resumed {
            let resumed = self.session.resume(head.acknowledged);
            resumed.expect("the peer is the other end");
            self.is_resumed = true;
        }
        let arrival = self.session.accept(&head, body.len());
        if arrival.expect("the peer keeps to the protocol") == ReceiveStatus::Fresh {
            self.found += 1;
            assert_eq!(body[..8], self.found.to_le_bytes());
            assert!(body[8..].iter().all(|byte| *byte == 0x55));
        }
        Ok(())
    }
}

/// Lets both sides act at random. Sometimes the connection is abandoned, and both sides connect again.
fn survive<K: Kind>(seed: u64) {
    let mut random = Random::from_seed(seed);
    let (one, other) = K::pair();
    let mut sides = [Side::new(one), Side::new(other)];
    let mut cut_count = 0;
    while sides.iter().any(|side| side.found < COUNT) {
        let side = &mut sides[usize::from(random.next() & 1 == 0)];
        let done = match random.below(100) {
            0..30 => {
                side.submit(&mut random);
                Ok(())
            }
            30..60 => side.send(),
            60..99 => side.receive(),
            _ => {
                let (one, other) = K::pair();
                sides[0].reconnect(one);
                sides[1].reconnect(other);
                cut_count += 1;
                Ok(())
            }
        };
        done.expect("only this test cuts connections");
    }
    assert!(cut_count > 3, "{cut_count} cuts prove little");
    assert!(sides.iter().all(|side| side.session.received() == COUNT));
}

#[test]
fn sessions_survive_their_connections_where_the_node_listens() {
    (0..3).for_each(survive::<NodeListens>);
}

#[test]
fn sessions_survive_their_connections_where_the_client_listens() {
    (3..6).for_each(survive::<ClientListens>);
}

#[test]
fn sessions_survive_their_connections_within_one_process() {
    (6..16).for_each(survive::<Inproc>);
}
