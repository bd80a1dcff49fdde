//! `submit`: from a call in Python to a task with a future.

use gristmill_client::{Call, Client, SubmitError};
use gristmill_wire::{FunctionId, TaskId};
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::{CallOptions, Engine};
use crate::arena::ClientSink;
use crate::codec::{BlockSink, Encoded, ParentSink, encode_call, pickle_call};
use crate::error;
use crate::future::{FutureRef, is_foreign_future, is_future, new_future};
use crate::object::{Owned, tuple_items};
use crate::parents::ParentPlaces;
use crate::raw::{all_arguments, guard};

/// `Engine.submit(fn, /, *args, **kwargs)`.
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

/// Submits a call with a future; `arguments` are the function, then its positional and named values.
///
/// # Errors
/// What is wrong with the function, the arguments or the engine.
///
/// # Safety
/// The engine comes with its object; the arguments are live, `names` is null or a tuple of `str`.
#[inline]
pub unsafe fn submit_call(
    py: Python<'_>,
    (engine, object): (&Engine, *mut ffi::PyObject),
    arguments: &[*mut ffi::PyObject],
    names: *mut ffi::PyObject,
    options: Option<&CallOptions>,
) -> PyResult<Owned> {
    let Some((&function, arguments)) = arguments.split_first() else {
        return Err(PyTypeError::new_err("submit needs a function to call"));
    };
    // SAFETY: passed on from the caller.
    let task = unsafe {
        let names = if names.is_null() { &[] } else { tuple_items(names) };
        engine.submit_task(py, function, arguments, names, options)?
    };
    new_future(py, object, task).inspect_err(|_| engine.release(task))
}

pyo3::create_exception!(
    gristmill._native,
    ForeignFuture,
    pyo3::exceptions::PyValueError,
    "A future among the arguments is another executor's: only its result can be passed on."
);

#[cold]
fn foreign_future() -> PyErr {
    ForeignFuture::new_err("a future of another executor cannot be an argument: pass its result()")
}

/// The futures of this engine among the arguments of one call.
struct ParentList {
    engine: *const Engine,
    tasks: ParentPlaces<TaskId>,
    /// A future of another engine or library was met: only its result can be passed on.
    is_foreign: bool,
}

impl ParentList {
    #[inline]
    fn new(engine: &Engine) -> Self {
        Self { engine, tasks: ParentPlaces::new(), is_foreign: false }
    }
}

impl ParentSink for ParentList {
    #[inline]
    fn parent(&mut self, object: *mut ffi::PyObject) -> Option<u16> {
        if !is_future(object) {
            self.is_foreign |= is_foreign_future(object);
            return None;
        }
        // SAFETY: encoding happens with the interpreter held.
        let future = FutureRef::from_ptr(unsafe { Python::assume_attached() }, object)?;
        if !std::ptr::eq(future.engine(), self.engine) {
            self.is_foreign = true;
            return None;
        }
        self.tasks.place(future.task())
    }
}

