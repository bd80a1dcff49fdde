//! Tests of a worker whose task waits: which tasks run below it and which do not.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gristmill_shm::{ClientArena, ClientEnds, Segment, SegmentOptions, TakeBack, WorkerArena};
use gristmill_wire::{
    ANSWER_WORDS, AnswerFrame, Attempt, Epoch, FunctionId, PayloadKind, ReplyKind, SlotId,
    TaskExtension, TaskFlags, TaskFrame, Verdict,
};

use super::*;
use crate::{Reply, TaskCall, WorkerOptions};

/// A callee whose function 1 submits and waits while the client does what the test says; others return at once.
struct Waiting {
    worker: RefCell<Weak<Worker<Self>>>,
    client: RefCell<ClientEnds>,
    meanwhile: Box<dyn Fn(&mut ClientEnds)>,
    mode: WaitMode,
    called: RefCell<Vec<u32>>,
    /// Deadlines of the running task at the begin of each call, and after the wait.
    deadlines: RefCell<Vec<u64>>,
    ended: Cell<Option<WaitEnd>>,
    /// True if an interrupt was pending while a function was defined: its handler would have raised there.
    is_broken: Cell<bool>,
}

impl Callee for Waiting {
    fn define(&self, _function: FunctionId, _definition: &[u8]) {
        let worker = self.worker.borrow().upgrade().expect("it calls us");
        self.is_broken.set(worker.running().take_interrupt());
    }

    fn call(&self, call: &TaskCall<'_>, _out: &mut Vec<u8>) -> Reply {
        assert!(!self.is_broken.get(), "the function was interrupted while it was loaded");
        self.called.borrow_mut().push(call.function.0);
        let worker = self.worker.borrow().upgrade().expect("it calls us");
        let note = || self.deadlines.borrow_mut().push(worker.running().deadline_ns());
        note();
        if call.function.0 == 1 {
            let ticket = worker.open_ticket().expect("a task runs");
            let end = Instant::now().checked_add(Duration::from_secs(60));
            let over = worker.wait(self.mode, end, &mut || worker.is_final(ticket));
            self.ended.set(over.ok());
            note();
        }
        Reply { verdict: Verdict::Returned, arena: false }
    }

    fn while_idle(&self, _wait: &mut dyn FnMut()) {
        (self.meanwhile)(&mut self.client.borrow_mut());
    }
}

/// The timeout of tasks that are sent with an extension.
const TIMEOUT_NS: u64 = 1 << 60;

fn send(client: &mut ClientEnds, function: u32, flags: u8) {
    let frame = TaskFrame {
        task: TaskId::new(function, 0),
        function: FunctionId(function),
        attempt: Attempt(0),
        flags: TaskFlags(flags),
        parent_count: 0,
        payload_size: 0,
        payload: PayloadKind::Inline,
    };
    let extension = TaskExtension { timeout_ns: TIMEOUT_NS, ..TaskExtension::default() };
    let mut record = client.tasks.begin(RecordKind::Task, 0, 56).expect("there is room");
    record.words(0, &frame.words());
    record.words(3, &extension.words());
    record.commit();
}

fn define(client: &mut ClientEnds, function: u32) {
    let mut record = client.tasks.begin(RecordKind::Define, 0, 8).expect("there is room");
    record.word(0, u64::from(function));
    record.commit();
}

/// Sends the result of the first ticket's task, in parts of `size` bytes.
fn reply(client: &mut ClientEnds, size: usize) {
    let mut message = Vec::new();
    NestedReply { ticket: 0, kind: ReplyKind::Value, bytes: b"value" }.encode(&mut message);
    let count = message.chunks(size).len();
    for (place, part) in message.chunks(size).enumerate() {
        let more = u64::from(place + 1 < count) << 32;
        let mut record =
            client.tasks.begin(RecordKind::Reply, 0, 8 + part.len()).expect("there is room");
        record.word(0, part.len() as u64 | more);
        record.bytes(8, part);
        record.commit();
    }
}

