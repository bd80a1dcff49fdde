//! A lease's engine with blobs, a program that keeps to the protocol and hostile clients, from the first message to the last
//! task.

use std::collections::BTreeMap;
use std::rc::Rc;

use gristmill_client::{
    BlobLimits, BlobSizes, BlobTables, Departure, LinkWork, NewLink, Warden, Workless,
};
use gristmill_core::{SlotId, TaskId};
use gristmill_wire::PeerId;
use gristmill_wire::peer::Grant;
use gristmill_wire::{BlobName, Digest};

use super::data::contents_of;
use super::engine::Engine;
use super::liar::{Choices, ENDLESS, Liar};
use super::neighbours::Neighbours;
use super::payloads::{Contents, content, made_of};
use super::siege::SiegeReport;
use super::wire::{Wire, wire};
use super::workers::{Deed, act};

/// Turns in which everything has to end once nobody lies any more: more than any siege has tasks.
const TURNS_MAX: usize = 20_000;
/// Longer than any siege.
const FOR_EVER_NS: u64 = u64::MAX / 8;
/// Tasks of the program whose results it has not let go of.
const TASKS_MAX: usize = 64;
/// Times that each may be lost.
const LOSSES_MAX: u16 = 1_000;
/// Workers that one task may kill.
const DEATHS_MAX: usize = 3;
/// Blocks that one guest may have at a time: two arguments, four other payloads of two, what it returns.
const BLOCKS_OF_GUEST: usize = 12;
/// What a lease keeps in memory and on disk, bytes: all, nothing, all but on disk, and a few blobs.
const LIMITS: [[u64; 2]; 4] = [[u64::MAX, 0], [0, 0], [0, 20_000], [60, 150]];

/// One of the program's tasks.
struct Own {
    number: u64,
    arguments: Vec<Vec<u8>>,
    parents: Vec<TaskId>,
}

/// A lease's engine with blobs, a program whose tasks it runs, and one after the other client that lies.
///
/// Tasks have large arguments, and give large results: new ones, or the bytes of arguments. Some results stay until they are
/// asked for. Memory is for few of them, and the disk may fail. Hostile clients name, give, ask, drop and confirm as they
/// like, and vanish. Checked at each step: graph and plan are whole, no more blocks are held than tasks and names need, and no
/// task of the program is run twice unless the disk has failed. Checked at the end, when hostile clients are gone: the
/// program's tasks have ended with the right bytes, and nothing is kept of anybody.
pub struct LeaseSiege {
    engine: Engine,
    /// What a thread beside the engine would do.
    warden: Warden<Neighbours>,
    program: Workless,
    /// What the engine calls the program.
    client: PeerId,
    liar: Option<(PeerId, Liar)>,
    contents: Contents,
    /// Names that there were, those included of which there are no bytes.
    name_count: usize,
    own: BTreeMap<TaskId, Own>,
    submitted: u64,
    /// How often the program's tasks returned.
    runs: BTreeMap<TaskId, usize>,
    deaths: usize,
    has_disk_failed: bool,
    report: SiegeReport,
}

/// One end of a connection. Who gives a sign of life each turn confirms with it what has come.
fn end(name: &str, channel: Wire, beat_ns: u64, workers: u32) -> NewLink {
    NewLink {
        name: name.to_owned(),
        channel: Box::new(channel),
        beat_ns,
        expiry_ns: FOR_EVER_NS,
        grant: Grant { workers, ..Grant::NOTHING },
        labels: String::new(),
    }
}

impl LeaseSiege {
    /// With little memory, or much: there are four kinds.
    ///
    /// # Panics
    /// There is no memory at all.
    #[must_use]
    pub fn new(kind: u8) -> Self {
        let mut program = Workless::default();
        let contents = contents_of(&program);
        let [memory, disk] = LIMITS[usize::from(kind) % LIMITS.len()];
        let limits = BlobLimits { memory, disk, directory: std::env::temp_dir() };
        let sizes = BlobSizes { min: 1, piece: 8 };
        let gate = Neighbours(Rc::clone(&contents));
        let (blobs, warden) = BlobTables::of_lease(limits, sizes, (gate, 7)).expect("memory");
        let mut engine = Engine::with_blobs(blobs, Rc::clone(&contents));
        let (ours, theirs) = wire();
        let nobody = end("nobody", wire().0, FOR_EVER_NS, 0);
        let client = engine.attach_last(end("program", ours, 1, 0), nobody);
        program.attach(end("node", theirs, 1, 2));
        Self {
            engine,
            warden,
            program,
            client,
            liar: None,
            name_count: contents.len(),
            contents,
            own: BTreeMap::new(),
            submitted: 0,
            runs: BTreeMap::new(),
            deaths: 0,
            has_disk_failed: false,
            report: SiegeReport::default(),
        }
    }

