//! Contexts of an engine: their definitions and the starts of their workers.

use std::collections::BTreeMap;
use std::sync::Arc;

use gristmill_client::ContextDefinition;
use gristmill_core::ContextId;
use gristmill_wire::ResourceRequest;

use crate::capacity::EngineCapacity;
use crate::random::{SeededRandom, pick};

/// The id for no context.
pub const PLAIN: ContextId = ContextId(0);
/// Longest start of a worker with a context, nanoseconds.
pub const SETUP_MAX_NS: u64 = 3_000_000;

/// Choices of a seed for contexts; likelihoods are in percent.
#[derive(Debug, Clone, Copy, Default)]
pub struct ContextPlan {
    /// Number of contexts that are defined at the same time; 0 if the seed has none.
    pub count: usize,
    /// Likelihood that a task which may name a context does.
    pub named: u64,
    /// Likelihood that a step forgets a context that no task names.
    pub forgets: u64,
    /// Likelihood that a context asks for more than workers.
    pub demands: u64,
    /// Set of contexts whose workers do not leave by themselves, one bit each: the rest of the setup does not end.
    pub stay: u64,
}

/// Course of the starts of workers with a context; likelihoods are in percent.
#[derive(Debug, Clone, Copy, Default)]
pub struct Setup {
    /// Longest start, nanoseconds.
    longest_ns: u64,
    /// Likelihood that a start fails.
    fails: u64,
    /// Likelihood that a failed start kills the process.
    dies: u64,
    /// Likelihood that a failed start which does not kill the process is permanent.
    permanent: u64,
}

/// End of a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// The worker is up.
    Up,
    /// The worker reports that it cannot have the context.
    Failed {
        /// True if no worker can ever have it.
        permanent: bool,
    },
    /// The worker dies.
    Died,
}

/// State of a context, or of the workers without one.
#[derive(Debug, Clone, Default)]
pub struct SimContext {
    pub workers_max: u16,
    /// Time that an unused context is kept, nanoseconds.
    pub linger_ns: u64,
    /// Resources of each of its workers.
    pub demand: ResourceRequest,
    setup: Setup,
    /// True if its workers do not leave by themselves.
    pub stays: bool,
    pub is_forgotten: bool,
    /// True once a worker has come up with it.
    pub is_proven: bool,
    /// Number of failed starts since the last successful one.
    failures: u32,
    /// True if one start has failed permanently.
    has_failed_for_good: bool,
    /// Time of the last end of a worker that had not run anything.
    pub fruitless_at: Option<u64>,
}

/// All contexts of an engine.
#[derive(Debug)]
pub struct SimContexts {
    pub known: BTreeMap<ContextId, SimContext>,
    /// Ids of the contexts in the shared ledger, if they differ from those of this engine.
    kinds: BTreeMap<ContextId, ContextId>,
    pub random: SeededRandom,
    /// Source of the demands, separate so that seeds without any do not change.
    pub demands: SeededRandom,
    pub last: u32,
    /// Time that a worker keeps its context while it has work for it, nanoseconds; 0 if it may leave for other reasons.
    pub tenure_ns: u64,
}

impl Default for SimContexts {
    fn default() -> Self {
        let plain = SimContext { workers_max: u16::MAX, is_proven: true, ..SimContext::default() };
        let known = BTreeMap::from([(PLAIN, plain)]);
        let kinds = BTreeMap::new();
        let (random, demands) = (SeededRandom::new(0), SeededRandom::new(0));
        Self { known, kinds, random, demands, last: 0, tenure_ns: 0 }
    }
}

impl SimContext {
    /// Draws the properties of a context.
    pub fn draw(random: &mut SeededRandom) -> Self {
        let setup = Setup {
            longest_ns: pick(random, &[1_000, 100_000, SETUP_MAX_NS]),
            fails: pick(random, &[0, 0, 0, 20, 60, 100]),
            dies: pick(random, &[0, 50, 100]),
            permanent: pick(random, &[0, 10, 100]),
        };
        let workers_max = pick(random, &[1, 1, 2, 3, u16::MAX]);
        let linger_ns = pick(random, &[u64::MAX, u64::MAX, 1_000_000]);
        Self { workers_max, linger_ns, setup, ..Self::default() }
    }

    /// Returns the definition that engines get, with `setup` as its text.
    pub fn definition(&self, setup: &[u8]) -> ContextDefinition {
        ContextDefinition {
            name: "context".into(),
            setup: setup.into(),
            workers_max: self.workers_max,
            is_fork_safe: true,
            linger_ns: self.linger_ns,
            files: Arc::default(),
            demand: self.demand,
        }
    }
}

impl SimContexts {
    /// Creates the contexts of one of several engines; the starts of their workers are drawn from `random`.
    pub fn of_engine(random: SeededRandom) -> Self {
        Self { random, ..Self::default() }
    }

    /// Notes the properties of a context that an engine has learned of, and its id in the ledger.
    pub fn learn(&mut self, id: ContextId, kind: ContextId, known: SimContext) {
        self.kinds.insert(id, kind);
        self.known.entry(id).or_insert(known);
    }

    /// Returns the id of a context in the ledger.
    pub fn kind(&self, id: ContextId) -> ContextId {
        self.kinds.get(&id).copied().unwrap_or(id)
    }

    /// Draws the resources of each worker with a context.
    pub fn draw_demand(&mut self, plan: &ContextPlan, rooms: &[EngineCapacity]) -> ResourceRequest {
        if plan.demands == 0 || !self.demands.chance(plan.demands) {
            return ResourceRequest::NONE;
        }
        pick(&mut self.demands, rooms).draw_demand(&mut self.demands)
    }

    /// Returns the contexts that tasks may name.
    pub fn named(&self) -> Vec<ContextId> {
        let named = self.known.iter().filter(|(id, one)| **id != PLAIN && !one.is_forgotten);
        named.map(|(&id, _)| id).collect()
    }

    /// Returns whether no context was ever defined.
    pub fn are_none(&self) -> bool {
        self.known.len() == 1
    }

    /// Draws the duration of a start that begins now.
    pub fn draw_setup_ns(&mut self, context: ContextId) -> u64 {
        let longest_ns = self.known[&context].setup.longest_ns;
        if longest_ns == 0 { 0 } else { self.random.below(longest_ns) }
    }

    /// Draws the end of a start of a worker with a context.
    pub fn draw_start(&mut self, context: ContextId) -> Start {
        let Setup { fails, dies, permanent, .. } = self.known[&context].setup;
        let random = &mut self.random;
        if !random.chance(fails) {
            Start::Up
        } else if random.chance(dies) {
            Start::Died
        } else {
            Start::Failed { permanent: random.chance(permanent) }
        }
    }

    /// Notes the end of a start.
    pub fn note_start(&mut self, context: ContextId, start: Start, now: u64) {
        let known = self.known.get_mut(&context).expect("only known ones are asked for");
        if start == Start::Up {
            known.is_proven = true;
            known.failures = 0;
            return;
        }
        known.failures += 1;
        known.fruitless_at = Some(now);
        known.has_failed_for_good |= start == Start::Failed { permanent: true };
    }

    /// Notes that a worker has ended without having run anything.
    pub fn note_fruitless(&mut self, context: ContextId, now: u64) {
        self.known.get_mut(&context).expect("it was asked for").fruitless_at = Some(now);
    }

    /// Returns whether an engine may conclude that no worker can have the context.
    pub fn may_be_hopeless(&self, context: ContextId, failures_max: u32) -> bool {
        let known = &self.known[&context];
        known.has_failed_for_good || known.failures >= failures_max
    }
}
