//! What a seed's cluster is like, and what befalls it.

use gristmill_agent::Capacity;
use gristmill_client::LinkSizes;
use gristmill_core::{Config, Supply};
use gristmill_transport::SessionOptions;
use gristmill_wire::peer::Ask;

use super::blobs::BlobPlan;
use super::network::Weather;
use crate::contexts::Known;
use crate::equipment::Room;
use crate::plan::{Plan, pick};
use crate::random::Random;

/// Beats have to find their way, or nothing else does: bytes that a link takes from one to the next.
const BEAT_ROOM: u64 = 800;
/// What a lease gives in vain costs a task nothing: no lease is shorter than a few ways to it and back.
const TRIPS: u64 = 8;
/// The large parts that a task needs have to come while a lease lasts: bytes that a link takes meanwhile, with those that
/// come in vain.
const BLOB_ROOM: u64 = 100_000;

/// One seed's cluster.
#[derive(Debug, Clone)]
pub(crate) struct ClusterPlan {
    /// The program; the configuration is the client's.
    pub base: Plan,
    /// What nodes' workers do, and what their engines may.
    pub lease: Plan,
    /// What each node has.
    pub nodes: Vec<Capacity>,
    /// Whether each node joins the client, or is dialled.
    pub joins: Vec<bool>,
    pub weather: Weather,
    pub sizes: LinkSizes,
    /// What each node is asked for.
    pub ask: Ask,
    /// How long what runs may take to end before the end of a lease.
    pub drain_ns: u64,
    /// Of the program's choices, how many of a hundred ask for later ends of leases.
    pub extends: u64,
    /// How many things befall the cluster.
    pub faults: u64,
    /// Of the choices, how many of a thousand are one of them.
    pub fault_rate: u64,
    /// The client may die.
    pub client_dies: bool,
    /// Large parts of payloads; none: there are no such.
    pub blobs: Option<BlobPlan>,
    /// The contexts that tasks may name.
    pub kinds: Vec<Known>,
}

impl ClusterPlan {
    /// Draws a plan.
    pub fn draw(random: &mut Random) -> Self {
        let base = Plan::draw(random);
        let count = 1 + random.index(4);
        let small = |random: &mut Random, limit| u32::try_from(random.below(limit)).expect("small");
        let workers = if random.chance(80) { 0 } else { 1 + random.below(2) };
        let workers = u16::try_from(workers).expect("small");
        let spare_max = if workers == 0 { 0 } else { base.config.spare_max };
        let config = Config { workers, spare_max, ..base.config.clone() };
        let nodes: Vec<Capacity> = (0..count).map(|_| draw_node(random)).collect();
        let rooms_of_nodes = || nodes.iter().map(room_of).collect();
        let rooms = if workers == 0 { rooms_of_nodes() } else { vec![Room::of(&config)] };
        let base = Plan { rooms, ..base };
        let lease = Plan {
            config: Config {
                depth_max: 2 + small(random, 12),
                cores: pick(random, &[1, 2, u32::MAX]),
                shares_nested_only: true,
                outstanding_max: u64::MAX,
                ..base.config.clone()
            },
            // A node where no worker starts gets nothing more, and what nobody else has would be waited for in vain.
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
            ask: Ask {
                lease: 0,
                // What a task needs must not be shut up in the lease of a client that is gone, for good.
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
                world: Vec::new(),
            },
            drain_ns: pick(random, &[0, 1_000_000, u64::MAX, u64::MAX]),
            extends: if has_end { pick(random, &[0, 10, 100]) } else { 0 },
            faults: pick(random, &[0, 1, 3, 8, 20]),
            fault_rate: pick(random, &[1, 5, 20]),
            client_dies: random.chance(8),
            blobs: None,
            kinds: Vec::new(),
        }
    }

    /// The same with large parts, and with tasks that may be made again, if the choices would have it.
    pub fn with_blobs(mut self, random: &mut Random) -> Self {
        self.blobs = BlobPlan::draw(random);
        if let Some(blobs) = self.blobs {
            self.sizes.piece = blobs.sizes.piece;
            // What takes longer to come than any lease lasts never does.
            let trips = BLOB_ROOM / bytes_per_trip(&self.weather, &self.sizes);
            let way_ns = self.weather.delay_ns + self.weather.jitter_ns;
            self.ask.duration_ns = self.ask.duration_ns.saturating_add(2 * way_ns * trips);
            if random.chance(70) {
                self.base.config.budgets.loss_retries = 2;
            }
        }
        self
    }

    fn draw_sizes(random: &mut Random) -> LinkSizes {
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

    /// The longest time that something lasts.
    pub const fn span_ns(&self) -> u64 {
        3 * self.ask.expiry_ns
    }
}

/// Bytes that leave before something has to be confirmed, or has arrived.
fn bytes_per_trip(weather: &Weather, sizes: &LinkSizes) -> u64 {
    let kept = sizes.chunk.saturating_mul(sizes.session.unacknowledged_chunks_max);
    let bytes = kept.min(sizes.session.unacknowledged_bytes_max).min(weather.window_size);
    bytes.max(1) as u64
}

fn draw_weather(random: &mut Random) -> Weather {
    Weather {
        delay_ns: pick(random, &[10_000, 100_000, 1_000_000]),
        jitter_ns: pick(random, &[0, 50_000, 2_000_000]),
        window_size: pick(random, &[300, 2_000, 1 << 20, 1 << 20]),
    }
}

fn draw_node(random: &mut Random) -> Capacity {
    let Supply { memory, gpus } = Room::draw_supply(random);
    let workers = 1 + u32::try_from(random.below(4)).expect("small");
    Capacity { workers, memory: memory.min(1_000), gpus: gpus.count_ones() }
}

/// What a lease has of a node that has no other.
fn room_of(node: &Capacity) -> Room {
    let workers = u16::try_from(node.workers).expect("few workers");
    // Each worker has its part.
    let memory = node.memory / u64::from(node.workers) * u64::from(node.workers);
    Room { workers, supply: Supply { memory, gpus: (1 << node.gpus) - 1 } }
}
