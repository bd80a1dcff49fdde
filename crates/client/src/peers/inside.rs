//! Link interface of the client's engine.

use gristmill_core::{Core, Payload};
use gristmill_sync::clock::TickScale;
use gristmill_wire::peer::{MessageKind, Parted};
use gristmill_wire::{ContextId, FrameError, FunctionId, PeerId, TaskId};

use super::home::{EngineParts, LinkHome, LinkPort};
use super::inbound::InboundTasks;
use super::intake::PeerEvent;
use super::links::Links;
use crate::blobs::{BlobHome, BlobParts, BlobPartsRef, BlobPort, BlobWork, RemoteCompletion};
use crate::bundle::Bundles;
use crate::client_port::ClientPort;
use crate::contexts::ContextRegistry;
use crate::functions::Functions;
use crate::inner::Inner;

impl LinkPort for ClientPort {
    type Store = Bundles;

    #[inline]
    fn links(&self) -> &Links {
        &self.links
    }

    #[inline]
    fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }

    #[inline]
    fn writing(&mut self) -> (&mut Links, &mut Functions, &Bundles) {
        (&mut self.links, &mut self.functions, &self.bundles)
    }

    fn contexts(&self) -> &ContextRegistry {
        &self.contexts
    }

    fn contexts_mut(&mut self) -> &mut ContextRegistry {
        &mut self.contexts
    }

    fn receive_parted(&mut self, parted: &Parted<'_>) -> Result<Payload, String> {
        self.blobs().take_parted(parted)
    }

    fn receive_result(&mut self, parted: &Parted<'_>) -> Result<Payload, String> {
        self.blobs().take_result(parted)
    }

    fn function_freed(&mut self, function: FunctionId) {
        self.freed_functions.push(function);
    }

    fn extend_workers(&mut self, until_ns: u64) {
        Self::extend_workers(self, until_ns);
    }

    #[inline]
    fn read_clock(&mut self) -> u64 {
        Self::read_clock(self)
    }

    #[inline]
    fn now(&self) -> u64 {
        Self::now(self)
    }

    #[inline]
    fn now_ticks(&self) -> u64 {
        Self::now_ticks(self)
    }

    #[inline]
    fn scale(&self) -> TickScale {
        self.scale
    }
}

impl BlobPort for ClientPort {
    fn blobs(&mut self) -> BlobParts<'_> {
        let Self { arena, bundles, provider, inbound_results, receiver, .. } = self;
        BlobParts { arena, bundles, provider, inbound_results, receiver: receiver.as_mut() }
    }

    fn blob_look(&self) -> BlobPartsRef<'_> {
        let Self { bundles, provider, inbound_results, receiver, .. } = self;
        BlobPartsRef { bundles, provider, inbound_results, receiver: receiver.as_ref() }
    }
}

impl BlobHome for Inner {
    fn is_asked_for(&self, task: TaskId) -> bool {
        Self::is_asked_for(self, task)
    }
}

impl LinkHome for Inner {
    type Port = ClientPort;

    #[inline]
    fn parts(&mut self) -> EngineParts<'_, ClientPort> {
        EngineParts { core: &mut self.core, port: &mut self.port, inbound: &mut self.inbound }
    }

    #[inline]
    fn core(&self) -> &Core {
        &self.core
    }

    #[inline]
    fn port(&self) -> &ClientPort {
        &self.port
    }

    fn inbound(&self) -> &InboundTasks {
        &self.inbound
    }

    fn settle(&mut self) {
        Self::settle(self);
    }

    fn release(&mut self, task: TaskId) {
        Self::release(self, task);
    }

    fn call_waiters(&mut self, concerns: impl Fn(&[TaskId]) -> bool) {
        Self::call_waiters(self, concerns);
    }

    fn peer_came(&mut self, peer: PeerId, labels: &str) {
        self.blobs_joined(peer, labels);
    }

    fn peer_drains(&mut self, peer: PeerId) {
        self.bring_all_home(Some(peer));
    }

    fn peer_left(&mut self, peer: PeerId) {
        self.blobs_left(peer);
    }

    fn take_blob_message(
        &mut self,
        peer: PeerId,
        kind: MessageKind,
        body: &[u8],
    ) -> Result<(), FrameError> {
        self.take_blob_of(peer, kind, body)
    }

    fn provide_files(&mut self, peer: PeerId, context: ContextId) {
        self.files_named(peer, context);
    }

    fn take_promises(&mut self, peer: PeerId, context: ContextId) -> Vec<TaskId> {
        self.promises_of(peer, context)
    }

    fn names_result(&mut self, task: TaskId, place: u32) -> bool {
        self.result_gets_names(task, place)
    }

    fn owes_results(&self) -> bool {
        self.owes_blobs()
    }

    fn await_result(
        &mut self,
        peer: PeerId,
        returned: RemoteCompletion,
        parted: &Parted<'_>,
    ) -> Result<(), FrameError> {
        self.await_named(peer, returned, parted);
        Ok(())
    }

    fn record_event(&mut self, event: PeerEvent) {
        self.peer_events.push_back(event);
        if let Some(manager) = &self.connection_manager {
            manager.wake();
        }
    }
}
