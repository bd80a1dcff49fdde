//! Execution of the calls of a batch, one after the other.

use gristmill_sync::clock::ticks;
use gristmill_wire::{BatchCalls, PayloadKind, RecordKind, ResourceGrant, ResultFrame, Verdict};

use crate::answer::{self, OutboundAnswer, Times};
use crate::callee::{Callee, ParentList, REPLY_MAX, Reply, TaskCall};
use crate::end::WorkerEnd;
use crate::read::TaskRecord;
use crate::run::{Buffers, Worker};

// The frame of a result has 16 bits for the size of the payload.
const _: () = assert!(REPLY_MAX <= u16::MAX as usize, "a result's frame counts 16 bits");

impl<C: Callee> Worker<C> {
    /// Runs the calls of a batch until none is left, the client takes the rest back, a priority floor forbids the next
    /// call, or the callee is unfit. Writes each result before the next call begins; the answer behind the results ends
    /// the batch.
    pub(crate) fn perform_batch(
        &self,
        task: &TaskRecord,
        started: u64,
        buffers: &mut Buffers,
    ) -> Result<(), WorkerEnd> {
        let outer = self.enter(task);
        let ran = self.perform_calls(task, started, buffers);
        self.leave(outer);
        let (done, loading) = ran?;
        let ended = if done > 0 { ticks() } else { started };
        self.callee.settle_output(ended.saturating_sub(started));
        let answer = OutboundAnswer {
            frame: &task.frame,
            sequence: task.sequence,
            times: Times { claimed: task.claimed, started: started + loading, ended },
            verdict: if done > 0 { Verdict::Returned } else { Verdict::Skipped },
            payload: &[],
            is_arena: false,
            worker_state: task.worker_state,
        };
        answer::write(&mut self.ends.borrow_mut(), &answer)?;
        self.control.progress().end(task.sequence);
        self.tell_returns()
    }

    /// Runs the calls of a batch that was entered. Returns their number, and the ticks that they took to load the
    /// function.
    #[inline]
    fn perform_calls(
        &self,
        task: &TaskRecord,
        started: u64,
        buffers: &mut Buffers,
    ) -> Result<(u32, u64), WorkerEnd> {
        let Buffers { body, out } = buffers;
        let mut calls = BatchCalls::new(&body[task.payload_at..]);
        let (mut done, mut published_at, mut loading) = (0, started, 0);
        while let Some(payload) = calls.take()? {
            if self.control.peer_bell().is_asleep() {
                self.wake_client(&mut published_at);
            }
            // The calls of a batch have priority 0, and a batch never runs during the wait of another task.
            let may_begin = self.control.admits(0) && !self.callee.is_unfit();
            if !may_begin || !self.control.begin_call(task.sequence, done) {
                break;
            }
            let function = task.frame.function;
            let call = TaskCall {
                sequence: task.sequence,
                function,
                payload,
                arena: false,
                parents: ParentList::NONE,
                grant: ResourceGrant::NONE,
                places: &[],
            };
            out.clear();
            out.extend_from_slice(&[0; ResultFrame::SIZE]);
            let reply = self.call_entered(&call, out)?;
            loading += self.callee.take_loading();
            self.callee.settle_output(0);
            self.write_result(reply, out, started)?;
            done += 1;
        }
        Ok((done, loading))
    }

    /// Publishes the results written so far and wakes the client, if the last time (`published_at`) is longer than
    /// `result_rest` ago.
    #[cold]
    fn wake_client(&self, published_at: &mut u64) {
        let now = ticks();
        let since = now.saturating_sub(*published_at);
        if since > self.options.result_rest {
            self.callee.settle_output(since);
            answer::publish_results(&mut self.ends.borrow_mut());
            *published_at = now;
        }
    }

