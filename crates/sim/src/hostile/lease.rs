//! A lease's engine with blobs, an honest program and hostile clients, from the first message to the last task.

use std::collections::BTreeMap;
use std::rc::Rc;

use gristmill_client::{
    BlobLimits, BlobServer, BlobSizes, BlobTables, Departure, LinkWork, NewLink, WorkerlessEngine,
};
use gristmill_core::{SlotId, TaskId};
use gristmill_wire::PeerId;
use gristmill_wire::peer::LeaseGrant;
use gristmill_wire::{BlobName, Digest};

use super::acts::act;
use super::choices::Choices;
use super::data::contents_of;
use super::engine::Engine;
use super::liar::{ENDLESS, Liar};
use super::neighbours::Neighbours;
use super::payloads::{Contents, content, made_of};
use super::siege::SiegeReport;
use super::wire::{Wire, wire};
use super::workers::WorkerAction;

/// Turns in which everything must end once there is no hostile client: more than any siege has tasks.
const TURNS_MAX: usize = 20_000;
/// Time longer than any siege, nanoseconds.
const FOR_EVER_NS: u64 = u64::MAX / 8;
/// Tasks of the program whose results it has not released.
const TASKS_MAX: usize = 64;
/// Number of times that each task may be lost.
const LOSSES_MAX: u16 = 1_000;
/// Number of workers that one task may kill.
const DEATHS_MAX: usize = 3;
/// Blocks that one inbound task may hold at a time: two arguments, two parts each of four other payloads, and its result.
const BLOCKS_OF_INBOUND_TASK: usize = 12;
/// Limits of the bytes that a lease stores in memory and on disk: everything in memory, nothing, everything on disk, and a few
/// blobs.
const LIMITS: [[u64; 2]; 4] = [[u64::MAX, 0], [0, 0], [0, 20_000], [60, 150]];

/// One of the program's tasks.
struct Own {
    number: u64,
    arguments: Vec<Vec<u8>>,
    parents: Vec<TaskId>,
}

/// A lease's engine with blobs, a program whose tasks it runs, and a sequence of hostile clients.
///
/// Tasks have large arguments, and return large results: new ones, or the bytes of arguments. Some results stay until they are
/// requested. Memory has room for few of them, and the disk may fail. Hostile clients name, send, request, drop and confirm
/// blobs as they like, and vanish. Checked at each step: graph and blob tables are consistent, no more blocks are held than
/// tasks and names need, and no task of the program is run twice unless the disk has failed. Checked at the end, when the
/// hostile clients are gone: the program's tasks have ended with the right bytes, and no state of any peer is left.
pub struct LeaseSiege {
    engine: Engine,
    /// The blob server, which runs in a thread of its own outside of a siege.
    blob_server: BlobServer<Neighbours>,
    program: WorkerlessEngine,
    /// Number of the program as a peer of the engine.
    client: PeerId,
    liar: Option<(PeerId, Liar)>,
    contents: Contents,
    /// Number of names so far, including those of which there are no bytes.
    name_count: usize,
    own: BTreeMap<TaskId, Own>,
    submitted: u64,
    /// Number of times that each of the program's tasks has returned.
    runs: BTreeMap<TaskId, usize>,
    damage: Damage,
    report: SiegeReport,
}

/// Damage that the node has suffered.
#[derive(Debug, Default)]
struct Damage {
    /// Number of workers that have died.
    deaths: usize,
    has_disk_failed: bool,
}

/// Creates one end of a connection. A peer that sends a heartbeat each turn confirms with it the chunks that have come.
fn end(name: &str, channel: Wire, beat_ns: u64, workers: u32) -> NewLink {
    NewLink {
        name: name.to_owned(),
        channel: Box::new(channel),
        beat_ns,
        expiry_ns: FOR_EVER_NS,
        grant: LeaseGrant { workers, ..LeaseGrant::NOTHING },
        labels: String::new(),
        own_name: String::new(),
        message_max: u64::MAX,
    }
}

