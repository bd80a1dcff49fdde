//! Loop of the blob server: runs commands, gives, fetches, verifies and names blobs, and keeps memory within its limit.

use std::sync::Arc;
use std::time::Duration;

use gristmill_store::Store;
use gristmill_sync::clock::monotonic_ns;
use gristmill_transport::Sleeper;
use gristmill_wire::peer::Shortfall;
use gristmill_wire::{BlobName, Digest};

use super::super::options::BlobSizes;
use super::fetches::Fetches;
use super::inbound::{BlobVerification, InboundBlobs};
use super::naming::HashingQueue;
use super::preparing::PrefaultQueue;
use super::sinks::BlobSinks;
use super::socket_connection::SocketTransport;
use super::transport::BlobTransport;
use super::{BlobServerCommand, BlobServerEvent, BlobServerMailbox};

/// Longest sleep. After it, blobs that are not used any more are found.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// State of the blob server.
pub struct BlobServer<G: BlobTransport> {
    store: Store,
    mailbox: Arc<BlobServerMailbox>,
    transport: G,
    sinks: BlobSinks<G::Connection>,
    fetches: Fetches<G::Connection>,
    arrivals: InboundBlobs,
    preparing: PrefaultQueue,
    naming: HashingQueue,
}

/// Status of the blob server after one turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum LoopStatus {
    /// There is more to do at once.
    Busy,
    /// There is nothing to do until something arrives.
    Idle,
    /// The engine has ended the server.
    Over,
}

impl BlobServer<SocketTransport> {
    /// Runs until the engine ends the server.
    pub(super) fn run(mut self, sleeper: &Sleeper) {
        gristmill_sync::signals::block_all();
        loop {
            let limit = match self.turn(monotonic_ns()) {
                LoopStatus::Busy => Duration::ZERO,
                LoopStatus::Idle => SLEEP_MAX,
                LoopStatus::Over => return,
            };
            // The events of the sleep are not needed: each turn looks at everything.
            let _ = sleeper.sleep(&mut Vec::new(), Some(limit));
        }
    }
}

impl<G: BlobTransport> BlobServer<G> {
    pub(super) fn new(
        store: Store,
        mailbox: Arc<BlobServerMailbox>,
        transport: G,
        sizes: BlobSizes,
    ) -> Self {
        Self {
            store,
            mailbox,
            transport,
            sinks: BlobSinks::new(sizes.piece),
            fetches: Fetches::new(),
            arrivals: InboundBlobs::default(),
            preparing: PrefaultQueue::default(),
            naming: HashingQueue::new(sizes.min),
        }
    }

    /// Does one turn: a little of each kind of work.
    pub fn turn(&mut self, now: u64) -> LoopStatus {
        let Some(commands) = self.next_commands() else { return LoopStatus::Over };
        commands.into_iter().for_each(|command| self.apply(command, now));
        let is_busy = self.move_bytes(now) | self.check();
        self.prepare();
        self.name();
        self.trim();
        let is_busy = is_busy || !self.preparing.is_empty() || !self.naming.is_empty();
        if is_busy { LoopStatus::Busy } else { LoopStatus::Idle }
    }

    /// Returns true if memory holds more blobs than the limit allows.
    #[must_use]
    pub fn is_above_limit(&self) -> bool {
        self.store.is_above_limit()
    }

    /// Makes the disk fail, for simulations. Returns false if nothing was on disk, or if the disk goes on as before.
    #[must_use]
    pub fn fail_disk(&self) -> bool {
        self.store.fail_disk().unwrap_or(false)
    }

    /// Returns true if the engine has left commands, or has ended the server.
    #[must_use]
    pub fn is_called(&self) -> bool {
        let notes = self.mailbox.look();
        notes.is_over || !notes.commands.is_empty()
    }

    fn next_commands(&self) -> Option<Vec<BlobServerCommand>> {
        let mut notes = self.mailbox.look();
        (!notes.is_over).then(|| std::mem::take(&mut notes.commands))
    }

