//! The standard error of all processes of the tree, and the sink that it is forwarded to.

use std::collections::BTreeMap;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Instant;

use super::peek::Peek;
use super::sink::Sink;
use super::stderr::Stderr;
use crate::descriptor::pipe;
use crate::message::Output;

/// The stderr pipes by their ids.
#[derive(Debug)]
pub(super) struct Streams {
    open: BTreeMap<u64, Stderr>,
    next_id: u64,
    peek: Peek,
    sink: Sink,
}

impl Streams {
    pub(super) fn new(sink: Sink) -> std::io::Result<Self> {
        Ok(Self { open: BTreeMap::new(), next_id: 0, peek: Peek::new()?, sink })
    }

    /// Creates a pipe. Returns the id of its stream and the writing end.
    pub(super) fn add(&mut self, output: Output) -> std::io::Result<(u64, OwnedFd)> {
        let (reader, writer) = pipe()?;
        let id = self.next_id;
        self.next_id += 1;
        self.open.insert(id, Stderr::new(reader, output == Output::Forward));
        Ok((id, writer))
    }

    /// Drops the stream of a process that did not start.
    pub(super) fn remove(&mut self, id: u64) {
        self.open.remove(&id);
    }

    /// Reads once from a stream.
    pub(super) fn read(&mut self, id: u64, now: Instant) {
        if let Some(stream) = self.open.get_mut(&id) {
            stream.read(&mut self.peek, &mut self.sink, now);
        }
    }

    /// Forwards all that was written to a stream so far, an incomplete line included.
    pub(super) fn complete(&mut self, id: u64) {
        let now = Instant::now();
        if let Some(stream) = self.open.get_mut(&id) {
            stream.read(&mut self.peek, &mut self.sink, now);
            stream.pass_on_partial(&mut self.sink);
        }
    }

    /// Takes a stream's tail after its process has ended.
    pub(super) fn last_words(&mut self, id: u64) -> Vec<u8> {
        let now = Instant::now();
        let stream = self.open.get_mut(&id);
        stream.map_or_else(Vec::new, |stream| stream.last_words(&mut self.sink, now))
    }

    /// Forwards the lines that have waited too long, and drops the streams that are over.
    pub(super) fn tick(&mut self, now: Instant) {
        for stream in self.open.values_mut() {
            stream.tick(&mut self.peek, &mut self.sink, now);
        }
        self.open.retain(|_, stream| !stream.is_over());
    }

    /// Writes to the client's stream what it takes now. Once it has all of it, removes that from the pipes.
    pub(super) fn flush(&mut self) {
        self.sink.flush();
        if self.sink.is_empty() {
            self.open.values_mut().for_each(Stderr::settle);
        }
    }

    /// Forwards the rest of all streams, at the end of the tree.
    pub(super) fn finish(&mut self) {
        let now = Instant::now();
        for stream in self.open.values_mut() {
            stream.last_words(&mut self.sink, now);
        }
        self.sink.finish();
    }

    /// Returns the streams to wait for, with their descriptors.
    pub(super) fn readers(&self) -> impl Iterator<Item = (u64, BorrowedFd<'_>)> {
        self.open.iter().filter_map(|(&id, stream)| Some((id, stream.interest(&self.sink)?)))
    }

    /// Returns the descriptor that the sink waits for to take more.
    pub(super) fn blocked_on(&self) -> Option<BorrowedFd<'_>> {
        self.sink.blocked_on()
    }

    /// Returns the time at which the next incomplete line is forwarded.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.open.values().filter_map(Stderr::deadline).min()
    }
}
