//! One program's client: the task graph, the rings to its workers, and whoever completes what comes back.
//!
//! Guarantees: every accepted task ends; waiting is woken by completion, death and shutdown alike; all methods may be
//! called from any thread. Bytes are opaque here: what a payload or a definition means is the business of the layer above,
//! and so is whatever lock that layer holds; nothing here calls back into it.
// Under loom there are no mapped rings, so there is no client: the models include the file that they check.
#![cfg(not(gristmill_loom))]
#![forbid(unsafe_code)]

mod attendant;
mod batch;
mod blobs;
mod bundle;
mod client;
mod contexts;
mod drain;
mod ending;
mod explain;
mod functions;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod inner;
mod intake;
mod lanes;
mod lead;
mod nap;
mod nested;
mod notices;
mod options;
mod outcome;
mod outstanding;
mod peers;
mod port;
mod provisions;
mod rest;
mod results;
mod start;
mod submit;
mod tree;
mod wait;
mod watcher;
#[cfg(any(test, feature = "workless"))]
mod workless;

pub use batch::{CallBatch, Pending, Taken};
pub use blobs::{
    BlobHome, BlobLook, BlobOptions, BlobParts, BlobPort, BlobSizes, BlobTables, BlobTraffic,
    BlobWork, DepotLine, Gate, Rest, Returned, Warden,
};
pub use bundle::Encoded;
pub use client::Client;
pub use contexts::{ContextDefinition, ContextReport, Contexts, Setups};
pub use functions::Functions;
pub use options::{ClientOptions, LinkUse, StartError};
pub use outcome::{Ended, TagTimes, TaskLook};
pub use outstanding::Outstanding;
pub use peers::{
    ContextTelling, Conversation, DepartedNode, Departure, Dials, Door, DoorOptions, Guests, Host,
    Link, LinkHome, LinkOwner, LinkPort, LinkSizes, LinkWork, Links, Meeting, NewLink, Parts,
    PayloadStore, PeerNews, PeerView, Porter, Reception, ReceptionError, Redial, Sending, Talk,
    Terms, Told, Trouble, Turn, disagreement, is_guest,
};
pub use provisions::{Brought, Steward, Ticket};
pub use results::{CallResult, CallValue, Results};
pub use submit::Call;
pub use tree::{INTERRUPT_SIGNAL, SETUP_ALARM, SETUP_EXIT_CODE, THREADED_EXIT_CODE};
#[cfg(any(test, feature = "workless"))]
pub use workless::Workless;

pub use gristmill_core::{
    Budgets, CancelMode, Config, Stats, SubmitError, Supply, TaskOptions, pick_near,
};
pub use gristmill_keeper::{Output, Program, memory_copy};
pub use gristmill_shm::{ArenaError, BLOCK_MIN, BlockPart, ClientArena, Window};
pub use gristmill_store::{BlobLimits, SpreadOptions, Topology};
