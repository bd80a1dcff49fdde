//! Events of an engine's workers: the records that they write, their starts and their deaths. The simulations of one engine and
//! of a cluster share this code.

use gristmill_core::{
    ContextId, Core, Loss, LossCause, Origin, Port, RingProgress, StartFailure, Submission,
    SubmitError, TaskId, TaskOptions,
};
use gristmill_wire::{FunctionId, ResourceRequest};

use crate::contexts::{ContextPlan, PLAIN, Start};
use crate::inner;
use crate::plan::Plan;
use crate::random::SeededRandom;
use crate::worker::{SimResultRecord, SimWorker};
use crate::world::{ProgramTask, SimWorld};

/// Port of a graph, with a world of workers.
pub(crate) trait Around: Port {
    /// Returns the world of workers.
    fn world(&mut self) -> &mut SimWorld;

    /// Returns the function that a new task calls, and the handle of the task.
    fn register(&mut self, number: usize, random: &mut SeededRandom) -> (FunctionId, u64);

    /// Notes the contexts that a new task knows.
    fn draw_handles(&self, _entry: &mut ProgramTask, _submitter: Option<usize>) {}

    /// Gives a new task large parts, if the seed says so.
    fn draw_parts(&mut self, _entry: &mut ProgramTask, _random: &mut SeededRandom) {}

    /// Draws the context that a new task names, if any.
    fn draw_context(
        &mut self,
        core: &mut Core,
        submitter: Option<usize>,
        plan: &ContextPlan,
        random: &mut SeededRandom,
    ) -> Option<ContextId> {
        let _ = submitter;
        let (named, _) = (self.world().contexts.named(), core);
        if named.is_empty() || !random.chance(plan.named) {
            return None;
        }
        Some(named[random.index(named.len())])
    }

    /// Releases the function of a task that was refused.
    fn forget(&mut self, function: FunctionId) {
        let _ = function;
    }
}

impl Around for SimWorld {
    fn world(&mut self) -> &mut SimWorld {
        self
    }

    fn register(&mut self, number: usize, random: &mut SeededRandom) -> (FunctionId, u64) {
        (FunctionId(u32::try_from(random.below(3)).expect("small")), number as u64)
    }
}

/// An engine with the choices of a seed.
pub(crate) struct Drive<'a, P> {
    pub core: &'a mut Core,
    pub port: &'a mut P,
    pub plan: &'a Plan,
    pub random: &'a mut SeededRandom,
}

