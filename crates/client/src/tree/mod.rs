//! The processes in the slots: carries out the graph's effects on them, and handles the keeper's events.

mod deaths;
mod loading_file;
mod zygotes;

use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use gristmill_core::{LEAVE_GRACE_NS, StartFailure, WorkerGrant};
use gristmill_keeper::{
    Commands, ExitStatus, KeeperEvent, Program, WorkerKey, ZygoteEnd, leaves_room, memory_copy,
    send_signal,
};
use gristmill_wire::{ContextId, Epoch, RecordKind, ResourceGrant, SlotId};

use crate::blobs::BlobWork as _;
use crate::client_port::{GraphEffect, WorkerChannel, next_epoch};
use crate::contexts::ContextDefinition;
use crate::inner::Inner;
use crate::peers::{ContextTelling as _, LinkWork};
use crate::staging::StagingWork as _;
use loading_file::LoadingFile;
pub use zygotes::{SETUP_ALARM, SETUP_EXIT_CODE, THREADED_EXIT_CODE};
use zygotes::{Zygote, ZygoteStartFailure, ZygoteState, Zygotes, is_final};

/// The signal that makes a worker check whether it has to interrupt its task.
pub const INTERRUPT_SIGNAL: i32 = libc::SIGURG;
/// The last argument of a process that has a context to set up: the description of the context is the last of the descriptors.
const CONTEXT_ARGUMENT: &[u8] = b"context";
/// Environment variable by which the C library requests huge pages for allocations in a context's process. Huge pages cost
/// nothing there, and forks of the process copy less. The process hides the variable from programs.
const HUGE_PAGES: &[u8] = b"GLIBC_TUNABLES=glibc.malloc.hugetlb=1";
/// Time that workers have to leave at the end before they are killed.
pub(crate) const LEAVE_GRACE: Duration = Duration::from_nanos(LEAVE_GRACE_NS);

/// The client's state of the processes.
#[derive(Debug)]
pub(crate) struct Tree {
    commands: Commands,
    program: Program,
    descriptors: Vec<OwnedFd>,
    /// True if every worker is an interpreter of its own.
    spawns_fresh: bool,
    zygotes: Zygotes,
    /// The last process of each slot.
    processes: Vec<SlotProcess>,
    /// Workers that have left their slots and whose processes still run.
    leavers: BTreeSet<WorkerKey>,
    /// Number of keepers that died since a worker was last ready.
    keepers_lost: u32,
    closing: Closing,
}

/// The last process that was requested for a slot.
#[derive(Debug, Clone)]
struct SlotProcess {
    epoch: Epoch,
    context: ContextId,
    /// Resources of the process besides its CPU slot.
    grant: WorkerGrant,
    /// Time at which the process was requested, nanoseconds.
    since: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Closing {
    No,
    /// The graph winds down.
    Requested,
    /// The keeper was told to end.
    EndSent,
}

/// A request to start a process.
struct SpawnRequest<'a> {
    worker: WorkerKey,
    context: ContextId,
    /// Context that the process sets up, if any.
    definition: Option<&'a ContextDefinition>,
    /// The same context, as sent to processes.
    setup: Option<Arc<[u8]>>,
    /// Resources of the process besides its CPU slot.
    grant: &'a WorkerGrant,
    now: u64,
}

impl Tree {
    pub fn new(
        commands: Commands,
        program: Program,
        descriptors: Vec<OwnedFd>,
        (spawns_fresh, slot_count): (bool, usize),
    ) -> Self {
        let empty = SlotProcess {
            epoch: Epoch(0),
            context: ContextId(0),
            grant: WorkerGrant::default(),
            since: 0,
        };
        Self {
            commands,
            program,
            descriptors,
            spawns_fresh,
            zygotes: Zygotes::default(),
            processes: vec![empty; slot_count],
            leavers: BTreeSet::new(),
            keepers_lost: 0,
            closing: Closing::No,
        }
    }

    pub fn is_closing(&self) -> bool {
        self.closing == Closing::Requested
    }

    /// Returns true if the end of the keeper is expected.
    pub fn was_asked_to_end(&self) -> bool {
        self.closing == Closing::EndSent
    }

    /// Returns the module that a zygote loads while it starts.
    pub fn loading(&self) -> Option<String> {
        self.zygotes.loading()
    }

    fn process(&self, slot: SlotId) -> &SlotProcess {
        &self.processes[usize::from(slot.0)]
    }

