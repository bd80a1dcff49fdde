//! What a lease's engine has to take: the blobs that its tasks name.

use std::collections::HashMap;

use gristmill_shm::{ArenaError, BlockPart, ClientArena};
use gristmill_store::{BlobLimits, Store, Want};
use gristmill_transport::{Identity, Waker};
use gristmill_wire::{BlobName, Digest, PeerId, TaskId};

use super::depot::{Depot, News, Order};

/// What tasks wait for that name a blob which is not here.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Awaited {
    pub promise: TaskId,
    /// Who sent the tasks.
    pub peer: PeerId,
}

/// What a lease's engine has to take.
#[derive(Debug)]
pub(crate) struct Taking {
    pub store: Store,
    /// Started with the first blob.
    depot: Option<Depot>,
    sibling: Option<Identity>,
    /// Wakes whoever takes the depot's news.
    waker: Waker,
    pub awaited: HashMap<Digest, Awaited>,
    /// Blobs that the message at hand names and that are not here yet.
    pub lacking: Vec<BlobName>,
    /// Of these, those that are to be asked for.
    pub unasked: Vec<BlobName>,
    /// Blobs that went to make room for others.
    pub dropped: Vec<Digest>,
}

impl Taking {
    pub fn new(
        arena: ClientArena,
        limits: BlobLimits,
        sibling: Option<Identity>,
        waker: Waker,
    ) -> Self {
        Self {
            store: Store::new(arena, limits),
            depot: None,
            sibling,
            waker,
            awaited: HashMap::new(),
            lacking: Vec::new(),
            unasked: Vec::new(),
            dropped: Vec::new(),
        }
    }

    /// The block of a blob that the message at hand names. An error is a sentence: there is no memory for it, or nobody to
    /// see to it.
    pub fn take(&mut self, name: BlobName) -> Result<BlockPart, String> {
        self.start_depot()?;
        let part = match self.want(name).map_err(|error| error.to_string())? {
            Want::Here(part) => return Ok(part),
            Want::Coming(part) => part,
            Want::Missing(part) => {
                self.unasked.push(name);
                part
            }
            Want::OnDisk(part) => {
                self.order(Order::Restore(name));
                part
            }
        };
        self.lacking.push(name);
        Ok(part)
    }

    fn want(&mut self, name: BlobName) -> Result<Want, ArenaError> {
        self.store.want(name).or_else(|error| {
            let gone = self.store.make_room(name.size);
            let has_room = !gone.is_empty();
            self.dropped.extend(gone);
            if has_room { self.store.want(name) } else { Err(error) }
        })
    }

    fn start_depot(&mut self) -> Result<(), String> {
        if self.depot.is_none() {
            let started =
                Depot::start(self.store.clone(), self.sibling.as_ref(), self.waker.clone());
            let depot = started.map_err(|error| format!("it cannot take blobs: {error}"))?;
            self.depot = Some(depot);
        }
        Ok(())
    }

    /// Where other nodes get blobs from this one; 0: nowhere.
    pub fn port(&self) -> u16 {
        self.depot.as_ref().map_or(0, Depot::port)
    }

    pub fn order(&self, order: Order) {
        if let Some(depot) = &self.depot {
            depot.order(order);
        }
    }

    pub fn take_news(&self) -> Vec<News> {
        self.depot.as_ref().map(Depot::take_news).unwrap_or_default()
    }

    /// No blobs are taken any more.
    pub fn close(&mut self) {
        self.depot = None;
    }
}
