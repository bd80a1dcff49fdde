//! Memory pressure of the machine or control group. The arena does not count the memory that the program's own objects
//! and those of its tasks take, so it reads the system's counters.

use gristmill_machine::{Group, Machine};
use gristmill_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::OnceLock;

/// Bytes that are allocated between two reads of the system's counters. A read costs as much as allocating a tenth of a
/// megabyte.
const LOOK_STEP: u64 = 64 << 20;
/// Upper limit of the memory that is left to others, bytes. The margin is a sixteenth of the usable memory, at most
/// this.
const MARGIN_MAX: u64 = 1 << 30;

#[derive(Debug)]
struct Counters {
    groups: Vec<Group>,
    margin: u64,
}

/// This process's estimate of the memory pressure.
#[derive(Debug, Default)]
pub(super) struct Pressure {
    counters: OnceLock<Counters>,
    /// Bytes allocated since the last read of the counters.
    taken: AtomicU64,
    is_scarce: AtomicBool,
}

impl Pressure {
    /// Admits an allocation of `size` bytes, or returns the available bytes as the error. Reads the system's counters
    /// after each `LOOK_STEP` bytes, and at each call while memory is scarce.
    pub fn admit(&self, size: u64) -> Result<(), u64> {
        // Relaxed without partners: these are estimates of this process alone.
        let taken = self.taken.fetch_add(size, Ordering::Relaxed).saturating_add(size);
        if taken < LOOK_STEP && !self.is_scarce.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.taken.store(0, Ordering::Relaxed);
        let machine = Machine::default();
        let counters = self.counters.get_or_init(|| Counters {
            groups: machine.memory_groups(),
            margin: (machine.memory().usable / 16).min(MARGIN_MAX),
        });
        let available = machine.available_memory(&counters.groups);
        let is_scarce = available < size.saturating_add(counters.margin);
        self.is_scarce.store(is_scarce, Ordering::Relaxed);
        if is_scarce { Err(available) } else { Ok(()) }
    }
}
