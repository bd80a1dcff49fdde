//! Acts of the obedient workers, which their engine learns of.

use gristmill_core::{Core, Epoch, Loss, LossCause, Payload, SlotId, TaskId};
use gristmill_wire::{AnswerFrame, PayloadKind, Span, Verdict, WorkerState};

use super::engine::HostilePort;
use super::workers::WorkerAction;

/// Lets the worker in a slot do one thing; returns the task if it has returned.
pub(super) fn act(
    core: &mut Core,
    port: &mut HostilePort,
    slot: SlotId,
    action: &WorkerAction,
) -> Option<TaskId> {
    let now = port.now;
    let worker = port.workers.at(slot);
    let epoch = Epoch(worker.epoch);
    if std::mem::take(&mut worker.is_wanted) {
        worker.is_up = true;
        core.slot_ready(slot, epoch, now, port);
        return None;
    }
    if !worker.is_up {
        return None;
    }
    if worker.is_killed || *action == WorkerAction::Dies {
        let progress = worker.progress;
        *worker = worker.restarted();
        let cause = LossCause::Signal(9);
        let loss =
            Loss { cause, pid: 7, oom: false, detail: "".into(), loading: "".into(), progress };
        core.slot_lost(slot, epoch, loss, now, port);
        return None;
    }
    let (record, verdict) = port.workers.action(slot, action, now)?;
    let has_returned = verdict == Verdict::Returned;
    let (bytes, parts) = &record.arguments;
    let payload =
        if has_returned { port.payloads.run(bytes, parts) } else { Payload::copy_from(bytes) };
    let frame = AnswerFrame {
        task: record.task,
        sequence: u32::try_from(record.sequence).expect("few records"),
        attempt: record.attempt,
        verdict,
        payload: PayloadKind::Inline,
        worker_state: WorkerState::Hot,
        started_ticks: now,
        claimed_before: Span::from_ticks(1),
        ran: Span::from_ticks(1_000),
        published_after: Span::from_ticks(1),
        payload_size: 0,
    };
    let _ = core.answered(slot, &frame, payload, now, port);
    has_returned.then_some(record.task)
}
