//! Large parts of arguments and results in the cluster: what a seed draws of them, and an engine that has them.

use gristmill_client::{
    BlobHome, BlobLimits, BlobLook, BlobParts, BlobPort, BlobSizes, BlobTables, BlobWork, LinkHome,
    Rest, SpreadOptions, Topology, Warden,
};
use gristmill_core::{PeerId, TaskId};

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
            damage_rate: pick(random, &[0, 0, 0, 20]),
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
}

impl SimDepot {
    pub const fn new(warden: Warden<SimGate>, air: Air, lease: usize) -> Self {
        Self { warden, air, lease, is_busy: false, looked_at: 0 }
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

    /// What is kept of large parts although nobody needs them, in words.
    pub fn leftovers(&self) -> Option<String> {
        let links = self.links();
        let mut feeds = links.peers().filter_map(|peer| links.get(peer)).map(|link| &link.feeds);
        let feeds = feeds.any(|feeds| !feeds.is_empty()).then(|| "blobs leave".to_owned());
        self.tables().and_then(BlobTables::leftovers).or(feeds)
    }
}
