//! Which task runs, for whoever is to interrupt it.

use std::cell::Cell;
use std::rc::Rc;

use gristmill_shm::WorkerControl;

/// What runs now, for the handler of interrupts.
#[derive(Debug, Clone)]
pub struct Running {
    control: WorkerControl,
    /// The sequence of the innermost running task + 1; 0 is none.
    current: Rc<Cell<u64>>,
    /// The sequence of the task that was interrupted last + 1.
    interrupted: Rc<Cell<u64>>,
}

impl Running {
    pub(crate) fn new(control: WorkerControl) -> Self {
        Self { control, current: Rc::default(), interrupted: Rc::default() }
    }

    /// Another task is the innermost one: its sequence + 1, or 0; gives which one was.
    #[inline]
    pub(crate) fn replace(&self, current: u64) -> u64 {
        self.current.replace(current)
    }

    /// Whether the task that runs now is to be interrupted and was not yet.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        let current = self.current.get();
        current != 0
            && current != self.interrupted.get()
            && self.control.interrupt_requested() == Some(current - 1)
    }

    /// As [`Self::is_interrupted`]; true once per task: whoever asks interrupts it.
    #[must_use]
    pub fn take_interrupt(&self) -> bool {
        let is_interrupted = self.is_interrupted();
        if is_interrupted {
            self.interrupted.set(self.current.get());
        }
        is_interrupted
    }
}
