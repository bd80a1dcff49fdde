//! Tests of the life of workers: they start, run in the promised environment, and their end is reported.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod support;

use std::io::Read;
use std::os::fd::AsFd;
use std::time::Duration;

use gristmill_keeper::{
    ExecutableLocation, ExitStatus, KeeperEvent, KeeperOptions, Output, Program, WorkerKey,
};
use support::{
    CRASH, DESCRIBE_WORLD, LEAVE, LEAVE_THE_PIPE, LIVE, Tree, WRITE_MUCH, script, wait_for_death,
};

#[test]
fn the_keeper_says_that_it_is_up_and_leaves_with_zero() {
    let mut tree = Tree::new();
    let keeper = tree.events.pid();
    tree.expect(|event| matches!(event, KeeperEvent::Up { pid } if *pid == keeper).then_some(()));
    assert_eq!(tree.shut_down(), ExitStatus::Code(0));
}

#[test]
fn the_keeper_runs_from_a_directory_and_leaves_no_file_there() {
    let directory = std::env::temp_dir().join(format!("keeper-test-{}", std::process::id()));
    std::fs::create_dir(&directory).unwrap();
    let placement = ExecutableLocation::Directory(directory.clone());
    let mut tree = Tree::with(KeeperOptions { placement, ..KeeperOptions::default() });
    tree.expect(|event| matches!(event, KeeperEvent::Up { .. }).then_some(()));
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
    tree.shut_down();
    std::fs::remove_dir(&directory).unwrap();
}

#[test]
fn a_workers_exit_code_is_reported() {
    let mut tree = Tree::with_zygote();
    for code in [0, 1, 42, 255] {
        let start = tree.spawn(LEAVE, code);
        let exit = tree.exited(start.worker);
        assert_eq!(exit.pid, start.pid);
        assert_eq!(exit.status, ExitStatus::Code(code.try_into().unwrap()));
        assert!(!exit.oom && exit.usage.max_rss_kib > 0);
    }
}

#[test]
fn a_workers_signal_is_reported() {
    let mut tree = Tree::with_zygote();
    for signal in [libc::SIGKILL, libc::SIGSEGV, libc::SIGTERM] {
        let start = tree.spawn(CRASH, signal.try_into().unwrap());
        let exit = tree.exited(start.worker);
        let found =
            matches!(exit.status, ExitStatus::Signal { signal: found, .. } if found == signal);
        assert!(found, "{:?}", exit.status);
    }
}

#[test]
fn the_handle_of_a_worker_becomes_readable_at_its_death() {
    let mut tree = Tree::with_zygote();
    let start = tree.spawn(LIVE, 1);
    let handle = start.pidfd.unwrap();
    assert!(support::is_alive(&handle));
    tree.commands.signal(start.worker, libc::SIGTERM).unwrap();
    wait_for_death(&handle);
    let status = tree.exited(start.worker).status;
    assert_eq!(status, ExitStatus::Signal { signal: libc::SIGTERM, core: false });
}

#[test]
fn many_workers_are_each_born_and_each_reported() {
    let mut tree = Tree::with_zygote();
    let keys: Vec<WorkerKey> = (0..100).map(|code| WorkerKey::new(LEAVE, code)).collect();
    for key in &keys {
        tree.commands.spawn(1, *key, &[]).unwrap();
    }
    for (code, key) in (0..).zip(&keys) {
        tree.started(*key);
        assert_eq!(tree.exited(*key).status, ExitStatus::Code(code));
    }
}

#[test]
fn workers_may_be_asked_for_before_the_zygote_is_ready() {
    let mut tree = Tree::new();
    tree.start_program(1, script("roles.py", &[]));
    let key = WorkerKey::new(LEAVE, 9);
    tree.commands.spawn(1, key, &[]).unwrap();
    assert_eq!(tree.exited(key).status, ExitStatus::Code(9));
}

#[test]
fn the_exit_notice_ends_with_the_last_whole_lines_of_standard_error() {
    let mut tree = Tree::with_zygote();
    let start = tree.spawn(WRITE_MUCH, 5000);
    let tail = String::from_utf8(tree.exited(start.worker).stderr_tail).unwrap();
    assert!(tail.len() <= 4096 && tail.len() > 4000);
    assert!(tail.starts_with("line 00") && tail.ends_with("line 004999\n"), "{tail}");
}

