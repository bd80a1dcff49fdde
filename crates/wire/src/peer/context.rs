//! Contexts of another engine: the definitions of their ids, and their state.

use super::{MessageKind, Reader, put_bytes, put_words, write_message};
use crate::{ContextId, Digest, FrameError, ResourceRequest};

/// The definition of a context id of the sender, valid from now on. It comes before the first task that names the id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextTerms<'a> {
    /// The id.
    pub context: ContextId,
    /// The largest number of workers that have the context at the same time.
    pub workers_max: u16,
    /// True if processes can be forked from one in which the context was set up.
    pub is_fork_safe: bool,
    /// Nanoseconds for which an unused context is kept.
    pub linger_ns: u64,
    /// Resources of each worker with the context; [`ResourceRequest::cores`] is the number of CPU slots.
    pub demand: ResourceRequest,
    /// The name, for messages.
    pub name: &'a [u8],
    /// The setup that a process with the context runs.
    pub setup: &'a [u8],
    /// The files that must be at its node first: blobs of the sender.
    pub files: Files<'a>,
}

/// The digests of files.
#[derive(Debug, Clone, Copy)]
pub enum Files<'a> {
    /// Digests as the sender holds them, for a message to write.
    Named(&'a [Digest]),
    /// Digests as the receiver finds them in a message, borrowed from it.
    Came(&'a [[u8; 32]]),
}

impl<'a> Files<'a> {
    /// Reads digests that follow one another.
    ///
    /// # Errors
    /// [`FrameError::Truncated`]: the last digest is cut off.
    fn read(bytes: &'a [u8]) -> Result<Self, FrameError> {
        let (digests, rest) = bytes.as_chunks();
        if rest.is_empty() {
            return Ok(Self::Came(digests));
        }
        Err(FrameError::Truncated { needed: bytes.len() - rest.len() + 32, found: bytes.len() })
    }

    /// Appends the digests, with their number of bytes in front.
    fn put(self, out: &mut Vec<u8>) {
        put_words(out, [self.iter().count() as u64 * 32]);
        self.iter().for_each(|digest| out.extend_from_slice(&digest.0));
    }

    /// Returns the digests in the sender's order.
    pub fn iter(self) -> impl Iterator<Item = Digest> + 'a {
        let (named, came) = match self {
            Self::Named(digests) => (digests, &[][..]),
            Self::Came(digests) => (&[][..], digests),
        };
        named.iter().copied().chain(came.iter().copied().map(Digest))
    }
}

impl Default for Files<'_> {
    fn default() -> Self {
        Self::Named(&[])
    }
}

impl PartialEq for Files<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Files<'_> {}

/// The bit of a context id in a task that marks a context that the receiver of the task defined.
const OF_RECEIVER: u32 = 1 << 31;

impl ContextId {
    /// Returns the id by which a task names one of the receiver's own contexts.
    #[must_use]
    pub const fn of_receiver(self) -> Self {
        Self(self.0 | OF_RECEIVER)
    }

    /// Returns the receiver's own context that the id names, if it names one.
    #[must_use]
    pub const fn own(self) -> Option<Self> {
        if self.0 & OF_RECEIVER == 0 { None } else { Some(Self(self.0 & !OF_RECEIVER)) }
    }
}

/// The bit of the first word that says that processes can be forked.
const FORK_SAFE: u64 = 1 << 48;

impl<'a> ContextTerms<'a> {
    /// Appends the message and returns its size, bytes.
    pub fn write(&self, out: &mut Vec<u8>) -> usize {
        write_message(out, MessageKind::DefineContext, |out| {
            let safety = if self.is_fork_safe { FORK_SAFE } else { 0 };
            let word = u64::from(self.context.0) | (u64::from(self.workers_max) << 32) | safety;
            // The first word holds the GPUs and the CPU slots.
            let [gpus_and_places, memory] = self.demand.words();
            put_words(out, [word, self.linger_ns, gpus_and_places, memory]);
            put_bytes(out, self.name);
            put_bytes(out, self.setup);
            self.files.put(out);
        })
    }

    /// Reads the id from the beginning of the body.
    ///
    /// # Errors
    /// [`FrameError::Truncated`]: the beginning is too short.
    #[expect(clippy::cast_possible_truncation, reason = "a field of a packed word")]
    pub fn context_of(body: &[u8]) -> Result<ContextId, FrameError> {
        Ok(ContextId(Reader::new(body).word()? as u32))
    }

