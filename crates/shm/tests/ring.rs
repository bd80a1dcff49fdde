//! What goes into a ring comes out of it: any sizes, on the heap and in shared memory, and nothing
//! else does, whatever the other side writes.
#![cfg(not(gristmill_loom))]

use gristmill_shm::{
    BeginError, Consumer, Corrupt, HeapWords, Producer, ProgressLine, RingLayout, Segment,
    SegmentOptions, TakeBack, Words,
};
use gristmill_sync::atomic::Ordering;
use gristmill_sync::barrier::BarrierMode;
use gristmill_sync::random::Random;
use gristmill_wire::{FrameError, Kind, RecordHeader, SlotId};
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

fn write<W: Words>(
    producer: &mut Producer<W>,
    bytes: &[u8],
    held: bool,
) -> Result<u64, BeginError> {
    let mut record = producer.begin(Kind::Task, 7, bytes.len())?;
    record.bytes(0, bytes);
    Ok(if held { record.commit_held() } else { record.commit() })
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

/// One step of a program over a ring.
#[derive(Debug, Clone)]
enum Step {
    Write(usize),
    Hold(usize),
    Publish,
    Read(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0usize..1008).prop_map(Step::Write),
        4 => (0usize..64).prop_map(Step::Write),
        2 => (0usize..200).prop_map(Step::Hold),
        1 => Just(Step::Publish),
        4 => (1usize..8).prop_map(Step::Read),
    ];
    prop::collection::vec(step, 1..300)
}

/// Runs a program and compares with a queue.
fn compare<W: Words>(mut producer: Producer<W>, mut consumer: Consumer<W>, program: &[Step]) {
    let (mut written, mut read, mut visible) = (Vec::new(), 0, 0);
    for step in program {
        match *step {
            Step::Write(size) | Step::Hold(size) => {
                let held = matches!(step, Step::Hold(_));
                let bytes = body(size, written.len() as u64);
                match write(&mut producer, &bytes, held) {
                    Ok(sequence) => {
                        assert_eq!(sequence, written.len() as u64);
                        written.push(bytes);
                        visible = if held { visible } else { written.len() };
                    }
                    Err(BeginError::Full { .. }) => assert!(read < written.len(), "not drained"),
                    Err(other) => panic!("{other}"),
                }
            }
            Step::Publish => {
                producer.publish();
                visible = written.len();
            }
            Step::Read(count) => {
                for _ in 0..count.min(visible - read) {
                    read_expecting(&mut consumer, read as u64, &written[read]);
                    read += 1;
                }
                if read == visible {
                    assert!(consumer.peek().expect("no corruption").is_none());
                    let _ = consumer.publish_tail();
                }
            }
        }
    }
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
        let client = segment.client_lane(SlotId(0)).expect("slot 0 exists");
        let worker = segment.worker_lane(SlotId(0)).expect("slot 0 exists");
        compare(client.tasks, worker.tasks, &program);
    }

    /// A hostile writer: any words anywhere give records, an error or nothing, and reading ends.
    #[test]
    fn a_reader_survives_any_bytes(
        words in prop::collection::vec(prop_oneof![
            any::<u64>(),
            (0u32..40, 0u8..20, 0u16..4).prop_map(|(size, kind, sequence)| {
                u64::from(size * 8) | (u64::from(kind) << 32) | (u64::from(sequence) << 48)
            }),
        ], 32),
        withheld: u64,
    ) {
        let (_, mut consumer, memory) = heap_ring(256);
        for (index, &word) in (0..).zip(&words) {
            memory.data(index).store(word, Ordering::Relaxed);
        }
        consumer.accept_withheld(withheld);
        for _ in 0..1000 {
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
        write(&mut producer, &bytes, false).expect("an empty ring has room");
        let record = consumer.peek().expect("no corruption").expect("a record is there");
        let mut found = vec![0; count];
        let offset = u32::try_from(from).expect("small");
        match record.read(offset, &mut found) {
            Ok(()) => {
                let known = bytes.len().saturating_sub(from).min(count);
                prop_assert_eq!(&found[..known], &bytes[from..][..known]);
                prop_assert!(found[known..].iter().all(|&byte| byte == 0), "padding is zero");
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
    assert!(write(&mut producer, &[0; 1008], false).is_ok());
    let error = write(&mut producer, &[0; 1009], false).expect_err("it is too large");
    assert_eq!(error, BeginError::TooLarge { size: 1009, limit: 1008 });
    assert!(!error.is_retryable());
}

#[test]
fn a_full_ring_says_how_much_is_free_and_takes_records_again() {
    let (mut producer, mut consumer, _) = heap_ring(256);
    while write(&mut producer, &[1; 16], false).is_ok() {}
    let error = write(&mut producer, &[1; 16], false).expect_err("it is full");
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
        if let Err(error) = write(&mut producer, &[1; 16], false) {
            break error;
        }
    };
    assert_eq!(error, BeginError::BadTail { found: 1 << 40, oldest: 0, newest: 224 });
    assert!(producer.has_room(16), "waiting would be in vain");
}

#[test]
fn a_record_that_is_abandoned_leaves_no_trace() {
    let (mut producer, mut consumer, _) = heap_ring(256);
    for _ in 0..100 {
        producer.begin(Kind::Task, 0, 40).expect("nothing was written").word(0, u64::MAX);
    }
    assert!(consumer.peek().expect("no corruption").is_none());
    write(&mut producer, &[5; 3], false).expect("nothing was written");
    read_expecting(&mut consumer, 0, &[5; 3]);
}

#[test]
fn a_wrong_number_and_a_ring_of_pads_are_corrupt() {
    let (_, mut consumer, memory) = heap_ring(64);
    let header = RecordHeader { size: 16, kind: Kind::Task, flags: 0, sequence: 9 };
    memory.data(0).store(header.word(), Ordering::Relaxed);
    let wrong = Corrupt::Sequence { position: 0, found: 9, expected: 0 };
    assert_eq!(consumer.peek().err(), Some(wrong));
    let pad = RecordHeader { size: 64, kind: Kind::Pad, flags: 0, sequence: 0 };
    memory.data(0).store(pad.word(), Ordering::Relaxed);
    assert_eq!(consumer.peek().err(), Some(Corrupt::Overrun { position: 64, end: 128 }));
}

#[test]
fn take_back_divides_at_the_claim() {
    let (mut producer, mut consumer, _) = heap_ring(4096);
    let progress = ProgressLine::default();
    let mode = BarrierMode::Fence;
    for _ in 0..4 {
        write(&mut producer, &[1; 8], false).expect("there is room");
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
fn a_record_that_was_read_or_is_still_held_is_not_touched_by_take_back() {
    let (mut producer, mut consumer, _) = heap_ring(256);
    let progress = ProgressLine::default();
    write(&mut producer, &[1; 8], false).expect("there is room");
    read_expecting(&mut consumer, 0, &[1; 8]);
    let _ = consumer.publish_tail();
    write(&mut producer, &[2; 8], true).expect("there is room");
    let outcome = producer.take_back(&[0, 1], progress.reader(), BarrierMode::Fence);
    assert_eq!(outcome, [(0, TakeBack::Undecided), (1, TakeBack::Undecided)]);
    producer.publish();
    let record = consumer.peek().expect("no corruption").expect("a record is there");
    assert_eq!(record.word(0), Ok(u64::from_le_bytes([2; 8])));
}
