//! Priorities across peers: a task that waits at one peer goes before those of a lower priority at every other one.

use gristmill_core::{
    Budgets, Config, ContextId, Floor, LossReport, Origin, Payload, PeerEnd, PeerId, StartFailure,
    Status, TaskId, TaskOptions,
};
use gristmill_wire::Verdict::{Returned, Skipped};

use crate::fake::{Engine, engine};
use crate::faraway::{client_of, client_with, returned};

pub const LONG_NS: u64 = 100_000_000;
pub const NONE: i32 = i32::MIN;
pub const PLAIN: ContextId = ContextId(0);

fn with(priority: i32) -> TaskOptions {
    TaskOptions { priority, ..TaskOptions::default() }
}

/// Returns a client whose peers have these numbers of workers, all with long tasks of priority 0. More of them wait
/// here.
fn busy(peers: &[u32], tasks: usize) -> Engine {
    let mut engine = client_of(peers);
    engine.teach_peers(LONG_NS);
    for _ in 0..tasks {
        let _low = engine.submit();
    }
    assert!(!engine.core.has_open_peer(), "all have enough to do");
    engine
}

impl Engine {
    /// Returns the floors of the peers, by their numbers.
    pub fn floors(&self, peers: u16) -> Vec<i32> {
        self.floors_in(PLAIN, peers)
    }

    /// Returns the floors of the peers for a context.
    pub fn floors_in(&self, context: ContextId, peers: u16) -> Vec<i32> {
        let floor = |peer| self.port.marks.get(&(peer, context)).map_or(NONE, |&(floor, _)| floor);
        (0..peers).map(floor).collect()
    }

    /// Reports vacant workers of a peer at which all tasks that were sent have arrived.
    pub fn vacant(&mut self, peer: u16, count: u32) {
        self.vacant_at(peer, count, self.mark(peer));
    }

    /// Reports vacant workers of a peer at which the tasks up to a mark have arrived.
    fn vacant_at(&mut self, peer: u16, count: u32, mark: u32) {
        self.vacant_in(PLAIN, peer, (count, mark));
    }

    /// Reports vacant workers with a context.
    pub fn vacant_in(&mut self, context: ContextId, peer: u16, word: (u32, u32)) {
        let place = (PeerId(peer), context);
        self.core.peer_vacant(place, word, self.now, &mut self.port);
        self.core.audit();
    }

    fn mark(&self, peer: u16) -> u32 {
        self.port.marks[&(peer, PLAIN)].1
    }

    fn kept(&mut self, task: TaskId) {
        let delegated = self.delegated(task);
        self.port.withdrawn.retain(|&one| one != task);
        let (peer, now) = (PeerId(delegated.peer), self.now);
        self.core.peer_kept_task(peer, task, delegated.attempt, now, &mut self.port);
        self.core.audit();
    }

    pub fn give_back(&mut self, task: TaskId) {
        self.port.withdrawn.retain(|&one| one != task);
        let _outcome = self.reply(task, PeerEnd::Unstarted);
    }
}

#[test]
fn a_task_that_waits_at_one_peer_is_a_floor_at_all_and_goes_to_the_first_that_is_vacant() {
    let mut engine = busy(&[1, 1, 1], 60);
    let high = engine.submit_with(with(10));
    let first = engine.peer_of(high).expect("its engine runs it first");
    assert_eq!(engine.floors(3), [10, 10, 10]);
    let other = (first + 1) % 3;
    engine.vacant(other, 1);
    assert_eq!(engine.port.withdrawn, [high]);
    assert_eq!(engine.floors(3), [10, 10, 10], "it has not begun");
    engine.give_back(high);
    assert_eq!(engine.peer_of(high), Some(other));
    assert_eq!(engine.floors(3), [NONE; 3], "it begins there at once");
    let _outcome = engine.reply(high, returned());
    engine.core.audit();
}

