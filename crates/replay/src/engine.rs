//! One engine: its scheduler, the model of its host, and the message queue of its one thread.

use std::collections::VecDeque;
use std::sync::Arc;

use gristmill_core::{Config, Core, Epoch, Payload};
use gristmill_wire::{AnswerFrame, PayloadKind, SlotId, Span, Verdict, WorkerState};

use crate::costs::{ClusterSpec, Costs};
use crate::engine_model::EngineModel;
use crate::graph::Graph;
use crate::messages::Message;
use crate::workers::Record;

/// An engine.
#[derive(Debug)]
pub(crate) struct Engine {
    /// Scheduler of the engine.
    pub core: Core,
    /// Model of the engine's host: everything outside the scheduler, which calls it as its port.
    pub model: EngineModel,
    /// Messages that arrived while the engine was busy.
    pub inbox: VecDeque<Message>,
    /// End of the current message's handling.
    pub busy_until: u64,
    /// True if an event is scheduled for `busy_until`.
    pub is_awaited: bool,
    /// Time of the next poll.
    pub poll_at: Option<u64>,
}

impl Engine {
    /// Creates an engine whose workers have started.
    pub fn new(config: Config, graph: Arc<Graph>, costs: Costs, seed: u64) -> Self {
        let mut model = EngineModel::new(graph, costs, config.workers, seed);
        let mut core = Core::new(config);
        core.start(0, &mut model);
        for slot in std::mem::take(&mut model.spawned) {
            core.slot_ready(slot, Epoch(1), 0, &mut model);
        }
        Self {
            core,
            model,
            inbox: VecDeque::new(),
            busy_until: 0,
            is_awaited: false,
            poll_at: None,
        }
    }

    /// Returns true if the engine cannot handle a message now.
    pub fn is_busy(&self, now: u64) -> bool {
        self.busy_until > now || !self.inbox.is_empty()
    }

    /// Begins to handle a message. If the engine sleeps and another thread has sent the message, the engine wakes first.
    pub fn begin(&mut self, now: u64, message: &Message) {
        let costs = &self.model.costs;
        let is_own = matches!(message, Message::Submit(_) | Message::Poll);
        let sleeps = !is_own && self.busy_until.saturating_add(costs.spin_ns) < now;
        let wake_ns = costs.wake_ns;
        self.model.now = now;
        if sleeps {
            self.model.now += self.model.latencies.draw(wake_ns);
        }
    }

    /// Handles the answer of a worker.
    pub fn take_answer(&mut self, slot: u16, record: &Record, ran_ns: u64) {
        self.model.now += self.model.costs.answer_ns;
        let frame = AnswerFrame {
            task: record.task,
            #[expect(clippy::cast_possible_truncation, reason = "the low half travels")]
            sequence: record.sequence as u32,
            attempt: record.attempt,
            verdict: Verdict::Returned,
            payload: PayloadKind::Inline,
            worker_state: WorkerState::Hot,
            started_ticks: self.model.now.saturating_sub(ran_ns),
            claimed_before: Span::from_ticks(0),
            ran: Span::from_ticks(ran_ns),
            published_after: Span::from_ticks(0),
            payload_size: 0,
        };
        let payload: Payload = self.model.result(record.number);
        let Self { core, model, .. } = self;
        let _outcome = core.answered(SlotId(slot), &frame, payload, model.now, model);
    }

    /// Performs the work that is due at this time.
    pub fn poll(&mut self) {
        let Self { core, model, .. } = self;
        core.poll(model.now, model);
    }

    /// Finishes the handling of a message, before the engine waits for the next one.
    pub fn settle(&mut self) {
        let Self { core, model, .. } = self;
        if self.inbox.is_empty() {
            core.spread(model.now, model);
        }
        core.freed_blocks().clear();
        self.busy_until = model.now;
    }
}

/// Returns the configurations of the client's engine and then of all nodes. They are like those that an executor gives to its
/// own engine and to the engines of its leases on nodes.
pub(crate) fn configs(cluster: &ClusterSpec) -> Vec<Config> {
    let base = Config { spare_max: 0, outstanding_max: u64::MAX, ..Config::default() };
    if cluster.nodes == 0 {
        return vec![Config { workers: cluster.workers, cores: cluster.cores, ..base }];
    }
    let node = Config { workers: cluster.workers, shares_nested_only: true, ..base.clone() };
    let mut configs = vec![Config { workers: 0, ..base }];
    configs.extend((0..cluster.nodes).map(|_| node.clone()));
    configs
}
