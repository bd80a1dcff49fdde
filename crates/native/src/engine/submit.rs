//! `submit`: makes a task and its future from a call in Python.

use gristmill_client::{CallRequest, Client, SubmitError};
use gristmill_wire::{FunctionId, TaskId};
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::{CallOptions, Engine};
use crate::arena::ClientSink;
use crate::codec::{BlockSink, EncodeResult, ParentSink, PickledNames, encode_call, pickle_call};
use crate::error;
use crate::future::{FutureRef, is_foreign_future, is_future, new_future};
use crate::object::{Owned, tuple_items};
use crate::parents::ParentIndices;
use crate::raw::{all_arguments, guard};

/// Implements `Engine.submit(fn, /, *args, **kwargs)`.
pub unsafe extern "C" fn submit_method(
    object: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    guard(|py| {
        // SAFETY: CPython calls the method with an instance of the class, and the arguments it promises.
        unsafe {
            let engine = Engine::from_object(object);
            let arguments = all_arguments(arguments, count, names);
            submit_call(py, (engine, object), arguments, names, None)
        }
    })
}

/// Submits a call with a future. `arguments` are the function, then its positional and named values.
///
/// # Errors
/// An error about the function, the arguments or the engine.
///
/// # Safety
/// The engine belongs to its object; the arguments are live; `names` is null or a tuple of `str`.
#[inline]
pub unsafe fn submit_call(
    py: Python<'_>,
    (engine, object): (&Engine, *mut ffi::PyObject),
    arguments: &[*mut ffi::PyObject],
    names: *mut ffi::PyObject,
    options: Option<&CallOptions>,
) -> PyResult<Owned> {
    // SAFETY: the caller guarantees it.
    let names = if names.is_null() { &[] } else { unsafe { tuple_items(names) } };
    // The values of named arguments come last, so the first one is a function only if it has no name.
    let (&function, arguments) = match arguments.split_first() {
        Some((function, rest)) if rest.len() >= names.len() => (function, rest),
        _ => return Err(no_function()),
    };
    // SAFETY: the caller guarantees it.
    let task = unsafe { engine.submit_task(py, function, arguments, names, options)? };
    new_future(py, object, task).inspect_err(|_| engine.release(task))
}

pyo3::create_exception!(
    gristmill._native,
    ForeignFutureError,
    pyo3::exceptions::PyValueError,
    "A future among the arguments belongs to another executor: pass its result instead."
);

#[cold]
fn no_function() -> PyErr {
    PyTypeError::new_err(
        "submit needs a function to call as its first argument, by position: submit(fn, ...)",
    )
}

#[cold]
fn foreign_future() -> PyErr {
    ForeignFutureError::new_err("an argument is a future of another executor: pass its result()")
}

/// The futures of this engine among the arguments of one call.
struct ParentList {
    engine: *const Engine,
    tasks: ParentIndices<TaskId>,
    /// True if a future of another engine or library was found: only its result can be passed on.
    is_foreign: bool,
}

impl ParentList {
    #[inline]
    fn new(engine: &Engine) -> Self {
        Self { engine, tasks: ParentIndices::new(), is_foreign: false }
    }
}

impl ParentSink for ParentList {
    #[inline]
    fn parent(&mut self, object: *mut ffi::PyObject) -> Option<u32> {
        if !is_future(object) {
            self.is_foreign |= is_foreign_future(object);
            return None;
        }
        // SAFETY: the interpreter is held during encoding.
        let future = FutureRef::from_ptr(unsafe { Python::assume_attached() }, object)?;
        if !std::ptr::eq(future.engine(), self.engine) {
            self.is_foreign = true;
            return None;
        }
        self.tasks.index_of(future.task())
    }
}