#[test]
fn one_that_has_begun_where_it_was_lets_others_go_on() {
    let mut engine = busy(&[1, 1], 30);
    let high = engine.submit_with(with(10));
    let first = engine.peer_of(high).unwrap();
    engine.vacant(1 - first, 1);
    engine.kept(high);
    assert_eq!((engine.peer_of(high), engine.floors(2)), (Some(first), vec![NONE, NONE]));
}

#[test]
fn one_that_ends_or_is_cancelled_lets_others_go_on() {
    let mut engine = busy(&[1, 1], 30);
    let ended = engine.submit_with(with(10));
    let _outcome = engine.reply(ended, returned());
    assert_eq!(engine.floors(2), [NONE, NONE]);
    let cancelled = engine.submit_with(with(10));
    assert_eq!(engine.floors(2), [10, 10]);
    let mode = gristmill_core::CancelMode::Unstarted;
    let _outcome = engine.core.cancel(cancelled, mode, engine.now, &mut engine.port);
    engine.give_back(cancelled);
    assert_eq!(engine.floors(2), [NONE, NONE]);
}

#[test]
fn the_peer_that_has_it_says_that_it_has_begun_by_being_vacant() {
    let mut engine = busy(&[1, 1], 30);
    let high = engine.submit_with(with(10));
    let first = engine.peer_of(high).unwrap();
    engine.vacant(first, 1);
    assert_eq!((engine.floors(2), engine.port.withdrawn.len()), (vec![NONE, NONE], 0));
}

#[test]
fn what_waits_with_the_next_priority_is_the_next_floor() {
    let mut engine = busy(&[1, 1], 30);
    let middle = engine.submit_with(with(3));
    let high = engine.submit_with(with(5));
    assert_eq!(engine.floors(2), [5, 5]);
    let _outcome = engine.reply(high, returned());
    assert_eq!(engine.floors(2), [3, 3]);
    let _outcome = engine.reply(middle, returned());
    assert_eq!(engine.floors(2), [NONE, NONE]);
}

#[test]
fn a_peer_that_cannot_run_it_goes_on_once_it_is_vacant() {
    let mut engine = busy(&[1, 1], 30);
    let high = engine.submit_with(with(10));
    let first = engine.peer_of(high).unwrap();
    let soon = engine.now + 1;
    engine.core.peer_lasts(PeerId(1 - first), soon, engine.now, &mut engine.port);
    engine.vacant(1 - first, 1);
    assert!(engine.port.withdrawn.is_empty(), "it would not be done there in time");
    let floors = engine.floors(2);
    assert_eq!((floors[usize::from(first)], floors[usize::from(1 - first)]), (10, NONE));
}

#[test]
fn a_lost_peer_leaves_no_floor_behind() {
    let mut engine = busy(&[1, 1, 1], 60);
    let high = engine.submit_with(with(10));
    let first = engine.peer_of(high).unwrap();
    engine.vacant((first + 1) % 3, 1);
    engine.lose_peer(first, &[]);
    let floors = engine.floors(3);
    let others = [(first + 1) % 3, (first + 2) % 3].map(|peer| floors[usize::from(peer)]);
    assert_eq!(others, [NONE, NONE]);
}

#[test]
fn a_peer_that_joins_while_one_waits_gets_the_floor_too() {
    let mut engine = busy(&[1, 1], 30);
    let _high = engine.submit_with(with(10));
    let joined = engine.port.floors_of_peers.len();
    engine.join(2, 1, 0);
    assert_eq!(engine.port.floors_of_peers.len(), joined + 1);
    assert_eq!(engine.floors(3), [10, 10, 10]);
}

#[test]
fn one_that_was_under_way_to_a_peer_that_is_vacant_begins_there_and_takes_its_worker() {
    let mut engine = busy(&[1, 1, 1], 60);
    let first = engine.submit_with(with(10));
    let place = engine.peer_of(first).unwrap();
    let before: Vec<u32> = (0..3).map(|peer| engine.mark(peer)).collect();
    let second = engine.submit_with(with(10));
    let crossed = engine.peer_of(second).unwrap();
    assert_ne!(crossed, place, "fewer go before it there");
    // The peer sent the report before the second task had arrived.
    engine.vacant_at(crossed, 1, before[usize::from(crossed)]);
    assert!(engine.port.withdrawn.is_empty(), "the second one has the worker");
    assert_eq!(engine.floors(3), [10, 10, 10], "the first one waits");
}

