//! What a running task does with tasks of its own: it asks, and it waits while this very loop goes on below it.
//!
//! A wait first tells the client, which then sends only tasks that may run in it. They run here, on the stack of the
//! waiting task, as long as there is stack to spare; anything else is declined and runs elsewhere.

use std::time::Instant;

use gristmill_shm::BeginError;
use gristmill_wire::{FrameError, Kind, NestedReply, NestedRequest, TaskFlags, TaskId, Verdict};

use crate::callee::Callee;
use crate::run::{Buffers, SLEEP_MAX, Step, Worker, WorkerEnd};
use crate::tickets::Outcome;

/// Tasks on one stack beyond which a wait runs nothing: each may use the interpreter's frames that the others leave.
const DEPTH_MAX: u32 = 64;
/// Tickets whose futures are gone are given back this many at once, or at the end of the task.
const RELEASED_AT_ONCE: usize = 256;

/// What a wait may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitMode {
    /// Run tasks of the waiting one below it: nothing else might.
    Runs,
    /// Run nothing, but have others run what they can: a look that must not take long.
    Looks,
    /// Nothing but read: the client answers in any case.
    Reads,
}

/// Why a wait is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitEnd {
    /// What it waited for is there.
    Done,
    /// The time is over.
    TimedOut,
    /// The waiting task is to be interrupted.
    Interrupted,
    /// The callee's check for signals raised something.
    Raised,
    /// The worker was told to leave.
    Stopped,
}

impl<C: Callee> Worker<C> {
    /// The task that runs now, the innermost one.
    pub fn current_task(&self) -> Option<TaskId> {
        self.task.get()
    }

    /// What calls functions here.
    pub const fn callee(&self) -> &C {
        &self.callee
    }

    /// A number for a task that the running one is about to submit.
    pub fn open_ticket(&self) -> Option<u32> {
        Some(self.tickets.borrow_mut().open(self.current_task()?))
    }

    /// How the task of a ticket ended, if it has and the client has told.
    pub fn outcome(&self, ticket: u32) -> Option<Outcome> {
        self.tickets.borrow().outcome(ticket)
    }

    /// Whether a ticket's task has ended, as far as is known here.
    pub fn is_final(&self, ticket: u32) -> bool {
        self.tickets.borrow().is_final(ticket)
    }

    /// The task that submitted a ticket's task.
    pub fn owner(&self, ticket: u32) -> Option<TaskId> {
        self.tickets.borrow().owner(ticket)
    }

    /// Has [`Callee::completed`] called when a ticket's task has ended; false when it has.
    pub fn watch(&self, ticket: u32) -> bool {
        self.tickets.borrow_mut().watch(ticket)
    }

    /// The client's answer to a cancellation, once; see [`Self::has_cancel_answer`].
    pub fn take_cancel_answer(&self, ticket: u32) -> Option<bool> {
        self.tickets.borrow_mut().take_cancel_answer(ticket)
    }

    /// Whether the client has answered a cancellation.
    pub fn has_cancel_answer(&self, ticket: u32) -> bool {
        self.tickets.borrow().has_cancel_answer(ticket)
    }

    /// Sends a request; waits while the result ring is full.
    ///
    /// # Errors
    /// [`WorkerEnd::Results`].
    pub fn request(&self, request: &NestedRequest<'_>) -> Result<(), WorkerEnd> {
        let mut message = Vec::with_capacity(128);
        request.encode(&mut message);
        let part_max = self.lane.borrow().results.max_body() as usize / 2;
        let mut parts = message.chunks(part_max).peekable();
        while let Some(part) = parts.next() {
            let is_last = parts.peek().is_none();
            let word = part.len() as u64 | (u64::from(!is_last) << 32);
            self.write(Kind::Request, &[word], part)?;
        }
        self.ring_client();
        Ok(())
    }

    fn ring_client(&self) {
        self.control.peer_bell().ring(self.mode);
    }

    fn write(&self, kind: Kind, words: &[u64], bytes: &[u8]) -> Result<(), WorkerEnd> {
        let body = words.len() * 8 + bytes.len();
        loop {
            match self.lane.borrow_mut().results.begin(kind, 0, body) {
                Ok(mut record) => {
                    record.words(0, words);
                    #[expect(clippy::cast_possible_truncation, reason = "a word or two")]
                    record.bytes(words.len() as u32 * 8, bytes);
                    record.commit();
                    return Ok(());
                }
                Err(BeginError::Full { .. }) => {}
                Err(_) => return Err(WorkerEnd::Results),
            }
            self.callee.while_idle(&mut || {
                crate::answer::wait_for_room(&mut self.lane.borrow_mut(), body);
            });
        }
    }

