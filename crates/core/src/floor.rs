//! Floor of a worker: the least priority that may begin.

/// Floor that lets every task begin.
pub(crate) const NO_FLOOR: i32 = i32::MIN;

/// Least priority that may begin because of tasks that wait elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Floor {
    /// Priority of a task that one worker could run; `i32::MIN` lets every task begin.
    pub priority: i32,
    /// Priority of a task that needs several workers, if it is higher; else `i32::MIN`.
    pub wide: i32,
    /// Number of workers that this wide task needs: if fewer could be freed, `wide` does not count.
    pub places: u32,
}

impl Floor {
    /// Floor that lets every task begin.
    pub const NONE: Self = Self::of(NO_FLOOR);

    /// Returns the floor of a task that one worker could run.
    #[must_use]
    pub const fn of(priority: i32) -> Self {
        Self { priority, wide: NO_FLOOR, places: 0 }
    }

    /// Returns the highest priority of a task that waits elsewhere.
    #[must_use]
    pub fn highest(&self) -> i32 {
        self.priority.max(self.wide)
    }
}