#[test]
fn what_was_under_way_waits_where_fewer_workers_are_vacant() {
    let mut engine = busy(&[1, 1], 30);
    let first = engine.submit_with(with(10));
    let place = engine.peer_of(first).unwrap();
    let mark = engine.mark(place);
    let others: Vec<_> = (0..3).map(|_| engine.submit_with(with(10))).collect();
    let there = others.iter().filter(|&&task| engine.peer_of(task) == Some(place)).count();
    assert!(there > 0);
    engine.vacant_at(place, 1, mark);
    engine.vacant_at(1 - place, 1, engine.mark(1 - place));
    assert_eq!(engine.floors(2), [10, 10].map(|floor| if there > 1 { floor } else { NONE }));
}

#[test]
fn a_word_that_was_said_of_an_earlier_floor_does_not_count() {
    let mut engine = busy(&[1, 1], 30);
    let high = engine.submit_with(with(5));
    let place = engine.peer_of(high).unwrap();
    let early = engine.mark(place);
    let higher = engine.submit_with(with(7));
    assert_eq!(engine.floors(2), [7, 7]);
    engine.vacant_at(place, 1, early);
    assert!(engine.port.withdrawn.is_empty());
    let _outcome = engine.reply(higher, returned());
    assert_eq!(engine.floors(2), [5, 5], "the first one waits");
}

#[test]
fn what_is_below_the_floor_of_a_vacant_peer_has_not_begun_there() {
    let mut engine = busy(&[1, 1], 30);
    let middle = engine.submit_with(with(5));
    let high = engine.submit_with(with(7));
    let place = engine.peer_of(middle).unwrap();
    engine.vacant(place, 1);
    if engine.peer_of(high) != Some(place) {
        engine.give_back(high);
        assert_eq!(engine.peer_of(high), Some(place));
    }
    assert_eq!(engine.floors(2), [5, 5]);
}

#[test]
fn a_peer_that_cannot_run_the_first_of_those_that_wait_has_the_next_one_as_its_floor() {
    let mut engine = busy(&[1, 1], 30);
    let high = engine.submit_with(with(10));
    let place = engine.peer_of(high).unwrap();
    let low = loop {
        let task = engine.submit_with(with(5));
        if engine.peer_of(task) == Some(place) {
            break task;
        }
    };
    let mode = gristmill_core::CancelMode::Running { grace_ns: None };
    let _outcome = engine.core.cancel(high, mode, engine.now, &mut engine.port);
    // The first task may not move.
    engine.vacant(1 - place, 1);
    let floors = engine.floors(2);
    assert_eq!((floors[usize::from(place)], floors[usize::from(1 - place)]), (10, 5));
    engine.vacant(1 - place, 1);
    assert_eq!(engine.port.withdrawn.len(), 1);
    assert_eq!(engine.peer_of(engine.port.withdrawn[0]), Some(place));
    let _ = low;
}

#[test]
fn one_that_waits_where_it_was_to_begin_is_a_floor_again() {
    let mut engine = busy(&[1, 1], 30);
    let high = engine.submit_with(with(10));
    let first = engine.peer_of(high).unwrap();
    engine.vacant(1 - first, 1);
    engine.give_back(high);
    assert_eq!((engine.peer_of(high), engine.floors(2)), (Some(1 - first), vec![NONE, NONE]));
    // The worker has died meanwhile.
    let mark = engine.mark(1 - first) - 1;
    engine.vacant_at(1 - first, 0, mark);
    assert_eq!(engine.floors(2), [10, 10]);
    let _outcome = engine.reply(high, returned());
    assert_eq!(engine.floors(2), [NONE, NONE]);
}

