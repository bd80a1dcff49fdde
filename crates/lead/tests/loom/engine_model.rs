//! The surroundings of the token, as small as possible: a mutex, a bell, a ring that is one flag per task, and sleepers.
//!
//! No sleep has a time limit here: a fault that the limits of the real sleeps would hide is a deadlock, which loom reports.

use gristmill_shm::Bell;
use gristmill_sync::atomic::{AtomicBool, Ordering};
use gristmill_sync::barrier::BarrierMode;
use loom::sync::{Condvar, Mutex, MutexGuard};

use gristmill_lead::{HandOver, Lead, Leader};

const MODE: BarrierMode = BarrierMode::Fence;
const TASK_COUNT: usize = 2;

/// The rules of the hand-over; a model takes one away to show that it is needed.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// A leader gives the token up when it leaves.
    pub gives_up: bool,
    /// The thread that gets the token is woken.
    pub passes_on: bool,
    /// A thread that adds work wakes the parked attendant.
    pub summons: bool,
    /// An attendant that sleeps until it is woken is recorded as parked.
    pub remembers_parking: bool,
}

impl Rules {
    pub const ALL: Self =
        Self { gives_up: true, passes_on: true, summons: true, remembers_parking: true };
}

/// A caller that waits, as in the client.
#[derive(Debug, Default, Clone, Copy)]
struct Waiter {
    is_waiting: bool,
    is_asleep: bool,
    is_called: bool,
}

#[derive(Debug)]
struct State {
    lead: Lead,
    submitted: usize,
    is_complete: [bool; TASK_COUNT],
    waiters: [Waiter; TASK_COUNT],
}

impl State {
    fn has_obligations(&self) -> bool {
        self.is_complete[..self.submitted].contains(&false)
    }

    fn has_ended(&self) -> bool {
        !self.is_complete.contains(&false)
    }
}

/// One client with its worker.
#[derive(Debug)]
pub struct EngineModel {
    rules: Rules,
    state: Mutex<State>,
    /// The result ring.
    answers: [AtomicBool; TASK_COUNT],
    bell: Bell,
    attendant: Condvar,
    callers: [Condvar; TASK_COUNT],
}

impl EngineModel {
    pub fn new(rules: Rules, submitted: usize) -> Self {
        let state = State {
            lead: Lead::default(),
            submitted,
            is_complete: [false; TASK_COUNT],
            waiters: [Waiter::default(); TASK_COUNT],
        };
        Self {
            rules,
            state: Mutex::new(state),
            answers: [const { () }; TASK_COUNT].map(|()| AtomicBool::new(false)),
            bell: Bell::default(),
            attendant: Condvar::new(),
            callers: [const { () }; TASK_COUNT].map(|()| Condvar::new()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("a model never poisons its lock")
    }

    /// Publishes an answer and then rings the bell, as the worker does.
    pub fn answer(&self, task: usize) {
        self.answers[task].store(true, Ordering::Release); // PAIRS: answer (`has_arrived`)
        self.bell.ring(MODE);
    }

    /// Submits one more task, for which no caller waits.
    pub fn submit(&self) -> usize {
        let mut state = self.lock();
        let task = state.submitted;
        state.submitted += 1;
        self.leave(state, false);
        task
    }

    fn has_arrived(&self, task: usize) -> bool {
        self.answers[task].load(Ordering::Acquire) // PAIRS: answer (`answer`)
    }

    /// Completes the tasks that have arrived, and calls the callers that wait for them.
    fn drain(&self, state: &mut State) {
        for task in 0..state.submitted {
            if !state.is_complete[task] && self.has_arrived(task) {
                state.is_complete[task] = true;
                state.lead.note_attended();
                if state.waiters[task].is_waiting {
                    state.waiters[task].is_called = true;
                    self.callers[task].notify_one();
                }
            }
        }
        if state.has_ended() {
            self.attendant.notify_one();
        }
    }

    /// Completes tasks, as a caller does, until its own task is complete.
    pub fn wait_for(&self, task: usize) {
        let mut is_leader = false;
        let mut state = self.lock();
        loop {
            self.drain(&mut state);
            if state.is_complete[task] {
                return self.leave(state, is_leader);
            }
            is_leader = is_leader || state.lead.try_take(Leader::Caller);
            state = if is_leader { self.lead_once(state) } else { self.sleep(state, task) };
        }
    }

    /// Sleeps on a condition of its own until its task is complete or the token comes.
    fn sleep<'a>(&'a self, mut state: MutexGuard<'a, State>, task: usize) -> MutexGuard<'a, State> {
        state.waiters[task] = Waiter { is_waiting: true, is_asleep: true, is_called: false };
        state.lead.begin_wait();
        while !state.waiters[task].is_called {
            state = self.callers[task].wait(state).expect("a model never poisons its lock");
        }
        state.lead.end_wait();
        state.waiters[task] = Waiter::default();
        state
    }

    /// Sleeps on the bell once, with the token.
    fn lead_once<'a>(&'a self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let missing: Vec<usize> =
            (0..TASK_COUNT).filter(|&task| !state.is_complete[task]).collect();
        drop(state);
        let still_empty = || !missing.iter().any(|&task| self.has_arrived(task));
        self.bell.sleep(MODE, still_empty, None);
        let mut state = self.lock();
        self.drain(&mut state);
        state
    }

    /// Passes on the token of a leader, or wakes the attendant if obligations are left without a leader.
    fn leave(&self, mut state: MutexGuard<'_, State>, is_leader: bool) {
        let has_obligations = state.has_obligations();
        if is_leader {
            if self.rules.gives_up {
                let next = state.lead.give_up(has_obligations);
                self.pass_on(&mut state, next);
            }
        } else if has_obligations && self.rules.summons && state.lead.summon() {
            self.pass_on(&mut state, HandOver::Attendant);
        }
    }

    fn pass_on(&self, state: &mut State, next: HandOver) {
        if !self.rules.passes_on {
            return;
        }
        match next {
            HandOver::Caller => {
                let heir = (0..TASK_COUNT)
                    .find(|&task| state.waiters[task].is_asleep && !state.waiters[task].is_called);
                if let Some(heir) = heir {
                    state.waiters[heir].is_called = true;
                    self.callers[heir].notify_one();
                }
            }
            HandOver::Attendant => self.attendant.notify_one(),
            HandOver::NoThread => {}
        }
    }

    /// Runs the attendant until everything is complete. Its patience is over at once: no time passes in a model.
    pub fn attend(&self) {
        let mut state = self.lock();
        while !state.has_ended() {
            if !state.has_obligations() || state.lead.leader() == Leader::Caller {
                if self.rules.remembers_parking {
                    state.lead.park();
                }
                state = self.attendant.wait(state).expect("a model never poisons its lock");
                continue;
            }
            if state.lead.take_attended() {
                continue;
            }
            while state.has_obligations() && state.lead.try_take(Leader::Attendant) {
                self.drain(&mut state);
                if state.has_obligations() {
                    state = self.lead_once(state);
                }
                let has_obligations = state.has_obligations();
                let next = state.lead.give_up(has_obligations);
                self.pass_on(&mut state, next);
            }
        }
    }
}
