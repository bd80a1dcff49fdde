//! An engine with an honest peer and hostile ones, from the first message to the last task.

use std::collections::BTreeMap;

use gristmill_client::{Link, LinkWork, Links, NewLink};
use gristmill_core::{
    Budgets, FunctionId, Origin, Payload, SlotId, Status, Submission, TaskId, TaskOptions,
    TaskOutcome,
};
use gristmill_wire::PeerId;
use gristmill_wire::peer::LeaseGrant;

use super::acts::act;
use super::choices::Choices;
use super::engine::Engine;
use super::honest::Honest;
use super::liar::Liar;
use super::wire::{Wire, wire};
use super::workers::WorkerAction;

/// Turns in which everything must end once there is no hostile peer: more than any siege has tasks.
const TURNS_MAX: usize = 20_000;
/// Silence after which a link is lost, nanoseconds; the honest peer sends in each turn.
const EXPIRY_NS: u64 = 1_000_000;

/// Report of a siege.
#[derive(Debug, Clone, Default)]
pub struct SiegeReport {
    /// Number of links of hostile peers.
    pub liars: usize,
    /// Reasons for the ends of links, in words.
    pub endings: Vec<String>,
    /// Number of the engine's own tasks.
    pub tasks: usize,
    /// Number of own tasks that a hostile peer has received at some time.
    pub tainted: usize,
    /// Number of own tasks that were run again because a disk had failed.
    pub repeated: usize,
}

/// An engine, an honest peer, and a sequence of hostile ones.
///
/// Checked at each step: the graph is consistent, no task becomes final twice, the honest peer gets the messages that it
/// should. Checked at the end, when the hostile peers are gone: each task is final, with the right result unless a hostile peer
/// had it; no state of any peer is left.
///
/// Hostile peers send only messages that can be read: others are refused earlier, and fuzzed there. This engine refuses
/// messages about blobs; [`super::DataSiege`] and [`super::LeaseSiege`] test those.
pub struct Siege {
    engine: Engine,
    honest: Honest,
    liar: Option<(PeerId, Liar)>,
    is_lease: bool,
    function: FunctionId,
    /// The engine's own tasks, each with true if a hostile peer has received it.
    own: BTreeMap<TaskId, bool>,
    numbers: BTreeMap<TaskId, u64>,
    report: SiegeReport,
}

/// Creates a connection: the engine's link and the peer's end.
fn connect(name: &str, grant: LeaseGrant) -> (NewLink, Wire) {
    let (ours, theirs) = wire();
    let new = NewLink {
        name: name.to_owned(),
        channel: Box::new(ours),
        beat_ns: EXPIRY_NS / 8,
        expiry_ns: EXPIRY_NS,
        grant,
        labels: String::new(),
        own_name: String::new(),
        message_max: u64::MAX,
    };
    (new, theirs)
}

/// Creates the link of a simulated engine at the far end.
pub(super) fn far_link(channel: Wire) -> Link {
    let mut links = Links::new(None, false);
    let (peer, ..) = links.insert(connect("far", LeaseGrant::NOTHING).0, 0);
    let mut link = links.remove(peer, 0).expect("it was just taken in");
    link.resume(Box::new(channel), 0).expect("nothing was sent");
    link
}

impl Siege {
    /// Creates a siege of a lease's engine, or of a program's.
    #[must_use]
    pub fn new(is_lease: bool) -> Self {
        let mut engine = Engine::new(is_lease);
        let (new, theirs) = connect("honest", Self::grant(is_lease));
        engine.attach_last(new, connect("spare", Self::grant(is_lease)).0);
        let honest = Honest::new(far_link(theirs));
        let function = engine.port.functions.define(b"own", "own");
        Self {
            engine,
            honest,
            liar: None,
            is_lease,
            function,
            own: BTreeMap::new(),
            numbers: BTreeMap::new(),
            report: SiegeReport::default(),
        }
    }

