//! The readiness of a worker when a task reaches it. Source: rFaaS, section 3.3.

/// The readiness of a task's worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum WorkerState {
    /// The worker polled for tasks, or ran one.
    #[default]
    Hot = 0,
    /// The worker slept and had to be woken.
    Warm = 1,
    /// The worker had to be started first.
    Cold = 2,
}

impl WorkerState {
    /// The number of worker states.
    pub const COUNT: usize = 3;

    /// Returns the name that users see.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hot => "hot",
            Self::Warm => "warm",
            Self::Cold => "cold",
        }
    }

    /// Reads a worker state; an unknown byte counts as hot.
    #[must_use]
    pub const fn from_byte(byte: u8) -> Self {
        match byte {
            1 => Self::Warm,
            2 => Self::Cold,
            _ => Self::Hot,
        }
    }
}