    /// Tells the client of tickets that nobody holds any more, if there are `at_least` so many.
    ///
    /// # Errors
    /// [`WorkerEnd::Results`].
    pub(crate) fn release_dropped(&self, at_least: usize) -> Result<(), WorkerEnd> {
        let tickets = self.callee.take_dropped(at_least);
        if tickets.is_empty() {
            return Ok(());
        }
        let mut open = self.tickets.borrow_mut();
        tickets.iter().for_each(|&ticket| open.close(ticket));
        drop(open);
        self.request(&NestedRequest::Release { tickets })
    }

    /// As [`Self::release_dropped`], when enough have come together to be worth a record.
    ///
    /// # Errors
    /// [`WorkerEnd::Results`].
    pub fn release_many(&self) -> Result<(), WorkerEnd> {
        self.release_dropped(RELEASED_AT_ONCE)
    }

    /// Takes in a part of a reply.
    pub(crate) fn take_reply(&self, word: u64, part: &[u8]) -> Result<(), FrameError> {
        let mut tickets = self.tickets.borrow_mut();
        let mut message = std::mem::take(&mut tickets.partial);
        let has_more = word >> 32 != 0;
        if has_more || !message.is_empty() {
            message.extend_from_slice(part);
            if has_more {
                tickets.partial = message;
                return Ok(());
            }
        }
        let whole = if message.is_empty() { part } else { &message };
        let watched = tickets.reply(&NestedReply::decode(whole)?);
        drop(tickets);
        if let Some(ticket) = watched {
            self.callee.completed(ticket);
        }
        Ok(())
    }

    /// Waits until `done`, doing what `mode` says meanwhile. Without a running task nothing is waited for.
    ///
    /// # Errors
    /// See [`WorkerEnd`]; the worker's loop ends with it too.
    pub fn wait(
        &self,
        mode: WaitMode,
        end: Option<Instant>,
        done: &mut dyn FnMut() -> bool,
    ) -> Result<WaitEnd, WorkerEnd> {
        let outcome = self.wait_here(mode, end, done);
        if let Err(end) = &outcome {
            self.broken.set(Some(end.clone()));
        }
        outcome
    }

    fn wait_here(
        &self,
        mode: WaitMode,
        end: Option<Instant>,
        done: &mut dyn FnMut() -> bool,
    ) -> Result<WaitEnd, WorkerEnd> {
        let mut buffers = self.spare_buffers.borrow_mut().pop().unwrap_or_default();
        self.take_news(&mut buffers)?;
        let Some(task) = self.current_task().filter(|_| !done()) else {
            self.spare_buffers.borrow_mut().push(buffers);
            return Ok(self.unless_interrupted(WaitEnd::Done));
        };
        let tells = mode != WaitMode::Reads;
        if tells {
            self.write(Kind::Wait, &[task.word(), 1], &[])?;
            self.ring_client();
        }
        let may_nest = mode == WaitMode::Runs && self.may_nest();
        let over = self.wait_below(may_nest, &mut buffers, end, done)?;
        let over = self.unless_interrupted(over);
        if tells {
            self.write(Kind::Wait, &[task.word(), 0], &[])?;
            self.ring_client();
        }
        self.spare_buffers.borrow_mut().push(buffers);
        Ok(over)
    }

    /// The signal of an interrupt may be on its way still, and would reach the task in what it does next, cleaning up
    /// even; or it came while a function was loaded, which it must not reach.
    fn unless_interrupted(&self, over: WaitEnd) -> WaitEnd {
        let is_interrupted = over == WaitEnd::Done && self.running.take_interrupt();
        if is_interrupted { WaitEnd::Interrupted } else { over }
    }

    /// Reads what stands in front of the next task.
    fn take_news(&self, buffers: &mut Buffers) -> Result<(), WorkerEnd> {
        while self.next_is_news()? {
            match self.next_step(&mut buffers.body)? {
                Step::Define(function) => self.define(function, &buffers.body),
                Step::Reply(word) => self.take_reply(word, &buffers.body)?,
                _ => break,
            }
        }
        Ok(())
    }