    const fn grant(is_lease: bool) -> LeaseGrant {
        if is_lease {
            LeaseGrant::NOTHING
        } else {
            LeaseGrant { workers: 2, ..LeaseGrant::NOTHING }
        }
    }

    /// Runs the siege until there are no more choices, then until all tasks are final.
    ///
    /// # Panics
    /// If an invariant does not hold.
    pub fn run(mut self, mut choices: Choices<'_>) -> SiegeReport {
        while !choices.is_over() {
            self.step(&mut choices);
            self.turn();
        }
        // Hostile peers are disconnected, and their links expire.
        self.liar = None;
        for _ in 0..TURNS_MAX {
            if self.is_over() {
                return self.check_end();
            }
            self.work(&WorkerAction::Answers);
            self.turn();
        }
        let Engine { core, endings, .. } = &self.engine;
        let peers: Vec<_> = core.peer_stats().collect();
        panic!("tasks hang: {:?}, {peers:?}, {endings:?}", core.stats());
    }

    fn step(&mut self, choices: &mut Choices<'_>) {
        match choices.below(8) {
            0 if self.is_lease => self.honest.submit(),
            0 => self.submit(Origin::External),
            1 if self.is_lease => {
                let action = [
                    WorkerAction::Starts,
                    WorkerAction::Answers,
                    WorkerAction::Answers,
                    WorkerAction::Dies,
                ];
                self.work(&action[usize::from(choices.below(4))]);
            }
            2 if self.is_lease => self.submit_nested(),
            _ => self.lie(choices),
        }
    }

    fn lie(&mut self, choices: &mut Choices<'_>) {
        let is_there = |peer: PeerId| self.engine.port.links.get(peer).is_some();
        if self.liar.as_ref().is_none_or(|(peer, _)| !is_there(*peer)) {
            let (new, theirs) = connect("liar", Self::grant(self.is_lease));
            let peer = self.engine.attach(new);
            self.liar = Some((peer, Liar::new(theirs, self.is_lease)));
            self.report.liars += 1;
        }
        let Some((_, liar)) = &mut self.liar else { return };
        liar.speak(choices);
    }

    fn submit(&mut self, origin: Origin) {
        let number = self.own.len() as u64;
        let budgets = Some(Budgets { loss_retries: 9, ..Budgets::default() });
        let options = TaskOptions { budgets, ..TaskOptions::default() };
        self.engine.port.functions.use_again(self.function);
        let submission = Submission {
            function: self.function,
            payload: Payload::copy_from(&number.to_le_bytes()),
            handle: self.function.0.into(),
            submitted_ticks: self.engine.port.now,
            parents: &[],
            options: Some(&options),
            origin,
        };
        let Engine { core, port, .. } = &mut self.engine;
        let task = core.submit(submission, port.now, port).expect("there is room");
        self.own.insert(task, false);
        self.numbers.insert(task, number);
    }

    /// Submits a nested task from a task that runs here.
    fn submit_nested(&mut self) {
        let slots = self.engine.port.workers.slots();
        let running = |slot| Some((slot, self.engine.port.workers.running(slot)?));
        if let Some((slot, parent)) = slots.map(SlotId).find_map(running) {
            self.submit(Origin::Nested { slot, parent });
        }
    }

    /// Lets every worker do one thing.
    fn work(&mut self, action: &WorkerAction) {
        for slot in self.engine.port.workers.slots().map(SlotId) {
            let Engine { core, port, .. } = &mut self.engine;
            act(core, port, slot, action);
        }
    }

    fn turn(&mut self) {
        self.engine.turn();
        self.honest.turn();
        if let Some((_, liar)) = &mut self.liar {
            for task in liar.listen() {
                if let Some(is_tainted) = self.own.get_mut(&task) {
                    *is_tainted = true;
                }
            }
        }
    }

