//! File stager: makes files ready in a thread of its own beside the engine. It reads and writes disks, and unpacks files.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use gristmill_shm::BlockPart;
use gristmill_transport::Waker;
use gristmill_wire::Digest;

/// Number of one use of the files of one context. It is unique in a process.
pub type StagingId = u64;

/// Files that were fetched: the name of each, and its bytes.
pub type FetchedFiles = Vec<(Digest, BlockPart)>;

/// Stager that makes the files of contexts ready on a node. Errors are messages in words.
pub trait FileStager: fmt::Debug + Send + Sync {
    /// Returns the files of a context that must be fetched. All others are here, and stay until [`Self::let_go`].
    ///
    /// # Errors
    /// The files cannot be had here.
    fn look(&self, ticket: StagingId, setup: &[u8]) -> Result<Vec<Digest>, String>;

    /// Makes the fetched files ready. Returns the setup that the context's processes are told on this node.
    ///
    /// # Errors
    /// The files cannot be made ready here.
    fn provide(
        &self,
        ticket: StagingId,
        setup: &[u8],
        files: FetchedFiles,
    ) -> Result<Vec<u8>, String>;

    /// Releases the files, which are not needed any more.
    fn let_go(&self, ticket: StagingId);
}

/// Request from the engine to the file stager.
#[derive(Debug)]
pub(super) enum StagingRequest {
    Look(StagingId, Arc<[u8]>),
    Provide(StagingId, Arc<[u8]>, FetchedFiles),
    LetGo(StagingId),
}

/// Event from the file stager to the engine.
#[derive(Debug)]
pub(crate) enum StagingEvent {
    Lacks(StagingId, Vec<Digest>),
    Ready(StagingId, Vec<u8>),
    Failed(StagingId, String),
}

/// Engine's end of the file stager's thread. Dropping it ends the thread, which then releases all files.
#[derive(Debug)]
pub(super) struct StagingHandle {
    requests: Sender<StagingRequest>,
    events: Arc<Mutex<Vec<StagingEvent>>>,
}

impl StagingHandle {
    /// Starts the thread. `engine` wakes the thread that takes the events.
    ///
    /// # Errors
    /// The system has no threads left.
    pub fn start(stager: Arc<dyn FileStager>, engine: Waker) -> io::Result<Self> {
        let (requests, taken) = channel();
        let events = Arc::default();
        let event = Arc::clone(&events);
        let builder = std::thread::Builder::new().name("gristmill-files".to_owned());
        builder.spawn(move || serve(&*stager, &taken, &event, &engine))?;
        Ok(Self { requests, events })
    }

    pub fn send(&self, request: StagingRequest) {
        // The thread ends only after this handle is dropped, so the request is received.
        let _ = self.requests.send(request);
    }

    pub fn has_events(&self) -> bool {
        !self.events.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    pub fn take_events(&self) -> Vec<StagingEvent> {
        std::mem::take(&mut self.events.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn serve(
    stager: &dyn FileStager,
    requests: &Receiver<StagingRequest>,
    events: &Mutex<Vec<StagingEvent>>,
    engine: &Waker,
) {
    let mut held = BTreeSet::new();
    while let Ok(request) = requests.recv() {
        let (StagingRequest::Look(ticket, _)
        | StagingRequest::Provide(ticket, ..)
        | StagingRequest::LetGo(ticket)) = request;
        held.insert(ticket);
        // The engine gets an event even if the stager panics.
        let event =
            catch_unwind(AssertUnwindSafe(|| handle(stager, request))).unwrap_or_else(|_| {
                Some(StagingEvent::Failed(ticket, "the file stager panicked".to_owned()))
            });
        match event {
            Some(event) => {
                events.lock().unwrap_or_else(PoisonError::into_inner).push(event);
                engine.wake();
            }
            None => {
                held.remove(&ticket);
            }
        }
    }
    held.into_iter().for_each(|ticket| stager.let_go(ticket));
}

/// Carries out a request. Returns the event for the engine; `None` for a release.
fn handle(stager: &dyn FileStager, request: StagingRequest) -> Option<StagingEvent> {
    Some(match request {
        StagingRequest::Look(ticket, setup) => match stager.look(ticket, &setup) {
            Ok(lacking) => StagingEvent::Lacks(ticket, lacking),
            Err(text) => StagingEvent::Failed(ticket, text),
        },
        StagingRequest::Provide(ticket, setup, files) => {
            match stager.provide(ticket, &setup, files) {
                Ok(setup) => StagingEvent::Ready(ticket, setup),
                Err(text) => StagingEvent::Failed(ticket, text),
            }
        }
        StagingRequest::LetGo(ticket) => {
            stager.let_go(ticket);
            return None;
        }
    })
}