#[test]
fn those_under_way_to_a_peer_where_one_waits_that_was_to_begin_are_a_floor_again() {
    let mut engine = busy(&[2, 1], 30);
    let running = engine.submit_with(with(10));
    let _other = engine.submit_with(with(10));
    engine.vacant(0, 2);
    let expected = [0, 1].map(|_| engine.submit_with(with(9)));
    assert!(expected.iter().all(|&task| engine.peer_of(task) == Some(0)));
    let _outcome = engine.reply(running, returned());
    let _outcome = engine.reply(_other, returned());
    // The peer's workers have died meanwhile, and only the first task has arrived.
    engine.vacant_at(0, 0, engine.mark(0) - 1);
    let _outcome = engine.reply(expected[0], returned());
    assert_eq!(engine.floors(2), [9, 9]);
}

#[test]
fn one_that_was_sent_to_the_only_peer_is_a_floor_at_those_that_join() {
    let mut engine = busy(&[1], 30);
    let _high = engine.submit_with(with(10));
    assert!(engine.port.floors_of_peers.is_empty(), "nothing begins elsewhere");
    engine.join(1, 1, 0);
    assert_eq!(engine.floors(2), [10, 10]);
}

#[test]
fn a_client_that_gives_up_leaves_no_floor() {
    let mut engine = busy(&[1, 1], 30);
    let _high = engine.submit_with(with(10));
    let failure = StartFailure { text: "none".into(), permanent: true, is_expiry: false };
    engine.core.give_up_workers(failure, engine.now, &mut engine.port);
    engine.core.audit();
    assert_eq!(engine.floors(2), [NONE, NONE]);
}

#[test]
fn raising_costs_a_message_a_peer_however_many_tasks_wait() {
    for tasks in [60, 6_000] {
        let mut engine = busy(&[1, 1, 1, 1], tasks);
        let high = engine.submit_with(with(10));
        assert_eq!(engine.port.floors_of_peers.len(), 4);
        let _outcome = engine.reply(high, returned());
        assert_eq!(engine.port.floors_of_peers.len(), 8);
        assert!(engine.port.withdrawn.is_empty());
    }
}

#[test]
fn programs_without_priorities_and_clients_of_one_peer_have_no_floors() {
    let mut engine = busy(&[1, 1], 60);
    let _more = engine.submit_with(with(0));
    assert!(engine.port.floors_of_peers.is_empty());
    let mut engine = busy(&[1], 60);
    let _high = engine.submit_with(with(10));
    assert!(engine.port.floors_of_peers.is_empty(), "nothing begins elsewhere");
}

/// Returns a client whose peers have long tasks of this priority, more than their workers run. No task waits here.
fn filled(peers: &[u32], priority: i32) -> Engine {
    let mut engine = client_of(peers);
    engine.teach_peers(LONG_NS);
    for _ in 0..2 * peers.iter().sum::<u32>() {
        let task = engine.submit_with(with(priority));
        assert!(engine.peer_of(task).is_some());
    }
    engine
}

#[test]
fn those_that_were_sent_before_a_lower_one_was_submitted_are_a_floor_before_that_is_sent() {
    let mut engine = filled(&[1, 1], 10);
    assert!(engine.port.floors_of_peers.is_empty(), "they compete with nothing");
    let sent = engine.port.delegated.len();
    engine.port.full_peers = vec![0, 1];
    let _low = engine.submit();
    assert_eq!((engine.port.delegated.len(), engine.floors(2)), (sent, vec![10, 10]));
    engine.vacant(0, 1);
    assert_eq!(engine.port.withdrawn.len(), 1, "one of the other peer's goes there");
}

#[test]
fn those_that_were_sent_while_nothing_had_a_priority_are_a_floor_for_a_lower_one() {
    let mut engine = filled(&[1, 1], 0);
    let _low = engine.submit_with(with(-1));
    assert_eq!(engine.floors(2), [0, 0]);
}

#[test]
fn the_task_of_a_task_is_a_floor_for_others_too() {
    let mut engine = busy(&[1, 1, 1], 60);
    let origin = Origin::Peer(PeerId(0));
    let high = engine.submit_as(&[], Some(with(10)), origin).unwrap();
    let place = engine.peer_of(high).expect("another peer has it");
    assert_eq!(engine.floors(3), [10, 10, 10]);
    engine.vacant(3 - place, 1);
    assert_eq!(engine.port.withdrawn, [high]);
}

