//! Tests of the events that end a sleep, and of those that do not.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use gristmill_transport::{Interest, Ready, Sleeper, WakeReason};

const SHORT: Option<Duration> = Some(Duration::from_millis(1));
const LOOK: Option<Duration> = Some(Duration::ZERO);

#[test]
fn a_sleep_ends_with_its_time() {
    let (sleeper, mut ready) = (Sleeper::new().unwrap(), vec![]);
    assert_eq!(sleeper.sleep(&mut ready, SHORT).unwrap(), WakeReason::TimedOut);
    assert_eq!(sleeper.sleep(&mut ready, LOOK).unwrap(), WakeReason::TimedOut);
}

#[test]
fn what_is_ready_is_told_until_it_is_attended_to() {
    let (sleeper, mut ready) = (Sleeper::new().unwrap(), vec![]);
    let (mut one, mut other) = UnixStream::pair().unwrap();
    sleeper.watch(&one, 7, Interest::Readable).unwrap();
    assert_eq!(sleeper.sleep(&mut ready, LOOK).unwrap(), WakeReason::TimedOut);
    other.write_all(b"x").unwrap();
    for _ in 0..2 {
        assert_eq!(sleeper.sleep(&mut ready, None).unwrap(), WakeReason::Ready);
        assert_eq!(ready, [Ready { token: 7, is_readable: true, is_writable: false }]);
    }
    one.read_exact(&mut [0]).unwrap();
    assert_eq!(sleeper.sleep(&mut ready, LOOK).unwrap(), WakeReason::TimedOut);
    assert!(ready.is_empty());
}

#[test]
fn interest_and_token_can_change_and_end() {
    let (sleeper, mut ready) = (Sleeper::new().unwrap(), vec![]);
    let (one, other) = UnixStream::pair().unwrap();
    sleeper.watch(&one, 1, Interest::Readable).unwrap();
    sleeper.watch(&one, 2, Interest::Both).unwrap();
    assert_eq!(sleeper.sleep(&mut ready, None).unwrap(), WakeReason::Ready);
    assert_eq!(ready, [Ready { token: 2, is_readable: false, is_writable: true }]);
    sleeper.unwatch(&one).unwrap();
    sleeper.unwatch(&one).unwrap();
    assert_eq!(sleeper.sleep(&mut ready, LOOK).unwrap(), WakeReason::TimedOut);
    sleeper.watch(&one, 3, Interest::Readable).unwrap();
    drop(other);
    assert_eq!(sleeper.sleep(&mut ready, None).unwrap(), WakeReason::Ready);
    assert!(ready[0].token == 3 && ready[0].is_readable && ready[0].is_writable, "the end is both");
    drop(one);
    assert_eq!(sleeper.sleep(&mut ready, LOOK).unwrap(), WakeReason::TimedOut);
}

#[test]
fn more_descriptors_than_one_look_tells_are_all_told() {
    let (sleeper, mut ready) = (Sleeper::new().unwrap(), vec![]);
    let pairs: Vec<_> = (0..300).map(|_| UnixStream::pair().unwrap()).collect();
    for (token, (one, _)) in (0..).zip(&pairs) {
        sleeper.watch(one, token, Interest::Writable).unwrap();
    }
    let mut told = std::collections::BTreeSet::new();
    while told.len() < pairs.len() {
        assert_eq!(sleeper.sleep(&mut ready, None).unwrap(), WakeReason::Ready);
        told.extend(ready.iter().map(|one| one.token));
    }
}

#[test]
fn a_call_before_a_sleep_ends_it_at_once_and_only_it() {
    let (sleeper, mut ready) = (Sleeper::new().unwrap(), vec![]);
    let waker = sleeper.waker();
    waker.wake();
    waker.clone().wake();
    assert_eq!(sleeper.sleep(&mut ready, None).unwrap(), WakeReason::Called);
    assert_eq!(sleeper.sleep(&mut ready, LOOK).unwrap(), WakeReason::TimedOut);
}

#[test]
fn a_call_does_not_hide_what_is_ready() {
    let (sleeper, mut ready) = (Sleeper::new().unwrap(), vec![]);
    let (one, _other) = UnixStream::pair().unwrap();
    sleeper.watch(&one, 5, Interest::Writable).unwrap();
    sleeper.waker().wake();
    assert_eq!(sleeper.sleep(&mut ready, None).unwrap(), WakeReason::Called);
    assert_eq!(ready.len(), 1);
}

#[test]
fn a_call_is_for_the_sleeper_alone() {
    let (sleeper, mut ready) = (Sleeper::new().unwrap(), vec![]);
    let (one, mut other) = UnixStream::pair().unwrap();
    sleeper.watch(&one, 5, Interest::Readable).unwrap();
    sleeper.waker().wake();
    assert!(!sleeper.is_ready());
    other.write_all(b"x").unwrap();
    assert!(sleeper.is_ready());
    sleeper.forget_calls();
    assert_eq!(sleeper.sleep(&mut ready, None).unwrap(), WakeReason::Ready);
}

#[test]
fn each_write_of_another_process_ends_one_sleep() {
    let (sleeper, mut ready) = (Sleeper::new().unwrap(), vec![]);
    let mut event = std::fs::File::from(sleeper.event().try_clone_to_owned().unwrap());
    for _ in 0..3 {
        event.write_all(&1_u64.to_ne_bytes()).unwrap();
        assert_eq!(sleeper.sleep(&mut ready, None).unwrap(), WakeReason::Called);
        assert_eq!(sleeper.sleep(&mut ready, LOOK).unwrap(), WakeReason::TimedOut);
    }
    thread::scope(|scope| {
        let sleep = scope.spawn(|| sleeper.sleep(&mut ready, None).unwrap());
        event.write_all(&1_u64.to_ne_bytes()).unwrap();
        assert_eq!(sleep.join().unwrap(), WakeReason::Called);
    });
}

#[test]
fn no_call_is_lost_whenever_it_comes() {
    let (sleeper, mut ready) = (Sleeper::new().unwrap(), vec![]);
    let waker = sleeper.waker();
    let (calls, barrier) = (5_000, Barrier::new(2));
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..calls {
                barrier.wait();
                waker.wake();
            }
        });
        for _ in 0..calls {
            barrier.wait();
            // If a call were lost, this sleep would never end. A late ring of the last call may end a sleep without need.
            assert_eq!(sleeper.sleep(&mut ready, None).unwrap(), WakeReason::Called);
        }
    });
}
