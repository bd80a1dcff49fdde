//! Tests of the ring: records come out as they went in, for any sizes, on the heap and in shared memory. Arbitrary
//! writes of the other side never produce anything else.
#![cfg(not(gristmill_loom))]

use std::collections::VecDeque;

use gristmill_shm::{
    BeginError, Consumer, Corrupt, HeapWords, Producer, ProgressLine, RingLayout, Segment,
    SegmentOptions, TakeBack, Words,
};
use gristmill_sync::atomic::Ordering;
use gristmill_sync::barrier::BarrierMode;
use gristmill_sync::random::Random;
use gristmill_wire::{FrameError, RecordHeader, RecordKind, SlotId};
use proptest::prelude::*;

const CAPACITY: u32 = 4096;

fn heap_ring(capacity: u32) -> (Producer<HeapWords>, Consumer<HeapWords>, HeapWords) {
    let words = HeapWords::new(RingLayout::new(capacity).expect("a power of two"));
    (Producer::new(words.clone()), Consumer::new(words.clone()), words)
}

/// Bytes that differ from record to record.
fn body(size: usize, seed: u64) -> Vec<u8> {
    let mut random = Random::from_seed(seed);
    (0..size).map(|_| random.next().to_le_bytes()[0]).collect()
}

fn write<W: Words>(producer: &mut Producer<W>, bytes: &[u8]) -> Result<u64, BeginError> {
    let mut record = producer.begin(RecordKind::Task, 7, bytes.len())?;
    record.bytes(0, bytes);
    Ok(record.commit())
}

fn read_expecting<W: Words>(consumer: &mut Consumer<W>, sequence: u64, expected: &[u8]) {
    let record = consumer.peek().expect("no corruption").expect("a record is there");
    assert_eq!((record.sequence(), record.header().flags), (sequence, 7));
    assert!(!record.revoked());
    let mut found = Vec::new();
    let size = u32::try_from(expected.len()).expect("bodies are small");
    record.append_to(0, size, &mut found).expect("the body is that long");
    assert_eq!(found, expected);
    let _ = consumer.consume();
}

/// A step of a program over a ring.
#[derive(Debug, Clone)]
enum Step {
    Write(usize),
    Grow(usize),
    EndGrowing,
    Read(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0usize..1008).prop_map(Step::Write),
        4 => (0usize..64).prop_map(Step::Write),
        6 => (1usize..200).prop_map(Step::Grow),
        1 => Just(Step::EndGrowing),
        4 => (1usize..8).prop_map(Step::Read),
    ];
    prop::collection::vec(step, 1..300)
}

/// Both ends of a ring, and a model of the records in it.
struct Pair<W: Words> {
    producer: Producer<W>,
    consumer: Consumer<W>,
    /// Records that were committed and not read: their bodies, and true if they grew.
    queue: VecDeque<(Vec<u8>, bool)>,
    /// The parts of the growing record, padded, and the position up to which the ring is written.
    growing: Option<(Vec<u8>, u64)>,
    read: u64,
}

impl<W: Words> Pair<W> {
    fn run(&mut self, step: &Step, seed: u64) {
        match *step {
            Step::Write(size) => {
                let bytes = body(size, seed);
                let written = write(&mut self.producer, &bytes);
                self.growing_ended();
                match written {
                    Ok(_) => self.queue.push_back((bytes, false)),
                    Err(BeginError::Full { .. }) => assert!(!self.queue.is_empty(), "drained"),
                    Err(other) => panic!("{other}"),
                }
            }
            Step::Grow(size) => self.grow(&body(size, seed)),
            Step::EndGrowing => {
                self.producer.end_growing();
                self.growing_ended();
            }
            Step::Read(count) => {
                (0..count).for_each(|_| self.read());
                let _ = self.consumer.publish_tail();
            }
        }
    }

    fn growing_ended(&mut self) {
        self.queue.extend(self.growing.take().map(|(parts, _)| (parts, true)));
    }

    fn grow(&mut self, part: &[u8]) {
        let mut written = self.producer.grow(part);
        if written.is_none() {
            let begun = self.producer.begin_growing(RecordKind::Results, part.len().max(400));
            self.growing_ended();
            match begun {
                Ok(()) => written = self.producer.grow(part),
                Err(BeginError::Full { .. }) => return,
                Err(other) => panic!("{other}"),
            }
        }
        let (parts, position) = self.growing.get_or_insert_default();
        parts.extend_from_slice(part);
        parts.resize(parts.len().next_multiple_of(8), 0);
        *position = written.expect("it has room");
    }

    fn read(&mut self) {
        let Some((expected, has_grown)) = self.queue.pop_front() else { return self.look() };
        if has_grown {
            let record = self.consumer.peek().expect("no corruption").expect("it was ended");
            let mut found = Vec::new();
            record.append_parts(0, &mut found).expect("all of it");
            assert_eq!(found, expected);
            let _ = self.consumer.consume();
        } else {
            read_expecting(&mut self.consumer, self.read, &expected);
        }
        self.read += 1;
    }