    fn next_is_news(&self) -> Result<bool, WorkerEnd> {
        let mut lane = self.lane.borrow_mut();
        let next = lane.tasks.peek()?;
        Ok(next.is_some_and(|record| matches!(record.header().kind, Kind::Define | Kind::Reply)))
    }

    fn wait_below(
        &self,
        may_nest: bool,
        buffers: &mut Buffers,
        end: Option<Instant>,
        done: &mut dyn FnMut() -> bool,
    ) -> Result<WaitEnd, WorkerEnd> {
        loop {
            match self.next_step(&mut buffers.body)? {
                Step::Task(task) => {
                    if may_nest && task.frame.flags.has(TaskFlags::NESTED) {
                        self.perform(&task, buffers)?;
                        if self.running.take_interrupt() {
                            return Ok(WaitEnd::Interrupted);
                        }
                        if end.is_some_and(|end| Instant::now() >= end) {
                            return Ok(if done() { WaitEnd::Done } else { WaitEnd::TimedOut });
                        }
                    } else {
                        self.refuse(&task, Verdict::Declined)?;
                    }
                }
                Step::Revoked(task) => self.refuse(&task, Verdict::Skipped)?,
                Step::Define(function) => self.define(function, &buffers.body),
                Step::Reply(word) => {
                    self.take_reply(word, &buffers.body)?;
                    if done() {
                        return Ok(WaitEnd::Done);
                    }
                }
                Step::Stop => {
                    self.is_stopped.set(true);
                    return Ok(WaitEnd::Stopped);
                }
                Step::Other => {}
                Step::Idle => {
                    if let Some(over) = self.rest(end, done) {
                        return Ok(over);
                    }
                }
            }
        }
    }

    /// Nothing is to be read: looks at everything else that can end the wait, then sleeps.
    fn rest(&self, end: Option<Instant>, done: &mut dyn FnMut() -> bool) -> Option<WaitEnd> {
        if done() {
            return Some(WaitEnd::Done);
        }
        if self.callee.has_raised() {
            return Some(WaitEnd::Raised);
        }
        if self.running.take_interrupt() {
            return Some(WaitEnd::Interrupted);
        }
        let left = end.map_or(SLEEP_MAX, |end| end.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            return Some(WaitEnd::TimedOut);
        }
        self.idle(left);
        None
    }

