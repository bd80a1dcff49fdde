//! The worker's side of Python functions: definitions to callables, payloads to arguments, outcomes to payloads.

use gristmill_wire::{FunctionId, ParentEntry, Verdict};
use gristmill_worker::{Call, Callee, Reply};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::codec::{
    Arguments, ArrayTypes, Encoded, Parents, decode_call, decode_value, encode_value, malformed,
    pickle_value,
};
use crate::object::Owned;

/// A function as this worker knows it.
enum Known {
    Callable(Py<PyAny>),
    /// Its definition did not load: the encoded exception that every call of it answers with.
    Broken(Vec<u8>),
}

/// Calls Python functions on the thread that holds the interpreter.
pub struct PythonCallee {
    functions: Vec<Option<Known>>,
    arrays: ArrayTypes,
    arguments: Arguments,
    interrupted: Py<PyAny>,
}

impl PythonCallee {
    /// Ready for definitions.
    ///
    /// # Errors
    /// What importing the error types raises.
    pub fn new(py: Python<'_>) -> PyResult<Self> {
        Ok(Self {
            functions: Vec::new(),
            arrays: ArrayTypes::new(),
            arguments: Arguments::new(),
            interrupted: py.import("gristmill._errors")?.getattr("TaskInterrupted")?.unbind(),
        })
    }

    fn try_call(&mut self, py: Python<'_>, call: &Call<'_>, out: &mut Vec<u8>) -> PyResult<()> {
        let mut parents =
            TaskParents { values: call.parents.iter().collect(), arrays: &self.arrays };
        decode_call(py, call.payload, &mut parents, &self.arrays, &mut self.arguments)?;
        let function = match self.functions.get(call.function.0 as usize) {
            Some(Some(Known::Callable(function))) => function.as_ptr(),
            _ => return Err(malformed("its function was never defined here")),
        };
        // SAFETY: `py` proves that the interpreter is held; the table keeps the function alive during the call, since
        // definitions arrive on this thread only, between calls.
        let result = unsafe { Owned::or_raise(py, self.arguments.call(function))? };
        self.encode(result.into_bound(py), out)
    }

    fn encode(&self, value: Bound<'_, PyAny>, out: &mut Vec<u8>) -> PyResult<()> {
        let start = out.len();
        // SAFETY: the interpreter is held and `value` is live.
        if unsafe { encode_value(value.as_ptr(), out, &self.arrays) } == Encoded::Foreign {
            out.truncate(start);
            pickle_value(&value, out)?;
        }
        Ok(())
    }

    fn verdict_of(&self, py: Python<'_>, error: &PyErr) -> Verdict {
        if error.is_instance(py, self.interrupted.bind(py)) {
            Verdict::Interrupted
        } else {
            Verdict::Raised
        }
    }
}

/// The exception as bytes; `_remote` has a form for every exception, so a failure here is an interrupt or no memory.
fn encode_exception(py: Python<'_>, error: &PyErr) -> PyResult<Vec<u8>> {
    // With its traceback, which `value` lacks before Python 3.12.
    let error = error.clone_ref(py).into_value(py);
    let dumped = py.import("gristmill._remote")?.call_method1("dump_exception", (error,))?;
    Ok(dumped.cast::<PyBytes>()?.as_bytes().to_vec())
}

impl Callee for PythonCallee {
    fn define(&mut self, function: FunctionId, definition: &[u8]) {
        Python::attach(|py| {
            let loaded = py
                .import("gristmill._functions")
                .and_then(|module| module.call_method1("load", (PyBytes::new(py, definition),)));
            let known = match loaded {
                Ok(callable) => Known::Callable(callable.unbind()),
                Err(error) => Known::Broken(encode_exception(py, &error).unwrap_or_default()),
            };
            let place = function.0 as usize;
            if self.functions.len() <= place {
                self.functions.resize_with(place + 1, || None);
            }
            self.functions[place] = Some(known);
        });
    }

    fn call(&mut self, call: &Call<'_>, out: &mut Vec<u8>) -> Reply {
        Python::attach(|py| {
            if let Some(Some(Known::Broken(error))) = self.functions.get(call.function.0 as usize) {
                out.extend_from_slice(error);
                return Reply { verdict: Verdict::Raised, arena: false };
            }
            let start = out.len();
            let verdict = match self.try_call(py, call, out) {
                Ok(()) => Verdict::Returned,
                Err(error) => {
                    self.arguments.clear();
                    out.truncate(start);
                    let verdict = self.verdict_of(py, &error);
                    match encode_exception(py, &error) {
                        Ok(bytes) => out.extend_from_slice(&bytes),
                        Err(second) => {
                            return Reply { verdict: self.verdict_of(py, &second), arena: false };
                        }
                    }
                    verdict
                }
            };
            Reply { verdict, arena: false }
        })
    }

    fn while_idle(&mut self, wait: &mut dyn FnMut()) {
        // A closure that touches no Python object; `detach` wants it `Send` as a proxy for that.
        struct Untouched<'a>(&'a mut dyn FnMut());
        // SAFETY: the closure runs on this very thread and touches no Python object.
        unsafe impl Send for Untouched<'_> {}
        Python::attach(|py| {
            let wait = Untouched(wait);
            py.detach(move || {
                let wait = wait;
                (wait.0)();
            });
        });
    }
}

struct TaskParents<'a> {
    values: Vec<(ParentEntry, &'a [u8])>,
    arrays: &'a ArrayTypes,
}

impl Parents for TaskParents<'_> {
    fn parent(&mut self, py: Python<'_>, index: u16) -> PyResult<Owned> {
        let value = self.values.get(usize::from(index)).copied();
        let (entry, bytes) = value.ok_or_else(|| malformed("it lacks one of its parents"))?;
        if entry.flags & ParentEntry::ARENA != 0 {
            return Err(malformed("a parent of it is in no arena of this worker"));
        }
        decode_value(py, bytes, &mut (), self.arrays)
    }
}
