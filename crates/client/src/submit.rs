//! Submission of calls.

use std::sync::MutexGuard;

use gristmill_core::{Core, Origin, Payload, Submission, SubmitError, TaskOptions};
use gristmill_shm::BlockPart;
use gristmill_wire::{BlobName, FunctionId, TaskId};

use crate::blobs::{BlobPort as _, BlobSizes, BlobWork as _, names_of, with_names};
use crate::client::Client;
use crate::inner::Inner;
use crate::lanes::{Lanes, handle};

/// Submits in a row that share a reading of the clock: the resolution of the tag `submitted` in such a loop.
const SUBMIT_BURST: u32 = 16;

/// One call to be run.
#[derive(Debug)]
pub struct Call<'a> {
    /// What to call.
    pub function: FunctionId,
    /// Its encoded arguments.
    pub payload: &'a [u8],
    /// Blocks of the arena that they name by index.
    pub parts: &'a [BlockPart],
    /// Arrays in its result are to be given out as read-only views.
    pub views: bool,
    /// Tasks whose results the arguments name.
    pub parents: &'a [TaskId],
    /// What else it asks for.
    pub options: Option<&'a TaskOptions>,
}

impl Client {
    /// Submits a call.
    ///
    /// # Errors
    /// [`SubmitError`]; only [`SubmitError::LimitReached`] is worth another try.
    #[inline]
    pub fn submit(&self, call: &Call<'_>) -> Result<TaskId, SubmitError> {
        // Whoever submits pays for the hash, and holds nobody up.
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

    /// Wakes the attendant if it sleeps and something is left to do.
    #[inline]
    pub(crate) fn summon_if_needed(&self, mut inner: MutexGuard<'_, Inner>) {
        if inner.lead.is_parked() && inner.has_obligations() && inner.lead.summon() {
            // It would only wait for the mutex.
            drop(inner);
            self.wake_attendant();
        }
    }
}

impl Inner {
    /// Submits a call of some origin; a nested one has a ticket.
    #[inline]
    pub fn submit(
        &mut self,
        call: &Call<'_>,
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
            (self.lanes.blobs().take_arguments(call.payload, parts, names), named.as_ref())
        };
        let submission = Submission {
            function: call.function,
            payload,
            handle: handle(call.function, ticket),
            submitted_ticks: self.lanes.now_ticks(),
            parents: call.parents,
            options,
            origin,
        };
        let task = self.accept(call.function, |core, lanes| core.submit(submission, now, lanes));
        if !call.parts.is_empty() {
            self.spread_blobs();
        }
        task
    }

    /// Hands something to the graph, which uses its function from then on.
    #[inline]
    pub(crate) fn accept(
        &mut self,
        function: FunctionId,
        submit: impl FnOnce(&mut Core, &mut Lanes) -> Result<TaskId, SubmitError>,
    ) -> Result<TaskId, SubmitError> {
        self.lanes.functions.use_again(function);
        let task = submit(&mut self.core, &mut self.lanes);
        if task.is_err() {
            self.lanes.functions.release(function);
        }
        self.settle();
        task
    }

    /// The time of a submission. A loop of submits reads the clock, and takes results in, once for several: a result's
    /// line of the ring moves between cores each time somebody looks at it.
    #[inline]
    pub(crate) fn now_for_submit(&mut self) -> u64 {
        self.burst = self.burst.wrapping_add(1);
        if self.burst.is_multiple_of(SUBMIT_BURST)
            || self.core.in_flight() == 0
            || self.core.waits_for_few()
                && self.lanes.slots().any(|slot| self.lanes.has_arrived(slot))
        {
            let now = self.lanes.read_clock();
            self.drain_little(now);
            return now;
        }
        self.lanes.now()
    }

    /// What asking for results that are there does for those that are not: workers stay busy without the attendant.
    #[inline]
    pub(crate) fn attend_in_passing(&mut self) {
        self.burst = self.burst.wrapping_add(1);
        if self.burst.is_multiple_of(SUBMIT_BURST) && self.core.in_flight() > 0 {
            let now = self.lanes.read_clock();
            self.drain_little(now);
            self.settle();
        }
    }
}
