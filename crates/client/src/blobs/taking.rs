//! What a lease's engine has to take: the blobs that its tasks name.

use gristmill_shm::{ArenaError, BlockPart, ClientArena};
use gristmill_store::{BlobLimits, Store, Want};
use gristmill_transport::{Identity, Waker};
use gristmill_wire::{BlobName, Digest};

use super::asked::Asked;
use super::awaited::Awaited;
use super::depot::{Depot, Gate, News, Order, Warden};
use super::kept::Kept;
use super::options::BlobSizes;
use crate::provisions::Provisions;

/// What a lease's engine has to take.
#[derive(Debug)]
pub(crate) struct Taking {
    pub store: Store,
    /// Started with the first blob.
    depot: Option<Depot>,
    sibling: Option<Identity>,
    /// Wakes whoever takes the depot's news; none: nobody sleeps.
    waker: Option<Waker>,
    pub sizes: BlobSizes,
    pub awaited: Awaited,
    /// Blobs that the message at hand names and that are not here yet.
    pub lacking: Vec<BlobName>,
    /// Blobs that went to make room for others.
    pub dropped: Vec<Digest>,
    /// Blobs for which this node is too small, each with a sentence.
    pub hopeless: Vec<(Digest, String)>,
    /// Its client knows where other nodes can fetch what is here.
    pub is_open: bool,
    /// Results that get their names.
    pub unnamed: usize,
    /// Results that whoever asked for the tasks does not have yet.
    pub kept: Kept,
    /// Results that were asked for and come back from disk.
    pub asked: Asked,
    /// The files of contexts.
    pub provisions: Provisions,
}

impl Taking {
    pub fn new(
        arena: ClientArena,
        limits: BlobLimits,
        sibling: Option<Identity>,
        waker: Waker,
    ) -> Self {
        let store = Store::new(arena, limits);
        Self { sibling, waker: Some(waker), ..Self::over(store, BlobSizes::default()) }
    }

    /// Over a store, with a depot that has no thread: its warden is to be given turns.
    pub fn unmanned<G: Gate>(store: Store, sizes: BlobSizes, door: (G, u16)) -> (Self, Warden<G>) {
        let (depot, warden) = Depot::unmanned(store.clone(), door, sizes);
        (Self { depot: Some(depot), ..Self::over(store, sizes) }, warden)
    }

    fn over(store: Store, sizes: BlobSizes) -> Self {
        Self {
            store,
            depot: None,
            sibling: None,
            waker: None,
            sizes,
            awaited: Awaited::default(),
            lacking: Vec::new(),
            dropped: Vec::new(),
            hopeless: Vec::new(),
            is_open: false,
            unnamed: 0,
            kept: Kept::default(),
            asked: Asked::default(),
            provisions: Provisions::default(),
        }
    }

    /// What is kept although no task is left, in words; none: blobs that nobody uses.
    pub fn leftovers(&self, block_count: usize) -> Option<String> {
        let counts = [
            self.provisions.waiting_count(),
            self.awaited.len(),
            self.lacking.len(),
            self.unnamed,
            self.kept.len(),
            self.asked.len(),
        ];
        let (unused, used) = self.store.use_counts();
        let is_left = counts != [0; 6] || used > 0 || unused != block_count;
        is_left.then(|| {
            format!(
                "files, awaited, lacking, unnamed, kept, asked: {counts:?}; blobs of no use, others: {unused}, {used}; blocks: \
                 {block_count}"
            )
        })
    }

    /// The block of a blob that the message at hand names. An error is a sentence: there is no memory for it, or nobody to
    /// see to it.
    pub fn take(&mut self, name: BlobName) -> Result<BlockPart, String> {
        self.start_depot()?;
        let part = match self.want(name) {
            // It never will: nobody is to try again.
            Err(error @ ArenaError::Full { size, limit, .. }) if size > limit => {
                self.hopeless.push((name.digest, error.to_string()));
                self.store.stand_in().map_err(|error| error.to_string())?
            }
            Err(error) => return Err(error.to_string()),
            Ok(Want::Here(part)) => return Ok(part),
            Ok(Want::Coming(part)) => part,
            Ok(Want::Missing(part)) => {
                self.order(Order::Prepare(name));
                part
            }
            Ok(Want::OnDisk(part)) => {
                self.order(Order::Restore(name));
                part
            }
        };
        self.lacking.push(name);
        Ok(part)
    }

    pub(super) fn want(&mut self, name: BlobName) -> Result<Want, ArenaError> {
        self.store.want(name).or_else(|error| {
            let gone = self.store.make_room(name.size);
            let has_room = !gone.is_empty();
            self.dropped.extend(gone);
            if has_room { self.store.want(name) } else { Err(error) }
        })
    }

    pub(super) fn start_depot(&mut self) -> Result<(), String> {
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

    pub fn has_news(&self) -> bool {
        self.provisions.has_news() || self.depot.as_ref().is_some_and(Depot::has_news)
    }

    /// No blobs are taken any more.
    pub fn close(&mut self) {
        self.depot = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gristmill_transport::Sleeper;

    #[test]
    fn what_never_fits_is_told_apart_from_what_does_not_fit_now() {
        let arena = ClientArena::create(0).expect("an arena");
        let limits = BlobLimits { memory: 0, disk: 0, directory: std::env::temp_dir() };
        let waker = Sleeper::new().expect("there are descriptors").waker();
        let mut taking = Taking::new(arena, limits, None, waker);
        let name = BlobName { digest: Digest([1; 32]), size: 1 << 60 };
        assert!(taking.take(name).is_ok(), "those who wait are told");
        assert_eq!((taking.lacking.len(), taking.hopeless.len()), (1, 1));
        assert!(taking.hopeless[0].1.contains("do not fit into the arena"));
        assert!(!taking.store.has(name.digest));
    }
}
