//! The hand-over of the token under the model checker: the rules of `src/README.md`, and each rule's absence.
//!
//! `RUSTFLAGS="--cfg gristmill_loom" LOOM_MAX_PREEMPTIONS=3 cargo test -p gristmill-client --release --test loom`
#![cfg(gristmill_loom)]

#[path = "../src/lead.rs"]
mod lead;

#[path = "loom/world.rs"]
mod world;

use loom::thread::JoinHandle;
use std::sync::Arc;
use world::{Rules, World};

fn spawn(world: &Arc<World>, body: impl FnOnce(&World) + 'static) -> JoinHandle<()> {
    let world = Arc::clone(world);
    loom::thread::spawn(move || body(&world))
}

/// A caller waits for task 0; nobody waits for task 1, which somebody wants to hear of. A worker answers both.
fn a_task_that_nobody_waits_for(rules: Rules) {
    loom::model(move || {
        let world = Arc::new(World::new(rules, 2));
        let attendant = spawn(&world, World::attend);
        let worker = spawn(&world, |world| (0..2).for_each(|task| world.answer(task)));
        world.wait_for(0);
        attendant.join().expect("the attendant returns once both are complete");
        worker.join().expect("the worker returns");
    });
}

/// As before, but the second task comes while the caller may lead already.
fn a_task_that_comes_while_a_caller_leads(rules: Rules) {
    loom::model(move || {
        let world = Arc::new(World::new(rules, 1));
        let attendant = spawn(&world, World::attend);
        let submitter = spawn(&world, |world| {
            let task = world.submit();
            world.answer(0);
            world.answer(task);
        });
        world.wait_for(0);
        submitter.join().expect("the submitter returns");
        attendant.join().expect("the attendant returns once both are complete");
    });
}

/// The second task comes when its submitter has ceased to wait: nobody may be left who looks.
fn a_task_that_comes_when_nobody_leads(rules: Rules) {
    loom::model(move || {
        let world = Arc::new(World::new(rules, 1));
        let attendant = spawn(&world, World::attend);
        let worker = spawn(&world, |world| world.answer(0));
        world.wait_for(0);
        let task = world.submit();
        world.answer(task);
        worker.join().expect("the worker returns");
        attendant.join().expect("the attendant returns once both are complete");
    });
}

/// Two callers, each with a task of its own: one leads, and the other one inherits the token.
fn two_callers(rules: Rules) {
    loom::model(move || {
        let world = Arc::new(World::new(rules, 2));
        let other = spawn(&world, |world| world.wait_for(1));
        let worker = spawn(&world, |world| (0..2).for_each(|task| world.answer(task)));
        world.wait_for(0);
        other.join().expect("the other caller returns");
        worker.join().expect("the worker returns");
    });
}

#[test]
fn what_nobody_waits_for_is_completed() {
    a_task_that_nobody_waits_for(Rules::ALL);
}

#[test]
fn what_comes_while_a_caller_leads_is_completed() {
    a_task_that_comes_while_a_caller_leads(Rules::ALL);
}

#[test]
fn what_comes_when_nobody_leads_is_completed() {
    a_task_that_comes_when_nobody_leads(Rules::ALL);
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
fn a_token_that_nobody_is_told_of_leaves_the_other_asleep() {
    two_callers(Rules { passes_on: false, ..Rules::ALL });
}

#[test]
#[should_panic = "deadlock"]
fn a_token_that_is_not_passed_on_leaves_the_task_undone() {
    a_task_that_nobody_waits_for(Rules { passes_on: false, ..Rules::ALL });
}

#[test]
#[should_panic = "deadlock"]
fn an_attendant_that_is_not_summoned_leaves_the_task_undone() {
    a_task_that_comes_when_nobody_leads(Rules { summons: false, ..Rules::ALL });
}

#[test]
#[should_panic = "deadlock"]
fn an_attendant_whose_parking_is_forgotten_leaves_the_task_undone() {
    a_task_that_comes_while_a_caller_leads(Rules { remembers_parking: false, ..Rules::ALL });
}
