//! Models of the doorbell: no thread sleeps while there is something to read.

use super::ring;
use gristmill_shm::Bell;
use gristmill_sync::atomic::{AtomicU64, Ordering};
use gristmill_sync::barrier::BarrierMode;
use gristmill_wire::RecordKind;
use loom::sync::{Arc, Condvar, Mutex};
// An `Arc` that loom does not track: it is dropped while a deadlock unwinds.
use std::sync::Arc as Shared;

/// Runs a reader that sleeps when the ring is empty, and a writer that writes, then rings. A lost wake-up deadlocks,
/// which loom reports.
fn one_record_wakes(mode: BarrierMode) {
    loom::model(move || {
        let (mut producer, mut consumer) = ring(64);
        let bell = Arc::new(Bell::default());
        let writer = loom::thread::spawn({
            let bell = Arc::clone(&bell);
            move || {
                producer.begin(RecordKind::Task, 0, 0).expect("an empty ring has room").commit();
                bell.ring(mode);
            }
        });
        while consumer.peek().expect("no header is corrupt").is_none() {
            bell.sleep(mode, || !consumer.has_record(), None);
        }
        writer.join().expect("the writer returns");
    });
}

#[test]
fn a_record_wakes_its_reader() {
    one_record_wakes(BarrierMode::Fence);
}

#[test]
#[should_panic = "deadlock"]
fn without_the_barriers_a_wake_up_is_lost() {
    one_record_wakes(BarrierMode::Absent);
}

/// Lets two workers ring one client, which reads both rings.
#[test]
fn two_writers_wake_the_one_sleeper() {
    loom::model(|| {
        let mode = BarrierMode::Fence;
        let bell = Arc::new(Bell::default());
        let (mut consumers, mut writers) = (Vec::new(), Vec::new());
        for _ in 0..2 {
            let (mut producer, consumer) = ring(64);
            let bell = Arc::clone(&bell);
            consumers.push(consumer);
            writers.push(loom::thread::spawn(move || {
                producer.begin(RecordKind::Answer, 0, 0).expect("an empty ring has room").commit();
                bell.ring(mode);
            }));
        }
        let mut missing = 2;
        while missing > 0 {
            for consumer in &mut consumers {
                if consumer.peek().expect("no header is corrupt").is_some() {
                    let _ = consumer.consume();
                    missing -= 1;
                }
            }
            if missing > 0 {
                bell.sleep(mode, || !consumers.iter().any(|ring| ring.has_record()), None);
            }
        }
        for writer in writers {
            writer.join().expect("the writer returns");
        }
    });
}

/// Checks that a word beside the ring wakes a reader that sleeps after it has read all records. Writers use such a word
/// because the ring may have no room for a record.
fn a_word_wakes(mode: BarrierMode) {
    loom::model(move || {
        let (mut producer, mut consumer) = ring(64);
        for _ in 0..3 {
            producer.begin(RecordKind::Task, 0, 0).expect("there is room for three").commit();
        }
        let (bell, stop) = (Arc::new(Bell::default()), Arc::new(AtomicU64::new(0)));
        let writer = loom::thread::spawn({
            let (bell, stop) = (Arc::clone(&bell), Arc::clone(&stop));
            move || {
                stop.store(1, Ordering::Release); // PAIRS: stop
                if let Ok(record) = producer.begin(RecordKind::Stop, 0, 0) {
                    record.commit();
                }
                bell.ring(mode);
            }
        });
        let is_stopped = || stop.load(Ordering::Acquire) != 0; // PAIRS: stop
        loop {
            match consumer.peek().expect("no header is corrupt").map(|one| one.header().kind) {
                Some(RecordKind::Stop) => break,
                Some(_) => _ = consumer.consume(),
                None if is_stopped() => break,
                None => {
                    let _ = consumer.publish_tail();
                    bell.sleep(mode, || !consumer.has_record() && !is_stopped(), None);
                }
            }
        }
        writer.join().expect("the writer returns");
    });
}

#[test]
fn a_word_beside_a_full_ring_wakes_its_reader() {
    a_word_wakes(BarrierMode::Fence);
}

#[test]
#[should_panic = "deadlock"]
fn without_the_barriers_a_word_is_missed() {
    a_word_wakes(BarrierMode::Absent);
}

/// A sleeping place for a reader that has a connection too: an event that writers set, and messages. The end of a sleep
/// clears the event; a message stays until it is taken.
#[derive(Default)]
struct ModelSleeper {
    state: Mutex<(bool, bool)>,
    changed: Condvar,
}

impl ModelSleeper {
    fn set_event(&self) {
        self.state.lock().expect("no thread panics").0 = true;
        self.changed.notify_one();
    }

    fn deliver(&self) {
        self.state.lock().expect("no thread panics").1 = true;
        self.changed.notify_one();
    }

    fn take_message(&self) -> bool {
        std::mem::take(&mut self.state.lock().expect("no thread panics").1)
    }

    fn sleep(&self) {
        let mut state = self.state.lock().expect("no thread panics");
        while *state == (false, false) {
            state = self.changed.wait(state).expect("no thread panics");
        }
        state.0 = false;
    }
}

/// Runs a reader that sleeps where a message wakes it too, and a writer that writes, then rings.
fn record_and_message_wake(mode: BarrierMode) {
    loom::model(move || {
        let (mut producer, mut consumer) = ring(64);
        let (bell, sleeper) = (Shared::new(Bell::default()), Shared::new(ModelSleeper::default()));
        let writer = loom::thread::spawn({
            let (bell, sleeper) = (Shared::clone(&bell), Shared::clone(&sleeper));
            move || {
                producer.begin(RecordKind::Task, 0, 0).expect("an empty ring has room").commit();
                bell.ring_with(mode, || sleeper.set_event());
            }
        });
        let connection = loom::thread::spawn({
            let sleeper = Shared::clone(&sleeper);
            move || sleeper.deliver()
        });
        let (mut has_record, mut has_message) = (false, false);
        loop {
            has_record |= consumer.peek().expect("no header is corrupt").is_some();
            has_message |= sleeper.take_message();
            if has_record && has_message {
                break;
            }
            let still_empty = || has_record || !consumer.has_record();
            bell.sleep_elsewhere(mode, still_empty, None, |_| sleeper.sleep());
        }
        writer.join().expect("the writer returns");
        connection.join().expect("the connection returns");
    });
}

#[test]
fn a_record_and_a_message_wake_a_reader_that_sleeps_on_both() {
    record_and_message_wake(BarrierMode::Fence);
}

#[test]
#[should_panic = "deadlock"]
fn without_the_barriers_a_reader_that_sleeps_on_both_misses_a_record() {
    record_and_message_wake(BarrierMode::Absent);
}
