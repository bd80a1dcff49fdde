//! Tests of nodes that send messages which only clients may send, or more than can be kept.

use gristmill_core::Attempt;
use gristmill_transport::{Channel as _, ChunkHead, Flushed, pair};
use gristmill_wire::peer::{
    AnswerMessage, ContextTerms, Control, Definition, EndKind, Files, MessageKind, Parted,
    TaskLimits, TaskMessage,
};
use gristmill_wire::{
    ContextId, Digest, FailureKind, FunctionId, ResourceRequest, TaskFailure, TaskId,
};

use super::backlog::BacklogLimits;
use super::intake::LinkWork as _;
use super::link::PIECE;
use crate::inner::Inner;
use crate::outcome::Ended;
use crate::workerless::{Node, WorkerlessEngine, end};

/// Returns the reason why the only link ended.
fn ending(engine: &mut WorkerlessEngine, node: &mut Node) -> String {
    engine.until(&mut [node], |inner| !inner.peer_events.is_empty());
    let [(peer, text)] = &engine.departures()[..] else { panic!("{:?}", engine.inner.peer_events) };
    assert_eq!(*peer, node.peer);
    text.clone()
}

#[test]
fn a_node_cannot_change_how_much_it_was_granted_with() {
    let mut engine = WorkerlessEngine::new();
    let mut node = engine.join("n1", 1);
    node.say(&Control::Want { count: 1_000_000 });
    let text = ending(&mut engine, &mut node);
    assert_eq!(text, "it requested 1000000 tasks, and only a client may do that");
}

#[test]
fn a_node_that_has_words_answered_and_reads_none_is_given_up() {
    let mut engine = WorkerlessEngine::new();
    engine.inner.port.links.sizes.backlog = BacklogLimits { words: 10_000, ..Default::default() };
    // Bytes that have left do not count as waiting: here, nothing leaves.
    engine.inner.port.links.sizes.session.unacknowledged_chunks_max = 0;
    let mut node = engine.join("n1", 1);
    for place in 0..1_000 {
        node.say(&Control::Withdraw { task: TaskId::new(place, 1), attempt: Attempt(0) });
    }
    let text = ending(&mut engine, &mut node);
    assert!(
        text.ends_with("and the limit is 10000: it does not read the answers to its requests"),
        "{text}"
    );
}

/// Sends tasks to the program, which has no worker for them and gives all of them back.
fn send_tasks(node: &mut Node, count: u32) {
    let function = FunctionId(0);
    let out = &mut node.link().out;
    Definition { function, definition: b"code", name: b"f" }.write(out);
    for place in 0..count {
        let name = (TaskId::new(place, 1), function, Attempt(0));
        TaskMessage::write(out, name, None, (0, false), |out| Parted::put_plain(out, b""));
    }
}

#[test]
fn a_peer_that_confirms_no_answers_is_given_up() {
    let mut engine = WorkerlessEngine::new();
    engine.inner.port.links.sizes.backlog = BacklogLimits { answers: 99, ..Default::default() };
    engine.inner.port.links.sizes.session.unacknowledged_chunks_max = 0;
    let mut node = engine.join("n1", 1);
    engine.inner.drain_inbound("");
    send_tasks(&mut node, 100);
    let text = ending(&mut engine, &mut node);
    assert_eq!(text, "it has not confirmed 100 answers to its tasks, and the limit is 99");
    assert_eq!(engine.inner.inbound.count(), 0, "nothing is kept of it");
}

/// Returns the text of an error that says that memory is missing.
fn text_of(raised: &[u8]) -> String {
    let failure = TaskFailure::decode(raised).expect("it decodes");
    assert_eq!(failure.kind, FailureKind::NoMemory);
    String::from_utf8_lossy(failure.bytes).into_owned()
}

