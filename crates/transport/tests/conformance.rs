//! The behaviour of every channel: one suite, run for each kind.

mod support;

use std::thread;

use gristmill_transport::{
    CHUNK_SIZE_MAX, Channel, ChannelError, ChunkHead, ENVELOPE_SIZE, Flushed, Interest, Ready,
    Sleeper, WakeReason,
};
use support::{ClientListens, Inproc, Kind, NodeListens, end_of, flush, head, receive};

const LIVES: &str = "the connection lives";

/// Returns bytes whose values depend on their position and on the seed.
fn pattern(size: usize, seed: u64) -> Vec<u8> {
    let words = (0_u64..).map(|index| (index ^ seed << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut bytes = Vec::with_capacity(size + 8);
    for word in words.take(size / 8 + 1) {
        bytes.extend_from_slice(&word.to_be_bytes());
    }
    bytes.truncate(size);
    bytes
}

/// Moves chunks from one end to the other until `count` have come.
fn move_all(
    (from, to): (&mut impl Channel, &mut impl Channel),
    count: usize,
) -> Vec<(ChunkHead, Vec<u8>)> {
    let (mut found, mut body) = (Vec::new(), Vec::new());
    while found.len() < count {
        let _ = from.flush().expect(LIVES);
        while let Some(head) = to.receive(&mut body).expect(LIVES) {
            found.push((head, std::mem::take(&mut body)));
        }
    }
    found
}

fn chunks_arrive_in_order_with_their_heads<K: Kind>() {
    let (mut one, mut other) = K::pair();
    let size = |sequence: u64| usize::try_from(sequence % 97).expect("it is small");
    let kind = |sequence: u64| sequence.to_le_bytes()[0];
    let head = |sequence| ChunkHead { kind: kind(sequence), sequence, acknowledged: sequence * 3 };
    for sequence in 1..=1000 {
        one.send(head(sequence), &pattern(size(sequence), sequence)).expect(LIVES);
    }
    let found = move_all((&mut one, &mut other), 1000);
    for (sequence, found) in (1..).zip(found) {
        assert_eq!(found, (head(sequence), pattern(size(sequence), sequence)));
    }
}

fn an_empty_chunk_arrives<K: Kind>() {
    let (mut one, mut other) = K::pair();
    one.send(head(1), b"").expect(LIVES);
    flush(&mut one);
    assert_eq!(receive(&mut other), (head(1), Vec::new()));
}

fn nothing_is_received_where_nothing_was_sent<K: Kind>() {
    let (mut one, mut other) = K::pair();
    let mut body = b"kept".to_vec();
    for _ in 0..3 {
        assert_eq!(one.receive(&mut body).expect(LIVES), None);
        assert_eq!(other.receive(&mut body).expect(LIVES), None);
    }
    assert_eq!(one.flush().expect(LIVES), Flushed::All);
    assert!(!one.wants_write() && one.interest() == Interest::Readable);
}

fn chunks_of_any_size_arrive<K: Kind>() {
    let (mut one, mut other) = K::pair();
    // Sizes around the borders of records and buffers.
    let mut sizes = vec![CHUNK_SIZE_MAX, 0];
    for border in [1 << 12, 1 << 14, 1 << 16, 1 << 18] {
        sizes.extend((border - 2 * ENVELOPE_SIZE..border + 2).step_by(7));
    }
    for (sequence, size) in (1..).zip(&sizes) {
        one.send(head(sequence), &pattern(*size, sequence)).expect(LIVES);
    }
    let found = move_all((&mut one, &mut other), sizes.len());
    for (sequence, (size, found)) in (1..).zip(sizes.iter().zip(found)) {
        assert_eq!((found.0, found.1.len()), (head(sequence), *size));
        assert!(found.1 == pattern(*size, sequence), "the bytes of {size} differ");
    }
}

fn a_chunk_that_is_too_large_is_refused_and_costs_nothing<K: Kind>() {
    let (mut one, mut other) = K::pair();
    let error = one.send(head(1), &vec![0; CHUNK_SIZE_MAX + 1]).expect_err("it is too large");
    let (size, limit) = (CHUNK_SIZE_MAX + 1, CHUNK_SIZE_MAX);
    assert!(
        matches!(error, ChannelError::TooLarge { size: s, limit: l } if (s, l) == (size, limit))
    );
    assert_eq!(one.unsent(), 0);
    one.send(head(1), b"small").expect(LIVES);
    flush(&mut one);
    assert_eq!(receive(&mut other), (head(1), b"small".to_vec()));
}

fn many_small_chunks_leave_in_one_flush<K: Kind>() {
    let (mut one, mut other) = K::pair();
    let before = one.sent_bytes();
    for sequence in 1..=2000 {
        one.send(head(sequence), b"12345678").expect(LIVES);
    }
    let size = 2000 * (ENVELOPE_SIZE + 8);
    assert_eq!((one.unsent(), one.sent_bytes()), (size, before), "send alone sends nothing");
    assert!(one.wants_write() && one.interest() == Interest::Both);
    flush(&mut one);
    let surplus = one.sent_bytes() - before - size as u64;
    assert!(surplus <= 4 * 32, "four records of 16 KiB, and not one for each chunk: {surplus}");
    assert_eq!((one.unsent(), one.wants_write()), (0, false));
    assert_eq!(move_all((&mut one, &mut other), 2000).len(), 2000);
}

fn a_peer_that_does_not_read_blocks_no_sender<K: Kind>() {
    let (mut one, mut other) = K::pair();
    let body = pattern(1 << 20, 1);
    let mut count = 0;
    while one.flush().expect(LIVES) == Flushed::All {
        count += 1;
        one.send(head(count), &body).expect(LIVES);
    }
    let unsent = one.unsent();
    for _ in 0..3 {
        count += 1;
        one.send(head(count), &body).expect(LIVES);
    }
    assert_eq!(one.unsent(), unsent + 3 * (body.len() + ENVELOPE_SIZE), "it gathers");
    let found = move_all((&mut one, &mut other), usize::try_from(count).expect("it is small"));
    assert!(found.iter().all(|(_, found)| *found == body));
    assert_eq!(one.flush().expect(LIVES), Flushed::All);
    assert_eq!(one.unsent(), 0);
}

/// Sends and receives `count` bodies in both directions at once, and sleeps in between.
fn exchange(mut channel: impl Channel, count: u64, size: usize) -> impl Channel {
    let (sleeper, mut ready) =
        (Sleeper::new().expect("there are descriptors"), Vec::<Ready>::new());
    let (mut sent, mut received, mut body) = (0, 0, Vec::new());
    while received < count || sent < count || channel.wants_write() {
        while sent < count && channel.unsent() < 1 << 20 {
            sent += 1;
            channel.send(head(sent), &pattern(size, sent)).expect(LIVES);
            let _ = channel.flush().expect(LIVES);
        }
        let _ = channel.flush().expect(LIVES);
        while let Some(found) = channel.receive(&mut body).expect(LIVES) {
            received += 1;
            assert_eq!(found, head(received));
            assert!(body == pattern(size, received));
        }
        let has_room = sent < count && !channel.wants_write();
        if !has_room && (received < count || channel.wants_write()) {
            sleeper.watch(channel.descriptor(), 1, channel.interest()).expect("it is open");
            assert_ne!(sleeper.sleep(&mut ready, None).expect("it sleeps"), WakeReason::TimedOut);
        }
    }
    channel
}

fn both_directions_at_once_do_not_lock_each_other<K: Kind>() {
    let (one, other) = K::pair();
    let other = thread::spawn(move || exchange(other, 20, 800_000));
    // Each end keeps its connection until the other end has received everything and has checked for more.
    let one = exchange(one, 20, 800_000);
    drop((one, other.join().expect("the other end has everything")));
}

fn counters_agree_between_the_ends<K: Kind>() {
    let (mut one, mut other) = K::pair();
    let (before, before_other) = (one.sent_bytes(), other.received_bytes());
    one.send(head(1), &pattern(100_000, 1)).expect(LIVES);
    assert_eq!(move_all((&mut one, &mut other), 1).len(), 1);
    let sent = one.sent_bytes() - before;
    assert_eq!(sent, other.received_bytes() - before_other);
    assert!(sent >= 100_000 + ENVELOPE_SIZE as u64);
    assert!(!one.peer().is_empty());
}

fn closing_in_order_delivers_everything_and_says_so<K: Kind>() {
    let (mut one, mut other) = K::pair();
    one.send(head(1), &pattern(50_000, 1)).expect(LIVES);
    one.close();
    one.close();
    assert!(one.wants_write());
    flush(&mut one);
    assert!(!one.wants_write());
    assert_eq!(receive(&mut other).1, pattern(50_000, 1));
    for _ in 0..2 {
        assert!(matches!(end_of(&mut other), ChannelError::Closed { .. }));
    }
    // The other direction is open until it is closed as well.
    other.send(head(1), b"answer").expect(LIVES);
    other.close();
    flush(&mut other);
    assert_eq!(receive(&mut one).1, b"answer");
    assert!(matches!(end_of(&mut one), ChannelError::Closed { .. }));
}

fn an_end_that_is_abandoned_is_a_loss<K: Kind>() {
    let (one, mut other) = K::pair();
    one.abandon();
    for _ in 0..2 {
        let error = end_of(&mut other);
        assert!(matches!(error, ChannelError::Lost { .. }) && error.is_retryable(), "{error}");
    }
}

fn what_was_flushed_before_a_loss_arrives<K: Kind>() {
    let (mut one, mut other) = K::pair();
    one.send(head(1), b"flushed").expect(LIVES);
    flush(&mut one);
    one.send(head(2), b"not flushed").expect(LIVES);
    drop(one);
    assert_eq!(receive(&mut other), (head(1), b"flushed".to_vec()));
    assert!(matches!(end_of(&mut other), ChannelError::Lost { .. }));
}

fn a_chunk_that_is_cut_off_does_not_arrive<K: Kind>() {
    let (mut one, mut other) = K::pair();
    one.send(head(1), &pattern(CHUNK_SIZE_MAX, 1)).expect(LIVES);
    let mut body = Vec::new();
    // A part of the chunk has certainly come.
    while other.received_bytes() < 1 << 19 {
        let _ = one.flush().expect(LIVES);
        assert_eq!(other.receive(&mut body).expect(LIVES), None);
    }
    assert!(one.unsent() > 0);
    drop(one);
    assert!(matches!(end_of(&mut other), ChannelError::Lost { .. }));
}

fn sending_without_a_peer_is_a_loss<K: Kind>() {
    let (mut one, other) = K::pair();
    drop(other);
    let error = loop {
        if let Err(error) = one.send(head(1), b"lost").and_then(|()| one.flush()) {
            break error;
        }
    };
    assert!(matches!(error, ChannelError::Lost { .. }), "{error}");
}

/// Defines each test of the suite for each kind.
macro_rules! conformance {
    ($($test:ident),* $(,)?) => {
        mod node_listens { $(#[test] fn $test() { super::$test::<super::NodeListens>(); })* }
        mod client_listens { $(#[test] fn $test() { super::$test::<super::ClientListens>(); })* }
        mod inproc { $(#[test] fn $test() { super::$test::<super::Inproc>(); })* }
    };
}

conformance!(
    chunks_arrive_in_order_with_their_heads,
    an_empty_chunk_arrives,
    nothing_is_received_where_nothing_was_sent,
    chunks_of_any_size_arrive,
    a_chunk_that_is_too_large_is_refused_and_costs_nothing,
    many_small_chunks_leave_in_one_flush,
    a_peer_that_does_not_read_blocks_no_sender,
    both_directions_at_once_do_not_lock_each_other,
    counters_agree_between_the_ends,
    closing_in_order_delivers_everything_and_says_so,
    an_end_that_is_abandoned_is_a_loss,
    what_was_flushed_before_a_loss_arrives,
    a_chunk_that_is_cut_off_does_not_arrive,
    sending_without_a_peer_is_a_loss,
);
