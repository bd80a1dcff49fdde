//! The worker's side of Python functions: loads definitions, decodes payloads to arguments, encodes outcomes.
//!
//! A function may submit tasks and wait for them, and the worker then calls other functions below it: nothing is
//! borrowed meanwhile.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use std::sync::Arc;

use gristmill_keeper::TaskMark;
use gristmill_shm::{WorkerArena, WorkerControl};
use gristmill_sync::clock::ticks;
use gristmill_sync::process;
use gristmill_wire::{
    ArenaDescriptor, DefinitionHead, Digest, FailureKind, FunctionId, ParentEntry, ResourceGrant,
    SlotId, TaskFailure, Verdict,
};
use gristmill_worker::{Callee, Dropped, REPLY_MAX, Reply, TaskCall};
use pyo3::exceptions::{PyImportError, PySystemError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arena::{WorkerSink, WorkerSource};
use crate::codec::{
    Arguments, ArrayTypes, EncodeResult, ParentValues, decode_call, decode_scalars, decode_value,
    encode_scalar, encode_value, malformed, pickle_value,
};
use crate::direct_call::DirectCall;
use crate::function::SharedCache;
use crate::known_functions::{Callable, Known, KnownFunctions, UnloadedFunction};
use crate::loading::Loading;
use crate::object::Owned;
use crate::output;

/// The exception of a failed call. It is boxed, so that a successful result is only a word to move.
struct Failure(PyErr);

impl From<PyErr> for Box<Failure> {
    #[cold]
    fn from(error: PyErr) -> Self {
        Self::new(Failure(error))
    }
}

/// A callee that calls Python functions on the thread that holds the interpreter.
pub struct PythonCallee {
    functions: KnownFunctions,
    pub arrays: ArrayTypes,
    /// Storage for arguments: one set for each call on the stack, reused by later calls.
    #[expect(clippy::vec_box, reason = "a set goes in and out for each call, as one word")]
    arguments: RefCell<Vec<Box<Arguments>>>,
    arena: Arc<WorkerArena>,
    attributes: HeldAttributes,
    /// The mark in the environment, by which the processes of each task are recognised.
    mark: Option<TaskMark>,
    /// The worker's fork generation; a process with another one was forked by user code.
    generation: u32,
    pub nested: NestedSubmissions,
    /// The resource grant that the process was last told about.
    grant: Cell<ResourceGrant>,
    /// Slots of that grant, if its task is wide.
    places: RefCell<Vec<SlotId>>,
    /// Ticks that the current call has taken to load its function.
    load_ticks: Cell<u64>,
    /// The function or arguments being loaded, for the interrupt handler and the error message.
    pub loading: Loading,
}

/// Python attributes that the worker holds, so that no task can remove them.
struct HeldAttributes {
    /// `TaskInterrupted`.
    interrupted: Py<PyAny>,
    /// `_remote.dump_exception`.
    dump_exception: Py<PyAny>,
    /// `sys._getframe`, which shows the depth of the stack.
    frame_at: Py<PyAny>,
    /// `_output.flush`.
    flush: Py<PyAny>,
}

impl HeldAttributes {
    fn look_up(py: Python<'_>) -> PyResult<Self> {
        Ok(Self {
            interrupted: py.import("gristmill._interrupt")?.getattr("TaskInterrupted")?.unbind(),
            dump_exception: py.import("gristmill._remote")?.getattr("dump_exception")?.unbind(),
            frame_at: py.import("sys")?.getattr("_getframe")?.unbind(),
            flush: py.import("gristmill._output")?.getattr("flush")?.unbind(),
        })
    }
}

/// The names that tasks use in their submissions.
#[derive(Default)]
pub struct NestedSubmissions {
    /// The functions that tasks submit.
    pub functions: SharedCache,
    /// Number of the next function among those.
    pub next_function: Cell<u32>,
    /// Number of the context that tasks named last; 0 is none.
    pub last_context: Cell<u32>,
    /// Bytes of the arguments of the last submission, and of the last result that a task fetched.
    pub last_sizes: Cell<(u64, u64)>,
}

impl PythonCallee {
    /// Creates a callee without functions.
    ///
    /// # Errors
    /// The exception raised by the import of the error types.
    pub fn new(
        py: Python<'_>,
        arena: Arc<WorkerArena>,
        control: WorkerControl,
        mark: Option<TaskMark>,
    ) -> PyResult<Self> {
        Ok(Self {
            functions: KnownFunctions::default(),
            arena,
            arrays: ArrayTypes::new(),
            arguments: RefCell::default(),
            attributes: HeldAttributes::look_up(py)?,
            mark,
            generation: process::generation(),
            nested: NestedSubmissions::default(),
            grant: Cell::default(),
            places: RefCell::default(),
            load_ticks: Cell::new(0),
            loading: Loading::new(control),
        })
    }

    /// Runs a call, and appends its encoded result or failure to `out`.
    #[inline]
    fn reply_to(&self, py: Python<'_>, call: &TaskCall<'_>, out: &mut Vec<u8>) -> Reply {
        let start = out.len();
        let reply = match self.try_call(py, call, out) {
            Ok(arena) => Reply { verdict: Verdict::Returned, arena },
            Err(failure) => {
                let reply = self.failed(py, *failure, out, start);
                // Methods of the exception may have forked.
                if self.is_forked() {
                    crate::forked::leave(py, None);
                }
                reply
            }
        };
        if output::has_text() { self.flush_output(py, reply, out, start) } else { reply }
    }

    /// Appends the encoded result to `out`. Returns whether it is a descriptor.
    #[inline]
    fn try_call(
        &self,
        py: Python<'_>,
        call: &TaskCall<'_>,
        out: &mut Vec<u8>,
    ) -> Result<bool, Box<Failure>> {
        let (function, direct) = self.find(py, call.function)?;
        if let Some(direct) = direct
            && !call.arena
            && self.has_grant_of(call)
            && direct.try_run(py, call.payload, out)
        {
            if self.is_forked() {
                crate::forked::leave(py, None);
            }
            return Ok(false);
        }
        let spare = self.arguments.borrow_mut().pop();
        let mut arguments = spare.unwrap_or_else(Arguments::new);
        let result = self.run(py, &function, call, &mut arguments);
        arguments.clear();
        self.arguments.borrow_mut().push(arguments);
        if self.is_forked() {
            crate::forked::leave(py, result.as_ref().err().map(|failure| &failure.0));
        }
        let result = result?;
        // SAFETY: the interpreter is held and the result live.
        if unsafe { encode_scalar(result.as_ptr(), out) } {
            return Ok(false);
        }
        let encoded = self.encode(&result.into_bound(py), out);
        // Methods of the result, and destructors of objects that die with it, may have forked.
        if self.is_forked() {
            crate::forked::leave(py, encoded.as_ref().err());
        }
        Ok(encoded?)
    }

    /// Returns whether user code forked this process from the worker. Checked wherever user code has run.
    #[inline]
    pub fn is_forked(&self) -> bool {
        process::generation() != self.generation
    }

    #[inline]
    fn run(
        &self,
        py: Python<'_>,
        function: &Owned,
        call: &TaskCall<'_>,
        arguments: &mut Arguments,
    ) -> Result<Owned, Box<Failure>> {
        if !self.has_grant_of(call) {
            self.apply_grant(py, call.grant, call.places)?;
        }
        if call.arena || !decode_scalars(py, call.payload, arguments) {
            let decoded = self.decode(py, call, arguments);
            if self.is_forked() {
                crate::forked::leave(py, decoded.as_ref().err());
            }
            decoded?;
        }
        // SAFETY: `py` proves that the interpreter is held, and the caller's reference keeps the function alive.
        let result = unsafe { arguments.call(function.as_ptr()) };
        Ok(Owned::or_raise(py, result)?)
    }

    /// Returns whether the process was told of a call's grant.
    #[inline]
    fn has_grant_of(&self, call: &TaskCall<'_>) -> bool {
        call.grant == self.grant.get() && *call.places == **self.places.borrow()
    }

    /// Tells libraries and programs in this process which GPUs and cores the task has.
    #[cold]
    fn apply_grant(&self, py: Python<'_>, grant: ResourceGrant, places: &[SlotId]) -> PyResult<()> {
        let devices = grant.devices;
        let slots: Vec<u16> = places.iter().map(|slot| slot.0).collect();
        let all = (devices, grant.places.max(1), slots);
        py.import("gristmill._resource_grant")?.call_method1("apply", all)?;
        self.grant.set(grant);
        places.clone_into(&mut self.places.borrow_mut());
        Ok(())
    }

    fn decode(
        &self,
        py: Python<'_>,
        call: &TaskCall<'_>,
        arguments: &mut Arguments,
    ) -> PyResult<()> {
        let mut parents = TaskParents {
            values: call.parents.iter().collect(),
            arrays: &self.arrays,
            arena: &self.arena,
        };
        let (blocks, bytes) = self.open(call.payload, call.arena)?;
        let outer = self.loading.begin_arguments();
        let decoded = decode_call(py, bytes, &mut parents, (&self.arrays, &blocks as _), arguments);
        self.loading.end_arguments(outer, decoded.is_err());
        decoded
    }

    /// Returns an owned reference to a function, because a definition that arrives during the call may move the table,
    /// and its native function if there is one. The first call of a native function goes through Python.
    #[inline]
    fn find(
        &self,
        py: Python<'_>,
        function: FunctionId,
    ) -> Result<(Owned, Option<Rc<DirectCall>>), Box<Failure>> {
        let definition = match self.functions.by_id.borrow().get(function.0 as usize) {
            Some(Some(Known::Callable(Callable { function, direct }))) => {
                return Ok((Owned::from_bound(function.bind(py).clone()), direct.clone()));
            }
            Some(Some(Known::Defined(definition))) => Some(definition.clone()),
            _ => None,
        };
        Ok((self.load(py, function, definition)?, None))
    }

    /// Loads a function within its first call, which is charged with the cost and any failure. A failure is not cached.
    #[cold]
    fn load(
        &self,
        py: Python<'_>,
        function: FunctionId,
        definition: Option<UnloadedFunction>,
    ) -> Result<Owned, Box<Failure>> {
        let Some(UnloadedFunction { bytes, has_failed }) = definition else {
            return Err(malformed("the client sent no definition of its function").into());
        };
        let began = ticks();
        // They stay alive until the function is loaded, even if the engine drops one meanwhile.
        let needed = self.load_needs(py, &bytes)?;
        let loaded = py
            .import("gristmill._functions")
            .and_then(|module| module.getattr("load"))
            .and_then(|load| load.call1((PyBytes::new(py, &bytes), has_failed)));
        drop(needed);
        if self.is_forked() {
            crate::forked::leave(py, loaded.as_ref().err());
        }
        self.load_ticks.set(ticks().saturating_sub(began).max(1));
        // The loading may have submitted tasks and waited for them: the table may have changed.
        let mut functions = self.functions.by_id.borrow_mut();
        let place = functions.get_mut(function.0 as usize).and_then(Option::as_mut);
        let place = place
            .filter(|known| matches!(known, Known::Defined(one) if Rc::ptr_eq(&one.bytes, &bytes)));
        match loaded {
            Ok(callable) => {
                if let Some(place) = place {
                    *place = Known::Callable(Callable::new(&callable));
                }
                Ok(Owned::from_bound(callable))
            }
            Err(error) => {
                if let Some(place) = place {
                    *place = Known::Defined(UnloadedFunction { bytes, has_failed: true });
                }
                Err(error.into())
            }
        }
    }

    /// Loads what a function needs. A dependency that the engine has not sent is left out: the function then fails to load.
    fn load_needs(&self, py: Python<'_>, definition: &[u8]) -> Result<Vec<Owned>, Box<Failure>> {
        let find = |digest: Digest| {
            let id = self.functions.dependency(digest)?;
            Some(self.find(py, id).map(|(object, _)| object))
        };
        DefinitionHead::read(definition).needs().filter_map(find).collect()
    }

    /// Flushes what a call has left in the buffers of the standard streams. A stream that fails costs no result; an
    /// interrupt counts as one of the call.
    #[cold]
    fn flush_output(&self, py: Python<'_>, reply: Reply, out: &mut Vec<u8>, start: usize) -> Reply {
        match output::flush(self.attributes.flush.bind(py)) {
            Err(error) if !reply.arena && self.is_interrupt(py, &error) => {
                self.failed(py, Failure(error), out, start)
            }
            _ => reply,
        }
    }

    /// Waits until all that this process has written to the standard streams is out, within a bound.
    ///
    /// # Errors
    /// The exception that the handler of a signal raised meanwhile.
    pub fn finish_output(&self, py: Python<'_>) -> PyResult<()> {
        output::flush(self.attributes.flush.bind(py))?;
        output::settle(u64::MAX);
        Ok(())
    }

    fn is_interrupt(&self, py: Python<'_>, error: &PyErr) -> bool {
        error.is_instance(py, self.attributes.interrupted.bind(py))
    }

    /// Returns a sink for the large parts of the data that a task sends.
    pub fn sink(&self) -> WorkerSink<'_> {
        WorkerSink::new(&self.arena)
    }

    /// Returns whether memory is in the arena. In a worker Python only has views of arguments there.
    pub fn is_lent(&self, data: *const u8, size: usize) -> bool {
        self.arena.find(data, size).is_some()
    }

    /// Splits a payload into its blocks and its bytes.
    ///
    /// # Errors
    /// `ValueError` if the payload should be a descriptor and is not.
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
        if encoded == EncodeResult::Foreign {
            out.truncate(start);
            sink.clear();
            encoded = pickle_value(value, out, &mut sink)?;
        }
        if encoded == EncodeResult::Unstored {
            return Err(sink.failure(value.py()));
        }
        finish(value.py(), sink, start, out)
    }

    /// Appends the encoded exception. Returns whether it is a descriptor. If encoding fails, for example without
    /// memory, it appends the exception's type name and the reason of the failure instead.
    fn encode_raised(&self, py: Python<'_>, error: &PyErr, out: &mut Vec<u8>) -> bool {
        let start = out.len();
        let encoded = self.encode_exception(py, error).and_then(|bytes| {
            let failure = TaskFailure { kind: FailureKind::Exception, bytes: &bytes };
            out.extend(failure.encode());
            finish(py, WorkerSink::new(&self.arena), start, out)
        });
        encoded.unwrap_or_else(|why| {
            out.truncate(start);
            crate::error::undescribed(py, error, &why, out);
            false
        })
    }

    /// Encodes the exception as bytes. `_remote` has a form for every exception, so this fails only on an interrupt or
    /// without memory.
    fn encode_exception(&self, py: Python<'_>, error: &PyErr) -> PyResult<Vec<u8>> {
        // The exception carries its traceback, which `value` lacks before Python 3.12.
        let error = error.clone_ref(py).into_value(py);
        let dumped = self.attributes.dump_exception.bind(py).call1((error,))?;
        Ok(dumped.cast::<PyBytes>()?.as_bytes().to_vec())
    }

    /// Replaces the bytes appended from `start` on with the failure.
    #[cold]
    fn failed(&self, py: Python<'_>, failure: Failure, out: &mut Vec<u8>, start: usize) -> Reply {
        out.truncate(start);
        let Failure(error) = failure;
        let cut_off = self.loading.take_cut_off();
        let verdict = self.verdict_of(py, &error, cut_off.is_some());
        if let Some(text) = cut_off.filter(|_| verdict == Verdict::Interrupted) {
            // Only the client knows whether the task ran out of time: its message then names what was being loaded.
            out.extend(TaskFailure::of_text(FailureKind::Loading, &text).encode());
            return Reply { verdict, arena: false };
        }
        let arena = self.encode_raised(py, &error, out);
        Reply { verdict, arena }
    }

    /// Distinguishes an interrupt from an exception of the task itself. C code that imports, such as numpy's, replaces
    /// any exception of the import, even an interrupt, with an `ImportError`.
    fn verdict_of(&self, py: Python<'_>, error: &PyErr, is_of_load: bool) -> Verdict {
        let is_of_import = self.loading.take_interrupted()
            && (is_of_load
                || error.is_instance_of::<PyImportError>(py)
                || error.is_instance_of::<PySystemError>(py));
        if is_of_import || self.is_interrupt(py, error) {
            Verdict::Interrupted
        } else {
            Verdict::Raised
        }
    }
}

