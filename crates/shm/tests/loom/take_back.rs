//! Models of take-back: a record that was taken back never runs, and a record that was not is always answered.

use super::ring;
use gristmill_shm::{ClaimResult, ProgressLine, TakeBack};
use gristmill_sync::barrier::BarrierMode;
use gristmill_wire::RecordKind;
use loom::sync::Arc;

/// Lets a worker claim two records while their writer takes the second one back.
fn race(mode: BarrierMode) {
    loom::model(move || {
        let (mut producer, mut consumer) = ring(64);
        let progress = Arc::new(ProgressLine::default());
        for _ in 0..2 {
            producer.begin(RecordKind::Task, 0, 0).expect("an empty ring has room").commit();
        }
        let worker = loom::thread::spawn({
            let progress = Arc::clone(&progress);
            move || {
                let mut has_run = [false; 2];
                for run in &mut has_run {
                    let record = consumer.peek().expect("no header is corrupt");
                    let record = record.expect("both are there");
                    let sequence = record.sequence();
                    if progress.writer().claim(&record, mode) == ClaimResult::Run {
                        progress.writer().start(sequence, 0);
                        *run = true;
                    }
                    let _ = consumer.consume();
                    let _ = consumer.publish_tail();
                }
                has_run
            }
        });
        let [(_, outcome)] = producer.take_back(&[1], progress.reader(), mode)[..] else {
            panic!("one was asked for")
        };
        let has_run = worker.join().expect("the worker returns");
        assert!(has_run[0], "a record that was not revoked runs");
        assert!(outcome == TakeBack::Undecided || !has_run[1], "it ran although it was taken back");
    });
}

#[test]
fn a_record_taken_back_never_runs() {
    race(BarrierMode::Fence);
}

#[test]
#[should_panic = "it ran although it was taken back"]
fn without_the_barriers_it_runs_twice() {
    race(BarrierMode::Absent);
}
