//! What tasks need besides a worker: what they are drawn to ask for, and that nobody has what somebody else has.

use gristmill_core::{Config, Outfit, SlotId, Supply};
use gristmill_wire::{Demand, Equipment, GPUS_MAX, WHOLE_GPU};

use crate::plan::pick;
use crate::random::Random;
use crate::worker::{Frame, Worker};
use crate::world::World;

/// What tasks may ask of one engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Its workers, without spare ones.
    pub workers: u16,
    /// What else there is.
    pub supply: Supply,
}

impl Room {
    /// The room of an engine.
    #[must_use]
    pub const fn of(config: &Config) -> Self {
        Self { workers: config.workers, supply: config.supply }
    }

    /// Draws what there is besides workers.
    pub fn draw_supply(random: &mut Random) -> Supply {
        let memory = pick(random, &[u64::MAX, 60, 100, 200]);
        Supply { memory, gpus: pick(random, &[0, 0b1, 0b11, 0b101]) }
    }

    /// Which memories places are near to: those of an even number in turns to two, of others nobody knows.
    #[must_use]
    pub fn domains(workers: u16) -> Vec<u64> {
        if workers.is_multiple_of(2) { vec![0b01, 0b10] } else { Vec::new() }
    }

    /// Draws what a task asks for that fits in here.
    pub fn draw_demand(&self, random: &mut Random) -> Demand {
        let Supply { memory, gpus } = self.supply;
        let all = gpus.count_ones() * WHOLE_GPU;
        let cores = 1 + u16::try_from(random.below(self.workers.min(3).into())).expect("small");
        let share = pick(random, &[0, 0, 250, 500, WHOLE_GPU, 2 * WHOLE_GPU]).min(all);
        let memory = if random.chance(50) { 0 } else { random.below(memory.min(100)) + 1 };
        Demand { cores: if random.chance(50) { 0 } else { cores }, gpus: share, memory }
    }
}

impl World {
    /// Gives a worker that is asked for what it has besides its place, with its context.
    ///
    /// # Panics
    /// It is not what the context asks for, or is not free.
    pub fn dress(&mut self, slot: SlotId, outfit: Outfit) {
        let place = usize::from(slot.0);
        let demand = self.contexts.known[&self.workers[place].context].demand;
        let Equipment { devices, places } = outfit.equipment;
        let is_ordinary = slot.0 < self.room.workers;
        let count = if is_ordinary { demand.places() } else { 1 };
        let is_spoken_of = demand.gpus > 0 || count > 1;
        assert_eq!(places, if is_spoken_of { count } else { 0 }, "it has the places asked for");
        assert_eq!(devices.count_ones(), demand.devices(), "it has the GPUs asked for");
        assert!(devices & !self.room.supply.gpus == 0, "there are such GPUs");
        self.check_places_given(slot, &outfit.places, outfit.equipment);
        let others = || self.workers.iter().enumerate().filter(|(other, _)| *other != place);
        for (other, worker) in others().filter(|(_, worker)| worker.is_there()) {
            let has = |of: &Outfit, place: usize| {
                of.places.iter().any(|slot| usize::from(slot.0) == place)
            };
            assert!(!has(&worker.outfit, place), "the place of slot {place} is that of {other}");
            assert!(!has(&outfit, other), "slot {other} has a worker, and is given away");
        }
        self.workers[place].outfit = outfit;
        self.workers[place].devices |= devices;
        self.check_supply(None);
    }

    /// What the worker of a context has besides its place.
    fn demand_of(&self, worker: &Worker) -> Demand {
        if worker.is_there() { self.contexts.known[&worker.context].demand } else { Demand::NONE }
    }

    /// Asserts that a task is told of all that it asked for, or that its worker has, and of nothing else.
    ///
    /// # Panics
    /// It is not.
    pub fn check_equipment(&self, slot: SlotId, number: usize, equipment: Equipment) {
        let (demand, worker) = (self.ledger[number].demand, &self.workers[usize::from(slot.0)]);
        if demand.is_none() {
            let its = worker.outfit.equipment;
            assert_eq!(equipment, its, "task {number} has what its worker has");
            return;
        }
        let Equipment { devices, places } = equipment;
        assert_eq!(places, demand.places(), "task {number} has its places");
        assert_eq!(devices.count_ones(), demand.devices(), "task {number} has its GPUs");
        assert!(devices & !self.room.supply.gpus == 0, "task {number} has GPUs that there are");
    }

    /// Asserts that a wide task is told of as many places as it has, and that its worker's is one of them.
    ///
    /// # Panics
    /// It is not.
    pub fn check_places_given(&self, slot: SlotId, given: &[SlotId], equipment: Equipment) {
        let count = usize::from(equipment.named_places());
        assert_eq!(given.len(), count, "each place of a wide task is named");
        assert!(given.is_empty() || given.contains(&slot), "a task has its own worker's place");
        assert!(given.is_sorted_by(|one, next| one < next), "no place is named twice");
    }

    /// Asserts, as a task begins, that those that run have no more than there is.
    ///
    /// # Panics
    /// They have.
    pub fn check_room(&mut self, slot: usize, frame: &Frame) {
        let devices = frame.record.devices;
        let worker = &mut self.workers[slot];
        let is_bound = worker.devices != 0 && devices != 0;
        assert!(!is_bound || worker.devices == devices, "a process keeps the GPUs it used first");
        worker.devices |= devices;
        self.check_supply(Some(frame));
        self.check_places(slot, frame);
    }

    /// Asserts that those that run, and workers of contexts, have no more than there is.
    fn check_supply(&self, first: Option<&Frame>) {
        let running = || self.workers.iter().flat_map(|worker| &worker.stack).chain(first);
        let of_task =
            |frame: &Frame| (self.ledger[frame.record.number].demand, frame.record.devices);
        let of_worker = |worker: &Worker| (self.demand_of(worker), worker.outfit.equipment.devices);
        let all = || running().map(of_task).chain(self.workers.iter().map(of_worker));
        let memory: u64 = all().map(|(demand, _)| demand.memory).sum();
        assert!(memory <= self.room.supply.memory, "{memory} bytes are used");
        for device in 0..GPUS_MAX {
            let users = all().filter(|(_, devices)| devices & (1 << device) != 0);
            let used: u32 = users.map(|(demand, _)| demand.share()).sum();
            assert!(used <= WHOLE_GPU, "{used} thousandths of GPU {device} are used");
        }
    }

    /// A worker fills as many places as the widest task of its stack. Spare ones run on when nobody waits any more.
    fn check_places(&self, slot: usize, frame: &Frame) {
        let places = |worker: &Worker, first: Option<&Frame>| {
            let frames = worker.stack.iter().chain(first);
            frames.map(|frame| self.ledger[frame.record.number].demand.places()).max()
        };
        let filled = |(place, worker): (usize, &Worker)| {
            let given = worker.is_there().then_some(worker.outfit.equipment.places);
            places(worker, (place == slot).then_some(frame)).max(given)
        };
        let used: u16 = self.workers.iter().enumerate().filter_map(filled).sum();
        let all = self.workers.len();
        assert!(usize::from(used) <= all, "{used} places of {all} are used");
    }
}