    fn may_nest(&self) -> bool {
        let here = 0u8;
        let used = self.stack_base.get().abs_diff(std::ptr::from_ref(&here).addr());
        self.depth.get() < DEPTH_MAX && used < self.options.stack_max && self.callee.may_nest()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::os::fd::AsFd;
    use std::rc::{Rc, Weak};
    use std::sync::Arc;
    use std::time::Duration;

    use gristmill_shm::{ClientArena, ClientLane, Segment, SegmentOptions, TakeBack, WorkerArena};
    use gristmill_wire::{
        ANSWER_WORDS, AnswerFrame, Attempt, Epoch, FunctionId, PayloadKind, ReplyKind, SlotId,
        TaskFrame,
    };

    use super::*;
    use crate::{Call, Reply, WorkerOptions};

    /// Function 1 submits and waits, with what the test lets the client do meanwhile; others return at once.
    struct Waiting {
        worker: RefCell<Weak<Worker<Self>>>,
        client: RefCell<ClientLane>,
        meanwhile: Box<dyn Fn(&mut ClientLane)>,
        mode: WaitMode,
        called: RefCell<Vec<u32>>,
        ended: Cell<Option<WaitEnd>>,
        /// A handler of interrupts would have raised in a definition.
        is_broken: Cell<bool>,
    }

    impl Callee for Waiting {
        fn define(&self, _function: FunctionId, _definition: &[u8]) {
            let worker = self.worker.borrow().upgrade().expect("it calls us");
            self.is_broken.set(worker.running().take_interrupt());
        }

        fn call(&self, call: &Call<'_>, _out: &mut Vec<u8>) -> Reply {
            assert!(!self.is_broken.get(), "the function was interrupted while it was loaded");
            self.called.borrow_mut().push(call.function.0);
            if call.function.0 == 1 {
                let worker = self.worker.borrow().upgrade().expect("it calls us");
                let ticket = worker.open_ticket().expect("a task runs");
                let end = Instant::now().checked_add(Duration::from_secs(60));
                let over = worker.wait(self.mode, end, &mut || worker.is_final(ticket));
                self.ended.set(over.ok());
            }
            Reply { verdict: Verdict::Returned, arena: false }
        }

        fn while_idle(&self, _wait: &mut dyn FnMut()) {
            (self.meanwhile)(&mut self.client.borrow_mut());
        }
    }

    fn send(client: &mut ClientLane, function: u32, flags: u8) {
        let frame = TaskFrame {
            task: TaskId::new(function, 0),
            function: FunctionId(function),
            attempt: Attempt(0),
            flags: TaskFlags(flags),
            parent_count: 0,
            payload_size: 0,
            payload: PayloadKind::Inline,
        };
        let mut record = client.tasks.begin(Kind::Task, 0, 24).expect("there is room");
        record.words(0, &frame.words());
        record.commit();
    }

    fn define(client: &mut ClientLane, function: u32) {
        let mut record = client.tasks.begin(Kind::Define, 0, 8).expect("there is room");
        record.word(0, u64::from(function));
        record.commit();
    }

    /// News of the first ticket, in parts of `size` bytes.
    fn reply(client: &mut ClientLane, size: usize) {
        let mut message = Vec::new();
        NestedReply { ticket: 0, kind: ReplyKind::Value, bytes: b"value" }.encode(&mut message);
        let count = message.chunks(size).len();
        for (place, part) in message.chunks(size).enumerate() {
            let more = u64::from(place + 1 < count) << 32;
            let mut record =
                client.tasks.begin(Kind::Reply, 0, 8 + part.len()).expect("there is room");
            record.word(0, part.len() as u64 | more);
            record.bytes(8, part);
            record.commit();
        }
    }

    /// Runs function 1 until it has answered; gives what was called and answered, in order.
    fn run(
        mode: WaitMode,
        meanwhile: impl Fn(&mut ClientLane) + 'static,
    ) -> (Vec<u32>, Vec<(u32, Verdict)>, Option<WaitEnd>) {
        let options =
            SegmentOptions { slot_count: 1, task_ring_size: 1 << 16, result_ring_size: 1 << 16 };
        let segment = Segment::create(&options).expect("memory");
        segment.reset_lane(SlotId(0), Epoch(1)).expect("a slot");
        let mut client = segment.client_lane(SlotId(0)).expect("a slot");
        send(&mut client, 1, 0);
        let callee = Waiting {
            worker: RefCell::default(),
            client: RefCell::new(client),
            meanwhile: Box::new(meanwhile),
            mode,
            called: RefCell::default(),
            ended: Cell::new(None),
            is_broken: Cell::new(false),
        };
        let lane = segment.worker_lane(SlotId(0)).expect("a slot");
        let options = WorkerOptions {
            window: crate::Window::Fixed(Duration::ZERO),
            stack_max: usize::MAX,
            result_rest: 0,
        };
        let arena = ClientArena::create(1).expect("memory");
        let descriptor = arena.as_fd().try_clone_to_owned().expect("a descriptor");
        let arena = Arc::new(WorkerArena::open(descriptor, SlotId(0)).expect("an arena"));
        let worker = Rc::new(Worker::new(lane, arena, callee, options));
        *worker.callee.worker.borrow_mut() = Rc::downgrade(&worker);
        worker.run().expect("the rings are sound");
        let mut answers = Vec::new();
        let mut client = worker.callee.client.borrow_mut();
        while let Some(record) = client.results.peek().expect("sound") {
            if record.header().kind == Kind::Answer {
                let words = record.words::<ANSWER_WORDS>(0).expect("a frame");
                let frame = AnswerFrame::from_words(words).expect("a frame");
                answers.push((frame.task.index(), frame.verdict));
            }
            let _ = client.results.consume();
        }
        (worker.callee.called.take(), answers, worker.callee.ended.get())
    }

    fn stop(client: &mut ClientLane) {
        client.tasks.begin(Kind::Stop, 0, 0).expect("there is room").commit();
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
            let ClientLane { tasks, control, .. } = client;
            let taken = tasks.take_back(&[sequence], control.progress(), control.mode());
            assert_eq!(taken, [(sequence, TakeBack::Taken)]);
            // Without a body they take all that a stop would.
            while tasks.begin(Kind::Wait, 0, 0).map(|record| record.commit()).is_ok() {}
            control.stop();
        });
        assert_eq!((called.as_slice(), ended), (&[1][..], Some(WaitEnd::Stopped)));
        assert_eq!(answers, [(2, Verdict::Skipped), (1, Verdict::Returned)]);
    }
}
