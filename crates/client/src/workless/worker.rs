//! What a worker can ask of an engine for tasks of its own, where no process is behind it.

use gristmill_wire::SlotId;

use super::Workless;

/// The only one.
const SLOT: SlotId = SlotId(0);

impl Workless {
    /// One whose worker may have contexts that take so many bytes.
    #[must_use]
    pub fn with_worker(contexts_max: usize) -> Self {
        let mut engine = Self::default();
        engine.inner.nested.contexts_max = contexts_max;
        engine
    }

    /// The worker asks for something: the part of a request that is in one record, and whether it goes on in the next one. Says
    /// whether it was taken in; else its worker would be given up.
    pub fn hear(&mut self, part: &[u8], goes_on: bool) -> bool {
        let now = self.inner.lanes.read_clock();
        let word = part.len() as u64 | (u64::from(goes_on) << 32);
        let is_taken = self.inner.nested_request(SLOT, word, part, now).is_ok();
        self.inner.settle();
        is_taken
    }

    /// The worker is gone; the next one has said nothing yet.
    pub fn bury(&mut self) {
        self.inner.drop_nested(SLOT);
        self.inner.settle();
    }

    /// How many contexts the worker has told of, and what they take together, bytes.
    #[must_use]
    pub fn told_contexts(&self) -> (usize, usize) {
        self.inner.nested.audit_contexts(SLOT)
    }

    /// How many tasks the engine has.
    #[must_use]
    pub fn task_count(&self) -> usize {
        self.inner.core.record_count() as usize
    }

    /// How many contexts the engine knows.
    #[must_use]
    pub fn context_count(&self) -> usize {
        self.inner.lanes.contexts.count()
    }

    /// Ends all that waits.
    pub fn shut_down(&mut self) {
        let now = self.inner.lanes.read_clock();
        self.inner.core.shut_down(true, now, &mut self.inner.lanes);
        self.inner.settle();
    }
}

#[cfg(test)]
mod tests {
    use gristmill_core::{ContextId, TaskId};
    use gristmill_wire::peer::{ContextTerms, Files};
    use gristmill_wire::{Demand, NestedRequest};

    use super::*;
    use crate::peers::CONTEXT_SIZE;

    /// The worker tells of a context of so many bytes; says whether what it has told of is other than before.
    fn tell(engine: &mut Workless, number: u8, size: usize) -> bool {
        let setup = vec![number; size];
        let context = ContextId(number.into());
        let terms = ContextTerms {
            context,
            workers_max: 1,
            is_fork_safe: true,
            linger_ns: 0,
            demand: Demand::NONE,
            files: Files::default(),
            name: b"",
            setup: &setup,
        };
        let mut bytes = Vec::new();
        NestedRequest::DefineContext(terms).encode(&mut bytes);
        let before = engine.told_contexts();
        assert!(engine.hear(&bytes, false));
        engine.told_contexts() != before
    }

    fn forget(engine: &mut Workless, number: u32) {
        let mut bytes = Vec::new();
        NestedRequest::ForgetContext { context: ContextId(number) }.encode(&mut bytes);
        assert!(engine.hear(&bytes, false));
    }

    #[test]
    fn the_contexts_of_a_worker_take_no_more_than_they_may() {
        let each = CONTEXT_SIZE + 100;
        let mut engine = Workless::with_worker(2 * each);
        assert!(tell(&mut engine, 1, 100) && tell(&mut engine, 2, 50));
        assert!(!tell(&mut engine, 3, 0), "there is no room");
        assert!(tell(&mut engine, 2, 100), "it takes the place of what its number stood for");
        assert_eq!((engine.told_contexts(), engine.context_count()), ((2, 2 * each), 2));
        assert!(tell(&mut engine, 2, 101), "then that is gone, too");
        assert_eq!((engine.told_contexts(), engine.context_count()), ((1, each), 1));
        forget(&mut engine, 1);
        assert!(tell(&mut engine, 3, 2 * 100 + CONTEXT_SIZE));
        engine.bury();
        assert_eq!((engine.told_contexts(), engine.context_count()), ((0, 0), 0));
    }

    #[test]
    fn nothing_is_kept_of_a_task_whose_ticket_was_used_again() {
        let mut engine = Workless::with_worker(0);
        let ask = |engine: &mut Workless, request: NestedRequest<'_>| {
            let mut bytes = Vec::new();
            request.encode(&mut bytes);
            assert!(engine.hear(&bytes, false));
        };
        let function = 1;
        ask(&mut engine, NestedRequest::Define { function, name: "f", definition: b"N" });
        for _ in 0..3 {
            let submission = NestedRequest::Submit {
                ticket: 7,
                parent: TaskId::new(0, 0),
                function,
                options: None,
                arguments: Vec::new(),
                payload: b"",
            };
            ask(&mut engine, submission);
        }
        assert_eq!(engine.task_count(), 3);
        engine.bury();
        engine.shut_down();
        engine.check_empty();
    }

    #[test]
    fn a_worker_may_have_a_gigabyte_of_contexts() {
        assert_eq!(Workless::default().inner.nested.contexts_max, 1 << 30);
    }
}