/// Runs function 1 until it has answered. Returns the called functions and the answers, in order.
fn run(
    mode: WaitMode,
    meanwhile: impl Fn(&mut ClientEnds) + 'static,
) -> (Vec<u32>, Vec<(u32, Verdict)>, Option<WaitEnd>) {
    let options =
        SegmentOptions { slot_count: 1, task_ring_size: 1 << 16, result_ring_size: 1 << 16 };
    let segment = Segment::create(&options).expect("memory");
    segment.reset_slot(SlotId(0), Epoch(1)).expect("a slot");
    let mut client = segment.client_ends(SlotId(0)).expect("a slot");
    send(&mut client, 1, TaskFlags::EXTENDED);
    let callee = Waiting {
        worker: RefCell::default(),
        client: RefCell::new(client),
        meanwhile: Box::new(meanwhile),
        mode,
        called: RefCell::default(),
        deadlines: RefCell::default(),
        ended: Cell::new(None),
        is_broken: Cell::new(false),
    };
    let ends = segment.worker_ends(SlotId(0)).expect("a slot");
    let options = WorkerOptions {
        window: crate::Window::Fixed(Duration::ZERO),
        stack_max: usize::MAX,
        result_rest: 0,
    };
    let arena = ClientArena::create(1).expect("memory");
    let descriptors =
        arena.descriptors().map(|one| one.try_clone_to_owned().expect("a descriptor"));
    let arena = Arc::new(WorkerArena::open(descriptors, SlotId(0)).expect("an arena"));
    let worker = Rc::new(Worker::new(ends, arena, callee, options));
    *worker.callee.worker.borrow_mut() = Rc::downgrade(&worker);
    worker.run().expect("the rings are sound");
    let mut answers = Vec::new();
    let mut client = worker.callee.client.borrow_mut();
    while let Some(record) = client.results.peek().expect("sound") {
        if record.header().kind == RecordKind::Answer {
            let words = record.words::<ANSWER_WORDS>(0).expect("a frame");
            let frame = AnswerFrame::from_words(words).expect("a frame");
            answers.push((frame.task.index(), frame.verdict));
        }
        let _ = client.results.consume();
    }
    check_deadlines(&worker.callee);
    (worker.callee.called.take(), answers, worker.callee.ended.get())
}

/// Checks that function 1 had the deadline of its timeout, before and after its wait, and all others had none.
fn check_deadlines(callee: &Waiting) {
    let deadlines = callee.deadlines.borrow();
    let (first, others) = deadlines.split_first().expect("function 1 was called");
    let (last, others) = others.split_last().expect("it has waited");
    assert_eq!(first, last);
    assert!((TIMEOUT_NS..u64::MAX).contains(first));
    assert!(others.iter().all(|&other| other == u64::MAX));
    let worker = callee.worker.borrow().upgrade().expect("it called us");
    assert_eq!(worker.running().deadline_ns(), u64::MAX, "no task runs any more");
}

fn stop(client: &mut ClientEnds) {
    client.tasks.begin(RecordKind::Stop, 0, 0).expect("there is room").commit();
}

#[test]
fn a_wait_runs_the_waiting_task_s_own_below_it_and_declines_others() {
    let (called, answers, ended) = run(WaitMode::Runs, |client| {
        send(client, 2, TaskFlags::NESTED);
        send(client, 3, 0);
        reply(client, 100);
        stop(client);
    });
    assert_eq!(called, [1, 2]);
    let expected = [(2, Verdict::Returned), (3, Verdict::Declined), (1, Verdict::Returned)];
    assert_eq!((answers.as_slice(), ended), (expected.as_slice(), Some(WaitEnd::Done)));
}

#[test]
fn a_look_runs_nothing() {
    let (called, answers, _) = run(WaitMode::Looks, |client| {
        send(client, 2, TaskFlags::NESTED);
        reply(client, 100);
        stop(client);
    });
    assert_eq!(called, [1]);
    assert_eq!(answers, [(2, Verdict::Declined), (1, Verdict::Returned)]);
}

#[test]
fn an_interrupt_that_was_asked_for_before_the_reply_ends_the_wait() {
    let (.., ended) = run(WaitMode::Runs, |client| {
        client.control.interrupt(Some(0));
        reply(client, 100);
        stop(client);
    });
    assert_eq!(ended, Some(WaitEnd::Interrupted));
}

#[test]
fn an_interrupt_does_not_reach_what_is_loaded_below_the_wait() {
    let (called, _, ended) = run(WaitMode::Runs, |client| {
        client.control.interrupt(Some(0));
        define(client, 2);
        send(client, 2, TaskFlags::NESTED);
        stop(client);
    });
    assert_eq!((called.as_slice(), ended), (&[1, 2][..], Some(WaitEnd::Interrupted)));
}

#[test]
fn a_reply_in_parts_is_one_and_a_stop_ends_the_wait() {
    let (.., ended) = run(WaitMode::Runs, |client| {
        reply(client, 3);
        stop(client);
    });
    assert_eq!(ended, Some(WaitEnd::Done));
    let (_, answers, ended) = run(WaitMode::Runs, stop);
    assert_eq!(
        (answers.as_slice(), ended),
        (&[(1, Verdict::Returned)][..], Some(WaitEnd::Stopped))
    );
}

#[test]
fn a_worker_whose_ring_had_no_room_for_the_stop_leaves_once_it_has_read_all() {
    let (called, answers, ended) = run(WaitMode::Runs, |client| {
        let sequence = client.tasks.next_sequence();
        send(client, 2, 0);
        let ClientEnds { tasks, control, .. } = client;
        let taken = tasks.take_back(&[sequence], control.progress(), control.mode());
        assert_eq!(taken, [(sequence, TakeBack::Taken)]);
        // Wait records have no body: they use up the room that a stop record would need.
        while tasks.begin(RecordKind::Wait, 0, 0).map(|record| record.commit()).is_ok() {}
        control.stop();
    });
    assert_eq!((called.as_slice(), ended), (&[1][..], Some(WaitEnd::Stopped)));
    assert_eq!(answers, [(2, Verdict::Skipped), (1, Verdict::Returned)]);
}
