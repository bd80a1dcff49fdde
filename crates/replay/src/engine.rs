//! One engine: its machine, its world, and a thread that handles one message after the other.

use std::collections::VecDeque;
use std::sync::Arc;

use gristmill_core::{Config, Core, Epoch, Payload};
use gristmill_wire::{AnswerFrame, PayloadKind, SlotId, Span, Temperature, Verdict};

use crate::costs::{Cluster, Costs};
use crate::errands::Message;
use crate::graph::Graph;
use crate::workers::Record;
use crate::world::World;

/// An engine.
#[derive(Debug)]
pub(crate) struct Engine {
    pub core: Core,
    pub world: World,
    /// What came while it was busy.
    pub inbox: VecDeque<Message>,
    /// When it is done with what it handles.
    pub busy_until: u64,
    /// It will be told when that is.
    pub is_awaited: bool,
    /// When it is to look at the clock.
    pub poll_at: Option<u64>,
}

impl Engine {
    /// An engine whose workers are up.
    pub fn new(config: Config, graph: Arc<Graph>, costs: Costs, seed: u64) -> Self {
        let mut world = World::new(graph, costs, config.workers, seed);
        let mut core = Core::new(config);
        core.start(0, &mut world);
        for slot in std::mem::take(&mut world.spawned) {
            core.slot_ready(slot, Epoch(1), 0, &mut world);
        }
        Self {
            core,
            world,
            inbox: VecDeque::new(),
            busy_until: 0,
            is_awaited: false,
            poll_at: None,
        }
    }

    /// Whether it cannot handle anything now.
    pub fn is_busy(&self, now: u64) -> bool {
        self.busy_until > now || !self.inbox.is_empty()
    }

    /// Begins to handle a message that somebody else has sent: whoever sleeps is woken first.
    pub fn begin(&mut self, now: u64, message: &Message) {
        let costs = &self.world.costs;
        let is_own = matches!(message, Message::Submit(_) | Message::Poll);
        let sleeps = !is_own && self.busy_until.saturating_add(costs.spin_ns) < now;
        let wake_ns = costs.wake_ns;
        self.world.now = now;
        if sleeps {
            self.world.now += self.world.latencies.draw(wake_ns);
        }
    }

    /// Takes the answer of a worker.
    pub fn take_answer(&mut self, slot: u16, record: &Record, ran_ns: u64) {
        self.world.now += self.world.costs.answer_ns;
        let frame = AnswerFrame {
            task: record.task,
            #[expect(clippy::cast_possible_truncation, reason = "the low half travels")]
            sequence: record.sequence as u32,
            attempt: record.attempt,
            verdict: Verdict::Returned,
            payload: PayloadKind::Inline,
            temperature: Temperature::Hot,
            started_ticks: self.world.now.saturating_sub(ran_ns),
            claimed_before: Span::from_ticks(0),
            ran: Span::from_ticks(ran_ns),
            published_after: Span::from_ticks(0),
            payload_size: 0,
        };
        let payload: Payload = self.world.result(record.number);
        let Self { core, world, .. } = self;
        let _outcome = core.answered(SlotId(slot), &frame, payload, world.now, world);
    }

    /// Looks at what time asks for.
    pub fn poll(&mut self) {
        let Self { core, world, .. } = self;
        core.poll(world.now, world);
    }

    /// What it does before it waits for the next message.
    pub fn settle(&mut self) {
        let Self { core, world, .. } = self;
        if self.inbox.is_empty() {
            core.spread(world.now, world);
        }
        core.freed_blocks().clear();
        self.busy_until = world.now;
    }
}

/// How the client's engine is configured, then those of all nodes: as an executor and its leases are.
pub(crate) fn configs(cluster: &Cluster) -> Vec<Config> {
    let base = Config { spare_max: 0, outstanding_max: u64::MAX, ..Config::default() };
    if cluster.nodes == 0 {
        return vec![Config { workers: cluster.workers, cores: cluster.cores, ..base }];
    }
    let node = Config { workers: cluster.workers, shares_nested_only: true, ..base.clone() };
    let mut configs = vec![Config { workers: 0, ..base }];
    configs.extend((0..cluster.nodes).map(|_| node.clone()));
    configs
}
