//! The processes behind the slots: what the graph orders of them, and what the keeper tells of them.

mod deaths;
mod zygotes;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use gristmill_core::{LEAVE_GRACE_NS, Outfit, StartFailure};
use gristmill_keeper::{
    Commands, Event, ExitStatus, Program, WorkerKey, ZygoteEnd, memory_copy, send_signal,
};
use gristmill_wire::{ContextId, Epoch, Equipment, Kind, SlotId};

use crate::blobs::BlobWork as _;
use crate::contexts::ContextDefinition;
use crate::inner::Inner;
use crate::lanes::{Lane, Order, next_epoch};
use crate::peers::{ContextTelling as _, LinkWork};
use crate::provisions::ProvisionWork as _;
pub use zygotes::{SETUP_ALARM, SETUP_EXIT_CODE, THREADED_EXIT_CODE};
use zygotes::{Zygote, ZygoteState, Zygotes, is_final, obituary};

/// The signal that makes a worker look whether it is to be interrupted.
pub const INTERRUPT_SIGNAL: i32 = libc::SIGURG;
/// The last argument of a process that has a context to set up: its description is the last of the descriptors.
const CONTEXT_ARGUMENT: &[u8] = b"context";
/// Has the C library ask for huge pages for what is allocated in a context's process, which costs nothing there: forks of it
/// copy less. The process hides it from programs.
const HUGE_PAGES: &[u8] = b"GLIBC_TUNABLES=glibc.malloc.hugetlb=1";
/// How long workers may take to leave at the end before they are killed.
pub(crate) const LEAVE_GRACE: Duration = Duration::from_nanos(LEAVE_GRACE_NS);

/// What is known of the processes.
#[derive(Debug)]
pub(crate) struct Tree {
    commands: Commands,
    program: Program,
    descriptors: Vec<OwnedFd>,
    /// Every worker is an interpreter of its own.
    spawns_fresh: bool,
    zygotes: Zygotes,
    /// The process of each slot.
    places: Vec<Place>,
    /// Keepers that died since a worker was ready.
    keepers_lost: u32,
    closing: Closing,
}

/// The last process that was asked for in a slot.
#[derive(Debug, Clone)]
struct Place {
    epoch: Epoch,
    context: ContextId,
    /// What it has besides its place.
    outfit: Outfit,
    /// When it was asked for, nanoseconds.
    since: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Closing {
    No,
    /// The graph winds down.
    Asked,
    /// The keeper was told to end.
    Told,
}

/// A process that is to be started.
struct Birth<'a> {
    worker: WorkerKey,
    context: ContextId,
    /// What it is to set up, if anything.
    definition: Option<&'a ContextDefinition>,
    /// The same, as processes are told it.
    setup: Option<Arc<[u8]>>,
    /// What it has besides its place.
    outfit: &'a Outfit,
    now: u64,
}

impl Tree {
    pub fn new(
        commands: Commands,
        program: Program,
        descriptors: Vec<OwnedFd>,
        (spawns_fresh, slot_count): (bool, usize),
    ) -> Self {
        let nobody =
            Place { epoch: Epoch(0), context: ContextId(0), outfit: Outfit::default(), since: 0 };
        Self {
            commands,
            program,
            descriptors,
            spawns_fresh,
            zygotes: Zygotes::default(),
            places: vec![nobody; slot_count],
            keepers_lost: 0,
            closing: Closing::No,
        }
    }

    pub fn is_closing(&self) -> bool {
        self.closing == Closing::Asked
    }

    /// Whether the keeper's end is the expected one.
    pub fn was_told_to_end(&self) -> bool {
        self.closing == Closing::Told
    }

    fn place(&self, slot: SlotId) -> &Place {
        &self.places[usize::from(slot.0)]
    }

    fn interpreter(&self) -> String {
        let path = self.program.arguments.first().map_or(&[][..], |path| path);
        String::from_utf8_lossy(path).into_owned()
    }

    /// Where workers come from, for messages.
    fn origin(&self) -> String {
        if self.spawns_fresh {
            format!("the interpreter {}", self.interpreter())
        } else {
            "their zygote".to_owned()
        }
    }

