//! The engine against a model that knows only what the caller may expect.

use std::collections::HashMap;

use gristmill_core::{
    CancelMode, CancelOutcome, Config, Origin, SlotState, Status, Supply, TaskId, TaskOptions,
};
use gristmill_wire::{ResourceRequest, Verdict};
use proptest::prelude::*;

use crate::fake::{Engine, engine_with};

#[derive(Debug, Clone)]
enum Event {
    Submit(Vec<usize>, ResourceRequest),
    Answer(usize, bool),
    Cancel(usize),
    Lose(u16),
    Pass(u64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (proptest::collection::vec(0usize..64, 0..3), demand())
            .prop_map(|(parents, demand)| Event::Submit(parents, demand)),
        6 => (0usize..64, proptest::bool::weighted(0.9))
            .prop_map(|(at, good)| Event::Answer(at, good)),
        1 => (0usize..64).prop_map(Event::Cancel),
        1 => (0u16..2).prop_map(Event::Lose),
        1 => (0u64..400_000).prop_map(Event::Pass),
    ]
}

/// Generates demands. Most tasks need a worker and no other resource.
fn demand() -> impl Strategy<Value = ResourceRequest> {
    let gpus = prop_oneof![Just(0), Just(400), Just(1000), Just(2000)];
    let some = (1u16..3, gpus, 0u64..8);
    let some = some.prop_map(|(cores, gpus, memory)| ResourceRequest { cores, gpus, memory });
    prop_oneof![3 => Just(ResourceRequest::NONE), 1 => some]
}

/// Parents of each task and, once decided, its end.
#[derive(Default)]
struct Model {
    order: Vec<TaskId>,
    parents: HashMap<TaskId, Vec<TaskId>>,
    ends: HashMap<TaskId, Status>,
}

impl Model {
    fn end(&mut self, task: TaskId, status: Status) {
        assert_eq!(self.ends.insert(task, status), None, "{task} ends once");
        if status == Status::Succeeded {
            return;
        }
        let hit: Vec<TaskId> = self
            .order
            .iter()
            .copied()
            .filter(|one| self.parents[one].contains(&task) && !self.ends.contains_key(one))
            .collect();
        for child in hit {
            if !self.ends.contains_key(&child) {
                self.end(child, Status::DependencyFailed);
            }
        }
    }

    fn may_run(&self, task: TaskId) -> bool {
        let done = |parent| self.ends.get(parent) == Some(&Status::Succeeded);
        !self.ends.contains_key(&task) && self.parents[&task].iter().all(done)
    }
}

fn apply(engine: &mut Engine, model: &mut Model, event: Event) {
    match event {
        Event::Submit(picks, demand) => {
            let pick = |at: usize| model.order.get(at % model.order.len().max(1)).copied();
            let parents: Vec<TaskId> = picks.into_iter().filter_map(pick).collect();
            let options = TaskOptions { demand, ..TaskOptions::default() };
            let options = (!demand.is_none()).then_some(options);
            let task = engine.submit_as(&parents, options, Origin::External).unwrap();
            let failed =
                |parent| model.ends.get(parent).is_some_and(|&end| end != Status::Succeeded);
            let is_doomed = parents.iter().any(failed);
            model.order.push(task);
            model.parents.insert(task, parents);
            if is_doomed {
                model.end(task, Status::DependencyFailed);
            }
        }
        Event::Answer(at, is_good) => {
            let slot = u16::try_from(at % 2).unwrap();
            let Some(record) = engine.port.sent.iter().find(|one| one.slot == slot).cloned() else {
                return;
            };
            let (verdict, end) = if is_good {
                (Verdict::Returned, Status::Succeeded)
            } else {
                (Verdict::Raised, Status::Failed)
            };
            assert!(model.may_run(record.task), "only a task whose parents succeeded is sent");
            let _outcome = engine.answer(record.task, verdict);
            model.end(record.task, end);
        }
        Event::Cancel(at) => {
            let Some(&task) = model.order.get(at % model.order.len().max(1)) else { return };
            let outcome =
                engine.core.cancel(task, CancelMode::Unstarted, engine.now, &mut engine.port);
            assert_eq!(outcome == CancelOutcome::AlreadyFinal, model.ends.contains_key(&task));
            if outcome == CancelOutcome::Cancelled {
                model.end(task, Status::Cancelled);
            }
        }
        Event::Lose(slot) => {
            if engine.core.stats().slots[usize::from(slot)].state != SlotState::Ready {
                return;
            }
            let first = engine.port.sent.iter().find(|one| one.slot == slot).map(|one| one.task);
            if let Some(task) = first {
                engine.start(task);
                model.end(task, Status::Lost);
            }
            engine.lose(slot);
        }
        Event::Pass(ns) => {
            engine.pass(ns);
            tend_workers(engine);
        }
    }
}

/// Ends the workers that were asked to leave, and brings those up that were asked for.
fn tend_workers(engine: &mut Engine) {
    for slot in std::mem::take(&mut engine.port.retired) {
        engine.lose(slot);
    }
    for slot in std::mem::take(&mut engine.port.spawned) {
        engine.up(slot);
    }
}

/// Runs the remaining tasks in order.
fn finish(engine: &mut Engine, model: &mut Model) {
    for step in 0..10_000 {
        if engine.core.stats().outstanding == 0 {
            return;
        }
        apply(engine, model, Event::Answer(step, true));
        apply(engine, model, Event::Pass(200_000_000));
    }
    panic!("the remaining tasks never run: {:?}", engine.core.stats());
}

proptest! {
    #[test]
    fn tasks_end_as_the_model_says(events in proptest::collection::vec(event(), 1..120)) {
        let supply = Supply { memory: 8, gpus: 0b11 };
        let config = Config { workers: 2, spare_max: 0, supply, ..Config::default() };
        let mut engine = engine_with(config);
        let mut model = Model::default();
        for event in events {
            apply(&mut engine, &mut model, event);
            engine.core.audit();
            let reported: HashMap<TaskId, Status> = engine.port.finished.iter().copied().collect();
            prop_assert_eq!(reported.len(), engine.port.finished.len(), "each end is reported once");
            prop_assert_eq!(&reported, &model.ends);
        }
        finish(&mut engine, &mut model);
        for task in model.order {
            engine.core.release(task);
        }
        let live = u64::from(engine.core.record_count());
        prop_assert!(live <= engine.core.stats().outstanding + model.ends.len() as u64);
    }
}