impl Engine {
    /// Submits one call without a future: the owner of the returned id must release it. `arguments` are the positional
    /// values, and behind them the values of the named ones.
    ///
    /// # Errors
    /// An error about the function, the arguments or the engine.
    ///
    /// # Safety
    /// The function and the arguments are live, the names are live `str`, and all of them stay so until this returns.
    #[inline]
    pub unsafe fn submit_task(
        &self,
        py: Python<'_>,
        function: *mut ffi::PyObject,
        arguments: &[*mut ffi::PyObject],
        names: &[*mut ffi::PyObject],
        options: Option<&CallOptions>,
    ) -> PyResult<TaskId> {
        // SAFETY: the caller guarantees it.
        let client = unsafe { self.client_for(py, function)? };
        let object = function;
        let function = self.function_id(py, function)?;
        let mut parents = ParentList::new(self);
        let views = options.is_some_and(|options| options.views);
        let mut sink = ClientSink::new(client.arena(), &self.stored, views);
        let task = self.scratch.with(py, |scratch| {
            scratch.clear();
            let sinks = (&self.arrays, &mut sink as _);
            // SAFETY: the caller guarantees it; native encoding runs no Python code.
            let encoded = unsafe { encode_call(arguments, names, &mut parents, scratch, sinks) };
            (encoded == EncodeResult::Native).then(|| {
                client.submit(&CallRequest {
                    function: function.id,
                    payload: scratch,
                    parts: sink.parts(),
                    views,
                    parents: parents.tasks.keys(),
                    options: options.map(|options| &options.task),
                })
            })
        });
        drop(sink);
        if parents.is_foreign {
            return Err(foreign_future());
        }
        let refusal = match task {
            Some(Ok(task)) => return Ok(task),
            Some(Err(refusal)) => Some(refusal),
            None => None,
        };
        // SAFETY: the caller guarantees it.
        unsafe { self.submit_slowly(py, (object, function), arguments, names, options, refusal) }
    }

    /// Submits a call that must be pickled, or that must wait for room.
    #[cold]
    #[expect(clippy::too_many_arguments, reason = "what submit was given, and how far it came")]
    unsafe fn submit_slowly<'a>(
        &'a self,
        py: Python<'_>,
        (object, mut function): (*mut ffi::PyObject, FunctionUse<'a>),
        arguments: &[*mut ffi::PyObject],
        names: &[*mut ffi::PyObject],
        options: Option<&CallOptions>,
        refusal: Option<SubmitError>,
    ) -> PyResult<TaskId> {
        let client = self.running_client(py)?;
        function.hold(client);
        let mut parents = ParentList::new(self);
        let mut payload = Vec::new();
        let views = options.is_some_and(|options| options.views);
        let mut sink = ClientSink::new(client.arena(), &self.stored, views);
        // SAFETY: the caller guarantees it.
        unsafe {
            let sinks = (&self.arrays, &mut sink as _);
            let mut encoded = encode_call(arguments, names, &mut parents, &mut payload, sinks);
            if encoded == EncodeResult::Foreign {
                payload.clear();
                parents = ParentList::new(self);
                sink.clear();
                let (pickled, found) = pickle(py, arguments, names, (&mut payload, &mut sink))?;
                parents.is_foreign = !found.are_known(&mut parents);
                encoded = pickled;
                let object = Bound::from_borrowed_ptr(py, object);
                if let Some(needing) = found.needing(&object)? {
                    function = self.function_id(py, needing.as_ptr())?;
                    function.hold(client);
                }
            }
            if encoded == EncodeResult::Unstored {
                return Err(sink.failure(py));
            }
        }
        if parents.is_foreign {
            return Err(foreign_future());
        }
        let call = CallRequest {
            function: function.id,
            payload: &payload,
            parts: sink.parts(),
            views,
            parents: parents.tasks.keys(),
            options: options.map(|options| &options.task),
        };
        let mut refusal = refusal;
        loop {
            if let Some(error) = refusal.take() {
                self.wait_for_room(py, client, error)?;
            }
            match client.submit(&call) {
                Ok(task) => {
                    self.note_payload(payload.len());
                    return Ok(task);
                }
                Err(error) => refusal = Some(error),
            }
        }
    }

    /// Waits until fewer tasks are outstanding, if `error` is about their number and the executor blocks when full.
    ///
    /// # Errors
    /// The refusal itself, if waiting does not help; any exception that a signal handler raises.
    pub fn wait_for_room(
        &self,
        py: Python<'_>,
        client: &Client,
        error: SubmitError,
    ) -> PyResult<()> {
        if !error.is_retryable() || !self.settings()?.block_when_full {
            return Err(error::submit(py, error));
        }
        self.interruptible(py, None, |slice| client.wait_for_room(slice))?;
        Ok(())
    }