    fn apply(&mut self, command: BlobServerCommand, now: u64) {
        match command {
            BlobServerCommand::Prepare(name) => self.preparing.add(name),
            // Each turn looks at the bytes that came, with or without this command.
            BlobServerCommand::Follow => {}
            BlobServerCommand::Fetch(name, address) => self.fetch(name, address, now),
            BlobServerCommand::Restore(name) => match self.store.restore(name.digest) {
                Ok(()) => {
                    self.mailbox.tell(BlobServerEvent::Here { digest: name.digest, fetched: None })
                }
                Err(error) => {
                    self.lack(
                        name,
                        Shortfall::None,
                        format!("its copy on disk cannot be read: {error}"),
                    );
                }
            },
            BlobServerCommand::Forget(digest) => {
                self.fetches.cease(digest);
                let _fetched = self.arrivals.forget(digest);
            }
            BlobServerCommand::Name(result) => self.naming.add(result),
        }
    }

    fn name(&mut self) {
        let mut came = Vec::new();
        let named = self.naming.attend(&self.store, |digest| came.push(digest));
        for digest in came {
            self.fetches.cease(digest);
            let fetched = Some(self.arrivals.forget(digest));
            self.mailbox.tell(BlobServerEvent::Here { digest, fetched });
        }
        if let Some(named) = named {
            self.mailbox.tell(BlobServerEvent::Named(named));
        }
    }

    /// Creates pages for blobs that will be requested, and tells the engine to request them.
    fn prepare(&mut self) {
        match self.preparing.attend(&self.store) {
            Some((name, Ok(()))) => self.lack(name, Shortfall::None, String::new()),
            Some((name, Err(error))) => {
                self.mailbox.tell(BlobServerEvent::Refused(name.digest, error.to_string()));
            }
            None => {}
        }
    }

    fn fetch(&mut self, name: BlobName, address: String, now: u64) {
        if address.is_empty() {
            self.fetches.cease(name.digest);
            return self.lack(name, Shortfall::None, String::new());
        }
        // No connection is made for a blob that no task waits for: a client may name any address.
        if self.store.progress(name.digest).is_none_or(|progress| progress.is_complete) {
            return;
        }
        if let Err(text) = self.fetches.begin(&mut self.transport, (name, address), now) {
            self.lack(name, Shortfall::Gone, text);
        }
    }

    /// Reports that a blob does not come any more, unless it is here.
    fn lack(&self, name: BlobName, shortfall: Shortfall, text: String) {
        if let Some(progress) = self.store.progress(name.digest)
            && !progress.is_complete
        {
            let received = progress.received;
            self.mailbox.tell(BlobServerEvent::Lacks { name, received, shortfall, text });
        }
    }

    /// Sends and receives the bytes that are ready. Returns true if there is more to do at once.
    fn move_bytes(&mut self, now: u64) -> bool {
        self.sinks.accept(&mut self.transport, now);
        let (arrivals, mut failures) = (&mut self.arrivals, Vec::new());
        let gets = self.fetches.attend(
            (&self.store, &self.transport),
            now,
            |name, count| arrivals.note_fetched(name.digest, count),
            |name, text| failures.push((name, text)),
        );
        for (name, text) in failures {
            self.lack(name, Shortfall::Gone, text);
        }
        self.sinks.attend(&self.store, &self.transport, now) | gets
    }

    /// Verifies the bytes that came. Returns true if there is more to do at once.
    fn check(&mut self) -> bool {
        let (verdicts, is_busy) = self.arrivals.attend(&self.store);
        for verdict in verdicts {
            match verdict {
                BlobVerification::Right(digest, fetched) => {
                    self.fetches.cease(digest);
                    self.mailbox.tell(BlobServerEvent::Here { digest, fetched: Some(fetched) });
                }
                BlobVerification::Wrong(name) => self.begin_anew(name),
            }
        }
        is_busy
    }

    fn begin_anew(&mut self, name: BlobName) {
        let digest: Digest = name.digest;
        self.fetches.cease(digest);
        self.sinks.cancel(digest);
        let text = format!("{} bytes came that do not hash to {digest}", name.size);
        self.lack(name, Shortfall::Wrong, text);
    }

    /// Moves unused blobs to disk, or drops them, if memory is above its limit.
    fn trim(&self) {
        if self.store.is_above_limit() {
            let gone = self.store.trim();
            if !gone.is_empty() {
                self.mailbox.tell(BlobServerEvent::Gone(gone));
            }
        }
    }
}
