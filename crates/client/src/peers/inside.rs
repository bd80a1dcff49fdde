//! The client's engine as one that has links.

use gristmill_core::{Core, Payload};
use gristmill_sync::clock::TickScale;
use gristmill_wire::peer::{MessageKind, Parted};
use gristmill_wire::{ContextId, FrameError, FunctionId, PeerId, TaskId};

use super::guests::Guests;
use super::home::{LinkHome, LinkPort, Parts};
use super::intake::PeerNews;
use super::links::Links;
use crate::blobs::{BlobHome, BlobLook, BlobParts, BlobPort, BlobWork, Returned};
use crate::bundle::Bundles;
use crate::contexts::Contexts;
use crate::functions::Functions;
use crate::inner::Inner;
use crate::lanes::Lanes;

impl LinkPort for Lanes {
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

    fn contexts(&self) -> &Contexts {
        &self.contexts
    }

    fn contexts_mut(&mut self) -> &mut Contexts {
        &mut self.contexts
    }

    fn receive_parted(&mut self, parted: &Parted<'_>) -> Result<Payload, String> {
        self.blobs().take_parted(parted)
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

impl BlobPort for Lanes {
    fn blobs(&mut self) -> BlobParts<'_> {
        let Self { arena, bundles, giving, homing, taking, .. } = self;
        BlobParts { arena, bundles, giving, homing, taking: taking.as_mut() }
    }

    fn blob_look(&self) -> BlobLook<'_> {
        let Self { bundles, giving, homing, taking, .. } = self;
        BlobLook { bundles, giving, homing, taking: taking.as_ref() }
    }
}

impl BlobHome for Inner {
    fn is_asked_for(&self, task: TaskId) -> bool {
        Self::is_asked_for(self, task)
    }
}

impl LinkHome for Inner {
    type Port = Lanes;

    #[inline]
    fn parts(&mut self) -> Parts<'_, Lanes> {
        Parts { core: &mut self.core, port: &mut self.lanes, guests: &mut self.guests }
    }

    #[inline]
    fn core(&self) -> &Core {
        &self.core
    }

    #[inline]
    fn port(&self) -> &Lanes {
        &self.lanes
    }

    fn guests(&self) -> &Guests {
        &self.guests
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
        returned: Returned,
        parted: &Parted<'_>,
    ) -> Result<(), FrameError> {
        self.await_named(peer, returned, parted);
        Ok(())
    }

    fn tell_news(&mut self, news: PeerNews) {
        self.news.push_back(news);
        if let Some(door) = &self.door {
            door.wake();
        }
    }
}