impl Callee for PythonCallee {
    fn define(&self, function: FunctionId, definition: &[u8]) {
        Python::attach(|_| drop(self.functions.define(function, definition)));
    }

    fn forget(&self, function: FunctionId) {
        Python::attach(|_| drop(self.functions.forget(function)));
    }

    #[inline]
    fn call(&self, call: &TaskCall<'_>, out: &mut Vec<u8>) -> Reply {
        #[expect(clippy::cast_possible_truncation, reason = "marks are the low half")]
        let outer = self.mark.as_ref().map(|mark| mark.set(call.sequence as u32));
        // SAFETY: the worker runs its tasks on the thread of `serve`, which holds the interpreter; it releases it only
        // in `while_idle`, during which no task runs.
        let reply = self.reply_to(unsafe { Python::assume_attached() }, call, out);
        if let (Some(mark), Some(outer)) = (&self.mark, outer) {
            mark.restore(outer);
        }
        reply
    }

    fn while_idle(&self, wait: &mut dyn FnMut()) {
        // A closure that touches no Python object; `detach` requires `Send` as a proxy for that.
        struct Untouched<'a>(&'a mut dyn FnMut());
        // SAFETY: the closure runs on this same thread and touches no Python object.
        unsafe impl Send for Untouched<'_> {}
        Python::attach(|py| {
            let wait = Untouched(wait);
            py.detach(move || {
                let wait = wait;
                (wait.0)();
            });
        });
    }

    #[inline]
    fn take_loading(&self) -> u64 {
        let ticks = self.load_ticks.get();
        if ticks != 0 {
            self.load_ticks.set(0);
        }
        ticks
    }

    #[inline]
    fn settle_output(&self, ran: u64) {
        output::settle(ran);
    }

    #[inline]
    fn is_unfit(&self) -> bool {
        self.loading.is_unfit()
    }

    fn put_loading(&self, ticks: u64) {
        self.load_ticks.set(ticks);
    }

    fn may_nest(&self) -> bool {
        // The call raises if the stack has fewer frames than that.
        Python::attach(|py| self.attributes.frame_at.bind(py).call1((FRAMES_MAX,)).is_err())
    }

    fn has_raised(&self) -> bool {
        Python::attach(|py| py.check_signals().map_err(|error| error.restore(py)).is_err())
    }

    fn completed(&self, ticket: u32) {
        Python::attach(|py| {
            let called = py
                .import("gristmill._nested")
                .and_then(|module| module.call_method1("_completed", (ticket,)));
            if let Err(error) = called {
                error.write_unraisable(py, None);
            }
        });
    }

    fn take_dropped(&self, at_least: usize) -> Dropped {
        crate::nested::take_dropped(at_least)
    }
}

/// Python frames on the stack beyond which no other task is called below a waiting one: that task may need as many as
/// are left of the interpreter's limit of a thousand.
const FRAMES_MAX: u32 = 400;

/// Splits a payload into its blocks and its bytes.
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

/// Makes the bytes encoded from `start` on fit into a record. Returns whether they are a descriptor now.
pub fn finish(
    py: Python<'_>,
    mut sink: WorkerSink<'_>,
    start: usize,
    out: &mut Vec<u8>,
) -> PyResult<bool> {
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
        sink.store_body(py, &bytes)?;
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

impl ParentValues for TaskParents<'_> {
    fn parent(&mut self, py: Python<'_>, index: u32) -> PyResult<Owned> {
        let value = self.values.get(index as usize).copied();
        let (entry, bytes) = value.ok_or_else(|| malformed("it lacks the result of a parent"))?;
        let is_descriptor = entry.flags & ParentEntry::ARENA != 0;
        let (blocks, bytes) = open_payload(self.arena, bytes, is_descriptor)?;
        decode_value(py, bytes, &mut (), self.arrays, &blocks)
    }
}
