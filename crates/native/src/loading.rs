//! The function or module that a worker is loading, for `explain()` and for errors after the worker's death.
//!
//! `gristmill._loading` reports when a function begins to load, and which modules are imported meanwhile. The note
//! beside the worker's rings is written only then: a call of a loaded function writes nothing there.

use std::cell::{Cell, RefCell};

use gristmill_shm::WorkerControl;
use pyo3::prelude::*;

use crate::nested::this_worker;

/// The nested loads of one worker.
pub struct Loading {
    control: WorkerControl,
    /// Descriptions of the loads, such as "importing module numpy"; the innermost is the last.
    texts: RefCell<Vec<String>>,
    /// True while the arguments of a call are decoded: imports meanwhile are for them.
    reads_arguments: Cell<bool>,
    /// True if the last text is of such an import.
    is_argument_noted: Cell<bool>,
    /// Description of the load that an exception ended.
    cut_off: RefCell<Option<String>>,
    /// True if the running task was interrupted during an import.
    is_interrupted: Cell<bool>,
    /// True if any task of this process was interrupted during an import.
    is_unfit: Cell<bool>,
}

impl Loading {
    pub fn new(control: WorkerControl) -> Self {
        Self {
            control,
            texts: RefCell::default(),
            reads_arguments: Cell::new(false),
            is_argument_noted: Cell::new(false),
            cut_off: RefCell::default(),
            is_interrupted: Cell::new(false),
            is_unfit: Cell::new(false),
        }
    }

    /// Begins the decoding of a call's arguments. Returns whether those of an outer call were being decoded.
    #[inline]
    pub fn begin_arguments(&self) -> bool {
        self.reads_arguments.replace(true)
    }

    /// Ends the decoding of a call's arguments, whether or not it has failed.
    #[inline]
    pub fn end_arguments(&self, outer: bool, has_failed: bool) {
        self.reads_arguments.set(outer);
        if self.is_argument_noted.get() {
            self.is_argument_noted.set(false);
            self.end(has_failed);
        }
    }

    /// Takes the description of the load that an exception ended, once.
    pub fn take_cut_off(&self) -> Option<String> {
        self.cut_off.borrow_mut().take()
    }

    /// Returns whether the failed task was interrupted during an import, once.
    pub fn take_interrupted(&self) -> bool {
        self.is_interrupted.take()
    }

    /// Returns whether an import was cut off in this process: extension modules cannot be imported again after that.
    #[inline]
    pub fn is_unfit(&self) -> bool {
        self.is_unfit.get()
    }

    /// Returns whether a load is in progress, so that imports must be noted.
    fn is_on(&self) -> bool {
        self.reads_arguments.get() || !self.texts.borrow().is_empty()
    }

    fn begin(&self, text: String) {
        self.control.note_loading(&text);
        self.texts.borrow_mut().push(text);
    }

    /// Replaces the description of the innermost load.
    fn go_on(&self, text: String) {
        let is_first = self.reads_arguments.get() && !self.is_argument_noted.get();
        if is_first {
            self.is_argument_noted.set(true);
            return self.begin(text);
        }
        self.control.note_loading(&text);
        if let Some(last) = self.texts.borrow_mut().last_mut() {
            *last = text;
        }
    }

    fn end(&self, has_failed: bool) {
        let mut texts = self.texts.borrow_mut();
        let ended = texts.pop();
        self.control.note_loading(texts.last().map_or("", |outer| outer));
        self.cut_off.replace(ended.filter(|_| has_failed));
    }
}

/// Runs `act` with this thread's worker. Does nothing in a process that user code forked from the worker: the note is
/// not its own.
fn with_loading<R: Default>(act: impl FnOnce(&Loading) -> R) -> R {
    let worker = this_worker().filter(|worker| !worker.callee().is_forked());
    worker.map_or_else(R::default, |worker| act(&worker.callee().loading))
}

/// Notes that a load begins, with its description, such as "loading module.function".
#[pyfunction]
pub fn loading_begin(text: String) {
    with_loading(|loading| loading.begin(text));
}

/// Returns whether this thread is a worker's and a load is in progress.
#[pyfunction]
pub fn is_loading() -> bool {
    with_loading(Loading::is_on)
}

/// Notes the present step of the load, such as "importing module numpy".
#[pyfunction]
pub fn loading_goes_on(text: String) {
    with_loading(|loading| loading.go_on(text));
}

/// Notes that the interrupt of the running task cuts off an import.
#[pyfunction]
pub fn loading_interrupted() {
    with_loading(|loading| {
        loading.is_interrupted.set(true);
        loading.is_unfit.set(true);
    });
}

/// Notes that the innermost load has ended, successfully or not.
#[pyfunction]
pub fn loading_end(has_failed: bool) {
    with_loading(|loading| loading.end(has_failed));
}
