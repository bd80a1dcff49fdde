//! The process tree of one client: `client -> keeper -> zygotes -> workers`.
//!
//! The **keeper** is a small single-threaded process of its own session that starts zygotes and
//! workers, reaps them, reports how they ended with their last words, and kills the whole descent
//! when its client dies. It is executed from bytes that the client carries ([`launch()`]) and runs
//! [`serve`]. Workers are forked by a [`Zygote`] but are born as children of the keeper, so that their
//! exit status cannot be lost and a zygote's death does not touch them.
//!
//! Guarantees: each worker that was asked for ends in exactly one of [`Event::SpawnFailed`] or
//! [`Event::Born`] followed by [`Event::Exited`], as long as the keeper lives; after the client's
//! death nothing of the tree is left but what asked to be ([`KEEP_VARIABLE`]); the keeper's own
//! death kills its workers, and [`kill_tree_leftovers`] the programs that they ran. Leftovers of a
//! worker that exited by itself stay until the client ends; only [`Command::Kill`] includes the
//! descent.
//!
//! Not here: rings and tasks (`shm`, `core`), what a zygote imports, when a worker is replaced
//! (`client`).

mod birth;
mod client;
mod descent;
mod descriptor;
mod handle;
mod image;
mod launch;
mod message;
mod process_table;
mod server;
mod socket;
mod status;
mod token;
mod zygote;
mod zygote_frame;

pub use birth::{BirthError, WorkerSetup, announce_birth, become_worker, bind_to_keeper};
pub use client::{CommandError, Commands, Events, KeeperLost};
pub use descent::kill_tree_leftovers;
pub use descriptor::memory_copy;
pub use handle::{send_signal, wait_for_end};
pub use launch::{KeeperOptions, LaunchError, Placement, launch, unheard};
pub use message::{
    BODY_LIMIT, Birth, CONTROL_VERSION, Command, DESCRIPTOR_LIMIT, Event, Exit, HEADER_SIZE,
    Header, MessageError, Output, Program, WorkerKey, ZygoteEnd,
};
pub use server::serve;
pub use status::{ExitStatus, Usage};
pub use token::{KEEP_VARIABLE, KEEPER_VARIABLE, TREE_VARIABLE, TreeToken, WORKER_VARIABLE};
pub use zygote::{AtWork, Candidate, Zygote, ZygoteStep};
pub use zygote_frame::{ZYGOTE_DESCRIPTOR, ZYGOTE_FRAME_SIZE, ZygoteFrame};

/// The id of the calling process, as the kernel's calls take it.
fn process_id() -> i32 {
    // SAFETY: the call has no arguments.
    unsafe { libc::getpid() }
}
