//! Plan of a seed's cluster and of its faults.

use gristmill_agent::Capacity;
use gristmill_client::LinkSizes;
use gristmill_core::{Config, Supply};
use gristmill_transport::SessionOptions;
use gristmill_wire::peer::LeaseRequest;

use super::blob_plan::BlobPlan;
use super::network::Weather;
use crate::capacity::EngineCapacity;
use crate::contexts::SimContext;
use crate::plan::Plan;
use crate::random::{SeededRandom, pick};

/// Bytes that a link must carry between two heartbeats. If heartbeats do not get through in time, links expire, and no other
/// message gets through either.
const BEAT_ROOM: u64 = 800;
/// Number of one-way delays that the shortest lease lasts. A lease that returns a task unstarted uses up none of the task's
/// attempts, so shorter leases could return a task forever. Each lease must last long enough to complete some tasks.
const TRIPS: u64 = 8;
/// Bytes that a link must carry while a lease lasts: the large parts that a task needs must arrive, besides those that are sent
/// in vain.
const BLOB_ROOM: u64 = 100_000;

/// Plan of one seed's cluster.
#[derive(Debug, Clone)]
pub(crate) struct ClusterPlan {
    /// Plan of the program; its configuration is the client's.
    pub base: Plan,
    /// Plan of the nodes' workers and configuration of their engines.
    pub lease: Plan,
    /// Capacity of each node.
    pub nodes: Vec<Capacity>,
    /// True for each node that joins the client; false for one that the client dials.
    pub joins: Vec<bool>,
    pub weather: Weather,
    pub sizes: LinkSizes,
    /// Request for a lease that each node gets.
    pub request: LeaseRequest,
    /// Time for running tasks to end before the end of a lease, nanoseconds.
    pub drain_ns: u64,
    /// Percentage of those steps of the program in which it may ask for later ends of leases (one step in eight) that do so.
    pub extends: u64,
    /// Number of faults.
    pub faults: u64,
    /// Number of choices in a thousand that are faults.
    pub fault_rate: u64,
    /// True if the client may die.
    pub client_dies: bool,
    /// Plan of the large parts of payloads, or `None` if there are none.
    pub blobs: Option<BlobPlan>,
    /// Contexts that tasks may name.
    pub kinds: Vec<SimContext>,
    /// True if the cluster has no faults and its tasks have priorities: then no task may start before one of higher priority
    /// that could have started, whichever nodes they are on.
    pub has_strict_priorities: bool,
}

impl ClusterPlan {
    /// Draws a plan.
    pub fn draw(random: &mut SeededRandom) -> Self {
        let base = Plan::draw(random);
        let count = 1 + random.index(4);
        let small =
            |random: &mut SeededRandom, limit| u32::try_from(random.below(limit)).expect("small");
        let workers = if random.chance(80) { 0 } else { 1 + random.below(2) };
        let workers = u16::try_from(workers).expect("small");
        let spare_max = if workers == 0 { 0 } else { base.config.spare_max };
        let config = Config { workers, spare_max, ..base.config.clone() };
        let nodes: Vec<Capacity> = (0..count).map(|_| draw_node(random)).collect();
        let rooms_of_nodes = || nodes.iter().map(room_of).collect();
        let rooms = if workers == 0 { rooms_of_nodes() } else { vec![EngineCapacity::of(&config)] };
        let base = Plan { rooms, ..base };
        let lease = Plan {
            config: Config {
                depth_max: 2 + small(random, 12),
                cores: pick(random, &[1, 2, u32::MAX]),
                shares_nested_only: true,
                outstanding_max: u64::MAX,
                ..base.config.clone()
            },
            // A node where no worker starts gets no more tasks: a task that only this node could run would wait forever.
            start_failures: if base.demands > 0 { 0 } else { base.start_failures },
            ..base.clone()
        };
        let weather = draw_weather(random);
        let sizes = Self::draw_sizes(random);
        let way_ns = weather.delay_ns + weather.jitter_ns;
        let beat_ns = (pick(random, &[1, 5, 20]) * way_ns.max(1_000_000))
            .max(2 * way_ns * BEAT_ROOM / bytes_per_trip(&weather, &sizes).min(BEAT_ROOM));
        let expiry_ns = pick(random, &[4, 10]) * beat_ns;
        let has_end = random.chance(25);
        Self {
            base: Plan { config, start_failures: 0, batches: 0, ..base },
            lease,
            nodes,
            joins: (0..count).map(|_| random.chance(50)).collect(),
            weather,
            sizes,
            request: LeaseRequest {
                lease: 0,
                // 0 means all workers. With less, a task could wait forever for what the lease of a dead client holds.
                workers: if random.chance(70) || base.demands > 0 { 0 } else { 1 },
                tasks_per_worker: 0,
                expiry_ns,
                beat_ns,
                duration_ns: if has_end {
                    TRIPS * way_ns + random.below(100_000_000)
                } else {
                    u64::MAX
                },
                memory: 0,
                gpus: u32::MAX,
                blob_limits: [u64::MAX; 2],
                context_memory: u64::MAX,
                spawns_fresh: false,
                is_exact: false,
                program: Vec::new(),
                worker_environment: Vec::new(),
            },
            drain_ns: pick(random, &[0, 1_000_000, u64::MAX, u64::MAX]),
            extends: if has_end { pick(random, &[0, 10, 100]) } else { 0 },
            faults: pick(random, &[0, 1, 3, 8, 20]),
            fault_rate: pick(random, &[1, 5, 20]),
            client_dies: random.chance(8),
            blobs: None,
            kinds: Vec::new(),
            has_strict_priorities: false,
        }
    }

