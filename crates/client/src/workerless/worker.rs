//! Requests of a worker for nested tasks, without a process behind them.

use gristmill_wire::SlotId;

use super::WorkerlessEngine;

/// The only slot.
const SLOT: SlotId = SlotId(0);

impl WorkerlessEngine {
    /// Creates an engine whose worker may have contexts that take up to `contexts_max` bytes.
    #[must_use]
    pub fn with_worker(contexts_max: usize) -> Self {
        let mut engine = Self::default();
        engine.inner.nested.contexts_max = contexts_max;
        engine
    }

    /// Creates an engine whose worker may have functions whose definitions take up to `functions_max` bytes.
    #[must_use]
    pub fn with_worker_functions(functions_max: usize) -> Self {
        let mut engine = Self::default();
        engine.inner.nested.functions_max = functions_max;
        engine
    }

    /// Handles a request of the worker: the part of it that is in one record, and whether it goes on in the next one. Returns
    /// false if the request is not accepted, for which an engine gives its worker up.
    pub fn hear(&mut self, part: &[u8], goes_on: bool) -> bool {
        let now = self.inner.port.read_clock();
        let word = part.len() as u64 | (u64::from(goes_on) << 32);
        let is_taken = self.inner.nested_request(SLOT, word, part, now).is_ok();
        self.inner.settle();
        is_taken
    }

    /// Drops the tasks, functions and contexts of the worker, which is gone; the next worker has sent nothing yet.
    pub fn bury(&mut self) {
        self.inner.drop_nested(SLOT);
        self.inner.settle();
    }

    /// Returns the number of contexts that the worker has defined, and their size together in bytes.
    #[must_use]
    pub fn told_contexts(&self) -> (usize, usize) {
        self.inner.nested.audit_contexts(SLOT)
    }

    /// Returns the number of functions that the worker has defined, and the size of their definitions together in bytes.
    #[must_use]
    pub fn told_functions(&self) -> (usize, usize) {
        self.inner.nested.audit_functions(SLOT)
    }

    /// Returns the number of tasks that the engine has.
    #[must_use]
    pub fn task_count(&self) -> usize {
        self.inner.core.record_count() as usize
    }

    /// Returns the number of contexts that the engine knows.
    #[must_use]
    pub fn context_count(&self) -> usize {
        self.inner.port.contexts.count()
    }

    /// Ends all tasks that wait.
    pub fn shut_down(&mut self) {
        let now = self.inner.port.read_clock();
        self.inner.core.shut_down(true, now, &mut self.inner.port);
        self.inner.settle();
    }
}

#[cfg(test)]
mod tests {
    use gristmill_core::{ContextId, TaskId};
    use gristmill_wire::peer::{ContextTerms, Files};
    use gristmill_wire::{NestedRequest, ResourceRequest};

    use super::*;
    use crate::peers::{CONTEXT_SIZE, ENTRY_SIZE};

