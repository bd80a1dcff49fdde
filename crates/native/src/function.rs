//! Which function a callable is: the identity cache in front of the client's function table.
//!
//! An importable function is known by its object. A function by value is known by its object *and* the identities of
//! everything it captures: code, defaults, cells and the globals it names, and the same of every function by value that
//! it reaches; see `parts`. Where a captured value can change in place, its definition is made anew for each submit and compared by
//! content. Every entry holds strong references, so that no address is mistaken for another object's.

mod parts;

use std::collections::HashMap;

use gristmill_client::Client;
use gristmill_wire::FunctionId;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use self::parts::Captured;

/// Entries beyond which the cache starts anew: fresh lambdas by the million leave memory flat.
const ENTRIES_MAX: usize = 1024;

/// Where functions get their ids: the client's table, or, in a worker, the numbers that the client was told.
pub trait FunctionTable {
    /// The id of a definition, which gains a use.
    fn define(&self, definition: &[u8], name: &str) -> FunctionId;

    /// Gives a use back.
    fn forget(&self, function: FunctionId);
}

impl FunctionTable for Client {
    fn define(&self, definition: &[u8], name: &str) -> FunctionId {
        Self::define(self, definition, name)
    }

    fn forget(&self, function: FunctionId) {
        Self::forget(self, function);
    }
}

/// The cache of one engine. Guarded by the interpreter.
#[derive(Default)]
pub struct FunctionCache {
    /// The importable function seen last, and its id: the case of a loop that submits one function.
    last: Option<(usize, FunctionId)>,
    entries: HashMap<usize, Entry>,
}

struct Entry {
    function: Py<PyAny>,
    id: FunctionId,
    identity: Identity,
}

enum Identity {
    /// The object says it all.
    Name,
    /// It is the same while all of these are.
    Parts(Captured),
    /// Something it captures can change in place: only a new definition tells.
    Content,
}

impl FunctionCache {
    /// The id of `function`, if it is known and still the same.
    #[inline]
    pub fn find(&mut self, py: Python<'_>, function: *mut ffi::PyObject) -> Option<FunctionId> {
        match self.last {
            Some((last, id)) if last == function as usize => Some(id),
            _ => self.search(py, function),
        }
    }

    fn search(&mut self, py: Python<'_>, function: *mut ffi::PyObject) -> Option<FunctionId> {
        let key = function as usize;
        let entry = self.entries.get(&key)?;
        match &entry.identity {
            Identity::Name => {
                self.last = Some((key, entry.id));
                Some(entry.id)
            }
            Identity::Parts(parts) => parts.is_same(py).then_some(entry.id),
            Identity::Content => None,
        }
    }

    /// Remembers a function; its definition reaches the client's table if it is new there. What is forgotten for it comes
    /// back to be dropped where Python code may run.
    pub fn insert(
        &mut self,
        described: Described,
        client: &impl FunctionTable,
    ) -> (FunctionId, Forgotten) {
        let Described { function, definition, name, identity } = described;
        let id = client.define(&definition, &name);
        self.last = None;
        let mut forgotten = Forgotten(Vec::new());
        if self.entries.len() >= ENTRIES_MAX {
            forgotten = self.clear(client);
        }
        let entry = Entry { function, id, identity };
        if let Some(old) = self.entries.insert(entry.function.as_ptr() as usize, entry) {
            client.forget(old.id);
            forgotten.0.push(old);
        }
        (id, forgotten)
    }

    /// Lets go of every function.
    #[must_use]
    pub fn clear(&mut self, client: &impl FunctionTable) -> Forgotten {
        self.last = None;
        let entries: Vec<Entry> = self.entries.drain().map(|(_, entry)| entry).collect();
        for entry in &entries {
            client.forget(entry.id);
        }
        Forgotten(entries)
    }
}

/// Functions that the cache has forgotten and that are still to be dropped, which may run Python code.
pub struct Forgotten(Vec<Entry>);

/// A function on its way into the cache.
pub struct Described {
    function: Py<PyAny>,
    definition: Vec<u8>,
    /// For messages.
    name: String,
    identity: Identity,
}

/// Finds out what workers are to be told of a callable, and what it depends on.
///
/// # Errors
/// `TypeError` for what cannot be called; `UnpicklableError`.
pub fn describe(function: &Bound<'_, PyAny>) -> PyResult<Described> {
    if !function.is_callable() {
        return Err(pyo3::exceptions::PyTypeError::new_err(format!(
            "the first argument of submit must be callable, not {}",
            function.get_type().qualname()?
        )));
    }
    let py = function.py();
    // Before the definition: what changes while that is made is a change.
    let identity = identity_of(function)?;
    let definition = py.import("gristmill._functions")?.call_method1("definition", (function,))?;
    Ok(Described {
        function: function.clone().unbind(),
        definition: definition.cast::<PyBytes>()?.as_bytes().to_vec(),
        name: name_of(function),
        identity,
    })
}

fn identity_of(function: &Bound<'_, PyAny>) -> PyResult<Identity> {
    type Found<'py> = (Bound<'py, PyList>, Bound<'py, PyList>, bool);
    let found =
        function.py().import("gristmill._captures")?.call_method1("captures", (function,))?;
    let (functions, contexts, is_settled): Found<'_> = found.extract()?;
    if !is_settled {
        return Ok(Identity::Content);
    }
    let captured = Captured::take(&functions, &contexts)?;
    Ok(if captured.is_nothing() { Identity::Name } else { Identity::Parts(captured) })
}

/// What messages call a function: its qualified name, or its type's.
fn name_of(function: &Bound<'_, PyAny>) -> String {
    let name = function.getattr("__qualname__").and_then(|name| name.extract());
    let of_type =
        || function.get_type().qualname().map_or_else(|_| "?".to_owned(), |name| name.to_string());
    name.unwrap_or_else(|_| of_type())
}
