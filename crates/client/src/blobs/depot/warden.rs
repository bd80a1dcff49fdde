//! The depot's thread: obeys, gives, fetches, checks, names, and keeps within the limits.

use std::sync::Arc;
use std::time::Duration;

use gristmill_store::Store;
use gristmill_sync::clock::monotonic_ns;
use gristmill_transport::Sleeper;
use gristmill_wire::peer::Shortfall;
use gristmill_wire::{BlobName, Digest};

use super::super::options::BlobSizes;
use super::arrivals::{Arrivals, Verdict};
use super::fetches::Fetches;
use super::gate::Gate;
use super::line::Sockets;
use super::naming::Naming;
use super::preparing::Preparing;
use super::takers::Takers;
use super::{Board, News, Order};

/// The longest sleep: what nobody uses any more is found after it.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// What the depot's thread has.
pub struct Warden<G: Gate> {
    store: Store,
    board: Arc<Board>,
    gate: G,
    takers: Takers<G::Line>,
    fetches: Fetches<G::Line>,
    arrivals: Arrivals,
    preparing: Preparing,
    naming: Naming,
}

/// What a turn of the depot has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Rest {
    /// There is more to do at once.
    Busy,
    /// There is nothing to do until something comes.
    Idle,
    /// The engine wants no depot any more.
    Over,
}

impl Warden<Sockets> {
    /// Runs until the engine wants no depot any more.
    pub(super) fn run(mut self, sleeper: &Sleeper) {
        gristmill_sync::signals::block_all();
        loop {
            let limit = match self.turn(monotonic_ns()) {
                Rest::Busy => Duration::ZERO,
                Rest::Idle => SLEEP_MAX,
                Rest::Over => return,
            };
            // What it would say is found by looking.
            let _ = sleeper.sleep(&mut Vec::new(), Some(limit));
        }
    }
}

impl<G: Gate> Warden<G> {
    pub(super) fn new(store: Store, board: Arc<Board>, gate: G, sizes: BlobSizes) -> Self {
        Self {
            store,
            board,
            gate,
            takers: Takers::new(sizes.piece),
            fetches: Fetches::new(),
            arrivals: Arrivals::default(),
            preparing: Preparing::default(),
            naming: Naming::new(sizes.min),
        }
    }

    /// Does what there is to do, a little of each.
    pub fn turn(&mut self, now: u64) -> Rest {
        let Some(orders) = self.next_orders() else { return Rest::Over };
        orders.into_iter().for_each(|order| self.obey(order, now));
        let is_busy = self.move_bytes(now) | self.check();
        self.prepare();
        self.name();
        self.trim();
        let is_busy = is_busy || !self.preparing.is_empty() || !self.naming.is_empty();
        if is_busy { Rest::Busy } else { Rest::Idle }
    }

    /// Whether there is more in memory than should be.
    #[must_use]
    pub fn is_above_limit(&self) -> bool {
        self.store.is_above_limit()
    }

    /// Has the disk fail, for whoever simulates that; false: nothing was there, or it goes on as before.
    #[must_use]
    pub fn fail_disk(&self) -> bool {
        self.store.fail_disk().unwrap_or(false)
    }

    /// Whether its engine has left orders, or there is none any more.
    #[must_use]
    pub fn is_called(&self) -> bool {
        let notes = self.board.look();
        notes.is_over || !notes.orders.is_empty()
    }

    fn next_orders(&self) -> Option<Vec<Order>> {
        let mut notes = self.board.look();
        (!notes.is_over).then(|| std::mem::take(&mut notes.orders))
    }

    fn obey(&mut self, order: Order, now: u64) {
        match order {
            Order::Prepare(name) => self.preparing.add(name),
            // It is looked at in any case.
            Order::Follow => {}
            Order::Fetch(name, address) => self.fetch(name, address, now),
            Order::Restore(name) => match self.store.restore(name.digest) {
                Ok(()) => self.board.tell(News::Here { digest: name.digest, fetched: None }),
                Err(error) => {
                    self.lack(name, Shortfall::None, format!("it was on a disk: {error}"));
                }
            },
            Order::Forget(digest) => {
                self.fetches.cease(digest);
                let _fetched = self.arrivals.forget(digest);
            }
            Order::Name(result) => self.naming.add(result),
        }
    }

    fn name(&mut self) {
        let mut came = Vec::new();
        let named = self.naming.attend(&self.store, |digest| came.push(digest));
        for digest in came {
            self.fetches.cease(digest);
            let fetched = Some(self.arrivals.forget(digest));
            self.board.tell(News::Here { digest, fetched });
        }
        if let Some(named) = named {
            self.board.tell(News::Named(named));
        }
    }

    /// Makes pages for what is to be asked for, and has it asked for.
    fn prepare(&mut self) {
        match self.preparing.attend(&self.store) {
            Some((name, Ok(()))) => self.lack(name, Shortfall::None, String::new()),
            Some((name, Err(error))) => {
                self.board.tell(News::Refused(name.digest, error.to_string()));
            }
            None => {}
        }
    }

    fn fetch(&mut self, name: BlobName, address: String, now: u64) {
        if address.is_empty() {
            self.fetches.cease(name.digest);
            return self.lack(name, Shortfall::None, String::new());
        }
        // Nobody is called for what nobody waits for: a client may name any address.
        if self.store.progress(name.digest).is_none_or(|progress| progress.is_complete) {
            return;
        }
        if let Err(text) = self.fetches.begin(&mut self.gate, (name, address), now) {
            self.lack(name, Shortfall::Gone, text);
        }
    }

    /// Tells that a blob does not come any more, unless it is here.
    fn lack(&self, name: BlobName, shortfall: Shortfall, text: String) {
        if let Some(progress) = self.store.progress(name.digest)
            && !progress.is_complete
        {
            let received = progress.received;
            self.board.tell(News::Lacks { name, received, shortfall, text });
        }
    }

    /// Gives and takes what there is; whether there is more to do at once.
    fn move_bytes(&mut self, now: u64) -> bool {
        self.takers.accept(&mut self.gate, now);
        let (arrivals, mut failures) = (&mut self.arrivals, Vec::new());
        let gets = self.fetches.attend(
            (&self.store, &self.gate),
            now,
            |name, count| arrivals.note_fetched(name.digest, count),
            |name, text| failures.push((name, text)),
        );
        for (name, text) in failures {
            self.lack(name, Shortfall::Gone, text);
        }
        self.takers.attend(&self.store, &self.gate, now) | gets
    }

    /// Finds out what came; whether there is more to do at once.
    fn check(&mut self) -> bool {
        let (verdicts, is_busy) = self.arrivals.attend(&self.store);
        for verdict in verdicts {
            match verdict {
                Verdict::Right(digest, fetched) => {
                    self.fetches.cease(digest);
                    self.board.tell(News::Here { digest, fetched: Some(fetched) });
                }
                Verdict::Wrong(name) => self.begin_anew(name),
            }
        }
        is_busy
    }

    fn begin_anew(&mut self, name: BlobName) {
        let digest: Digest = name.digest;
        self.fetches.cease(digest);
        self.takers.dismiss(digest);
        let text = format!("{} bytes came that do not hash to {digest}", name.size);
        self.lack(name, Shortfall::Wrong, text);
    }

    /// Moves what nobody uses to disk, or away, where there is too much of it.
    fn trim(&self) {
        if self.store.is_above_limit() {
            let gone = self.store.trim();
            if !gone.is_empty() {
                self.board.tell(News::Gone(gone));
            }
        }
    }
}