#[test]
fn a_result_that_is_too_large_fails_its_task_and_its_node_goes_on() {
    let mut engine = WorkerlessEngine::new();
    engine.inner.port.links.sizes.message = 1 << 20;
    let mut node = engine.join("n1", 1);
    let task = engine.submit_one();
    node.until_sent(&mut engine);
    node.answer_with_bytes(&vec![7; 3 << 20]);
    engine.until(&mut [&mut node], |inner| inner.is_final(task));
    let Some(Ended::Raised(raised)) = engine.inner.ended(task) else { panic!("it is too large") };
    let text = text_of(&raised.bytes());
    let begin = "the result of the task from node n1 is too large: it takes a message of 3145776 bytes, and the limit \
                 is 1048576";
    assert!(text.starts_with(begin) && text.contains("use these"), "{text}");
    assert!(text.contains("an eighth of this program's memory"), "{text}");
    let next = engine.submit_one();
    node.until_sent(&mut engine);
    node.answer_plainly();
    engine.until(&mut [&mut node], |inner| inner.is_final(next));
    assert!(matches!(engine.inner.ended(next), Some(Ended::Value(_))));
    assert!(engine.departures().is_empty());
}

#[test]
fn incomplete_messages_of_all_nodes_have_one_limit() {
    let mut engine = WorkerlessEngine::new();
    engine.inner.port.links.sizes.assembled = (1 << 20) + 1000;
    let mut node = engine.join("n1", 1);
    let (ours, mut theirs) = pair().expect("descriptors");
    let peer = engine.attach(end("n2", Box::new(ours), 0));
    // This node begins a message of two thousand bytes and does not end it.
    let mut message = Vec::new();
    Control::Drain { text: "y".repeat(1992) }.write(&mut message);
    let head = ChunkHead { kind: PIECE, sequence: 1, acknowledged: 0 };
    theirs.send(head, &message[..1500]).expect("it is open");
    assert_eq!(theirs.flush().expect("it is open"), Flushed::All);
    let task = engine.submit_one();
    engine.until(&mut [&mut node], |inner| inner.port.links.assembled() == 1500);
    node.until_sent(&mut engine);
    node.answer_with_bytes(&vec![7; 2 << 20]);
    engine.until(&mut [&mut node], |inner| inner.is_final(task));
    let Some(Ended::Raised(raised)) = engine.inner.ended(task) else { panic!("it is too large") };
    let text = text_of(&raised.bytes());
    assert!(
        text.contains("from node n1") && text.contains("the limit of all is 1049576"),
        "{text}"
    );
    assert!(engine.departures().is_empty());
    engine.part(peer);
    assert_eq!(engine.inner.port.links.assembled(), 0, "nothing is kept of it");
}

#[test]
fn a_task_that_is_too_large_is_answered_and_its_peer_goes_on() {
    let mut engine = WorkerlessEngine::new();
    engine.inner.port.links.sizes.message = 1 << 20;
    let mut node = engine.join("n1", 1);
    let (function, id) = (FunctionId(0), TaskId::new(3, 1));
    let out = &mut node.link().out;
    Definition { function, definition: b"code", name: b"f" }.write(out);
    TaskMessage::write(out, (id, function, Attempt(2)), None, (0, false), |out| {
        Parted::put_plain(out, &vec![7; 3 << 20]);
    });
    let body = node.until_told(&mut engine, MessageKind::Answer);
    let answer = AnswerMessage::read(&body).expect("an answer");
    assert_eq!((answer.task, answer.attempt, answer.end), (id, Attempt(2), EndKind::Raised));
    let text = text_of(answer.payload.bytes);
    assert!(
        text.starts_with("the arguments of the task are too large for the program: "),
        "{text}"
    );
    // The next message of the node says what it has received.
    node.say(&Control::Recalled);
    engine.until(&mut [&mut node], |inner| inner.inbound.count() == 0);
    assert!(engine.departures().is_empty());
}

/// Sends a task of a function, and returns the text of the error that answers it.
fn refusal_of(engine: &mut WorkerlessEngine, node: &mut Node, function: u32) -> String {
    refusal_in(engine, node, function, None)
}

/// Sends a task of a function with these limits, and returns the text of the error that answers it.
fn refusal_in(
    engine: &mut WorkerlessEngine,
    node: &mut Node,
    function: u32,
    limits: Option<&TaskLimits>,
) -> String {
    let id = TaskId::new(function, 1);
    let out = &mut node.link().out;
    let name = (id, FunctionId(function), Attempt(0));
    TaskMessage::write(out, name, limits, (0, false), |out| Parted::put_plain(out, b""));
    let body = node.until_told(engine, MessageKind::Answer);
    node.heard.clear();
    let answer = AnswerMessage::read(&body).expect("an answer");
    assert_eq!((answer.task, answer.end), (id, EndKind::Raised));
    text_of(answer.payload.bytes)
}

