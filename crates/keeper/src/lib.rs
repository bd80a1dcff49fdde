//! The process tree of one client: `client -> keeper -> zygotes -> workers`.
//!
//! The **keeper** is a small single-threaded process in a session of its own. It starts zygotes and workers, reaps
//! them, reports their exit status with the end of their standard error, and kills all descendants when its client
//! dies. It is executed from bytes that the client carries ([`launch()`]) and runs [`serve`]. Workers are forked by a
//! [`Zygote`] but start as children of the keeper, so that their exit status cannot be lost and a zygote's death
//! does not affect them.
//!
//! Guarantees: as long as the keeper lives, each requested worker ends in exactly one of [`KeeperEvent::SpawnFailed`]
//! or [`KeeperEvent::Started`] followed by [`KeeperEvent::Exited`]. After the client's death no process of the tree
//! remains except those that asked to stay ([`KEEP_VARIABLE`]). The keeper's own death kills its workers, and
//! [`kill_tree_leftovers`] kills the programs that they ran. Leftovers of a worker that exited by itself stay until the
//! client ends; only [`Command::Kill`] includes the descendants, and [`Command::EndStarted`] includes the processes
//! that one task of the worker started.
//!
//! Rings and tasks are in `shm` and `core`. The imports of a zygote and the replacement of workers are decided in
//! `client`.

mod client;
mod descent;
mod descriptor;
mod handle;
mod image;
mod launch;
mod message;
mod process_table;
mod server;
mod signal_name;
mod socket;
mod started;
mod status;
mod task_mark;
mod token;
mod worker_start;
mod worker_stderr;
mod zygote;
mod zygote_frame;

pub use client::{CommandError, Commands, Events, KeeperLost};
pub use descent::kill_tree_leftovers;
pub use descriptor::memory_copy;
pub use handle::{leaves_room, send_signal, wait_for_end};
pub use launch::{ExecutableLocation, KeeperOptions, LaunchError, launch, unheard};
pub use message::{
    BODY_LIMIT, CONTROL_VERSION, Command, DESCRIPTOR_LIMIT, Exit, HEADER_SIZE, Header, KeeperEvent,
    MessageError, Output, Program, Stopped, WorkerKey, WorkerStart, ZygoteEnd,
};
pub use server::serve;
pub use signal_name::signal_name;
pub use status::{ExitStatus, Usage};
pub use task_mark::TaskMark;
pub use token::{
    KEEP_VARIABLE, KEEPER_VARIABLE, TASK_VARIABLE, TREE_VARIABLE, TreeToken, WORKER_VARIABLE,
};
pub use worker_start::{
    WorkerSetup, WorkerStartError, announce_start, become_worker, bind_to_keeper,
    leave_signals_to_program,
};
pub use worker_stderr::WorkerStderr;
pub use zygote::{AtWork, Candidate, Zygote, ZygoteStep};
pub use zygote_frame::{ZYGOTE_DESCRIPTOR, ZYGOTE_FRAME_SIZE, ZygoteFrame};

/// Returns the id of the calling process, in the type of the kernel's calls.
fn process_id() -> i32 {
    // SAFETY: the call has no arguments.
    unsafe { libc::getpid() }
}
