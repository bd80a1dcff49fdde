//! The blob server of a lease.

use gristmill_client::{BlobServer, LoopStatus};

use super::blob_plan::BlobPlan;
use super::network::{Air, look};
use super::wires::SimBlobTransport;

/// Time after which an idle blob server polls everything, nanoseconds; the same as in the real one.
const LOOK_NS: u64 = 1_000_000_000;

/// Simulated thread of a blob server.
pub(crate) struct SimBlobServer {
    server: BlobServer<SimBlobTransport>,
    air: Air,
    lease: usize,
    is_busy: bool,
    /// True time of the last poll.
    looked_at: u64,
    disk_failure_rate: u64,
    has_failed: bool,
}

impl SimBlobServer {
    pub const fn new(
        server: BlobServer<SimBlobTransport>,
        air: Air,
        lease: usize,
        plan: &BlobPlan,
    ) -> Self {
        let disk_failure_rate = plan.disk_failure_rate;
        let has_failed = false;
        Self { server, air, lease, is_busy: false, looked_at: 0, disk_failure_rate, has_failed }
    }

    /// Makes the disk fail, at most once, if the seed says so; returns whether it has failed.
    pub fn fail_disk(&mut self) -> bool {
        let is_due = !self.has_failed
            && self.disk_failure_rate > 0
            && look(&self.air).random.below(1_000) < self.disk_failure_rate;
        self.has_failed |= is_due && self.server.fail_disk();
        is_due && self.has_failed
    }

    pub fn is_due(&self, now: u64) -> bool {
        let is_late = now >= self.looked_at + LOOK_NS;
        self.is_busy
            || is_late
            || self.server.is_called()
            || look(&self.air).is_depot_due(self.lease)
    }

    /// Does one turn.
    pub fn turn(&mut self, now: u64, local: u64) {
        self.looked_at = now;
        self.is_busy = self.server.turn(local) == LoopStatus::Busy;
    }

    /// Returns the true time of the next poll of everything, if there is anything to poll.
    pub fn next_look(&self) -> Option<u64> {
        let has_more = look(&self.air).has_wires(self.lease) || self.server.is_above_limit();
        has_more.then_some(self.looked_at + LOOK_NS)
    }
}
