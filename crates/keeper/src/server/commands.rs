//! Does what the client says.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use super::Server;
use super::stderr::Stderr;
use crate::descent::Hunt;
use crate::descriptor::{pipe, signal_handle};
use crate::message::{Command, Event, Output, WorkerKey, ZygoteEnd};
use crate::process_id;
use crate::token::{KEEPER_VARIABLE, TREE_VARIABLE, TreeToken};

impl Server {
    /// Carries a command out.
    pub(super) fn obey(&mut self, command: Command, descriptors: Vec<OwnedFd>) {
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
            Command::Signal { worker, signal } => {
                let handle = self.workers.get(&worker).and_then(|worker| worker.handle.as_ref());
                if let Some(handle) = handle {
                    // A worker that died meanwhile is reported by its exit.
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
                self.zygotes.values_mut().for_each(super::zygotes::Zygote::stop);
            }
        }
    }

    /// Tells the client that its packet was no command.
    pub(super) fn refuse(&mut self, text: String) {
        self.tell(&Event::Refused { text: text.into_bytes() });
    }

    /// Answers a command that should start something and cannot.
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
        self.tell(&Event::ZygoteLost { zygote, end: ZygoteEnd::NotStarted { errno }, stderr_tail });
    }

    pub(super) fn spawn_failed(&mut self, worker: WorkerKey, text: &str) {
        self.tell(&Event::SpawnFailed { worker, text: text.as_bytes().to_vec() });
    }

    /// Makes a stderr pipe; returns the name of its reading end and the writing end.
    pub(super) fn new_stream(&mut self, output: Output) -> std::io::Result<(u64, OwnedFd)> {
        let (reader, writer) = pipe()?;
        let name = self.next_stream;
        self.next_stream += 1;
        self.streams.insert(name, Stderr::new(reader, output == Output::Forward));
        Ok((name, writer))
    }

    /// Takes a stream's tail when its process is gone.
    pub(super) fn last_words(&mut self, stream: u64) -> Vec<u8> {
        let now = Instant::now();
        self.streams
            .get_mut(&stream)
            .map_or_else(Vec::new, |stream| stream.last_words(&mut self.sink, now))
    }

    pub(super) fn kill(&mut self, key: WorkerKey, signal: i32, token: &TreeToken) {
        let Some(worker) = self.workers.get_mut(&key) else {
            self.zygotes.values_mut().for_each(|zygote| zygote.doom(key, signal));
            return;
        };
        let mut hunt = Hunt::worker(key, worker.pid, token, signal);
        let found = hunt.round();
        if found.is_empty() {
            // No table of processes: at least the worker itself.
            if let Some(handle) = &worker.handle {
                let _ = signal_handle(handle.as_fd(), signal);
            }
        }
        if signal == libc::SIGKILL {
            worker.was_killed = true;
            self.hunts.push(hunt);
        }
    }
}

impl Command {
    fn starts_something(&self) -> bool {
        matches!(self, Self::StartZygote { .. } | Self::Spawn { .. } | Self::SpawnFresh { .. })
    }
}

/// The variables that every program of the tree gets.
pub(super) fn tree_variables(token: &TreeToken) -> Vec<String> {
    vec![format!("{TREE_VARIABLE}={token}"), format!("{KEEPER_VARIABLE}={}", process_id())]
}
