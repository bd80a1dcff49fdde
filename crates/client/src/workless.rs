//! An engine of a program without processes, and nodes that say what a test has them say: what peers can do to a client.

use std::sync::Arc;
use std::time::Duration;

use gristmill_core::{Budgets, Config, Core, Origin, TaskOptions};
use gristmill_keeper::{Program, unheard};
use gristmill_shm::{BlockPart, ClientArena, Gaps, Segment, SegmentOptions, Window};
use gristmill_sync::barrier::BarrierMode;
use gristmill_transport::{Channel, Sleeper, pair};
use gristmill_wire::peer::{
    AnswerMessage, Control, EndKind, Grant, MessageKind, Messages, Parted, Piece, TaskMessage,
};
use gristmill_wire::{Attempt, BlobName, FunctionId, PeerId, Span, TaskId, Temperature};

use crate::blobs::{BlobSizes, names_of};
use crate::inner::{Inner, Shared};
use crate::lanes::Lanes;
use crate::outcome::Ended;
use crate::peers::{Link, LinkWork, Links, NewLink, PeerNews};
use crate::submit::Call;
use crate::tree::Tree;

/// Longer than any test.
const FOR_EVER_NS: u64 = u64::MAX / 4;

/// An engine of a program.
pub(crate) struct Workless {
    pub inner: Inner,
    sleeper: Arc<Sleeper>,
    function: FunctionId,
}

impl Workless {
    pub fn new() -> Self {
        let config = Config { workers: 0, spare_max: 0, ..Config::default() };
        let sizes =
            SegmentOptions { slot_count: 1, task_ring_size: 1 << 12, result_ring_size: 1 << 12 };
        let mode = BarrierMode::Fence;
        let segment = Segment::create_with_mode(&sizes, mode).expect("memory");
        let sleeper = Arc::new(Sleeper::new().expect("descriptors"));
        let links = Links::new(Some(Arc::clone(&sleeper)), false);
        let arena = ClientArena::create(0).expect("an arena");
        let lanes = Lanes::new(0, (mode, segment.tick_scale()), arena, links);
        let commands = unheard().expect("descriptors");
        let tree = Tree::new(commands, Program::default(), Vec::new(), (false, 0));
        let shared = Arc::new(Shared::new(Arc::new(segment), mode, Some(Arc::clone(&sleeper))));
        let gaps = Gaps::new(Window::Never, crate::rest::LOOKS);
        let mut inner = Inner::new(Core::new(config), lanes, tree, shared, gaps);
        let now = inner.lanes.read_clock();
        inner.core.start(now, &mut inner.lanes);
        let function = inner.lanes.functions.define(b"own", "own");
        Self { inner, sleeper, function }
    }

    /// A node comes.
    pub fn join(&mut self, name: &str, workers: u32) -> Node {
        let (ours, theirs) = pair().expect("descriptors");
        let peer = self.inner.attach(end(name, Box::new(ours), workers));
        let mut links = Links::new(None, false);
        links.insert(end("program", Box::new(theirs), 0), 0);
        Node { peer, links, tasks: Vec::new(), heard: Vec::new() }
    }

    pub fn block(&self, bytes: &[u8]) -> BlockPart {
        self.inner.lanes.arena.store(bytes).expect("a block")
    }

    /// Submits a task that may be lost once, with these large arguments.
    pub fn submit(&mut self, parts: &[BlockPart]) -> TaskId {
        let budgets = Some(Budgets { loss_retries: 1, ..Budgets::default() });
        let options = TaskOptions { budgets, ..TaskOptions::default() };
        let call = Call {
            function: self.function,
            payload: b"arguments",
            parts,
            views: false,
            parents: &[],
            options: Some(&options),
        };
        let task = self.inner.submit(
            &call,
            names_of(parts, BlobSizes::default().min),
            Origin::External,
            0,
        );
        self.turn();
        task.expect("there is room")
    }

    /// What whoever leads does between two sleeps.
    pub fn turn(&mut self) {
        self.inner.drain();
    }

    /// Goes on, with what nodes say, until something holds; the watchdog ends what never does.
    pub fn until(&mut self, nodes: &mut [&mut Node], mut holds: impl FnMut(&Inner) -> bool) {
        loop {
            self.turn();
            nodes.iter_mut().for_each(|node| node.turn());
            if holds(&self.inner) {
                return;
            }
            let _ = self.sleeper.sleep(&mut Vec::new(), Some(Duration::from_millis(1)));
        }
    }

    /// What a task has returned: all its large parts, one behind the other.
    pub fn result(&self, task: TaskId) -> Option<Vec<u8>> {
        match self.inner.ended(task)? {
            Ended::Value(value) => Some(value.parts().iter().flat_map(BlockPart::to_vec).collect()),
            other => panic!("{task} ended as {other:?}"),
        }
    }

    /// The nodes that are gone, each with why.
    pub fn departures(&self) -> Vec<(PeerId, String)> {
        let gone = |news: &PeerNews| match news {
            PeerNews::Gone { peer, text, .. } => Some((*peer, text.clone())),
            _ => None,
        };
        self.inner.news.iter().filter_map(gone).collect()
    }
}

/// One end of a connection, whose other end runs tasks on so many workers.
pub(crate) fn end(name: &str, channel: Box<dyn Channel + Send>, workers: u32) -> NewLink {
    NewLink {
        name: name.to_owned(),
        channel,
        beat_ns: FOR_EVER_NS,
        expiry_ns: FOR_EVER_NS,
        grant: Grant { workers, ..Grant::NOTHING },
        labels: String::new(),
    }
}

/// The other end of a node's link.
pub(crate) struct Node {
    pub peer: PeerId,
    links: Links,
    /// Tasks that it was sent, not yet answered.
    pub tasks: Vec<(TaskId, Attempt)>,
    /// All else that it was told.
    pub heard: Vec<(MessageKind, Vec<u8>)>,
}

impl Node {
    /// Says something.
    pub fn say(&mut self, word: &Control) {
        word.write(&mut self.link().out);
    }

    pub fn link(&mut self) -> &mut Link {
        self.links.get_mut(PeerId(0)).expect("it has one link")
    }

    /// Takes in what came, and sends what it has said.
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
        // One that was given up is not heard any more.
        let _ = self.link().flush();
    }

    /// Waits for a task.
    pub fn until_sent(&mut self, engine: &mut Workless) {
        while self.tasks.is_empty() {
            engine.until(&mut [self], |_| true);
        }
    }

    /// Waits for a word of this kind; gives its body.
    pub fn until_told(&mut self, engine: &mut Workless, kind: MessageKind) -> Vec<u8> {
        loop {
            if let Some((_, body)) = self.heard.iter().find(|(one, _)| *one == kind) {
                return body.clone();
            }
            engine.until(&mut [self], |_| true);
        }
    }

    /// Answers its first task with a large result of this name.
    pub fn answer(&mut self, name: BlobName) -> TaskId {
        self.answer_with(|out| {
            Parted::put_head(out, b"result", 1);
            Parted::put_name(out, &name);
        })
    }

    /// Answers its first task with a small result.
    pub fn answer_plainly(&mut self) -> TaskId {
        self.answer_with(|out| Parted::put_plain(out, b"result"))
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
            temperature: Temperature::Hot,
            payload: Parted::default(),
            loss: None,
        };
        message.write(&mut self.link().out, put);
        task
    }

    /// Gives bytes of a blob.
    pub fn give(&mut self, name: BlobName, offset: u64, bytes: &[u8]) {
        Piece::write(&mut self.link().out, (name.digest, offset), bytes.len(), |space| {
            space.copy_from_slice(bytes);
        });
    }
}
