//! Identification of functions: the identity cache in front of the client's function table.
//!
//! An importable function is identified by its object, its code and its defaults. A function by value is identified by
//! its object *and* the identities of everything it captures: code, defaults, attributes, cells and the globals it
//! names, and the same of every function by value that it reaches; see `parts`. One that captures nothing is identified
//! like an importable one. If a captured value can change in place, the function is pickled again for each submit, and
//! its definition is compared by content.
//!
//! An entry holds its function weakly, or strongly if the function's type has no weak references. When the function is
//! freed, the cache drops the entry with everything that the entry refers to. The definition, which is the pickled
//! form, is kept for later equal functions, within limits; see `kept`.

mod definitions;
mod dependencies;
mod held;
mod parts;

use gristmill_sync::atomic::{AtomicU64, Ordering};
use std::collections::{BTreeSet, HashMap};
use std::hash::BuildHasherDefault;
use std::sync::{Arc, Weak};

use gristmill_client::Client;
use gristmill_wire::{FunctionId, IdHasher, short_name};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use self::definitions::{FunctionDefinitions, KeepOutcome};
use self::dependencies::{Dependencies, DescribedDependency};
use self::held::Referent;
use self::parts::{Captured, Own};
use crate::attached::Attached;

/// The source of function ids: the client's table, or, in a worker, the numbers that it has announced to the client.
pub trait FunctionTable {
    /// Returns the id of a definition, and adds a use of it.
    fn define(&self, definition: &[u8], name: &str) -> FunctionId;

    /// Releases a use.
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

/// Number of reloads of modules in this process. Identities that were cached before a reload are invalid after it.
static RELOADS: AtomicU64 = AtomicU64::new(0);

/// Makes every cached identity invalid, because a module was reloaded: the next submission of each function pickles it
/// again.
#[pyfunction]
pub fn modules_changed() {
    // Relaxed: no other data is published with the counter, and every access happens with the interpreter held.
    RELOADS.fetch_add(1, Ordering::Relaxed);
}

/// A shared reference to an engine's cache. A `Departure` keeps a weak one, to remove the entry of a function that is
/// freed.
pub type SharedCache = Arc<Attached<FunctionCache>>;

/// The cache of one engine. Guarded by the interpreter.
#[derive(Default)]
pub struct FunctionCache {
    /// The last function whose object alone identifies it: the case of a loop that submits one function.
    last: Option<Last>,
    entries: HashMap<usize, Entry, BuildHasherDefault<IdHasher>>,
    /// The entries of each id.
    by_id: BTreeSet<(FunctionId, usize)>,
    definitions: FunctionDefinitions,
    dependencies: Dependencies,
}

/// The data that identify the last function. The function's entry keeps the objects alive that they point to.
struct Last {
    function: usize,
    referent: Referent,
    own: Own,
    reloads: u64,
    id: FunctionId,
}

impl Last {
    #[inline]
    fn is(&self, function: *mut ffi::PyObject) -> bool {
        self.function == function as usize
            && self.referent.is(function)
            // SAFETY: the object is live, and is the same one that these were taken from.
            && unsafe { self.own.is_same(function) }
            && self.reloads == RELOADS.load(Ordering::Relaxed) // as in `modules_changed`
    }
}

struct Entry {
    /// The weak reference, whose callback removes the entry; the function itself if its type has no weak references.
    _holder: Py<PyAny>,
    referent: Referent,
    id: FunctionId,
    reloads: u64,
    identity: Identity,
}

enum Identity {
    /// The object identifies it, while these parts are the same.
    Own(Own, #[expect(dead_code, reason = "keeps the parts alive")] Vec<Py<PyAny>>),
    /// It is the same while all of these parts are.
    Parts(Captured),
    /// A captured value can change in place: only a new definition shows whether it has.
    Content,
}

impl FunctionCache {
    /// Returns the id of `function`, if it is cached and unchanged. Returns `None` once after a dependency was freed: the caller
    /// then calls [`Self::insert`], which releases the dependency.
    #[inline]
    pub fn find(&mut self, py: Python<'_>, function: *mut ffi::PyObject) -> Option<FunctionId> {
        match &self.last {
            Some(last) if last.is(function) => Some(last.id),
            _ => self.search(py, function),
        }
    }

