//! Many calls under one taking of the mutex: for loops over items, which want results and no futures.
//!
//! Calls of a function that is known to be short travel as batches, a task for several calls; all others one by one.

use std::collections::VecDeque;
use std::time::Duration;

use gristmill_core::{CancelMode, Origin, Outcome, Payload, Submission, SubmitError, TaskOptions};
use gristmill_wire::{BatchCalls, FunctionId, TaskId};

use crate::client::Client;
use crate::inner::Inner;
use crate::lanes::handle;
use crate::outcome::Ended;
use crate::results::Results;
use crate::submit::Call;
use crate::wait::Patience;

/// Bytes of the calls of one batch at most: a record that is long holds up the ring.
const BATCH_BYTES_MAX: usize = 8 << 10;

/// Encoded calls of one function, as a batch's payload has them.
#[derive(Debug, Default)]
pub struct CallBatch {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl CallBatch {
    /// Where the next call is to be appended; [`Self::finish_call`] ends it.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        let start = self.end(self.ends.len());
        self.bytes.resize(start + BatchCalls::HEAD, 0);
        &mut self.bytes
    }

    /// The bytes appended since the last call are a call.
    ///
    /// # Panics
    /// When they are 4 GiB or more.
    pub fn finish_call(&mut self) {
        let start = self.end(self.ends.len());
        let bytes = start + BatchCalls::HEAD;
        let head = BatchCalls::head(self.bytes.len() - bytes).expect("large parts go elsewhere");
        self.bytes[start..bytes].copy_from_slice(&head);
        self.ends.push(self.bytes.len());
    }

    /// Takes back what was appended since the last call.
    pub fn abandon_call(&mut self) {
        self.bytes.truncate(self.end(self.ends.len()));
    }

    /// How many calls there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Forgets all calls, keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Where the first `count` calls end.
    fn end(&self, count: usize) -> usize {
        if count == 0 { 0 } else { self.ends[count - 1] }
    }

    fn call(&self, number: usize) -> &[u8] {
        &self.bytes[self.end(number) + BatchCalls::HEAD..self.end(number + 1)]
    }

    /// Calls from `first` on that make a batch of at most `limit`: how many, and the batch's payload.
    fn cut(&self, first: usize, limit: usize) -> (usize, &[u8]) {
        let start = self.end(first);
        let fits = |&&end: &&usize| end - start <= BATCH_BYTES_MAX;
        let count = self.ends[first..].iter().take(limit).take_while(fits).count();
        (count, &self.bytes[start..self.end(first + count)])
    }
}

/// What was submitted of a loop and not taken yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pending {
    /// One call.
    One(TaskId),
    /// So many.
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

    /// Without its last calls, which have become tasks.
    fn without(self, rest: usize) -> Self {
        match self {
            Self::One(_) => self,
            Self::Batch(task, calls) => {
                Self::Batch(task, calls - u32::try_from(rest).unwrap_or(calls))
            }
        }
    }
}

/// What came of calls, in order.
#[derive(Debug)]
pub enum Taken {
    /// Of one.
    One(Ended),
    /// Of several.
    Results(Results),
}

impl Taken {
    /// Of how many calls.
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
    /// Submits calls from `first` on and appends what stands for them to `pending`; gives the number of the first call
    /// that was not accepted, with the reason.
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
                let call =
                    Call { function, payload, parts: &[], views: false, parents: &[], options };
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

    /// How many calls of a function travel together; 1 is none.
    pub fn batch_size(&self, function: FunctionId) -> u32 {
        self.lock().core.batch_size(function)
    }