#[test]
fn one_that_went_to_a_peer_after_its_parents_is_a_floor_once_they_have_ended() {
    let mut engine = client_of(&[1, 1]);
    engine.teach_peers(LONG_NS);
    let parent = engine.submit();
    let high = engine.submit_as(&[parent], Some(with(10)), Origin::External).unwrap();
    let place = engine.peer_of(high).expect("it follows its parent");
    assert_eq!(engine.peer_of(parent), Some(place));
    for _ in 0..30 {
        let _low = engine.submit();
    }
    assert_eq!(engine.floors(2), [NONE, NONE], "it waits for its parent");
    let _outcome = engine.reply_in(parent, returned(), LONG_NS);
    assert_eq!(engine.floors(2), [10, 10]);
}

#[test]
fn one_that_waits_again_for_a_lost_result_is_a_floor_once_that_is_made_again() {
    let budgets = Budgets { loss_retries: 1, ..Budgets::default() };
    let mut engine = client_with(&[1, 1], Config { budgets, ..Config::default() });
    let parent = engine.submit();
    let made_at = PeerId(engine.delegated(parent).peer);
    let _outcome = engine.reply(parent, PeerEnd::Stayed(Payload::EMPTY));
    engine.teach_peers(LONG_NS);
    let first = [engine.submit(), engine.submit()];
    let high = engine.submit_as(&[parent], Some(with(10)), Origin::External).unwrap();
    let lows: Vec<_> = first.into_iter().chain((0..30).map(|_| engine.submit())).collect();
    assert_eq!(engine.floors(2), [10, 10]);
    let report = LossReport::of_node("n", "its disk is full");
    engine.core.result_lost(made_at, parent, report, engine.now, &mut engine.port);
    engine.core.audit();
    assert_eq!(engine.floors(2), [NONE, NONE], "it waits for its parent again");
    for low in lows {
        let _outcome = engine.reply(low, returned());
    }
    let _later: Vec<_> = (0..30).map(|_| engine.submit()).collect();
    for (task, floors) in [(parent, [10, 10]), (high, [NONE, NONE])] {
        let _outcome = engine.reply(task, returned());
        assert_eq!(engine.floors(2), floors);
    }
}

/// Returns a client with a worker of its own beside a peer. All workers have long tasks of priority 0; more of them
/// wait.
fn beside() -> (Engine, TaskId) {
    let mut engine = engine(1);
    engine.teach(LONG_NS);
    engine.join(0, 1, 0);
    let first = engine.submit();
    engine.start(first);
    for _ in 0..60 {
        let _low = engine.submit();
    }
    (engine, first)
}

#[test]
fn what_waits_at_a_peer_goes_before_lower_ones_on_this_machine_and_to_the_first_worker_that_is_free()
 {
    let (mut engine, first) = beside();
    let high = engine.submit_with(with(10));
    assert_eq!(engine.peer_of(high), Some(0));
    assert_eq!((engine.port.floors[0], engine.floors(1)), (10, vec![10]));
    let _outcome = engine.answer(first, Returned);
    while let Some(below) = engine.port.sent.first().map(|one| one.task) {
        let _outcome = engine.answer(below, Skipped);
    }
    assert_eq!(engine.port.withdrawn, [high], "the worker has nothing to do");
    engine.give_back(high);
    assert!(engine.is_sent(high));
    engine.start(high);
    engine.pass(1_000_000);
    assert_eq!(engine.floors(1), [NONE]);
}

#[test]
fn workers_here_that_could_run_none_of_those_at_peers_have_the_floor_of_later_ones() {
    let (mut engine, first) = beside();
    let high = engine.submit_with(with(10));
    assert_eq!((engine.peer_of(high), engine.port.floors[0]), (Some(0), 10));
    let mode = gristmill_core::CancelMode::Running { grace_ns: None };
    let _outcome = engine.core.cancel(high, mode, engine.now, &mut engine.port);
    let _outcome = engine.answer(first, Returned);
    while engine.port.floors[0] == 10 {
        let below = engine.port.sent[0].task;
        let _outcome = engine.answer(below, Skipped);
    }
    let next = engine.port.sent[0].task;
    engine.start(next);
    let _outcome = engine.reply(high, returned());
    let later = engine.submit_with(with(10));
    assert_eq!((engine.peer_of(later), engine.port.floors[0]), (Some(0), 10));
}

