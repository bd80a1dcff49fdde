//! Tests of failures: a process that does not start or violates the protocol gives a clear error and affects no other
//! process.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod support;

use std::os::fd::{AsFd, AsRawFd};

use gristmill_keeper::{
    CommandError, ExecutableLocation, ExitStatus, KeeperEvent, KeeperOptions, WorkerKey, ZygoteEnd,
    launch,
};
use support::{LEAVE, LIVE, Tree, image, python_program};

/// Waits for the end of a zygote. Returns it with the end of its standard error.
fn lost(tree: &mut Tree, id: u32) -> (ZygoteEnd, String) {
    tree.expect(|event| match event {
        KeeperEvent::ZygoteLost { zygote, end, stderr_tail } if *zygote == id => {
            Some((*end, String::from_utf8(stderr_tail.clone()).unwrap()))
        }
        _ => None,
    })
}

fn spawn_failure(tree: &mut Tree, key: WorkerKey) -> String {
    tree.expect(|event| match event {
        KeeperEvent::SpawnFailed { worker, text } if *worker == key => {
            Some(String::from_utf8(text.clone()).unwrap())
        }
        _ => None,
    })
}

/// Mounts a file system of one page on `directory`, visible to the calling thread only. Returns false if that is not
/// allowed.
fn mount_a_small_disk(directory: &std::path::Path) -> bool {
    let path = std::ffi::CString::new(directory.to_str().unwrap()).unwrap();
    let (none, alone) = (std::ptr::null(), libc::MS_REC | libc::MS_PRIVATE);
    // SAFETY: all strings are terminated and outlive the calls.
    unsafe {
        let (kind, size) = (c"tmpfs".as_ptr(), c"size=4k".as_ptr().cast());
        libc::unshare(libc::CLONE_NEWNS) == 0
            && libc::mount(none, c"/".as_ptr(), none, alone, std::ptr::null()) == 0
            && libc::mount(kind, path.as_ptr(), kind, 0, size) == 0
    }
}

#[test]
fn a_full_disk_that_the_keeper_was_to_run_from_is_named_as_such() {
    let directory = std::env::temp_dir().join(format!("keeper-full-{}", std::process::id()));
    std::fs::create_dir(&directory).unwrap();
    let placement = ExecutableLocation::Directory(directory.clone());
    // The thread ends together with its mount namespace.
    let tried = std::thread::spawn({
        let directory = directory.clone();
        move || {
            let options = KeeperOptions { placement, ..KeeperOptions::default() };
            let is_full = mount_a_small_disk(&directory);
            is_full.then(|| launch(&image(), options).unwrap_err().to_string())
        }
    });
    match tried.join().unwrap() {
        Some(text) => {
            assert!(text.contains("No space left on device"), "{text}");
            assert!(text.contains(directory.to_str().unwrap()), "{text}");
        }
        None => eprintln!("skipped: only root can fill a disk for one thread alone"),
    }
    std::fs::remove_dir(&directory).unwrap();
}

#[test]
fn a_missing_interpreter_is_named_as_such() {
    let mut tree = Tree::new();
    let mut program = python_program(&[]);
    program.arguments[0] = b"/nowhere/python3".to_vec();
    let key = WorkerKey::new(0, 1);
    tree.start_program(1, program.clone());
    tree.commands.spawn_fresh(key, program, &[]).unwrap();
    let (end, text) = lost(&mut tree, 1);
    assert_eq!(end, ZygoteEnd::NotStarted { errno: libc::ENOENT });
    assert!(text.contains("No such file"), "{text}");
    assert!(spawn_failure(&mut tree, key).contains("No such file"));
}

#[test]
fn a_missing_working_directory_is_named_as_such() {
    let mut tree = Tree::new();
    let mut program = python_program(&[]);
    program.directory = b"/nowhere".to_vec();
    tree.start_program(1, program);
    assert_eq!(lost(&mut tree, 1).0, ZygoteEnd::NotStarted { errno: libc::ENOENT });
}

#[test]
fn an_import_error_reaches_the_client_and_fails_the_forks_that_waited() {
    let mut tree = Tree::new();
    tree.start_program(1, python_program(&["-c", "import no_such_module"]));
    let key = WorkerKey::new(LEAVE, 1);
    tree.commands.spawn(1, key, &[]).unwrap();
    let (end, text) = lost(&mut tree, 1);
    assert_eq!(end, ZygoteEnd::Exited(ExitStatus::Code(1)));
    assert!(text.contains("No module named 'no_such_module'"), "{text}");
    assert!(spawn_failure(&mut tree, key).contains("zygote"));
}

#[test]
fn a_fork_that_the_kernel_refuses_is_reported_with_its_reason() {
    let code = "import os, signal, socket, struct\n\
        control = socket.socket(fileno=3)\n\
        frame = struct.Struct('<IHHHHIiI')\n\
        control.send(frame.pack(0x31595A47, 1, 1, 0, 0, 0, os.getpid(), 0))\n\
        slot, _, epoch = frame.unpack(control.recv(24))[3:6]\n\
        control.send(frame.pack(0x31595A47, 1, 4, slot, 0, epoch, 11, 0))\n\
        signal.pause()";
    let mut tree = Tree::new();
    tree.start_program(1, python_program(&["-c", code]));
    let key = WorkerKey::new(3, 70_000);
    tree.commands.spawn(1, key, &[]).unwrap();
    let text = spawn_failure(&mut tree, key);
    assert!(text.contains("could not fork: Resource temporarily unavailable"), "{text}");
}

