//! Tests of the end of a tree: after the death of any process, no unwanted process is left.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod support;

use std::io::{BufRead, BufReader};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};

use gristmill_keeper::{ExitStatus, KeeperOptions, WorkerKey, kill_tree_leftovers, launch};
use support::{
    DAEMONISE, LIVE, RUN_ESCAPING_PROGRAM, RUN_KEPT_PROGRAM, Tree, image, is_alive, process,
    script, wait_for_death,
};

const HELPER: &str = "GRISTMILL_TEST_CLIENT";

/// Runs the client of `the_death_of_the_client_ends_the_whole_tree` as a process of its own. Does nothing otherwise.
#[test]
fn client_process() {
    if std::env::var_os(HELPER).is_none() {
        return;
    }
    let null = std::fs::File::create("/dev/null").unwrap();
    let options = KeeperOptions { stderr: Some(null.into()), ..KeeperOptions::default() };
    let (commands, mut events) = launch(&image(), options).unwrap();
    let out = std::io::stdout();
    commands.start_zygote(1, script("roles.py", &[]), &[out.as_fd()]).unwrap();
    for role in [LIVE, DAEMONISE, RUN_ESCAPING_PROGRAM] {
        commands.spawn(1, WorkerKey::new(role, 1), &[]).unwrap();
    }
    println!("\npid {}", events.pid());
    while events.next(None).is_ok() {}
}

/// Runs the client. Returns handles of the keeper, three workers, a daemon and an escaped program.
fn run_client() -> (Child, BufReader<std::process::ChildStdout>, Vec<OwnedFd>) {
    let mut client = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "client_process", "--nocapture"])
        .env(HELPER, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut reports = BufReader::new(client.stdout.take().unwrap());
    let mut processes = Vec::new();
    while processes.len() < 6 {
        let mut line = String::new();
        assert!(reports.read_line(&mut line).unwrap() > 0, "the client ended");
        if line.starts_with("pid ") {
            processes.push(process(line.trim_end()));
        }
    }
    (client, reports, processes)
}

#[test]
fn the_death_of_the_client_ends_the_whole_tree() {
    let (mut client, mut reports, processes) = run_client();
    assert!(processes.iter().all(is_alive));
    client.kill().unwrap();
    processes.iter().for_each(wait_for_death);
    // Every process of the tree had this pipe, so its end of file proves that there was no other process.
    while reports.read_line(&mut String::new()).unwrap() > 0 {}
    client.wait().unwrap();
}

#[test]
fn dropping_the_clients_ends_ends_the_tree() {
    let mut tree = Tree::with_zygote();
    let worker = tree.spawn(LIVE, 1);
    let keeper = support::handle(tree.events.pid());
    drop(tree);
    wait_for_death(&keeper);
    wait_for_death(worker.pidfd.as_ref().unwrap());
}

#[test]
fn workers_die_with_their_keeper_and_their_programs_can_be_found() {
    let mut tree = Tree::with_zygote();
    let mut processes = Vec::new();
    for role in [LIVE, RUN_ESCAPING_PROGRAM] {
        tree.spawn(role, 1);
    }
    for _ in 0..3 {
        processes.push(tree.reported_process());
    }
    support::signal(tree.events.pid(), libc::SIGKILL);
    let token = tree.commands.token().clone();
    while tree.events.next(None).is_ok() {}
    kill_tree_leftovers(&token);
    processes.iter().for_each(wait_for_death);
    assert_eq!(kill_tree_leftovers(&token), 0);
}

#[test]
fn a_kill_takes_the_workers_descent_along_and_no_other_process() {
    let mut tree = Tree::with_zygote();
    let bystander = tree.spawn(LIVE, 1);
    tree.report();
    for role in [DAEMONISE, RUN_ESCAPING_PROGRAM] {
        let start = tree.spawn(role, 1);
        let processes = [tree.reported_process(), tree.reported_process()];
        tree.commands.kill(start.worker, libc::SIGKILL).unwrap();
        processes.iter().for_each(wait_for_death);
        let status = tree.exited(start.worker).status;
        assert_eq!(status, ExitStatus::Signal { signal: libc::SIGKILL, core: false });
    }
    assert!(is_alive(bystander.pidfd.as_ref().unwrap()));
}

#[test]
fn a_worker_that_is_killed_before_it_is_born_is_born_and_dies() {
    let mut tree = Tree::new();
    tree.start_program(1, script("roles.py", &[]));
    let key = WorkerKey::new(LIVE, 1);
    tree.commands.spawn(1, key, &[]).unwrap();
    tree.commands.kill(key, libc::SIGKILL).unwrap();
    tree.started(key);
    let status = tree.exited(key).status;
    assert_eq!(status, ExitStatus::Signal { signal: libc::SIGKILL, core: false });
}

#[test]
fn a_program_that_asks_to_be_kept_outlives_kill_and_tree() {
    let mut tree = Tree::with_zygote();
    let start = tree.spawn(RUN_KEPT_PROGRAM, 1);
    let lines = [tree.report(), tree.report()];
    let own = format!("pid {}", start.pid);
    let kept = process(lines.iter().find(|line| **line != own).unwrap());
    tree.commands.kill(start.worker, libc::SIGKILL).unwrap();
    tree.exited(start.worker);
    assert!(is_alive(&kept));
    assert_eq!(tree.shut_down(), ExitStatus::Code(0));
    assert!(is_alive(&kept));
    let line = lines.iter().find(|line| **line != own).unwrap();
    support::signal(line[4..].parse().unwrap(), libc::SIGKILL);
    wait_for_death(&kept);
}