impl LeaseSiege {
    /// Creates a siege with one of four limits of memory and disk.
    ///
    /// # Panics
    /// If there is no memory at all.
    #[must_use]
    pub fn new(kind: u8) -> Self {
        let mut program = WorkerlessEngine::default();
        let contents = contents_of(&program);
        let [memory, disk] = LIMITS[usize::from(kind) % LIMITS.len()];
        let limits = BlobLimits { memory, disk, directory: std::env::temp_dir() };
        let sizes = BlobSizes { min: 1, piece: 8 };
        let transport = Neighbours(Rc::clone(&contents));
        let (blobs, blob_server) =
            BlobTables::of_lease(limits, sizes, (transport, 7)).expect("memory");
        let mut engine = Engine::with_blobs(blobs, Rc::clone(&contents));
        let (ours, theirs) = wire();
        let spare = end("spare", wire().0, FOR_EVER_NS, 0);
        let client = engine.attach_last(end("program", ours, 1, 0), spare);
        program.attach(end("node", theirs, 1, 2));
        Self {
            engine,
            blob_server,
            program,
            client,
            liar: None,
            name_count: contents.len(),
            contents,
            own: BTreeMap::new(),
            submitted: 0,
            runs: BTreeMap::new(),
            damage: Damage::default(),
            report: SiegeReport::default(),
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
        self.cut_off();
        for _ in 0..TURNS_MAX {
            if self.is_over() {
                return self.check_end();
            }
            for &task in self.own.keys() {
                self.program.ask_for(task);
            }
            self.go_on();
        }
        let open = self.own.keys().filter(|&&task| !self.program.is_final(task));
        let open: Vec<_> = open.map(|&task| self.program.explain(task)).collect();
        let stats = self.engine.core.stats();
        panic!("tasks hang: {open:?}; {} inbound tasks, {stats:?}", self.engine.inbound.count());
    }

    fn is_over(&self) -> bool {
        self.own.keys().all(|&task| self.program.is_final(task))
            && self.engine.inbound.count() == 0
            && !self.engine.port.workers.is_busy()
    }

    fn step(&mut self, choices: &mut Choices<'_>) {
        match choices.below(16) {
            0 | 1 => self.submit(choices),
            2 => self.look_at_one(choices),
            3..=5 => {
                let action = [
                    WorkerAction::Starts,
                    WorkerAction::Answers,
                    WorkerAction::Answers,
                    WorkerAction::Answers,
                ];
                self.work(&action[usize::from(choices.below(4))]);
            }
            6 if choices.below(8) == 0 => {
                self.damage.deaths += 1;
                self.work(&WorkerAction::Dies);
            }
            6..=8 => self.keep_store(),
            9 if choices.below(4) == 0 => {
                self.damage.has_disk_failed |= self.blob_server.fail_disk()
            }
            9 if choices.below(4) == 0 => self.cut_off(),
            _ => self.lie(choices),
        }
    }

    fn keep_store(&mut self) {
        let _ = self.blob_server.turn(self.engine.port.now);
    }

    /// Lets the engine, its workers, its blob server and the program do a turn.
    fn go_on(&mut self) {
        self.work(&WorkerAction::Answers);
        self.keep_store();
        self.turn();
    }

    /// Disconnects the hostile client without a message.
    fn cut_off(&mut self) {
        if let Some((peer, liar)) = self.liar.take() {
            self.name_count += liar.odd_names.get();
            self.engine.peer_gone(peer, "it was cut off", Departure::Lost);
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
        let arguments: Vec<_> = (0..choices.below(3))
            .map(|_| content(&self.contents, choices.byte().into()).1.clone())
            .collect();
        let parents: Vec<_> = (0..choices.below(3)).filter_map(|_| self.chosen(choices)).collect();
        let parts: Vec<_> = arguments.iter().map(Vec::as_slice).collect();
        let task = self.program.submit(&number.to_le_bytes(), &parts, &parents, LOSSES_MAX);
        self.report.tasks += 1;
        self.own.insert(task, Own { number, arguments, parents });
    }

    /// Requests the result of a chosen task, or checks and releases it.
    fn look_at_one(&mut self, choices: &mut Choices<'_>) {
        let Some(task) = self.chosen(choices) else { return };
        if choices.is_chosen() {
            self.program.ask_for(task);
        } else if !self.own.values().any(|own| own.parents.contains(&task)) {
            self.check(task);
            self.own.remove(&task);
            self.program.release(task);
        }
    }

    fn lie(&mut self, choices: &mut Choices<'_>) {
        let is_there = |peer: PeerId| self.engine.port.links.get(peer).is_some();
        if self.liar.as_ref().is_none_or(|(peer, _)| !is_there(*peer)) {
            let (ours, theirs) = wire();
            let peer = self.engine.attach(end("liar", ours, FOR_EVER_NS, 0));
            let mut liar = Liar::new(theirs, true);
            liar.blobs = self.contents.to_vec();
            // Names of bytes that no peer has.
            for size in [30, ENDLESS] {
                let name = BlobName { digest: Digest::of([9; 32], size), size };
                liar.blobs.push((name, vec![9; 30]));
            }
            self.name_count += liar.blobs.len();
            if let Some((_, gone)) = self.liar.replace((peer, liar)) {
                self.name_count += gone.odd_names.get();
            }
            self.report.liars += 1;
        }
        let Some((_, liar)) = &mut self.liar else { return };
        liar.speak(choices);
    }

    /// Lets every worker do one thing.
    fn work(&mut self, action: &WorkerAction) {
        for slot in self.engine.port.workers.slots().map(SlotId) {
            let Engine { core, port, inbound, .. } = &mut self.engine;
            let Some(task) = act(core, port, slot, action) else { continue };
            let handle = core.task(task).map(|view| view.handle);
            let inbound_task = handle.and_then(|handle| inbound.named(handle));
            let Some((_, theirs, _)) =
                inbound_task.filter(|inbound_task| inbound_task.0 == self.client)
            else {
                continue;
            };
            let runs = self.runs.entry(theirs).or_default();
            *runs += 1;
            assert!(*runs == 1 || self.damage.has_disk_failed, "{theirs} was run again");
            self.report.repeated += usize::from(*runs == 2);
        }
    }

    fn turn(&mut self) {
        self.engine.turn();
        self.engine.tables().expect("it has some").audit();
        self.program.turn();
        self.program.audit();
        let odd = self.liar.as_mut().map_or(0, |(_, liar)| {
            liar.listen();
            liar.odd_names.get()
        });
        let inbound = self.engine.inbound.count() + self.engine.port.workers.record_count() + 1;
        let limit = inbound * BLOCKS_OF_INBOUND_TASK + self.name_count + odd;
        let count = self.engine.tables().expect("it has some").block_count();
        assert!(count <= limit, "{count} blocks are held, of {limit} that can be needed");
        self.report.endings.append(&mut self.engine.endings);
    }

    /// Asserts that the result of a task is right, if it is final.
    fn check(&self, task: TaskId) {
        if !self.program.is_final(task) {
            return;
        }
        let own = &self.own[&task];
        let right = made_of(&self.contents, own.number, &own.arguments);
        let result = self.program.result(task);
        let is_lost = result.as_ref().is_err_and(|text| text.contains("Lost"));
        if !is_lost || self.damage.deaths < DEATHS_MAX {
            assert_eq!(result, Ok(right), "{task} ended wrong");
        }
    }

    fn check_end(mut self) -> SiegeReport {
        self.own.keys().for_each(|&task| self.check(task));
        let own = std::mem::take(&mut self.own);
        own.keys().for_each(|&task| self.program.release(task));
        // The program's messages about the released tasks arrive in these turns.
        for _ in 0..TASKS_MAX {
            self.go_on();
        }
        self.program.check_empty();
        let left = self.engine.tables().expect("it has some").leftovers();
        assert_eq!(left, None, "nothing is kept of bytes");
        assert_eq!(self.engine.core.record_count(), 0, "nothing is kept of tasks");
        let count = self.engine.port.functions.used_count();
        assert!(count <= 1, "{count} functions are kept");
        self.report
    }
}
