//! Tests of tasks, functions, contexts and results that are too large for a peer, and are not sent.

use std::sync::Arc;

use gristmill_core::{Attempt, ContextId, FunctionId, TaskId};
use gristmill_store::digest_of_bytes;
use gristmill_wire::peer::{AnswerMessage, Definition, EndKind, MessageKind, Parted, TaskMessage};
use gristmill_wire::{FailureKind, ResourceRequest, TaskFailure};

use crate::contexts::ContextDefinition;
use crate::outcome::Ended;
use crate::workerless::{Node, WorkerlessEngine};

/// The largest message of the peers here.
const LIMIT: usize = 1 << 20;

/// Returns an engine that sends messages of up to [`LIMIT`] bytes to its node.
fn engine_and_node() -> (WorkerlessEngine, Node) {
    let mut engine = WorkerlessEngine::new();
    engine.inner.port.links.sizes.sent = LIMIT;
    let node = engine.join("n1", 1);
    (engine, node)
}

/// Returns the text of an error that says that memory is missing.
fn text_of(raised: &[u8]) -> String {
    let failure = TaskFailure::decode(raised).expect("it decodes");
    assert_eq!(failure.kind, FailureKind::NoMemory);
    String::from_utf8_lossy(failure.bytes).into_owned()
}

/// Returns the text of the error of a task, which has ended.
fn error_of(engine: &WorkerlessEngine, task: TaskId) -> String {
    let Some(Ended::Raised(raised)) = engine.inner.ended(task) else { panic!("it is too large") };
    text_of(&raised.bytes())
}

/// Asserts that the node was sent nothing large, and runs the next task.
fn goes_on(engine: &mut WorkerlessEngine, node: &mut Node) {
    let next = engine.submit_one();
    node.until_sent(engine);
    assert_eq!(node.tasks.len(), 1, "the other task did not go there");
    assert!(node.heard.iter().all(|(_, body)| body.len() < 1000));
    node.answer_plainly();
    engine.until(&mut [node], |inner| inner.is_final(next));
    assert!(matches!(engine.inner.ended(next), Some(Ended::Value(_))));
    assert_eq!(engine.departures(), []);
}

#[test]
fn arguments_that_are_too_large_fail_their_task_before_they_are_sent() {
    let (mut engine, mut node) = engine_and_node();
    let task = engine.submit(&vec![7; 3 << 20], &[], &[], 0);
    let text = error_of(&engine, task);
    let begin =
        "the arguments of the task (own) are too large for node n1: it takes a message of 31459";
    assert!(text.starts_with(begin), "{text}");
    assert!(text.contains("and the limit is 1048576, an eighth of its memory; arrays"), "{text}");
    goes_on(&mut engine, &mut node);
}

#[test]
fn large_arguments_that_go_by_name_do_not_count() {
    let (mut engine, mut node) = engine_and_node();
    let large = vec![7; 3 << 20];
    engine.submit(b"arguments", &[&large], &[], 0);
    node.until_sent(&mut engine);
}

#[test]
fn the_result_of_another_task_counts_where_its_value_is_sent() {
    let (mut engine, mut node) = engine_and_node();
    let parent = engine.submit_one();
    node.until_sent(&mut engine);
    node.answer_with_bytes(&vec![7; 3 << 20]);
    engine.until(&mut [&mut node], |inner| inner.is_final(parent));
    engine.part(node.peer);
    let mut other = engine.join("n2", 1);
    let task = engine.submit(b"arguments", &[], &[parent], 0);
    let text = error_of(&engine, task);
    assert!(
        text.starts_with("the arguments of the task (own) are too large for node n2"),
        "{text}"
    );
    let next = engine.submit_one();
    other.until_sent(&mut engine);
    other.answer_plainly();
    engine.until(&mut [&mut other], |inner| inner.is_final(next));
}

#[test]
fn a_function_that_is_too_large_fails_its_tasks_before_it_is_sent() {
    let (mut engine, mut node) = engine_and_node();
    let bytes = vec![7; 3 << 20];
    let digest = digest_of_bytes(&bytes);
    let library = [&b"L"[..], &digest.0, &bytes].concat();
    let needing = [&b"D\x01\0"[..], &digest.0, b"code"].concat();
    let functions = &mut engine.inner.port.functions;
    functions.define(&library, "");
    let functions = [&needing, &bytes].map(|definition| functions.define(definition, "large"));
    for function in [functions[0], functions[1], functions[0]] {
        let task = engine.submit_call(function, ContextId(0));
        let text = error_of(&engine, task);
        let begin = "the function, or a library that it needs, is too large for node n1: it takes a message of 314";
        assert!(text.starts_with(begin), "{text}");
        assert!(
            text.contains("the limit is 1048576") && text.contains("pass large data"),
            "{text}"
        );
    }
    goes_on(&mut engine, &mut node);
}

fn context_of(setup: Vec<u8>) -> ContextDefinition {
    ContextDefinition {
        name: "model".into(),
        setup: setup.into(),
        workers_max: 1,
        is_fork_safe: true,
        linger_ns: u64::MAX,
        files: Arc::default(),
        demand: ResourceRequest::NONE,
    }
}

#[test]
fn a_context_that_is_too_large_fails_its_tasks_before_it_is_sent() {
    let (mut engine, mut node) = engine_and_node();
    let context = engine.inner.define_context(context_of(vec![7; 3 << 20]), Vec::new());
    let function = engine.inner.port.functions.define(b"f", "f");
    let task = engine.submit_call(function, context);
    let text = error_of(&engine, task);
    let begin = "context \"model\" is too large for node n1: it takes a message of 3";
    assert!(text.starts_with(begin), "{text}");
    assert!(text.contains("the limit is 1048576") && text.contains("from files"), "{text}");
    goes_on(&mut engine, &mut node);
    let small = engine.inner.define_context(context_of(vec![7; 100]), Vec::new());
    engine.submit_call(function, small);
    node.until_sent(&mut engine);
}

#[test]
fn a_result_that_is_too_large_for_the_end_that_waits_is_not_sent() {
    let (mut engine, mut node) = engine_and_node();
    engine.inner.port.links.sizes.sent = usize::MAX;
    let mut other = engine.join("n2", 1);
    // The node gives the program a task that it has no room for, and the program gives it to the other node.
    let (function, id) = (FunctionId(0), TaskId::new(3, 1));
    let out = &mut node.link().out;
    Definition { function, definition: b"code", name: b"f" }.write(out);
    TaskMessage::write(out, (id, function, Attempt(2)), None, (0, false), |out| {
        Parted::put_plain(out, b"arguments");
    });
    while other.tasks.is_empty() {
        engine.until(&mut [&mut node, &mut other], |_| true);
    }
    other.answer_with_bytes(&vec![7; 3 << 20]);
    engine.until(&mut [&mut node, &mut other], |inner| inner.inbound.count() == 1);
    let body = loop {
        if let Some((_, body)) = node.heard.iter().find(|(one, _)| *one == MessageKind::Answer) {
            break body.clone();
        }
        engine.until(&mut [&mut node, &mut other], |_| true);
    };
    let answer = AnswerMessage::read(&body).expect("an answer");
    assert_eq!((answer.task, answer.attempt, answer.end), (id, Attempt(2), EndKind::Raised));
    let text = text_of(answer.payload.bytes);
    let begin = "the result of the task from the program is too large for node n1: it takes a message of 31459";
    assert!(text.starts_with(begin), "{text}");
    assert!(text.contains("and the limit is 1048576"), "{text}");
    assert_eq!(engine.departures(), []);
}