    /// Starts the process of a worker; an error is a sentence.
    fn spawn(&mut self, birth: &Birth<'_>) -> Result<(), String> {
        let needs_own = birth.definition.is_some_and(ContextDefinition::needs_own_setup);
        let zygote = self.zygotes.get(birth.context);
        zygote.is_unneeded = false;
        if self.spawns_fresh || needs_own || zygote.spawns_fresh {
            return self.spawn_fresh(birth);
        }
        match zygote.state {
            ZygoteState::Ready => {
                let number = zygote.number;
                self.commands.spawn(number, birth.worker, &[]).map_err(|error| error.to_string())
            }
            ZygoteState::Starting => {
                zygote.waiting.push(birth.worker);
                Ok(())
            }
            ZygoteState::Absent => self.start_zygote(birth),
        }
    }

    fn spawn_fresh(&self, birth: &Birth<'_>) -> Result<(), String> {
        let WorkerKey { slot, epoch } = birth.worker;
        let mut program = self.program.clone();
        program.arguments.push(format!("{}.{}", slot.0, epoch.0).into_bytes());
        if birth.outfit.equipment != Equipment::NONE {
            program.arguments.push(equipment_argument(birth.outfit).into_bytes());
        }
        self.with_descriptors(program, birth.setup.as_deref(), |program, descriptors| {
            self.commands.spawn_fresh(birth.worker, program, descriptors)
        })
    }

    fn start_zygote(&mut self, birth: &Birth<'_>) -> Result<(), String> {
        let number = self.zygotes.next_number();
        let program = self.program.clone();
        self.with_descriptors(program, birth.setup.as_deref(), |program, descriptors| {
            self.commands.start_zygote(number, program, descriptors)
        })?;
        *self.zygotes.get(birth.context) = Zygote {
            number,
            state: ZygoteState::Starting,
            since: birth.now,
            waiting: vec![birth.worker],
            ..Zygote::default()
        };
        Ok(())
    }

    /// Has a context's zygote leave, if there is one; its workers live on.
    fn stop_zygote(&mut self, context: ContextId) {
        if let Some(zygote) = self.zygotes.remove(context) {
            // A keeper that does not take it is dead, and the zygote with it.
            let _ = self.commands.stop_zygote(zygote);
        }
    }

