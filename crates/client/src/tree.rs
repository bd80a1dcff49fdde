//! The processes behind the slots: what the graph orders of them, and what the keeper tells of them.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use gristmill_core::{Loss, LossCause, Progress, StartFailure};
use gristmill_keeper::{
    Commands, Event, Exit, ExitStatus, Program, WorkerKey, ZygoteEnd, kill_tree_leftovers,
    send_signal, wait_for_end,
};
use gristmill_wire::{Epoch, Kind, SlotId};

use crate::inner::Inner;
use crate::lanes::{Lane, Order, next_epoch};
use crate::outcome::cause_text;
use crate::peers::LinkWork;
use crate::port::call_progress;

/// The signal that makes a worker look whether it is to be interrupted.
pub const INTERRUPT_SIGNAL: i32 = libc::SIGURG;
/// What a zygote exits with that found threads beside its own: forking it would copy locks that nobody will open.
pub const THREADED_EXIT_CODE: i32 = 86;
/// Keepers that may die in a row, with no worker ready in between, before the workers that they were starting count as
/// failures to start: more than somebody kills at random, few enough to end soon where none can live.
const KEEPERS_LOST_MAX: u32 = 20;
/// How long workers may take to leave at the end before they are killed.
const LEAVE_GRACE: Duration = Duration::from_secs(5);

