//! Port of a scheduler core in the cluster: workers are simulated, messages to peers go over real links.

use gristmill_client::{BlobPort, Sending, is_inbound};
use gristmill_core::{
    Attempt, ContextId, Core, Dispatch, Floor, FunctionId, Holders, KillReason, Payload, PeerId,
    Port, RemoteDispatch, RingProgress, Sent, SlotId, Status, TakeBackResult, TaskId, WorkerGrant,
};
use gristmill_wire::peer::Control;

use super::sim_port::SimPort;
use crate::contexts::ContextPlan;
use crate::drive::Around;
use crate::memory::number_of;
use crate::random::SeededRandom;
use crate::world::{ProgramTask, SimWorld};

/// Returns the definition of a function of the program, made from its number.
fn definition(number: u64) -> Vec<u8> {
    format!("function {number}").into_bytes()
}

impl Around for SimPort {
    fn world(&mut self) -> &mut SimWorld {
        &mut self.world
    }

    /// Draws the function of a task. Now and then the program releases a function and defines a new one, which may get the same
    /// id.
    fn register(&mut self, number: usize, random: &mut SeededRandom) -> (FunctionId, u64) {
        if self.program.is_empty() {
            let function = self.functions.define(b"nested", "nested");
            return (function, handle(function, number));
        }
        let place = random.index(self.program.len());
        if random.chance(5) {
            let fresh = self.functions.define(&definition(random.next()), "f");
            let old = std::mem::replace(&mut self.program[place], fresh);
            if self.functions.release(old) {
                self.freed.push(old);
            }
        }
        let function = self.program[place];
        self.functions.use_again(function);
        (function, handle(function, number))
    }

    fn draw_context(
        &mut self,
        core: &mut Core,
        submitter: Option<usize>,
        plan: &ContextPlan,
        random: &mut SeededRandom,
    ) -> Option<ContextId> {
        self.name_context(core, submitter, plan, random)
    }

    fn draw_handles(&self, entry: &mut ProgramTask, submitter: Option<usize>) {
        entry.handles = self.handles(submitter);
    }

    fn draw_parts(&mut self, entry: &mut ProgramTask, random: &mut SeededRandom) {
        if let Some(plan) = self.plan {
            plan.draw_parts(entry, random);
        }
    }

    fn forget(&mut self, function: FunctionId) {
        if self.functions.release(function) {
            self.freed.push(function);
        }
    }
}

/// Packs a handle: the function is in the low half, the task's number plus 1 in the high one.
const fn handle(function: FunctionId, number: usize) -> u64 {
    function.0 as u64 | (number as u64 + 1) << 32
}

#[expect(clippy::cast_possible_truncation, reason = "the two halves")]
const fn split(handle: u64) -> (FunctionId, usize) {
    (FunctionId(handle as u32), (handle >> 32) as usize - 1)
}

impl Port for SimPort {
    fn send(&mut self, slot: SlotId, frame: Dispatch<'_>) -> Sent {
        let number = number_of(self.world.memory.get(frame.payload));
        let (attempt, is_own) = (frame.attempt, !self.program.is_empty());
        let values = frame.parents.clone().map(|(_, value)| value);
        self.world.check_contents(number, frame.payload, values);
        let sent = self.world.send(slot, frame);
        if is_own && matches!(sent, Sent::Written(_)) {
            self.note_placement(number, attempt, None);
        }
        sent
    }

    fn take_back(&mut self, slot: SlotId, sequences: &[u64], taken: &mut Vec<TakeBackResult>) {
        self.world.take_back(slot, sequences, taken);
    }

    fn set_floor(&mut self, slot: SlotId, priority: i32) {
        self.world.set_floor(slot, priority);
    }

    fn progress(&self, slot: SlotId) -> RingProgress {
        self.world.progress(slot)
    }

    fn interrupt(&mut self, slot: SlotId, sequence: u64) {
        self.world.interrupt(slot, sequence);
    }

    fn kill(&mut self, slot: SlotId, why: KillReason) {
        self.world.kill(slot, why);
    }