    fn interpreter(&self) -> String {
        let path = self.program.arguments.first().map_or(&[][..], |path| path);
        String::from_utf8_lossy(path).into_owned()
    }

    /// Returns the origin of workers, for messages.
    fn origin(&self) -> String {
        if self.spawns_fresh {
            format!("the interpreter {}", self.interpreter())
        } else {
            "their zygote".to_owned()
        }
    }

    /// Starts the process of a worker; an error is a sentence.
    fn spawn(&mut self, request: &SpawnRequest<'_>) -> Result<(), String> {
        let needs_own = request.definition.is_some_and(ContextDefinition::needs_own_setup);
        let zygote = self.zygotes.get(request.context);
        zygote.is_unneeded = false;
        if self.spawns_fresh || needs_own || zygote.spawns_fresh {
            return self.spawn_fresh(request);
        }
        match zygote.state {
            ZygoteState::Ready => {
                let number = zygote.number;
                self.commands.spawn(number, request.worker, &[]).map_err(|error| error.to_string())
            }
            ZygoteState::Starting => {
                zygote.waiting.push(request.worker);
                Ok(())
            }
            ZygoteState::Absent => self.start_zygote(request),
        }
    }

    fn spawn_fresh(&self, request: &SpawnRequest<'_>) -> Result<(), String> {
        let WorkerKey { slot, epoch } = request.worker;
        let mut program = self.program.clone();
        program.arguments.push(format!("{}.{}", slot.0, epoch.0).into_bytes());
        if request.grant.grant != ResourceGrant::NONE {
            program.arguments.push(grant_argument(request.grant).into_bytes());
        }
        let setup = request.setup.as_deref();
        self.with_descriptors(program, None, setup, |program, descriptors| {
            self.commands.spawn_fresh(request.worker, program, descriptors)
        })
    }

    fn start_zygote(&mut self, request: &SpawnRequest<'_>) -> Result<(), String> {
        let number = self.zygotes.next_number();
        let program = self.program.clone();
        let loading = LoadingFile::new().map_err(|error| error.to_string())?;
        let setup = request.setup.as_deref();
        self.with_descriptors(program, Some(&loading), setup, |program, descriptors| {
            self.commands.start_zygote(number, program, descriptors)
        })?;
        *self.zygotes.get(request.context) = Zygote {
            number,
            state: ZygoteState::Starting,
            since: request.now,
            waiting: vec![request.worker],
            loading: Some(loading),
            ..Zygote::default()
        };
        Ok(())
    }

    /// Ends the zygote of a context, if there is one; its workers live on.
    fn stop_zygote(&mut self, context: ContextId) {
        if let Some(zygote) = self.zygotes.remove(context) {
            // A keeper that does not accept the command is dead, and the zygote with it.
            let _ = self.commands.stop_zygote(zygote);
        }
    }

