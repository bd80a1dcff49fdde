//! Contexts of the cluster: tasks name them wherever they are submitted, in the program or on a node, and each engine gives
//! them numbers of its own.

use gristmill_client::ContextTelling;
use gristmill_core::{ContextId, Core};

use super::engine::Engine;
use super::lanes::Lanes;
use super::plan::ClusterPlan;
use crate::contexts::{ContextPlan, Known, PLAIN, SETUP_MAX_NS};
use crate::plan::pick;
use crate::random::Random;

/// Starts that fail again and again, with pauses of up to 5 ms.
const LASTS_NS: u64 = 20 * SETUP_MAX_NS + 100_000_000;

/// What tells one kind from another, as the key of a context does.
const fn setup_of(kind: usize) -> [u8; 16] {
    (kind as u128 + 1).to_le_bytes()
}

/// What a kind is called in the ledger.
fn kind_of(setup: &[u8]) -> ContextId {
    let first = setup.first_chunk().expect("it has a number");
    ContextId(u32::from_le_bytes(*first))
}

impl ClusterPlan {
    /// The same with contexts, if the choices would have it.
    pub fn with_contexts(mut self, random: &mut Random) -> Self {
        if random.chance(50) {
            return self;
        }
        let count = 1 + random.index(3);
        let contexts = ContextPlan {
            count,
            named: pick(random, &[20, 60, 95]),
            forgets: pick(random, &[0, 2, 20]),
            // Their equipment, and that they do not leave, is for the simulation of one engine.
            demands: 0,
            stay: 0,
        };
        self.kinds = (0..count).map(|_| Known::draw(random)).collect();
        let tenure_ns = pick(random, &[50_000, 1_000_000, 100_000_000]);
        for plan in [&mut self.base, &mut self.lease] {
            plan.contexts = contexts;
            plan.config.context_tenure_ns = tenure_ns;
            plan.config.backoff_min_ns = 500_000;
            plan.config.backoff_max_ns = 5_000_000;
        }
        // A context has to come up, or to be given up, while a lease lasts, and what is told of it leaves room for beats.
        self.ask.duration_ns = self.ask.duration_ns.saturating_add(LASTS_NS);
        self.ask.beat_ns *= 2;
        self.ask.expiry_ns *= 2;
        if random.chance(50) {
            self.base.nested = self.base.nested.max(20);
            self.lease.nested = self.lease.nested.max(20);
        }
        self
    }
}

impl Lanes {
    /// Notes what a context is like that a worker is to have.
    pub fn learn_context(&mut self, context: ContextId) {
        let Some(definition) = self.contexts.get(context) else { return };
        let kind = kind_of(&definition.setup);
        let known = self.kinds[kind.0 as usize - 1].clone();
        self.world.contexts.learn(context, kind, known);
    }

    /// Draws the context of a task. Whoever submits it here, the program or a task, tells of the context first; now and then
    /// nobody here will name one any more.
    pub fn name_context(
        &mut self,
        core: &mut Core,
        submitter: Option<usize>,
        plan: &ContextPlan,
        random: &mut Random,
    ) -> Option<ContextId> {
        if let Some(context) = self.lent.take() {
            self.release_context(core, context);
        }
        if self.kinds.is_empty() || !random.chance(plan.named) {
            return None;
        }
        if submitter.is_some() && random.chance(50) {
            return self.name_by_key(core, self.handles(submitter), plan, random);
        }
        if random.chance(plan.forgets)
            && let Some((_, old)) = self.held.pop_first()
        {
            self.release_context(core, old);
        }
        let kind = random.index(self.kinds.len());
        Some(self.define_kind(core, kind))
    }

    /// The context of a task whose submitter knows no more of it than its key: the engine where that runs has been told
    /// before, as long as nobody forgets any.
    fn name_by_key(
        &mut self,
        core: &mut Core,
        handles: u32,
        plan: &ContextPlan,
        random: &mut Random,
    ) -> Option<ContextId> {
        let known: Vec<usize> =
            (0..self.kinds.len()).filter(|kind| handles & (1 << kind) != 0).collect();
        let kind = *known.get(random.index(known.len().max(1)))?;
        if let Some(&context) = self.held.get(&kind) {
            return Some(context);
        }
        let Some(context) = self.contexts.find(&setup_of(kind)) else {
            let may_be_gone = plan.forgets > 0 || self.has_forgotten;
            assert!(may_be_gone, "kind {kind} is not known where a task runs that heard of it");
            return None;
        };
        core.define_context(context, self.kinds[kind].definition(&[]).options());
        self.lent = Some(context);
        self.learn_context(context);
        Some(context)
    }

    /// The kinds of contexts that a task has heard of: those of the program when it submitted it, or the task above it.
    pub fn handles(&self, submitter: Option<usize>) -> u32 {
        let is_program = self.world.engine == 0;
        let own = self.held.keys().filter(|_| is_program).fold(0, |all, kind| all | 1 << kind);
        own | submitter.map_or(0, |number| self.world.ledger[number].handles)
    }

    fn define_kind(&mut self, core: &mut Core, kind: usize) -> ContextId {
        if let Some(&context) = self.held.get(&kind) {
            return context;
        }
        let definition = self.kinds[kind].definition(&setup_of(kind));
        let options = definition.options();
        let context = self.contexts.define(definition);
        core.define_context(context, options);
        self.world.log(|| format!("define kind {kind} as {context:?}"));
        self.held.insert(kind, context);
        self.learn_context(context);
        context
    }

    fn release_context(&mut self, core: &mut Core, context: ContextId) {
        self.world.log(|| format!("release {context:?}"));
        if self.contexts.release(context) {
            core.forget_context(context, self.world.now, self);
        }
    }

    /// No task names a context any more.
    pub fn drop_context(&mut self, context: ContextId) {
        assert!(context != PLAIN, "it is none");
        self.tell_dropped(context);
        self.contexts.drop(context);
    }
}

impl Engine {
    /// Nobody here will name a context any more.
    pub fn forget_contexts(&mut self) {
        self.lanes.has_forgotten = true;
        let mut held: Vec<ContextId> = std::mem::take(&mut self.lanes.held).into_values().collect();
        held.extend(self.lanes.lent.take());
        if held.is_empty() {
            return;
        }
        for context in held {
            self.lanes.release_context(&mut self.core, context);
        }
        self.settle_and_flush();
    }
}
