//! Large parts of arguments and results in the cluster: what a seed draws of them, and an engine that has them.

use gristmill_client::{
    BlobHome, BlobLimits, BlobLook, BlobParts, BlobPort, BlobSizes, BlobTables, BlobWork, LinkHome,
    Rest, SpreadOptions, Topology, Warden,
};
use gristmill_core::{Attempt, PeerId, TaskId};
use gristmill_wire::FrameError;
use gristmill_wire::peer::MessageKind;

use super::engine::Engine;
use super::handle::Handle;
use super::lanes::Lanes;
use super::network::{Air, look};
use super::wires::SimGate;
use crate::plan::pick;
use crate::random::Random;
use crate::world::Entry;

/// How often a depot looks at everything, if nothing calls it, nanoseconds, as the real one does.
const LOOK_NS: u64 = 1_000_000_000;

/// What a seed draws of large parts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlobPlan {
    pub sizes: BlobSizes,
    pub spread: SpreadOptions,
    /// What a lease keeps in memory, and on disk, bytes.
    pub limits: [u64; 2],
    /// Of a hundred tasks, how many take large arguments, and give large results.
    takes: u64,
    gives: u64,
    /// How many parts several tasks share.
    shared: u64,
    /// Of a hundred tasks that give large results, how many give others with each run.
    varies: u64,
    /// Of a thousand pieces between nodes, how many arrive with wrong bytes.
    pub damage_rate: u64,
    /// Of a thousand pieces of results, how many come home with other bytes than were named: a node's memory is damaged.
    pub lie_rate: u64,
    /// Of a thousand turns of a depot that has anything on its disk, in how many that fails.
    disk_failure_rate: u64,
}

impl BlobPlan {
    /// Draws whether there are any, and which.
    pub fn draw(random: &mut Random) -> Option<Self> {
        if !random.chance(25) {
            return None;
        }
        let topology = pick(random, &[Topology::Peers, Topology::Peers, Topology::Client]);
        let fanout = pick(random, &[1, 1, 2, 3]);
        Some(Self {
            sizes: BlobSizes {
                min: pick(random, &[1, 500]),
                piece: pick(random, &[50, 300, 2_000]),
            },
            spread: SpreadOptions { fanout, topology },
            limits: pick(random, &[[u64::MAX, 0], [0, 0], [0, 20_000], [2_000, 4_000]]),
            takes: pick(random, &[0, 30, 80]),
            gives: pick(random, &[0, 30, 80]),
            shared: pick(random, &[1, 3, 10]),
            varies: pick(random, &[0, 50]),
            damage_rate: pick(random, &[0, 0, 20, 300]),
            lie_rate: pick(random, &[0, 0, 0, 20]),
            disk_failure_rate: pick(random, &[0, 0, 5]),
        })
    }

    /// What a lease may keep.
    pub fn limits(&self) -> BlobLimits {
        let [memory, disk] = self.limits;
        BlobLimits { memory, disk, directory: std::env::temp_dir() }
    }

    /// Draws the large parts of a task, which takes some only if it is the program's.
    pub fn draw_parts(&self, entry: &mut Entry, random: &mut Random) {
        if entry.is_clients() && random.chance(self.takes) {
            let count = 1 + random.below(2);
            entry.arguments = (0..count).map(|_| random.below(self.shared)).collect();
        }
        if random.chance(self.gives) {
            entry.outputs = 1 + random.below(2);
            entry.varies = random.chance(self.varies);
        }
    }
}

/// What does what a depot's thread would.
pub(crate) struct SimDepot {
    warden: Warden<SimGate>,
    air: Air,
    lease: usize,
    is_busy: bool,
    /// When it looked last, true time.
    looked_at: u64,
    disk_failure_rate: u64,
    has_failed: bool,
}

impl SimDepot {
    pub const fn new(warden: Warden<SimGate>, air: Air, lease: usize, plan: &BlobPlan) -> Self {
        let disk_failure_rate = plan.disk_failure_rate;
        let has_failed = false;
        Self { warden, air, lease, is_busy: false, looked_at: 0, disk_failure_rate, has_failed }
    }

    /// Has its disk fail, once, if the seed would have it; says whether it did.
    fn fail_disk(&mut self) -> bool {
        let is_due = !self.has_failed
            && self.disk_failure_rate > 0
            && look(&self.air).random.below(1_000) < self.disk_failure_rate;
        self.has_failed |= is_due && self.warden.fail_disk();
        is_due && self.has_failed
    }

    fn is_due(&self, now: u64) -> bool {
        let is_late = now >= self.looked_at + LOOK_NS;
        self.is_busy
            || is_late
            || self.warden.is_called()
            || look(&self.air).is_depot_due(self.lease)
    }
}

