//! The ring's protocols under the model checker: one model for each rule, and one that removes the rule and must fail.
//!
//! `RUSTFLAGS="--cfg gristmill_loom" LOOM_MAX_PREEMPTIONS=3 cargo test -p gristmill-shm --release --test loom`
#![cfg(gristmill_loom)]

#[path = "loom/batch.rs"]
mod batch;
#[path = "loom/bell.rs"]
mod bell;
#[path = "loom/floor.rs"]
mod floor;
#[path = "loom/growing.rs"]
mod growing;
#[path = "loom/publication.rs"]
mod publication;
#[path = "loom/room.rs"]
mod room;
#[path = "loom/take_back.rs"]
mod take_back;

use gristmill_shm::{Consumer, HeapWords, Producer, RingLayout};

/// Returns the two ends of a new ring of `capacity` bytes.
fn ring(capacity: u32) -> (Producer<HeapWords>, Consumer<HeapWords>) {
    let words = HeapWords::new(RingLayout::new(capacity).expect("a power of two"));
    (Producer::new(words.clone()), Consumer::new(words))
}
