//! Deaths: of workers, with what their rings say of what had started, and of the keeper.

use std::os::fd::AsFd;

use gristmill_core::{Loss, LossCause, Progress};
use gristmill_keeper::{Commands, Exit, ExitStatus, kill_tree_leftovers, wait_for_end};
use gristmill_wire::SlotId;

use super::zygotes::SETUP_ALARM;
use super::{Closing, Place, signal};
use crate::contexts::ContextDefinition;
use crate::inner::Inner;
use crate::outcome::death_text;
use crate::port::call_progress;

/// Keepers that may die in a row, with no worker ready in between, before the workers that they were starting count as
/// failures to start: more than somebody kills at random, few enough to end soon where none can live.
const KEEPERS_LOST_MAX: u32 = 20;
impl Inner {
    /// A worker is dead and reaped: its last answers are taken in, then the graph is told.
    pub(super) fn worker_exited(&mut self, exit: &Exit) {
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
                let Place { context, outfit, .. } = self.tree.place(slot).clone();
                return self.spawn(slot, context, outfit);
            }
            return self.fail_early(slot, cause, oom, &detail);
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

    /// A worker has ended before it was ready: most likely in what it is to set up, if there is such.
    fn fail_early(&mut self, slot: SlotId, cause: LossCause, oom: bool, detail: &str) {
        let end = death_text(cause, oom);
        let text = match self.lanes.contexts.get(self.tree.place(slot).context) {
            Some(ContextDefinition { name, .. }) if cause == LossCause::Signal(SETUP_ALARM) => {
                format!("the setup of context {name:?} did not return in time and was stopped")
            }
            Some(ContextDefinition { name, .. }) => {
                format!("worker {} {end} before context {name:?} was set up", slot.0)
            }
            None => format!("worker {} {end} before it was ready", slot.0),
        };
        let is_late = cause == LossCause::Signal(SETUP_ALARM);
        let text = if detail.is_empty() { text } else { format!("{text}:\n{detail}") };
        self.fail_start(slot, text, is_late);
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
        self.tree.zygotes.lose_all();
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
}
