//! Submission of calls.

use std::sync::MutexGuard;

use gristmill_core::{Core, Origin, Payload, Submission, SubmitError, TaskOptions};
use gristmill_shm::BlockPart;
use gristmill_wire::{BlobName, FunctionId, TaskId};

use crate::blobs::{BlobPort as _, BlobSizes, BlobWork as _, names_of, with_names};
use crate::client::Client;
use crate::client_port::{ClientPort, handle};
use crate::inner::Inner;

/// Number of submissions in a row that share a reading of the clock and a look at the result rings, about 10 microseconds
/// apart: the resolution of the time `submitted` in such a loop. With 16, a submission takes 12 ns longer, because the look
/// moves cache lines.
const SUBMIT_BURST: u32 = 32;

/// One call to be run.
#[derive(Debug)]
pub struct CallRequest<'a> {
    /// Function to call.
    pub function: FunctionId,
    /// Encoded arguments.
    pub payload: &'a [u8],
    /// Blocks of the arena that the arguments name by index.
    pub parts: &'a [BlockPart],
    /// True if arrays in the result are returned as read-only views.
    pub views: bool,
    /// Tasks whose results the arguments name.
    pub parents: &'a [TaskId],
    /// Other options of the task.
    pub options: Option<&'a TaskOptions>,
}

impl Client {
    /// Submits a call.
    ///
    /// # Errors
    /// [`SubmitError`]; [`SubmitError::is_retryable`] tells whether another try can succeed.
    #[inline]
    pub fn submit(&self, call: &CallRequest<'_>) -> Result<TaskId, SubmitError> {
        // The submitting thread computes the hashes before it takes the mutex, so it delays no other thread.
        let has_nodes = !call.parts.is_empty() && self.shared().sleeper.is_some();
        let names =
            if has_nodes { names_of(call.parts, BlobSizes::default().min) } else { Vec::new() };
        let mut inner = self.lock();
        let task = inner.submit(call, names, Origin::External, 0)?;
        if call.views {
            inner.views.insert(task);
        }
        self.summon_if_needed(inner);
        Ok(task)
    }

    /// Wakes the attendant if it is parked and work is left.
    #[inline]
    pub(crate) fn summon_if_needed(&self, mut inner: MutexGuard<'_, Inner>) {
        if inner.lead.is_parked() && inner.has_obligations() && inner.lead.summon() {
            // The mutex is released first: the attendant would only wait for it.
            drop(inner);
            self.wake_attendant();
        }
    }
}

impl Inner {
    /// Submits a call of some origin; a nested call has a ticket.
    #[inline]
    pub fn submit(
        &mut self,
        call: &CallRequest<'_>,
        names: Vec<Option<BlobName>>,
        origin: Origin,
        ticket: u32,
    ) -> Result<TaskId, SubmitError> {
        let now = self.now_for_submit();
        let named;
        let (payload, options) = if call.parts.is_empty() {
            (Payload::copy_from(call.payload), call.options)
        } else {
            named = with_names(call.options, &names);
            let parts = call.parts.to_vec();
            (self.port.blobs().take_arguments(call.payload, parts, names), named.as_ref())
        };
        let submission = Submission {
            function: call.function,
            payload,
            handle: handle(call.function, ticket),
            submitted_ticks: self.port.now_ticks(),
            parents: call.parents,
            options,
            origin,
        };
        let task = self.accept(call.function, |core, port| core.submit(submission, now, port));
        if !call.parts.is_empty() {
            self.broadcast_blobs();
        }
        // While tasks have priorities, naps are short.
        if call.options.is_some_and(|options| options.priority > 0) {
            self.shared.nap.end();
        }
        task
    }

    /// Passes a submission to the graph, which uses the function from then on.
    #[inline]
    pub(crate) fn accept(
        &mut self,
        function: FunctionId,
        submit: impl FnOnce(&mut Core, &mut ClientPort) -> Result<TaskId, SubmitError>,
    ) -> Result<TaskId, SubmitError> {
        self.port.functions.use_again(function);
        let task = submit(&mut self.core, &mut self.port);
        if task.is_err() {
            self.port.functions.release(function);
        }
        self.settle();
        task
    }

    /// Returns the time of a submission. A loop of submits reads the clock and takes results in only once for several submits,
    /// because the cache line of a result moves between cores at each look.
    #[inline]
    pub(crate) fn now_for_submit(&mut self) -> u64 {
        self.burst = self.burst.wrapping_add(1);
        if self.burst.is_multiple_of(SUBMIT_BURST)
            || self.core.in_flight() == 0
            || self.core.waits_for_few()
                && self.port.slots().any(|slot| self.port.has_arrived(slot))
        {
            let now = self.port.read_clock();
            self.drain_little(now);
            return now;
        }
        self.port.now()
    }

    /// Takes a few results in while a caller reads results that are there already: workers stay busy without the attendant.
    #[inline]
    pub(crate) fn attend_in_passing(&mut self) {
        self.burst = self.burst.wrapping_add(1);
        if self.burst.is_multiple_of(SUBMIT_BURST) && self.core.in_flight() > 0 {
            let now = self.port.read_clock();
            self.drain_little(now);
            self.settle();
        }
    }
}