    fn search(&mut self, py: Python<'_>, function: *mut ffi::PyObject) -> Option<FunctionId> {
        if self.dependencies.has_departed() {
            return None;
        }
        let key = function as usize;
        let entry = self.entries.get(&key)?;
        let reloads = RELOADS.load(Ordering::Relaxed); // as in `modules_changed`
        if !entry.referent.is(function) || entry.reloads != reloads {
            return None;
        }
        let id = entry.id;
        match &entry.identity {
            Identity::Own(own, _) => {
                // SAFETY: the object is live, and is the same one that these were taken from.
                if !unsafe { own.is_same(function) } {
                    return None;
                }
                let (referent, own) = (entry.referent, *own);
                if let Some(before) = self.last.take() {
                    self.definitions.touch(before.id);
                }
                self.last = Some(Last { function: key, referent, own, reloads, id });
            }
            Identity::Parts(parts) if parts.is_same(py) => {}
            Identity::Parts(_) | Identity::Content => return None,
        }
        self.definitions.touch(id);
        Some(id)
    }

    /// Adds a function, and defines it in the table if it is new there. Returns its id and the evicted entries. The
    /// caller must drop these entries where Python code may run.
    pub fn insert(&mut self, described: Described, table: &impl FunctionTable) -> Inserted {
        let Described { key, holder, referent, definition, dependencies, name, identity, reloads } =
            described;
        self.last = None;
        let mut forgotten = Vec::new();
        let defined = dependencies.into_iter().map(|one| self.dependencies.insert(one, table));
        let (needs, held): (Vec<_>, Vec<_>) = defined.unzip();
        let needs: Vec<FunctionId> = needs.into_iter().flatten().collect();
        for dependency in self.dependencies.take_departed() {
            self.forget_dependency(dependency, table, &mut forgotten);
        }
        let id = table.define(&definition, &name);
        let is_changing = matches!(identity, Identity::Content);
        let keeping = self.definitions.keep(id, definition.len(), is_changing);
        if keeping == KeepOutcome::Again {
            table.forget(id);
        }
        if !is_changing && keeping != KeepOutcome::TooLarge {
            let entry = Entry { _holder: holder, referent, id, reloads, identity };
            forgotten.extend(self.take_entry(key));
            self.entries.insert(key, entry);
            self.by_id.insert((id, key));
        } else {
            forgotten.extend(self.take_entry(key));
        }
        self.definitions.note_needs(id, needs);
        while let Some(excess) = self.definitions.pop_excess() {
            self.forget_definition(excess, table, &mut forgotten);
        }
        Inserted { id, has_use: keeping == KeepOutcome::TooLarge, forgotten, held }
    }

    /// Releases a definition that is not kept any more.
    fn forget_definition(
        &mut self,
        id: FunctionId,
        table: &impl FunctionTable,
        forgotten: &mut Vec<Entry>,
    ) {
        table.forget(id);
        while let Some(&(_, key)) = self.by_id.range((id, 0)..=(id, usize::MAX)).next() {
            forgotten.extend(self.take_entry(key));
        }
    }

    /// Releases a dependency whose object is gone, and the definitions that need it: no function that lives has one of these.
    fn forget_dependency(
        &mut self,
        dependency: FunctionId,
        table: &impl FunctionTable,
        forgotten: &mut Vec<Entry>,
    ) {
        for id in self.definitions.take_needing(dependency) {
            self.forget_definition(id, table, forgotten);
        }
        table.forget(dependency);
    }

    /// Returns true if the table has a dependency.
    fn has_dependency(&self, dependency: *mut ffi::PyObject) -> bool {
        self.dependencies.find(dependency).is_some()
    }

    fn take_entry(&mut self, key: usize) -> Option<Entry> {
        let entry = self.entries.remove(&key)?;
        self.by_id.remove(&(entry.id, key));
        Some(entry)
    }

    /// Drops every function.
    #[must_use]
    pub fn clear(&mut self, table: &impl FunctionTable) -> Forgotten {
        self.last = None;
        self.definitions.take_all().for_each(|id| table.forget(id));
        self.dependencies.take_all().for_each(|id| table.forget(id));
        self.by_id.clear();
        Forgotten(self.entries.drain().map(|(_, entry)| entry).collect())
    }

