//! What the logic of links needs of the engine around it: a graph, and what the graph is called with.
//!
//! The client's own engine is one. A simulated one, whose workers, connections and clock are what a test says, is another:
//! what is decided here is the same for both.

use gristmill_core::{Core, Payload, Port};
use gristmill_sync::clock::TickScale;
use gristmill_wire::peer::{MessageKind, Parted};
use gristmill_wire::{BlobName, ContextId, FrameError, FunctionId, PeerId, TaskId};

use super::guests::Guests;
use super::intake::PeerNews;
use super::links::Links;
use crate::blobs::Returned;
use crate::contexts::Contexts;
use crate::functions::Functions;

/// What a graph with links is called with.
pub trait LinkPort: Port + Sized {
    /// What knows the bytes of payloads.
    type Store: PayloadStore;

    /// The table of links.
    fn links(&self) -> &Links;

    /// The table of links, to be changed.
    fn links_mut(&mut self) -> &mut Links;

    /// What is needed at once to write a message: links, functions, payloads.
    fn writing(&mut self) -> (&mut Links, &mut Functions, &Self::Store);

    /// What tasks run in.
    fn contexts(&self) -> &Contexts;

    /// What tasks run in, to be changed.
    fn contexts_mut(&mut self) -> &mut Contexts;

    /// Takes in what came with a task, or an answer.
    ///
    /// # Errors
    /// There is no memory for it; a sentence.
    fn receive_parted(&mut self, parted: &Parted<'_>) -> Result<Payload, String>;

    /// A function has no users any more: the graph is to forget what it knows of it.
    fn function_freed(&mut self, function: FunctionId);

    /// Lets workers here begin tasks until then, monotonic nanoseconds, and not after it.
    fn extend_workers(&mut self, _until_ns: u64) {}

    /// Reads the clock once for all that follows; gives monotonic nanoseconds.
    fn read_clock(&mut self) -> u64;

    /// The clock as it was read last, nanoseconds.
    fn now(&self) -> u64;

    /// The same, ticks.
    fn now_ticks(&self) -> u64;

    /// What a tick is.
    fn scale(&self) -> TickScale;

    /// Monotonic nanoseconds of a time that the clock of ticks has told.
    fn ns_at(&self, ticks: u64) -> u64 {
        self.now().saturating_sub(self.scale().to_ns(self.now_ticks().saturating_sub(ticks)))
    }

    /// What the clock of ticks told at a time of monotonic nanoseconds.
    fn ticks_at(&self, ns: u64) -> u64 {
        self.now_ticks().saturating_sub(self.scale().from_ns(self.now().saturating_sub(ns)))
    }
}

/// What knows the bytes of payloads.
pub trait PayloadStore {
    /// Appends a payload, with the blocks that it names.
    fn put(&self, payload: &Payload, out: &mut Vec<u8>);

    /// Appends what an answer gives: of the blocks that have a name here that, and the bytes of all others.
    fn put_result(&self, payload: &Payload, _names: &[Option<BlobName>], out: &mut Vec<u8>) {
        self.put(payload, out);
    }

    /// Bytes of the blocks of which only the names were appended.
    fn named_size(&self, _payload: &Payload) -> u64 {
        0
    }
}

/// The parts of an engine that are needed at once.
pub struct Parts<'a, P> {
    /// The graph.
    pub core: &'a mut Core,
    /// What it is called with.
    pub port: &'a mut P,
    /// Tasks of others.
    pub guests: &'a mut Guests,
}

/// An engine that has links.
pub trait LinkHome: Sized {
    /// What its graph is called with.
    type Port: LinkPort;

    /// Its parts.
    fn parts(&mut self) -> Parts<'_, Self::Port>;

    /// The graph.
    fn core(&self) -> &Core;

    /// What the graph is called with.
    fn port(&self) -> &Self::Port;

    /// The same, to be changed.
    fn port_mut(&mut self) -> &mut Self::Port {
        self.parts().port
    }

    /// Tasks of others.
    fn guests(&self) -> &Guests;

    /// The table of links.
    fn links(&self) -> &Links {
        self.port().links()
    }

    /// The table of links, to be changed.
    fn links_mut(&mut self) -> &mut Links {
        self.port_mut().links_mut()
    }

    /// Does what the graph decided: hands the ends of others' tasks to [`super::LinkWork::answer_guest`] too.
    fn settle(&mut self);

    /// Lets go of a task.
    fn release(&mut self, task: TaskId);

    /// Wakes those who wait for one of the tasks that `concerns` says yes to.
    fn call_waiters(&mut self, concerns: impl Fn(&[TaskId]) -> bool);

    /// A peer came that runs tasks; `labels` are its owner's, as `name=value` lines.
    fn peer_came(&mut self, _peer: PeerId, _labels: &str) {}

    /// A peer is about to leave.
    fn peer_drains(&mut self, _peer: PeerId) {}

    /// A peer is gone.
    fn peer_left(&mut self, _peer: PeerId) {}

    /// Takes in a message about blobs, where there are any.
    ///
    /// # Errors
    /// It is none, or there are no blobs here.
    fn take_blob_message(
        &mut self,
        _peer: PeerId,
        kind: MessageKind,
        _body: &[u8],
    ) -> Result<(), FrameError> {
        Err(FrameError::UnknownKind(kind as u8))
    }

    /// A peer has defined a context with files, which are to be ready here before its first task runs.
    fn provide_files(&mut self, _peer: PeerId, _context: ContextId) {}

    /// What the payloads that were received last wait for, and the context that their task names: promises, which it gets
    /// as parents.
    fn take_promises(&mut self, _peer: PeerId, _context: ContextId) -> Vec<TaskId> {
        Vec::new()
    }

    /// Whether a peer's task that is final, in this place among the guests, is answered later: its result gets names first.
    fn names_result(&mut self, _task: TaskId, _place: u32) -> bool {
        false
    }

    /// Whether some peer has yet to get a result that was named to it, or will be.
    fn owes_results(&self) -> bool {
        false
    }

    /// A task has returned, at a peer, what its answer names: it ends once that is here.
    ///
    /// # Errors
    /// There are no blobs here.
    fn await_result(
        &mut self,
        _peer: PeerId,
        _returned: Returned,
        _parted: &Parted<'_>,
    ) -> Result<(), FrameError> {
        Err(FrameError::UnknownKind(MessageKind::Answer as u8))
    }

    /// Tells the layers above what became of a peer.
    fn tell_news(&mut self, news: PeerNews);
}
