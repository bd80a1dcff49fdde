//! Models of batch take-back: a call that was taken back never runs, and a call that was not taken back always runs.

use gristmill_shm::{CallWord, StopWord};
use gristmill_sync::barrier::BarrierMode;
use loom::sync::Arc;

/// Runs the three calls of a batch on a worker while the client stops the batch.
fn race(mode: BarrierMode) {
    loom::model(move || {
        let words = Arc::new((CallWord::default(), StopWord::default()));
        let worker = loom::thread::spawn({
            let words = Arc::clone(&words);
            move || (0..3).take_while(|&run| words.0.begin(4, run, &words.1, mode)).count()
        });
        let (calls, stop) = &*words;
        let found = stop.stop(4, calls, mode);
        let has_run = worker.join().expect("the worker returns");
        let claimed = found.map_or(0, |found| found.claimed as usize);
        assert!(has_run <= claimed, "a call ran although it was taken back");
        assert!(has_run + 1 >= claimed, "at most the call that was being claimed is given up");
        let last = calls.progress().expect("a call was claimed");
        assert_eq!(last.started as usize, has_run, "the started calls are reported exactly");
    });
}

#[test]
fn a_call_taken_back_never_runs() {
    race(BarrierMode::Fence);
}

#[test]
#[should_panic = "a call ran although it was taken back"]
fn without_the_barriers_it_runs_twice() {
    race(BarrierMode::Absent);
}
