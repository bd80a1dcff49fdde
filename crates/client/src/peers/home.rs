//! Interface that links need from the engine around them: the task graph, and the port that the graph is called with.
//!
//! The client's own engine implements it. So does a simulated engine, whose workers, connections and clock a test controls:
//! both decide with the same code.

use gristmill_core::{Core, Payload, Port};
use gristmill_sync::clock::TickScale;
use gristmill_wire::peer::{MessageKind, Parted};
use gristmill_wire::{BlobName, ContextId, FrameError, FunctionId, PeerId, TaskId};

use super::inbound::InboundTasks;
use super::intake::PeerEvent;
use super::links::Links;
use crate::blobs::RemoteCompletion;
use crate::contexts::ContextRegistry;
use crate::functions::Functions;

/// Port that the task graph of an engine with links is called with.
pub trait LinkPort: Port + Sized {
    /// Store of the bytes of payloads.
    type Store: PayloadStore;

    /// Returns the table of links.
    fn links(&self) -> &Links;

    /// Returns the table of links, mutably.
    fn links_mut(&mut self) -> &mut Links;

    /// Returns the parts that are needed together to write a message: links, functions, payloads.
    fn writing(&mut self) -> (&mut Links, &mut Functions, &Self::Store);

    /// Returns the contexts that tasks run in.
    fn contexts(&self) -> &ContextRegistry;

    /// Returns the contexts that tasks run in, mutably.
    fn contexts_mut(&mut self) -> &mut ContextRegistry;

    /// Stores the payload of a received task or answer.
    ///
    /// # Errors
    /// Returns a sentence if there is no memory for it.
    fn receive_parted(&mut self, parted: &Parted<'_>) -> Result<Payload, String>;

    /// Stores a received result.
    ///
    /// # Errors
    /// Returns a sentence if there is no memory for it.
    fn receive_result(&mut self, parted: &Parted<'_>) -> Result<Payload, String>;

    /// Records that a function has no users any more, so that the task graph forgets it.
    fn function_freed(&mut self, function: FunctionId);

    /// Lets workers here begin tasks until this time, monotonic nanoseconds, and not after it.
    fn extend_workers(&mut self, _until_ns: u64) {}

    /// Reads the clock once for all that follows; returns monotonic nanoseconds.
    fn read_clock(&mut self) -> u64;

    /// Returns the time when the clock was read last, monotonic nanoseconds.
    fn now(&self) -> u64;

    /// Returns the time when the clock was read last, ticks.
    fn now_ticks(&self) -> u64;

    /// Returns the scale that converts between ticks and nanoseconds.
    fn scale(&self) -> TickScale;

    /// Converts a time in ticks to monotonic nanoseconds.
    fn ns_at(&self, ticks: u64) -> u64 {
        self.now().saturating_sub(self.scale().to_ns(self.now_ticks().saturating_sub(ticks)))
    }

    /// Converts a time in monotonic nanoseconds to ticks.
    fn ticks_at(&self, ns: u64) -> u64 {
        self.now_ticks().saturating_sub(self.scale().from_ns(self.now().saturating_sub(ns)))
    }
}

/// Store of the bytes of payloads.
pub trait PayloadStore {
    /// Appends a payload, with the blocks that it names.
    fn put(&self, payload: &Payload, out: &mut Vec<u8>);

    /// Appends the payload of an answer: the names of the blocks that have one in `_names`, and the bytes of all others.
    fn put_result(&self, payload: &Payload, _names: &[Option<BlobName>], out: &mut Vec<u8>) {
        self.put(payload, out);
    }

    /// Returns the number of bytes that [`Self::put`] appends at most.
    fn put_size(&self, payload: &Payload) -> usize;

    /// Returns the number of bytes that [`Self::put_result`] appends at most.
    fn result_size(&self, payload: &Payload, names: &[Option<BlobName>]) -> usize;

    /// Returns the size in bytes of the blocks of which only the names were appended.
    fn named_size(&self, _payload: &Payload) -> u64 {
        0
    }
}

/// The parts of an engine that are borrowed together.
pub struct EngineParts<'a, P> {
    /// The task graph.
    pub core: &'a mut Core,
    /// The port that the task graph is called with.
    pub port: &'a mut P,
    /// The inbound tasks.
    pub inbound: &'a mut InboundTasks,
}

/// An engine that has links.
pub trait LinkHome: Sized {
    /// Port that the task graph is called with.
    type Port: LinkPort;

    /// Returns the engine's parts.
    fn parts(&mut self) -> EngineParts<'_, Self::Port>;

    /// Returns the task graph.
    fn core(&self) -> &Core;

    /// Returns the port that the task graph is called with.
    fn port(&self) -> &Self::Port;

    /// Returns the port that the task graph is called with, mutably.
    fn port_mut(&mut self) -> &mut Self::Port {
        self.parts().port
    }

    /// Returns the inbound tasks.
    fn inbound(&self) -> &InboundTasks;

    /// Returns the table of links.
    fn links(&self) -> &Links {
        self.port().links()
    }

    /// Returns the table of links, mutably.
    fn links_mut(&mut self) -> &mut Links {
        self.port_mut().links_mut()
    }

    /// Applies what the task graph has decided; passes final inbound tasks to [`super::LinkWork::answer_inbound`], too.
    fn settle(&mut self);

    /// Releases a task.
    fn release(&mut self, task: TaskId);

    /// Wakes the threads that wait for tasks for which `concerns` returns true.
    fn call_waiters(&mut self, concerns: impl Fn(&[TaskId]) -> bool);

    /// Handles a new peer that runs tasks; `labels` are its owner's, as `name=value` lines.
    fn peer_came(&mut self, _peer: PeerId, _labels: &str) {}

    /// Handles a peer that is about to leave.
    fn peer_drains(&mut self, _peer: PeerId) {}

    /// Handles a peer that is gone.
    fn peer_left(&mut self, _peer: PeerId) {}

    /// Processes a message about blobs.
    ///
    /// # Errors
    /// Returns an error if the message is malformed or not about blobs, or if there are no blobs here.
    fn take_blob_message(
        &mut self,
        _peer: PeerId,
        kind: MessageKind,
        _body: &[u8],
    ) -> Result<(), FrameError> {
        Err(FrameError::UnknownKind(kind as u8))
    }

    /// Records that a peer has defined a context with files, which must be ready here before its first task runs.
    fn provide_files(&mut self, _peer: PeerId, _context: ContextId) {}

    /// Returns the promises that the current task of a peer gets as parents: those that the payloads received last wait for,
    /// and those that the context waits for.
    fn take_promises(&mut self, _peer: PeerId, _context: ContextId) -> Vec<TaskId> {
        Vec::new()
    }

    /// Returns true if a peer's final task is answered later because its result gets names first; `_place` is the task's index
    /// among the inbound tasks.
    fn names_result(&mut self, _task: TaskId, _place: u32) -> bool {
        false
    }

    /// Returns true if some peer has yet to receive a result that was named to it, or will be.
    fn owes_results(&self) -> bool {
        false
    }

    /// Takes in a returned result whose answer names blobs: the task ends once these blobs are here.
    ///
    /// # Errors
    /// Returns an error if there are no blobs here.
    fn await_result(
        &mut self,
        _peer: PeerId,
        _returned: RemoteCompletion,
        _parted: &Parted<'_>,
    ) -> Result<(), FrameError> {
        Err(FrameError::UnknownKind(MessageKind::Answer as u8))
    }

    /// Reports an event of a peer to the layers above.
    fn record_event(&mut self, event: PeerEvent);
}
