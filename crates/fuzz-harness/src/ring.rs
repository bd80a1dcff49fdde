//! Both ends of a ring while a hostile process writes arbitrary words, before and between the reads.

use crate::input::Input;
use gristmill_shm::{Consumer, HeapWords, Producer, RingLayout, Words};
use gristmill_sync::atomic::Ordering::Relaxed;
use gristmill_wire::RecordKind;

/// Reads one record through every reading function, within its limits and beyond.
fn read_one(consumer: &mut Consumer<HeapWords>, input: &mut Input<'_>) -> bool {
    let next = consumer.next_sequence();
    let Ok(Some(record)) = consumer.peek() else { return false };
    assert_eq!(record.sequence(), next);
    let (index, offset, size) =
        (u32::from(input.byte()), u32::from(input.byte()), u32::from(input.byte()));
    let room = record.body_size();
    assert_eq!(record.word(index).is_ok(), (index + 1) * 8 <= room);
    assert_eq!(record.words::<3>(index).is_ok(), (index + 3) * 8 <= room);
    let mut out = Vec::new();
    assert_eq!(record.append_to(offset, size, &mut out).is_ok(), offset + size <= room);
    assert_eq!(out.len(), if offset + size <= room { size as usize } else { 0 });
    assert!(record.append_to(u32::MAX, u32::MAX, &mut out).is_err());
    let mut parts = Vec::new();
    let _ = record.append_parts(offset, &mut parts);
    assert!(parts.len() <= room as usize);
    let _ = record.revoked();
    let _ = consumer.consume();
    assert_eq!(consumer.next_sequence(), next + 1);
    true
}

/// Writes one record, if the tail that the reader claims leaves room.
fn write_one(producer: &mut Producer<HeapWords>, input: &mut Input<'_>) {
    let size = usize::from(input.short());
    let body = input.bytes(size);
    let _ = (producer.has_room(size), producer.free_bytes());
    if let Ok(mut record) = producer.begin(RecordKind::Answer, 0, body.len()) {
        record.bytes(0, body);
        record.commit();
    }
}

/// Adds a part to a record that grows, or begins one.
fn grow_one(producer: &mut Producer<HeapWords>, input: &mut Input<'_>) {
    let size = usize::from(input.byte());
    let part = input.bytes(size);
    if producer.grow(part).is_none() {
        let _ = producer.begin_growing(RecordKind::Results, usize::from(input.byte()));
    }
}

/// Reads a record that may grow, at an arbitrary position.
fn read_growing(consumer: &mut Consumer<HeapWords>, input: &mut Input<'_>) {
    if let Ok(Some(record)) = consumer.peek_growing(RecordKind::Results, input.word()) {
        let mut parts = Vec::new();
        let _ = record.append_parts(u32::from(input.byte()), &mut parts);
        assert!(parts.len() <= record.body_size() as usize);
    }
}

/// Runs the target on one input.
pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let layout = RingLayout::new(64 << (input.byte() % 7)).expect("a power of two");
    let words = HeapWords::new(layout);
    let (mut consumer, mut producer) = (Consumer::new(words.clone()), Producer::new(words.clone()));
    while !input.is_empty() {
        match input.byte() % 8 {
            0..=2 => words.data(u64::from(input.byte())).store(input.word(), Relaxed),
            3 => words.tail().store(input.word(), Relaxed),
            4 => read_growing(&mut consumer, &mut input),
            5 => {
                let _ = consumer.publish_tail();
            }
            6 if input.byte() & 1 == 0 => grow_one(&mut producer, &mut input),
            6 => write_one(&mut producer, &mut input),
            _ => while read_one(&mut consumer, &mut input) && !input.is_empty() {},
        }
        assert!(consumer.unpublished_bytes() <= u64::from(layout.capacity()));
    }
}
