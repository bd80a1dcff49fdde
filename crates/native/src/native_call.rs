//! Native functions: the tables of their libraries, and calls on buffers, without the interpreter's lock.

use std::ffi::{c_char, c_void};
use std::io::Write as _;

use gristmill_library::SharedLibrary;
use gristmill_store::digest_of_bytes;
use gristmill_sync::clock::monotonic_ns;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyMemoryError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyTuple};

use crate::guarded_memory::GuardedMemory;
use crate::throw_barrier::under_barrier;

/// A function of the interface that rFaaS has: it reads `size` bytes of the input, and returns how many it wrote.
type BufferFunction =
    unsafe extern "C" fn(input: *const c_void, size: u32, output: *mut c_void) -> u32;

/// The name, exported functions, exported variables and needed libraries of a shared library.
type Tables = (Option<String>, Vec<String>, Vec<String>, Vec<String>);

/// Adds the functions of this file to the module.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    for function in [
        wrap_pyfunction!(library_tables, module)?,
        wrap_pyfunction!(content_digest, module)?,
        wrap_pyfunction!(call_native, module)?,
        wrap_pyfunction!(call_native_bytes, module)?,
        wrap_pyfunction!(call_native_by_handle, module)?,
    ] {
        module.add_function(function)?;
    }
    Ok(())
}

/// Reads the tables of a shared library. Raises `ValueError` if its bytes are no library of this machine.
#[pyfunction]
pub fn library_tables(content: &[u8]) -> PyResult<Tables> {
    let library =
        SharedLibrary::read(content).map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok((library.name, library.functions, library.variables, library.needed))
}

/// Returns the digest by which functions name bytes that they share, 32 bytes.
#[pyfunction]
pub fn content_digest<'py>(py: Python<'py>, content: &[u8]) -> Bound<'py, PyBytes> {
    PyBytes::new(py, &digest_of_bytes(content).0)
}

/// Calls a native function with an input and an output buffer. Returns the number of bytes that it wrote.
///
/// `address` is one that the dynamic linker gave for a function of this interface. The process is aborted if the
/// function says that it wrote more than the output holds: its memory is damaged then.
#[pyfunction]
pub fn call_native(
    py: Python<'_>,
    address: usize,
    name: &str,
    input: &Bound<'_, PyAny>,
    output: &Bound<'_, PyAny>,
) -> PyResult<usize> {
    let input = PyUntypedBuffer::get(input)?;
    let output = PyUntypedBuffer::get(output)?;
    let (source, target) = (place_of(&input)?, output_place(&output)?);
    let size = u32::try_from(source.capacity).map_err(|_| too_long(name, source.capacity))?;
    Ok(run(py, address, name, (&source, size), &target))
}

/// Works as [`call_native`] for bytes: returns what the function wrote. Without a capacity the output holds as many bytes as
/// the input.
#[pyfunction]
#[pyo3(signature = (address, name, input, capacity))]
pub fn call_native_bytes<'py>(
    py: Python<'py>,
    address: usize,
    name: &str,
    input: &Bound<'py, PyBytes>,
    capacity: Option<usize>,
) -> PyResult<Bound<'py, PyBytes>> {
    let input = input.as_bytes();
    let capacity = capacity.unwrap_or(input.len());
    if u32::try_from(input.len()).is_err() {
        return Err(too_long(name, input.len()));
    }
    let mut output = Vec::new();
    let reserved = output.try_reserve_exact(capacity);
    reserved.map_err(|_| no_memory(name, capacity))?;
    output.resize(capacity, 0);
    let written = call_on_bytes(py, address, name, input, &mut output);
    Ok(PyBytes::new(py, &output[..written]))
}

/// Calls a native function without the interpreter's lock, and returns the number of bytes that it wrote. The input has
/// less than 4 GiB.
#[inline]
pub fn call_on_bytes(
    py: Python<'_>,
    address: usize,
    name: &str,
    input: &[u8],
    output: &mut [u8],
) -> usize {
    #[expect(clippy::cast_possible_truncation, reason = "the caller has looked")]
    let size = input.len() as u32;
    let source = Place { start: input.as_ptr().cast_mut().cast(), capacity: input.len() };
    let target = Place { start: output.as_mut_ptr().cast(), capacity: output.len() };
    run(py, address, name, (&source, size), &target)
}

/// Bytes for the text of an error.
const ERROR_SIZE: usize = 1024;

/// A function of the interface of `gristmill_call.h`.
type CallFunction = unsafe extern "C" fn(call: *mut NativeCall) -> i32;

