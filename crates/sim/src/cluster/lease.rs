//! Traits of an engine that a connection manager and a lease server call.

use std::collections::VecDeque;

use gristmill_agent::LeaseEngine;
use gristmill_client::{EngineParts, LinkHome, LinkOwner, LinkWork, NewLink, PeerEvent};
use gristmill_core::{PeerId, StartFailure, TaskId};
use gristmill_transport::Channel;

use super::channel::SimChannel;
use super::engine::Engine;
use super::handle::Handle;
use super::network::look;
use crate::worker::SimResultRecord;

impl Handle {
    /// Sends the pending messages, as a thread that has changed links does before it releases the mutex.
    fn leave(engine: &mut Engine) {
        engine.settle();
        let now = engine.port.world.now;
        engine.flush_links(now);
    }
}

impl Engine {
    /// Notes that tasks which may have begun and were not answered die with the engine.
    fn note_deaths(&mut self) {
        let lines: Vec<_> =
            self.port.links.peers().filter_map(|peer| self.port.line_of(peer)).collect();
        let unread = self.unread();
        let world = &mut self.port.world;
        let claimed = world.workers.iter().filter_map(|worker| worker.claimed.as_ref());
        let claimed: Vec<usize> = claimed.map(|(record, _)| record.number).collect();
        for (number, entry) in world.ledger.iter_mut().enumerate() {
            let last = entry.placements.last();
            let is_here =
                last.is_some_and(|one| one.link.is_some_and(|link| lines.contains(&link)));
            let is_unread = entry.is_clients() && entry.id.is_some_and(|id| unread.contains(&id));
            let has_begun = last.is_some_and(|one| one.starts > 0) || claimed.contains(&number);
            let has_begun = has_begun || is_unread;
            entry.deaths += u64::from(is_here && has_begun && entry.running == 0);
        }
    }

    /// Returns the client's tasks whose workers have answered but whose answers are unread. Such an answer may say that the
    /// task did not begin.
    fn unread(&self) -> Vec<TaskId> {
        let messages = self.port.world.workers.iter().flat_map(|worker| &worker.results);
        let tasks = messages.filter_map(|message| match message {
            SimResultRecord::Answer(frame, _) => self.core.task(frame.task),
            _ => None,
        });
        tasks.filter_map(|view| Some(self.inbound.named(view.handle)?.1)).collect()
    }
}

impl Handle {
    /// Refuses every task because no worker can be had any more.
    pub fn give_up_workers(&self, text: &str) {
        let failure = StartFailure { text: text.into(), permanent: true, is_expiry: false };
        self.with(|engine| {
            engine.port.world.log(|| format!("give up: {text}"));
            let now = engine.port.world.now;
            let EngineParts { core, port, .. } = engine.parts();
            core.give_up_workers(failure, now, port);
            Self::leave(engine);
        });
    }
}

impl LinkOwner for Handle {
    fn attach(&self, new: NewLink) -> PeerId {
        self.with(|engine| {
            engine.port.expect_link(SimChannel::end_of(new.channel.peer()).0);
            engine.port.world.log(|| format!("attach {}", new.channel.peer()));
            let peer = engine.attach(new);
            Self::leave(engine);
            peer
        })
    }

    fn reattach(&self, peer: PeerId, channel: Box<dyn Channel + Send>, received: u64) -> bool {
        self.with(|engine| {
            let name = channel.peer().to_owned();
            let (line, side) = SimChannel::end_of(&name);
            let is_connected = engine.port.links.get(peer).is_some_and(|link| link.is_connected());
            let has_dialled = look(&engine.port.air).dialled_by(line) == side;
            assert!(!is_connected || !has_dialled, "a node with a connection does not dial again");
            let is_there = engine.reattach(peer, channel, received);
            engine.port.world.log(|| format!("go on over {name}, {received} received: {is_there}"));
            Self::leave(engine);
            is_there
        })
    }

    fn received(&self, peer: PeerId) -> Option<u64> {
        self.with(|engine| engine.port.links.get(peer).map(gristmill_client::Link::received))
    }
}

impl LeaseEngine for Handle {
    fn take_events(&self) -> VecDeque<PeerEvent> {
        self.with(|engine| std::mem::take(&mut engine.events))
    }

    fn drain(&self, text: &str) {
        self.with(|engine| {
            engine.port.world.log(|| format!("drain: {text}"));
            engine.drain_inbound(text);
        });
    }

    fn is_drained(&self) -> bool {
        self.with(|engine| engine.has_no_inbound())
    }

    fn last(&self, peer: PeerId, duration_ns: u64) {
        self.with(|engine| {
            engine.port.world.log(|| format!("last for {duration_ns}"));
            engine.last(peer, duration_ns);
            Self::leave(engine);
        });
    }

    fn end_links(&self, text: &str) {
        self.with(|engine| engine.end_links(text));
    }

    /// Ends the engine. Its processes are gone at once, and its links send what is pending.
    fn begin_end(&self, reason: &str) {
        self.with(|engine| {
            engine.port.world.log(|| format!("end: {reason}"));
            engine.port.world.is_ending = true;
            engine.note_deaths();
            engine.give_up(reason);
        });
        self.bury();
        self.with(|engine| {
            for peer in engine.port.links.peers() {
                engine.port.links.disconnect(peer);
            }
        });
    }

    fn has_ended(&self) -> bool {
        true
    }
}
