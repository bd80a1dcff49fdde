//! The hand-over of the token under the model checker: the rules of `README.md`, and each rule's absence.
//!
//! `RUSTFLAGS="--cfg gristmill_loom" LOOM_MAX_PREEMPTIONS=3 cargo test -p gristmill-lead --release --test loom`
#![cfg(gristmill_loom)]

#[path = "loom/engine_model.rs"]
mod engine_model;

use engine_model::{EngineModel, Rules};
use gristmill_lead::NapWord;
use loom::sync::Mutex;
use loom::thread::JoinHandle;
use std::sync::Arc;

fn spawn(engine: &Arc<EngineModel>, body: impl FnOnce(&EngineModel) + 'static) -> JoinHandle<()> {
    let engine = Arc::clone(engine);
    loom::thread::spawn(move || body(&engine))
}

/// Models a caller that waits for task 0, and a task 1 for which no caller waits but which is watched. A worker answers both.
fn a_task_without_a_waiter(rules: Rules) {
    loom::model(move || {
        let engine = Arc::new(EngineModel::new(rules, 2));
        let attendant = spawn(&engine, EngineModel::attend);
        let worker = spawn(&engine, |engine| (0..2).for_each(|task| engine.answer(task)));
        engine.wait_for(0);
        attendant.join().expect("the attendant returns once both are complete");
        worker.join().expect("the worker returns");
    });
}

/// Models the same, but the second task comes while the caller may lead already.
fn a_task_that_comes_while_a_caller_leads(rules: Rules) {
    loom::model(move || {
        let engine = Arc::new(EngineModel::new(rules, 1));
        let attendant = spawn(&engine, EngineModel::attend);
        let submitter = spawn(&engine, |engine| {
            let task = engine.submit();
            engine.answer(0);
            engine.answer(task);
        });
        engine.wait_for(0);
        submitter.join().expect("the submitter returns");
        attendant.join().expect("the attendant returns once both are complete");
    });
}

/// Models a second task that comes after its submitter has stopped waiting: there may be no thread left that looks.
fn a_task_that_comes_without_a_leader(rules: Rules) {
    loom::model(move || {
        let engine = Arc::new(EngineModel::new(rules, 1));
        let attendant = spawn(&engine, EngineModel::attend);
        let worker = spawn(&engine, |engine| engine.answer(0));
        engine.wait_for(0);
        let task = engine.submit();
        engine.answer(task);
        worker.join().expect("the worker returns");
        attendant.join().expect("the attendant returns once both are complete");
    });
}

/// Models two callers, each with its own task: one leads, and the other inherits the token.
fn two_callers(rules: Rules) {
    loom::model(move || {
        let engine = Arc::new(EngineModel::new(rules, 2));
        let other = spawn(&engine, |engine| engine.wait_for(1));
        let worker = spawn(&engine, |engine| (0..2).for_each(|task| engine.answer(task)));
        engine.wait_for(0);
        other.join().expect("the other caller returns");
        worker.join().expect("the worker returns");
    });
}

/// Models a leader that naps until it sees a change under the mutex, and the thread that makes the change.
fn a_change_during_a_nap(ends_nap: bool) {
    loom::model(move || {
        let shared = Arc::new((Mutex::new(false), NapWord::default()));
        let changing = Arc::clone(&shared);
        let changer = loom::thread::spawn(move || {
            let (has_changed, nap) = &*changing;
            *has_changed.lock().expect("a model never poisons its lock") = true;
            if ends_nap {
                nap.end();
            }
        });
        let (has_changed, nap) = &*shared;
        loop {
            let guard = has_changed.lock().expect("a model never poisons its lock");
            if *guard {
                break;
            }
            nap.begin();
            drop(guard);
            nap.sleep(None);
        }
        changer.join().expect("the changing thread returns");
    });
}

#[test]
fn a_kick_ends_a_nap() {
    a_change_during_a_nap(true);
}

#[test]
#[should_panic = "deadlock"]
fn a_change_without_a_kick_is_not_seen_before_the_nap_is_over() {
    a_change_during_a_nap(false);
}

#[test]
fn a_task_without_waiters_is_completed() {
    a_task_without_a_waiter(Rules::ALL);
}

#[test]
fn what_comes_while_a_caller_leads_is_completed() {
    a_task_that_comes_while_a_caller_leads(Rules::ALL);
}

#[test]
fn a_task_that_arrives_without_a_leader_is_completed() {
    a_task_that_comes_without_a_leader(Rules::ALL);
}

#[test]
fn a_waiting_caller_inherits_the_token() {
    two_callers(Rules::ALL);
}

#[test]
#[should_panic = "deadlock"]
fn a_caller_that_keeps_the_token_leaves_the_other_asleep() {
    two_callers(Rules { gives_up: false, ..Rules::ALL });
}

#[test]
#[should_panic = "deadlock"]
fn a_token_passed_without_a_wake_up_leaves_the_other_asleep() {
    two_callers(Rules { passes_on: false, ..Rules::ALL });
}

#[test]
#[should_panic = "deadlock"]
fn a_token_that_is_not_passed_on_leaves_the_task_undone() {
    a_task_without_a_waiter(Rules { passes_on: false, ..Rules::ALL });
}

#[test]
#[should_panic = "deadlock"]
fn an_attendant_that_is_not_summoned_leaves_the_task_undone() {
    a_task_that_comes_without_a_leader(Rules { summons: false, ..Rules::ALL });
}

#[test]
#[should_panic = "deadlock"]
fn an_attendant_whose_parking_is_forgotten_leaves_the_task_undone() {
    a_task_that_comes_while_a_caller_leads(Rules { remembers_parking: false, ..Rules::ALL });
}
