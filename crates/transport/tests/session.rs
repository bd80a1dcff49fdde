//! Two sessions over connections that are cut at any point, and the claims that a session refuses.

use std::collections::VecDeque;

use gristmill_transport::{
    ChunkHead, EnqueueOutcome, OutboundChunk, ReceiveStatus, Session, SessionError, SessionOptions,
};
use proptest::prelude::*;

/// The kind of a chunk that only states what has been received; numbered chunks have kind `BODY`.
const STATE: u8 = 1;
const BODY: u8 = 2;

const OPTIONS: SessionOptions = SessionOptions {
    unacknowledged_bytes_max: 100,
    unacknowledged_chunks_max: 8,
    acknowledge_bytes: 40,
    acknowledge_chunks: 4,
};

fn numbered(sequence: u64) -> ChunkHead {
    ChunkHead { kind: BODY, sequence, acknowledged: 0 }
}

fn acknowledging(acknowledged: u64) -> ChunkHead {
    ChunkHead { kind: STATE, sequence: 0, acknowledged }
}

/// Returns a session that has sent `count` chunks of one byte.
fn having_sent(count: u8) -> Session<Vec<u8>> {
    let mut session = Session::new(OPTIONS);
    for number in 1..=count {
        assert_eq!(session.submit(BODY, vec![number]), EnqueueOutcome::Taken(u64::from(number)));
        assert!(session.next_outgoing().is_some());
    }
    session
}

#[test]
fn chunks_are_numbered_from_one_and_given_once() {
    let mut session = Session::new(OPTIONS);
    assert!(session.next_outgoing().is_none() && !session.has_outgoing());
    assert_eq!(session.submit(BODY, b"one".to_vec()), EnqueueOutcome::Taken(1));
    assert_eq!(session.submit(9, b"two".to_vec()), EnqueueOutcome::Taken(2));
    assert!(session.has_outgoing());
    let head = ChunkHead { kind: BODY, sequence: 1, acknowledged: 0 };
    assert_eq!(session.next_outgoing(), Some(OutboundChunk { head, body: b"one" }));
    assert_eq!(session.accept(&numbered(1), 5), Ok(ReceiveStatus::Fresh));
    let head = ChunkHead { kind: 9, sequence: 2, acknowledged: 1 };
    assert_eq!(session.next_outgoing(), Some(OutboundChunk { head, body: b"two" }));
    assert!(session.next_outgoing().is_none());
    assert_eq!((session.unacknowledged_chunks(), session.unacknowledged_bytes()), (2, 6));
}

#[test]
fn acknowledged_chunks_are_dropped() {
    let mut session = having_sent(3);
    assert_eq!(session.accept(&acknowledging(2), 0), Ok(ReceiveStatus::Unnumbered));
    assert_eq!((session.unacknowledged_chunks(), session.acknowledged()), (1, 2));
    // An older count changes nothing.
    assert_eq!(session.accept(&acknowledging(1), 0), Ok(ReceiveStatus::Unnumbered));
    assert_eq!((session.unacknowledged_chunks(), session.last_submitted()), (1, 3));
}

#[test]
fn arrivals_are_fresh_once() {
    let mut session = Session::<Vec<u8>>::new(OPTIONS);
    assert_eq!(session.accept(&numbered(1), 1), Ok(ReceiveStatus::Fresh));
    assert_eq!(session.accept(&numbered(2), 1), Ok(ReceiveStatus::Fresh));
    assert_eq!(session.accept(&numbered(1), 1), Ok(ReceiveStatus::Duplicate));
    assert_eq!(session.accept(&numbered(2), 1), Ok(ReceiveStatus::Duplicate));
    let gap = SessionError::Gap { found: 4, expected: 3 };
    assert_eq!(session.accept(&numbered(4), 1), Err(gap));
    assert_eq!(session.received(), 2);
}