    /// Takes what came of the foremost calls, as far as it is there and about `limit` of them, and lets go of them; of a
    /// batch that is not through only if it `splits`. Gives how many calls are not outstanding any more.
    pub fn take_front(
        &self,
        pending: &mut VecDeque<Pending>,
        limit: usize,
        splits: bool,
        taken: &mut VecDeque<Taken>,
    ) -> usize {
        let mut inner = self.lock();
        inner.drain();
        let (mut count, mut ended) = (0, 0);
        while count < limit
            && let Some(&front) = pending.front()
        {
            let before = taken.len();
            let rest = inner.take_pending(front, splits, taken);
            count += taken.range(before..).map(Taken::len).sum::<usize>();
            let Some(rest) = rest else { break };
            pending.pop_front();
            ended += front.calls() - rest.len();
            rest.into_iter().rev().for_each(|single| pending.push_front(Pending::One(single)));
        }
        self.leave(inner, false);
        ended
    }

    /// As [`Self::take_front`], of any calls.
    pub fn take_any(
        &self,
        pending: &mut VecDeque<Pending>,
        splits: bool,
        taken: &mut VecDeque<Taken>,
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
                    let rest = inner.lanes.batches.take_rest(next.task());
                    pending.push_back(next.without(rest.len()));
                    rest
                }
            };
            pending.extend(rest.into_iter().map(Pending::One));
        }
        self.leave(inner, false);
        ended
    }

    /// Waits until [`Self::take_front`] finds something.
    pub fn wait_front(&self, front: Pending, limit: Duration) -> bool {
        let patience = Patience::new(self.spin());
        let is_done = |inner: &Inner| inner.has_news(front, &patience);
        self.wait_patiently(&[front.task()], limit, Some(&patience), is_done)
    }

    /// Waits until [`Self::take_any`] finds something.
    pub fn wait_pending(&self, pending: &[Pending], limit: Duration) -> bool {
        let tasks: Vec<TaskId> = pending.iter().map(|one| one.task()).collect();
        let patience = Patience::new(self.spin());
        let has_more = |inner: &Inner, one: Pending| {
            inner.has_news(one, &patience) || inner.lanes.batches.has_rest(one.task())
        };
        let is_done = |inner: &Inner| pending.iter().any(|&one| has_more(inner, one));
        self.wait_patiently(&tasks, limit, Some(&patience), is_done)
    }

    /// Lets go of what was submitted: it runs on, or with `cancels` is cancelled as far as it has not begun.
    pub fn drop_pending(&self, pending: &mut VecDeque<Pending>, cancels: bool) {
        for one in pending.drain(..) {
            if cancels {
                // What is with a peer comes back cancelled, or ends: nobody waits for its word.
                let _ = self.begin_cancel(one.task(), CancelMode::Unstarted);
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
            submitted_ticks: self.lanes.now_ticks(),
            parents: &[],
            options: None,
            origin: Origin::External,
        };
        self.accept(function, |core, lanes| {
            let task = core.submit_batch(submission, calls, now, lanes)?;
            lanes.batches.insert(task, function, calls);
            Ok(task)
        })
    }

    /// Whether there is something to take.
    fn has_news(&self, pending: Pending, patience: &Patience) -> bool {
        let task = pending.task();
        self.is_final(task)
            || (matches!(pending, Pending::Batch(..))
                && self.lanes.batches.is_ready(task)
                && patience.is_over())
    }

    /// Takes what is there; when nothing more can come, lets go of the task and gives those that came of it.
    fn take_pending(
        &mut self,
        pending: Pending,
        splits: bool,
        taken: &mut VecDeque<Taken>,
    ) -> Option<Vec<TaskId>> {
        let task = match pending {
            Pending::Batch(task, _) => task,
            Pending::One(task) => {
                taken.push_back(Taken::One(self.take_ended(task)?));
                return Some(Vec::new());
            }
        };
        let is_final = self.is_final(task);
        if is_final || splits {
            taken.extend(self.lanes.batches.take_ready(task).map(Taken::Results));
        }
        if !is_final {
            return None;
        }
        let (unanswered, rest) = self.lanes.batches.remove(task).unwrap_or_default();
        for _ in 0..unanswered {
            taken.extend(self.ended(task).map(Taken::One));
        }
        debug_assert!(
            unanswered == 0 || !matches!(self.core.outcome(task), Some(Outcome::Returned(_))),
            "a call without a result"
        );
        self.release(task);
        Some(rest)
    }
}
