//! Invariants of tasks and peers after each event.

use std::collections::{BTreeSet, HashMap};

use gristmill_core::{ContextId, PeerId, PeerOffer, Status, TaskId, TaskLocation};
use gristmill_wire::WHOLE_GPU;

use crate::fake::DelegatedTask;
use crate::fleet::{DEPTH, Fleet, NEEDS, Peer, offer};

impl Fleet {
    /// Asserts the invariants after an event; `before` lists the tasks that peers had.
    pub fn check(&mut self, before: &[DelegatedTask]) {
        self.engine.core.audit();
        let reported: HashMap<TaskId, Status> = self.engine.port.finished.iter().copied().collect();
        assert_eq!(reported.len(), self.engine.port.finished.len(), "each end is reported once");
        assert_eq!(reported, self.model.ends);
        self.model.order.iter().for_each(|&task| self.check_place(task));
        let port = &self.engine.port;
        let fresh: Vec<_> =
            port.delegated.iter().filter(|delegated| !before.contains(delegated)).collect();
        for delegated in &fresh {
            let peer = self.peers.get(&delegated.peer).expect("a task goes to a connected peer");
            let is_full = port.full_peers.contains(&delegated.peer);
            let is_distrusted = self.engine.core.is_distrusted(PeerId(delegated.peer));
            assert!(
                !peer.is_draining && !is_full && !is_distrusted,
                "{delegated:?} went to {peer:?}"
            );
        }
        self.peers.iter().for_each(|(&place, peer)| self.check_load(place, peer));
        let asked = (&port.stopped, &port.withdrawn, &port.recalled);
        self.log.push(format!("{fresh:?} {:?} {asked:?}", port.finished.last()));
    }

    /// Asserts that a task is at one location, and has a reason to be there.
    fn check_place(&self, task: TaskId) {
        let has = |delegated: &&DelegatedTask| delegated.task == task;
        let delegated: Vec<&DelegatedTask> =
            self.engine.port.delegated.iter().filter(has).collect();
        let attempt = self.engine.core.task(task).map(|view| view.attempt);
        match self.engine.core.location(task) {
            TaskLocation::Final(status) => assert_eq!(self.model.ends.get(&task), Some(&status)),
            TaskLocation::Delegated { peer, .. } => {
                let at: Vec<_> =
                    delegated.iter().map(|one| (PeerId(one.peer), one.attempt)).collect();
                assert_eq!(at, [(peer, attempt.unwrap())], "{task} is with one peer");
            }
            found => {
                assert!(delegated.is_empty(), "{task} waits, {found:?}, and is with {delegated:?}");
                self.check_reason(task, &found);
            }
        }
    }

    /// Asserts that the reason for which a task waits holds.
    fn check_reason(&self, task: TaskId, found: &TaskLocation) {
        let known = &self.model.known[&task];
        let live = known.parents.iter().filter(|parent| self.model.is_live(**parent));
        let live: Vec<_> = live.collect();
        match found {
            TaskLocation::Blocked { parents, first } => {
                assert_eq!((*parents as usize, first), (live.len(), live[0]), "{task} is blocked");
            }
            TaskLocation::Ready { .. } => {
                assert!(live.is_empty() && known.demand.is_none() && known.context.0 == 0);
            }
            TaskLocation::InContext { context, .. } => {
                assert!(live.is_empty() && *context == known.context);
            }
            TaskLocation::Demanding { demand, is_there, .. } => {
                let ContextId(context) = known.context;
                let needs = context.checked_sub(1).map_or(known.demand, |one| NEEDS[one as usize]);
                assert!(live.is_empty() && *demand == needs);
                let is_able = |peer: &Peer| u32::from(demand.places()) <= peer.workers;
                assert_eq!(*is_there, self.peers.values().any(is_able), "memory and GPUs suffice");
            }
            other => panic!("{task} is nowhere: {other:?}"),
        }
    }

    /// Asserts that a peer was sent no more tasks than it takes.
    fn check_load(&self, place: u16, peer: &Peer) {
        let here = self.engine.port.delegated.iter().filter(|delegated| delegated.peer == place);
        let live: Vec<_> = here.filter(|delegated| self.model.is_live(delegated.task)).collect();
        let priority = |task| self.model.known[&task].priority;
        let priorities: BTreeSet<i32> =
            live.iter().map(|delegated| priority(delegated.task)).collect();
        for level in priorities {
            // The peer's engine runs tasks of lower levels behind those of this one.
            let alike = || live.iter().filter(|delegated| priority(delegated.task) == level);
            let demands = || alike().map(|delegated| self.model.known[&delegated.task].demand);
            let wide: u32 =
                demands().filter(|one| !one.is_none()).map(|one| u32::from(one.places())).sum();
            let PeerOffer { memory, gpus, .. } = offer(peer.workers);
            assert!(wide <= peer.workers, "{wide} CPU slots of {} are taken", peer.workers);
            assert!(demands().map(|one| one.memory).sum::<u64>() <= memory);
            assert!(demands().map(|one| one.gpus).sum::<u32>() <= gpus * WHOLE_GPU);
        }
        let waits =
            |task| self.model.known[task].parents.iter().any(|one| self.model.is_live(*one));
        let waiting = live.iter().filter(|delegated| waits(&delegated.task)).count();
        assert!(
            waiting <= (DEPTH * peer.workers) as usize,
            "{waiting} tasks wait for others there"
        );
        // Waiting tasks take no room from the ready ones until their parents have ended. Each context has room beside
        // others.
        let (count, most) = (live.len(), (4 * DEPTH * peer.workers) as usize);
        assert!(count <= most, "{count} tasks are there");
    }
}