#[test]
fn an_acknowledgement_is_due_after_bytes_or_chunks() {
    let mut session = Session::<Vec<u8>>::new(OPTIONS);
    for sequence in 1..=3 {
        assert_eq!(session.accept(&numbered(sequence), 1), Ok(ReceiveStatus::Fresh));
        assert!(!session.acknowledgement_is_due() && session.owes_acknowledgement());
    }
    assert_eq!(session.accept(&numbered(4), 1), Ok(ReceiveStatus::Fresh));
    assert!(session.acknowledgement_is_due());
    assert_eq!(session.unnumbered(STATE), acknowledging(4));
    assert!(!session.acknowledgement_is_due() && !session.owes_acknowledgement());
    assert_eq!(session.accept(&numbered(5), 40), Ok(ReceiveStatus::Fresh));
    assert!(session.acknowledgement_is_due());
    // A chunk in the other direction acknowledges as well.
    assert_eq!(session.submit(BODY, Vec::new()), EnqueueOutcome::Taken(1));
    assert_eq!(session.next_outgoing().map(|next| next.head.acknowledged), Some(5));
    assert!(!session.acknowledgement_is_due());
}

#[test]
fn a_session_that_keeps_too_much_takes_no_more() {
    let mut by_size = Session::new(OPTIONS);
    assert_eq!(by_size.submit(BODY, vec![0; 1000]), EnqueueOutcome::Taken(1), "one of any size");
    assert_eq!(by_size.submit(BODY, vec![7]), EnqueueOutcome::Full(vec![7]));
    let mut by_count = having_sent(8);
    assert_eq!(by_count.submit(BODY, vec![7]), EnqueueOutcome::Full(vec![7]));
    assert_eq!(by_count.accept(&acknowledging(1), 0), Ok(ReceiveStatus::Unnumbered));
    assert_eq!(by_count.submit(BODY, vec![7]), EnqueueOutcome::Taken(9));
}

#[test]
fn a_resumed_session_gives_again_what_the_peer_lacks() {
    let mut session = having_sent(3);
    assert_eq!(session.submit(BODY, vec![4]), EnqueueOutcome::Taken(4));
    assert_eq!(session.accept(&acknowledging(1), 0), Ok(ReceiveStatus::Unnumbered));
    assert_eq!(session.resume(2), Ok(2));
    let again: Vec<_> =
        std::iter::from_fn(|| session.next_outgoing().map(|next| next.head.sequence)).collect();
    assert_eq!(again, [3, 4]);
    assert_eq!(session.resume(4), Ok(0));
}

#[test]
fn claims_that_cannot_be_are_refused_and_change_nothing() {
    let mut session = having_sent(3);
    assert_eq!(session.submit(BODY, vec![4]), EnqueueOutcome::Taken(4));
    let never_sent = SessionError::NeverSent { claimed: 4, sent: 3 };
    assert_eq!(session.resume(4), Err(never_sent));
    assert_eq!(session.accept(&acknowledging(4), 0), Err(never_sent));
    let liar = ChunkHead { kind: BODY, sequence: 1, acknowledged: u64::MAX };
    assert!(matches!(session.accept(&liar, 1), Err(SessionError::NeverSent { .. })));
    assert_eq!(session.received(), 0);
    assert_eq!(session.accept(&acknowledging(2), 0), Ok(ReceiveStatus::Unnumbered));
    assert_eq!(session.resume(1), Err(SessionError::Forgotten { claimed: 1, acknowledged: 2 }));
    assert_eq!((session.unacknowledged_chunks(), session.next_outgoing().is_some()), (2, true));
}

/// One side: a session, the bodies it will send, and the bodies it received as fresh.
struct Side {
    session: Session<Vec<u8>>,
    waiting: VecDeque<Vec<u8>>,
    fresh: Vec<Vec<u8>>,
    /// True if the peer has stated on this connection what it has received.
    is_resumed: bool,
    /// Chunks on their way to the other side.
    line: VecDeque<(ChunkHead, Vec<u8>)>,
    /// Chunks of the previous connection, which the other side may still read.
    old_line: VecDeque<(ChunkHead, Vec<u8>)>,
}

