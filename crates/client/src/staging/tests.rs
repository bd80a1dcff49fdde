//! Tests of the files of contexts: files that arrive, that cannot be had, or that are not needed any more.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use gristmill_shm::BlockPart;
use gristmill_store::BlobLimits;
use gristmill_wire::{
    BlobName, ContextId, Digest, FailureKind, ResourceRequest, TaskFailure, TaskId,
};

use super::stager::{FetchedFiles, FileStager, StagingId};
use super::{StagingTable, StagingWork as _};
use crate::blobs::{BlobReceiver, BlobReceiverWork as _, BlobServerCommand, BlobWork as _};
use crate::contexts::ContextDefinition;
use crate::workerless::{Node, WorkerlessEngine};

const BYTES: &[u8] = b"weights";

/// Error that makes a scripted stager panic.
const PANIC: &str = "panic";

/// Call that a stager received.
#[derive(Debug, PartialEq, Eq)]
enum StagerCall {
    Look,
    Provide(Vec<Vec<u8>>),
    LetGo,
}

/// Stager that lacks the files that a test names, and fails if the test says so.
#[derive(Debug)]
struct Scripted {
    lacking: Result<Vec<Digest>, String>,
    made: Result<Vec<u8>, String>,
    calls: Mutex<Sender<StagerCall>>,
}

impl Scripted {
    fn note(&self, calls: StagerCall) {
        // The test may have ended.
        let _ = self.calls.lock().expect("no thread panics").send(calls);
    }
}

impl FileStager for Scripted {
    fn look(&self, _: StagingId, setup: &[u8]) -> Result<Vec<Digest>, String> {
        assert_ne!(self.lacking, Err(PANIC.to_owned()), "as the test told it");
        assert_eq!(setup, b"as declared");
        self.note(StagerCall::Look);
        self.lacking.clone()
    }

    fn provide(&self, _: StagingId, setup: &[u8], files: FetchedFiles) -> Result<Vec<u8>, String> {
        assert_eq!(setup, b"as declared");
        self.note(StagerCall::Provide(
            files.iter().map(|(_, part)| BlockPart::to_vec(part)).collect(),
        ));
        self.made.clone()
    }

    fn let_go(&self, _: StagingId) {
        self.note(StagerCall::LetGo);
    }
}

/// Node to which a client has sent a context with a file.
struct Stage {
    engine: WorkerlessEngine,
    client: Node,
    name: BlobName,
    context: ContextId,
    calls: Receiver<StagerCall>,
}

impl Stage {
    fn new(lacking: &Result<bool, String>, made: Result<Vec<u8>, String>) -> Self {
        let mut engine = WorkerlessEngine::new();
        let client = engine.join("client", 0);
        let name = engine.name(BYTES);
        let (calls, received) = channel();
        let lacking =
            lacking.clone().map(|lacks| lacks.then_some(name.digest).into_iter().collect());
        let stager = Arc::new(Scripted { lacking, made, calls: Mutex::new(calls) });
        let limits = BlobLimits { memory: 0, disk: 0, directory: std::env::temp_dir() };
        let port = &mut engine.inner.port;
        let waker = port.links.sleeper().expect("it sleeps").waker();
        let mut receiver = BlobReceiver::new(port.arena.clone(), limits, None, waker.clone());
        receiver.staged = StagingTable::new(Some(stager), waker);
        port.receiver = Some(receiver);
        let definition = ContextDefinition {
            name: "model".into(),
            setup: b"as declared"[..].into(),
            workers_max: 1,
            is_fork_safe: true,
            linger_ns: u64::MAX,
            demand: ResourceRequest::NONE,
            files: [name.digest].into(),
        };
        let options = definition.options();
        let context = port.contexts.define(definition);
        engine.inner.core.define_context(context, options);
        engine.inner.files_named(client.peer, context);
        Self { engine, client, name, context, calls: received }
    }

    fn receiver(&mut self) -> &mut BlobReceiver {
        self.engine.inner.port.receiver.as_mut().expect("it takes blobs")
    }

    /// Submits a task that names the context. Returns the promises that the task waits for.
    fn submit(&mut self) -> Vec<TaskId> {
        let promises = self.engine.inner.promises_of(self.client.peer, self.context);
        self.engine.submit(b"", &[], &promises, 0);
        promises
    }

    /// Returns true if a task waits for one of these promises.
    fn are_awaited(&self, promises: &[TaskId]) -> bool {
        promises.iter().any(|&promise| self.engine.inner.core.is_awaited(promise))
    }

