//! The client: takes what the program submits, and the ends of tasks.

use gristmill_core::{
    Epoch, FunctionId, Origin, PeerAnswer, PeerEnd, PeerId, PeerOffer, Status, Submission,
    SubmitError, Tags, TaskId,
};
use gristmill_wire::Span;

use crate::costs::Cluster;
use crate::engine::Engine;
use crate::errands::{HomeEnd, Placement};
use crate::world::World;

/// What the program has of its tasks.
#[derive(Debug)]
pub(crate) struct Program {
    ids: Vec<TaskId>,
    /// How many that need it are to be submitted, and 1 until it is final: 0 is a future that was dropped.
    uses: Vec<u32>,
    /// Tasks that are final.
    pub ended: u32,
    /// The first one that came to something else than its result.
    pub failed: Option<(u32, Status)>,
    /// Tasks that a node gave back.
    pub returned: u64,
}

impl Program {
    pub fn new(client: &Engine) -> Self {
        let children = client.world.graph.child_counts();
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
        let Engine { core, world, .. } = client;
        world.now += world.costs.program_ns + world.costs.submit_ns;
        let graph = std::sync::Arc::clone(&world.graph);
        let task = graph.task(number);
        let parents: Vec<TaskId> = task.parents.iter().map(|&one| self.ids[one as usize]).collect();
        let submission = Submission {
            function: FunctionId(task.function),
            payload: World::arguments(number),
            handle: u64::from(number),
            submitted_ticks: world.now,
            parents: &parents,
            options: None,
            origin: Origin::External,
        };
        self.ids.push(core.submit(submission, world.now, world)?);
        task.parents.iter().for_each(|&parent| self.drop_use(client, parent));
        Ok(())
    }

    /// Notes what has become final.
    pub fn note_ends(&mut self, client: &mut Engine) {
        for (_, number, status) in std::mem::take(&mut client.world.finished) {
            self.ended += 1;
            if status != Status::Succeeded {
                self.failed.get_or_insert((number, status));
            }
            self.drop_use(client, number);
        }
    }

    /// Takes a node's word of a task.
    pub fn take_home(&mut self, client: &mut Engine, peer: u16, at: (Placement, HomeEnd)) {
        let (placement, end) = at;
        let Engine { core, world, .. } = client;
        world.now += world.costs.errand_ns + world.costs.answer_ns;
        let (end, ran_ns) = match end {
            HomeEnd::Returned(ran_ns) => {
                world.note_maker(placement.number, peer);
                (PeerEnd::Returned(world.result(placement.number)), ran_ns)
            }
            HomeEnd::Unstarted => {
                self.returned += 1;
                (PeerEnd::Unstarted, 0)
            }
        };
        world.confirmed[usize::from(peer)].push(placement.number);
        let tags = Tags::of_run(Span::from_ticks(ran_ns));
        let answer = PeerAnswer { task: placement.task, attempt: placement.attempt, end, tags };
        let _outcome = core.peer_answered(PeerId(peer), answer, world.now, world);
    }

    fn drop_use(&mut self, client: &mut Engine, number: u32) {
        let uses = &mut self.uses[number as usize];
        *uses -= 1;
        if *uses == 0 {
            client.core.release(self.ids[number as usize]);
        }
    }
}

/// Lets all nodes join.
pub(crate) fn join(client: &mut Engine, cluster: &Cluster) {
    let Engine { core, world, .. } = client;
    world.confirmed = vec![Vec::new(); usize::from(cluster.nodes)];
    let offer = PeerOffer {
        round_trip_ns: 2 * (world.costs.hop_ns + world.costs.guest_ns),
        ..PeerOffer::of_workers(u32::from(cluster.workers))
    };
    for peer in 0..cluster.nodes {
        core.peer_joined(PeerId(peer), Epoch(1), offer, 0, world);
    }
}
