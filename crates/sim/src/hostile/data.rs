//! A program's engine with blobs, an honest node and hostile ones, from the first message to the last task.

use std::collections::BTreeMap;
use std::rc::Rc;

use gristmill_client::{NewLink, WorkerlessEngine};
use gristmill_core::TaskId;
use gristmill_wire::PeerId;
use gristmill_wire::peer::LeaseGrant;

use super::choices::Choices;
use super::holder::Holder;
use super::liar::Liar;
use super::payloads::{Contents, content};
use super::siege::{SiegeReport, far_link};
use super::wire::{Wire, wire};

/// Turns in which everything must end once there is no hostile peer: more than any siege has tasks.
const TURNS_MAX: usize = 20_000;
/// Number of blobs.
const BLOBS: u8 = 8;
/// Bytes of the smallest blob: blobs fit into a hostile peer's choices, and also differ in size.
const BLOB_SIZE: usize = 24;
/// Own tasks whose results are not released.
const TASKS_MAX: usize = 64;
/// Number of times that each task may be lost.
const LOSSES_MAX: u16 = 1_000;
/// Blocks that one task may hold at a time: arguments, a result that is arriving, a previous result, and placeholders for its
/// parts.
const BLOCKS_OF_TASK: usize = 12;

/// One of the engine's own tasks.
struct Own {
    number: u64,
    /// True if a hostile node was sent this task.
    is_tainted: bool,
    parents: Vec<TaskId>,
}

/// An engine with blobs, a node that handles blobs correctly, and a sequence of nodes that do not.
///
/// Tasks have large arguments and results, of which some stay where they are made. Hostile nodes know the names of all bytes,
/// and name, request, send and drop them as they like. Checked at each step: graph and broadcast plan are consistent, no more
/// blocks are held than the tasks can need, and the honest node gets the bytes that were named to it. Checked at the end, when
/// the hostile nodes are gone: each task is final, with the right bytes unless a hostile node had it; no state of any peer is
/// left.
pub struct DataSiege {
    engine: WorkerlessEngine,
    honest: Holder,
    liar: Option<(PeerId, Liar)>,
    contents: Contents,
    own: BTreeMap<TaskId, Own>,
    submitted: u64,
    report: SiegeReport,
}

/// Returns the contents of all blobs of a siege, named by the engine's hash.
pub(super) fn contents_of(engine: &WorkerlessEngine) -> Contents {
    let blob = |seed: u8| vec![seed; BLOB_SIZE + usize::from(seed)];
    let named = |bytes: Vec<u8>| (engine.name(&bytes), bytes);
    Rc::new((0..BLOBS).map(blob).map(named).collect())
}

fn connect(name: &str) -> (NewLink, Wire) {
    let (ours, theirs) = wire();
    let new = NewLink {
        name: name.to_owned(),
        channel: Box::new(ours),
        beat_ns: u64::MAX / 8,
        expiry_ns: u64::MAX / 4,
        grant: LeaseGrant { workers: 2, ..LeaseGrant::NOTHING },
        labels: String::new(),
        own_name: String::new(),
        message_max: u64::MAX,
    };
    (new, theirs)
}

impl Default for DataSiege {
    fn default() -> Self {
        let mut engine = WorkerlessEngine::default();
        let (new, theirs) = connect("honest");
        engine.attach(new);
        let contents = contents_of(&engine);
        Self {
            honest: Holder::new(far_link(theirs), Rc::clone(&contents)),
            engine,
            liar: None,
            contents,
            own: BTreeMap::new(),
            submitted: 0,
            report: SiegeReport::default(),
        }
    }
}

impl DataSiege {
    /// Runs the siege until there are no more choices, then until all tasks are final.
    ///
    /// # Panics
    /// If an invariant does not hold.
    pub fn run(mut self, mut choices: Choices<'_>) -> SiegeReport {
        while !choices.is_over() {
            self.step(&mut choices);
            self.turn();
        }
        if let Some((peer, _)) = self.liar.take()
            && self.engine.has(peer)
        {
            self.engine.part(peer);
        }
        for _ in 0..TURNS_MAX {
            if self.is_over() {
                return self.check_end();
            }
            for &task in self.own.keys() {
                self.engine.ask_for(task);
            }
            self.turn();
        }
        let open = self.own.keys().filter(|&&task| !self.engine.is_final(task));
        let open: Vec<_> = open.map(|&task| self.engine.explain(task)).collect();
        panic!("tasks hang: {open:?}, {} inbound tasks", self.engine.inbound_count());
    }