    /// Handles the events of all threads until `holds` returns true.
    fn until(&mut self, holds: impl Fn(&mut Self) -> bool) {
        while !holds(self) {
            let now = self.engine.inner.port.read_clock();
            self.engine.inner.take_blob_events(now);
            std::thread::yield_now();
        }
    }

    fn is_waiting(&mut self) -> bool {
        self.receiver().staged.waiting_count() > 0
    }

    /// Returns true if a peer was asked for the file.
    fn is_asked_for(&mut self) -> bool {
        let digest = self.name.digest;
        self.receiver().awaited.requested_from(digest).is_some()
    }

    /// Returns the setup that a process with the context gets now.
    fn setup(&self) -> Vec<u8> {
        self.engine.inner.port.contexts.setup(self.context).expect("it is known").to_vec()
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
    assert!(stage.receiver().store.append(digest, 0, BYTES));
    stage.receiver().send(BlobServerCommand::Follow);
    stage.until(|stage| !stage.is_waiting());
    assert!(!stage.are_awaited(&promises));
    assert_eq!(stage.setup(), b"as it is here");
    let calls: Vec<_> = stage.calls.try_iter().collect();
    assert_eq!(calls, [StagerCall::Look, StagerCall::Provide(vec![BYTES.to_vec()])]);
    assert!(stage.submit().is_empty(), "nothing is waited for twice");
}

#[test]
fn the_stager_skips_files_that_no_task_needs() {
    let mut stage = Stage::new(&Ok(true), done());
    assert!(!stage.is_waiting());
    let context = stage.context;
    stage.engine.inner.drop_staging(context);
    let Stage { engine, calls, .. } = stage;
    drop(engine);
    assert_eq!(calls.iter().next(), None);
}

#[test]
fn nothing_is_sent_that_is_there() {
    let mut stage = Stage::new(&Ok(false), done());
    stage.submit();
    stage.until(|stage| !stage.is_waiting());
    assert!(!stage.is_asked_for());
    assert_eq!(stage.setup(), b"as it is here");
    let calls: Vec<_> = stage.calls.try_iter().collect();
    assert_eq!(calls, [StagerCall::Look, StagerCall::Provide(vec![])]);
}

#[test]
fn a_context_whose_files_cannot_be_made_ready_fails_with_the_reason() {
    for (lacking, made, reason) in [
        (Err("no disk".to_owned()), done(), "no disk"),
        (Ok(false), Err("no space left".to_owned()), "no space left"),
        (Err(PANIC.to_owned()), done(), "the file stager panicked"),
    ] {
        let mut stage = Stage::new(&lacking, made);
        let promises = stage.submit();
        stage.until(|stage| !stage.is_waiting());
        let failure = stage.engine.inner.core.context_failure(stage.context).expect("it failed");
        let expected = format!("the files of context \"model\" cannot be staged: {reason}");
        assert_eq!(*failure.text, *expected);
        assert!(!stage.are_awaited(&promises));
    }
}

#[test]
fn a_file_that_its_sender_does_not_give_fails_the_context() {
    let mut stage = Stage::new(&Ok(true), done());
    let promises = stage.submit();
    stage.until(Stage::is_asked_for);
    let digest = stage.name.digest;
    stage.engine.inner.stop_waiting(
        stage.client.peer,
        digest,
        Some(TaskFailure::of_text(FailureKind::Argument, "it was changed")),
    );
    stage.until(|stage| !stage.is_waiting());
    let failure = stage.engine.inner.core.context_failure(stage.context).expect("it failed");
    assert!(failure.text.ends_with("cannot be staged: it was changed"), "{}", failure.text);
    assert!(!stage.are_awaited(&promises));
}

#[test]
fn files_are_let_go_of_with_their_context() {
    let mut stage = Stage::new(&Ok(true), done());
    stage.submit();
    stage.until(Stage::is_asked_for);
    let context = stage.context;
    stage.engine.inner.drop_staging(context);
    assert!(!stage.is_waiting());
    let digest = stage.name.digest;
    assert!(stage.receiver().store.append(digest, 0, BYTES));
    stage.receiver().send(BlobServerCommand::Follow);
    stage.until(|stage| !stage.is_asked_for());
    assert_eq!(
        stage.calls.iter().take(2).collect::<Vec<_>>(),
        [StagerCall::Look, StagerCall::LetGo]
    );
}

#[test]
fn an_engine_that_ends_lets_go_of_all() {
    let mut stage = Stage::new(&Ok(false), done());
    stage.submit();
    let Stage { engine, calls, .. } = stage;
    drop(engine);
    assert_eq!(calls.iter().last(), Some(StagerCall::LetGo));
}