    /// Has a process start with what all have, and with what it is to set up.
    fn with_descriptors<E: std::fmt::Display>(
        &self,
        mut program: Program,
        setup: Option<&[u8]>,
        start: impl FnOnce(Program, &[BorrowedFd<'_>]) -> Result<(), E>,
    ) -> Result<(), String> {
        let mut descriptors: Vec<BorrowedFd<'_>> =
            self.descriptors.iter().map(AsFd::as_fd).collect();
        let setup = setup.map(|setup| memory_copy(c"gristmill-context", setup));
        let setup = setup.transpose().map_err(|error| error.to_string())?;
        if let Some(setup) = &setup {
            program.arguments.push(CONTEXT_ARGUMENT.to_vec());
            descriptors.push(setup.as_fd());
            let is_tuned = |item: &Vec<u8>| item.starts_with(b"GLIBC_TUNABLES=");
            if !program.environment.iter().any(is_tuned) {
                program.environment.push(HUGE_PAGES.to_vec());
            }
        }
        start(program, &descriptors).map_err(|error| error.to_string())
    }
}

impl Inner {
    /// Carries out one order of the graph.
    pub fn obey(&mut self, order: &Order) {
        match *order {
            Order::Spawn(slot, context, ref outfit) => self.spawn(slot, context, outfit.clone()),
            Order::Kill(slot) => {
                if let Some(lane) = self.lanes.lane(slot) {
                    let worker = lane.worker;
                    // A keeper that does not take it is about to be found dead, which ends the worker too.
                    let _ = self.tree.commands.kill(worker, libc::SIGKILL);
                }
            }
            Order::Interrupt(slot) => {
                let mode = self.lanes.mode;
                if let Some(lane) = self.lanes.lane(slot) {
                    lane.is_interrupt_due = lane.pidfd.is_none();
                    signal(lane, INTERRUPT_SIGNAL);
                    // One that waits for other tasks may be about to sleep: the signal alone would come too early.
                    lane.ends.control.peer_bell().ring(mode);
                }
            }
            Order::Retire(slot) => {
                if let Some(lane) = self.lanes.lane(slot) {
                    lane.ends.control.stop();
                }
                if !self.lanes.write_control(slot, Kind::Stop, &[], &[]) {
                    // It leaves when it has read what its ring is full of.
                    self.lanes.touch(slot);
                }
            }
            Order::UnloadContext(context) => self.tree.stop_zygote(context),
            Order::DropContext(context) => {
                self.tree.stop_zygote(context);
                self.lanes.tell_dropped(context);
                self.drop_provision(context);
                for &digest in self.lanes.contexts.drop(context).iter() {
                    self.lanes.giving.release_file(digest);
                }
                self.spread_blobs();
            }
        }
    }

    fn spawn(&mut self, slot: SlotId, context: ContextId, outfit: Outfit) {
        let now = self.lanes.read_clock();
        let place = &mut self.tree.places[usize::from(slot.0)];
        *place = Place { epoch: next_epoch(place.epoch), context, outfit, since: now };
        let worker = WorkerKey { slot, epoch: place.epoch };
        self.lanes.close(slot);
        self.lanes.arena.renew(slot);
        let segment = self.shared.segment.clone();
        let started = segment
            .reset_lane(slot, worker.epoch)
            .and_then(|()| self.lanes.open(&segment, worker))
            .map_err(|error| error.to_string())
            .and_then(|()| self.start_process(worker, context));
        // The leader sleeps by a list of rings that does not have this one.
        self.shared.kick();
        if let Err(text) = started {
            self.fail_start(slot, format!("worker {} could not be started: {text}", slot.0), false);
        }
    }

    fn start_process(&mut self, worker: WorkerKey, context: ContextId) -> Result<(), String> {
        let definition = self.lanes.contexts.get(context);
        let now = self.lanes.now();
        let setup = self.lanes.contexts.setup(context);
        let outfit = self.tree.place(worker.slot).outfit.clone();
        self.tree.spawn(&Birth { worker, context, definition, setup, outfit: &outfit, now })
    }

    fn fail_start(&mut self, slot: SlotId, text: String, permanent: bool) {
        self.lanes.close(slot);
        let now = self.lanes.read_clock();
        let failure = StartFailure { text: text.into(), permanent, is_expiry: false };
        self.core.slot_failed(slot, failure, now, &mut self.lanes);
    }

    /// A worker says that its initializer has returned, or what it raised.
    pub fn worker_ready(&mut self, slot: SlotId, failure: Option<String>, now: u64) {
        let Some(lane) = self.lanes.lane(slot) else { return };
        let (epoch, pid) = (lane.worker.epoch, lane.pid);
        match failure {
            None => {
                lane.is_ready = true;
                self.tree.keepers_lost = 0;
                self.note_own_setup(slot, pid, now);
                self.core.slot_ready(slot, epoch, now, &mut self.lanes);
            }
            Some(text) => {
                let definition = self.lanes.contexts.get(self.tree.place(slot).context);
                let of = definition.map(|one| format!("context {:?}: ", one.name));
                self.fail_start(slot, of.unwrap_or_default() + &text, true);
            }
        }
    }

    /// A worker that no zygote has set a context up for has done so itself.
    fn note_own_setup(&mut self, slot: SlotId, pid: u32, now: u64) {
        let &Place { context, since, .. } = self.tree.place(slot);
        if self.lanes.contexts.get(context).is_some()
            && self.tree.zygotes.get(context).state != ZygoteState::Ready
        {
            let memory = memory_of(pid);
            self.lanes.contexts.note_setup(context, now.saturating_sub(since), memory);
            let has = |place: &&Place| place.context == context;
            let workers = self.tree.places.iter().filter(has).count() as u64;
            let Self { core, lanes, .. } = self;
            core.context_loaded(context, memory.saturating_mul(workers), now, lanes);
        }
    }

    /// Takes in what the keeper tells.
    pub fn on_event(&mut self, event: Event) {
        match event {
            Event::Up { .. } | Event::Refused { .. } => {}
            Event::ZygoteReady { zygote, pid } => self.zygote_ready(zygote, pid.unsigned_abs()),
            Event::ZygoteLost { zygote, end, stderr_tail } => {
                self.zygote_lost(zygote, end, &stderr_tail);
            }
            Event::Born(birth) => {
                if let Some(lane) = self.lane_of(birth.worker) {
                    lane.pid = birth.pid.unsigned_abs();
                    lane.pidfd = birth.pidfd;
                    if std::mem::take(&mut lane.is_interrupt_due) {
                        signal(lane, INTERRUPT_SIGNAL);
                    }
                }
            }
            Event::SpawnFailed { worker, text } => {
                if self.lane_of(worker).is_some() {
                    let text = String::from_utf8_lossy(&text);
                    let by = self.tree.origin();
                    let text =
                        format!("worker {} could not be started by {by}: {text}", worker.slot.0);
                    self.fail_start(worker.slot, text, false);
                }
            }
            Event::Exited(exit) => self.worker_exited(&exit),
        }
    }

    fn lane_of(&mut self, worker: WorkerKey) -> Option<&mut Lane> {
        self.lanes.lane(worker.slot).filter(|lane| lane.worker == worker)
    }

    fn zygote_ready(&mut self, number: u32, pid: u32) {
        let now = self.lanes.read_clock();
        let Some((context, zygote)) = self.tree.zygotes.find(number) else { return };
        zygote.state = ZygoteState::Ready;
        let (since, is_unneeded) = (zygote.since, zygote.is_unneeded);
        let memory = memory_of(pid);
        self.lanes.contexts.note_setup(context, now.saturating_sub(since), memory);
        let Self { core, lanes, .. } = self;
        core.context_loaded(context, memory, now, lanes);
        self.start_waiting(context);
        if is_unneeded {
            self.tree.stop_zygote(context);
        }
    }

    fn start_waiting(&mut self, context: ContextId) {
        for worker in std::mem::take(&mut self.tree.zygotes.get(context).waiting) {
            if let Err(text) = self.start_process(worker, context) {
                self.fail_start(worker.slot, text, false);
            }
        }
    }

    /// A zygote's end concerns only the workers that it was to fork. One that ended by itself before it was ready will
    /// do so next time; one that was killed need not.
    fn zygote_lost(&mut self, number: u32, end: ZygoteEnd, stderr_tail: &[u8]) {
        let Some((context, zygote)) = self.tree.zygotes.find(number) else { return };
        let was_ready = zygote.state == ZygoteState::Ready;
        zygote.state = ZygoteState::Absent;
        if end == ZygoteEnd::Exited(ExitStatus::Code(THREADED_EXIT_CODE)) {
            // The next zygote would have the same threads: from now on each worker is an interpreter of its own.
            zygote.spawns_fresh = true;
            return self.start_waiting(context);
        }
        let waiting = std::mem::take(&mut zygote.waiting);
        let name = self.lanes.contexts.get(context).map(|definition| &*definition.name);
        let text = obituary(end, name, &self.tree.interpreter(), stderr_tail);
        for worker in waiting {
            self.fail_start(worker.slot, text.clone(), !was_ready && is_final(end));
        }
    }

    /// Begins the end: no more tasks from outside.
    pub fn begin_shutdown(&mut self, cancels: bool) {
        if self.tree.closing == Closing::No {
            self.tree.closing = Closing::Asked;
        }
        let now = self.lanes.read_clock();
        self.core.shut_down(cancels, now, &mut self.lanes);
    }

    /// Tells the keeper to end all processes, those that are not gone after the grace by killing them.
    pub fn end_processes(&mut self, grace: Duration) {
        if self.tree.closing != Closing::Told {
            self.tree.closing = Closing::Told;
            let _ = self.tree.commands.shutdown(grace);
        }
    }

    /// Tells the keeper to end once nothing is left to do.
    pub fn advance_shutdown(&mut self) {
        if self.tree.closing == Closing::Asked && self.core.is_drained() && self.core.is_empty() {
            self.tree.closing = Closing::Told;
            self.end_links("the client has finished");
            // A keeper that does not take it is dead: the watcher finds that out.
            let _ = self.tree.commands.shutdown(LEAVE_GRACE);
            self.call_waiters(|_| true);
        }
    }
}

/// How an interpreter that is to be a worker is told what it has before it sets its context up: its GPUs, a bit each, how
/// many places it fills, and the slots of these where they are named.
fn equipment_argument(outfit: &Outfit) -> String {
    let slots: Vec<String> = outfit.places.iter().map(|slot| slot.0.to_string()).collect();
    format!(
        "equipment={}:{}:{}",
        outfit.equipment.devices,
        outfit.equipment.places,
        slots.join(",")
    )
}

/// Signals a worker, if it was born.
fn signal(lane: &Lane, signal: i32) {
    if let Some(pidfd) = &lane.pidfd {
        send_signal(pidfd.as_fd(), signal);
    }
}

/// Memory of a process that is not shared with files, bytes; 0 if it is gone.
fn memory_of(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse().ok());
    kilobytes.map_or(0, |kilobytes: u64| kilobytes << 10)
}
