//! `submit`: from a call in Python to a task with a future.

use gristmill_client::{Call, Client, SubmitError, TaskOptions};
use gristmill_wire::{FunctionId, TaskId};
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::Engine;
use crate::codec::{Encoded, ParentSink, encode_call, pickle_call};
use crate::error;
use crate::future::{FutureRef, is_future, new_future};
use crate::object::Owned;
use crate::raw::guard;

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
            engine.submit(py, object, arguments, names, None)
        }
    })
}

/// Positional values and, behind them, the values of the named arguments.
///
/// # Safety
/// The arguments are as CPython gave them.
pub unsafe fn all_arguments<'a>(
    arguments: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> &'a [*mut ffi::PyObject] {
    // SAFETY: passed on from the caller.
    unsafe {
        let named = if names.is_null() { 0 } else { ffi::PyTuple_GET_SIZE(names) };
        let total = (count + named).cast_unsigned();
        if total == 0 { &[] } else { std::slice::from_raw_parts(arguments, total) }
    }
}

/// The futures of this engine among the arguments of one call.
struct ParentList {
    engine: *const Engine,
    tasks: Vec<TaskId>,
    /// A future of another engine was met: only its result can be passed on.
    is_foreign: bool,
}

impl ParentSink for ParentList {
    #[inline]
    fn parent(&mut self, object: *mut ffi::PyObject) -> Option<u16> {
        if !is_future(object) {
            return None;
        }
        // SAFETY: encoding happens with the interpreter held.
        let future = FutureRef::from_ptr(unsafe { Python::assume_attached() }, object)?;
        if !std::ptr::eq(future.engine(), self.engine) {
            self.is_foreign = true;
            return None;
        }
        let task = future.task();
        let place = self.tasks.iter().position(|&known| known == task).unwrap_or_else(|| {
            self.tasks.push(task);
            self.tasks.len() - 1
        });
        u16::try_from(place).ok()
    }
}

impl Engine {
    /// Submits one call; `arguments` are the function, then its positional and named values.
    ///
    /// # Errors
    /// What is wrong with the function, the arguments or the engine.
    ///
    /// # Safety
    /// `object` is this engine's object, the arguments are live, `names` is null or a tuple of `str`.
    #[inline]
    pub unsafe fn submit(
        &self,
        py: Python<'_>,
        object: *mut ffi::PyObject,
        arguments: &[*mut ffi::PyObject],
        names: *mut ffi::PyObject,
        options: Option<&TaskOptions>,
    ) -> PyResult<Owned> {
        // SAFETY: passed on from the caller.
        let task = unsafe { self.submit_task(py, arguments, names, options)? };
        new_future(py, object, task).inspect_err(|_| self.release(task))
    }

    /// As [`Self::submit`], without a future: whoever has the id must release it.
    ///
    /// # Errors
    /// As [`Self::submit`].
    ///
    /// # Safety
    /// As [`Self::submit`].
    #[inline]
    pub unsafe fn submit_task(
        &self,
        py: Python<'_>,
        arguments: &[*mut ffi::PyObject],
        names: *mut ffi::PyObject,
        options: Option<&TaskOptions>,
    ) -> PyResult<TaskId> {
        let client = self.running_client(py)?;
        let Some((&function, arguments)) = arguments.split_first() else {
            return Err(PyTypeError::new_err("submit needs a function to call"));
        };
        let function = self.function_id(py, function, client)?;
        let mut parents = ParentList { engine: self, tasks: Vec::new(), is_foreign: false };
        let task = self.scratch.with(py, |scratch| {
            scratch.clear();
            // SAFETY: passed on from the caller; encoding natively runs no Python code.
            let encoded =
                unsafe { encode_call(arguments, names, &mut parents, scratch, &self.arrays) };
            (encoded == Encoded::Native).then(|| {
                let call = Call { function, payload: scratch, parents: &parents.tasks, options };
                client.submit(&call)
            })
        });
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
    unsafe fn submit_slowly(
        &self,
        py: Python<'_>,
        function: FunctionId,
        arguments: &[*mut ffi::PyObject],
        names: *mut ffi::PyObject,
        options: Option<&TaskOptions>,
        refusal: Option<SubmitError>,
    ) -> PyResult<TaskId> {
        let client = self.running_client(py)?;
        let mut parents = ParentList { engine: self, tasks: Vec::new(), is_foreign: false };
        let mut payload = Vec::new();
        // SAFETY: passed on from the caller.
        unsafe {
            if encode_call(arguments, names, &mut parents, &mut payload, &self.arrays)
                == Encoded::Foreign
            {
                payload.clear();
                parents.tasks.clear();
                pickle(py, arguments, names, &mut parents, &mut payload)?;
            }
        }
        if parents.is_foreign {
            return Err(pyo3::exceptions::PyValueError::new_err(
                "a future of another executor cannot be an argument: pass its result()",
            ));
        }
        let call = Call { function, payload: &payload, parents: &parents.tasks, options };
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
    fn wait_for_room(&self, py: Python<'_>, client: &Client, error: SubmitError) -> PyResult<()> {
        if !matches!(error, SubmitError::LimitReached { .. }) || !self.settings()?.block_when_full {
            return Err(error::submit(py, error));
        }
        self.interruptible(py, None, |slice| client.wait_for_room(slice))?;
        Ok(())
    }

    fn function_id(
        &self,
        py: Python<'_>,
        function: *mut ffi::PyObject,
        client: &Client,
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
            let (id, forgotten) =
                self.functions.with(py, |functions| functions.insert(described, client));
            drop(forgotten);
            Ok(id)
        })
    }
}

unsafe fn pickle(
    py: Python<'_>,
    arguments: &[*mut ffi::PyObject],
    names: *mut ffi::PyObject,
    parents: &mut ParentList,
    payload: &mut Vec<u8>,
) -> PyResult<()> {
    // SAFETY: the arguments are live; the last ones belong to the names.
    let (positional, named) = unsafe {
        let named = if names.is_null() { 0 } else { ffi::PyTuple_GET_SIZE(names) };
        let (positional, values) = arguments.split_at(arguments.len() - named.cast_unsigned());
        let borrow = |&object: &*mut ffi::PyObject| Bound::from_borrowed_ptr(py, object);
        let positional = PyTuple::new(py, positional.iter().map(borrow))?;
        let keywords = PyDict::new(py);
        for (index, value) in values.iter().enumerate() {
            let name = ffi::PyTuple_GET_ITEM(names, index.cast_signed());
            keywords.set_item(Bound::from_borrowed_ptr(py, name), borrow(value))?;
        }
        (positional, keywords)
    };
    let futures = pickle_call(&positional, Some(&named), payload)?;
    for future in futures {
        if parents.parent(future.as_ptr()).is_none() {
            parents.is_foreign = true;
        }
    }
    Ok(())
}