    /// Adds large parts, and tasks that may be made again, to the plan, if the seed says so.
    pub fn with_blobs(mut self, random: &mut SeededRandom) -> Self {
        self.blobs = BlobPlan::draw(random);
        if let Some(blobs) = self.blobs {
            self.sizes.piece = blobs.sizes.piece;
            // A blob whose transfer takes longer than any lease lasts would never arrive.
            let trips = BLOB_ROOM / bytes_per_trip(&self.weather, &self.sizes);
            let way_ns = self.weather.delay_ns + self.weather.jitter_ns;
            self.request.duration_ns = self.request.duration_ns.saturating_add(2 * way_ns * trips);
            if random.chance(70) {
                self.base.config.budgets.loss_retries = 2;
            }
        }
        self
    }

    fn draw_sizes(random: &mut SeededRandom) -> LinkSizes {
        if random.chance(30) {
            return LinkSizes::default();
        }
        let kinds =
            [(40, 200, 1), (200, 2_000, 400), (40, 1 << 20, 100), (1 << 20, 1 << 26, 1 << 20)];
        let (chunk, unacknowledged_bytes_max, acknowledge_bytes) = pick(random, &kinds);
        LinkSizes {
            chunk,
            congested: pick(random, &[200, 2_000, 1 << 20]),
            session: SessionOptions {
                unacknowledged_bytes_max,
                unacknowledged_chunks_max: pick(random, &[4, 16, 1 << 10]),
                acknowledge_bytes,
                acknowledge_chunks: pick(random, &[1, 2]),
            },
            ..LinkSizes::default()
        }
    }

    /// Returns the longest time that a fault lasts.
    pub const fn span_ns(&self) -> u64 {
        3 * self.request.expiry_ns
    }
}

/// Returns the bytes that a link sends before the peer must confirm them or they must have arrived.
fn bytes_per_trip(weather: &Weather, sizes: &LinkSizes) -> u64 {
    let kept = sizes.chunk.saturating_mul(sizes.session.unacknowledged_chunks_max);
    let bytes = kept.min(sizes.session.unacknowledged_bytes_max).min(weather.window_size);
    bytes.max(1) as u64
}

fn draw_weather(random: &mut SeededRandom) -> Weather {
    Weather {
        delay_ns: pick(random, &[10_000, 100_000, 1_000_000]),
        jitter_ns: pick(random, &[0, 50_000, 2_000_000]),
        window_size: pick(random, &[300, 2_000, 1 << 20, 1 << 20]),
    }
}

fn draw_node(random: &mut SeededRandom) -> Capacity {
    let Supply { memory, gpus } = EngineCapacity::draw_supply(random);
    let workers = 1 + u32::try_from(random.below(4)).expect("small");
    Capacity { workers, memory: memory.min(1_000), gpus: gpus.count_ones() }
}

/// Returns the capacity of the engine of a lease that is alone on its node.
fn room_of(node: &Capacity) -> EngineCapacity {
    let workers = u16::try_from(node.workers).expect("few workers");
    // All workers have equal shares of the memory.
    let memory = node.memory / u64::from(node.workers) * u64::from(node.workers);
    EngineCapacity { workers, supply: Supply { memory, gpus: (1 << node.gpus) - 1 } }
}