    /// Reads the growing record after all committed ones were read.
    fn look(&mut self) {
        assert!(self.consumer.peek().expect("no corruption").is_none());
        let Some((parts, position)) = &self.growing else { return };
        let record =
            self.consumer.peek_growing(RecordKind::Results, *position).expect("no corruption");
        let mut found = Vec::new();
        record.expect("it grows").append_parts(0, &mut found).expect("all of it");
        assert_eq!(&found, parts);
    }
}

/// Runs a program and compares the ring with a queue.
fn compare<W: Words>(producer: Producer<W>, consumer: Consumer<W>, program: &[Step]) {
    let mut pair = Pair { producer, consumer, queue: VecDeque::new(), growing: None, read: 0 };
    (0..).zip(program).for_each(|(seed, step)| pair.run(step, seed));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_heap_ring_is_a_queue(program in steps()) {
        let (producer, consumer, _) = heap_ring(CAPACITY);
        compare(producer, consumer, &program);
    }

    #[test]
    fn a_mapped_ring_is_a_queue(program in steps()) {
        let options = SegmentOptions {
            slot_count: 1, task_ring_size: CAPACITY, result_ring_size: CAPACITY,
        };
        let segment = Segment::create(&options).expect("there is memory");
        let client = segment.client_ends(SlotId(0)).expect("slot 0 exists");
        let worker = segment.worker_ends(SlotId(0)).expect("slot 0 exists");
        compare(client.tasks, worker.tasks, &program);
    }

    /// Checks that arbitrary words of a hostile writer give records, an error or nothing, and that reading ends.
    #[test]
    fn a_reader_survives_any_bytes(
        words in prop::collection::vec(prop_oneof![
            any::<u64>(),
            (0u32..40, 0u8..20, 0u16..4).prop_map(|(size, kind, sequence)| {
                u64::from(size * 8) | (u64::from(kind) << 32) | (u64::from(sequence) << 48)
            }),
        ], 32),
        written: u64,
    ) {
        let (_, mut consumer, memory) = heap_ring(256);
        for (index, &word) in (0..).zip(&words) {
            memory.data(index).store(word, Ordering::Relaxed);
        }
        for _ in 0..1000 {
            if let Ok(Some(record)) = consumer.peek_growing(RecordKind::Results, written) {
                let mut parts = Vec::new();
                let _ = record.append_parts(8, &mut parts);
                prop_assert!(parts.len() <= 240);
            }
            let Ok(Some(record)) = consumer.peek() else { break };
            let size = record.body_size();
            prop_assert!(size <= 240);
            prop_assert!(record.append_to(0, size, &mut Vec::new()).is_ok());
            prop_assert!(record.read(size, &mut [0]).is_err());
            let _ = consumer.consume();
        }
    }

    #[test]
    fn any_part_of_a_body_can_be_read(size in 1usize..200, from in 0usize..200, count in 0usize..200) {
        let (mut producer, mut consumer, _) = heap_ring(CAPACITY);
        let bytes = body(size, 3);
        write(&mut producer, &bytes).expect("an empty ring has room");
        let record = consumer.peek().expect("no corruption").expect("a record is there");
        let mut found = vec![0; count];
        let offset = u32::try_from(from).expect("small");
        match record.read(offset, &mut found) {
            Ok(()) => {
                // `from` may lie in the padding after the body.
                let rest = bytes.get(from..).unwrap_or_default();
                let (known, padding) = found.split_at(rest.len().min(count));
                prop_assert_eq!(known, &rest[..known.len()]);
                prop_assert!(padding.iter().all(|&byte| byte == 0), "padding is zero");
            }
            Err(error) => {
                let found = size.next_multiple_of(8);
                prop_assert_eq!(error, FrameError::Truncated { needed: from + count, found });
            }
        }
    }
}

#[test]
fn a_body_beyond_a_quarter_of_the_ring_is_refused() {
    let (mut producer, _, _) = heap_ring(CAPACITY);
    assert_eq!(producer.max_body(), 1008);
    assert!(write(&mut producer, &[0; 1008]).is_ok());
    let error = write(&mut producer, &[0; 1009]).expect_err("it is too large");
    assert_eq!(error, BeginError::TooLarge { size: 1009, limit: 1008 });
    assert!(!error.is_retryable());
}

#[test]
fn a_full_ring_says_how_much_is_free_and_takes_records_again() {
    let (mut producer, mut consumer, _) = heap_ring(256);
    while write(&mut producer, &[1; 16]).is_ok() {}
    let error = write(&mut producer, &[1; 16]).expect_err("it is full");
    assert_eq!(error, BeginError::Full { size: 32, free: 32 });
    assert!(!producer.has_room(16));
    read_expecting(&mut consumer, 0, &[1; 16]);
    let _ = consumer.publish_tail();
    assert!(producer.has_room(16));
    assert_eq!(producer.free_bytes(), 64);
}