    fn is_over(&self) -> bool {
        let is_final = |task: &TaskId| self.engine.port.finals.get(*task).is_some();
        let links = &self.engine.port.links;
        let count = links.peers().filter(|&peer| links.get(peer).is_some()).count();
        count == 1
            && self.own.keys().all(is_final)
            && self.honest.is_idle()
            && self.engine.inbound.count() == 0
            && !self.engine.port.workers.is_busy()
    }

    fn check_end(mut self) -> SiegeReport {
        for (&task, &is_tainted) in &self.own {
            let view = self.engine.core.task(task).expect("it was not released");
            let is_right = match view.outcome {
                Some(TaskOutcome::Returned(payload)) => {
                    self.engine.port.payloads.bytes(payload) == self.numbers[&task].to_le_bytes()
                }
                // A worker here died, or the task that submitted it ended first.
                _ => self.is_lease && view.status != Some(Status::Failed),
            };
            assert!(is_right || is_tainted, "{task} ended wrong: {:?}", view.status);
        }
        self.own.keys().for_each(|&task| self.engine.core.release(task));
        self.engine.turn();
        assert_eq!(self.engine.core.record_count(), 0, "nothing is kept of tasks");
        let honest = usize::from(self.is_lease);
        let count = self.engine.port.functions.used_count();
        assert!(count <= 1 + honest, "{count} functions are kept");
        self.report.endings = self.engine.endings;
        self.report.tasks = self.own.len();
        self.report.tainted = self.own.values().filter(|&&is_tainted| is_tainted).count();
        self.report
    }
}

#[cfg(test)]
mod tests {
    use gristmill_core::Attempt;
    use gristmill_wire::ResourceRequest;
    use gristmill_wire::peer::{Parted, TaskLimits, TaskMessage};

    use super::*;

    /// Sends a task that no node here has room for `count` times under one name; returns the reasons for which links ended.
    fn send_often(count: usize) -> Vec<String> {
        let mut siege = Siege::new(false);
        let (new, theirs) = connect("liar", Siege::grant(false));
        let peer = siege.engine.attach(new);
        let mut liar = Liar::new(theirs, false);
        let limits = TaskLimits {
            deadline_left_ns: u64::MAX,
            timeout_ns: u64::MAX,
            grace_ns: 1,
            priority: 0,
            context: Default::default(),
            demand: ResourceRequest { cores: 9, ..ResourceRequest::NONE },
        };
        let mut out = Vec::new();
        for _ in 0..count {
            let name = (TaskId::new(1, 1), FunctionId(0), Attempt(0));
            TaskMessage::write(&mut out, name, Some(&limits), (0, false), |out| {
                Parted::put_plain(out, b"");
            });
        }
        liar.send(&out);
        siege.liar = Some((peer, liar));
        siege.run(Choices::new(&[])).endings
    }

    #[test]
    fn the_workers_of_a_lease_may_begin_tasks_while_its_client_is_heard() {
        let mut siege = Siege::new(true);
        for _ in 0..9 {
            siege.turn();
        }
        let proven = EXPIRY_NS - EXPIRY_NS / 100;
        let first_beat = 1_000;
        assert_eq!(siege.engine.port.valid_until, Some(first_beat + proven));
        let second_beat = first_beat + EXPIRY_NS / 8;
        while siege.engine.port.now < second_beat + 2_000 {
            siege.turn();
        }
        assert_eq!(siege.engine.port.valid_until, Some(second_beat + proven), "its echo came");
        while siege.engine.port.now < 3 * second_beat {
            siege.engine.turn();
        }
        assert_eq!(siege.engine.port.valid_until, Some(second_beat + proven), "and no other");
        let mut program = Siege::new(false);
        program.turn();
        assert_eq!(program.engine.port.valid_until, None, "a program's own have no end");
    }

    #[test]
    fn nothing_is_left_of_a_task_whose_peer_sent_it_twice() {
        assert!(send_often(1)[0].starts_with("no message came from it"));
        assert_eq!(send_often(2), ["it sent task 1.1 again before it got an answer"]);
    }
}
