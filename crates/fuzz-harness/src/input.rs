//! Shared parts of the targets: numbers from the front of the fuzzer's bytes, and a ring with one record.

use gristmill_shm::{Consumer, HeapWords, Producer, RingLayout, RingRecord};
use gristmill_wire::RecordKind;

/// Reader of numbers and bytes from the front; missing bytes read as zero.
#[derive(Debug)]
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    /// Takes up to `count` bytes, or as many as there are.
    pub fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// Takes one byte.
    pub fn byte(&mut self) -> u8 {
        self.bytes(1).first().copied().unwrap_or_default()
    }

    /// Takes two bytes.
    pub fn short(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    /// Takes one word.
    pub fn word(&mut self) -> u64 {
        let mut word = [0; 8];
        let bytes = self.bytes(8);
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    }

    /// Takes `N` words.
    pub fn words<const N: usize>(&mut self) -> [u64; N] {
        std::array::from_fn(|_| self.word())
    }

    /// Returns whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Calls `read` with a record of this kind, whose body is `body`, as the reader of a ring sees it.
pub fn with_record(
    kind: RecordKind,
    flags: u8,
    body: &[u8],
    read: impl FnOnce(&RingRecord<'_, HeapWords>),
) {
    let words = HeapWords::new(RingLayout::new(1 << 16).expect("a power of two"));
    let (mut producer, mut consumer) = (Producer::new(words.clone()), Consumer::new(words));
    let Ok(mut record) = producer.begin(kind, flags, body.len()) else { return };
    record.bytes(0, body);
    record.commit();
    let record = consumer.peek().expect("a producer wrote it").expect("it is there");
    read(&record);
}
