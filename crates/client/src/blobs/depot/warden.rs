//! The depot's thread: obeys, gives, fetches, checks, names, and keeps within the limits.

use std::sync::Arc;
use std::time::Duration;

use gristmill_store::Store;
use gristmill_sync::clock::monotonic_ns;
use gristmill_transport::{Connector, Identity, Interest, Listener, Sleeper};
use gristmill_wire::peer::Shortfall;
use gristmill_wire::{BlobName, Digest};

use super::arrivals::{Arrivals, Verdict};
use super::fetches::Fetches;
use super::naming::Naming;
use super::preparing::Preparing;
use super::takers::Takers;
use super::{Board, News, Order};

/// The token of the listener; connections have their numbers.
const LISTENER: u64 = u64::MAX - 1;
/// The longest sleep: what nobody uses any more is found after it.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// What the depot's thread has.
pub(super) struct Warden {
    store: Store,
    board: Arc<Board>,
    sleeper: Sleeper,
    listener: Option<Listener>,
    connector: Option<Connector>,
    takers: Takers,
    fetches: Fetches,
    arrivals: Arrivals,
    preparing: Preparing,
    naming: Naming,
    next_token: u64,
}

impl Warden {
    pub fn new(
        store: Store,
        board: Arc<Board>,
        sleeper: Sleeper,
        (listener, sibling): (Option<Listener>, Option<Identity>),
    ) -> Self {
        Self {
            store,
            board,
            sleeper,
            listener,
            connector: sibling.map(Connector::new),
            takers: Takers::default(),
            fetches: Fetches::default(),
            arrivals: Arrivals::default(),
            preparing: Preparing::default(),
            naming: Naming::default(),
            next_token: 0,
        }
    }

    /// Runs until the engine wants no depot any more.
    pub fn run(mut self) {
        gristmill_sync::signals::block_all();
        if let Some(listener) = &self.listener {
            // Where it cannot be watched it is looked at with everything else, a second later at most.
            let _ = self.sleeper.watch(listener.descriptor(), LISTENER, Interest::Readable);
        }
        while let Some(orders) = self.next_orders() {
            let now = monotonic_ns();
            orders.into_iter().for_each(|order| self.obey(order, now));
            let is_busy = self.move_bytes(now) | self.check();
            self.prepare();
            self.name();
            self.trim();
            let is_busy = is_busy || !self.preparing.is_empty() || !self.naming.is_empty();
            let limit = if is_busy { Duration::ZERO } else { SLEEP_MAX };
            // What it would say is found by looking.
            let _ = self.sleeper.sleep(&mut Vec::new(), Some(limit));
        }
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
                self.arrivals.forget(digest);
            }
            Order::Name(result) => self.naming.add(result),
        }
    }

    fn name(&mut self) {
        if let Some(named) = self.naming.attend(&self.store) {
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
        let token = self.take_token();
        let begun = match &self.connector {
            Some(connector) => self.fetches.begin(connector, (name, address), token, now),
            None => Err("this node fetches nothing from others".to_owned()),
        };
        if let Err(text) = begun {
            self.lack(name, Shortfall::Gone, text);
        }
    }

    fn take_token(&mut self) -> u64 {
        self.next_token += 1;
        self.next_token
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
        if let Some(listener) = &self.listener {
            let next_token = &mut self.next_token;
            let token = || {
                *next_token += 1;
                *next_token
            };
            self.takers.accept(listener, token, now);
        }
        let (arrivals, mut failures) = (&mut self.arrivals, Vec::new());
        let gets = self.fetches.attend(
            (&self.store, &self.sleeper),
            now,
            |name, count| arrivals.note_fetched(name.digest, count),
            |name, text| failures.push((name, text)),
        );
        for (name, text) in failures {
            self.lack(name, Shortfall::Gone, text);
        }
        self.takers.attend(&self.store, &self.sleeper, now) | gets
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