impl<P: Around> Drive<'_, P> {
    /// Submits a task of the program, or of the task with a number; returns its own number.
    ///
    /// # Errors
    /// If the engine refuses the task.
    pub fn submit(
        &mut self,
        (origin, submitter): (Origin, Option<usize>),
        parents: Vec<usize>,
    ) -> Result<usize, SubmitError> {
        let world = self.port.world();
        let (number, now) = (world.ledger.len(), world.now);
        let ids: Vec<TaskId> =
            parents.iter().filter_map(|&parent| world.ledger[parent].id).collect();
        let depth = submitter.map_or(0, |number| self.port.world().ledger[number].depth + 1);
        let options = self.draw_options(submitter, now);
        let budgets =
            options.and_then(|options| options.budgets).unwrap_or(self.plan.config.budgets);
        let has_time = options
            .is_some_and(|options| options.timeout_ns.is_some() || options.deadline_ns.is_some());
        let world = self.port.world();
        let context = world.contexts.kind(options.map_or(PLAIN, |options| options.context));
        world.log(|| format!("submit {number} with {parents:?}, {origin:?}, {options:?}"));
        let (may_cancel, is_unsendable) = (depth > 0, self.random.chance(1));
        let mut drawn = ProgramTask {
            parents,
            depth,
            owner: world.engine,
            budgets,
            may_cancel,
            has_time,
            demand: options.map_or(ResourceRequest::NONE, |options| options.demand),
            priority: options.map_or(0, |options| options.priority),
            context,
            submitter: if let Origin::Nested { parent, .. } = origin { Some(parent) } else { None },
            is_unsendable,
            ..ProgramTask::default()
        };
        self.port.draw_handles(&mut drawn, submitter);
        self.port.draw_parts(&mut drawn, self.random);
        let arguments = drawn.arguments.clone();
        let world = self.port.world();
        world.ledger.push(drawn);
        let bytes = (number as u64).to_le_bytes().to_vec();
        let payload = world.memory.store_arguments(bytes, &arguments);
        let is_bulky = !arguments.is_empty();
        let bulky = || TaskOptions { is_bulky, ..options.unwrap_or_default() };
        let options = if is_bulky { Some(bulky()) } else { options };
        let (function, handle) = self.port.register(number, self.random);
        self.port.world().ledger[number].function = function;
        let submission = Submission {
            function,
            payload,
            handle,
            submitted_ticks: now,
            parents: &ids,
            options: options.as_ref(),
            origin,
        };
        let submitted = self.core.submit(submission, now, self.port);
        let world = self.port.world();
        match submitted {
            Ok(id) => {
                world.ledger[number].id = Some(id);
                Ok(number)
            }
            Err(error) => {
                world.log(|| format!("refused {number}: {error}"));
                world.ledger.pop();
                self.port.forget(function);
                Err(error)
            }
        }
    }

    /// Draws the options of a task; it gets a context if the seed has any and the task demands no other resources.
    fn draw_options(&mut self, submitter: Option<usize>, now: u64) -> Option<TaskOptions> {
        let options = self.plan.draw_options(self.random, now);
        if options.is_some_and(|options| !options.demand.is_none()) {
            return options;
        }
        let contexts = &self.plan.contexts;
        let context = self.port.draw_context(self.core, submitter, contexts, self.random);
        let named = |context| TaskOptions { context, ..options.unwrap_or_default() };
        context.map(named).or(options)
    }

    /// Draws the parents of the program's next task, from those of its own tasks whose futures it still holds.
    pub fn draw_parents(&mut self) -> Vec<usize> {
        let ledger = &self.port.world().ledger;
        let is_known =
            |entry: &ProgramTask| !entry.is_released && entry.id.is_some() && entry.depth == 0;
        let known: Vec<usize> =
            (0..ledger.len()).filter(|&number| is_known(&ledger[number])).collect();
        let mut parents = Vec::new();
        while !known.is_empty() && parents.len() < 6 && self.random.chance(self.plan.parents) {
            let recent = known.len().min(8);
            parents.push(known[known.len() - 1 - self.random.index(recent)]);
        }
        parents
    }

    /// Processes a few of the records that a worker has published; returns false if there are none.
    pub fn drain_some(&mut self, place: usize) -> bool {
        let world = self.port.world();
        let count = world.workers.len();
        let found = (0..count)
            .map(|offset| (place + offset) % count)
            .find(|&slot| world.workers[slot].published > 0);
        let Some(slot) = found else { return false };
        let batch = 1 + self.random.below(4);
        for _ in 0..batch {
            if self.port.world().workers[slot].published == 0 {
                break;
            }
            self.port.world().inner.clear();
            self.drain_one(slot);
            self.check_inner();
        }
        true
    }

    /// Asserts that the tasks which the last call has sent into the waits of their parents had to run there.
    fn check_inner(&mut self) {
        let world = self.port.world();
        if let Some(complaint) = inner::look(self.core, world, &self.plan.config) {
            panic!("{complaint}");
        }
    }

    fn drain_one(&mut self, place: usize) {
        let world = self.port.world();
        let worker = &mut world.workers[place];
        worker.published -= 1;
        let message = worker.results.pop_front().expect("it was published");
        let (slot, now) = (SimWorld::slot(place), world.now);
        match message {
            SimResultRecord::Answer(frame, payload) => {
                let _outcome = self.core.answered(slot, &frame, payload, now, self.port);
            }
            SimResultRecord::Result(batch, number, verdict) => {
                world.take_result(batch, number, verdict);
            }
            SimResultRecord::Wait(task, on) => {
                world.log(|| format!("{task} in {slot} waits: {on}"));
                self.core.waiting(slot, task, on, now, self.port);
            }
            SimResultRecord::Request(parent, number) => {
                let child =
                    self.submit((Origin::Nested { slot, parent }, Some(number)), Vec::new());
                let stack = &mut self.port.world().workers[place].stack;
                if let Some(frame) = stack.iter_mut().find(|one| one.record.number == number) {
                    frame.requested -= 1;
                    frame.children.extend(child);
                }
            }
        }
    }

    /// Reports a start or a death to the engine; returns false if there is none.
    pub fn notice(&mut self, place: usize) -> bool {
        let world = self.port.world();
        let count = world.workers.len();
        let now = world.now;
        let has_changed = |worker: &SimWorker| {
            let has_started = worker.is_starting && worker.start_ends_at <= now;
            let ends = worker.dead.is_some() || (worker.is_retired && !worker.stays);
            has_started || (worker.is_up && ends)
        };
        let found = (0..count)
            .map(|offset| (place + offset) % count)
            .find(|&slot| has_changed(&world.workers[slot]));
        let Some(slot) = found else { return false };
        if world.workers[slot].is_starting {
            self.start(slot);
        } else {
            self.die(slot);
        }
        true
    }

    /// Kills a worker, or the keeper and all workers with it; returns false if the seed decides against it.
    pub fn fault(&mut self, place: usize) -> bool {
        let world = self.port.world();
        if self.random.chance(self.plan.keeper) {
            world.log(|| "the keeper dies".into());
            for worker in world.workers.iter_mut().filter(|worker| worker.is_up) {
                worker.dead.get_or_insert(9);
                worker.by_keeper = true;
            }
            return true;
        }
        let worker = &mut world.workers[place];
        if !self.random.chance(self.plan.kills) || !worker.is_up || worker.dead.is_some() {
            return false;
        }
        worker.dead = Some(9);
        world.log(|| format!("slot {place} is killed from outside"));
        true
    }

    fn start(&mut self, place: usize) {
        let world = self.port.world();
        let (slot, now) = (SimWorld::slot(place), world.now);
        let worker = &mut world.workers[place];
        worker.is_starting = false;
        let (epoch, context) = (worker.epoch, worker.context);
        let start = self.draw_start(context);
        let world = self.port.world();
        world.log(|| format!("{slot} with {context}: {start:?}"));
        world.contexts.note_start(context, start, now);
        match start {
            Start::Up => {
                let worker = &mut world.workers[place];
                (worker.is_up, worker.up_since) = (true, now);
                self.core.slot_ready(slot, epoch, now, self.port);
            }
            Start::Failed { permanent } => {
                let failure = StartFailure { text: why(context), permanent, is_expiry: false };
                self.core.slot_failed(slot, failure, now, self.port);
            }
            Start::Died => {
                let progress = RingProgress::default();
                let cause = LossCause::Signal(9);
                let loss = Loss {
                    cause,
                    pid: 1,
                    oom: false,
                    detail: why(context),
                    loading: "".into(),
                    progress,
                };
                self.core.slot_lost(slot, epoch, loss, now, self.port);
            }
        }
    }

    fn draw_start(&mut self, context: ContextId) -> Start {
        if context != PLAIN {
            return self.port.world().contexts.draw_start(context);
        }
        if self.random.chance(self.plan.start_failures) {
            return Start::Failed { permanent: self.random.chance(5) };
        }
        Start::Up
    }

    fn die(&mut self, place: usize) {
        let world = self.port.world();
        let (slot, now) = (SimWorld::slot(place), world.now);
        world.bury(place);
        while self.port.world().workers[place].published > 0 {
            self.drain_one(place);
        }
        let world = self.port.world();
        let worker = &mut world.workers[place];
        worker.is_up = false;
        worker.is_retired = false;
        let cause = match worker.dead.take() {
            _ if worker.by_keeper => LossCause::Keeper,
            Some(signal) => LossCause::Signal(signal),
            None => LossCause::Exit(0),
        };
        let (progress, epoch, context) = (worker.progress, worker.epoch, worker.context);
        if progress.started == 0 {
            world.contexts.note_fruitless(context, now);
        }
        let loss =
            Loss { cause, pid: 1, oom: false, detail: "gone".into(), loading: "".into(), progress };
        world.log(|| format!("{slot} is lost: {cause:?}, {progress:?}"));
        self.core.slot_lost(slot, epoch, loss, now, self.port);
    }
}

/// Returns the message of a failed start.
pub(crate) fn why(context: ContextId) -> Box<str> {
    format!("no worker has {context}").into()
}