#[test]
fn one_that_has_begun_at_a_peer_lets_lower_ones_go_on_here() {
    let (mut engine, _) = beside();
    let high = engine.submit_with(with(10));
    assert_eq!(engine.port.floors[0], 10);
    let _outcome = engine.reply(high, returned());
    assert_eq!((engine.port.floors[0], engine.floors(1)), (NONE, vec![NONE]));
}

#[test]
fn what_waits_for_the_only_peer_is_a_floor_there() {
    let mut engine = busy(&[1], 30);
    engine.port.full_peers = vec![0];
    engine.core.peer_congested(PeerId(0), true, engine.now, &mut engine.port);
    let _high = engine.submit_with(with(10));
    assert_eq!(engine.floors(1), [10]);
}

/// Returns the engine of a lease whose workers each run a task and have another one in their rings. Returns also the
/// running tasks and the waiting ones.
fn lease(workers: u16) -> (Engine, Vec<TaskId>, Vec<TaskId>) {
    let mut engine = engine(workers);
    engine.teach(50_000_000);
    let running: Vec<_> = (0..workers).map(|_| engine.submit()).collect();
    running.iter().for_each(|&task| engine.start(task));
    let waiting: Vec<_> = (0..workers).map(|_| engine.submit()).collect();
    (engine, running, waiting)
}

impl Engine {
    fn give_floor(&mut self, priority: i32) {
        let floor = Floor::of(priority);
        let peer = (PeerId(0), PLAIN);
        self.core.set_peers_floor(peer, (floor, 1), self.now, &mut self.port);
        self.core.audit();
    }
}

/// Returns such an engine with one worker, which idles because of the client's floor, and the task that the floor holds
/// back.
fn vacant_lease() -> (Engine, TaskId) {
    let (mut engine, running, waiting) = lease(1);
    engine.give_floor(10);
    let _outcome = engine.answer(running[0], Returned);
    let _outcome = engine.answer(waiting[0], Skipped);
    (engine, waiting[0])
}

#[test]
fn a_client_s_floor_holds_what_is_below_it_and_vacant_workers_are_told_once() {
    let (mut engine, running, waiting) = lease(2);
    engine.give_floor(10);
    assert_eq!(engine.port.floors[..2], [10, 10]);
    let _outcome = engine.answer(running[0], Returned);
    assert_eq!(engine.port.vacant, [(0, 1)], "it returns its tasks");
    let _outcome = engine.answer(waiting[0], Skipped);
    assert!(!engine.is_sent(waiting[0]));
    let _outcome = engine.answer(running[1], Returned);
    if engine.is_sent(waiting[1]) {
        let _outcome = engine.answer(waiting[1], Skipped);
    }
    assert_eq!(engine.port.vacant, [(0, 1), (0, 2)]);
    engine.give_floor(NONE);
    assert_eq!(engine.port.floors[..2], [NONE, NONE]);
    assert!(waiting.iter().all(|&task| engine.is_sent(task)));
    engine.core.audit();
}

#[test]
fn a_guest_above_the_floor_goes_to_the_vacant_worker_which_is_told_again_once_that_has_ended() {
    let (mut engine, low) = vacant_lease();
    let high = engine.submit_with(with(10));
    assert!(engine.is_sent(high));
    engine.start(high);
    engine.pass(1_000_000);
    assert!(!engine.is_sent(low), "the client's floor stays");
    let _outcome = engine.answer(high, Returned);
    assert_eq!(engine.port.vacant, [(0, 1), (0, 1)]);
}