#[test]
fn a_library_that_is_too_large_fails_the_tasks_that_need_it_and_the_link_goes_on() {
    let mut engine = WorkerlessEngine::new();
    engine.inner.port.links.sizes.message = 1 << 20;
    let mut node = engine.join("n1", 1);
    let digest = [7; 32];
    let library = [&b"L"[..], &digest, &[7; 3 << 20]].concat();
    let needing = [&b"D\x01\0"[..], &digest, b"code"].concat();
    let definitions = [(0, &library[..]), (1, &needing), (2, &needing), (3, &library)];
    for (function, definition) in definitions {
        let function = FunctionId(function);
        Definition { function, definition, name: b"f" }.write(&mut node.link().out);
    }
    for function in [1, 2, 3, 1] {
        let text = refusal_of(&mut engine, &mut node, function);
        let begin = "the function, or a library that it needs, is too large for the program: it takes a message of 31458";
        assert!(text.starts_with(begin), "{text}");
        assert!(text.contains("an eighth of its memory; pass large data"), "{text}");
    }
    // An id that is defined again stands for the new function.
    let function = FunctionId(1);
    Definition { function, definition: b"code", name: b"f" }.write(&mut node.link().out);
    engine.inner.port.links.get_mut(node.peer).expect("it is there").names.ours = "n7".into();
    node.say(&Control::Recalled);
    let peer = node.peer;
    let is_defined = |inner: &Inner| {
        inner.port.links.get(peer).is_some_and(|link| link.functions.get(function).is_some())
    };
    engine.until(&mut [&mut node], is_defined);
    assert_eq!(engine.departures(), []);
    Definition { function: FunctionId(4), definition: &library, name: b"f" }
        .write(&mut node.link().out);
    let text = refusal_of(&mut engine, &mut node, 4);
    assert!(text.contains("is too large for node n7: "), "{text}");
}

/// Defines a context with a setup of `size` bytes and this number of files for the program.
fn tell(node: &mut Node, context: u32, size: usize, file_count: usize) {
    let terms = ContextTerms {
        context: ContextId(context),
        workers_max: 1,
        is_fork_safe: true,
        linger_ns: 0,
        demand: ResourceRequest::NONE,
        name: b"model",
        setup: &vec![7; size],
        files: Files::Named(&vec![Digest([7; 32]); file_count]),
    };
    terms.write(&mut node.link().out);
}

#[test]
fn a_context_that_is_too_large_fails_the_tasks_that_name_it_and_the_link_goes_on() {
    let mut engine = WorkerlessEngine::new();
    engine.inner.port.links.sizes.message = 1 << 20;
    let mut node = engine.join("n1", 1);
    Definition { function: FunctionId(0), definition: b"code", name: b"f" }
        .write(&mut node.link().out);
    tell(&mut node, 1, 3 << 20, 0);
    // Each file counts as 64 KiB.
    tell(&mut node, 2, 100, 1 << 14);
    let mut refusal = |engine: &mut WorkerlessEngine, context| {
        let limits = TaskLimits {
            deadline_left_ns: u64::MAX,
            timeout_ns: u64::MAX,
            grace_ns: 0,
            priority: 0,
            context: ContextId(context),
            demand: ResourceRequest::NONE,
        };
        refusal_in(engine, &mut node, 0, Some(&limits))
    };
    for context in [1, 2, 1] {
        let text = refusal(&mut engine, context);
        let begin = match context {
            1 => {
                "the context of the task is too large for the program: it takes a message of 31458"
            }
            _ => {
                "context \"model\" is too large for the program: with it the definitions of your contexts take 1073"
            }
        };
        assert!(text.starts_with(begin), "{text}");
        assert!(text.contains("the limit is") && text.contains("from files"), "{text}");
    }
    // An id that is defined again stands for the new context.
    node.say(&Control::ForgetContext { context: ContextId(1) });
    tell(&mut node, 1, 100, 0);
    node.say(&Control::Recalled);
    let peer = node.peer;
    engine.until(&mut [&mut node], |inner| {
        inner.port.links.get(peer).is_some_and(|link| link.contexts.all_ours().len() == 1)
    });
    assert_eq!(engine.departures(), []);
}
