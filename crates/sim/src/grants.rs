//! Checks of workers: no resource is granted twice, and each task runs on a worker with its context.

use gristmill_core::{ContextId, SlotId, Status, TaskId, WorkerGrant};
use gristmill_wire::{GPUS_MAX, ResourceGrant, ResourceRequest, TaskFlags, WHOLE_GPU};

use crate::contexts::PLAIN;
use crate::worker::{Frame, SimResultRecord, SimTaskRecord, SimWorker};
use crate::world::SimWorld;

impl SimWorld {
    /// Gives a new worker its grant, besides its CPU slot and its context.
    ///
    /// # Panics
    /// If the grant differs from the request of the context, or is not free.
    pub fn dress(&mut self, slot: SlotId, grant: WorkerGrant) {
        let place = usize::from(slot.0);
        let demand = self.contexts.known[&self.workers[place].context].demand;
        let ResourceGrant { devices, places } = grant.grant;
        let is_ordinary = slot.0 < self.room.workers;
        let count = if is_ordinary { demand.places() } else { 1 };
        let is_spoken_of = demand.gpus > 0 || count > 1;
        assert_eq!(places, if is_spoken_of { count } else { 0 }, "it has the requested CPU slots");
        assert_eq!(devices.count_ones(), demand.devices(), "it has the requested GPUs");
        assert!(devices & !self.room.supply.gpus == 0, "there are such GPUs");
        self.check_places_given(slot, &grant.places, grant.grant);
        let others = || self.workers.iter().enumerate().filter(|(other, _)| *other != place);
        for (other, worker) in others().filter(|(_, worker)| worker.is_there()) {
            let has = |of: &WorkerGrant, place: usize| {
                of.places.iter().any(|slot| usize::from(slot.0) == place)
            };
            assert!(!has(&worker.grant, place), "the CPU slot of slot {place} is that of {other}");
            assert!(!has(&grant, other), "slot {other} has a worker, and is given away");
        }
        self.workers[place].grant = grant;
        self.workers[place].devices |= devices;
        self.check_supply(None);
    }

    /// Returns the resources that the worker of a context has besides its CPU slot.
    fn demand_of(&self, worker: &SimWorker) -> ResourceRequest {
        if worker.is_there() {
            self.contexts.known[&worker.context].demand
        } else {
            ResourceRequest::NONE
        }
    }

    /// Asserts that a task gets exactly the resources that it asked for, or those of its worker if it asked for none.
    ///
    /// # Panics
    /// If it gets others.
    pub fn check_grant(&self, slot: SlotId, number: usize, grant: ResourceGrant) {
        let (demand, worker) = (self.ledger[number].demand, &self.workers[usize::from(slot.0)]);
        if demand.is_none() {
            let its = worker.grant.grant;
            assert_eq!(grant, its, "task {number} has what its worker has");
            return;
        }
        let ResourceGrant { devices, places } = grant;
        assert_eq!(places, demand.places(), "task {number} has its CPU slots");
        assert_eq!(devices.count_ones(), demand.devices(), "task {number} has its GPUs");
        assert!(devices & !self.room.supply.gpus == 0, "task {number} has GPUs that there are");
    }

    /// Asserts that a task with several CPU slots gets the ids of all of them, and that its worker's own slot is one of them.
    ///
    /// # Panics
    /// If an id is missing or occurs twice.
    pub fn check_places_given(&self, slot: SlotId, given: &[SlotId], grant: ResourceGrant) {
        let count = usize::from(grant.named_places());
        assert_eq!(given.len(), count, "each CPU slot of a wide task is named");
        assert!(
            given.is_empty() || given.contains(&slot),
            "a task has the CPU slot of its own worker"
        );
        assert!(given.is_sorted_by(|one, next| one < next), "no CPU slot is named twice");
    }

    /// Asserts, when a task begins, that the running tasks use no more resources than there are.
    ///
    /// # Panics
    /// If they use more.
    pub fn check_room(&mut self, slot: usize, frame: &Frame) {
        let devices = frame.record.devices;
        let worker = &mut self.workers[slot];
        let is_bound = worker.devices != 0 && devices != 0;
        assert!(!is_bound || worker.devices == devices, "a process keeps the GPUs it used first");
        worker.devices |= devices;
        self.check_supply(Some(frame));
        self.check_places(slot, frame);
    }

    /// Asserts that the running tasks and the workers of contexts use no more memory and GPUs than there are.
    fn check_supply(&self, first: Option<&Frame>) {
        let running = || self.workers.iter().flat_map(|worker| &worker.stack).chain(first);
        let of_task =
            |frame: &Frame| (self.ledger[frame.record.number].demand, frame.record.devices);
        let of_worker = |worker: &SimWorker| (self.demand_of(worker), worker.grant.grant.devices);
        let all = || running().map(of_task).chain(self.workers.iter().map(of_worker));
        let memory: u64 = all().map(|(demand, _)| demand.memory).sum();
        assert!(memory <= self.room.supply.memory, "{memory} bytes are used");
        for device in 0..GPUS_MAX {
            let users = all().filter(|(_, devices)| devices & (1 << device) != 0);
            let used: u32 = users.map(|(demand, _)| demand.share()).sum();
            assert!(used <= WHOLE_GPU, "{used} thousandths of GPU {device} are used");
        }
    }