#[test]
fn the_client_is_told_which_of_its_tasks_had_come() {
    let (mut engine, running, waiting) = lease(1);
    engine.give_floor(10);
    for _ in 0..3 {
        engine.core.count_inbound((PeerId(0), PLAIN), 0);
    }
    let _outcome = engine.answer(running[0], Returned);
    let _outcome = engine.answer(waiting[0], Skipped);
    assert_eq!((&engine.port.vacant[..], engine.port.vacant_at), (&[(0, 1)][..], 4));
}

#[test]
fn the_client_is_told_if_what_was_to_begin_at_once_waits() {
    let (mut engine, _low) = vacant_lease();
    engine.lose(0);
    engine.core.count_inbound((PeerId(0), PLAIN), 10);
    let high = engine.submit_with(with(10));
    assert!(!engine.is_sent(high));
    assert_eq!((&engine.port.vacant[..], engine.port.vacant_at), (&[(0, 1), (0, 0)][..], 2));
}

#[test]
fn the_client_is_told_of_what_waits_though_its_floor_changes_meanwhile() {
    let (mut engine, _low) = vacant_lease();
    engine.lose(0);
    engine.core.count_inbound((PeerId(0), PLAIN), 10);
    engine.core.count_inbound((PeerId(0), PLAIN), 3);
    let _high = engine.submit_with(with(10));
    engine.give_floor(5);
    assert_eq!(engine.port.vacant, [(0, 1), (0, 0)]);
}

#[test]
fn the_client_is_told_of_each_that_waits_behind_one_that_came_before() {
    let (mut engine, _low) = vacant_lease();
    engine.core.count_inbound((PeerId(0), PLAIN), 10);
    let first = engine.submit_with(with(10));
    engine.core.count_inbound((PeerId(0), PLAIN), 10);
    let second = engine.submit_with(with(10));
    assert_eq!((engine.is_sent(first), engine.is_sent(second)), (true, false));
    assert_eq!(engine.port.vacant, [(0, 1), (0, 0)]);
}

#[test]
fn no_worker_is_vacant_while_a_ring_holds_one_above_the_floor() {
    let mut engine = engine(2);
    engine.teach(50_000_000);
    let running: Vec<_> = (0..2).map(|_| engine.submit_with(with(10))).collect();
    running.iter().for_each(|&task| engine.start(task));
    let behind = engine.submit_with(with(10));
    assert!(engine.is_sent(behind), "nothing here competes with it");
    engine.give_floor(10);
    let slot = engine.core.task(behind).unwrap().slot.unwrap();
    let other = running.iter().find(|&&task| engine.core.task(task).unwrap().slot != Some(slot));
    let _outcome = engine.answer(*other.unwrap(), Returned);
    assert!(engine.port.vacant.is_empty(), "it has not begun");
}

#[test]
fn children_run_in_the_wait_of_their_parent_below_a_client_s_floor() {
    let mut engine = engine(1);
    engine.teach(50_000_000);
    let parent = engine.submit();
    engine.start(parent);
    engine.give_floor(10);
    let child = engine.submit_from(parent);
    let slot = engine.core.task(parent).unwrap().slot.unwrap();
    engine.core.waiting(slot, parent, true, engine.now, &mut engine.port);
    assert!(engine.is_sent(child), "its parent would wait for ever");
    engine.core.audit();
}

#[test]
fn a_floor_goes_with_the_client_that_gave_it_though_that_offers_nothing_itself() {
    let mut engine = engine(1);
    engine.give_floor(10);
    let low = engine.submit();
    assert!(!engine.is_sent(low));
    engine.lose_peer(0, &[]);
    assert!(engine.is_sent(low));
}

#[test]
fn a_guest_above_the_floor_is_not_given_back_while_one_below_it_stays() {
    let mut engine = engine(1);
    let low = engine.submit();
    engine.give_floor(10);
    let high = engine.submit_with(with(10));
    assert!(engine.is_sent(low) && engine.is_sent(high));
    engine.core.withdraw(1, engine.now, &mut engine.port);
    assert_eq!(engine.status(high), None, "the worker begins it next");
    assert_eq!(engine.status(low), Some(Status::Cancelled));
}
