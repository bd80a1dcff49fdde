//! The resource limits of this process, as `ulimit` shows them.

use crate::Machine;
use std::path::Path;

/// Soft limits of this process; `None` means unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProcessLimits {
    /// Maximum address space, bytes: `ulimit -v`.
    pub address_space: Option<u64>,
    /// Maximum size of a file that the process writes, bytes: `ulimit -f`. It applies to memory files as well.
    pub file_size: Option<u64>,
}

impl Machine {
    /// Reads the limits of this process.
    #[must_use]
    pub fn process_limits(&self) -> ProcessLimits {
        let text = self.read(Path::new("/proc/self/limits")).unwrap_or_default();
        let limit = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse().ok()
        };
        ProcessLimits {
            address_space: limit("Max address space"),
            file_size: limit("Max file size"),
        }
    }

    /// Returns the bytes of address space that this process has mapped; 0 if `/proc/self/status` does not say.
    #[must_use]
    pub fn mapped_size(&self) -> u64 {
        let text = self.read(Path::new("/proc/self/status")).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmSize:"));
        let kibibytes = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse().ok());
        kibibytes.unwrap_or(0u64).saturating_mul(1024)
    }
}