/// A call, as `gristmill_call.h` declares it.
#[repr(C)]
struct NativeCall {
    size: u64,
    input: InputBuffer,
    output: OutputBuffer,
    error: ErrorText,
    is_cancelled: extern "C" fn(*const Self) -> i32,
    allocate: unsafe extern "C" fn(*mut Self, u64) -> *mut c_void,
    /// The `OwnOutput` of the call.
    own: *mut c_void,
    deadline_ns: u64,
    time_left: unsafe extern "C" fn(*const Self) -> u64,
    kept: KeptBuffers,
}

#[repr(C)]
struct InputBuffer {
    data: *const c_void,
    size: u64,
}

#[repr(C)]
struct OutputBuffer {
    data: *mut c_void,
    capacity: u64,
    /// Bytes that the function has written.
    size: u64,
}

/// The buffers that the worker keeps for the function.
#[repr(C)]
struct KeptBuffers {
    first: *const InputBuffer,
    count: u64,
}

#[repr(C)]
struct ErrorText {
    data: *mut c_char,
    capacity: u64,
}

/// The output that a function asked for, beside the one that it was called with.
struct OwnOutput {
    is_guarded: bool,
    memory: Option<OutputMemory>,
}

enum OutputMemory {
    Plain(Vec<u8>),
    Guarded(GuardedMemory),
}

impl OwnOutput {
    /// Makes an output in place of the last one; `None` if there is no memory.
    fn allocate(&mut self, capacity: u64) -> Option<*mut u8> {
        let size = usize::try_from(capacity).ok()?;
        let (data, memory) = if self.is_guarded {
            let memory = GuardedMemory::new(size)?;
            (memory.data(), OutputMemory::Guarded(memory))
        } else {
            let mut memory = Vec::new();
            memory.try_reserve_exact(size).ok()?;
            memory.resize(size, 0);
            (memory.as_mut_ptr(), OutputMemory::Plain(memory))
        };
        self.memory = Some(memory);
        Some(data)
    }

    /// Returns how many bytes it holds; `None` if the function asked for none.
    fn capacity(&self) -> Option<usize> {
        Some(match self.memory.as_ref()? {
            OutputMemory::Plain(memory) => memory.len(),
            OutputMemory::Guarded(memory) => memory.bytes().len(),
        })
    }

    /// Returns what the function wrote to it.
    fn bytes<'py>(&self, py: Python<'py>, written: usize) -> Option<Bound<'py, PyByteArray>> {
        let bytes = match self.memory.as_ref()? {
            OutputMemory::Plain(memory) => memory,
            OutputMemory::Guarded(memory) => memory.bytes(),
        };
        Some(PyByteArray::new(py, bytes.get(..written)?))
    }
}

extern "C" fn is_cancelled(_: *const NativeCall) -> i32 {
    crate::interrupt::is_cancelled().into()
}

/// Returns the nanoseconds until the time of the task is over; `u64::MAX` if it has no limit. Any thread may ask.
///
/// # Safety
/// `call` is the one that the function was called with, which has not returned.
unsafe extern "C" fn time_left(call: *const NativeCall) -> u64 {
    // SAFETY: the caller guarantees it.
    match unsafe { (*call).deadline_ns } {
        u64::MAX => u64::MAX,
        deadline_ns => deadline_ns.saturating_sub(monotonic_ns()),
    }
}

/// Makes another output for a call.
///
/// # Safety
/// `call` is the one that the function was called with, which has not returned.
unsafe extern "C" fn allocate(call: *mut NativeCall, capacity: u64) -> *mut c_void {
    // SAFETY: `call_native_by_handle` made the call, and its `own` points to an `OwnOutput` that lives as long.
    let (call, own) = unsafe { (&mut *call, &mut *(*call).own.cast::<OwnOutput>()) };
    let Some(output) = own.allocate(capacity) else { return std::ptr::null_mut() };
    call.output.data = output.cast();
    call.output.capacity = capacity;
    call.output.data
}

/// The status that a function of `gristmill_call.h` returned, the number of bytes that it wrote, the output that it
/// asked for if it did, and the text of its error.
type Outcome<'py> = (i32, usize, Option<Bound<'py, PyByteArray>>, String);