#[test]
fn a_tail_that_no_reader_stores_is_an_error() {
    let (mut producer, _, memory) = heap_ring(256);
    memory.tail().store(1 << 40, Ordering::Relaxed);
    let error = loop {
        if let Err(error) = write(&mut producer, &[1; 16]) {
            break error;
        }
    };
    assert_eq!(error, BeginError::BadTail { found: 1 << 40, oldest: 0, newest: 224 });
    assert!(producer.has_room(16), "a wait would never end");
}

#[test]
fn a_record_that_is_abandoned_leaves_no_trace() {
    let (mut producer, mut consumer, _) = heap_ring(256);
    for _ in 0..100 {
        producer.begin(RecordKind::Task, 0, 40).expect("nothing was written").word(0, u64::MAX);
    }
    assert!(consumer.peek().expect("no corruption").is_none());
    write(&mut producer, &[5; 3]).expect("nothing was written");
    read_expecting(&mut consumer, 0, &[5; 3]);
}

#[test]
fn a_wrong_number_and_a_ring_of_pads_are_corrupt() {
    let (_, mut consumer, memory) = heap_ring(64);
    let header = RecordHeader { size: 16, kind: RecordKind::Task, flags: 0, sequence: 9 };
    memory.data(0).store(header.word(), Ordering::Relaxed);
    let wrong = Corrupt::Sequence { position: 0, found: 9, expected: 0 };
    assert_eq!(consumer.peek().err(), Some(wrong));
    let pad = RecordHeader { size: 64, kind: RecordKind::Pad, flags: 0, sequence: 0 };
    memory.data(0).store(pad.word(), Ordering::Relaxed);
    assert_eq!(consumer.peek().err(), Some(Corrupt::Overrun { position: 64, end: 128 }));
}

#[test]
fn take_back_divides_at_the_claim() {
    let (mut producer, mut consumer, _) = heap_ring(4096);
    let progress = ProgressLine::default();
    let mode = BarrierMode::Fence;
    for _ in 0..4 {
        write(&mut producer, &[1; 8]).expect("there is room");
    }
    let first = consumer.peek().expect("no corruption").expect("a record is there");
    let _ = progress.writer().claim(&first, mode);
    let outcome = producer.take_back(&[3, 0, 2, 17], progress.reader(), mode);
    let (taken, undecided) = (TakeBack::Taken, TakeBack::Undecided);
    assert_eq!(outcome, [(3, taken), (0, undecided), (2, taken), (17, undecided)]);
    let mut revoked = Vec::new();
    while let Some(record) = consumer.peek().expect("no corruption") {
        revoked.push(record.revoked());
        let _ = consumer.consume();
    }
    assert_eq!(
        revoked,
        [true, false, true, true],
        "the undecided one is answered as skipped or not"
    );
}

#[test]
fn a_record_that_was_read_is_not_touched_by_take_back() {
    let (mut producer, mut consumer, _) = heap_ring(256);
    let progress = ProgressLine::default();
    write(&mut producer, &[1; 8]).expect("there is room");
    read_expecting(&mut consumer, 0, &[1; 8]);
    let _ = consumer.publish_tail();
    let outcome = producer.take_back(&[0], progress.reader(), BarrierMode::Fence);
    assert_eq!(outcome, [(0, TakeBack::Undecided)]);
}

#[test]
fn a_record_that_grows_is_ended_by_the_next_one_and_one_without_parts_leaves_no_trace() {
    let (mut producer, mut consumer, _) = heap_ring(4096);
    producer.begin_growing(RecordKind::Results, 100).expect("there is room");
    assert_eq!(producer.end_growing(), None);
    assert!(consumer.peek().expect("no corruption").is_none());
    assert_eq!(producer.grow(&[1]), None, "none grows");
    producer.begin_growing(RecordKind::Results, 16).expect("there is room");
    assert_eq!(producer.grow(&[1; 8]), Some(32));
    assert_eq!(producer.grow(&[2; 9]), None, "it has no room");
    assert_eq!(producer.grow(&[2; 3]), Some(40));
    assert_eq!(write(&mut producer, &[3]), Ok(1));
    let record = consumer.peek().expect("no corruption").expect("it was ended");
    let mut parts = Vec::new();
    record.append_parts(8, &mut parts).expect("all of it");
    assert_eq!(parts, [2, 2, 2, 0, 0, 0, 0, 0], "parts are padded");
    assert!(record.append_parts(24, &mut parts).is_err());
    let _ = consumer.consume();
    read_expecting(&mut consumer, 1, &[3]);
}
