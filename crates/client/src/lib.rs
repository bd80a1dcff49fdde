//! The client of one program: the task graph, the rings to its workers, and the threads that complete tasks.
//!
//! Guarantees: every accepted task ends. Completion, death and shutdown all wake a waiting thread. All methods may be called
//! from any thread. Bytes are opaque here: the layer above knows the meaning of payloads and definitions. No call from that
//! layer calls back into it, so a lock of that layer may be held during a call. Only two threads of this crate call code of
//! that layer: the connection manager's (`NodeEventCallback`) and the file stager's (`FileStager`).
#![forbid(unsafe_code)]

mod attendant;
mod batch;
mod blobs;
mod bundle;
mod client;
mod client_port;
mod contexts;
mod drain;
mod ending;
mod explain;
mod functions;
pub mod fuzzing;
mod inner;
mod intake;
mod leader_sleep;
mod nap;
mod nested;
mod notices;
mod options;
mod outcome;
mod outstanding;
mod peers;
mod port;
mod results;
mod staging;
mod start;
mod submit;
mod tree;
mod wait;
mod watcher;
mod workerless;

pub use batch::{CallBatch, Pending, TakenResults};
pub use blobs::{
    BlobConnection, BlobHome, BlobOptions, BlobParts, BlobPartsRef, BlobPort, BlobServer,
    BlobSizes, BlobTables, BlobTraffic, BlobTransport, BlobWork, LoopStatus, RemoteCompletion,
};
pub use bundle::EncodedOutcome;
pub use client::Client;
pub use contexts::{ContextDefinition, ContextRegistry, ContextReport, Setups};
pub use functions::Functions;
pub use options::{ClientOptions, LinkUse, StartError};
pub use outcome::{Ended, TaskStatus, TaskTimings};
pub use outstanding::Outstanding;
pub use peers::{
    ConnectionManager, ConnectionManagerOptions, ContextTelling, DepartedNode, Departure, Dials,
    EngineParts, HandshakeChannel, HandshakeFailure, HandshakeNext, HandshakeServer,
    HandshakeServerError, Host, InboundTasks, LeaseNegotiator, LeaseTerms, Link, LinkHome,
    LinkOwner, LinkPort, LinkSizes, LinkWork, Links, NewLink, NodeEventCallback, PayloadStore,
    PeerEvent, PeerHandshake, PeerView, PendingHandshake, Redial, Sending, disagreement,
    is_inbound, setup_excess,
};
pub use results::{CallResult, CallValue, Results};
pub use staging::{FetchedFiles, FileStager, StagingId};
pub use submit::CallRequest;
pub use tree::{INTERRUPT_SIGNAL, SETUP_ALARM, SETUP_EXIT_CODE, THREADED_EXIT_CODE};
pub use workerless::WorkerlessEngine;

pub use gristmill_core::{
    Budgets, CancelMode, Config, Stats, SubmitError, Supply, TaskOptions, pick_near,
};
pub use gristmill_keeper::{Output, Program, memory_copy};
pub use gristmill_shm::{ArenaError, BLOCK_MIN, BlockPart, ClientArena, Window};
pub use gristmill_store::{BlobLimits, BroadcastOptions, BroadcastTopology};
