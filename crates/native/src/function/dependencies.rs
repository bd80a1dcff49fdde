//! Objects that functions share, such as libraries: each is defined once, and stays defined while the program has the object.
//!
//! They do not count towards the limit of definitions: the program holds their bytes, too, and decides for how long.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use gristmill_wire::{FunctionId, IdHasher};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::FunctionTable;
use super::held::Referent;

/// A dependency before it is defined.
pub struct DescribedDependency {
    pub object: Py<PyAny>,
    /// The weak reference, whose callback removes the entry.
    pub holder: Py<PyAny>,
    pub referent: Referent,
    /// `None` if it was in the table when it was described.
    pub definition: Option<Py<PyBytes>>,
    /// The name for messages.
    pub name: String,
}

struct Defined {
    _holder: Py<PyAny>,
    referent: Referent,
    id: FunctionId,
}

/// The dependencies of one engine's functions. Each holds a use of its id in the function table.
#[derive(Default)]
pub struct Dependencies {
    by_key: HashMap<usize, Defined, BuildHasherDefault<IdHasher>>,
    /// Ids of those whose objects were freed.
    departed: Vec<FunctionId>,
}

impl Dependencies {
    /// Returns the id of an object that is defined.
    pub fn find(&self, object: *mut ffi::PyObject) -> Option<FunctionId> {
        self.by_key.get(&(object as usize)).filter(|one| one.referent.is(object)).map(|one| one.id)
    }

    /// Defines an object unless it is defined. Returns its id, or `None` if the table was cleared since the object was
    /// described; and the object, which the caller must drop where Python code may run.
    pub fn insert(
        &mut self,
        described: DescribedDependency,
        table: &impl FunctionTable,
    ) -> (Option<FunctionId>, Py<PyAny>) {
        let DescribedDependency { object, holder, referent, definition, name } = described;
        let known = self.find(object.as_ptr());
        let Some(definition) = definition.filter(|_| known.is_none()) else {
            return (known, object);
        };
        let id = Python::attach(|py| table.define(definition.bind(py).as_bytes(), &name));
        let defined = Defined { _holder: holder, referent, id };
        if let Some(before) = self.by_key.insert(object.as_ptr() as usize, defined) {
            self.departed.push(before.id);
        }
        (Some(id), object)
    }

    /// Removes an object that was freed; returns true if there was one.
    pub fn depart(&mut self, key: usize) -> bool {
        let is_over = self.by_key.get(&key).is_some_and(|one| one.referent.is_over());
        let removed = if is_over { self.by_key.remove(&key) } else { None };
        self.departed.extend(removed.map(|one| one.id));
        is_over
    }

    /// Returns true if objects were freed whose ids were not taken.
    pub const fn has_departed(&self) -> bool {
        !self.departed.is_empty()
    }

    /// Takes the ids of the objects that were freed.
    pub fn take_departed(&mut self) -> Vec<FunctionId> {
        std::mem::take(&mut self.departed)
    }

    /// Removes all, and returns their ids.
    pub fn take_all(&mut self) -> impl Iterator<Item = FunctionId> {
        let departed = self.take_departed();
        self.by_key.drain().map(|(_, one)| one.id).chain(departed).collect::<Vec<_>>().into_iter()
    }
}
