//! Staged files of contexts at a node: images of environments, and other files that a context needs before it is set up.
//!
//! A context comes with the names of its files, which are blobs of the peer that defined it. Files that are not on the node's
//! disk from an earlier use are requested like the large arguments of tasks, and come the same way: once for each node, and
//! from node to node. Then a file stager makes them ready, once, and the context's processes are told where they are.
//! Meanwhile the context's tasks wait for a promise, so that no process sets the context up too early. All this begins with
//! the first of those tasks. A node is told of every context of its client, because tasks there may name any of them in calls
//! that they submit, but few nodes need all of them.
//!
//! ```text
//!  defined ──► looking ──► coming ──► making ──► ready ──► released with the context
//!         a task          └── no file is missing ──┘
//! ```
//! A context can fail in every stage, with a message. Its tasks end with that message, and tasks of other contexts go on.

mod stager;
#[cfg(test)]
mod tests;
mod work;

use std::collections::BTreeMap;
use std::sync::Arc;

use gristmill_sync::atomic::{AtomicU64, Ordering};
use gristmill_transport::Waker;
use gristmill_wire::{ContextId, PeerId, TaskId};

use stager::{StagingEvent, StagingHandle, StagingRequest};

pub use stager::{FetchedFiles, FileStager, StagingId};
pub(crate) use work::StagingWork;

/// Stage of the files of one context.
#[derive(Debug)]
enum Stage {
    /// No task has named the context.
    Defined,
    Looking,
    Coming {
        files: FetchedFiles,
        /// Promises of blobs that are not here.
        waits: Vec<TaskId>,
        /// Reason why one of these blobs does not come.
        failure: Option<String>,
    },
    Making,
    /// The files are ready, or never will be.
    Over,
}

#[derive(Debug)]
struct StagedFiles {
    ticket: StagingId,
    /// Peer that defined the context first, and has its files.
    peer: PeerId,
    setup: Arc<[u8]>,
    /// Promise that the context's tasks wait for, from the first task until the files are ready.
    promise: Option<TaskId>,
    stage: Stage,
}

/// Files of all contexts here that have any.
#[derive(Debug, Default)]
pub(crate) struct StagingTable {
    /// File stager, and the waker of the engine; `None` if this node cannot make files ready.
    stager: Option<(Arc<dyn FileStager>, Waker)>,
    /// Thread of the file stager, started with the first context whose files a task needs.
    handle: Option<StagingHandle>,
    table: BTreeMap<ContextId, StagedFiles>,
    /// True if `take_settled` may find contexts for which no more blobs come.
    has_settled: bool,
}

/// Next ticket. Tickets are unique in a process, because its engines share the files on disk.
static TICKETS: AtomicU64 = AtomicU64::new(0);

impl StagingTable {
    /// Creates an empty table. `engine` wakes the thread that takes the events of the file stager.
    pub fn new(stager: Option<Arc<dyn FileStager>>, engine: Waker) -> Self {
        Self { stager: stager.map(|stager| (stager, engine)), ..Self::default() }
    }

    /// Returns the promise that a task which names a context has to wait for.
    pub fn promise_of(&self, context: ContextId) -> Option<TaskId> {
        self.table.get(&context)?.promise
    }

    /// Returns true if a context has files that the file stager has not looked for.
    fn is_defined(&self, context: ContextId) -> bool {
        self.table.get(&context).is_some_and(|one| matches!(one.stage, Stage::Defined))
    }

    /// Returns true if there are events to handle.
    pub fn has_events(&self) -> bool {
        self.has_settled || self.handle.as_ref().is_some_and(StagingHandle::has_events)
    }

    /// Returns the number of contexts that wait for their files.
    pub fn waiting_count(&self) -> usize {
        self.table.values().filter(|one| one.promise.is_some()).count()
    }

