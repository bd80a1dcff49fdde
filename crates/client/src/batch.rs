//! Submission of many calls under one lock of the mutex: for loops over items, which need results and no futures.
//!
//! Calls of a function that is known to be short travel as batches, one task for several calls; all others travel one by one.

use std::collections::VecDeque;
use std::time::Duration;

use gristmill_core::{
    CancelMode, Origin, Payload, Submission, SubmitError, TaskOptions, TaskOutcome,
};
use gristmill_wire::{BatchCalls, FunctionId, TaskId};

use crate::client::Client;
use crate::client_port::handle;
use crate::inner::Inner;
use crate::outcome::Ended;
use crate::results::Results;
use crate::submit::CallRequest;
use crate::wait::BatchSpinWait;

/// Upper limit of the bytes of the calls of one batch: a long record holds up the ring.
const BATCH_BYTES_MAX: usize = 8 << 10;

/// Encoded calls of one function, in the format of a batch's payload.
#[derive(Debug, Default)]
pub struct CallBatch {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl CallBatch {
    /// Returns the buffer to which the caller appends the next call; [`Self::finish_call`] ends the call.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        let start = self.end(self.ends.len());
        self.bytes.resize(start + BatchCalls::HEAD, 0);
        &mut self.bytes
    }

    /// Turns the bytes appended since the last call into a call.
    ///
    /// # Panics
    /// If they are 4 GiB or more.
    pub fn finish_call(&mut self) {
        let start = self.end(self.ends.len());
        let bytes = start + BatchCalls::HEAD;
        let head = BatchCalls::head(self.bytes.len() - bytes).expect("large parts go elsewhere");
        self.bytes[start..bytes].copy_from_slice(&head);
        self.ends.push(self.bytes.len());
    }

    /// Removes the bytes appended since the last call.
    pub fn abandon_call(&mut self) {
        self.bytes.truncate(self.end(self.ends.len()));
    }

    /// Returns the number of calls.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns true if there is no call.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the bytes of all calls.
    #[must_use]
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Removes all calls and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Returns the offset at which the first `count` calls end.
    fn end(&self, count: usize) -> usize {
        if count == 0 { 0 } else { self.ends[count - 1] }
    }

    fn call(&self, number: usize) -> &[u8] {
        &self.bytes[self.end(number) + BatchCalls::HEAD..self.end(number + 1)]
    }

    /// Returns the number of calls from `first` on that fit into a batch of at most `limit` calls, and its payload.
    fn cut(&self, first: usize, limit: usize) -> (usize, &[u8]) {
        let start = self.end(first);
        let fits = |&&end: &&usize| end - start <= BATCH_BYTES_MAX;
        let count = self.ends[first..].iter().take(limit).take_while(fits).count();
        (count, &self.bytes[start..self.end(first + count)])
    }
}

/// A submitted part of a loop whose results were not taken yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pending {
    /// One call.
    One(TaskId),
    /// This number of calls.
    Batch(TaskId, u32),
}

impl Pending {
    const fn task(self) -> TaskId {
        match self {
            Self::One(task) | Self::Batch(task, _) => task,
        }
    }

    const fn calls(self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Batch(_, calls) => calls as usize,
        }
    }

    /// Returns `self` without its last `rest` calls, which have become tasks.
    fn without(self, rest: usize) -> Self {
        match self {
            Self::One(_) => self,
            Self::Batch(task, calls) => {
                Self::Batch(task, calls - u32::try_from(rest).unwrap_or(calls))
            }
        }
    }
}

/// The outcomes of calls, in order.
#[derive(Debug)]
pub enum TakenResults {
    /// The outcome of one call.
    One(Ended),
    /// The outcomes of several calls.
    Results(Results),
}

impl TakenResults {
    /// Returns the number of calls.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "it is never empty when it is taken")]
    pub const fn len(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Results(results) => results.len(),
        }
    }
}

impl Client {
    /// Submits calls from `first` on and appends an entry for each submitted task to `pending`. If a call is not accepted, the
    /// error holds the number of that call and the reason.
    ///
    /// # Errors
    /// As [`Client::submit`].
    pub fn submit_batch(
        &self,
        function: FunctionId,
        options: Option<&TaskOptions>,
        (batch, first): (&CallBatch, usize),
        pending: &mut VecDeque<Pending>,
    ) -> Result<(), (usize, SubmitError)> {
        let mut inner = self.lock();
        let mut next = first;
        let mut outcome = Ok(());
        while next < batch.len() {
            let limit = if options.is_some() { 1 } else { inner.core.batch_size(function) };
            let (count, payload) = batch.cut(next, limit as usize);
            let submitted = if count > 1 {
                let calls = u32::try_from(count).unwrap_or(u32::MAX);
                let batch = inner.submit_calls(function, payload, calls);
                batch.map(|batch| Pending::Batch(batch, calls))
            } else {
                let payload = batch.call(next);
                let call = CallRequest {
                    function,
                    payload,
                    parts: &[],
                    views: false,
                    parents: &[],
                    options,
                };
                inner.submit(&call, Vec::new(), Origin::External, 0).map(Pending::One)
            };
            match submitted {
                Ok(submitted) => pending.push_back(submitted),
                Err(error) => {
                    outcome = Err((next, error));
                    break;
                }
            }
            next += count.max(1);
        }
        self.summon_if_needed(inner);
        outcome
    }

    /// Returns the number of calls of a function that travel as one task; 1 means that calls travel one by one.
    pub fn batch_size(&self, function: FunctionId) -> u32 {
        self.lock().core.batch_size(function)
    }

