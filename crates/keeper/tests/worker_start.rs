//! Tests of the Rust side of a worker: it is bound to its keeper, in its own session, and survives the terminal's
//! signals.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod support;

use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use gristmill_keeper::{
    ExitStatus, KEEPER_VARIABLE, Program, WorkerKey, WorkerSetup, WorkerStartError,
    ZYGOTE_FRAME_SIZE, ZygoteFrame, announce_start, become_worker,
};
use support::{Tree, python_program, wait_for_death};

const HELPER: &str = "GRISTMILL_TEST_WORKER";
const REPORT: i32 = 3;

/// Runs the worker of the tests below, executed by their keeper. Does nothing otherwise.
#[test]
fn worker_process() {
    let Ok(kind) = std::env::var(HELPER) else { return };
    let keeper: i32 = std::env::var(KEEPER_VARIABLE).unwrap().parse().unwrap();
    let claimed = if kind == "mistaken" { keeper + 1 } else { keeper };
    let setup =
        WorkerSetup { keeper: claimed, parent: claimed, stderr: None, close_on_exec: &[REPORT] };
    if let Err(error) = become_worker(&setup) {
        assert!(matches!(error, WorkerStartError::KeeperGone { .. }), "{error}");
        std::process::exit(9);
    }
    // SAFETY: plain calls with integers; the descriptor was passed for this purpose.
    let (leads, flags) =
        unsafe { (libc::getsid(0) == libc::getpid(), libc::fcntl(REPORT, libc::F_GETFD)) };
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let has = |mask: &str| {
        let found = status.lines().find_map(|line| line.strip_prefix(mask)).unwrap();
        u64::from_str_radix(found.trim(), 16).unwrap() & (1 << (libc::SIGINT - 1)) != 0
    };
    // A program that the worker executes would inherit an ignored signal.
    let handles = has("SigCgt:") && !has("SigIgn:");
    let line = format!("{leads} {} {handles}\n", flags == libc::FD_CLOEXEC);
    // SAFETY: pointer and length describe the line, which outlives the call.
    unsafe { libc::write(REPORT, line.as_ptr().cast(), line.len()) };
    loop {
        std::thread::park();
    }
}

fn program(kind: &str) -> Program {
    let mut program = python_program(&[]);
    let own = std::env::current_exe().unwrap();
    let arguments = [own.as_os_str().as_bytes(), b"--exact", b"worker_process", b"--nocapture"];
    program.arguments = arguments.map(<[u8]>::to_vec).into();
    program.environment.push(format!("{HELPER}={kind}").into_bytes());
    program
}

fn start(tree: &mut Tree, kind: &str) -> WorkerKey {
    let key = WorkerKey::new(1, 1);
    let writer = tree.report_writer().try_clone_to_owned().unwrap();
    tree.commands.spawn_fresh(key, program(kind), &[writer.as_fd()]).unwrap();
    key
}

#[test]
fn a_worker_leads_a_session_survives_the_terminal_and_dies_with_its_keeper() {
    let mut tree = Tree::new();
    let key = start(&mut tree, "proper");
    let handle = tree.started(key).pidfd.unwrap();
    assert_eq!(tree.report(), "true true true");
    support::signal(tree.events.pid(), libc::SIGKILL);
    wait_for_death(&handle);
}

#[test]
fn a_process_that_is_no_child_of_the_keeper_does_not_become_a_worker() {
    let mut tree = Tree::new();
    let key = start(&mut tree, "mistaken");
    assert_eq!(tree.exited(key).status, ExitStatus::Code(9));
}

#[test]
fn a_start_is_announced_by_the_packet_the_keeper_expects_and_refused_by_a_closed_socket() {
    let mut ends = [0; 2];
    // SAFETY: the array has room for the two descriptors, which are new and have no other owner.
    let (left, right) = unsafe {
        assert_eq!(libc::socketpair(libc::AF_UNIX, libc::SOCK_SEQPACKET, 0, ends.as_mut_ptr()), 0);
        (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
    };
    let worker = WorkerKey::new(3, 4);
    announce_start(left.as_fd(), worker).unwrap();
    let mut packet = [0; ZYGOTE_FRAME_SIZE];
    // SAFETY: pointer and length describe the array, which outlives the call.
    unsafe { libc::recv(ends[1], packet.as_mut_ptr().cast(), packet.len(), 0) };
    let pid = i32::try_from(std::process::id()).unwrap();
    assert_eq!(ZygoteFrame::decode(&packet), Some(ZygoteFrame::Started { worker, pid }));
    drop(right);
    let refused = announce_start(left.as_fd(), worker);
    assert!(matches!(refused, Err(WorkerStartError::Unwanted { .. })));
}