    /// Adds a context that has files.
    fn enter(&mut self, context: ContextId, peer: PeerId, setup: Arc<[u8]>) {
        self.table.entry(context).or_insert_with(|| {
            // Relaxed without a partner: each call only has to get a different number.
            let ticket = TICKETS.fetch_add(1, Ordering::Relaxed);
            StagedFiles { ticket, peer, setup, promise: None, stage: Stage::Defined }
        });
    }

    /// Makes the file stager look for the files of a context, whose tasks wait for the promise.
    ///
    /// # Errors
    /// A message: this node has no file stager, or its thread cannot be started.
    fn begin(&mut self, context: ContextId, promise: TaskId) -> Result<(), String> {
        let Some(staged) = self.table.get_mut(&context) else { return Ok(()) };
        staged.promise = Some(promise);
        staged.stage = Stage::Looking;
        let request = StagingRequest::Look(staged.ticket, Arc::clone(&staged.setup));
        if self.handle.is_none() {
            let Some((stager, engine)) = self.stager.clone() else {
                return Err("this node has no file stager".to_owned());
            };
            let handle = StagingHandle::start(stager, engine);
            self.handle = Some(handle.map_err(|error| {
                format!("the thread of the file stager cannot be started: {error}")
            })?);
        }
        self.send(request);
        Ok(())
    }

    fn send(&self, request: StagingRequest) {
        if let Some(handle) = &self.handle {
            handle.send(request);
        }
    }

    /// Returns the events of the file stager.
    fn take_events(&self) -> Vec<StagingEvent> {
        self.handle.as_ref().map(StagingHandle::take_events).unwrap_or_default()
    }

    /// Returns the context whose files a ticket is for; `None` if the context is gone.
    fn find(&self, ticket: StagingId) -> Option<ContextId> {
        let found = self.table.iter().find(|(_, one)| one.ticket == ticket);
        found.map(|(&context, _)| context)
    }

    /// Records that a blob came, or that it does not because of `failure`. Contexts that waited for it wait for the others.
    pub fn settle(&mut self, promise: TaskId, failure: Option<&str>) {
        for staged in self.table.values_mut() {
            let Stage::Coming { waits, failure: known, .. } = &mut staged.stage else {
                continue;
            };
            if waits.contains(&promise) {
                waits.retain(|&other| other != promise);
                *known = known.take().or_else(|| failure.map(str::to_owned));
                self.has_settled = true;
            }
        }
    }

    /// Returns the contexts for which no more blobs come, with their files, or with the reason why one does not come.
    fn take_settled(&mut self) -> Vec<(ContextId, Result<FetchedFiles, String>)> {
        if !std::mem::take(&mut self.has_settled) {
            return Vec::new();
        }
        let mut settled = Vec::new();
        for (&context, staged) in &mut self.table {
            let Stage::Coming { files, waits, failure } = &mut staged.stage else { continue };
            match failure.take() {
                Some(text) => settled.push((context, Err(text))),
                None if waits.is_empty() => settled.push((context, Ok(std::mem::take(files)))),
                None => {}
            }
        }
        settled
    }

    /// Makes the file stager prepare the files that have come for a context.
    fn make(&mut self, context: ContextId, files: FetchedFiles) {
        if let Some(staged) = self.table.get_mut(&context) {
            staged.stage = Stage::Making;
            let request = StagingRequest::Provide(staged.ticket, Arc::clone(&staged.setup), files);
            self.send(request);
        }
    }

    /// Ends the staging of a context, whose files are ready or never will be. Returns the promise that its tasks wait for.
    fn end(&mut self, context: ContextId) -> Option<TaskId> {
        let staged = self.table.get_mut(&context)?;
        staged.stage = Stage::Over;
        staged.promise.take()
    }

    /// Removes a context that is gone. Returns the promise that its tasks would have waited for.
    pub fn let_go(&mut self, context: ContextId) -> Option<TaskId> {
        let staged = self.table.remove(&context)?;
        if !matches!(staged.stage, Stage::Defined) {
            self.send(StagingRequest::LetGo(staged.ticket));
        }
        staged.promise
    }
}