    /// Asserts that no more CPU slots are used than there are. A worker fills as many slots as the widest task of its stack;
    /// spare workers continue when no task waits any more.
    fn check_places(&self, slot: usize, frame: &Frame) {
        let places = |worker: &SimWorker, first: Option<&Frame>| {
            let frames = worker.stack.iter().chain(first);
            frames.map(|frame| self.ledger[frame.record.number].demand.places()).max()
        };
        let filled = |(place, worker): (usize, &SimWorker)| {
            let given = worker.is_there().then_some(worker.grant.grant.places);
            places(worker, (place == slot).then_some(frame)).max(given)
        };
        let used: u16 = self.workers.iter().enumerate().filter_map(filled).sum();
        let all = self.workers.len();
        assert!(usize::from(used) <= all, "{used} CPU slots of {all} are used");
    }

    /// Returns whether a task may be refused: no worker can have its context, no worker can start at all, the task is nested,
    /// or the engine is one of several.
    pub fn may_refuse(&self, number: usize) -> bool {
        let entry = &self.ledger[number];
        let is_hopeless = |context| self.contexts.may_be_hopeless(context, self.start_failures_max);
        !self.is_alone || entry.depth > 0 || is_hopeless(PLAIN) || is_hopeless(entry.context)
    }

    /// Asserts that a task goes to a worker with its context. A task without a context may run in the wait of the task that
    /// submitted it, in any context.
    ///
    /// # Panics
    /// If the task was sent to another worker.
    pub fn check_context(
        &self,
        slot: SlotId,
        number: usize,
        named: Option<ContextId>,
        flags: TaskFlags,
    ) {
        let (entry, worker) = (&self.ledger[number], &self.workers[usize::from(slot.0)]);
        let (wants, has) = (entry.context, self.contexts.kind(worker.context));
        let is_other = |named| self.contexts.kind(named) != wants;
        assert!(!named.is_some_and(is_other), "task {number} gets another context");
        let is_there = |task| worker.dead.is_some() || worker.knows(task);
        let is_home = flags.has(TaskFlags::NESTED) && entry.submitter.is_some_and(is_there);
        assert!(
            has == wants || (wants == PLAIN && is_home),
            "task {number} in {wants:?} was sent to a worker with {has:?}"
        );
    }

    /// Starts a process, if its context may have one more and a task needs it.
    ///
    /// # Panics
    /// If no task needs it, or the context has all the workers that it may have.
    pub fn spawn_with(&mut self, slot: SlotId, context: ContextId, grant: WorkerGrant) {
        let start_ends_at = self.now + self.contexts.draw_setup_ns(context);
        let workers = usize::from(self.room.workers);
        if context != PLAIN {
            let known = &self.contexts.known[&context];
            assert!(!known.is_forgotten, "a worker gets a context that was forgotten");
            let has = |one: &&SimWorker| (one.is_up || one.is_starting) && one.context == context;
            let others = self.workers[..workers].iter().filter(has).count();
            let is_one_more = usize::from(slot.0) < workers;
            assert!(
                !is_one_more || others < usize::from(known.workers_max),
                "{others} workers have {context:?} already"
            );
            let is_coming =
                self.workers.iter().any(|one| one.is_starting && one.context == context);
            assert!(known.is_proven || !is_coming, "the first with {context:?} shows how it goes");
            let needs = |number: &usize| self.needs(*number, context);
            assert!(
                !self.is_alone || (0..self.ledger.len()).any(|number| needs(&number)),
                "no task needs {context:?}"
            );
        }
        let worker = self.worker(slot);
        assert!(!worker.is_up && !worker.is_starting, "a slot has one process");
        worker.restart();
        (worker.context, worker.start_ends_at) = (context, start_ends_at);
        self.log(|| format!("spawn {slot} with {context:?}, {grant:?}"));
        self.dress(slot, grant);
    }

    /// Asserts that a worker which is asked to leave has had its context for some time, or has no work for it.
    ///
    /// # Panics
    /// If tasks wait for such a worker and its time is not over.
    pub fn check_retired(&self, slot: SlotId) {
        let worker = &self.workers[usize::from(slot.0)];
        // The tasks of a dead worker wait, and the engine has yet to learn of the death.
        let is_clear = self.workers.iter().all(|one| one.dead.is_none());
        let is_young = is_clear && worker.up_since + self.contexts.tenure_ns > self.now;
        let is_ordinary = slot.0 < self.room.workers;
        let others = (0..self.ledger.len()).filter(|&number| self.waits(number, worker.context));
        assert!(
            !is_young || !is_ordinary || others.count() == 0,
            "a worker with {} leaves, and tasks wait for one",
            worker.context
        );
    }

    /// Returns whether a task could begin if a worker with the context had room.
    fn waits(&self, number: usize, context: ContextId) -> bool {
        let entry = &self.ledger[number];
        let has_all = || {
            let is_done = |&parent: &usize| self.ledger[parent].status == Some(Status::Succeeded);
            entry.parents.iter().all(is_done)
        };
        let Some(id) = entry.id.filter(|_| self.needs(number, context)) else { return false };
        let is_unclaimed = |record: &SimTaskRecord| record.task == id && !record.revoked;
        has_all()
            && !self.workers.iter().any(|one| one.knows(id) || one.ring.iter().any(is_unclaimed))
    }

    pub(crate) fn needs(&self, number: usize, context: ContextId) -> bool {
        let entry = &self.ledger[number];
        entry.status.is_none() && entry.context == self.contexts.kind(context)
    }
}

impl SimWorker {
    /// Returns whether a task runs or may run here, or its answer is in the ring.
    fn knows(&self, task: TaskId) -> bool {
        let is_answered = |message: &SimResultRecord| matches!(message, SimResultRecord::Answer(frame, _) if frame.task == task);
        let frames = self.stack.iter().chain(self.batch.iter().map(|(frame, _)| frame));
        let records = frames.map(|frame| &frame.record);
        records.chain(self.claimed.iter().map(|(record, _)| record)).any(|one| one.task == task)
            || self.results.iter().any(is_answered)
    }
}
