//! A worker that makes arbitrary requests: whole ones and parts, about contexts and tasks that may not exist, and bytes that
//! are no request.

use std::collections::BTreeSet;

use gristmill_client::WorkerlessEngine;
use gristmill_core::TaskId;
use gristmill_wire::peer::{ContextTerms, Files};
use gristmill_wire::{ContextId, NestedOptions, NestedRequest, ResourceRequest};

use super::choices::Choices;

/// Number of context ids that the worker uses, including 0, which means no context.
const CONTEXTS: u8 = 6;
/// Number of function ids that the worker uses: few, so that most are defined.
const FUNCTIONS: u8 = 2;
/// Bytes of the key that tells contexts apart.
const KEY_SIZE: usize = 16;
/// Limit of the bytes of its contexts: room for a few of them.
const CONTEXTS_MAX: usize = 4 * (64 << 10) + 1_000;
/// Tasks that one siege submits.
const TASKS_MAX: usize = 200;

/// The engine of a program, and a sequence of workers that make arbitrary requests.
///
/// Checked at each step: the graph is consistent; the size of the worker's contexts is counted and within its limit. Checked at
/// the end, when there is no worker and all waiting tasks were cancelled: no state of any task, context or worker is left.
pub struct AskerSiege {
    engine: WorkerlessEngine,
    report: AskerReport,
    tickets: u32,
}

/// Report of a siege by workers.
#[derive(Debug, Default)]
pub struct AskerReport {
    /// Number of requests that were accepted.
    pub taken: usize,
    /// Number of requests for which a worker was killed.
    pub refused: usize,
    /// Largest number of contexts that a worker had.
    pub contexts: usize,
    /// Largest number of tasks.
    pub tasks: usize,
}

impl Default for AskerSiege {
    fn default() -> Self {
        let engine = WorkerlessEngine::with_worker(CONTEXTS_MAX);
        Self { engine, report: AskerReport::default(), tickets: 0 }
    }
}

impl AskerSiege {
    /// Runs the siege until there are no more choices.
    ///
    /// # Panics
    /// If an invariant does not hold.
    pub fn run(mut self, mut choices: Choices<'_>) -> AskerReport {
        while !choices.is_over() {
            self.step(&mut choices);
            self.engine.audit();
            let (count, size) = self.engine.told_contexts();
            assert!(size <= CONTEXTS_MAX, "{count} contexts take {size} bytes");
            self.report.contexts = self.report.contexts.max(count);
            self.report.tasks = self.report.tasks.max(self.engine.task_count());
        }
        self.engine.bury();
        self.engine.shut_down();
        self.engine.audit();
        self.engine.check_empty();
        assert_eq!(self.engine.told_contexts(), (0, 0), "no message has defined any");
        assert_eq!(self.engine.context_count(), 0, "nothing is kept of contexts");
        self.report
    }

    fn step(&mut self, choices: &mut Choices<'_>) {
        let mut bytes = Vec::new();
        match choices.below(12) {
            0 => {
                if choices.below(8) == 0 {
                    self.engine.bury();
                }
                return;
            }
            1 if choices.below(8) == 0 => bytes.extend_from_slice(choices.bytes()),
            1..5 => define_context(choices, &mut bytes),
            5 => {
                NestedRequest::ForgetContext { context: context(choices) }.encode(&mut bytes);
            }
            6..9 => self.submit(choices, &mut bytes),
            9 => speak_of_function(choices, &mut bytes),
            10 => {
                let tickets = BTreeSet::from([self.ticket(choices), self.ticket(choices)]);
                let tickets = tickets.into_iter().collect();
                NestedRequest::Release { tickets }.encode(&mut bytes);
            }
            _ => {
                let grace_ns = choices.is_chosen().then(|| choices.number());
                NestedRequest::Cancel { ticket: self.ticket(choices), grace_ns }.encode(&mut bytes);
            }
        }
        if choices.below(32) == 0 && !bytes.is_empty() {
            let place = usize::from(choices.byte()) % bytes.len();
            bytes[place] = choices.byte();
        }
        self.say(choices, &bytes);
    }

    /// Sends a request in one or two parts.
    fn say(&mut self, choices: &mut Choices<'_>, bytes: &[u8]) {
        let cut = if choices.below(4) == 0 { usize::from(choices.byte()) } else { 0 };
        let (first, last) = bytes.split_at(cut.min(bytes.len()));
        let is_taken =
            (first.is_empty() || self.engine.hear(first, true)) && self.engine.hear(last, false);
        if is_taken {
            self.report.taken += 1;
        } else {
            // The engine kills a worker that sends an invalid request.
            self.report.refused += 1;
            self.engine.bury();
        }
    }

    fn ticket(&self, choices: &mut Choices<'_>) -> u32 {
        u32::from(choices.byte()) % (self.tickets + 2)
    }

    fn submit(&mut self, choices: &mut Choices<'_>, bytes: &mut Vec<u8>) {
        if self.tickets as usize == TASKS_MAX {
            return;
        }
        let ticket = if choices.below(16) == 0 { self.ticket(choices) } else { self.tickets };
        self.tickets += 1;
        let arguments = (0..choices.below(3) / 2).map(|_| self.ticket(choices)).collect();
        let options = (choices.below(4) > 0).then(|| NestedOptions {
            timeout_ns: u64::MAX,
            deadline_ns: u64::MAX,
            grace_ns: choices.number(),
            budgets: [0; 3],
            priority: choices.half().cast_signed(),
            demand: ResourceRequest::NONE,
            context: context(choices),
        });
        let parent = TaskId::new(choices.half() % 8, u32::from(choices.below(3)));
        let function = u32::from(choices.below(FUNCTIONS));
        let payload = choices.bytes();
        let is_arena = false;
        NestedRequest::Submit { ticket, parent, function, options, arguments, payload, is_arena }
            .encode(bytes);
    }
}

fn context(choices: &mut Choices<'_>) -> ContextId {
    ContextId(u32::from(choices.below(CONTEXTS)))
}

/// Defines a context, in full or by its key.
fn define_context(choices: &mut Choices<'_>, bytes: &mut Vec<u8>) {
    let context = context(choices);
    let mut setup = vec![choices.below(3); KEY_SIZE];
    if choices.is_chosen() {
        setup.extend_from_slice(choices.bytes());
    }
    setup.truncate(setup.len() - usize::from(choices.byte() == 0xff));
    let terms = ContextTerms {
        context,
        workers_max: choices.byte().into(),
        is_fork_safe: choices.is_chosen(),
        linger_ns: choices.number(),
        demand: ResourceRequest::NONE,
        files: Files::default(),
        name: choices.bytes(),
        setup: &setup,
    };
    NestedRequest::DefineContext(terms).encode(bytes);
}

fn speak_of_function(choices: &mut Choices<'_>, bytes: &mut Vec<u8>) {
    let function = u32::from(choices.below(FUNCTIONS));
    if choices.below(8) == 0 {
        return NestedRequest::Forget { function }.encode(bytes);
    }
    NestedRequest::Define { function, name: &choices.text(), definition: choices.bytes() }
        .encode(bytes);
}
