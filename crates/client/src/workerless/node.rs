//! The other end of a node's link, controlled by a test.

use std::sync::Arc;
use std::time::Duration;

use gristmill_core::{Origin, TaskOptions};
use gristmill_wire::peer::{
    AnswerMessage, Control, EndKind, MessageKind, Messages, Parted, Piece, TaskMessage,
};
use gristmill_wire::{Attempt, BlobName, ContextId, FunctionId, PeerId, Span, TaskId, WorkerState};

use gristmill_transport::{Channel, Sleeper, pair};
use gristmill_wire::peer::LeaseGrant;

use super::WorkerlessEngine;
use crate::inner::Inner;
use crate::peers::{Link, Links, NewLink, PeerEvent};
use crate::submit::CallRequest;

/// Interval longer than any test, nanoseconds.
const FOR_EVER_NS: u64 = u64::MAX / 4;

/// Returns one end of a connection whose other end runs tasks on `workers` workers.
pub(crate) fn end(name: &str, channel: Box<dyn Channel + Send>, workers: u32) -> NewLink {
    NewLink {
        name: name.to_owned(),
        channel,
        beat_ns: FOR_EVER_NS,
        expiry_ns: FOR_EVER_NS,
        grant: LeaseGrant { workers, ..LeaseGrant::NOTHING },
        labels: String::new(),
        own_name: String::new(),
        message_max: u64::MAX,
    }
}

impl WorkerlessEngine {
    /// Creates an engine whose leader sleeps.
    pub(crate) fn new() -> Self {
        Self::with(Some(Arc::new(Sleeper::new().expect("descriptors"))))
    }

    /// Attaches a new node.
    pub(crate) fn join(&mut self, name: &str, workers: u32) -> Node {
        let (ours, theirs) = pair().expect("descriptors");
        let peer = self.attach(end(name, Box::new(ours), workers));
        let mut links = Links::new(None, false);
        links.insert(end("program", Box::new(theirs), 0), 0);
        Node { peer, links, tasks: Vec::new(), heard: Vec::new() }
    }

    /// Submits a task that may be lost once.
    pub(crate) fn submit_one(&mut self) -> TaskId {
        self.submit(b"arguments", &[], &[], 1)
    }

    /// Submits a task of a function, in a context or in none.
    pub(crate) fn submit_call(&mut self, function: FunctionId, context: ContextId) -> TaskId {
        let options = TaskOptions { context, ..TaskOptions::default() };
        let call = CallRequest {
            function,
            payload: b"arguments",
            parts: &[],
            views: false,
            parents: &[],
            options: Some(&options),
        };
        let task = self.inner.submit(&call, Vec::new(), Origin::External, 0);
        self.turn();
        task.expect("there is room")
    }

    /// Runs the engine and the nodes until `holds` returns true; the watchdog ends a test in which it never does.
    pub(crate) fn until(&mut self, nodes: &mut [&mut Node], mut holds: impl FnMut(&Inner) -> bool) {
        loop {
            self.turn();
            nodes.iter_mut().for_each(|node| node.turn());
            if holds(&self.inner) {
                return;
            }
            let sleeper = self.sleeper.as_ref().expect("it sleeps");
            let _ = sleeper.sleep(&mut Vec::new(), Some(Duration::from_millis(1)));
        }
    }

    /// Returns the nodes that are gone, each with the reason.
    pub(crate) fn departures(&self) -> Vec<(PeerId, String)> {
        let gone = |event: &PeerEvent| match event {
            PeerEvent::Gone { peer, text, .. } => Some((*peer, text.clone())),
            _ => None,
        };
        self.inner.peer_events.iter().filter_map(gone).collect()
    }
}

/// The other end of a node's link.
pub(crate) struct Node {
    pub peer: PeerId,
    pub links: Links,
    /// Tasks that the node was sent and has not answered.
    pub tasks: Vec<(TaskId, Attempt)>,
    /// All other messages that the node was sent.
    pub heard: Vec<(MessageKind, Vec<u8>)>,
}

impl Node {
    /// Writes a control message.
    pub fn say(&mut self, word: &Control) {
        word.write(&mut self.link().out);
    }

    pub fn link(&mut self) -> &mut Link {
        self.links.get_mut(PeerId(0)).expect("it has one link")
    }

    /// Reads what came, and sends what was written.
    pub fn turn(&mut self) {
        let mut chunk = Vec::new();
        while self.link().receive(&mut chunk).is_ok_and(|is_there| is_there) {
            for (kind, body) in Messages::new(&chunk).map_while(Result::ok) {
                if kind == MessageKind::Task {
                    let task = TaskMessage::read(body).expect("it is a task");
                    self.tasks.push((task.task, task.attempt));
                } else {
                    self.heard.push((kind, body.to_vec()));
                }
            }
        }
        // A node that was given up receives nothing any more.
        let _ = self.link().flush();
    }

    /// Runs the engine until the node was sent a task.
    pub fn until_sent(&mut self, engine: &mut WorkerlessEngine) {
        while self.tasks.is_empty() {
            engine.until(&mut [self], |_| true);
        }
    }

    /// Runs the engine until the node was sent a message of this kind; returns its body.
    pub fn until_told(&mut self, engine: &mut WorkerlessEngine, kind: MessageKind) -> Vec<u8> {
        loop {
            if let Some((_, body)) = self.heard.iter().find(|(one, _)| *one == kind) {
                return body.clone();
            }
            engine.until(&mut [self], |_| true);
        }
    }

    /// Answers the node's first task with a large result of this name.
    pub fn answer(&mut self, name: BlobName) -> TaskId {
        self.answer_with(|out| {
            Parted::put_head(out, b"result", 1);
            Parted::put_name(out, &name);
        })
    }

    /// Answers the node's first task with a small result.
    pub fn answer_plainly(&mut self) -> TaskId {
        self.answer_with_bytes(b"result")
    }

    /// Answers the node's first task with a result of these bytes.
    pub fn answer_with_bytes(&mut self, bytes: &[u8]) -> TaskId {
        self.answer_with(|out| Parted::put_plain(out, bytes))
    }

    fn answer_with(&mut self, put: impl FnOnce(&mut Vec<u8>)) -> TaskId {
        let (task, attempt) = self.tasks.remove(0);
        let span = Span::default();
        let message = AnswerMessage {
            task,
            attempt,
            end: EndKind::Returned,
            started_ns: 0,
            claimed_before: span,
            ran: span,
            published_after: span,
            worker_state: WorkerState::Hot,
            payload: Parted::default(),
            loss: None,
        };
        message.write(&mut self.link().out, put);
        task
    }

    /// Sends bytes of a blob.
    pub fn give(&mut self, name: BlobName, offset: u64, bytes: &[u8]) {
        Piece::write(&mut self.link().out, (name.digest, offset), bytes.len(), |space| {
            space.copy_from_slice(bytes);
        });
    }
}