    /// Removes the entry of a function or of a dependency that was freed, and returns that of a function.
    fn depart(&mut self, key: usize) -> Option<Entry> {
        if self.dependencies.depart(key) {
            // The next `find` then sees it.
            self.last = None;
        }
        if self.last.as_ref().is_some_and(|last| last.function == key) {
            self.last = None;
        }
        let is_over = self.entries.get(&key).is_some_and(|entry| entry.referent.is_over());
        if is_over { self.take_entry(key) } else { None }
    }
}

/// A function that is in the table now.
pub struct Inserted {
    pub id: FunctionId,
    /// True if the caller owns this use of the id, because the cache keeps none: the caller must release the use after
    /// the submission.
    pub has_use: bool,
    #[expect(dead_code, reason = "dropped where Python code may run")]
    forgotten: Vec<Entry>,
    #[expect(dead_code, reason = "as above")]
    held: Vec<Py<PyAny>>,
}

/// Evicted entries that are still to be dropped, which may run Python code.
pub struct Forgotten(#[expect(dead_code, reason = "dropped later")] Vec<Entry>);

/// The callback of a weak reference to a function or a dependency. CPython calls it when the object is freed.
#[pyclass(frozen, module = "gristmill._native")]
struct Departure {
    cache: Weak<Attached<FunctionCache>>,
    key: usize,
}

#[pymethods]
impl Departure {
    fn __call__(&self, py: Python<'_>, _reference: &Bound<'_, PyAny>) {
        if let Some(cache) = self.cache.upgrade() {
            // The cache is in use only while no Python code runs. If that were ever wrong, the entry would stay until
            // it is replaced.
            drop(cache.try_with(py, |cache| cache.depart(self.key)));
        }
    }
}

/// A function before it is added to the cache.
pub struct Described {
    key: usize,
    holder: Py<PyAny>,
    referent: Referent,
    definition: Vec<u8>,
    /// Its dependencies, in the order in which workers load them.
    dependencies: Vec<DescribedDependency>,
    /// The name for messages.
    name: String,
    identity: Identity,
    reloads: u64,
}

/// Makes a callable's definition for workers, and finds the objects that it depends on.
///
/// # Errors
/// `TypeError` for an object that cannot be called; `UnpicklableError`.
pub fn describe(function: &Bound<'_, PyAny>, cache: &SharedCache) -> PyResult<Described> {
    if !function.is_callable() {
        return Err(pyo3::exceptions::PyTypeError::new_err(format!(
            "the first argument of submit must be callable, not {}",
            function.get_type().qualname()?
        )));
    }
    let py = function.py();
    py.import("gristmill._coroutines")?.call_method1("check", (function,))?;
    // The counter is read before the definition is made, so a reload while the function is pickled makes this entry
    // invalid.
    let reloads = RELOADS.load(Ordering::Relaxed); // as in `modules_changed`
    let identity = identity_of(function)?;
    let found = PyList::empty(py);
    let definition =
        py.import("gristmill._functions")?.call_method1("definition", (function, &found))?;
    let dependencies = found.iter().map(|one| describe_dependency(&one, cache));
    let dependencies = dependencies.collect::<PyResult<_>>()?;
    let (holder, referent) = if matches!(identity, Identity::Content) {
        (py.None(), Referent::nothing())
    } else {
        refer_to(function, cache)?
    };
    Ok(Described {
        key: function.as_ptr() as usize,
        holder,
        referent,
        definition: definition.cast::<PyBytes>()?.as_bytes().to_vec(),
        dependencies,
        name: name_of(function),
        identity,
        reloads,
    })
}

/// Makes a weak reference to an object, which ends the object's entry in the cache when the object is freed.
fn refer_to(object: &Bound<'_, PyAny>, cache: &SharedCache) -> PyResult<(Py<PyAny>, Referent)> {
    let departure = Departure { cache: Arc::downgrade(cache), key: object.as_ptr() as usize };
    Ok(Referent::take(object, Some(Bound::new(object.py(), departure)?.into_any())))
}

/// Describes an object that functions share, without its definition if the table has that already.
fn describe_dependency(
    object: &Bound<'_, PyAny>,
    cache: &SharedCache,
) -> PyResult<DescribedDependency> {
    let is_known = cache.with(object.py(), |cache| cache.has_dependency(object.as_ptr()));
    let definition = if is_known { None } else { Some(object.call_method0("definition")?) };
    let (holder, referent) = refer_to(object, cache)?;
    Ok(DescribedDependency {
        object: object.clone().unbind(),
        holder,
        referent,
        definition: definition
            .map(|one| one.cast_into::<PyBytes>())
            .transpose()?
            .map(Bound::unbind),
        name: object.getattr("name")?.extract()?,
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
    let (own, holders) = Own::take(function);
    if captured.is_nothing() || (own.is_only_code() && captured.is_only_code_of(function)) {
        return Ok(Identity::Own(own, holders));
    }
    Ok(Identity::Parts(captured))
}

/// Returns the name of a function for messages: its qualified name, or its type's; the beginning of a long one.
fn name_of(function: &Bound<'_, PyAny>) -> String {
    let name = function.getattr("__qualname__").and_then(|name| name.extract::<String>());
    let of_type =
        || function.get_type().qualname().map_or_else(|_| "?".to_owned(), |name| name.to_string());
    short_name(&name.unwrap_or_else(|_| of_type())).to_owned()
}
