//! The client: handles the program's submissions and the ends of tasks.

use gristmill_core::{
    AttemptTimings, Epoch, FunctionId, Origin, PeerAnswer, PeerEnd, PeerId, PeerOffer, Status,
    Submission, SubmitError, TaskId,
};
use gristmill_wire::Span;

use crate::costs::ClusterSpec;
use crate::engine::Engine;
use crate::engine_model::EngineModel;
use crate::messages::{HomeEnd, TaskPlacement};

/// The program's view of its tasks.
#[derive(Debug)]
pub(crate) struct Program {
    ids: Vec<TaskId>,
    /// Number of tasks still to be submitted that need this one, plus 1 until this one is final. At 0 the program has
    /// dropped the future.
    uses: Vec<u32>,
    /// Number of tasks that are final.
    pub ended: u32,
    /// The first task that did not succeed.
    pub failed: Option<(u32, Status)>,
    /// Number of tasks that nodes gave back.
    pub returned: u64,
}

impl Program {
    pub fn new(client: &Engine) -> Self {
        let children = client.model.graph.child_counts();
        Self {
            ids: Vec::with_capacity(children.len()),
            uses: children.iter().map(|count| count + 1).collect(),
            ended: 0,
            failed: None,
            returned: 0,
        }
    }

    /// Submits the next task.
    pub fn submit(&mut self, client: &mut Engine, number: u32) -> Result<(), SubmitError> {
        let Engine { core, model, .. } = client;
        model.now += model.costs.program_ns + model.costs.submit_ns;
        let graph = std::sync::Arc::clone(&model.graph);
        let task = graph.task(number);
        let parents: Vec<TaskId> = task.parents.iter().map(|&one| self.ids[one as usize]).collect();
        let submission = Submission {
            function: FunctionId(task.function),
            payload: EngineModel::arguments(number),
            handle: u64::from(number),
            submitted_ticks: model.now,
            parents: &parents,
            options: None,
            origin: Origin::External,
        };
        self.ids.push(core.submit(submission, model.now, model)?);
        task.parents.iter().for_each(|&parent| self.drop_use(client, parent));
        Ok(())
    }

    /// Handles the tasks that became final.
    pub fn note_ends(&mut self, client: &mut Engine) {
        for (_, number, status) in std::mem::take(&mut client.model.finished) {
            self.ended += 1;
            if status != Status::Succeeded {
                self.failed.get_or_insert((number, status));
            }
            self.drop_use(client, number);
        }
    }

    /// Handles a node's report on a task.
    pub fn take_home(&mut self, client: &mut Engine, peer: u16, at: (TaskPlacement, HomeEnd)) {
        let (placement, end) = at;
        let Engine { core, model, .. } = client;
        model.now += model.costs.dispatch_ns + model.costs.answer_ns;
        let (end, ran_ns) = match end {
            HomeEnd::Returned(ran_ns) => {
                model.note_maker(placement.number, peer);
                (PeerEnd::Returned(model.result(placement.number)), ran_ns)
            }
            HomeEnd::Unstarted => {
                self.returned += 1;
                (PeerEnd::Unstarted, 0)
            }
        };
        model.confirmed[usize::from(peer)].push(placement.number);
        let timings = AttemptTimings::of_run(Span::from_ticks(ran_ns));
        let answer = PeerAnswer { task: placement.task, attempt: placement.attempt, end, timings };
        let _outcome = core.peer_answered(PeerId(peer), answer, model.now, model);
    }

    fn drop_use(&mut self, client: &mut Engine, number: u32) {
        let uses = &mut self.uses[number as usize];
        *uses -= 1;
        if *uses == 0 {
            client.core.release(self.ids[number as usize]);
        }
    }
}

/// Makes all nodes join the client.
pub(crate) fn join(client: &mut Engine, cluster: &ClusterSpec) {
    let Engine { core, model, .. } = client;
    model.confirmed = vec![Vec::new(); usize::from(cluster.nodes)];
    let offer = PeerOffer {
        round_trip_ns: 2 * (model.costs.hop_ns + model.costs.inbound_ns),
        ..PeerOffer::of_workers(u32::from(cluster.workers))
    };
    for peer in 0..cluster.nodes {
        core.peer_joined(PeerId(peer), Epoch(1), offer, 0, model);
    }
}
