//! Models of publication: a record is seen whole or not at all, across the end of the ring and over the previous lap's
//! bytes.

use super::ring;
use gristmill_shm::{Consumer, HeapWords, Producer};
use gristmill_wire::{RecordHeader, RecordKind};

/// Returns a body word that equals the header of the record numbered `sequence`.
fn looks_like_a_header(sequence: u16) -> u64 {
    RecordHeader { size: 16, kind: RecordKind::Task, flags: 0, sequence }.word()
}

/// Writes a record whose body words all hold `value`; yields until it fits.
fn write(producer: &mut Producer<HeapWords>, body_size: u32, value: u64) {
    loop {
        if let Ok(mut record) = producer.begin(RecordKind::Task, 0, body_size as usize) {
            for index in 0..body_size / 8 {
                record.word(index, value);
            }
            record.commit();
            return;
        }
        loom::thread::yield_now();
    }
}

/// Reads the next record, yielding until there is one, and checks all its words.
fn read(consumer: &mut Consumer<HeapWords>, body_size: u32, value: u64) {
    loop {
        match consumer.peek().expect("no header is corrupt") {
            Some(record) => {
                assert!(record.body_size() >= body_size, "the size is that of this record");
                for index in 0..body_size / 8 {
                    assert_eq!(record.word(index), Ok(value), "the body is that of this record");
                }
                break;
            }
            None => loom::thread::yield_now(),
        }
    }
    let _ = consumer.consume();
    let _ = consumer.publish_tail();
}

/// Fills one lap with bytes that equal the headers of the next one, then overwrites them while the other end reads.
fn second_lap(is_zeroing: bool) {
    loom::model(move || {
        let (mut producer, mut consumer) = ring(128);
        // 32 bytes each, sequences 0 to 3; the next lap's second record starts at byte 16 of the first.
        for _ in 0..4 {
            write(&mut producer, 16, looks_like_a_header(5));
            read(&mut consumer, 16, looks_like_a_header(5));
        }
        if !is_zeroing {
            producer.skip_zeroing();
        }
        let writer = loom::thread::spawn(move || {
            write(&mut producer, 0, 0);
            write(&mut producer, 8, 1);
        });
        read(&mut consumer, 0, 0);
        read(&mut consumer, 8, 1);
        writer.join().expect("the writer returns");
    });
}

#[test]
fn the_former_lap_s_bytes_are_never_a_record() {
    second_lap(true);
}

#[test]
#[should_panic = "the size is that of this record"]
fn without_the_zeroing_they_are() {
    second_lap(false);
}

/// Checks that a record that does not fit before the end follows a pad, and that the writer waits for its room.
#[test]
fn a_pad_and_the_record_behind_it_arrive_whole() {
    loom::model(|| {
        let (mut producer, mut consumer) = ring(128);
        for _ in 0..3 {
            write(&mut producer, 16, looks_like_a_header(3));
            read(&mut consumer, 16, looks_like_a_header(3));
        }
        let writer = loom::thread::spawn(move || {
            write(&mut producer, 0, 0); // leaves 16 bytes before the end
            write(&mut producer, 16, 7); // a pad, then this
        });
        read(&mut consumer, 0, 0);
        read(&mut consumer, 16, 7);
        writer.join().expect("the writer returns");
    });
}

/// Checks that the writer overwrites bytes only after they were read.
#[test]
fn a_full_ring_is_not_written_over() {
    loom::model(|| {
        let (mut producer, mut consumer) = ring(64);
        for value in 0..3 {
            write(&mut producer, 0, value);
        }
        let writer = loom::thread::spawn(move || {
            write(&mut producer, 0, 3);
            write(&mut producer, 0, 4);
        });
        for value in 0..5 {
            read(&mut consumer, 0, value);
        }
        writer.join().expect("the writer returns");
    });
}
