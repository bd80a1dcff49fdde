//! Files of contexts that come, cannot be had, or are not needed any more.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use gristmill_shm::BlockPart;
use gristmill_store::BlobLimits;
use gristmill_wire::{BlobName, ContextId, Demand, Digest, TaskId};

use super::steward::{Brought, Steward, Ticket};
use super::{ProvisionWork as _, Provisions};
use crate::blobs::{BlobWork as _, DepotOrder, Taking, TakingWork as _};
use crate::contexts::ContextDefinition;
use crate::workless::{Node, Workless};

const BYTES: &[u8] = b"weights";

/// Has a scripted steward panic.
const PANIC: &str = "panic";

/// What a steward was asked for.
#[derive(Debug, PartialEq, Eq)]
enum Asked {
    Look,
    Provide(Vec<Vec<u8>>),
    LetGo,
}

/// One that lacks what it is told to, and fails if it is told to.
#[derive(Debug)]
struct Scripted {
    lacking: Result<Vec<Digest>, String>,
    made: Result<Vec<u8>, String>,
    asked: Mutex<Sender<Asked>>,
}

impl Scripted {
    fn note(&self, asked: Asked) {
        // The test may have ended.
        let _ = self.asked.lock().expect("nobody panics").send(asked);
    }
}

impl Steward for Scripted {
    fn look(&self, _: Ticket, setup: &[u8]) -> Result<Vec<Digest>, String> {
        assert_ne!(self.lacking, Err(PANIC.to_owned()), "as it was told to");
        assert_eq!(setup, b"as declared");
        self.note(Asked::Look);
        self.lacking.clone()
    }

    fn provide(&self, _: Ticket, setup: &[u8], files: Brought) -> Result<Vec<u8>, String> {
        assert_eq!(setup, b"as declared");
        self.note(Asked::Provide(files.iter().map(|(_, part)| BlockPart::to_vec(part)).collect()));
        self.made.clone()
    }

    fn let_go(&self, _: Ticket) {
        self.note(Asked::LetGo);
    }
}

/// A node, to which a client has told of a context with a file.
struct Stage {
    engine: Workless,
    client: Node,
    name: BlobName,
    context: ContextId,
    asked: Receiver<Asked>,
}

impl Stage {
    fn new(lacking: &Result<bool, String>, made: Result<Vec<u8>, String>) -> Self {
        let mut engine = Workless::new();
        let client = engine.join("client", 0);
        let name = engine.name(BYTES);
        let (asked, heard) = channel();
        let lacking =
            lacking.clone().map(|lacks| lacks.then_some(name.digest).into_iter().collect());
        let steward = Arc::new(Scripted { lacking, made, asked: Mutex::new(asked) });
        let limits = BlobLimits { memory: 0, disk: 0, directory: std::env::temp_dir() };
        let lanes = &mut engine.inner.lanes;
        let waker = lanes.links.sleeper().expect("it sleeps").waker();
        let mut taking = Taking::new(lanes.arena.clone(), limits, None, waker.clone());
        taking.provisions = Provisions::new(Some(steward), waker);
        lanes.taking = Some(taking);
        let definition = ContextDefinition {
            name: "model".into(),
            setup: b"as declared"[..].into(),
            workers_max: 1,
            is_fork_safe: true,
            linger_ns: u64::MAX,
            demand: Demand::NONE,
            files: [name.digest].into(),
        };
        let options = definition.options();
        let context = lanes.contexts.define(definition);
        engine.inner.core.define_context(context, options);
        engine.inner.files_named(client.peer, context);
        Self { engine, client, name, context, asked: heard }
    }

    fn taking(&mut self) -> &mut Taking {
        self.engine.inner.lanes.taking.as_mut().expect("it takes blobs")
    }

    /// A task comes that names the context: what it waits for.
    fn submit(&mut self) -> Vec<TaskId> {
        let promises = self.engine.inner.promises_of(self.client.peer, self.context);
        self.engine.submit(b"", &[], &promises, 0);
        promises
    }

    /// Whether a task waits for one of these.
    fn are_awaited(&self, promises: &[TaskId]) -> bool {
        promises.iter().any(|&promise| self.engine.inner.core.is_awaited(promise))
    }

    /// Takes in what threads have told, until something holds.
    fn until(&mut self, holds: impl Fn(&mut Self) -> bool) {
        while !holds(self) {
            let now = self.engine.inner.lanes.read_clock();
            self.engine.inner.take_blob_news(now);
            std::thread::yield_now();
        }
    }

