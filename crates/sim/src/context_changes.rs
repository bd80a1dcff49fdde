//! Definitions of contexts: those that a seed begins with, and those that it adds and forgets later.

use gristmill_core::{Config, ContextId, ContextOptions};

use crate::contexts::SimContext;
use crate::random::SeededRandom;
use crate::run::Simulation;

/// Number of contexts that a seed defines in total.
const DEFINITIONS_MAX: u32 = 10;

impl Simulation {
    /// Defines the contexts with which the seed starts.
    pub(crate) fn define_first(&mut self, seed: u64) {
        let count = self.plan.contexts.count;
        if count > 0 {
            self.world.contexts.random = SeededRandom::new(seed ^ 0x5e70);
            self.world.contexts.demands = SeededRandom::new(seed ^ 0x6ea5_0de0);
            let Config { context_tenure_ns, cores, tasks_per_worker_max, .. } = self.plan.config;
            let demands = self.plan.demands + self.plan.contexts.demands;
            let leaves_idle = cores < u32::MAX || demands > 0;
            if !leaves_idle && tasks_per_worker_max == 0 {
                self.world.contexts.tenure_ns = context_tenure_ns;
            }
            let first = self.world.contexts.random.index(count + 1);
            (0..first).for_each(|_| self.define());
        }
    }

    fn define(&mut self) {
        let contexts = &mut self.world.contexts;
        contexts.last += 1;
        let (id, mut known) = (ContextId(contexts.last), SimContext::draw(&mut contexts.random));
        known.demand = contexts.draw_demand(&self.plan.contexts, &self.plan.rooms);
        known.stays = self.plan.contexts.stay >> contexts.last & 1 == 1;
        let SimContext { workers_max, linger_ns, demand, .. } = known;
        let options = ContextOptions { workers_max, linger_ns, demand };
        self.world.log(|| format!("define {id:?}: {known:?}"));
        self.world.contexts.known.insert(id, known);
        self.core.define_context(id, options);
    }

    /// Defines another context, or forgets one that no task names; returns whether it did.
    pub(crate) fn change_contexts(&mut self) -> bool {
        let named = self.world.contexts.named();
        let is_last = self.world.contexts.last >= DEFINITIONS_MAX;
        if named.len() < self.plan.contexts.count && !is_last && self.random.chance(20) {
            self.define();
            return true;
        }
        if named.is_empty() || is_last || !self.random.chance(self.plan.contexts.forgets) {
            return false;
        }
        let id = named[self.random.index(named.len())];
        if (0..self.world.ledger.len()).any(|number| self.world.needs(number, id)) {
            return false;
        }
        self.world.log(|| format!("forget {id:?}"));
        self.world.contexts.known.get_mut(&id).expect("it is named").is_forgotten = true;
        self.core.forget_context(id, self.world.now, &mut self.world);
        true
    }
}
