//! The poll loop's descriptors and their handlers, and the reaping of children: workers, zygotes, and orphans of their
//! descendants.

use std::io;
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use super::Server;
use super::reap::{bury, dead_child};
use crate::descriptor::{FORWARD_SIGNAL, interest, wait};
use crate::message::{Command, WorkerKey};
use crate::socket::{PACKET_LIMIT, open_packet, receive};

/// The interval between two rounds of a `DescendantKill`, which lasts until a round finds no target, or gives up.
const HUNT_INTERVAL: Duration = Duration::from_millis(2);
/// Packets that are read from the client before other sources are served.
const TURN_LIMIT: usize = 64;

/// The owner of a polled descriptor.
#[derive(Debug, Clone, Copy)]
enum Source {
    Control,
    Client,
    Signals,
    Sink,
    Zygote(u32),
    Execution(WorkerKey),
    Stream(u64),
}

/// The role of a dead child.
enum Role {
    Worker(WorkerKey),
    Zygote(u32),
    Orphan,
}

impl Server {
    /// Waits for events and handles them.
    pub(super) fn wait_and_serve(&mut self) {
        let (sources, mut polled) = self.interests();
        if wait(&mut polled, self.timeout(Instant::now())).is_err() {
            // The kernel has no memory for the poll. Without it the keeper can watch nothing, so the tree ends.
            self.connection.is_gone = true;
            return;
        }
        let ready = sources.into_iter().zip(&polled).filter(|(_, entry)| entry.revents != 0);
        for (source, _) in ready {
            match source {
                Source::Client => self.connection.is_gone = true,
                Source::Control => self.serve_client(),
                Source::Zygote(zygote) => self.serve_zygote(zygote),
                Source::Execution(worker) => self.settle_execution(worker),
                Source::Signals => self.take_signals(),
                Source::Stream(stream) => self.streams.read(stream, Instant::now()),
                Source::Sink => self.streams.flush(),
            }
        }
    }

    /// Returns the descriptors to poll. Sources of starts come before deaths, so that no process is reaped before its
    /// start is known.
    fn interests(&self) -> (Vec<Source>, Vec<libc::pollfd>) {
        let input = libc::POLLIN;
        let outgoing = if self.connection.has_unsent() { libc::POLLOUT } else { 0 };
        let mut all = vec![
            (Source::Client, interest(&self.client, input)),
            (Source::Control, interest(&self.connection.control, input | outgoing)),
        ];
        for (&id, zygote) in &self.zygotes {
            if let Some((socket, events)) = zygote.interest() {
                all.push((Source::Zygote(id), interest(socket, events)));
            }
        }
        for (&key, worker) in &self.workers {
            if let Some(outcome) = &worker.outcome {
                all.push((Source::Execution(key), interest(outcome.as_fd(), input)));
            }
        }
        all.push((Source::Signals, interest(&self.signals, input)));
        for (id, reader) in self.streams.readers() {
            all.push((Source::Stream(id), interest(reader, input)));
        }
        if let Some(target) = self.streams.blocked_on() {
            all.push((Source::Sink, interest(target, libc::POLLOUT)));
        }
        all.into_iter().unzip()
    }

    fn timeout(&self, now: Instant) -> Option<Duration> {
        let streams = self.streams.deadline().into_iter();
        let zygotes = self.zygotes.values().filter_map(super::zygotes::Zygote::deadline);
        let next = streams.chain(zygotes).chain(self.closing).min();
        let next = next.map(|deadline| deadline.saturating_duration_since(now));
        if self.kills.is_empty() {
            next
        } else {
            Some(next.map_or(HUNT_INTERVAL, |next| next.min(HUNT_INTERVAL)))
        }
    }

    fn serve_client(&mut self) {
        let mut buffer = [0; PACKET_LIMIT];
        for _ in 0..TURN_LIMIT {
            let packet = match receive(self.connection.control.as_fd(), &mut buffer) {
                Ok(packet) => packet,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => {
                    self.connection.is_gone = true;
                    return;
                }
            };
            if packet.size == 0 {
                self.connection.is_gone = true;
                return;
            }
            let bytes = &buffer[..packet.size];
            let cut = packet.cut;
            let opened = open_packet(bytes, packet).and_then(|(kind, body, descriptors)| {
                let command = Command::decode(kind, &body)?;
                command.check_descriptors(descriptors.len())?;
                Ok((command, descriptors))
            });
            match opened {
                Ok((command, _)) if cut => self.fail(&command, libc::EMFILE),
                Ok((command, descriptors)) => self.execute(command, descriptors),
                Err(error) => self.refuse(error.to_string()),
            }
        }
    }

    /// Reaps the dead, and forwards what a worker waits for.
    fn take_signals(&mut self) {
        let askers = self.drain_signals();
        self.reap();
        for pid in askers {
            // A fork of a worker has no stream of its own: its text comes after the pause for incomplete lines.
            if let Some(worker) = self.workers.values().find(|worker| worker.pid == pid) {
                self.streams.complete(worker.stream);
            }
        }
    }

    /// Reaps all dead children.
    ///
    /// The role of a dead child is looked up before it is reaped, because its id cannot be reused until then. A worker
    /// that died at once may have announced itself on a socket that was not read yet.
    fn reap(&mut self) {
        while let Some(pid) = dead_child() {
            let mut role = self.role(pid);
            if matches!(role, Role::Orphan) {
                let zygotes: Vec<u32> = self.zygotes.keys().copied().collect();
                zygotes.into_iter().for_each(|zygote| self.serve_zygote(zygote));
                role = self.role(pid);
            }
            let Some((status, usage)) = bury(pid) else { continue };
            self.kills.iter_mut().for_each(|kill| kill.forget(pid));
            match role {
                Role::Worker(key) => self.worker_ended(key, status, usage),
                Role::Zygote(id) => self.zygote_ended(id, status),
                Role::Orphan => {}
            }
        }
    }

    fn role(&self, pid: i32) -> Role {
        if let Some((&key, _)) = self.workers.iter().find(|(_, worker)| worker.pid == pid) {
            return Role::Worker(key);
        }
        match self.zygotes.iter().find(|(_, zygote)| zygote.pid == pid) {
            Some((&id, _)) => Role::Zygote(id),
            None => Role::Orphan,
        }
    }

    /// Empties the descriptor of signals. Returns the ids of processes that have asked for the forwarding of their text. One
    /// signal that waits hides those of other processes, which ask again.
    fn drain_signals(&self) -> Vec<i32> {
        /// Size of the kernel's record of one signal, bytes.
        const RECORD_SIZE: usize = size_of::<libc::signalfd_siginfo>();
        /// Places of the number of the signal and of its sender in the record.
        const NUMBER: usize = offset_of!(libc::signalfd_siginfo, ssi_signo);
        const SENDER: usize = offset_of!(libc::signalfd_siginfo, ssi_pid);
        let word = |record: &[u8], place: usize| {
            record[place..].first_chunk::<4>().map(|bytes| i32::from_ne_bytes(*bytes))
        };
        let mut buffer = [0_u8; 4 * RECORD_SIZE];
        let mut askers = Vec::new();
        loop {
            // SAFETY: pointer and size describe the buffer, which outlives the call.
            let count = unsafe {
                libc::read(self.signals.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len())
            };
            let Some(count) = usize::try_from(count).ok().filter(|count| *count > 0) else {
                return askers;
            };
            let records = buffer[..count].chunks_exact(RECORD_SIZE);
            let asking = records.filter(|record| word(record, NUMBER) == Some(FORWARD_SIGNAL));
            askers.extend(asking.filter_map(|record| word(record, SENDER)));
        }
    }
}
