//! Contexts of the cluster: tasks name them both in the program and on nodes, and each engine numbers them for itself.

use gristmill_client::ContextTelling;
use gristmill_core::{ContextId, Core};

use super::plan::ClusterPlan;
use super::sim_port::SimPort;
use crate::contexts::{ContextPlan, PLAIN, SETUP_MAX_NS, SimContext};
use crate::random::{SeededRandom, pick};

/// Time that repeated failed starts may take, with pauses of up to 5 ms.
const LASTS_NS: u64 = 20 * SETUP_MAX_NS + 100_000_000;

/// Returns the setup of a kind of context, an index of [`ClusterPlan::kinds`]. It also takes the place of the context's key.
const fn setup_of(kind: usize) -> [u8; 16] {
    (kind as u128 + 1).to_le_bytes()
}

/// Returns the number of the kind that has this setup: its index plus 1. All engines share the ledger, but each has context
/// ids of its own. So the ledger names a context by this number.
fn kind_of(setup: &[u8]) -> ContextId {
    let first = setup.first_chunk().expect("it has a number");
    ContextId(u32::from_le_bytes(*first))
}

impl ClusterPlan {
    /// Adds contexts to the plan, if the seed says so.
    pub fn with_contexts(mut self, random: &mut SeededRandom) -> Self {
        if random.chance(50) {
            return self;
        }
        let count = 1 + random.index(3);
        let contexts = ContextPlan {
            count,
            named: pick(random, &[20, 60, 95]),
            // A task that names a context which its node has given up comes back and is queued behind others.
            forgets: if self.has_strict_priorities { 0 } else { pick(random, &[0, 2, 20]) },
            // The simulation of one engine covers resource grants of contexts, and workers that do not leave.
            demands: 0,
            stay: 0,
        };
        self.kinds = (0..count).map(|_| SimContext::draw(random)).collect();
        let tenure_ns = pick(random, &[50_000, 1_000_000, 100_000_000]);
        for plan in [&mut self.base, &mut self.lease] {
            plan.contexts = contexts;
            plan.config.context_tenure_ns = tenure_ns;
            plan.config.backoff_min_ns = 500_000;
            plan.config.backoff_max_ns = 5_000_000;
        }
        // A context must start, or be given up, while a lease lasts, and messages about contexts must leave room for
        // heartbeats.
        self.request.duration_ns = self.request.duration_ns.saturating_add(LASTS_NS);
        self.request.beat_ns *= 2;
        self.request.expiry_ns *= 2;
        if random.chance(50) {
            self.base.nested = self.base.nested.max(20);
            self.lease.nested = self.lease.nested.max(20);
        }
        self
    }
}

impl SimPort {
    /// Tells the simulated workers the properties of a context.
    pub fn learn_context(&mut self, context: ContextId) {
        let Some(definition) = self.contexts.get(context) else { return };
        let kind = kind_of(&definition.setup);
        let known = self.kinds[kind.0 as usize - 1].clone();
        self.world.contexts.learn(context, kind, known);
    }

    /// Draws the context of a task. An engine that submits a task defines the context first; now and then the program releases
    /// a context that it will not name again.
    pub fn name_context(
        &mut self,
        core: &mut Core,
        submitter: Option<usize>,
        plan: &ContextPlan,
        random: &mut SeededRandom,
    ) -> Option<ContextId> {
        // If the last task named a context by key, that context is held only until this submission.
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

    /// Draws a context of which the submitter, itself a task, knows only the key. The engine where the submitter runs has been
    /// told of the context before, unless contexts are forgotten.
    fn name_by_key(
        &mut self,
        core: &mut Core,
        handles: u32,
        plan: &ContextPlan,
        random: &mut SeededRandom,
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

    /// Returns the kinds of contexts that a new task knows, as a bit set: those that the program holds now, if the task is
    /// submitted at the client, and those that the submitting task knows, if there is one.
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

    pub fn release_context(&mut self, core: &mut Core, context: ContextId) {
        self.world.log(|| format!("release {context:?}"));
        if self.contexts.release(context) {
            core.forget_context(context, self.world.now, self);
        }
    }

    /// Removes a context that no task names any more.
    pub fn drop_context(&mut self, context: ContextId) {
        assert!(context != PLAIN, "it is none");
        self.tell_dropped(context);
        self.contexts.drop(context);
    }
}