impl Side {
    fn new(bodies: &[Vec<u8>]) -> Self {
        let waiting = bodies.iter().cloned().collect();
        let (line, old_line) = (VecDeque::new(), VecDeque::new());
        let session = Session::new(OPTIONS);
        Self { session, waiting, fresh: Vec::new(), is_resumed: false, line, old_line }
    }

    /// Begins a connection by stating what has been received. The chunks on the old connection may be lost.
    fn connect(&mut self) {
        self.old_line = std::mem::take(&mut self.line);
        self.is_resumed = false;
        self.line.push_back((self.session.unnumbered(STATE), Vec::new()));
    }

    fn submit(&mut self) {
        if let Some(body) = self.waiting.pop_front()
            && let EnqueueOutcome::Full(body) = self.session.submit(BODY, body)
        {
            self.waiting.push_front(body);
        }
    }

    fn send(&mut self) {
        if !self.is_resumed {
            return;
        }
        if self.session.acknowledgement_is_due() {
            self.line.push_back((self.session.unnumbered(STATE), Vec::new()));
        }
        if let Some(OutboundChunk { head, body }) = self.session.next_outgoing() {
            self.line.push_back((head, body.to_vec()));
        }
    }

    fn receive(&mut self, (head, body): (ChunkHead, Vec<u8>)) {
        if !self.is_resumed {
            let resumed = self.session.resume(head.acknowledged);
            resumed.expect("the other side is the other end");
            self.is_resumed = true;
        }
        self.accept((head, body));
    }

    fn accept(&mut self, (head, body): (ChunkHead, Vec<u8>)) {
        match self.session.accept(&head, body.len()).expect("the other side keeps to the protocol")
        {
            ReceiveStatus::Fresh => self.fresh.push(body),
            ReceiveStatus::Duplicate | ReceiveStatus::Unnumbered => {}
        }
        assert!(self.session.unacknowledged_bytes() <= OPTIONS.unacknowledged_bytes_max);
    }
}

/// Performs one of the possible events.
fn happen(sides: &mut [Side; 2], what: u8) {
    let [one, other] = sides;
    match what {
        0 => one.submit(),
        1 => other.submit(),
        2 => one.send(),
        3 => other.send(),
        4 | 5 => {
            let (from, to) = if what == 4 { (one, other) } else { (other, one) };
            if let Some(chunk) = from.line.pop_front() {
                to.receive(chunk);
            }
        }
        6 | 7 => {
            let (from, to) = if what == 6 { (one, other) } else { (other, one) };
            if let Some(chunk) = from.old_line.pop_front() {
                to.accept(chunk);
            }
        }
        _ => {
            one.connect();
            other.connect();
        }
    }
}

fn bodies() -> impl Strategy<Value = Vec<Vec<u8>>> {
    prop::collection::vec(prop::collection::vec(any::<u8>(), 0..30), 0..30)
}

proptest! {
    #[test]
    fn everything_arrives_once_and_in_order_however_often_the_line_is_cut(
        from_one in bodies(),
        from_other in bodies(),
        // Cuts are rarer than the events that they interrupt.
        happenings in prop::collection::vec(prop_oneof![30 => 0_u8..8, 1 => Just(8_u8)], 0..400),
    ) {
        let mut sides = [Side::new(&from_one), Side::new(&from_other)];
        for what in happenings {
            happen(&mut sides, what);
        }
        // The last connection holds.
        happen(&mut sides, 8);
        let count = 8 * (from_one.len() + from_other.len()) + 8;
        for _ in 0..count {
            for what in 0..6 {
                happen(&mut sides, what);
            }
            // Each side finally sends the acknowledgement that it owes, as a heartbeat does.
            for side in &mut sides {
                if side.is_resumed && side.session.owes_acknowledgement() {
                    side.line.push_back((side.session.unnumbered(STATE), Vec::new()));
                }
            }
        }
        prop_assert_eq!(&sides[1].fresh, &from_one);
        prop_assert_eq!(&sides[0].fresh, &from_other);
        prop_assert_eq!(sides[0].session.unacknowledged_chunks(), 0);
        prop_assert_eq!(sides[1].session.unacknowledged_chunks(), 0);
    }
}