#[test]
fn a_zygotes_death_kills_no_worker_and_another_zygote_serves() {
    let mut tree = Tree::new();
    let pid = tree.start_zygote(1);
    let old = tree.spawn(LIVE, 1);
    support::signal(pid, libc::SIGKILL);
    let killed = ExitStatus::Signal { signal: libc::SIGKILL, core: false };
    assert_eq!(lost(&mut tree, 1).0, ZygoteEnd::Exited(killed));
    tree.start_zygote(1);
    let new = tree.spawn(LEAVE, 6);
    assert_eq!(tree.exited(new.worker).status, ExitStatus::Code(6));
    assert!(support::is_alive(old.pidfd.as_ref().unwrap()));
    tree.commands.signal(old.worker, libc::SIGTERM).unwrap();
    let ended = ExitStatus::Signal { signal: libc::SIGTERM, core: false };
    assert_eq!(tree.exited(old.worker).status, ended);
}

#[test]
fn a_stopped_zygote_leaves_with_zero_and_its_workers_stay() {
    let mut tree = Tree::with_zygote();
    let worker = tree.spawn(LIVE, 1);
    tree.commands.stop_zygote(1).unwrap();
    assert_eq!(lost(&mut tree, 1).0, ZygoteEnd::Exited(ExitStatus::Code(0)));
    assert!(support::is_alive(worker.pidfd.as_ref().unwrap()));
}

#[test]
fn a_zygote_that_sends_garbage_is_ended_and_no_other_process() {
    const GARBAGE: [&str; 4] = [
        "b'nonsense'",
        "b'GZY1' + bytes(20)",
        "b'x' * 5000",
        // A start notice that names another process than its sender.
        "struct.pack('<IHHHHIiI', 0x31595A47, 1, 3, 0, 0, 1, 1, 0)",
    ];
    let mut tree = Tree::with_zygote();
    for (id, garbage) in (2..).zip(GARBAGE) {
        let code = format!(
            "import signal, socket, struct\nsocket.socket(fileno=3).send({garbage})\nsignal.pause()"
        );
        tree.start_program(id, python_program(&["-c", &code]));
        let (end, text) = lost(&mut tree, id);
        let killed = ExitStatus::Signal { signal: libc::SIGKILL, core: false };
        assert_eq!(end, ZygoteEnd::Exited(killed));
        assert!(text.contains("the keeper ended this zygote"), "{text}");
    }
    let start = tree.spawn(LEAVE, 2);
    assert_eq!(tree.exited(start.worker).status, ExitStatus::Code(2));
}

#[test]
fn garbage_from_the_client_is_refused_and_changes_nothing() {
    let mut tree = Tree::with_zygote();
    let large = vec![0xff; 60_000];
    let kind = b"GKPR\x01\0\xff\0\0\0\0\0\0\0\0\0".to_vec();
    for packet in [b"x".as_slice(), b"garbage of some bytes", &large, &kind] {
        let socket = tree.events.as_fd().as_raw_fd();
        // SAFETY: pointer and length describe the slice, which outlives the call.
        let sent = unsafe { libc::send(socket, packet.as_ptr().cast(), packet.len(), 0) };
        assert_eq!(usize::try_from(sent), Ok(packet.len()));
        tree.expect(|event| matches!(event, KeeperEvent::Refused { .. }).then_some(()));
    }
    let start = tree.spawn(LEAVE, 8);
    assert_eq!(tree.exited(start.worker).status, ExitStatus::Code(8));
}

#[test]
fn orders_that_make_no_sense_are_answered() {
    let mut tree = Tree::with_zygote();
    let key = WorkerKey::new(LIVE, 1);
    tree.commands.spawn(77, key, &[]).unwrap();
    assert!(spawn_failure(&mut tree, key).contains("the zygote does not exist"));
    tree.spawn(LIVE, 1);
    tree.commands.spawn(1, key, &[]).unwrap();
    assert!(spawn_failure(&mut tree, key).contains("exists already"));
    tree.start_program(1, python_program(&[]));
    tree.expect(|event| matches!(event, KeeperEvent::Refused { .. }).then_some(()));
    tree.commands.kill(WorkerKey::new(9, 9), libc::SIGKILL).unwrap();
    assert_eq!(tree.shut_down(), ExitStatus::Code(0));
}

#[test]
fn commands_to_a_dead_keeper_fail_and_its_end_is_told_again_and_again() {
    let mut tree = Tree::new();
    support::signal(tree.events.pid(), libc::SIGKILL);
    let lost = loop {
        if let Err(lost) = tree.events.next(None) {
            break lost;
        }
    };
    assert_eq!(lost.status, ExitStatus::Signal { signal: libc::SIGKILL, core: false });
    assert_eq!(tree.events.next(None).unwrap_err(), lost);
    let error = tree.commands.stop_zygote(1).unwrap_err();
    assert!(matches!(error, CommandError::Gone), "{error}");
}
