//! Models of room: a writer that waits for room is woken when there is some.

use super::ring;
use gristmill_shm::Bell;
use gristmill_sync::barrier::BarrierMode;
use gristmill_wire::RecordKind;
use loom::sync::Arc;

fn full_ring(mode: BarrierMode) {
    loom::model(move || {
        let (mut producer, mut consumer) = ring(64);
        let bell = Arc::new(Bell::default());
        for _ in 0..3 {
            producer.begin(RecordKind::Task, 0, 0).expect("there is room for three").commit();
        }
        let reader = loom::thread::spawn({
            let bell = Arc::clone(&bell);
            move || {
                assert!(consumer.peek().expect("no header is corrupt").is_some());
                let _ = consumer.consume();
                let _ = consumer.publish_tail();
                if consumer.writer_waits(mode) {
                    bell.ring(mode);
                }
            }
        });
        while !producer.has_room(0) {
            producer.want_room(true);
            bell.sleep(mode, || !producer.has_room(0), None);
            producer.want_room(false);
        }
        producer.begin(RecordKind::Task, 0, 0).expect("there is room now").commit();
        reader.join().expect("the reader returns");
    });
}

#[test]
fn room_wakes_the_writer() {
    full_ring(BarrierMode::Fence);
}

#[test]
#[should_panic = "deadlock"]
fn without_the_barriers_the_writer_sleeps_on() {
    full_ring(BarrierMode::Absent);
}