    fn is_waiting(&mut self) -> bool {
        self.taking().provisions.waiting_count() > 0
    }

    /// Somebody was asked for the file.
    fn is_asked_for(&mut self) -> bool {
        let digest = self.name.digest;
        self.taking().awaited.asked(digest).is_some()
    }

    /// What a process sets up now that has the context.
    fn setup(&self) -> Vec<u8> {
        self.engine.inner.lanes.contexts.setup(self.context).expect("it is known").to_vec()
    }
}

fn done() -> Result<Vec<u8>, String> {
    Ok(b"as it is here".to_vec())
}

#[test]
fn tasks_wait_until_what_is_lacking_has_come_and_is_ready() {
    let mut stage = Stage::new(&Ok(true), done());
    let promises = stage.submit();
    stage.until(Stage::is_asked_for);
    assert!(stage.are_awaited(&promises));
    let digest = stage.name.digest;
    assert!(stage.taking().store.append(digest, 0, BYTES));
    stage.taking().order(DepotOrder::Follow);
    stage.until(|stage| !stage.is_waiting());
    assert!(!stage.are_awaited(&promises));
    assert_eq!(stage.setup(), b"as it is here");
    let asked: Vec<_> = stage.asked.try_iter().collect();
    assert_eq!(asked, [Asked::Look, Asked::Provide(vec![BYTES.to_vec()])]);
    assert!(stage.submit().is_empty(), "nothing is waited for twice");
}

#[test]
fn nobody_looks_for_files_that_no_task_needs() {
    let mut stage = Stage::new(&Ok(true), done());
    assert!(!stage.is_waiting());
    let context = stage.context;
    stage.engine.inner.drop_provision(context);
    let Stage { engine, asked, .. } = stage;
    drop(engine);
    assert_eq!(asked.iter().next(), None);
}

#[test]
fn nothing_is_sent_that_is_there() {
    let mut stage = Stage::new(&Ok(false), done());
    stage.submit();
    stage.until(|stage| !stage.is_waiting());
    assert!(!stage.is_asked_for());
    assert_eq!(stage.setup(), b"as it is here");
    let asked: Vec<_> = stage.asked.try_iter().collect();
    assert_eq!(asked, [Asked::Look, Asked::Provide(vec![])]);
}

#[test]
fn a_context_whose_files_cannot_be_made_ready_fails_with_the_reason() {
    for (lacking, made, reason) in [
        (Err("no disk".to_owned()), done(), "no disk"),
        (Ok(false), Err("no space left".to_owned()), "no space left"),
        (Err(PANIC.to_owned()), done(), "the steward panicked"),
    ] {
        let mut stage = Stage::new(&lacking, made);
        let promises = stage.submit();
        stage.until(|stage| !stage.is_waiting());
        let failure = stage.engine.inner.core.context_failure(stage.context).expect("it failed");
        let told = format!("the files of context \"model\" cannot be had: {reason}");
        assert_eq!(*failure.text, *told);
        assert!(!stage.are_awaited(&promises));
    }
}

#[test]
fn a_file_that_its_sender_does_not_give_fails_the_context() {
    let mut stage = Stage::new(&Ok(true), done());
    let promises = stage.submit();
    stage.until(Stage::is_asked_for);
    let digest = stage.name.digest;
    stage.engine.inner.stop_waiting(stage.client.peer, digest, Some("\u{1}it was changed"));
    stage.until(|stage| !stage.is_waiting());
    let failure = stage.engine.inner.core.context_failure(stage.context).expect("it failed");
    assert!(failure.text.ends_with("cannot be had: it was changed"), "{}", failure.text);
    assert!(!stage.are_awaited(&promises));
}

#[test]
fn files_are_let_go_of_with_their_context() {
    let mut stage = Stage::new(&Ok(true), done());
    stage.submit();
    stage.until(Stage::is_asked_for);
    let context = stage.context;
    stage.engine.inner.drop_provision(context);
    assert!(!stage.is_waiting());
    let digest = stage.name.digest;
    assert!(stage.taking().store.append(digest, 0, BYTES));
    stage.taking().order(DepotOrder::Follow);
    stage.until(|stage| !stage.is_asked_for());
    assert_eq!(stage.asked.iter().take(2).collect::<Vec<_>>(), [Asked::Look, Asked::LetGo]);
}

#[test]
fn an_engine_that_ends_lets_go_of_all() {
    let mut stage = Stage::new(&Ok(false), done());
    stage.submit();
    let Stage { engine, asked, .. } = stage;
    drop(engine);
    assert_eq!(asked.iter().last(), Some(Asked::LetGo));
}
