//! How ready the worker of a task was (rFaaS, section 3.3).

/// How ready the worker of a task was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum Temperature {
    /// It looked for tasks, or ran one.
    #[default]
    Hot = 0,
    /// It slept, and had to be woken.
    Warm = 1,
    /// It had to be started first.
    Cold = 2,
}

impl Temperature {
    /// How many there are.
    pub const COUNT: usize = 3;

    /// What users call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hot => "hot",
            Self::Warm => "warm",
            Self::Cold => "cold",
        }
    }

    /// Reads it; what is unknown counts as hot.
    #[must_use]
    pub const fn from_byte(byte: u8) -> Self {
        match byte {
            1 => Self::Warm,
            2 => Self::Cold,
            _ => Self::Hot,
        }
    }
}