    /// Returns the id of a callable. If the returned value has a client, the id is in use until it is dropped;
    /// otherwise until Python code runs.
    ///
    /// # Errors
    /// `TypeError` for an object that cannot be called; `UnpicklableError`.
    #[inline]
    pub fn function_id(
        &self,
        py: Python<'_>,
        function: *mut ffi::PyObject,
    ) -> PyResult<FunctionUse<'_>> {
        if let Some(id) = self.functions.with(py, |functions| functions.find(py, function)) {
            return Ok(FunctionUse { id, client: None });
        }
        self.new_function_id(py, function)
    }

    #[cold]
    fn new_function_id(
        &self,
        py: Python<'_>,
        function: *mut ffi::PyObject,
    ) -> PyResult<FunctionUse<'_>> {
        // Attached, so that PyO3 releases at once the objects that the cache drops.
        let attached = |_: Python<'_>| {
            // SAFETY: callers pass live objects only.
            let function = unsafe { Bound::from_borrowed_ptr(py, function) };
            // Describing a function runs Python code, which may submit: the cache is not borrowed meanwhile.
            let described = crate::function::describe(&function, &self.functions)?;
            let client = self.running_client(py)?;
            let inserted =
                self.functions.with(py, |functions| functions.insert(described, &**client));
            let mut function = FunctionUse { id: inserted.id, client: None };
            if inserted.has_use {
                function.client = Some(client);
            } else {
                // The entries that the cache dropped may run Python code when they are destroyed.
                function.hold(client);
            }
            Ok(function)
        };
        // SAFETY: the caller holds the interpreter. It may have begun to end, which is not checked: finalizers run
        // then, too.
        unsafe { Python::attach_unchecked(attached) }
    }
}

/// A function's id while a call is submitted.
pub struct FunctionUse<'a> {
    pub id: FunctionId,
    /// The client to tell when the use ends.
    client: Option<&'a Client>,
}

impl<'a> FunctionUse<'a> {
    /// Keeps the id in use even if Python code runs.
    pub fn hold(&mut self, client: &'a Client) {
        if self.client.is_none() {
            client.use_function(self.id);
            self.client = Some(client);
        }
    }
}

impl Drop for FunctionUse<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(client) = self.client {
            client.forget(self.id);
        }
    }
}

impl<'py> PickledNames<'py> {
    /// Returns whether `parents` knows every future.
    pub fn are_known(&self, parents: &mut impl ParentSink) -> bool {
        self.futures.iter().all(|future| parents.parent(future.as_ptr()).is_some())
    }

    /// Returns the callable that stands for `function` in a call that needs something; `None` if the call needs nothing.
    /// Workers get what it needs before it, and call the function.
    ///
    /// # Errors
    /// Those of Python without memory.
    pub fn needing(&self, function: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        if self.needs.is_empty() {
            return Ok(None);
        }
        let module = function.py().import("gristmill._dependencies")?;
        module.call_method1("needing", (function, &self.needs)).map(Some)
    }
}

/// Pickles a call. Also returns what the pickle names.
///
/// # Errors
/// `UnpicklableError`, which names the offending part.
///
/// # Safety
/// The arguments are live, the names are live `str`; the interpreter is held.
pub unsafe fn pickle<'py>(
    py: Python<'py>,
    arguments: &[*mut ffi::PyObject],
    names: &[*mut ffi::PyObject],
    (payload, blocks): (&mut Vec<u8>, &mut dyn BlockSink),
) -> PyResult<(EncodeResult, PickledNames<'py>)> {
    // SAFETY: the arguments are live; the last ones belong to the names.
    let (positional, named) = unsafe {
        let (positional, values) = arguments.split_at(arguments.len() - names.len());
        let borrow = |&object: &*mut ffi::PyObject| Bound::from_borrowed_ptr(py, object);
        let positional = PyTuple::new(py, positional.iter().map(borrow))?;
        let keywords = PyDict::new(py);
        for (name, value) in names.iter().zip(values) {
            keywords.set_item(borrow(name), borrow(value))?;
        }
        (positional, keywords)
    };
    pickle_call(&positional, Some(&named), payload, blocks)
}
