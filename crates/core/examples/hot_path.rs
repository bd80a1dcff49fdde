//! Prints what the machine itself costs per empty task: `cargo run --release -p gristmill-core
//! --example hot_path`.
#![expect(clippy::print_stdout, reason = "a command talks to its terminal")]

use std::hint::black_box;
use std::time::Instant;

use gristmill_core::{
    Config, ContextId, Core, Dispatch, Epoch, FunctionId, KillReason, Origin, Payload, Port,
    RingProgress, Sent, SlotId, Status, Submission, TakeBackResult, TaskId, WorkerGrant,
};
use gristmill_wire::{AnswerFrame, PayloadKind, Span, Verdict};

/// Rings without bytes: remembers what was sent.
#[derive(Default)]
struct Rings {
    sent: Vec<(SlotId, u64, TaskId, u8)>,
    sequences: [u64; 2],
}

impl Port for Rings {
    #[inline]
    fn send(&mut self, slot: SlotId, frame: Dispatch<'_>) -> Sent {
        let sequence = self.sequences[usize::from(slot.0)];
        self.sequences[usize::from(slot.0)] += 1;
        black_box(frame.payload);
        self.sent.push((slot, sequence, frame.id, frame.attempt.0));
        Sent::Written(sequence)
    }
    fn take_back(&mut self, _: SlotId, sequences: &[u64], taken: &mut Vec<TakeBackResult>) {
        taken.extend(sequences.iter().map(|_| TakeBackResult::Undecided));
    }
    fn progress(&self, _: SlotId) -> RingProgress {
        RingProgress::default()
    }
    fn interrupt(&mut self, _: SlotId, _: u64) {}
    fn kill(&mut self, _: SlotId, _: KillReason) {}
    fn spawn(&mut self, _: SlotId, _: ContextId, _: WorkerGrant) {}
    fn retire(&mut self, _: SlotId) {}
    #[inline]
    fn finished(&mut self, task: TaskId, _: u64, status: Status) {
        black_box((task, status));
    }
}

fn engine() -> (Core, Rings) {
    let mut port = Rings::default();
    let mut core = Core::new(Config { workers: 2, spare_max: 0, ..Config::default() });
    core.start(1, &mut port);
    for slot in 0..2 {
        core.slot_ready(SlotId(slot), Epoch(1), 1, &mut port);
    }
    (core, port)
}

#[inline]
fn submit(core: &mut Core, port: &mut Rings, parents: &[TaskId]) -> TaskId {
    let submission = Submission {
        function: FunctionId(0),
        payload: Payload::copy_from(&[1, 2, 3, 4, 5, 6, 7, 8]),
        handle: 7,
        submitted_ticks: 100,
        parents,
        options: None,
        origin: Origin::External,
    };
    core.submit(submission, 100, port).unwrap_or_else(|error| panic!("{error}"))
}

/// Answers everything that was sent, and what is sent on that.
#[inline]
fn answer_all(core: &mut Core, port: &mut Rings) -> u64 {
    let mut answered = 0;
    while !port.sent.is_empty() {
        let mut sent = std::mem::take(&mut port.sent);
        for &(slot, sequence, task, attempt) in &sent {
            let frame = AnswerFrame {
                task,
                #[expect(clippy::cast_possible_truncation, reason = "the low half travels")]
                sequence: sequence as u32,
                attempt: gristmill_wire::Attempt(attempt),
                verdict: Verdict::Returned,
                payload: PayloadKind::Inline,
                worker_state: gristmill_wire::WorkerState::Hot,
                started_ticks: 200,
                claimed_before: Span::from_ticks(1),
                ran: Span::from_ticks(40),
                published_after: Span::from_ticks(1),
                payload_size: 2,
            };
            let _outcome = core.answered(slot, &frame, Payload::copy_from(&[1, 2]), 300, port);
            answered += 1;
        }
        if port.sent.is_empty() {
            sent.clear();
            port.sent = sent;
        }
    }
    answered
}

fn measure(name: &str, count: u32, mut run: impl FnMut()) {
    let mut samples: Vec<f64> = (0..31)
        .map(|_| {
            let began = Instant::now();
            run();
            began.elapsed().as_secs_f64() * 1e9 / f64::from(count)
        })
        .collect();
    samples.sort_by(f64::total_cmp);
    println!("{name:<44} {:6.1} ns (least {:.1})", samples[15], samples[0]);
}

fn main() {
    let (mut core, mut port) = engine();
    for _ in 0..64 {
        let task = submit(&mut core, &mut port, &[]);
        answer_all(&mut core, &mut port);
        core.release(task);
    }
    measure("submit, send, answer, release one by one", 100_000, || {
        for _ in 0..100_000 {
            let task = submit(&mut core, &mut port, &[]);
            answer_all(&mut core, &mut port);
            core.release(task);
        }
    });
    let mut tasks = Vec::with_capacity(100_000);
    measure("the same, 1,000 at a time", 100_000, || {
        for _ in 0..100 {
            tasks.extend((0..1_000).map(|_| submit(&mut core, &mut port, &[])));
            answer_all(&mut core, &mut port);
            tasks.drain(..).for_each(|task| core.release(task));
        }
    });
    measure("the same, 100,000 at a time", 100_000, || {
        tasks.extend((0..100_000).map(|_| submit(&mut core, &mut port, &[])));
        answer_all(&mut core, &mut port);
        tasks.drain(..).for_each(|task| core.release(task));
    });
    measure("a chain of 100,000, per link", 100_000, || {
        let mut last: Option<TaskId> = None;
        for _ in 0..100_000 {
            let next = submit(&mut core, &mut port, last.as_slice());
            tasks.push(next);
            last = Some(next);
        }
        answer_all(&mut core, &mut port);
        tasks.drain(..).for_each(|task| core.release(task));
    });
}
