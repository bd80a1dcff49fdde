//! The options of a client, and the errors of its start.

use gristmill_core::Config;
use gristmill_keeper::Program;
use gristmill_shm::{ArenaOptions, Window};
use thiserror::Error;

use crate::blobs::BlobOptions;

/// The options of a client; the layer above decides all of them.
#[derive(Debug)]
pub struct ClientOptions {
    /// Budgets, limits and sizes of the task graph.
    pub core: Config,
    /// Program of a zygote or a fresh worker. Segment, arena and event are its first descriptors behind its control socket.
    pub program: Program,
    /// Further descriptors that the program gets.
    pub descriptors: Vec<std::os::fd::OwnedFd>,
    /// True if each worker is an interpreter of its own instead of a fork of a zygote.
    pub spawn_fresh: bool,
    /// The executable of the keeper.
    pub keeper_image: &'static [u8],
    /// Time that a waiting caller polls before it sleeps. [`Window::Learned`] applies to links only: without links a caller
    /// then does not poll.
    pub window: Window,
    /// Memory and disk for large payloads.
    pub arena: ArenaOptions,
    /// Bytes of each task ring and each result ring; a power of two.
    pub ring_size: u32,
    /// Use of links to engines on other nodes.
    pub links: LinkUse,
    /// Options for the large payloads that go to other nodes.
    pub blobs: BlobOptions,
}

/// The client's use of links to engines on other nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LinkUse {
    /// No links: all workers are on this node.
    #[default]
    None,
    /// Links to nodes: all workers are on these nodes.
    Outwards,
    /// Links from clients: the workers are on this node, and the tasks come over links.
    Inwards,
}

/// Reason why a client cannot be started.
#[derive(Debug, Error)]
pub enum StartError {
    /// There is no shared memory.
    #[error("the rings cannot be made: {0}")]
    Segment(#[from] gristmill_shm::SegmentError),
    /// There is no arena for large payloads.
    #[error("the memory for large payloads cannot be made: {0}")]
    Arena(#[from] gristmill_shm::ArenaError),
    /// There is no keeper.
    #[error("the keeper process cannot be started: {0}")]
    Keeper(#[from] gristmill_keeper::LaunchError),
    /// The keeper did not accept the first command.
    #[error("the keeper process did not accept its first command: {0}")]
    Command(#[from] gristmill_keeper::CommandError),
    /// There is no sleeper for links.
    #[error("connections cannot be watched: {0}")]
    Sleeper(#[source] std::io::Error),
    /// There is no thread.
    #[error("a thread cannot be started: {0}")]
    Thread(#[source] std::io::Error),
}

impl StartError {
    /// Returns the code that the exception in Python has.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Segment(_) => "start_segment",
            Self::Arena(_) => "start_arena",
            Self::Keeper(_) => "start_keeper",
            Self::Command(_) => "start_command",
            Self::Sleeper(_) => "start_sleeper",
            Self::Thread(_) => "start_thread",
        }
    }
}
