//! The files of contexts at a node: images of environments, and whatever else is to be there before a context is set up.
//!
//! A context comes with the names of its files, which are blobs of whoever defined it. What is not on the node's disk from
//! an earlier use is asked for like the large arguments of tasks, and comes the same way: once for each node, from node to
//! node. Then a steward makes it ready, once, and the context's processes are told where it is. Its tasks wait for a
//! promise meanwhile, so that nothing is set up before. All that begins with the first of those tasks: a node is told of
//! every context of its client, as what tasks there submit may name them, and few nodes need them all.
//!
//! ```text
//!  defined ──► looking ──► coming ──► making ──► ready ──► let go of, with the context
//!         a task          └── nothing is lacking ──┘
//! ```
//! From everywhere a context can fail, with a sentence: its tasks end with that, and those of other contexts go on.

mod steward;
#[cfg(test)]
mod tests;
mod work;

use std::collections::BTreeMap;
use std::sync::Arc;

use gristmill_sync::atomic::{AtomicU64, Ordering};
use gristmill_transport::Waker;
use gristmill_wire::{ContextId, PeerId, TaskId};

use steward::{Desk, News, Order};

pub use steward::{Brought, Steward, Ticket};
pub(crate) use work::ProvisionWork;

/// How far the files of one context have come.
#[derive(Debug)]
enum Stage {
    /// No task has named the context.
    Defined,
    Looking,
    Coming {
        files: Brought,
        /// Promises of blobs that are not here.
        waits: Vec<TaskId>,
        /// Why one of them does not come.
        failure: Option<String>,
    },
    Making,
    /// They are ready, or never will be.
    Over,
}

#[derive(Debug)]
struct Provision {
    ticket: Ticket,
    /// Who defined the context first, and has its files.
    peer: PeerId,
    setup: Arc<[u8]>,
    /// What the context's tasks wait for, from the first one until the files are ready.
    promise: Option<TaskId>,
    stage: Stage,
}

/// The files of all contexts here that have any.
#[derive(Debug, Default)]
pub(crate) struct Provisions {
    /// None: this node has nobody who could.
    steward: Option<(Arc<dyn Steward>, Waker)>,
    /// Started with the first context that has files.
    desk: Option<Desk>,
    table: BTreeMap<ContextId, Provision>,
    /// Nothing more comes for one of them.
    has_settled: bool,
}

/// Tickets are unique in a process: its engines share what is on disk.
static TICKETS: AtomicU64 = AtomicU64::new(0);

impl Provisions {
    /// Whoever makes files ready; `engine` wakes whoever takes the news of it.
    pub fn new(steward: Option<Arc<dyn Steward>>, engine: Waker) -> Self {
        Self { steward: steward.map(|steward| (steward, engine)), ..Self::default() }
    }

    /// What a task has to wait for that names a context.
    pub fn promise_of(&self, context: ContextId) -> Option<TaskId> {
        self.table.get(&context)?.promise
    }

    /// Whether a context has files for which nobody has looked.
    fn is_defined(&self, context: ContextId) -> bool {
        self.table.get(&context).is_some_and(|one| matches!(one.stage, Stage::Defined))
    }

    /// Whether there is something to be taken in.
    pub fn has_news(&self) -> bool {
        self.has_settled || self.desk.as_ref().is_some_and(Desk::has_news)
    }

    /// How many contexts wait for their files.
    pub fn waiting_count(&self) -> usize {
        self.table.values().filter(|one| one.promise.is_some()).count()
    }

    /// A context has files.
    fn enter(&mut self, context: ContextId, peer: PeerId, setup: Arc<[u8]>) {
        self.table.entry(context).or_insert_with(|| {
            // Relaxed without a partner: it only has to be another number each time.
            let ticket = TICKETS.fetch_add(1, Ordering::Relaxed);
            Provision { ticket, peer, setup, promise: None, stage: Stage::Defined }
        });
    }

    /// Has the steward look for the files of a context, whose tasks wait for the promise.
    ///
    /// # Errors
    /// There is none, in words.
    fn begin(&mut self, context: ContextId, promise: TaskId) -> Result<(), String> {
        let Some(provision) = self.table.get_mut(&context) else { return Ok(()) };
        provision.promise = Some(promise);
        provision.stage = Stage::Looking;
        let order = Order::Look(provision.ticket, Arc::clone(&provision.setup));
        if self.desk.is_none() {
            let Some((steward, engine)) = self.steward.clone() else {
                return Err("nobody on this node makes files ready".to_owned());
            };
            let desk = Desk::start(steward, engine);
            self.desk = Some(desk.map_err(|error| format!("no thread can be started: {error}"))?);
        }
        self.order(order);
        Ok(())
    }

    fn order(&self, order: Order) {
        if let Some(desk) = &self.desk {
            desk.order(order);
        }
    }

    /// What the steward has told.
    fn take_news(&self) -> Vec<News> {
        self.desk.as_ref().map(Desk::take_news).unwrap_or_default()
    }

    /// The context whose files a ticket is for, unless that is gone.
    fn find(&self, ticket: Ticket) -> Option<ContextId> {
        let found = self.table.iter().find(|(_, one)| one.ticket == ticket);
        found.map(|(&context, _)| context)
    }

    /// A blob has come, or does not: contexts that waited for it wait for what is left.
    pub fn settle(&mut self, promise: TaskId, failure: Option<&str>) {
        for provision in self.table.values_mut() {
            let Stage::Coming { waits, failure: known, .. } = &mut provision.stage else {
                continue;
            };
            if waits.contains(&promise) {
                waits.retain(|&other| other != promise);
                *known = known.take().or_else(|| failure.map(str::to_owned));
                self.has_settled = true;
            }
        }
    }

    /// Contexts for which nothing more comes: with what has, or why nothing does.
    fn take_settled(&mut self) -> Vec<(ContextId, Result<Brought, String>)> {
        if !std::mem::take(&mut self.has_settled) {
            return Vec::new();
        }
        let mut settled = Vec::new();
        for (&context, provision) in &mut self.table {
            let Stage::Coming { files, waits, failure } = &mut provision.stage else { continue };
            match failure.take() {
                Some(text) => settled.push((context, Err(text))),
                None if waits.is_empty() => settled.push((context, Ok(std::mem::take(files)))),
                None => {}
            }
        }
        settled
    }

    /// Has the steward make ready what has come for a context.
    fn make(&mut self, context: ContextId, files: Brought) {
        if let Some(provision) = self.table.get_mut(&context) {
            provision.stage = Stage::Making;
            let order = Order::Provide(provision.ticket, Arc::clone(&provision.setup), files);
            self.order(order);
        }
    }

    /// The files of a context are ready, or never will be: what its tasks wait for.
    fn end(&mut self, context: ContextId) -> Option<TaskId> {
        let provision = self.table.get_mut(&context)?;
        provision.stage = Stage::Over;
        provision.promise.take()
    }

    /// A context is gone; gives what its tasks would have waited for.
    pub fn let_go(&mut self, context: ContextId) -> Option<TaskId> {
        let provision = self.table.remove(&context)?;
        if !matches!(provision.stage, Stage::Defined) {
            self.order(Order::LetGo(provision.ticket));
        }
        provision.promise
    }
}