#[test]
fn standard_error_reaches_the_client_in_whole_lines() {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let options = KeeperOptions { stderr: Some(writer.into()), ..KeeperOptions::default() };
    let mut tree = Tree::with(options);
    tree.start_zygote(1);
    for lines in [20_000, 20_001] {
        tree.commands.spawn(1, WorkerKey::new(WRITE_MUCH, lines), &[]).unwrap();
    }
    let mut text = vec![0; 12 * 40_001];
    reader.read_exact(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    assert!(lines.iter().all(|line| line.len() == 11 && line.starts_with("line 0")));
    lines.sort_unstable();
    assert_eq!((lines.len(), lines[0], lines[40_000]), (40_001, "line 000000", "line 020000"));
    for lines in [20_000, 20_001] {
        tree.exited(WorkerKey::new(WRITE_MUCH, lines));
    }
}

#[test]
fn a_client_that_does_not_read_standard_error_still_hears_of_exits() {
    let (reader, writer) = std::io::pipe().unwrap();
    let options = KeeperOptions { stderr: Some(writer.into()), ..KeeperOptions::default() };
    let mut tree = Tree::with(options);
    tree.start_zygote(1);
    let flood = WorkerKey::new(WRITE_MUCH, 100_000);
    tree.commands.spawn(1, flood, &[]).unwrap();
    tree.started(flood);
    let start = tree.spawn(LEAVE, 4);
    assert_eq!(tree.exited(start.worker).status, ExitStatus::Code(4));
    drop(reader);
    assert_eq!(tree.exited(flood).status, ExitStatus::Code(3));
}

#[test]
fn a_child_that_holds_the_pipe_does_not_delay_the_exit_notice() {
    let mut tree = Tree::with_zygote();
    let start = tree.spawn(LEAVE_THE_PIPE, 0);
    let exit = tree.exited(start.worker);
    assert_eq!(exit.status, ExitStatus::Code(5));
    assert_eq!(exit.stderr_tail, b"first\nlast words");
}

#[test]
fn a_worker_has_the_directory_umask_environment_session_and_signals_it_was_promised() {
    let mut tree = Tree::new();
    let mut program = script("roles.py", &[]);
    program.directory = b"/usr".to_vec();
    program.umask = 0o027;
    program.environment.push(b"FRUIT=plum".to_vec());
    program.environment.push(b"GRISTMILL_KEEP=1".to_vec());
    tree.start_program(1, program);
    let key = WorkerKey::new(DESCRIBE_WORLD, 0);
    let writer = tree.report_writer().try_clone_to_owned().unwrap();
    tree.commands.spawn(1, key, &[writer.as_fd()]).unwrap();
    assert_eq!(tree.report(), "/usr 27 plum None 0");
    assert_eq!(tree.report(), "True True");
    tree.exited(key);
}

#[test]
fn an_environment_larger_than_a_packet_arrives() {
    let mut tree = Tree::new();
    let mut program = script("roles.py", &[]);
    program.environment.extend(
        (0..20).map(|number| [format!("BIG{number}=").into_bytes(), vec![b'x'; 50_000]].concat()),
    );
    tree.start_program(1, program);
    let start = tree.spawn(LEAVE, 0);
    assert_eq!(tree.exited(start.worker).status, ExitStatus::Code(0));
}

#[test]
fn a_fresh_worker_is_executed_watched_and_killed() {
    let mut tree = Tree::new();
    let key = WorkerKey::new(0, 1);
    let program = Program { stdout: Output::Discard, ..script("roles.py", &["--fresh"]) };
    let writer = tree.report_writer().try_clone_to_owned().unwrap();
    let two = [writer.as_fd(), writer.as_fd()];
    tree.commands.spawn_fresh(key, program, &two).unwrap();
    let start = tree.started(key);
    assert_eq!(tree.report(), format!("pid {}", start.pid));
    tree.commands.kill(key, libc::SIGKILL).unwrap();
    let exit = tree.exited(key);
    assert_eq!(exit.status, ExitStatus::Signal { signal: libc::SIGKILL, core: false });
    assert!(!exit.oom);
}

#[test]
fn a_shutdown_waits_for_workers_that_end_by_themselves() {
    let mut tree = Tree::with_zygote();
    let start = tree.spawn(LIVE, 1);
    tree.report();
    tree.commands.shutdown(Duration::from_secs(3600)).unwrap();
    tree.commands.signal(start.worker, libc::SIGTERM).unwrap();
    tree.exited(start.worker);
    loop {
        if let Err(lost) = tree.events.next(None) {
            assert_eq!(lost.status, ExitStatus::Code(0));
            break;
        }
    }
}