impl Handle {
    /// Lets its depot do something; false when there is nothing to do.
    pub fn keep_store(&self) -> bool {
        let mut depot = self.depot.borrow_mut();
        let now = self.shared.borrow().now;
        let Some(depot) = depot.as_mut().filter(|depot| depot.is_due(now)) else { return false };
        depot.looked_at = now;
        if depot.fail_disk() {
            self.with(|engine| engine.lanes.world.log(|| "the disk fails".to_owned()));
        }
        depot.is_busy = depot.warden.turn(self.clock.local(now)) == Rest::Busy;
        true
    }

    /// When its depot looks at everything, true time.
    pub fn next_look(&self) -> Option<u64> {
        let depot = self.depot.borrow();
        let SimDepot { warden, air, lease, looked_at, .. } = depot.as_ref()?;
        let has_more = look(air).has_wires(*lease) || warden.is_above_limit();
        has_more.then_some(looked_at + LOOK_NS)
    }
}

impl BlobPort for Lanes {
    fn blobs(&mut self) -> BlobParts<'_> {
        self.world.memory.blobs.as_mut().expect("there are some").parts()
    }

    fn blob_look(&self) -> BlobLook<'_> {
        self.world.memory.blobs.as_ref().expect("there are some").look()
    }
}

impl BlobHome for Engine {
    fn is_asked_for(&self, task: TaskId) -> bool {
        self.lanes.asked.contains(&task)
    }

    fn depot_address(&self, peer: PeerId, port: u16) -> Option<String> {
        let line = self.lanes.line_of(peer)?;
        Some(format!("{port} at {}", look(&self.lanes.air).node_of(line)))
    }
}

impl Engine {
    /// Its large parts; none: there are no such.
    pub fn tables(&self) -> Option<&BlobTables> {
        self.lanes.world.memory.blobs.as_ref()
    }

    /// Whether there is something to take in about its large parts.
    pub fn has_large_news(&self) -> bool {
        self.tables().is_some() && self.has_blob_news()
    }

    /// Takes that in.
    pub fn hear_large_news(&mut self) {
        if self.has_large_news() {
            let now = self.lanes.world.now;
            self.take_blob_news(now);
        }
    }

    /// Whether the piece at hand is of a node that sends other bytes than it named.
    pub fn lies(&mut self) -> bool {
        let Some(plan) = self.lanes.plan.filter(|plan| plan.lie_rate > 0) else { return false };
        let lies = look(&self.lanes.air).random.below(1_000) < plan.lie_rate;
        self.lanes.lies += u64::from(lies);
        lies
    }

    /// A node has a blob no more: results that stayed there, or come from there, may be lost with it, which costs their tasks
    /// what the loss of the node would.
    pub fn hear_of_loss(
        &mut self,
        peer: PeerId,
        kind: MessageKind,
        body: &[u8],
    ) -> Result<(), FrameError> {
        let tasks = self.lanes.world.ledger.iter().filter_map(|entry| entry.id);
        let there: Vec<_> = tasks
            .filter_map(|id| Some((id, self.core.task(id)?)))
            .filter(|(_, view)| view.peer == Some(peer))
            .map(|(id, view)| (id, view.attempt))
            .collect();
        self.charge(&there, 1);
        let taken = self.take_blob_of(peer, kind, body);
        let is_kept = |&(task, attempt): &(TaskId, Attempt)| self.core.awaits(peer, task, attempt);
        let kept: Vec<_> = there.iter().copied().filter(is_kept).collect();
        self.charge(&kept, u64::MAX);
        let is_faultless = |plan: BlobPlan| plan.disk_failure_rate + plan.lie_rate == 0;
        assert!(
            kept.len() == there.len() || !self.lanes.plan.is_some_and(is_faultless),
            "a node has lost a result that it was to keep: of {there:?} {kept:?} are left"
        );
        taken
    }

    fn charge(&mut self, tasks: &[(TaskId, Attempt)], count: u64) {
        let ledger = &mut self.lanes.world.ledger;
        let is_its = |entry: &&mut Entry| {
            entry.id.is_some_and(|id| tasks.iter().any(|&(task, _)| task == id))
        };
        for entry in ledger.iter_mut().filter(is_its) {
            entry.unknowns = entry.unknowns.wrapping_add(count);
        }
    }

    /// What is kept of large parts although nobody needs them, in words.
    pub fn leftovers(&self) -> Option<String> {
        let links = self.links();
        let mut feeds = links.peers().filter_map(|peer| links.get(peer)).map(|link| &link.feeds);
        let feeds = feeds.any(|feeds| !feeds.is_empty()).then(|| "blobs leave".to_owned());
        self.tables().and_then(BlobTables::leftovers).or(feeds)
    }
}
