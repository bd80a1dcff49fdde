//! Tests of the zygote's state machine, with sockets whose other ends the test holds: no process is forked.

use super::*;
use crate::descriptor::pipe;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, BorrowedFd};

/// Creates a warm zygote and its keeper's end.
fn zygote() -> (Zygote, OwnedFd) {
    let (keeper, control) = socket_pair().unwrap();
    let mut zygote = Zygote::new(control);
    zygote.warmth = PreloadState::Warm;
    (zygote, keeper)
}

fn request_worker(keeper: &OwnedFd, worker: WorkerKey, descriptors: &[BorrowedFd<'_>]) {
    send(keeper.as_fd(), &[&ZygoteFrame::Fork(worker).encode()], descriptors).unwrap();
}

/// Forks a candidate, from the zygote's point of view.
fn fork(zygote: &mut Zygote) -> OwnedFd {
    assert_eq!(zygote.next_step().unwrap(), ZygoteStep::Fork);
    let (ours, theirs) = Zygote::new_line().unwrap();
    zygote.adopt(ours);
    theirs
}

fn frame_on(socket: &OwnedFd) -> Option<ZygoteFrame> {
    let mut buffer = [0; ZYGOTE_FRAME_SIZE];
    let packet = look(socket, &mut buffer).unwrap()?;
    ZygoteFrame::decode(&buffer[..packet.size])
}

fn announce(line: &OwnedFd) {
    send(line.as_fd(), &[b"."], &[]).unwrap();
}

/// Lets the zygote handle the packets that have arrived; it has nothing to fork.
fn settle(zygote: &mut Zygote, keeper: &OwnedFd) {
    // SAFETY: a plain call on a descriptor that the test owns.
    unsafe { libc::shutdown(keeper.as_raw_fd(), libc::SHUT_WR) };
    assert_eq!(zygote.next_step().unwrap(), ZygoteStep::Exit);
}

#[test]
fn a_worker_goes_to_a_new_candidate_and_the_next_to_the_stand_by() {
    let (mut zygote, keeper) = zygote();
    let (first, second) = (WorkerKey::new(0, 1), WorkerKey::new(1, 1));
    request_worker(&keeper, first, &[]);
    let candidate = fork(&mut zygote);
    zygote.hand_out();
    assert_eq!(frame_on(&candidate), Some(ZygoteFrame::Fork(first)));
    announce(&candidate);
    drop(candidate);
    let stand_by = fork(&mut zygote);
    request_worker(&keeper, second, &[]);
    settle(&mut zygote, &keeper);
    assert_eq!(frame_on(&stand_by), Some(ZygoteFrame::Fork(second)));
    assert_eq!(frame_on(&keeper), None, "nothing failed");
}

#[test]
fn nothing_is_forked_ahead_before_the_workers_asked_for_are_at_work() {
    let (mut zygote, keeper) = zygote();
    request_worker(&keeper, WorkerKey::new(0, 1), &[]);
    request_worker(&keeper, WorkerKey::new(1, 1), &[]);
    let first = fork(&mut zygote);
    let second = fork(&mut zygote);
    drop(first);
    announce(&second);
    settle(&mut zygote, &keeper);
    assert!(zygote.stand_by.is_none());
}

#[test]
fn a_candidate_that_dies_before_its_worker_is_announced_is_reported() {
    let (mut zygote, keeper) = zygote();
    let worker = WorkerKey::new(3, 9);
    request_worker(&keeper, worker, &[]);
    drop(fork(&mut zygote));
    // It dies before it is given the worker: another one is forked.
    drop(fork(&mut zygote));
    let candidate = fork(&mut zygote);
    zygote.hand_out();
    drop(candidate);
    drop(fork(&mut zygote));
    let failed = ZygoteFrame::ForkFailed { worker, errno: libc::ECHILD };
    assert_eq!(frame_on(&keeper), Some(failed));
}

#[test]
fn a_stand_by_that_dies_of_itself_is_not_forked_again_and_again() {
    let (mut zygote, keeper) = zygote();
    request_worker(&keeper, WorkerKey::new(0, 1), &[]);
    let candidate = fork(&mut zygote);
    zygote.hand_out();
    announce(&candidate);
    drop(candidate);
    drop(fork(&mut zygote));
    settle(&mut zygote, &keeper);
    assert!(zygote.stand_by.is_none());
}

#[test]
fn it_warms_up_before_it_forks_ahead() {
    let (mut zygote, keeper) = zygote();
    zygote.warmth = PreloadState::Cold;
    request_worker(&keeper, WorkerKey::new(0, 1), &[]);
    let candidate = fork(&mut zygote);
    zygote.hand_out();
    announce(&candidate);
    drop(candidate);
    let later = Instant::now() + WARM_UP_PAUSE;
    for _ in 0..3 {
        assert_eq!(zygote.next_step_by(|| later).unwrap(), ZygoteStep::WarmUp);
    }
    zygote.finish_warming();
    let _stand_by = fork(&mut zygote);
    settle(&mut zygote, &keeper);
}

#[test]
fn workers_that_were_asked_for_come_before_the_warming_up() {
    let (mut zygote, keeper) = zygote();
    zygote.warmth = PreloadState::Cold;
    request_worker(&keeper, WorkerKey::new(0, 1), &[]);
    let first = fork(&mut zygote);
    zygote.hand_out();
    let later = Instant::now() + WARM_UP_PAUSE;
    assert_eq!(zygote.next_step_by(|| later).unwrap(), ZygoteStep::WarmUp);
    request_worker(&keeper, WorkerKey::new(1, 1), &[]);
    assert_eq!(zygote.next_step_by(|| later).unwrap(), ZygoteStep::Fork);
    drop(first);
}

#[test]
fn a_fork_that_fails_is_reported_once() {
    let (mut zygote, keeper) = zygote();
    let worker = WorkerKey::new(0, 1);
    request_worker(&keeper, worker, &[]);
    assert_eq!(zygote.next_step().unwrap(), ZygoteStep::Fork);
    zygote.give_up(libc::EAGAIN).unwrap();
    settle(&mut zygote, &keeper);
    let failed = ZygoteFrame::ForkFailed { worker, errno: libc::EAGAIN };
    assert_eq!(frame_on(&keeper), Some(failed));
}

#[test]
fn a_packet_that_is_not_the_keepers_ends_the_zygote() {
    let (mut zygote, keeper) = zygote();
    send(keeper.as_fd(), &[b"hello"], &[]).unwrap();
    assert_eq!(zygote.next_step().unwrap_err().kind(), io::ErrorKind::InvalidData);
}

#[test]
fn descriptors_travel_on_to_the_candidate() {
    let (mut zygote, keeper) = zygote();
    let (reader, writer) = pipe().unwrap();
    request_worker(&keeper, WorkerKey::new(0, 1), &[writer.as_fd()]);
    drop(writer);
    let candidate = fork(&mut zygote);
    zygote.hand_out();
    let mut packet = look(&candidate, &mut [0; ZYGOTE_FRAME_SIZE]).unwrap().unwrap();
    File::from(packet.descriptors.pop().unwrap()).write_all(b"through").unwrap();
    drop(packet);
    let mut text = String::new();
    File::from(reader).read_to_string(&mut text).unwrap();
    assert_eq!(text, "through", "and no other process keeps the pipe open");
}

#[test]
fn a_candidate_without_a_zygote_is_no_worker() {
    let (ours, theirs) = Zygote::new_line().unwrap();
    let (zygote, keeper) = zygote();
    let candidate = zygote.into_candidate(theirs);
    drop(ours);
    assert!(candidate.wait().unwrap().is_none());
    assert_eq!(look(&keeper, &mut [0]).unwrap().unwrap().size, 0, "no worker was announced");
}
