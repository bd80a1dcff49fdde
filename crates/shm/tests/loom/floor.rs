//! Models of the floor: a record that is published after the floor was lowered is not handed back because of the old
//! floor.

use super::ring;
use gristmill_shm::{FloorWord, ProgressLine};
use gristmill_sync::barrier::BarrierMode;
use gristmill_wire::RecordKind;
use loom::sync::Arc;

/// Lets a client with a raised floor lower it and publish a record of priority 0, in this order or the reverse.
fn race(lowers_first: bool) {
    loom::model(move || {
        let (mut producer, mut consumer) = ring(128);
        let shared = Arc::new((FloorWord::default(), ProgressLine::default()));
        shared.0.set(5);
        let worker = loom::thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                let (floor, line) = &*shared;
                loop {
                    if let Some(record) = consumer.peek().expect("no header is corrupt") {
                        let _ = line.writer().claim(&record, BarrierMode::Fence);
                        return floor.admits(0);
                    }
                    loom::thread::yield_now();
                }
            }
        });
        if lowers_first {
            shared.0.set(i32::MIN);
        }
        producer.begin(RecordKind::Task, 0, 0).expect("there is room").commit();
        if !lowers_first {
            shared.0.set(i32::MIN);
        }
        assert!(worker.join().expect("the worker returns"), "a record was handed back for nothing");
    });
}

#[test]
fn what_is_published_under_a_lowered_floor_is_not_handed_back() {
    race(true);
}

#[test]
#[should_panic = "a record was handed back for nothing"]
fn a_floor_that_is_lowered_behind_the_publication_hands_records_back() {
    race(false);
}