    /// Takes the available results of the foremost calls, about `limit` of them, and releases finished tasks. Takes results of
    /// an unfinished batch only if `splits`. Returns the number of calls that are not outstanding any more.
    pub fn take_front(
        &self,
        pending: &mut VecDeque<Pending>,
        limit: usize,
        splits: bool,
        taken: &mut VecDeque<TakenResults>,
    ) -> usize {
        let mut inner = self.lock();
        inner.drain();
        let (mut count, mut ended) = (0, 0);
        while count < limit
            && let Some(&front) = pending.front()
        {
            let before = taken.len();
            let rest = inner.take_pending(front, splits, taken);
            count += taken.range(before..).map(TakenResults::len).sum::<usize>();
            let Some(rest) = rest else { break };
            pending.pop_front();
            ended += front.calls() - rest.len();
            rest.into_iter().rev().for_each(|single| pending.push_front(Pending::One(single)));
        }
        self.leave(inner, false);
        ended
    }

    /// Works as [`Self::take_front`], but takes the results of any calls.
    pub fn take_any(
        &self,
        pending: &mut VecDeque<Pending>,
        splits: bool,
        taken: &mut VecDeque<TakenResults>,
    ) -> usize {
        let mut inner = self.lock();
        inner.drain();
        let mut ended = 0;
        for _ in 0..pending.len() {
            let Some(next) = pending.pop_front() else { break };
            let rest = match inner.take_pending(next, splits, taken) {
                Some(rest) => {
                    ended += next.calls() - rest.len();
                    rest
                }
                None => {
                    let rest = inner.port.batches.take_rest(next.task());
                    pending.push_back(next.without(rest.len()));
                    rest
                }
            };
            pending.extend(rest.into_iter().map(Pending::One));
        }
        self.leave(inner, false);
        ended
    }

    /// Waits until [`Self::take_front`] finds a result.
    pub fn wait_front(&self, front: Pending, limit: Duration) -> bool {
        let patience = BatchSpinWait::new(self.spin());
        let is_done = |inner: &Inner| inner.has_ended(front, &patience);
        self.wait_patiently(&[front.task()], limit, Some(&patience), is_done)
    }

    /// Waits until [`Self::take_any`] finds a result.
    pub fn wait_pending(&self, pending: &[Pending], limit: Duration) -> bool {
        let tasks: Vec<TaskId> = pending.iter().map(|one| one.task()).collect();
        let patience = BatchSpinWait::new(self.spin());
        let has_more = |inner: &Inner, one: Pending| {
            inner.has_ended(one, &patience) || inner.port.batches.has_rest(one.task())
        };
        let is_done = |inner: &Inner| pending.iter().any(|&one| has_more(inner, one));
        self.wait_patiently(&tasks, limit, Some(&patience), is_done)
    }

    /// Releases all pending tasks. They run on; with `cancels`, those that have not started are cancelled.
    pub fn drop_pending(&self, pending: &mut VecDeque<Pending>, cancels: bool) {
        for one in pending.drain(..) {
            if cancels {
                // A task at a peer comes back cancelled, or ends; no thread waits for the peer's answer.
                let _ = self.begin_cancel(one.task(), CancelMode::Unstarted);
                let rest = self.lock().port.batches.rest_of(one.task());
                for task in rest {
                    let _ = self.begin_cancel(task, CancelMode::Unstarted);
                }
            }
            self.release(one.task());
        }
    }
}

impl Inner {
    fn submit_calls(
        &mut self,
        function: FunctionId,
        payload: &[u8],
        calls: u32,
    ) -> Result<TaskId, SubmitError> {
        let now = self.now_for_submit();
        let submission = Submission {
            function,
            payload: Payload::copy_from(payload),
            handle: handle(function, 0),
            submitted_ticks: self.port.now_ticks(),
            parents: &[],
            options: None,
            origin: Origin::External,
        };
        self.accept(function, |core, port| {
            let task = core.submit_batch(submission, calls, now, port)?;
            port.batches.insert(task, function, calls);
            Ok(task)
        })
    }

    /// Returns true if there is a result to take.
    fn has_ended(&self, pending: Pending, patience: &BatchSpinWait) -> bool {
        let task = pending.task();
        self.is_final(task)
            || (matches!(pending, Pending::Batch(..))
                && self.port.batches.is_ready(task)
                && patience.is_over())
    }

    /// Takes the available results. If no more can come, releases the task and returns the tasks that were split off.
    fn take_pending(
        &mut self,
        pending: Pending,
        splits: bool,
        taken: &mut VecDeque<TakenResults>,
    ) -> Option<Vec<TaskId>> {
        let task = match pending {
            Pending::Batch(task, _) => task,
            Pending::One(task) => {
                taken.push_back(TakenResults::One(self.take_ended(task)?));
                return Some(Vec::new());
            }
        };
        let is_final = self.is_final(task);
        if is_final || splits {
            taken.extend(self.port.batches.take_ready(task).map(TakenResults::Results));
        }
        if !is_final {
            return None;
        }
        let (unanswered, rest) = self.port.batches.remove(task).unwrap_or_default();
        for _ in 0..unanswered {
            taken.extend(self.ended(task).map(TakenResults::One));
        }
        debug_assert!(
            unanswered == 0 || !matches!(self.core.outcome(task), Some(TaskOutcome::Returned(_))),
            "a call without a result"
        );
        self.release(task);
        Some(rest)
    }
}
