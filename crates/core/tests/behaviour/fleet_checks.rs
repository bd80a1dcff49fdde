//! What must hold of tasks and peers after each event.

use std::collections::HashMap;

use gristmill_core::{PeerId, PeerOffer, Status, TaskId, Whereabouts};
use gristmill_wire::WHOLE_GPU;

use crate::fake::Away;
use crate::fleet::{DEPTH, Fleet, Peer, offer};

impl Fleet {
    /// What must hold after each event; `before` is what peers had.
    pub fn check(&mut self, before: &[Away]) {
        self.engine.core.audit();
        let told: HashMap<TaskId, Status> = self.engine.port.finished.iter().copied().collect();
        assert_eq!(told.len(), self.engine.port.finished.len(), "each end is told once");
        assert_eq!(told, self.model.ends);
        self.model.order.iter().for_each(|&task| self.check_place(task));
        let port = &self.engine.port;
        let fresh: Vec<_> = port.away.iter().filter(|away| !before.contains(away)).collect();
        for away in &fresh {
            let peer = self.peers.get(&away.peer).expect("a task goes to who is there");
            let is_full = port.full_peers.contains(&away.peer);
            let is_distrusted = self.engine.core.is_distrusted(PeerId(away.peer));
            assert!(!peer.is_draining && !is_full && !is_distrusted, "{away:?} went to {peer:?}");
        }
        self.peers.iter().for_each(|(&place, peer)| self.check_load(place, peer));
        let asked = (&port.stopped, &port.withdrawn, &port.recalled);
        self.log.push(format!("{fresh:?} {:?} {asked:?}", port.finished.last()));
    }

    /// A task is in one place, and has a reason to be there.
    fn check_place(&self, task: TaskId) {
        let has = |away: &&Away| away.task == task;
        let away: Vec<&Away> = self.engine.port.away.iter().filter(has).collect();
        let attempt = self.engine.core.task(task).map(|view| view.attempt);
        match self.engine.core.whereabouts(task) {
            Whereabouts::Final(status) => assert_eq!(self.model.ends.get(&task), Some(&status)),
            Whereabouts::Away { peer, .. } => {
                let at: Vec<_> = away.iter().map(|one| (PeerId(one.peer), one.attempt)).collect();
                assert_eq!(at, [(peer, attempt.unwrap())], "{task} is with one peer");
            }
            found => {
                assert!(away.is_empty(), "{task} waits, {found:?}, and is with {away:?}");
                self.check_reason(task, &found);
            }
        }
    }

    /// What a task waits for is so.
    fn check_reason(&self, task: TaskId, found: &Whereabouts) {
        let known = &self.model.known[&task];
        let live = known.parents.iter().filter(|parent| self.model.is_live(**parent));
        let live: Vec<_> = live.collect();
        match found {
            Whereabouts::Blocked { parents, first } => {
                assert_eq!((*parents as usize, first), (live.len(), live[0]), "{task} is blocked");
            }
            Whereabouts::Ready { .. } => assert!(live.is_empty() && known.demand.is_none()),
            Whereabouts::Demanding { demand, is_there, .. } => {
                assert!(live.is_empty() && *demand == known.demand);
                let is_able = |peer: &Peer| u32::from(demand.places()) <= peer.workers;
                assert_eq!(*is_there, self.peers.values().any(is_able), "memory and GPUs suffice");
            }
            other => panic!("{task} is nowhere: {other:?}"),
        }
    }

    /// No peer was promised more than it takes.
    fn check_load(&self, place: u16, peer: &Peer) {
        let here = self.engine.port.away.iter().filter(|away| away.peer == place);
        let live: Vec<_> = here.filter(|away| self.model.is_live(away.task)).collect();
        let demands = || live.iter().map(|away| self.model.known[&away.task].demand);
        let wide: u32 =
            demands().filter(|one| !one.is_none()).map(|one| u32::from(one.places())).sum();
        let PeerOffer { memory, gpus, .. } = offer(peer.workers);
        assert!(wide <= peer.workers, "{wide} places of {} are taken", peer.workers);
        assert!(demands().map(|one| one.memory).sum::<u64>() <= memory);
        assert!(demands().map(|one| one.gpus).sum::<u32>() <= gpus * WHOLE_GPU);
        let waits =
            |task| self.model.known[task].parents.iter().any(|one| self.model.is_live(*one));
        let waiting = live.iter().filter(|away| waits(&away.task)).count();
        assert!(
            waiting <= (DEPTH * peer.workers) as usize,
            "{waiting} tasks wait for others there"
        );
        // They take no room from those that are ready, until their parents have ended.
        let (count, most) = (live.len(), (2 * DEPTH * peer.workers) as usize);
        assert!(count <= most, "{count} tasks are there");
    }
}
