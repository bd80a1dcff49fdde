//! What the keeper waits for, and whom it calls then.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use super::Server;
use crate::descriptor::{interest, wait};
use crate::message::{Command, WorkerKey};
use crate::socket::{PACKET_LIMIT, open_packet, receive};

/// How soon a hunt looks again whether everything it hit is dead.
const HUNT_INTERVAL: Duration = Duration::from_millis(2);
/// Packets taken from the client before others get their turn.
const TURN_LIMIT: usize = 64;

/// What a polled descriptor belongs to.
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

impl Server {
    /// Waits until something happens and deals with it.
    pub(super) fn wait_and_serve(&mut self) {
        let (sources, mut polled) = self.interests();
        if wait(&mut polled, self.timeout(Instant::now())).is_err() {
            // Out of memory for the poll itself: without it nothing can be watched, so the tree
            // ends.
            self.client_gone = true;
            return;
        }
        let ready = sources.into_iter().zip(&polled).filter(|(_, entry)| entry.revents != 0);
        for (source, _) in ready {
            match source {
                Source::Client => self.client_gone = true,
                Source::Control => self.serve_client(),
                Source::Zygote(zygote) => self.serve_zygote(zygote),
                Source::Execution(worker) => self.settle_execution(worker),
                Source::Signals => self.reap(),
                Source::Stream(stream) => {
                    if let Some(stream) = self.streams.get_mut(&stream) {
                        stream.read(&mut self.sink, Instant::now());
                    }
                }
                Source::Sink => self.sink.flush(),
            }
        }
    }

    /// Births come before deaths, so that no process is reaped before its birth is known.
    fn interests(&self) -> (Vec<Source>, Vec<libc::pollfd>) {
        let input = libc::POLLIN;
        let outgoing = if self.outbox.is_empty() { 0 } else { libc::POLLOUT };
        let mut all = vec![
            (Source::Client, interest(&self.client, input)),
            (Source::Control, interest(&self.control, input | outgoing)),
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
        for (&id, stream) in &self.streams {
            if let Some(reader) = stream.interest(&self.sink) {
                all.push((Source::Stream(id), interest(reader, input)));
            }
        }
        if let Some(target) = self.sink.blocked_on() {
            all.push((Source::Sink, interest(target, libc::POLLOUT)));
        }
        all.into_iter().unzip()
    }

    fn timeout(&self, now: Instant) -> Option<Duration> {
        let streams = self.streams.values().filter_map(super::stderr::Stderr::deadline);
        let zygotes = self.zygotes.values().filter_map(super::zygotes::Zygote::deadline);
        let next = streams.chain(zygotes).chain(self.closing).min();
        let next = next.map(|deadline| deadline.saturating_duration_since(now));
        if self.hunts.is_empty() {
            next
        } else {
            Some(next.map_or(HUNT_INTERVAL, |next| next.min(HUNT_INTERVAL)))
        }
    }

    fn serve_client(&mut self) {
        let mut buffer = [0; PACKET_LIMIT];
        for _ in 0..TURN_LIMIT {
            let packet = match receive(self.control.as_fd(), &mut buffer) {
                Ok(packet) => packet,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => {
                    self.client_gone = true;
                    return;
                }
            };
            if packet.size == 0 {
                self.client_gone = true;
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
                Ok((command, descriptors)) => self.obey(command, descriptors),
                Err(error) => self.refuse(error.to_string()),
            }
        }
    }
}
