//! Models of growing records: their parts are read whole and in order, before the commit, after it, and after a death.

use super::ring;
use gristmill_shm::{Consumer, HeapWords, Producer, ProgressLine};
use gristmill_wire::RecordKind;
use loom::sync::Arc;

/// The steps of a worker, in the required order: each part is counted after it is written.
const RULE: [Step; 6] =
    [Step::Part, Step::Count, Step::Part, Step::Count, Step::Commit, Step::Next];
/// The steps with a count before the part that it counts.
const BROKEN: [Step; 4] = [Step::Part, Step::Count, Step::CountAhead, Step::Part];

#[derive(Clone, Copy)]
enum Step {
    Part,
    Count,
    CountAhead,
    Commit,
    /// The next record, with a part that is counted.
    Next,
}

struct Writer {
    producer: Producer<HeapWords>,
    progress: Arc<ProgressLine>,
    next: u8,
    position: u64,
}

impl Writer {
    fn part(&mut self) {
        self.next += 1;
        let part = [self.next; 8];
        let room = "an empty ring has room";
        if self.producer.grow(&part).map(|position| self.position = position).is_none() {
            self.producer.begin_growing(RecordKind::Results, 16).expect(room);
            self.position = self.producer.grow(&part).expect(room);
        }
    }

    fn step(&mut self, step: Step) {
        let progress = self.progress.writer();
        match step {
            Step::Part => self.part(),
            Step::Count => progress.written(self.position),
            Step::CountAhead => progress.written(self.position + 8),
            Step::Commit => assert!(self.producer.end_growing().is_some(), "it grew"),
            Step::Next => {
                self.part();
                self.progress.writer().written(self.position);
            }
        }
    }
}

/// Reads the committed records, then the growing one after them. `taken` bytes of the current record were read before.
fn read(
    consumer: &mut Consumer<HeapWords>,
    progress: &ProgressLine,
    taken: &mut u32,
    found: &mut Vec<u8>,
) {
    let start = found.len();
    let written = progress.reader().written();
    while let Some(record) = consumer.peek().expect("no header is corrupt") {
        record.append_parts(*taken, found).expect("the parts are there");
        *taken = 0;
        let _ = consumer.consume();
    }
    let grows = consumer.peek_growing(RecordKind::Results, written).expect("no header is corrupt");
    if let Some(record) = grows {
        let before = found.len();
        record.append_parts(*taken, found).expect("the parts are there");
        *taken += u32::try_from(found.len() - before).expect("a few");
    }
    assert!(found[start..].chunks(8).all(|part| part == [part[0]; 8]), "a part is whole");
}

/// Ends a worker after `count` steps; the reader reads meanwhile and afterwards.
fn death_after(steps: &'static [Step], count: usize) {
    loom::model(move || {
        let (producer, mut consumer) = ring(256);
        let progress = Arc::new(ProgressLine::default());
        let mut writer = Writer { producer, progress: Arc::clone(&progress), next: 0, position: 0 };
        let worker = loom::thread::spawn(move || {
            steps.iter().take(count).for_each(|&step| writer.step(step));
        });
        let (mut taken, mut found) = (0, Vec::new());
        read(&mut consumer, &progress, &mut taken, &mut found);
        worker.join().expect("the worker is dead"); // stands for the keeper's notice of death
        read(&mut consumer, &progress, &mut taken, &mut found);
        read(&mut consumer, &progress, &mut taken, &mut found);
        let parts: Vec<u8> = found.chunks(8).map(|part| part[0]).collect();
        assert_eq!(parts, [1, 2, 3][..parts.len()], "parts come in order and once");
        let counts = |step: &&Step| !matches!(step, Step::Part | Step::Commit);
        let counted = steps[..count].iter().filter(counts).count();
        assert_eq!(parts.len(), counted, "the counted parts are there, and no others");
    });
}

#[test]
fn parts_are_read_in_order_whatever_the_moment() {
    for count in 0..=RULE.len() {
        death_after(&RULE, count);
    }
}

#[test]
#[should_panic = "parts come in order and once"]
fn counted_before_it_is_there_a_part_is_missed() {
    death_after(&BROKEN, BROKEN.len());
}
