//! Resources of an engine besides its workers.

/// Resources that tasks and contexts may request besides workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Supply {
    /// Bytes of memory; `u64::MAX` if that is unknown: then no task is denied memory.
    pub memory: u64,
    /// The GPUs, one bit for each.
    pub gpus: u16,
}

impl Default for Supply {
    /// Returns a supply of unlimited memory and no GPU.
    fn default() -> Self {
        Self { memory: u64::MAX, gpus: 0 }
    }
}