    /// Reads the message.
    ///
    /// # Errors
    /// [`FrameError::Truncated`].
    #[expect(clippy::cast_possible_truncation, reason = "fields of a packed word")]
    pub fn read(body: &'a [u8]) -> Result<Self, FrameError> {
        let mut reader = Reader::new(body);
        let [word, linger_ns, gpus_and_places, memory] = reader.words()?;
        Ok(Self {
            context: ContextId(word as u32),
            workers_max: (word >> 32) as u16,
            is_fork_safe: word & FORK_SAFE != 0,
            linger_ns,
            demand: ResourceRequest::from_words([gpus_and_places, memory]),
            name: reader.sized_bytes()?,
            setup: reader.sized_bytes()?,
            files: Files::read(reader.sized_bytes()?)?,
        })
    }
}

/// The state of a context at the engine that its tasks were sent to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ContextState {
    /// The id that the engine that defined the context gave it.
    pub context: ContextId,
    /// Workers that have the context or are about to get it.
    pub workers: u32,
    /// Workers that started with the context.
    pub deployments: u64,
    /// The number of times that the context was set up.
    pub setups: u64,
    /// The time of all setups together, nanoseconds.
    pub setup_ns: u64,
    /// Memory of the process after the last setup, bytes.
    pub memory: u64,
    /// Calls of tasks that were submitted at the sender of this state, not by its receiver.
    pub calls: u64,
    /// The time of those calls together, nanoseconds.
    pub busy_ns: u64,
}

impl ContextState {
    /// Appends the message and returns its size, bytes.
    pub fn write(&self, out: &mut Vec<u8>) -> usize {
        write_message(out, MessageKind::ContextState, |out| {
            put_words(
                out,
                [
                    u64::from(self.context.0) | (u64::from(self.workers) << 32),
                    self.deployments,
                    self.setups,
                    self.setup_ns,
                    self.memory,
                    self.calls,
                    self.busy_ns,
                ],
            );
        })
    }

    /// Reads the message.
    ///
    /// # Errors
    /// [`FrameError::Truncated`].
    #[expect(clippy::cast_possible_truncation, reason = "fields of a packed word")]
    pub fn read(body: &[u8]) -> Result<Self, FrameError> {
        let [first, deployments, setups, setup_ns, memory, calls, busy_ns] =
            Reader::new(body).words()?;
        Ok(Self {
            context: ContextId(first as u32),
            workers: (first >> 32) as u32,
            deployments,
            setups,
            setup_ns,
            memory,
            calls,
            busy_ns,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Messages;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn terms_and_states_come_back() {
        let terms = ContextTerms {
            context: ContextId(u32::MAX),
            workers_max: u16::MAX,
            is_fork_safe: true,
            linger_ns: u64::MAX,
            demand: ResourceRequest { cores: u16::MAX, gpus: 500, memory: u64::MAX },
            name: b"model",
            setup: b"code",
            files: Files::Named(&[Digest([1; 32]), Digest([2; 32])]),
        };
        let state = ContextState {
            context: ContextId(7),
            workers: u32::MAX,
            deployments: 2,
            setups: 3,
            setup_ns: 4,
            memory: 5,
            calls: 6,
            busy_ns: 7,
        };
        let mut chunk = Vec::new();
        terms.write(&mut chunk);
        state.write(&mut chunk);
        let bodies: Vec<_> = Messages::new(&chunk).map(|one| one.expect("whole").1).collect();
        assert_eq!(ContextTerms::read(bodies[0]), Ok(terms));
        assert_eq!(ContextState::read(bodies[1]), Ok(state));
        assert_eq!(terms.files.iter().last(), Some(Digest([2; 32])));
    }

    #[test]
    fn a_name_that_is_cut_off_is_refused() {
        let cut = Files::read(&[7; 63]);
        assert_eq!(cut, Err(FrameError::Truncated { needed: 64, found: 63 }));
    }

    #[test]
    fn whose_a_context_is_is_a_part_of_its_name() {
        let theirs = ContextId(7);
        assert_eq!((theirs.own(), theirs.of_receiver().own()), (None, Some(theirs)));
        assert_eq!(theirs.of_receiver(), ContextId(0x8000_0007));
    }

    #[test]
    fn golden_terms() {
        let mut chunk = Vec::new();
        let terms = ContextTerms {
            context: ContextId(1),
            workers_max: 2,
            is_fork_safe: true,
            linger_ns: 3,
            demand: ResourceRequest { cores: 2, gpus: 1000, memory: 5 },
            name: b"m",
            setup: b"",
            files: Files::default(),
        };
        terms.write(&mut chunk);
        let golden = [
            64, 0, 0, 0, 27, 0, 0, 0, 1, 0, 0, 0, 2, 0, 1, 0, 3, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0,
            232, 3, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, b'm', 0, 0, 0, 0, 0, 0,
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        ];
        assert_eq!(chunk, golden);
    }

    proptest! {
        #[test]
        fn any_body_decodes_or_is_refused(bytes: Vec<u8>) {
            let _ = (ContextTerms::read(&bytes), ContextState::read(&bytes));
        }
    }
}