    fn is_over(&self) -> bool {
        let is_final = |&task: &TaskId| self.engine.is_final(task);
        self.own.keys().all(is_final) && self.engine.inbound_count() == 0
    }

    fn step(&mut self, choices: &mut Choices<'_>) {
        match choices.below(8) {
            0 | 1 => self.submit(choices),
            2 => {
                let Some(task) = self.chosen(choices) else { return };
                if choices.is_chosen() {
                    self.engine.ask_for(task);
                } else if !self.own.values().any(|own| own.parents.contains(&task)) {
                    self.check(task);
                    self.own.remove(&task);
                    self.engine.release(task);
                }
            }
            _ => self.lie(choices),
        }
    }

    fn chosen(&self, choices: &mut Choices<'_>) -> Option<TaskId> {
        let place = usize::from(choices.byte()) % self.own.len().max(1);
        self.own.keys().nth(place).copied()
    }

    fn submit(&mut self, choices: &mut Choices<'_>) {
        if self.own.len() == TASKS_MAX {
            return;
        }
        let number = self.submitted;
        self.submitted += 1;
        let contents = Rc::clone(&self.contents);
        let arguments: Vec<_> = (0..choices.below(3))
            .map(|_| content(&contents, choices.byte().into()).1.as_slice())
            .collect();
        let parents: Vec<_> = (0..choices.below(3)).filter_map(|_| self.chosen(choices)).collect();
        let payload = number.to_le_bytes();
        let task = self.engine.submit(&payload, &arguments, &parents, LOSSES_MAX);
        self.report.tasks += 1;
        self.own.insert(task, Own { number, is_tainted: false, parents });
    }

    fn lie(&mut self, choices: &mut Choices<'_>) {
        if self.liar.as_ref().is_none_or(|(peer, _)| !self.engine.has(*peer)) {
            let (new, theirs) = connect("liar");
            let peer = self.engine.attach(new);
            let mut liar = Liar::new(theirs, false);
            liar.blobs = self.contents.to_vec();
            self.liar = Some((peer, liar));
            self.report.liars += 1;
        }
        let Some((_, liar)) = &mut self.liar else { return };
        if choices.is_chosen() { liar.deceive(choices) } else { liar.speak(choices) }
    }

    fn turn(&mut self) {
        self.engine.turn();
        self.engine.audit();
        self.honest.turn();
        if let Some((_, liar)) = &mut self.liar {
            for task in liar.listen() {
                if let Some(own) = self.own.get_mut(&task) {
                    self.report.tainted += usize::from(!own.is_tainted);
                    own.is_tainted = true;
                }
            }
        }
        let limit = (self.own.len() + 1) * BLOCKS_OF_TASK;
        let count = self.engine.block_count();
        assert!(count <= limit, "{count} blocks are held, of {limit} that tasks can need");
        self.report.endings.extend(self.engine.take_endings());
    }

    fn is_tainted(&self, task: TaskId) -> bool {
        let Some(own) = self.own.get(&task) else { return true };
        own.is_tainted || own.parents.iter().any(|&parent| self.is_tainted(parent))
    }

    /// Asserts that the result of a task is right, if it is final and no hostile node had it.
    fn check(&self, task: TaskId) {
        if !self.engine.is_final(task) || self.is_tainted(task) {
            return;
        }
        let right = &content(&self.contents, self.own[&task].number).1;
        let result = self.engine.result(task);
        assert_eq!(result, Ok(vec![right.clone()]), "{task} ended wrong");
    }

    fn check_end(mut self) -> SiegeReport {
        self.own.keys().for_each(|&task| self.check(task));
        self.own.keys().for_each(|&task| self.engine.release(task));
        assert_eq!(self.honest.refusals, [""; 0], "what the honest node needs can be had");
        // Pending messages to the honest node are sent in these turns.
        for _ in 0..TASKS_MAX {
            self.turn();
        }
        self.engine.check_empty();
        self.report
    }
}
