//! What tasks need besides a worker: what they are drawn to ask for, and that nobody has what somebody else has.

use gristmill_core::{Config, SlotId, Supply};
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
    /// Asserts that a task is told of all that it asked for, and of nothing else.
    ///
    /// # Panics
    /// It is not.
    pub fn check_equipment(&self, number: usize, equipment: Equipment) {
        let demand = self.ledger[number].demand;
        if demand.is_none() {
            assert_eq!(equipment, Equipment::NONE, "task {number} asked for nothing");
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
        let running = || self.workers.iter().flat_map(|worker| &worker.stack).chain([frame]);
        let demand = |frame: &Frame| self.ledger[frame.record.number].demand;
        let memory: u64 = running().map(|frame| demand(frame).memory).sum();
        assert!(memory <= self.room.supply.memory, "{memory} bytes are used");
        for device in 0..GPUS_MAX {
            let users = running().filter(|frame| frame.record.devices & (1 << device) != 0);
            let used: u32 = users.map(|frame| demand(frame).share()).sum();
            assert!(used <= WHOLE_GPU, "{used} thousandths of GPU {device} are used");
        }
        self.check_places(slot, frame);
    }

    /// A worker fills as many places as the widest task of its stack. Spare ones run on when nobody waits any more.
    fn check_places(&self, slot: usize, frame: &Frame) {
        let places = |worker: &Worker, first: Option<&Frame>| {
            let frames = worker.stack.iter().chain(first);
            frames.map(|frame| self.ledger[frame.record.number].demand.places()).max()
        };
        let filled = |(place, worker)| places(worker, (place == slot).then_some(frame));
        let used: u16 = self.workers.iter().enumerate().filter_map(filled).sum();
        let all = self.workers.len();
        assert!(usize::from(used) <= all, "{used} places of {all} are used");
    }
}