/// What is known of the processes.
#[derive(Debug)]
pub(crate) struct Tree {
    commands: Commands,
    program: Program,
    descriptors: Vec<OwnedFd>,
    spawns_fresh: bool,
    /// The zygote of now; a new one gets the next number.
    zygote: u32,
    state: ZygoteState,
    /// Workers to be forked once the zygote is ready.
    waiting: Vec<WorkerKey>,
    epochs: Vec<Epoch>,
    /// Keepers that died since a worker was ready.
    keepers_lost: u32,
    closing: Closing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ZygoteState {
    Absent,
    Starting,
    Ready,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Closing {
    No,
    /// The graph winds down.
    Asked,
    /// The keeper was told to end.
    Told,
}

impl Tree {
    pub fn new(
        commands: Commands,
        program: Program,
        descriptors: Vec<OwnedFd>,
        (spawns_fresh, slot_count): (bool, usize),
    ) -> Self {
        Self {
            commands,
            program,
            descriptors,
            spawns_fresh,
            zygote: 0,
            state: ZygoteState::Absent,
            waiting: Vec::new(),
            epochs: vec![Epoch(0); slot_count],
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

    /// Where workers come from, for messages.
    fn origin(&self) -> String {
        if self.spawns_fresh {
            let path = self.program.arguments.first().map_or(&[][..], |path| path);
            format!("the interpreter {}", String::from_utf8_lossy(path))
        } else {
            "their zygote".to_owned()
        }
    }

    fn borrowed(&self) -> Vec<BorrowedFd<'_>> {
        self.descriptors.iter().map(AsFd::as_fd).collect()
    }

    /// Starts the process of a worker; an error is a sentence.
    fn spawn(&mut self, worker: WorkerKey) -> Result<(), String> {
        if self.spawns_fresh {
            let mut program = self.program.clone();
            program.arguments.push(format!("{}.{}", worker.slot.0, worker.epoch.0).into_bytes());
            let descriptors = self.borrowed();
            return self
                .commands
                .spawn_fresh(worker, program, &descriptors)
                .map_err(|error| error.to_string());
        }
        match self.state {
            ZygoteState::Ready => {
                self.commands.spawn(self.zygote, worker, &[]).map_err(|error| error.to_string())
            }
            ZygoteState::Starting => {
                self.waiting.push(worker);
                Ok(())
            }
            ZygoteState::Absent => {
                self.zygote += 1;
                let descriptors = self.borrowed();
                self.commands
                    .start_zygote(self.zygote, self.program.clone(), &descriptors)
                    .map_err(|error| error.to_string())?;
                self.state = ZygoteState::Starting;
                self.waiting.push(worker);
                Ok(())
            }
        }
    }
}

impl Inner {
    /// Carries out one order of the graph.
    pub fn obey(&mut self, order: &Order) {
        match *order {
            Order::Spawn(slot) => self.spawn(slot),
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
        }
    }

    fn spawn(&mut self, slot: SlotId) {
        let place = usize::from(slot.0);
        self.tree.epochs[place] = next_epoch(self.tree.epochs[place]);
        let worker = WorkerKey { slot, epoch: self.tree.epochs[place] };
        self.lanes.close(slot);
        self.lanes.arena.renew(slot);
        let segment = self.shared.segment.clone();
        let started = segment
            .reset_lane(slot, worker.epoch)
            .and_then(|()| self.lanes.open(&segment, worker))
            .map_err(|error| error.to_string())
            .and_then(|()| self.tree.spawn(worker));
        // The leader sleeps by a list of rings that does not have this one.
        self.shared.kick();
        if let Err(text) = started {
            self.fail_start(slot, format!("worker {} could not be started: {text}", slot.0), false);
        }
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
        let epoch = lane.worker.epoch;
        match failure {
            None => {
                lane.is_ready = true;
                self.tree.keepers_lost = 0;
                self.core.slot_ready(slot, epoch, now, &mut self.lanes);
            }
            Some(text) => self.fail_start(slot, text, true),
        }
    }

    /// Takes in what the keeper tells.
    pub fn on_event(&mut self, event: Event) {
        match event {
            Event::Up { .. } | Event::Refused { .. } => {}
            Event::ZygoteReady { zygote, .. } if zygote == self.tree.zygote => {
                self.tree.state = ZygoteState::Ready;
                self.spawn_waiting();
            }
            Event::ZygoteReady { .. } => {}
            Event::ZygoteLost { zygote, end, stderr_tail } => {
                if zygote == self.tree.zygote {
                    self.zygote_lost(end, &stderr_tail);
                }
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

    fn spawn_waiting(&mut self) {
        for worker in std::mem::take(&mut self.tree.waiting) {
            if let Err(text) = self.tree.spawn(worker) {
                self.fail_start(worker.slot, text, false);
            }
        }
    }

    /// A zygote's end concerns only the workers that it was to fork. One that ended by itself before it was ready will
    /// do so next time; one that was killed need not.
    fn zygote_lost(&mut self, end: ZygoteEnd, stderr_tail: &[u8]) {
        let was_ready = self.tree.state == ZygoteState::Ready;
        let was_killed = matches!(end, ZygoteEnd::Exited(ExitStatus::Signal { .. }));
        self.tree.state = ZygoteState::Absent;
        if end == ZygoteEnd::Exited(ExitStatus::Code(THREADED_EXIT_CODE)) {
            // The next zygote would have the same threads: from now on each worker is an interpreter of its own.
            self.tree.spawns_fresh = true;
            return self.spawn_waiting();
        }
        let how = match end {
            ZygoteEnd::NotStarted { errno } => {
                let path = self.tree.program.arguments.first().map_or(&[][..], |path| path);
                let reason = std::io::Error::from_raw_os_error(errno);
                format!("the interpreter {} cannot be run: {reason}", String::from_utf8_lossy(path))
            }
            ZygoteEnd::Exited(status) => {
                format!(
                    "the process that workers are forked from ended with {status} while it started"
                )
            }
        };
        let tail = String::from_utf8_lossy(stderr_tail);
        let text = if tail.is_empty() { how } else { format!("{how}:\n{tail}") };
        for worker in std::mem::take(&mut self.tree.waiting) {
            self.fail_start(worker.slot, text.clone(), !was_ready && !was_killed);
        }
    }

    /// A worker is dead and reaped: its last answers are taken in, then the graph is told.
    fn worker_exited(&mut self, exit: &Exit) {
        if self.lane_of(exit.worker).is_none() {
            return;
        }
        let cause = match exit.status {
            ExitStatus::Code(code) => LossCause::Exit(code),
            ExitStatus::Signal { signal, .. } => LossCause::Signal(signal),
            ExitStatus::Unknown => LossCause::Stalled,
        };
        let detail = String::from_utf8_lossy(&exit.stderr_tail).into_owned();
        self.bury(exit.worker.slot, cause, exit.oom, detail);
    }

    fn bury(&mut self, slot: SlotId, cause: LossCause, oom: bool, detail: String) {
        let now = self.lanes.read_clock();
        self.drain_lane(slot, usize::MAX, now);
        self.take_growing(slot);
        let Some(lane) = self.lanes.lane(slot) else { return };
        if !lane.is_ready {
            if cause == LossCause::Keeper && self.tree.keepers_lost <= KEEPERS_LOST_MAX {
                // It did not fail to start: it is started again, and costs no task anything.
                return self.spawn(slot);
            }
            let text =
                format!("worker {} {} before it was ready\n{detail}", slot.0, cause_text(cause));
            self.fail_start(slot, text, false);
            return;
        }
        let reader = lane.ends.control.progress();
        let claimed = reader.claimed();
        let progress = Progress {
            calls: reader.batch().map(|batch| call_progress(batch, claimed)),
            claimed,
            started: reader.started(),
            ended: reader.ended(),
            started_at_ns: 0,
        };
        let cause = if lane.is_corrupt { LossCause::Corrupt } else { cause };
        let (epoch, pid) = (lane.worker.epoch, lane.pid);
        self.lanes.close(slot);
        self.drop_nested(slot);
        let loss = Loss { cause, pid, oom, detail: detail.into(), progress };
        self.core.slot_lost(slot, epoch, loss, now, &mut self.lanes);
    }

    /// The keeper was killed. Its workers die with it; once they are dead their rings tell what had started.
    pub fn keeper_lost(&mut self, commands: Commands) {
        for lane in self.lanes.lanes.iter().flatten() {
            signal(lane, libc::SIGKILL);
        }
        for lane in self.lanes.lanes.iter().flatten() {
            if let Some(pidfd) = &lane.pidfd {
                wait_for_end(pidfd.as_fd());
            }
        }
        kill_tree_leftovers(self.tree.commands.token());
        self.tree.commands = commands;
        self.tree.keepers_lost += 1;
        self.tree.state = ZygoteState::Absent;
        self.tree.waiting.clear();
        if self.tree.closing == Closing::Told {
            // It was the old keeper that was told, perhaps when it was dead already.
            self.tree.closing = Closing::Asked;
        }
        for place in 0..self.lanes.lanes.len() {
            if self.lanes.lanes[place].is_some() {
                let slot = SlotId(u16::try_from(place).unwrap_or(u16::MAX));
                self.bury(slot, LossCause::Keeper, false, String::new());
            }
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

    /// Tells the keeper to end all processes now.
    pub fn end_processes(&mut self) {
        if self.tree.closing != Closing::Told {
            self.tree.closing = Closing::Told;
            let _ = self.tree.commands.shutdown(Duration::ZERO);
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

/// Signals a worker, if it was born.
fn signal(lane: &Lane, signal: i32) {
    if let Some(pidfd) = &lane.pidfd {
        send_signal(pidfd.as_fd(), signal);
    }
}
