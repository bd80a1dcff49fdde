//! Execution of the client's commands.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use super::Server;
use crate::descent::DescendantKill;
use crate::descriptor::signal_handle;
use crate::message::{Command, KeeperEvent, Stopped, WorkerKey, ZygoteEnd};
use crate::process_id;
use crate::task_mark;
use crate::token::{KEEPER_VARIABLE, TREE_VARIABLE, TreeToken};

impl Server {
    /// Executes a command.
    pub(super) fn execute(&mut self, command: Command, descriptors: Vec<OwnedFd>) {
        match (self.token.clone(), command) {
            (None, Command::Begin { token }) => self.token = Some(token),
            (None, _) => self.refuse("the first message must be Begin".to_owned()),
            (Some(_), Command::Begin { .. }) => {
                self.refuse("Begin may come only once".to_owned());
            }
            (Some(token), command) => self.obey_in_tree(command, descriptors, &token),
        }
    }

    fn obey_in_tree(&mut self, command: Command, descriptors: Vec<OwnedFd>, token: &TreeToken) {
        if self.closing.is_some() && command.starts_something() {
            return self.fail(&command, libc::ESHUTDOWN);
        }
        match command {
            Command::Begin { .. } => {}
            Command::StartZygote { zygote, program } => {
                self.start_zygote(zygote, &program, descriptors, token);
            }
            Command::Spawn { zygote, worker } => self.spawn(zygote, worker, descriptors),
            Command::SpawnFresh { worker, program } => {
                self.spawn_fresh(worker, &program, &descriptors, token);
            }
            Command::Kill { worker, signal } => self.kill(worker, signal, token),
            Command::EndStarted { worker, by } => self.end_started(worker, by, token),
            Command::Signal { worker, signal } => {
                let handle = self.workers.get(&worker).and_then(|worker| worker.handle.as_ref());
                if let Some(handle) = handle {
                    // The exit of a worker that died meanwhile is reported anyway.
                    let _ = signal_handle(handle.as_fd(), signal);
                }
            }
            Command::StopZygote { zygote } => {
                if let Some(zygote) = self.zygotes.get_mut(&zygote) {
                    zygote.stop();
                }
            }
            Command::Shutdown { grace_ms } => {
                let grace = Duration::from_millis(grace_ms.into());
                self.closing.get_or_insert(Instant::now() + grace);
                for zygote in self.zygotes.values_mut() {
                    zygote.stop();
                }
            }
        }
    }

    /// Tells the client that its packet was refused.
    pub(super) fn refuse(&mut self, text: String) {
        self.tell(&KeeperEvent::Refused { text: text.into_bytes() });
    }

    /// Answers a command that should start a process and cannot.
    pub(super) fn fail(&mut self, command: &Command, errno: i32) {
        match command {
            Command::StartZygote { zygote, .. } => self.zygote_not_started(*zygote, errno),
            Command::Spawn { worker, .. } | Command::SpawnFresh { worker, .. } => {
                self.spawn_failed(*worker, &std::io::Error::from_raw_os_error(errno).to_string());
            }
            _ => self.refuse(std::io::Error::from_raw_os_error(errno).to_string()),
        }
    }

    pub(super) fn zygote_not_started(&mut self, zygote: u32, errno: i32) {
        let stderr_tail = std::io::Error::from_raw_os_error(errno).to_string().into_bytes();
        self.tell(&KeeperEvent::ZygoteLost {
            zygote,
            end: ZygoteEnd::NotStarted { errno },
            stderr_tail,
        });
    }

    pub(super) fn spawn_failed(&mut self, worker: WorkerKey, text: &str) {
        self.tell(&KeeperEvent::SpawnFailed { worker, text: text.as_bytes().to_vec() });
    }

    pub(super) fn kill(&mut self, key: WorkerKey, signal: i32, token: &TreeToken) {
        let Some(worker) = self.workers.get_mut(&key) else {
            self.zygotes.values_mut().for_each(|zygote| zygote.signal_on_start(key, signal));
            return;
        };
        let mut kill = DescendantKill::worker(key, worker.pid, token, signal);
        let found = kill.round();
        if found.is_empty() {
            // The process table is unreadable: signal at least the worker itself.
            if let Some(handle) = &worker.handle {
                let _ = signal_handle(handle.as_fd(), signal);
            }
        }
        if signal == libc::SIGKILL {
            worker.was_killed = true;
            self.kills.push(kill);
        }
    }
}

impl Server {
    /// Kills the processes that one task of a worker started. The worker may have ended meanwhile.
    fn end_started(&mut self, key: WorkerKey, by: Stopped, token: &TreeToken) {
        let worker = self.workers.get(&key).map(|worker| worker.pid);
        let mut kill = DescendantKill::started(key, worker, by, token);
        if !kill.round().is_empty() {
            self.kills.push(kill);
        }
    }
}

impl Command {
    fn starts_something(&self) -> bool {
        matches!(self, Self::StartZygote { .. } | Self::Spawn { .. } | Self::SpawnFresh { .. })
    }
}

/// Returns the environment variables that every program of the tree gets.
pub(super) fn tree_variables(token: &TreeToken) -> Vec<String> {
    vec![
        format!("{TREE_VARIABLE}={token}"),
        format!("{KEEPER_VARIABLE}={}", process_id()),
        task_mark::variable(),
    ]
}
