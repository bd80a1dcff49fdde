//! A benchmark that prints the cost of a record of 40 bytes: `cargo run --release -p gristmill-shm --example
//! ring_cost`.
#![expect(clippy::print_stdout, reason = "its output is its purpose")]

#[cfg(gristmill_loom)]
fn main() {}

#[cfg(not(gristmill_loom))]
fn main() {
    use gristmill_shm::{Segment, SegmentOptions};
    use gristmill_wire::SlotId;

    let segment = Segment::create(&SegmentOptions::default()).expect("there is memory");
    println!("barriers: {:?}", segment.mode());
    for round in 0..5 {
        let (one, two) = (SlotId(round * 2), SlotId(round * 2 + 1));
        println!(
            "one thread {:.2} ns, with claim and progress {:.2} ns, two threads {:.2} ns a record",
            cost::one_thread(&segment, one, false),
            cost::one_thread(&segment, two, true),
            cost::two_threads(&segment, SlotId(20 + round)),
        );
    }
}

#[cfg(not(gristmill_loom))]
mod cost {
    use gristmill_shm::{ClientEnds, MappedWords, Segment, Tail};
    use gristmill_sync::barrier::light;
    use gristmill_sync::clock::{monotonic_ns, ticks};
    use gristmill_sync::hint::spin_loop;
    use gristmill_wire::{RecordKind, SlotId};

    const COUNT: u64 = 10_000_000;

    /// Writes and reads batches of 32 records on one thread. Returns ns per record.
    pub fn one_thread(segment: &Segment, slot: SlotId, is_task: bool) -> f64 {
        let mut client = segment.client_ends(slot).expect("the slot exists");
        let mut worker = segment.worker_ends(slot).expect("the slot exists");
        let mode = segment.mode();
        let start = monotonic_ns();
        let (mut sent, mut sum) = (0, 0_u64);
        while sent < COUNT {
            for _ in 0..32 {
                assert!(write(&mut client, sent));
                sent += 1;
            }
            while let Some(record) = worker.tasks.peek().expect("no corruption") {
                let [first, _, _] = record.words::<3>(0).expect("each has three words");
                sum = sum.wrapping_add(first);
                if is_task {
                    let progress = worker.control.progress();
                    let sequence = record.sequence();
                    let _ = progress.claim(&record, mode);
                    progress.start(sequence, ticks());
                    progress.end(sequence);
                }
                let _ = worker.tasks.consume();
            }
        }
        per_record(start, sum)
    }

    /// Streams records from one thread to another. Returns ns per record.
    pub fn two_threads(segment: &Segment, slot: SlotId) -> f64 {
        let mut client = segment.client_ends(slot).expect("the slot exists");
        let tasks = segment.worker_ends(slot).expect("the slot exists").tasks;
        let start = monotonic_ns();
        let reader = std::thread::spawn(move || read_all(tasks));
        let mode = segment.mode();
        let mut sent = 0;
        while sent < COUNT {
            if write(&mut client, sent) {
                sent += 1;
            } else {
                spin_loop();
            }
            light(mode);
        }
        per_record(start, reader.join().expect("the reader returns"))
    }

    fn read_all(mut tasks: gristmill_shm::Consumer<MappedWords>) -> u64 {
        let (mut sum, mut read) = (0_u64, 0);
        while read < COUNT {
            let Some(record) = tasks.peek().expect("no corruption") else {
                spin_loop();
                continue;
            };
            let [first, _, _] = record.words::<3>(0).expect("each has three words");
            sum = sum.wrapping_add(first);
            read += 1;
            let (Tail::Kept | Tail::Published) = tasks.consume();
        }
        sum
    }

    #[inline]
    fn write(client: &mut ClientEnds, value: u64) -> bool {
        let Ok(mut record) = client.tasks.begin(RecordKind::Task, 0, 24) else { return false };
        record.words(0, &[value, 1, 2]);
        record.commit();
        true
    }

    #[expect(clippy::cast_precision_loss, reason = "a time in nanoseconds is far below 2^52")]
    fn per_record(start: u64, sum: u64) -> f64 {
        assert_eq!(sum, COUNT / 2 * (COUNT - 1), "every record arrived");
        (monotonic_ns() - start) as f64 / COUNT as f64
    }
}
