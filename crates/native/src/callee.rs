//! The worker's side of Python functions: definitions to callables, payloads to arguments, outcomes to payloads.

use std::sync::Arc;

use gristmill_shm::WorkerArena;
use gristmill_wire::{ArenaDescriptor, FunctionId, ParentEntry, Verdict};
use gristmill_worker::{Call, Callee, ParentList, REPLY_MAX, Reply};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arena::{WorkerSink, WorkerSource};
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
    arena: Arc<WorkerArena>,
    arrays: ArrayTypes,
    arguments: Arguments,
    interrupted: Py<PyAny>,
}

impl PythonCallee {
    /// Ready for definitions.
    ///
    /// # Errors
    /// What importing the error types raises.
    pub fn new(py: Python<'_>, arena: Arc<WorkerArena>) -> PyResult<Self> {
        Ok(Self {
            functions: Vec::new(),
            arena,
            arrays: ArrayTypes::new(),
            arguments: Arguments::new(),
            interrupted: py.import("gristmill._errors")?.getattr("TaskInterrupted")?.unbind(),
        })
    }

    /// Appends the encoded result to `out`; says whether as a descriptor.
    fn try_call(&mut self, py: Python<'_>, call: &Call<'_>, out: &mut Vec<u8>) -> PyResult<bool> {
        let mut parents =
            TaskParents { list: call.parents, arrays: &self.arrays, arena: &self.arena };
        let (blocks, bytes) = open_payload(&self.arena, call.payload, call.arena)?;
        let sources = (&self.arrays, &blocks as _);
        decode_call(py, bytes, &mut parents, sources, &mut self.arguments)?;
        let function = match self.functions.get(call.function.0 as usize) {
            Some(Some(Known::Callable(function))) => function.as_ptr(),
            _ => return Err(malformed("its function was never defined here")),
        };
        // SAFETY: `py` proves that the interpreter is held; the table keeps the function alive during the call, since
        // definitions arrive on this thread only, between calls.
        let result = unsafe { Owned::or_raise(py, self.arguments.call(function))? };
        self.encode(&result.into_bound(py), out)
    }

    fn encode(&self, value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> PyResult<bool> {
        let start = out.len();
        let mut sink = WorkerSink::new(&self.arena);
        // SAFETY: the interpreter is held and `value` is live.
        let mut encoded = unsafe { encode_value(value.as_ptr(), out, &self.arrays, &mut sink) };
        if encoded == Encoded::Foreign {
            out.truncate(start);
            sink.clear();
            encoded = pickle_value(value, out, &mut sink)?;
        }
        if encoded == Encoded::Unstored {
            return Err(sink.failure());
        }
        finish(sink, start, out)
    }

    /// Appends the encoded exception; says whether as a descriptor.
    fn encode_raised(&self, py: Python<'_>, error: &PyErr, out: &mut Vec<u8>) -> PyResult<bool> {
        let start = out.len();
        out.extend_from_slice(&encode_exception(py, error)?);
        finish(WorkerSink::new(&self.arena), start, out)
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
    let dumped =
        py.import("gristmill._remote")?.call_method1("dump_exception", (error.value(py),))?;
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
                let start = out.len();
                out.extend_from_slice(error);
                let arena = finish(WorkerSink::new(&self.arena), start, out).unwrap_or_default();
                return Reply { verdict: Verdict::Raised, arena };
            }
            let start = out.len();
            let error = match self.try_call(py, call, out) {
                Ok(arena) => return Reply { verdict: Verdict::Returned, arena },
                Err(error) => error,
            };
            self.arguments.clear();
            out.truncate(start);
            match self.encode_raised(py, &error, out) {
                Ok(arena) => Reply { verdict: self.verdict_of(py, &error), arena },
                Err(second) => {
                    out.truncate(start);
                    Reply { verdict: self.verdict_of(py, &second), arena: false }
                }
            }
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

/// A payload's blocks and its bytes.
fn open_payload<'a, 'b>(
    arena: &'a Arc<WorkerArena>,
    payload: &'b [u8],
    is_descriptor: bool,
) -> PyResult<(WorkerSource<'a>, &'b [u8])> {
    if !is_descriptor {
        return Ok((WorkerSource::new(arena, Vec::new()), payload));
    }
    let descriptor =
        ArenaDescriptor::read(payload).map_err(|error| malformed(&error.to_string()))?;
    Ok((WorkerSource::new(arena, descriptor.blocks), descriptor.bytes))
}

/// Makes what was encoded from `start` on fit into a record; says whether it is a descriptor now.
fn finish(mut sink: WorkerSink<'_>, start: usize, out: &mut Vec<u8>) -> PyResult<bool> {
    let size = ArenaDescriptor::size(sink.count(), out.len() - start);
    let is_large = size > REPLY_MAX;
    if sink.count() == 0 && !is_large {
        return Ok(false);
    }
    if ArenaDescriptor::size(sink.count() + 1, 0) > REPLY_MAX {
        let text = format!("a result with {} large parts has too many of them", sink.count());
        return Err(pyo3::exceptions::PyValueError::new_err(text));
    }
    let bytes = out.split_off(start);
    if is_large {
        sink.store_body(&bytes)?;
    }
    let inline = if is_large { &[][..] } else { &bytes };
    ArenaDescriptor::write(&sink.into_blocks(), is_large, inline, out);
    Ok(true)
}

struct TaskParents<'a> {
    list: ParentList<'a>,
    arrays: &'a ArrayTypes,
    arena: &'a Arc<WorkerArena>,
}

impl Parents for TaskParents<'_> {
    fn parent(&mut self, py: Python<'_>, index: u16) -> PyResult<Owned> {
        let (entry, bytes) =
            self.list.get(index).ok_or_else(|| malformed("it lacks one of its parents"))?;
        let is_descriptor = entry.flags & ParentEntry::ARENA != 0;
        let (blocks, bytes) = open_payload(self.arena, bytes, is_descriptor)?;
        decode_value(py, bytes, &mut (), self.arrays, &blocks)
    }
}