    /// Has all that is chosen happen.
    ///
    /// # Panics
    /// When something does not hold that must.
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
        panic!("tasks hang: {open:?}; {} guests, {stats:?}", self.engine.guests.count());
    }

    fn is_over(&self) -> bool {
        self.own.keys().all(|&task| self.program.is_final(task))
            && self.engine.guests.count() == 0
            && !self.engine.lanes.workers.is_busy()
    }

    fn step(&mut self, choices: &mut Choices<'_>) {
        match choices.below(16) {
            0 | 1 => self.submit(choices),
            2 => self.look_at_one(choices),
            3..=5 => {
                let deed = [Deed::Starts, Deed::Answers, Deed::Answers, Deed::Answers];
                self.work(&deed[usize::from(choices.below(4))]);
            }
            6 if choices.below(8) == 0 => {
                self.deaths += 1;
                self.work(&Deed::Dies);
            }
            6..=8 => self.keep_store(),
            9 if choices.below(4) == 0 => self.has_disk_failed |= self.warden.fail_disk(),
            9 if choices.below(4) == 0 => self.cut_off(),
            _ => self.lie(choices),
        }
    }

    fn keep_store(&mut self) {
        let _ = self.warden.turn(self.engine.lanes.now);
    }

    /// Everybody does what is to be done, who does not lie.
    fn go_on(&mut self) {
        self.work(&Deed::Answers);
        self.keep_store();
        self.turn();
    }

    /// The hostile client vanishes.
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

    /// The program looks at a task, or lets go of one.
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
        let is_there = |peer: PeerId| self.engine.lanes.links.get(peer).is_some();
        if self.liar.as_ref().is_none_or(|(peer, _)| !is_there(*peer)) {
            let (ours, theirs) = wire();
            let peer = self.engine.attach(end("liar", ours, FOR_EVER_NS, 0));
            let mut liar = Liar::new(theirs, true);
            liar.blobs = self.contents.to_vec();
            // Names of bytes that nobody has.
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

    /// All workers do something.
    fn work(&mut self, deed: &Deed) {
        for slot in self.engine.lanes.workers.slots().map(SlotId) {
            let Engine { core, lanes, guests, .. } = &mut self.engine;
            let Some(task) = act(core, lanes, slot, deed) else { continue };
            let handle = core.task(task).map(|view| view.handle);
            let guest = handle.and_then(|handle| guests.named(handle));
            let Some((_, theirs, _)) = guest.filter(|guest| guest.0 == self.client) else {
                continue;
            };
            let runs = self.runs.entry(theirs).or_default();
            *runs += 1;
            assert!(*runs == 1 || self.has_disk_failed, "{theirs} was run again");
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
        let guests = self.engine.guests.count() + self.engine.lanes.workers.record_count() + 1;
        let limit = guests * BLOCKS_OF_GUEST + self.name_count + odd;
        let count = self.engine.tables().expect("it has some").block_count();
        assert!(count <= limit, "{count} blocks are held, of {limit} that can be needed");
        self.report.endings.append(&mut self.engine.endings);
    }

    /// Looks at the result of a task, if it has one.
    fn check(&self, task: TaskId) {
        if !self.program.is_final(task) {
            return;
        }
        let own = &self.own[&task];
        let right = made_of(&self.contents, own.number, &own.arguments);
        let result = self.program.result(task);
        let is_lost = result.as_ref().is_err_and(|text| text.contains("Lost"));
        if !is_lost || self.deaths < DEATHS_MAX {
            assert_eq!(result, Ok(right), "{task} ended wrong");
        }
    }

    fn check_end(mut self) -> SiegeReport {
        self.own.keys().for_each(|&task| self.check(task));
        let own = std::mem::take(&mut self.own);
        own.keys().for_each(|&task| self.program.release(task));
        // What the program says of that arrives.
        for _ in 0..TASKS_MAX {
            self.go_on();
        }
        self.program.check_empty();
        let left = self.engine.tables().expect("it has some").leftovers();
        assert_eq!(left, None, "nothing is kept of bytes");
        assert_eq!(self.engine.core.record_count(), 0, "nothing is kept of tasks");
        let count = self.engine.lanes.functions.used_count();
        assert!(count <= 1, "{count} functions are kept");
        self.report
    }
}
