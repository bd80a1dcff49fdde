//! The CPUs, the memory and the resource limits of the machine, its control groups and this process.
//!
//! The engine, its keeper and its Python part read these limits through this crate only. The crate reads files of
//! `/proc` and of the mounted control groups. It caches nothing, because limits change while a program runs.
//!
//! Guarantee: a file that is missing, unreadable or malformed is never an error. A limit that it should state counts as
//! no limit, the memory of the machine as 1 GiB, and the mapped size of this process as 0. If the affinity mask cannot
//! be read, the system call reports it.
#![forbid(unsafe_code)]

mod cpus;
mod groups;
mod limits;
mod memory;

pub use cpus::MachineCpus;
pub use groups::{Group, Hierarchy};
pub use limits::ProcessLimits;
pub use memory::MachineMemory;

use std::fs;
use std::path::{Path, PathBuf};

/// A view of the machine's files.
#[derive(Debug, Clone)]
pub struct Machine {
    root: PathBuf,
}

impl Default for Machine {
    fn default() -> Self {
        Self::at("/")
    }
}

impl Machine {
    /// Uses another folder as the file system root, so that a test can supply a tree of plain files.
    #[must_use]
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Reads the file at an absolute path. Returns `None` if it cannot be read.
    fn read(&self, path: &Path) -> Option<String> {
        fs::read_to_string(self.root.join(path.strip_prefix("/").ok()?)).ok()
    }

    /// Reads a file that holds one number. Returns `None` if it holds a word such as "max".
    fn read_number(&self, path: &Path) -> Option<u64> {
        self.read(path)?.trim().parse().ok()
    }
}

/// Reads the number of CPUs that this process and its children may use.
#[must_use]
pub fn cpus() -> MachineCpus {
    Machine::default().cpus()
}

/// Reads the size of the machine's memory and the part that this process and its children may use.
#[must_use]
pub fn memory() -> MachineMemory {
    Machine::default().memory()
}

/// Returns the control groups that limit this process's memory, the innermost first.
#[must_use]
pub fn memory_groups() -> Vec<Group> {
    Machine::default().memory_groups()
}

/// Reads the limits of this process.
#[must_use]
pub fn process_limits() -> ProcessLimits {
    Machine::default().process_limits()
}

/// Returns the bytes of address space that this process has mapped.
#[must_use]
pub fn mapped_size() -> u64 {
    Machine::default().mapped_size()
}
