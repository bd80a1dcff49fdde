//! Answers whose publication was withheld survive their writer; published ones arrive patched.

use super::ring;
use gristmill_shm::{Consumer, Fate, HeapWords, Producer, ProgressLine};
use gristmill_wire::Kind;
use loom::sync::Arc;

fn drain(consumer: &mut Consumer<HeapWords>, found: &mut Vec<u64>) {
    while let Some(record) = consumer.peek().expect("no header is corrupt") {
        found.push(record.word(0).expect("each has a word"));
        let _ = consumer.consume();
    }
}

/// What a worker does for a task, in the order of the rule.
const RULE: [Step; 5] = [Step::Start, Step::Half, Step::Answer, Step::Written, Step::End];
/// The same with the count in front of the bytes that it counts.
const BROKEN: [Step; 5] = [Step::Start, Step::Half, Step::Written, Step::Answer, Step::End];

#[derive(Clone, Copy)]
enum Step {
    Start,
    /// Writes a part of the answer, which stays without a header.
    Half,
    Answer,
    Written,
    End,
}

fn step(step: Step, sequence: u64, producer: &mut Producer<HeapWords>, progress: &ProgressLine) {
    let progress = progress.writer();
    let begin = "an empty ring has room";
    match step {
        Step::Start => progress.start(sequence, 0),
        Step::Half => producer.begin(Kind::Answer, 0, 8).expect(begin).word(0, 99),
        Step::Answer => {
            let mut answer = producer.begin(Kind::Answer, 0, 8).expect(begin);
            answer.word(0, sequence + 10);
            answer.commit_held();
        }
        Step::Written => progress.written(sequence + 1),
        Step::End => progress.end(sequence),
    }
}

/// A worker dies after `step_count` steps, the last of which publishes all; its reader reads before
/// and after.
fn death_after(step_count: usize, order: [Step; 5]) {
    loom::model(move || {
        let (mut producer, mut consumer) = ring(128);
        let progress = Arc::new(ProgressLine::default());
        let worker = loom::thread::spawn({
            let progress = Arc::clone(&progress);
            move || {
                let steps = (0..2).flat_map(|task| order.map(|step| (step, task)));
                for (what, task) in steps.take(step_count) {
                    step(what, task, &mut producer, &progress);
                }
                if step_count > 10 {
                    producer.publish();
                }
            }
        });
        let mut found = Vec::new();
        drain(&mut consumer, &mut found);
        worker.join().expect("the worker is dead"); // stands for the keeper's notice
        drain(&mut consumer, &mut found);
        let progress = progress.reader();
        consumer.accept_withheld(progress.written());
        drain(&mut consumer, &mut found);
        let answered = found.len() as u64;
        assert_eq!(found, [10, 11][..found.len()], "answers are whole and in order");
        assert_eq!(answered, progress.written(), "what was counted is there");
        assert!(answered >= progress.ended(), "an ended task has its answer");
        assert!(progress.started() <= answered + 1, "at most one started task has no answer");
        assert_eq!(progress.fate_of_unanswered(progress.started()), Fate::Unstarted);
    });
}

#[test]
fn what_was_written_before_a_death_is_read_after_it() {
    for step_count in 0..=11 {
        death_after(step_count, RULE);
    }
}

#[test]
#[should_panic = "what was counted is there"]
fn counted_before_it_is_written_it_is_missed() {
    // The death right after the first count: the header behind it is still zero.
    death_after(3, BROKEN);
}

/// A living writer's batch: nothing before its publication, then all of it, patched.
#[test]
fn a_batch_is_published_in_order_and_patched() {
    loom::model(|| {
        let (mut producer, mut consumer) = ring(128);
        let worker = loom::thread::spawn(move || {
            for _ in 0..2 {
                let answer = producer.begin(Kind::Answer, 0, 8);
                answer.expect("an empty ring has room").commit_held();
            }
            producer.publish_with(|held| held.set_word(0, held.sequence() + 20));
        });
        let mut found = Vec::new();
        drain(&mut consumer, &mut found);
        worker.join().expect("the worker returns");
        drain(&mut consumer, &mut found);
        assert_eq!(found, [20, 21]);
    });
}
