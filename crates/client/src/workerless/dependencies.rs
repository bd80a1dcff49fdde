//! Tests of functions that share a dependency, on their way to a node.

use gristmill_store::digest_of_bytes;
use gristmill_wire::peer::{Definition, MessageKind};

use super::WorkerlessEngine;

/// Returns the definition of a dependency, and the head of a function that needs it.
fn dependency(content: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let digest = digest_of_bytes(content).0;
    ([&b"L"[..], &digest, content].concat(), [&b"D\x01\0"[..], &digest].concat())
}

fn names(heard: &[(MessageKind, Vec<u8>)]) -> Vec<String> {
    let defined = heard.iter().filter(|(kind, _)| *kind == MessageKind::Define);
    let name = |(_, body): &(MessageKind, Vec<u8>)| {
        let definition = Definition::read(body).expect("it is a definition");
        String::from_utf8(definition.name.to_vec()).expect("it is a text")
    };
    defined.map(name).collect()
}

#[test]
fn a_node_is_sent_a_dependency_once_before_the_functions_that_need_it() {
    let mut engine = WorkerlessEngine::new();
    let mut node = engine.join("node", 4);
    let (library, head) = dependency(&[7; 100_000]);
    let library = engine.inner.port.functions.define(&library, "library");
    let functions = ["one", "two"].map(|name| {
        let definition = [&head, name.as_bytes()].concat();
        engine.inner.port.functions.define(&definition, name)
    });
    let tasks = [functions[0], functions[1], functions[0], functions[1]].map(|function| {
        engine.function = function;
        let task = engine.submit_one();
        node.until_sent(&mut engine);
        node.answer_plainly();
        engine.until(&mut [&mut node], |inner| inner.is_final(task));
        task
    });
    assert_eq!(names(&node.heard), ["library", "one", "two"]);

    tasks.into_iter().for_each(|task| engine.release(task));
    assert!(!engine.inner.port.functions.release(library), "the functions use it");
    assert!(functions.into_iter().all(|one| engine.inner.port.functions.release(one)));
    engine.inner.port.tell_departed();
    engine.until(&mut [&mut node], |_| true);
    let is_end = |(kind, _): &&(MessageKind, Vec<u8>)| *kind == MessageKind::ForgetFunction;
    while node.heard.iter().filter(is_end).count() < 3 {
        engine.until(&mut [&mut node], |_| true);
    }
}
