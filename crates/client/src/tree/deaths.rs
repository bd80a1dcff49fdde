//! Deaths of workers, with the started tasks by the state of their rings, and of the keeper.

use std::os::fd::AsFd;

use gristmill_core::{Loss, LossCause, RingProgress, WorkerGrant};
use gristmill_keeper::{
    Commands, Exit, ExitStatus, kill_tree_leftovers, send_signal, wait_for_end,
};
use gristmill_wire::SlotId;

use super::zygotes::SETUP_ALARM;
use super::{Closing, SlotProcess};
use crate::contexts::ContextDefinition;
use crate::inner::Inner;
use crate::outcome::death_text;
use crate::port::call_progress;

/// Upper limit of the processes of workers that have left their slots: each has its own memory, and may last 5 s.
const LEAVERS_MAX: usize = 16;
/// Number of keepers that may die in a row, without a ready worker in between, before the deaths of the workers that they were
/// starting count as failures to start. More than random kills reach, few enough to end soon where no keeper can live.
const KEEPERS_LOST_MAX: u32 = 20;
impl Inner {
    /// Frees the slot of a worker that was asked to leave and has left its rings; its process ends by itself. Does not free the
    /// slot yet if the process has more resources than a CPU slot, keeps blocks, or too many such processes exist.
    pub(super) fn worker_left(&mut self, slot: SlotId) {
        let has_more = self.tree.process(slot).grant != WorkerGrant::default();
        let is_free =
            !has_more && self.port.keeps_nothing(slot) && self.tree.leavers.len() < LEAVERS_MAX;
        let Some(channel) = self.port.channel(slot) else { return };
        if channel.is_leaving && is_free {
            self.tree.leavers.insert(channel.worker);
            self.bury(slot, LossCause::Exit(0), false, String::new());
        }
    }

    /// Handles the end of a worker that is dead and reaped: takes its last answers in, then tells the graph.
    pub(super) fn worker_exited(&mut self, exit: &Exit) {
        self.tree.leavers.remove(&exit.worker);
        if self.port.channel_of(exit.worker).is_none() {
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
        let now = self.port.read_clock();
        self.drain_channel(slot, usize::MAX, now);
        self.take_growing(slot);
        let Some(channel) = self.port.channel(slot) else { return };
        if !channel.is_ready {
            if cause == LossCause::Keeper && self.tree.keepers_lost <= KEEPERS_LOST_MAX {
                // The worker did not fail to start: it is started again, at no cost to any task.
                let SlotProcess { context, grant, .. } = self.tree.process(slot).clone();
                return self.spawn(slot, context, grant);
            }
            return self.fail_early(slot, cause, oom, &detail);
        }
        let reader = channel.ends.control.progress();
        let claimed = reader.claimed();
        let progress = RingProgress {
            calls: reader.batch().map(|batch| call_progress(batch, claimed)),
            claimed,
            started: reader.started(),
            ended: reader.ended(),
            started_at_ns: 0,
        };
        let cause = if channel.is_corrupt { LossCause::Corrupt } else { cause };
        let loading = channel.ends.control.loading().unwrap_or_default().into();
        let (epoch, pid) = (channel.worker.epoch, channel.pid);
        self.port.close(slot);
        self.drop_nested(slot);
        let loss = Loss { cause, pid, oom, detail: detail.into(), loading, progress };
        self.core.slot_lost(slot, epoch, loss, now, &mut self.port);
    }

    /// Handles a worker that ended before it was ready: most likely in the setup of its context, if it has one.
    fn fail_early(&mut self, slot: SlotId, cause: LossCause, oom: bool, detail: &str) {
        let end = death_text(cause, oom);
        let loading = self.port.channel(slot).and_then(|channel| channel.ends.control.loading());
        let doing = loading.map_or_else(String::new, |loading| format!(" while {loading}"));
        let is_late = cause == LossCause::Signal(SETUP_ALARM);
        let slot_name = slot.0;
        let text = match self.port.contexts.get(self.tree.process(slot).context) {
            Some(ContextDefinition { name, .. }) if is_late => format!(
                "context {name:?} was not set up in time, and worker {slot_name} was stopped{doing}"
            ),
            Some(ContextDefinition { name, .. }) => {
                format!("worker {slot_name} {end}{doing} before context {name:?} was set up")
            }
            None if is_late => {
                format!("worker {slot_name} was not ready in time and was stopped{doing}")
            }
            None => format!("worker {slot_name} {end}{doing} before it was ready"),
        };
        let text = if detail.is_empty() { text } else { format!("{text}:\n{detail}") };
        self.fail_start(slot, text, is_late);
    }

    /// Handles the death of the keeper: its workers die with it. Once they are dead, their rings tell which tasks had started.
    pub fn keeper_lost(&mut self, commands: Commands) {
        let handles =
            || self.port.channels.iter().flatten().filter_map(|channel| channel.pidfd.as_ref());
        handles().for_each(|handle| send_signal(handle.as_fd(), libc::SIGKILL));
        handles().for_each(|handle| wait_for_end(handle.as_fd()));
        kill_tree_leftovers(self.tree.commands.token());
        self.tree.commands = commands;
        self.tree.leavers.clear();
        self.tree.keepers_lost += 1;
        self.tree.zygotes.lose_all();
        if self.tree.closing == Closing::EndSent {
            // The command to end went to the old keeper, which may have been dead already.
            self.tree.closing = Closing::Requested;
        }
        for place in 0..self.port.channels.len() {
            if self.port.channels[place].is_some() {
                let slot = SlotId(u16::try_from(place).unwrap_or(u16::MAX));
                self.bury(slot, LossCause::Keeper, false, String::new());
            }
        }
    }
}
