//! The worker's side of Python functions: definitions to callables, payloads to arguments, outcomes to payloads.
//!
//! A function may submit tasks and wait for them, and then others are called below it: nothing is borrowed meanwhile.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use std::sync::Arc;

use gristmill_shm::WorkerArena;
use gristmill_wire::{ArenaDescriptor, Equipment, FunctionId, ParentEntry, SlotId, Verdict};
use gristmill_worker::{Call, Callee, Dropped, REPLY_MAX, Reply};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arena::{WorkerSink, WorkerSource};
use crate::codec::{
    Arguments, ArrayTypes, Encoded, Parents, decode_call, decode_scalars, decode_value,
    encode_scalar, encode_value, malformed, pickle_value,
};
use crate::function::FunctionCache;
use crate::object::Owned;

/// A function as this worker knows it.
enum Known {
    Callable(Py<PyAny>),
    /// Its definition did not load: the encoded exception that every call of it answers with.
    Broken(Rc<[u8]>),
}

/// Why a call has no result. In a box, so that those that have one move a word.
enum Failure {
    Raised(PyErr),
    /// The function did not load: the encoded exception that says so.
    Broken(Rc<[u8]>),
}

impl From<PyErr> for Box<Failure> {
    #[cold]
    fn from(error: PyErr) -> Self {
        Self::new(Failure::Raised(error))
    }
}

/// Calls Python functions on the thread that holds the interpreter.
pub struct PythonCallee {
    functions: RefCell<Vec<Option<Known>>>,
    pub arrays: ArrayTypes,
    /// Storage for arguments: as many sets as calls are on the stack, kept for the next ones.
    #[expect(clippy::vec_box, reason = "a set goes in and out for each call, as one word")]
    arguments: RefCell<Vec<Box<Arguments>>>,
    arena: Arc<WorkerArena>,
    interrupted: Py<PyAny>,
    /// `sys._getframe`, which tells how deep the stack is.
    frame_at: Py<PyAny>,
    /// What tasks submit.
    pub submitted: RefCell<FunctionCache>,
    /// The number of the next function among those.
    pub next_function: Cell<u32>,
    /// That of the context that their tasks named last; 0 is none.
    pub last_context: Cell<u32>,
    /// What the process was last told that its tasks have besides it.
    equipment: Cell<Equipment>,
    /// The slots whose places these are, if its task is wide.
    places: RefCell<Vec<SlotId>>,
}

impl PythonCallee {
    /// Ready for definitions.
    ///
    /// # Errors
    /// What importing the error types raises.
    pub fn new(py: Python<'_>, arena: Arc<WorkerArena>) -> PyResult<Self> {
        Ok(Self {
            functions: RefCell::default(),
            arena,
            arrays: ArrayTypes::new(),
            arguments: RefCell::default(),
            interrupted: py.import("gristmill._interrupt")?.getattr("TaskInterrupted")?.unbind(),
            frame_at: py.import("sys")?.getattr("_getframe")?.unbind(),
            submitted: RefCell::default(),
            next_function: Cell::new(0),
            last_context: Cell::new(0),
            equipment: Cell::default(),
            places: RefCell::default(),
        })
    }

    /// Appends the encoded result to `out`; says whether as a descriptor.
    #[inline]
    fn try_call(
        &self,
        py: Python<'_>,
        call: &Call<'_>,
        out: &mut Vec<u8>,
    ) -> Result<bool, Box<Failure>> {
        let function = self.find(py, call.function)?;
        let spare = self.arguments.borrow_mut().pop();
        let mut arguments = spare.unwrap_or_else(Arguments::new);
        let result = self.run(py, &function, call, &mut arguments);
        arguments.clear();
        self.arguments.borrow_mut().push(arguments);
        let result = result?;
        // SAFETY: the interpreter is held and the result live.
        if unsafe { encode_scalar(result.as_ptr(), out) } {
            return Ok(false);
        }
        Ok(self.encode(&result.into_bound(py), out)?)
    }

    #[inline]
    fn run(
        &self,
        py: Python<'_>,
        function: &Owned,
        call: &Call<'_>,
        arguments: &mut Arguments,
    ) -> Result<Owned, Box<Failure>> {
        if call.equipment != self.equipment.get() || *call.places != **self.places.borrow() {
            self.equip(py, call.equipment, call.places)?;
        }
        if call.arena || !decode_scalars(py, call.payload, arguments) {
            self.decode(py, call, arguments)?;
        }
        // SAFETY: `py` proves that the interpreter is held, and the caller's reference keeps the function alive.
        let result = unsafe { arguments.call(function.as_ptr()) };
        Ok(Owned::or_raise(py, result)?)
    }

    /// Lets libraries and programs in this process know of the GPUs and cores that the task has.
    #[cold]
    fn equip(&self, py: Python<'_>, equipment: Equipment, places: &[SlotId]) -> PyResult<()> {
        let devices = equipment.devices;
        let slots: Vec<u16> = places.iter().map(|slot| slot.0).collect();
        let all = (devices, equipment.places.max(1), slots);
        py.import("gristmill._equipment")?.call_method1("equip", all)?;
        self.equipment.set(equipment);
        places.clone_into(&mut self.places.borrow_mut());
        Ok(())
    }