impl Engine {
    /// Submits one call without a future: whoever has the id must release it. `arguments` are the positional values, and
    /// behind them the values of the named ones.
    ///
    /// # Errors
    /// What is wrong with the function, the arguments or the engine.
    ///
    /// # Safety
    /// The function and the arguments are live, the names are live `str`, all of them until this returns.
    #[inline]
    pub unsafe fn submit_task(
        &self,
        py: Python<'_>,
        function: *mut ffi::PyObject,
        arguments: &[*mut ffi::PyObject],
        names: &[*mut ffi::PyObject],
        options: Option<&CallOptions>,
    ) -> PyResult<TaskId> {
        // SAFETY: passed on from the caller.
        let client = unsafe { self.client_for(py, function)? };
        let function = self.function_id(py, function)?;
        let mut parents = ParentList::new(self);
        let views = options.is_some_and(|options| options.views);
        let mut sink = ClientSink::new(client.arena(), views);
        let task = self.scratch.with(py, |scratch| {
            scratch.clear();
            let sinks = (&self.arrays, &mut sink as _);
            // SAFETY: passed on from the caller; encoding natively runs no Python code.
            let encoded = unsafe { encode_call(arguments, names, &mut parents, scratch, sinks) };
            (encoded == Encoded::Native).then(|| {
                client.submit(&Call {
                    function,
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
        // SAFETY: passed on from the caller.
        unsafe { self.submit_slowly(py, function, arguments, names, options, refusal) }
    }

    /// The way of calls that have to be pickled, or that have to wait for room.
    #[cold]
    #[expect(clippy::too_many_arguments, reason = "what submit was given, and how far it came")]
    unsafe fn submit_slowly(
        &self,
        py: Python<'_>,
        function: FunctionId,
        arguments: &[*mut ffi::PyObject],
        names: &[*mut ffi::PyObject],
        options: Option<&CallOptions>,
        refusal: Option<SubmitError>,
    ) -> PyResult<TaskId> {
        let client = self.running_client(py)?;
        let mut parents = ParentList::new(self);
        let mut payload = Vec::new();
        let views = options.is_some_and(|options| options.views);
        let mut sink = ClientSink::new(client.arena(), views);
        // SAFETY: passed on from the caller.
        unsafe {
            let sinks = (&self.arrays, &mut sink as _);
            let mut encoded = encode_call(arguments, names, &mut parents, &mut payload, sinks);
            if encoded == Encoded::Foreign {
                payload.clear();
                parents = ParentList::new(self);
                sink.clear();
                let (pickled, is_known) =
                    pickle(py, arguments, names, &mut parents, (&mut payload, &mut sink))?;
                parents.is_foreign = !is_known;
                encoded = pickled;
            }
            if encoded == Encoded::Unstored {
                return Err(sink.failure());
            }
        }
        if parents.is_foreign {
            return Err(foreign_future());
        }
        let call = Call {
            function,
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
                Ok(task) => return Ok(task),
                Err(error) => refusal = Some(error),
            }
        }
    }

    /// Waits until fewer tasks are outstanding if that is what `error` is about and the executor is to block.
    ///
    /// # Errors
    /// The refusal itself where waiting does not help; what a signal handler raises.
    pub fn wait_for_room(
        &self,
        py: Python<'_>,
        client: &Client,
        error: SubmitError,
    ) -> PyResult<()> {
        if !matches!(error, SubmitError::LimitReached { .. }) || !self.settings()?.block_when_full {
            return Err(error::submit(py, error));
        }
        self.interruptible(py, None, |slice| client.wait_for_room(slice))?;
        Ok(())
    }

    /// The id of a callable.
    ///
    /// # Errors
    /// `TypeError` for what cannot be called; `UnpicklableError`.
    pub fn function_id(
        &self,
        py: Python<'_>,
        function: *mut ffi::PyObject,
    ) -> PyResult<FunctionId> {
        if let Some(id) = self.functions.with(py, |functions| functions.find(py, function)) {
            return Ok(id);
        }
        // Attached, so that PyO3 releases at once what the cache lets go of.
        Python::attach(|_| {
            // SAFETY: callers hand in live objects only.
            let function = unsafe { Bound::from_borrowed_ptr(py, function) };
            // Describing a function runs Python code, which may submit: the cache is not borrowed meanwhile.
            let described = crate::function::describe(&function)?;
            let client = self.running_client(py)?;
            let (id, forgotten) =
                self.functions.with(py, |functions| functions.insert(described, &**client));
            drop(forgotten);
            Ok(id)
        })
    }
}

/// Pickles a call; also says whether every future in it is one that `parents` knows.
///
/// # Errors
/// `UnpicklableError`, which names the offending part.
///
/// # Safety
/// The arguments are live, the names are live `str`; the interpreter is held.
pub unsafe fn pickle(
    py: Python<'_>,
    arguments: &[*mut ffi::PyObject],
    names: &[*mut ffi::PyObject],
    parents: &mut impl ParentSink,
    (payload, blocks): (&mut Vec<u8>, &mut dyn BlockSink),
) -> PyResult<(Encoded, bool)> {
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
    let (encoded, futures) = pickle_call(&positional, Some(&named), payload, blocks)?;
    Ok((encoded, futures.iter().all(|future| parents.parent(future.as_ptr()).is_some())))
}
