//! The functions that a worker was told of, and what they need.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use gristmill_wire::{DefinitionHead, Digest, FunctionId};
use pyo3::prelude::*;

use crate::direct_call::DirectCall;

/// A function as known to this worker.
pub enum Known {
    Callable(Callable),
    /// Not loaded: no call has tried yet, or each one failed. The next call tries.
    Defined(UnloadedFunction),
}

/// A loaded function.
pub struct Callable {
    pub function: Py<PyAny>,
    /// Its native function, if that can be called without Python.
    pub direct: Option<Rc<DirectCall>>,
}

impl Callable {
    /// Creates it from the loaded object.
    pub fn new(function: &Bound<'_, PyAny>) -> Self {
        let direct = DirectCall::of(function).map(Rc::new);
        Self { function: function.clone().unbind(), direct }
    }
}

/// The bytes that a function is loaded from.
#[derive(Clone)]
pub struct UnloadedFunction {
    pub bytes: Rc<[u8]>,
    /// True if a call has tried to load it and failed.
    pub has_failed: bool,
}

/// All functions and dependencies, by id.
#[derive(Default)]
pub struct KnownFunctions {
    pub by_id: RefCell<Vec<Option<Known>>>,
    /// Ids of the dependencies among them, by digest.
    dependencies: RefCell<HashMap<Digest, FunctionId>>,
}

impl KnownFunctions {
    /// Records the definition of an id. Returns what the id stood for, whose destructor may run Python code.
    pub fn define(&self, function: FunctionId, definition: &[u8]) -> Option<Known> {
        let known =
            Known::Defined(UnloadedFunction { bytes: definition.into(), has_failed: false });
        self.note_dependency(function, DefinitionHead::read(definition));
        let place = function.0 as usize;
        let mut functions = self.by_id.borrow_mut();
        if functions.len() <= place {
            functions.resize_with(place + 1, || None);
        }
        functions[place].replace(known)
    }

    /// Forgets an id. Returns what it stood for, whose destructor may run Python code.
    pub fn forget(&self, function: FunctionId) -> Option<Known> {
        self.note_dependency(function, DefinitionHead::Plain);
        self.by_id.borrow_mut().get_mut(function.0 as usize).and_then(Option::take)
    }

    /// Returns the id of the dependency with a digest.
    pub fn dependency(&self, digest: Digest) -> Option<FunctionId> {
        self.dependencies.borrow().get(&digest).copied()
    }

    /// Records which dependency an id stands for from now on, if any.
    fn note_dependency(&self, function: FunctionId, head: DefinitionHead<'_>) {
        let mut dependencies = self.dependencies.borrow_mut();
        if !dependencies.is_empty() {
            dependencies.retain(|_, known| *known != function);
        }
        if let DefinitionHead::Dependency { digest, .. } = head {
            dependencies.insert(digest, function);
        }
    }
}
