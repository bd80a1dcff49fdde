//! What a client is started with, and why it may not start.

use gristmill_core::Config;
use gristmill_keeper::Program;
use gristmill_shm::Window;
use thiserror::Error;

use crate::blobs::BlobOptions;

/// Everything that the layer above decides.
#[derive(Debug)]
pub struct ClientOptions {
    /// Budgets, limits and sizes of the task graph.
    pub core: Config,
    /// What a zygote, or a fresh worker, is. Segment, arena and event are its first descriptors
    /// behind its control socket.
    pub program: Program,
    /// Further descriptors that it gets.
    pub descriptors: Vec<std::os::fd::OwnedFd>,
    /// Whether each worker is an interpreter of its own instead of a fork of a zygote.
    pub spawn_fresh: bool,
    /// The executable of the keeper.
    pub keeper_image: &'static [u8],
    /// How long who waits looks before it sleeps; for rings alone nothing is learned.
    pub window: Window,
    /// Bytes of each task ring and each result ring; a power of two.
    pub ring_size: u32,
    /// What it has to do with engines on other nodes.
    pub links: LinkUse,
    /// Large parts of what goes to those.
    pub blobs: BlobOptions,
}

/// What a client has to do with engines on other nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LinkUse {
    /// Nothing: all its workers are here.
    #[default]
    None,
    /// All its workers are behind them.
    Outwards,
    /// It is one that others use: its workers are here, its tasks come over links.
    Inwards,
}

/// Why a client cannot be started.
#[derive(Debug, Error)]
pub enum StartError {
    /// No shared memory.
    #[error("the rings cannot be made: {0}")]
    Segment(#[from] gristmill_shm::SegmentError),
    /// No arena for large payloads.
    #[error("the memory for large payloads cannot be made: {0}")]
    Arena(#[from] gristmill_shm::ArenaError),
    /// No keeper.
    #[error("the keeper process cannot be started: {0}")]
    Keeper(#[from] gristmill_keeper::LaunchError),
    /// The keeper did not take the first order.
    #[error("the keeper process did not take its first order: {0}")]
    Command(#[from] gristmill_keeper::CommandError),
    /// Nothing to sleep on.
    #[error("connections cannot be watched: {0}")]
    Sleeper(#[source] std::io::Error),
    /// No thread.
    #[error("a thread cannot be started: {0}")]
    Thread(#[source] std::io::Error),
}

impl StartError {
    /// A stable name for logs, tests and the Python face.
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