    /// Completes the frame of a result whose payload is already appended, and writes the result. The batch runs since
    /// `started`.
    #[inline]
    fn write_result(&self, reply: Reply, result: &mut [u8], started: u64) -> Result<(), WorkerEnd> {
        let payload = if reply.arena { PayloadKind::Arena } else { PayloadKind::Inline };
        let payload_size = result.len() - ResultFrame::SIZE;
        let payload_size = u16::try_from(payload_size).map_err(|_| WorkerEnd::Results)?;
        let frame = ResultFrame { verdict: reply.verdict, payload, payload_size };
        result[..ResultFrame::SIZE].copy_from_slice(&frame.bytes());
        let mut ends = self.ends.borrow_mut();
        if self.arena.has_unsent() {
            answer::write_words(&mut ends, RecordKind::Keep, &self.arena.take_keeps())?;
        }
        if answer::add_result(&mut ends, result) {
            return Ok(());
        }
        drop(ends);
        self.begin_record(result, started)
    }

    /// Writes a result into a new record, which publishes the results in front of it.
    #[cold]
    fn begin_record(&self, result: &[u8], started: u64) -> Result<(), WorkerEnd> {
        self.callee.settle_output(ticks().saturating_sub(started));
        answer::write_result(&mut self.ends.borrow_mut(), result)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::sync::Arc;
    use std::time::Duration;

    use gristmill_shm::{ClientArena, ClientEnds, Segment, SegmentOptions, WorkerArena};
    use gristmill_wire::{
        AnswerFrame, Attempt, BatchResults, Epoch, FunctionId, SlotId, TaskFlags, TaskFrame, TaskId,
    };

    use super::*;
    use crate::WorkerOptions;

    /// The client's action during a call, given the number of the call.
    type Meanwhile = dyn Fn(&mut ClientEnds, u8);

    /// A callee that returns its arguments.
    struct Echo {
        client: RefCell<ClientEnds>,
        meanwhile: Box<Meanwhile>,
    }

    impl Callee for Echo {
        fn define(&self, _function: FunctionId, _definition: &[u8]) {}

        fn call(&self, call: &TaskCall<'_>, out: &mut Vec<u8>) -> Reply {
            out.extend_from_slice(call.payload);
            (self.meanwhile)(&mut self.client.borrow_mut(), call.payload[0]);
            let verdict = if call.payload == [1] { Verdict::Raised } else { Verdict::Returned };
            Reply { verdict, arena: false }
        }

        fn while_idle(&self, _wait: &mut dyn FnMut()) {}
    }

    /// The results of a batch, and the verdict of its answer.
    type Ran = (Vec<(Verdict, Vec<u8>)>, Verdict);

    /// Runs a batch of the calls 0 to 3. The client runs `before` first and `meanwhile` in each call.
    fn run(
        before: impl FnOnce(&mut ClientEnds),
        meanwhile: impl Fn(&mut ClientEnds, u8) + 'static,
    ) -> Ran {
        let options =
            SegmentOptions { slot_count: 1, task_ring_size: 1 << 16, result_ring_size: 1 << 16 };
        let segment = Segment::create(&options).expect("memory");
        segment.reset_slot(SlotId(0), Epoch(1)).expect("a slot");
        let mut client = segment.client_ends(SlotId(0)).expect("a slot");
        let mut payload = Vec::new();
        (0..4).for_each(|call| BatchCalls::append(&[call], &mut payload).expect("small"));
        let frame = TaskFrame {
            task: TaskId::new(5, 0),
            function: FunctionId(1),
            attempt: Attempt(0),
            flags: TaskFlags(TaskFlags::BATCH),
            parent_count: 0,
            payload_size: u32::try_from(payload.len()).expect("small"),
            payload: PayloadKind::Inline,
        };
        let body = 24 + payload.len();
        let mut record = client.tasks.begin(RecordKind::Task, 0, body).expect("there is room");
        record.words(0, &frame.words());
        record.bytes(24, &payload);
        record.commit();
        client.tasks.begin(RecordKind::Stop, 0, 0).expect("there is room").commit();
        before(&mut client);
        let arena = ClientArena::create(1).expect("memory");
        let descriptors =
            arena.descriptors().map(|one| one.try_clone_to_owned().expect("a descriptor"));
        let arena = Arc::new(WorkerArena::open(descriptors, SlotId(0)).expect("an arena"));
        let callee = Echo { client: RefCell::new(client), meanwhile: Box::new(meanwhile) };
        let ends = segment.worker_ends(SlotId(0)).expect("a slot");
        let options = WorkerOptions {
            window: crate::Window::Fixed(Duration::ZERO),
            stack_max: usize::MAX,
            result_rest: 0,
        };
        let worker = Worker::new(ends, arena, callee, options);
        worker.run().expect("the rings are sound");
        let mut results = Vec::new();
        let mut client = worker.callee.client.borrow_mut();
        loop {
            let record = client.results.peek().expect("sound").expect("an answer comes last");
            if record.header().kind == RecordKind::Answer {
                let frame = AnswerFrame::from_words(record.words(0).expect("a frame"));
                return (results, frame.expect("a frame").verdict);
            }
            let mut bytes = Vec::new();
            record.append_parts(0, &mut bytes).expect("all of it");
            let mut parts = BatchResults::new(&bytes);
            while let Some((frame, payload)) = parts.take().expect("sound") {
                results.push((frame.verdict, payload.to_vec()));
            }
            let _ = client.results.consume();
        }
    }

    #[test]
    fn each_call_has_its_result_in_front_of_the_answer() {
        let (results, verdict) = run(|_| (), |_, _| ());
        let calls: Vec<_> = results.iter().map(|(_, bytes)| bytes[0]).collect();
        assert_eq!(calls, [0, 1, 2, 3]);
        assert_eq!(results[1].0, Verdict::Raised, "one that raises does not end the batch");
        assert_eq!(verdict, Verdict::Returned);
    }

    #[test]
    fn nothing_begins_once_a_lease_is_over() {
        let (results, verdict) = run(|client| client.control.set_valid_until(ticks()), |_, _| ());
        assert!(results.is_empty());
        assert_eq!(verdict, Verdict::Skipped, "it comes back as not started");
        let later = ticks() + (1 << 50);
        let (results, _) = run(|client| client.control.set_valid_until(later), |_, _| ());
        assert_eq!(results.len(), 4);
    }

    #[test]
    fn no_call_begins_below_the_floor() {
        let (results, verdict) = run(|client| client.control.set_floor(1), |_, _| ());
        assert_eq!((results.len(), verdict), (0, Verdict::Skipped), "it comes back as not started");
        let raise = |client: &mut ClientEnds, call| client.control.set_floor(i32::from(call == 1));
        let (results, verdict) = run(|client| client.control.set_floor(0), raise);
        assert_eq!((results.len(), verdict), (2, Verdict::Returned));
    }

    #[test]
    fn no_call_begins_after_the_stop() {
        let (results, verdict) = run(
            |_| (),
            |client, call| {
                let stopped = (call == 1).then(|| client.control.stop_batch(0));
                let claimed = stopped.map(|found| found.expect("a call runs").claimed);
                assert!(claimed.is_none_or(|claimed| claimed == 2));
            },
        );
        assert_eq!((results.len(), verdict), (2, Verdict::Returned));
        let stop = |client: &mut ClientEnds| assert_eq!(client.control.stop_batch(0), None);
        let (results, verdict) = run(stop, |_, _| ());
        assert_eq!((results.len(), verdict), (0, Verdict::Skipped));
    }

    /// Returns how many results the client finds without reading the record that still grows.
    fn published(client: &mut ClientEnds) -> usize {
        let Some(record) = client.results.peek().expect("sound") else { return 0 };
        let mut bytes = Vec::new();
        record.append_parts(0, &mut bytes).expect("all of it");
        bytes.len() / 8
    }

    #[test]
    fn results_are_published_together_unless_the_client_sleeps() {
        run(|_| (), |client, _| assert_eq!(published(client), 0));
        run(
            |_| (),
            |client, call| match call {
                1 => {
                    let control = client.control.clone();
                    std::thread::spawn(move || {
                        let limit = Some(Duration::from_secs(60));
                        control.own_bell().sleep(control.mode(), || true, limit)
                    });
                    while !client.control.own_bell().is_asleep() {
                        std::hint::spin_loop();
                    }
                }
                _ => assert_eq!(published(client), if call < 2 { 0 } else { 2 }),
            },
        );
    }
}