    fn terms(context: u32) -> ContextTerms<'static> {
        ContextTerms {
            context: ContextId(context),
            workers_max: 1,
            is_fork_safe: true,
            linger_ns: 0,
            demand: ResourceRequest::NONE,
            files: Files::default(),
            name: b"",
            setup: b"",
        }
    }

    /// Defines a context of `size` bytes for the worker; returns true if the number or size of its contexts has changed.
    fn tell(engine: &mut WorkerlessEngine, number: u8, size: usize) -> bool {
        let setup = vec![number; size];
        let terms = ContextTerms { setup: &setup, ..terms(number.into()) };
        let mut bytes = Vec::new();
        NestedRequest::DefineContext(terms).encode(&mut bytes);
        let before = engine.told_contexts();
        assert!(engine.hear(&bytes, false));
        engine.told_contexts() != before
    }

    fn forget(engine: &mut WorkerlessEngine, number: u32) {
        let mut bytes = Vec::new();
        NestedRequest::ForgetContext { context: ContextId(number) }.encode(&mut bytes);
        assert!(engine.hear(&bytes, false));
    }

    #[test]
    fn the_contexts_of_a_worker_take_no_more_than_they_may() {
        let each = CONTEXT_SIZE + 100;
        let mut engine = WorkerlessEngine::with_worker(2 * each);
        assert!(tell(&mut engine, 1, 100) && tell(&mut engine, 2, 50));
        assert!(!tell(&mut engine, 3, 0), "there is no room");
        assert!(tell(&mut engine, 2, 100), "it replaces the task that had its number");
        assert_eq!((engine.told_contexts(), engine.context_count()), ((2, 2 * each), 2));
        assert!(tell(&mut engine, 2, 101), "then that is gone, too");
        assert_eq!((engine.told_contexts(), engine.context_count()), ((1, each), 1));
        forget(&mut engine, 1);
        assert!(tell(&mut engine, 3, 2 * 100 + CONTEXT_SIZE));
        engine.bury();
        assert_eq!((engine.told_contexts(), engine.context_count()), ((0, 0), 0));
    }

    #[test]
    fn a_context_of_a_worker_that_is_too_large_has_a_reason_with_its_size() {
        let limit = CONTEXT_SIZE + 100;
        let mut engine = WorkerlessEngine::with_worker(limit);
        engine.inner.nested.functions_max = 0;
        let reason = |engine: &WorkerlessEngine| {
            engine.inner.nested.refused_context(SLOT, ContextId(1)).unwrap_or_default()
        };
        assert!(!tell(&mut engine, 1, 101));
        let text = format!("take {} bytes, and the limit is {limit}: let its setup", limit + 1);
        assert!(reason(&engine).contains(&text), "{}", reason(&engine));
        assert!(tell(&mut engine, 1, 100), "it is small enough now");
        assert_eq!(reason(&engine), "");
        // Of a request in several parts that is larger than any may be only the beginning is kept.
        let setup = vec![7; 2 << 20];
        let terms = ContextTerms { setup: &setup, ..terms(1) };
        let mut bytes = Vec::new();
        NestedRequest::DefineContext(terms).encode(&mut bytes);
        let parts: Vec<_> = bytes.chunks(1 << 16).collect();
        for (place, part) in parts.iter().enumerate() {
            assert!(engine.hear(part, place + 1 < parts.len()));
        }
        let text = format!("take {} bytes, and the limit is {limit}", bytes.len());
        assert!(reason(&engine).contains(&text), "{}", reason(&engine));
        assert_eq!(engine.told_contexts(), (0, 0), "its number stands for no context now");
    }

    fn define(engine: &mut WorkerlessEngine, function: u32, size: usize) {
        let definition = vec![u8::try_from(function).expect("it is small"); size];
        let mut bytes = Vec::new();
        NestedRequest::Define { function, name: "f", definition: &definition }.encode(&mut bytes);
        assert!(engine.hear(&bytes, false));
    }

    #[test]
    fn the_functions_of_a_worker_take_no_more_than_they_may() {
        let each = ENTRY_SIZE + 1000 + 1;
        let mut engine = WorkerlessEngine::with_worker_functions(2 * each);
        define(&mut engine, 1, 1000);
        define(&mut engine, 2, 1000);
        let used = engine.inner.port.functions.used_count();
        define(&mut engine, 3, 1000);
        assert_eq!(engine.told_functions(), (2, 2 * each), "there is no room");
        assert_eq!(engine.inner.port.functions.used_count(), used, "the table has not more");
        let text = engine.inner.nested.unknown_function(SLOT, 3);
        let limit = 2 * each;
        assert!(text.contains(&format!("take {} bytes, and the limit is {limit}", 3 * each)));
        assert!(
            engine.inner.nested.unknown_function(SLOT, 4).starts_with("its function is unknown")
        );
        define(&mut engine, 2, 1001);
        assert_eq!(engine.told_functions(), (1, each), "its number stands for no function now");
        define(&mut engine, 3, 900);
        assert_eq!(engine.told_functions(), (2, 2 * each - 100));
        let mut bytes = Vec::new();
        NestedRequest::Forget { function: 1 }.encode(&mut bytes);
        assert!(engine.hear(&bytes, false));
        assert_eq!(engine.told_functions(), (1, each - 100));
        engine.bury();
        assert_eq!(engine.told_functions(), (0, 0));
        assert_eq!(engine.inner.port.functions.used_count(), 1, "the program's own");
    }

    #[test]
    fn a_function_whose_library_was_refused_is_refused_for_the_same_reason() {
        let limit = ENTRY_SIZE + 1000;
        let mut engine = WorkerlessEngine::with_worker_functions(limit);
        let library = [&b"L"[..], &[7; 32], &[7; 1000]].concat();
        let needing = [&b"D\x01\0"[..], &[7; 32], b"code"].concat();
        for (function, definition) in [(1, &library), (2, &needing), (3, &vec![7; 1000])] {
            let mut bytes = Vec::new();
            NestedRequest::Define { function, name: "f", definition }.encode(&mut bytes);
            assert!(engine.hear(&bytes, false));
        }
        assert_eq!(engine.told_functions(), (0, 0));
        for (function, size) in [(1, 1034), (2, 1034), (3, 1001), (2, 1034)] {
            let text = engine.inner.nested.unknown_function(SLOT, function);
            let size = ENTRY_SIZE + size;
            assert!(
                text.contains(&format!("take {size} bytes, and the limit is {limit}")),
                "{text}"
            );
        }
    }

    #[test]
    fn the_definitions_of_a_worker_take_an_eighth_of_a_small_memory() {
        let mut engine = WorkerlessEngine::default();
        let nested = &mut engine.inner.nested;
        nested.limit_definitions(1 << 30);
        assert_eq!((nested.functions_max, nested.contexts_max), (1 << 27, 1 << 27));
    }

    #[test]
    fn nothing_is_kept_of_a_task_whose_ticket_was_used_again() {
        let mut engine = WorkerlessEngine::with_worker(0);
        let request = |engine: &mut WorkerlessEngine, request: NestedRequest<'_>| {
            let mut bytes = Vec::new();
            request.encode(&mut bytes);
            assert!(engine.hear(&bytes, false));
        };
        let function = 1;
        request(&mut engine, NestedRequest::Define { function, name: "f", definition: b"N" });
        for _ in 0..3 {
            let submission = NestedRequest::Submit {
                ticket: 7,
                parent: TaskId::new(0, 0),
                function,
                options: None,
                is_arena: false,
                arguments: Vec::new(),
                payload: b"",
            };
            request(&mut engine, submission);
        }
        assert_eq!(engine.task_count(), 3);
        engine.bury();
        engine.shut_down();
        engine.check_empty();
    }

    #[test]
    fn a_worker_may_have_a_gigabyte_of_contexts() {
        assert_eq!(WorkerlessEngine::default().inner.nested.contexts_max, 1 << 30);
    }
}