    fn decode(&self, py: Python<'_>, call: &Call<'_>, arguments: &mut Arguments) -> PyResult<()> {
        let mut parents = TaskParents {
            values: call.parents.iter().collect(),
            arrays: &self.arrays,
            arena: &self.arena,
        };
        let (blocks, bytes) = self.open(call.payload, call.arena)?;
        decode_call(py, bytes, &mut parents, (&self.arrays, &blocks as _), arguments)
    }

    /// A reference of our own to a function, since a definition that arrives in the call may move the table.
    #[inline]
    fn find(&self, py: Python<'_>, function: FunctionId) -> Result<Owned, Box<Failure>> {
        match self.functions.borrow().get(function.0 as usize) {
            Some(Some(Known::Callable(function))) => {
                Ok(Owned::from_bound(function.bind(py).clone()))
            }
            Some(Some(Known::Broken(error))) => Err(Box::new(Failure::Broken(Rc::clone(error)))),
            _ => Err(malformed("its function was never defined here").into()),
        }
    }

    /// A payload's blocks and its bytes.
    ///
    /// # Errors
    /// `ValueError`: it is no descriptor.
    pub fn open<'b>(
        &self,
        payload: &'b [u8],
        is_descriptor: bool,
    ) -> PyResult<(WorkerSource<'_>, &'b [u8])> {
        open_payload(&self.arena, payload, is_descriptor)
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

    /// Puts what went wrong in the place of whatever was appended from `start` on.
    #[cold]
    fn failed(&self, py: Python<'_>, failure: Failure, out: &mut Vec<u8>, start: usize) -> Reply {
        out.truncate(start);
        let error = match failure {
            Failure::Raised(error) => error,
            Failure::Broken(error) => {
                out.extend_from_slice(&error);
                let arena = finish(WorkerSink::new(&self.arena), start, out).unwrap_or_default();
                return Reply { verdict: Verdict::Raised, arena };
            }
        };
        match self.encode_raised(py, &error, out) {
            Ok(arena) => Reply { verdict: self.verdict_of(py, &error), arena },
            Err(second) => {
                out.truncate(start);
                Reply { verdict: self.verdict_of(py, &second), arena: false }
            }
        }
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
    fn define(&self, function: FunctionId, definition: &[u8]) {
        Python::attach(|py| {
            let loaded = py
                .import("gristmill._functions")
                .and_then(|module| module.call_method1("load", (PyBytes::new(py, definition),)));
            let known = match loaded {
                Ok(callable) => Known::Callable(callable.unbind()),
                Err(error) => {
                    Known::Broken(encode_exception(py, &error).unwrap_or_default().into())
                }
            };
            let place = function.0 as usize;
            let mut functions = self.functions.borrow_mut();
            if functions.len() <= place {
                functions.resize_with(place + 1, || None);
            }
            let old = functions[place].replace(known);
            drop(functions);
            // The end of the old one may run Python code.
            drop(old);
        });
    }

    #[inline]
    fn call(&self, call: &Call<'_>, out: &mut Vec<u8>) -> Reply {
        Python::attach(|py| {
            let start = out.len();
            match self.try_call(py, call, out) {
                Ok(arena) => Reply { verdict: Verdict::Returned, arena },
                Err(failure) => self.failed(py, *failure, out, start),
            }
        })
    }

    fn while_idle(&self, wait: &mut dyn FnMut()) {
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

    fn may_nest(&self) -> bool {
        // It raises when the stack has fewer frames than that.
        Python::attach(|py| self.frame_at.bind(py).call1((FRAMES_MAX,)).is_err())
    }

    fn has_raised(&self) -> bool {
        Python::attach(|py| py.check_signals().map_err(|error| error.restore(py)).is_err())
    }

    fn completed(&self, ticket: u32) {
        Python::attach(|py| {
            let told = py
                .import("gristmill._nested")
                .and_then(|module| module.call_method1("_completed", (ticket,)));
            if let Err(error) = told {
                error.write_unraisable(py, None);
            }
        });
    }

    fn take_dropped(&self, at_least: usize) -> Dropped {
        crate::nested::take_dropped(at_least)
    }
}

/// Python frames on the stack beyond which no other task is called below a waiting one: it may want as many as are left
/// of the interpreter's thousand.
const FRAMES_MAX: u32 = 400;

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
    values: Vec<(ParentEntry, &'a [u8])>,
    arrays: &'a ArrayTypes,
    arena: &'a Arc<WorkerArena>,
}

impl Parents for TaskParents<'_> {
    fn parent(&mut self, py: Python<'_>, index: u16) -> PyResult<Owned> {
        let value = self.values.get(usize::from(index)).copied();
        let (entry, bytes) = value.ok_or_else(|| malformed("it lacks one of its parents"))?;
        let is_descriptor = entry.flags & ParentEntry::ARENA != 0;
        let (blocks, bytes) = open_payload(self.arena, bytes, is_descriptor)?;
        decode_value(py, bytes, &mut (), self.arrays, &blocks)
    }
}