    /// Starts a process with the descriptors that all have, the file for the names of loaded modules, and the context to set
    /// up.
    fn with_descriptors<E: std::fmt::Display>(
        &self,
        mut program: Program,
        loading: Option<&LoadingFile>,
        setup: Option<&[u8]>,
        start: impl FnOnce(Program, &[BorrowedFd<'_>]) -> Result<(), E>,
    ) -> Result<(), String> {
        let mut descriptors: Vec<BorrowedFd<'_>> =
            self.descriptors.iter().map(AsFd::as_fd).collect();
        descriptors.extend(loading.map(AsFd::as_fd));
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
    /// Carries out one effect that the graph decided.
    pub fn apply(&mut self, effect: &GraphEffect) {
        match *effect {
            GraphEffect::Spawn(slot, context, ref grant) => {
                self.spawn(slot, context, grant.clone())
            }
            GraphEffect::Kill(slot) => {
                if let Some(channel) = self.port.channel(slot) {
                    let worker = channel.worker;
                    // A keeper that does not accept the command is about to be found dead, which ends the worker too.
                    let _ = self.tree.commands.kill(worker, libc::SIGKILL);
                }
            }
            GraphEffect::EndStarted(slot, by) => {
                if let Some(channel) = self.port.channel(slot) {
                    let worker = channel.worker;
                    // A keeper that does not accept the command is about to be found dead, which ends the programs too.
                    let _ = self.tree.commands.end_started(worker, by);
                }
            }
            GraphEffect::Interrupt(slot) => {
                let mode = self.port.mode;
                if let Some(channel) = self.port.channel(slot) {
                    channel.is_interrupt_due = channel.pid == 0;
                    if !channel.is_interrupt_due {
                        interrupt(channel, &self.tree.commands);
                    }
                    // A worker that waits for other tasks may be about to sleep: the signal alone would come too early.
                    channel.ends.control.peer_bell().ring(mode);
                }
            }
            GraphEffect::Retire(slot) => {
                if let Some(channel) = self.port.channel(slot) {
                    channel.is_leaving = true;
                    channel.ends.control.stop();
                }
                if !self.port.write_control(slot, RecordKind::Stop, &[], &[]) {
                    // The worker leaves when it has read the records that fill its ring.
                    self.port.touch(slot);
                }
            }
            GraphEffect::Left(slot) => self.worker_left(slot),
            GraphEffect::UnloadContext(context) => self.tree.stop_zygote(context),
            GraphEffect::DropContext(context) => {
                self.tree.stop_zygote(context);
                self.port.tell_dropped(context);
                self.drop_staging(context);
                for &digest in self.port.contexts.drop(context).iter() {
                    self.port.provider.release_file(digest);
                }
                self.broadcast_blobs();
            }
        }
    }

    fn spawn(&mut self, slot: SlotId, context: ContextId, grant: WorkerGrant) {
        let now = self.port.read_clock();
        let process = &mut self.tree.processes[usize::from(slot.0)];
        *process = SlotProcess { epoch: next_epoch(process.epoch), context, grant, since: now };
        let worker = WorkerKey { slot, epoch: process.epoch };
        self.port.close(slot);
        self.port.arena.renew(slot);
        let segment = self.shared.segment.clone();
        let started = segment
            .reset_slot(slot, worker.epoch)
            .and_then(|()| self.port.open(&segment, worker))
            .map_err(|error| error.to_string())
            .and_then(|()| self.start_process(worker, context));
        // The leader sleeps on a list of rings that does not contain this one.
        self.shared.kick();
        if let Err(text) = started {
            self.fail_start(slot, format!("worker {} could not be started: {text}", slot.0), false);
        }
    }

    fn start_process(&mut self, worker: WorkerKey, context: ContextId) -> Result<(), String> {
        let definition = self.port.contexts.get(context);
        let now = self.port.now();
        let setup = self.port.contexts.setup(context);
        let grant = self.tree.process(worker.slot).grant.clone();
        self.tree.spawn(&SpawnRequest { worker, context, definition, setup, grant: &grant, now })
    }

    fn fail_start(&mut self, slot: SlotId, text: String, permanent: bool) {
        self.port.close(slot);
        let now = self.port.read_clock();
        let failure = StartFailure { text: text.into(), permanent, is_expiry: false };
        self.core.slot_failed(slot, failure, now, &mut self.port);
    }

    /// Handles the report of a worker that its initializer has returned, or raised the exception `failure`.
    pub fn worker_ready(&mut self, slot: SlotId, failure: Option<String>, now: u64) {
        let Some(channel) = self.port.channel(slot) else { return };
        let (epoch, pid) = (channel.worker.epoch, channel.pid);
        match failure {
            None => {
                channel.is_ready = true;
                self.tree.keepers_lost = 0;
                self.note_own_setup(slot, pid, now);
                self.core.slot_ready(slot, epoch, now, &mut self.port);
            }
            Some(text) => {
                let definition = self.port.contexts.get(self.tree.process(slot).context);
                let of = definition.map(|one| format!("context {:?}: ", one.name));
                self.fail_start(slot, of.unwrap_or_default() + &text, true);
            }
        }
    }

    /// Records the setup of a context by a worker itself, without a zygote.
    fn note_own_setup(&mut self, slot: SlotId, pid: u32, now: u64) {
        let &SlotProcess { context, since, .. } = self.tree.process(slot);
        if self.port.contexts.get(context).is_some()
            && self.tree.zygotes.get(context).state != ZygoteState::Ready
        {
            let memory = memory_of(pid);
            self.port.contexts.note_setup(context, now.saturating_sub(since), memory);
            let has = |process: &&SlotProcess| process.context == context;
            let workers = self.tree.processes.iter().filter(has).count() as u64;
            let Self { core, port, .. } = self;
            core.context_loaded(context, memory.saturating_mul(workers), now, port);
        }
    }

    /// Handles an event of the keeper.
    pub fn on_event(&mut self, event: KeeperEvent) {
        match event {
            KeeperEvent::Up { .. } | KeeperEvent::Refused { .. } => {}
            KeeperEvent::ZygoteReady { zygote, pid } => {
                self.zygote_ready(zygote, pid.unsigned_abs())
            }
            KeeperEvent::ZygoteLost { zygote, end, stderr_tail } => {
                self.zygote_lost(zygote, end, &stderr_tail);
            }
            KeeperEvent::Started(start) => {
                if let Some(channel) = self.port.channel_of(start.worker) {
                    channel.pid = start.pid.unsigned_abs();
                    channel.pidfd = start.pidfd.filter(|handle| leaves_room(handle.as_fd()));
                    if std::mem::take(&mut channel.is_interrupt_due) {
                        interrupt(channel, &self.tree.commands);
                    }
                }
            }
            KeeperEvent::SpawnFailed { worker, text } => {
                if self.port.channel_of(worker).is_some() {
                    let text = String::from_utf8_lossy(&text);
                    let by = self.tree.origin();
                    let text =
                        format!("worker {} could not be started by {by}: {text}", worker.slot.0);
                    self.fail_start(worker.slot, text, false);
                }
            }
            KeeperEvent::Exited(exit) => self.worker_exited(&exit),
        }
    }

    fn zygote_ready(&mut self, number: u32, pid: u32) {
        let now = self.port.read_clock();
        let Some((context, zygote)) = self.tree.zygotes.find(number) else { return };
        zygote.state = ZygoteState::Ready;
        zygote.loading = None;
        let (since, is_unneeded) = (zygote.since, zygote.is_unneeded);
        let memory = memory_of(pid);
        self.port.contexts.note_setup(context, now.saturating_sub(since), memory);
        let Self { core, port, .. } = self;
        core.context_loaded(context, memory, now, port);
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

    /// Handles the end of a zygote, which concerns only the workers that it was to fork. A zygote that ended by itself before
    /// it was ready will end so the next time; one that was killed may not.
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
        let loading = zygote.loading.take().and_then(|file| file.read());
        let context = self.port.contexts.get(context).map(|definition| &*definition.name);
        let interpreter = &*self.tree.interpreter();
        let loading = loading.as_deref();
        let text = ZygoteStartFailure { end, context, loading, interpreter, stderr_tail }.text();
        for worker in waiting {
            self.fail_start(worker.slot, text.clone(), !was_ready && is_final(end));
        }
    }

    /// Begins the end: no more tasks from outside are accepted.
    pub fn begin_shutdown(&mut self, cancels: bool) {
        if self.tree.closing == Closing::No {
            self.tree.closing = Closing::Requested;
        }
        let now = self.port.read_clock();
        self.core.shut_down(cancels, now, &mut self.port);
    }

    /// Tells the keeper to end all processes, and to kill those that are still there after the grace period.
    pub fn end_processes(&mut self, grace: Duration) {
        if self.tree.closing != Closing::EndSent {
            self.tree.closing = Closing::EndSent;
            let _ = self.tree.commands.shutdown(grace);
        }
    }

    /// Tells the keeper to end once no work is left.
    pub fn advance_shutdown(&mut self) {
        if self.tree.closing == Closing::Requested && self.core.is_drained() && self.core.is_empty()
        {
            self.tree.closing = Closing::EndSent;
            self.end_links("the client has finished");
            // A keeper that does not accept the command is dead: the watcher finds that out.
            let _ = self.tree.commands.shutdown(LEAVE_GRACE);
            self.call_waiters(|_| true);
        }
    }
}

/// Returns the argument that tells a new interpreter its resources before it sets its context up: its GPUs, one bit each, the
/// number of CPU slots that it fills, and the indices of these slots if they are named.
fn grant_argument(grant: &WorkerGrant) -> String {
    let slots: Vec<String> = grant.places.iter().map(|slot| slot.0.to_string()).collect();
    format!("grant={}:{}:{}", grant.grant.devices, grant.grant.places, slots.join(","))
}

/// Interrupts a running worker, through the keeper if the client has no handle of its process.
fn interrupt(channel: &WorkerChannel, commands: &Commands) {
    match &channel.pidfd {
        Some(handle) => send_signal(handle.as_fd(), INTERRUPT_SIGNAL),
        // A keeper that does not accept the command is about to be found dead, which ends the worker too.
        None => drop(commands.signal(channel.worker, INTERRUPT_SIGNAL)),
    }
}

/// Returns the memory of a process that is not shared with files, bytes; 0 if the process is gone.
fn memory_of(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse().ok());
    kilobytes.map_or(0, |kilobytes: u64| kilobytes << 10)
}
