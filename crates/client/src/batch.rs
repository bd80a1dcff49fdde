//! Many tasks under one taking of the mutex: for loops over items, which want results and no futures.

use std::collections::VecDeque;

use gristmill_core::{Origin, SubmitError, TaskOptions};
use gristmill_wire::{FunctionId, TaskId};

use crate::client::{Call, Client};
use crate::outcome::Ended;

/// Encoded calls of one function, one behind the other.
#[derive(Debug, Default)]
pub struct CallBatch {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl CallBatch {
    /// Where the next call is to be appended; [`Self::finish_call`] ends it.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// The bytes appended since the last call are a call.
    pub fn finish_call(&mut self) {
        self.ends.push(self.bytes.len());
    }

    /// Takes back what was appended since the last call.
    pub fn abandon_call(&mut self) {
        self.bytes.truncate(self.ends.last().copied().unwrap_or(0));
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

    fn calls(&self, first: usize) -> impl Iterator<Item = &[u8]> {
        let mut start = if first == 0 { 0 } else { self.ends[first - 1] };
        self.ends[first..]
            .iter()
            .map(move |&end| &self.bytes[std::mem::replace(&mut start, end)..end])
    }
}

impl Client {
    /// Submits the calls of a batch from `first` on and appends their ids to `tasks`; gives the number of the first call
    /// that was not accepted, with the reason.
    ///
    /// # Errors
    /// As [`Client::submit`].
    pub fn submit_batch(
        &self,
        function: FunctionId,
        options: Option<&TaskOptions>,
        (batch, first): (&CallBatch, usize),
        tasks: &mut VecDeque<TaskId>,
    ) -> Result<(), (usize, SubmitError)> {
        let mut inner = self.lock();
        let mut outcome = Ok(());
        for (number, payload) in batch.calls(first).enumerate() {
            let call = Call { function, payload, parts: &[], views: false, parents: &[], options };
            match inner.submit(&call, Origin::External, 0) {
                Ok(task) => tasks.push_back(task),
                Err(error) => {
                    outcome = Err((first + number, error));
                    break;
                }
            }
        }
        self.summon_if_needed(&mut inner);
        outcome
    }

    /// Moves the outcomes of the foremost tasks, as far as they are final and up to `limit`, to `ended`, and lets go of
    /// these tasks.
    pub fn take_front(
        &self,
        tasks: &mut VecDeque<TaskId>,
        limit: usize,
        ended: &mut VecDeque<Ended>,
    ) {
        let mut inner = self.lock();
        inner.drain();
        while ended.len() < limit
            && let Some(&task) = tasks.front()
            && let Some(outcome) = inner.take_ended(task)
        {
            ended.push_back(outcome);
            tasks.pop_front();
        }
        self.leave(inner, false);
    }

    /// Moves the outcomes of all final tasks among `tasks` to `ended`, and lets go of these tasks.
    pub fn take_any(&self, tasks: &mut VecDeque<TaskId>, ended: &mut VecDeque<Ended>) {
        let mut inner = self.lock();
        inner.drain();
        tasks.retain(|&task| match inner.take_ended(task) {
            Some(outcome) => {
                ended.push_back(outcome);
                false
            }
            None => true,
        });
        self.leave(inner, false);
    }
}