    fn spawn(&mut self, slot: SlotId, context: ContextId, grant: WorkerGrant) {
        self.learn_context(context);
        self.world.spawn(slot, context, grant);
    }

    fn context_dropped(&mut self, context: ContextId) {
        self.drop_context(context);
    }

    fn retire(&mut self, slot: SlotId) {
        self.world.retire(slot);
    }

    fn send_to_peer(&mut self, peer: PeerId, dispatch: RemoteDispatch<'_>) -> Sent {
        let number = number_of(self.world.memory.get(dispatch.task.payload));
        let entry = &self.world.ledger[number];
        let is_own = entry.owner == self.world.engine;
        assert!(!is_own || entry.status.is_none(), "a final task was sent to a peer");
        assert_eq!(dispatch.parents.clone().count(), entry.parents.len(), "one result a parent");
        let attempt = dispatch.task.attempt;
        let may_stay = dispatch.may_stay;
        let sent = self.delegate(peer, &dispatch);
        if matches!(sent, Sent::Written(_)) {
            let line = self.line_of(peer);
            self.world.log(|| format!("send {number} attempt {} over line {line:?}", attempt.0));
            self.note_placement(number, attempt, line);
            self.world.ledger[number].may_stay |= may_stay;
        }
        sent
    }

    /// Returns an arbitrary holder if the seed has no large parts: every argument then counts as large and as held by one peer,
    /// which the task's number determines. That peer may not exist.
    fn holders(&self, payload: &Payload, near: PeerId) -> Holders {
        if self.plan.is_some() {
            return self.blob_look().holders(payload, near);
        }
        let number = number_of(self.world.memory.get(payload));
        let peer = PeerId(u16::try_from(number % 8).expect("small"));
        Holders { peers: vec![peer], fetch_ns: 1_000_000 }
    }

    fn stop_at_peer(&mut self, peer: PeerId, task: TaskId, attempt: Attempt, grace_ns: u64) {
        self.say(peer, &Control::Stop { task, attempt, grace_ns });
    }

    fn withdraw_from_peer(&mut self, peer: PeerId, task: TaskId, attempt: Attempt) {
        self.world.log(|| format!("withdraw {task} attempt {attempt} from {peer}"));
        self.say(peer, &Control::Withdraw { task, attempt });
    }

    fn recall_from_peer(&mut self, peer: PeerId, count: u32) {
        self.world.log(|| format!("recall {count} from {peer}"));
        self.say(peer, &Control::Recall { count });
    }

    fn floor_at_peer(&mut self, peer: PeerId, context: ContextId, floor: (Floor, u32)) {
        self.world.log(|| format!("floor {floor:?} of context {context} at {peer}"));
        self.say_floor(peer, context, floor);
    }

    fn tell_vacant(&mut self, peer: PeerId, context: ContextId, (count, mark): (u32, u32)) {
        self.world.log(|| format!("{count} of context {context} vacant for {peer}, mark {mark}"));
        self.say_vacant(peer, context, (count, mark));
    }

    fn finished(&mut self, task: TaskId, handle: u64, status: Status) {
        if self.functions.release(split(handle).0) {
            self.freed.push(split(handle).0);
        }
        if is_inbound(handle) {
            if status == Status::Refused {
                self.world.refused.insert(task);
            }
            self.ended.push((task, handle));
            return;
        }
        let number = split(handle).1;
        if self.world.ledger[number].depth > 0 {
            self.unneeded.push(task);
        }
        if status == Status::Lost {
            self.note_unknown(number);
        }
        let entry = &self.world.ledger[number];
        let is_exact = status != Status::Cancelled || entry.may_stop || !self.has_begun(number);
        assert!(is_exact || entry.depth > 0, "task {number} is cancelled, and has begun");
        self.world.end_task(task, number, status);
    }

    fn is_asleep(&self, slot: SlotId) -> bool {
        self.world.is_asleep(slot)
    }

    fn ticks(&self) -> u64 {
        self.world.now
    }
}