/// Calls a function of the interface of `gristmill_call.h`. An output that it asks for lies before memory that cannot be
/// written if `guards` is true. `kept` are the buffers that the worker keeps for it.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "the memory of the call, piece by piece")]
pub fn call_native_by_handle<'py>(
    py: Python<'py>,
    address: usize,
    name: &str,
    input: &Bound<'py, PyAny>,
    output: &Bound<'py, PyAny>,
    kept: &Bound<'py, PyTuple>,
    guards: bool,
) -> PyResult<Outcome<'py>> {
    let input = PyUntypedBuffer::get(input)?;
    let output = PyUntypedBuffer::get(output)?;
    let (source, target) = (place_of(&input)?, output_place(&output)?);
    // The tuple keeps them alive.
    let kept = kept.iter().map(|one| Ok(buffer_of(one.cast::<PyBytes>()?.as_bytes())));
    let kept = kept.collect::<PyResult<Vec<InputBuffer>>>()?;
    let mut own = OwnOutput { is_guarded: guards, memory: None };
    let mut error = [0_u8; ERROR_SIZE];
    let mut call = NativeCall {
        size: size_of::<NativeCall>() as u64,
        input: InputBuffer { data: source.start, size: source.capacity as u64 },
        output: OutputBuffer { data: target.start, capacity: target.capacity as u64, size: 0 },
        error: ErrorText { data: error.as_mut_ptr().cast(), capacity: ERROR_SIZE as u64 },
        is_cancelled,
        allocate,
        own: (&raw mut own).cast(),
        deadline_ns: crate::interrupt::deadline_ns(),
        time_left,
        kept: KeptBuffers { first: kept.as_ptr(), count: kept.len() as u64 },
    };
    let call = &raw mut call;
    // SAFETY: the caller passes the address of a function of this interface. All that the call points to stays valid:
    // both buffers are held, and the rest is on this stack. What the function does with them is its author's promise; a
    // worker is a process of its own, so a broken one costs that worker.
    let (status, written) = unsafe {
        let function = std::mem::transmute::<*const c_void, CallFunction>(address as *const c_void);
        let unlocked = ffi::PyEval_SaveThread();
        let status = under_barrier(|| function(call));
        ffi::PyEval_RestoreThread(unlocked);
        (status, (*call).output.size)
    };
    let held = own.capacity().unwrap_or(target.capacity);
    let size = usize::try_from(written).unwrap_or(usize::MAX);
    if size > held {
        abort(name, written, held as u64);
    }
    error[ERROR_SIZE - 1] = 0;
    let end = error.iter().position(|&byte| byte == 0).unwrap_or(0);
    let text = String::from_utf8_lossy(&error[..end]).into_owned();
    Ok((status, size, own.bytes(py, size), text))
}

const fn buffer_of(bytes: &[u8]) -> InputBuffer {
    InputBuffer { data: bytes.as_ptr().cast(), size: bytes.len() as u64 }
}

/// The memory of an input or an output.
struct Place {
    start: *mut c_void,
    capacity: usize,
}

/// Returns the memory of a contiguous buffer.
fn place_of(buffer: &PyUntypedBuffer) -> PyResult<Place> {
    if !buffer.is_c_contiguous() {
        return Err(PyBufferError::new_err("the input is not a contiguous buffer"));
    }
    Ok(Place { start: buffer.buf_ptr(), capacity: buffer.len_bytes() })
}

/// Returns the memory of a contiguous buffer that can be written.
fn output_place(buffer: &PyUntypedBuffer) -> PyResult<Place> {
    if buffer.readonly() || !buffer.is_c_contiguous() {
        return Err(PyBufferError::new_err("the output is not a contiguous writable buffer"));
    }
    Ok(Place { start: buffer.buf_ptr(), capacity: buffer.len_bytes() })
}

fn no_memory(name: &str, capacity: usize) -> PyErr {
    PyMemoryError::new_err(format!("{name}: there is no memory for an output of {capacity} bytes"))
}

fn too_long(name: &str, size: usize) -> PyErr {
    PyValueError::new_err(format!(
        "{name}: the input has {size} bytes; functions of this interface take less than 4 GiB"
    ))
}

/// Calls the function without the interpreter's lock. The memory of both places stays valid meanwhile.
fn run(
    py: Python<'_>,
    address: usize,
    name: &str,
    (input, size): (&Place, u32),
    output: &Place,
) -> usize {
    let start = input.start as usize;
    let (end, capacity) = (output.start as usize, output.capacity);
    let written = py.detach(|| {
        // SAFETY: the caller passes the address of a function of this interface. Both memory areas stay valid during
        // the call: the buffers are held, and the mapping is owned by the caller. What the function does with them is
        // its author's promise; a worker is a process of its own, so a broken one costs that worker.
        unsafe {
            let function =
                std::mem::transmute::<*const c_void, BufferFunction>(address as *const c_void);
            under_barrier(|| function(start as *const c_void, size, end as *mut c_void))
        }
    }) as usize;
    if written > capacity {
        abort(name, written as u64, capacity as u64);
    }
    written
}

/// Ends the process: a function has written past its output.
#[cold]
fn abort(name: &str, written: u64, capacity: u64) -> ! {
    // The process ends in any case.
    let _ = writeln!(
        std::io::stderr(),
        "gristmill: {name} returned {written} bytes, but its output holds {capacity}: it has written past the end. Give \
         it a larger capacity"
    );
    std::process::abort()
}
