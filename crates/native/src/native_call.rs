//! Native functions: the tables of their libraries, and calls on buffers, without the interpreter's lock.

use std::ffi::{c_char, c_void};
use std::io::Write as _;

use gristmill_library::SharedLibrary;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyMemoryError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes};

/// A function of the interface that rFaaS has: it reads `size` bytes of the input, and returns how many it wrote.
type BufferFunction =
    unsafe extern "C" fn(input: *const c_void, size: u32, output: *mut c_void) -> u32;

/// The name, exported functions, exported variables and needed libraries of a shared library.
type Tables = (Option<String>, Vec<String>, Vec<String>, Vec<String>);

/// Adds the functions of this file to the module.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    for function in [
        wrap_pyfunction!(library_tables, module)?,
        wrap_pyfunction!(call_native, module)?,
        wrap_pyfunction!(call_native_bytes, module)?,
        wrap_pyfunction!(call_native_guarded, module)?,
        wrap_pyfunction!(call_native_whole, module)?,
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
    if output.readonly() || !output.is_c_contiguous() {
        return Err(PyBufferError::new_err("the output is not a contiguous writable buffer"));
    }
    let place = Place { start: output.buf_ptr(), capacity: output.len_bytes() };
    try_run(py, address, name, &place_of(&input)?, &place)
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
    reserved.map_err(|_| PyMemoryError::new_err("there is no memory for an output"))?;
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

/// Works as [`call_native`], with an output that ends where memory begins that cannot be written: a function that writes
/// past its output dies there, instead of damaging the process. Returns what it wrote.
#[pyfunction]
pub fn call_native_guarded<'py>(
    py: Python<'py>,
    address: usize,
    name: &str,
    input: &Bound<'py, PyAny>,
    capacity: usize,
) -> PyResult<Bound<'py, PyBytes>> {
    let input = PyUntypedBuffer::get(input)?;
    let output = GuardedMemory::new(capacity)
        .ok_or_else(|| PyMemoryError::new_err("there is no memory for a guarded output"))?;
    let place = Place { start: output.data.cast(), capacity };
    let written = try_run(py, address, name, &place_of(&input)?, &place)?;
    // SAFETY: the mapping has `capacity` initialized bytes at `data`, of which `written` are no more; no thread of this
    // module writes to it now.
    let bytes = unsafe { std::slice::from_raw_parts(output.data, written) };
    Ok(PyBytes::new(py, bytes))
}

/// Bytes for the text of an error.
const ERROR_SIZE: usize = 1024;

/// A function of the interface of `gristmill_call.h`.
type CallFunction = unsafe extern "C" fn(call: *mut NativeCall) -> i32;

/// A call, as `gristmill_call.h` declares it.
#[repr(C)]
struct NativeCall {
    size: u64,
    input: *const c_void,
    input_size: u64,
    output: *mut c_void,
    output_capacity: u64,
    output_size: u64,
    error: *mut c_char,
    error_capacity: u64,
    is_cancelled: extern "C" fn(*const Self) -> i32,
    allocate: unsafe extern "C" fn(*mut Self, u64) -> *mut c_void,
    /// The `Vec` with the output that `allocate` made.
    allocated: *mut c_void,
}

extern "C" fn is_cancelled(_: *const NativeCall) -> i32 {
    crate::interrupt::is_cancelled().into()
}

/// Makes another output for a call.
///
/// # Safety
/// `call` is the one that the function was called with, which has not returned.
unsafe extern "C" fn allocate(call: *mut NativeCall, capacity: u64) -> *mut c_void {
    // SAFETY: `call_native_whole` made the call, and its `allocated` points to a `Vec` that lives as long.
    let (call, memory) = unsafe { (&mut *call, &mut *(*call).allocated.cast::<Vec<u8>>()) };
    let mut made = Vec::new();
    let Ok(size) = usize::try_from(capacity) else { return std::ptr::null_mut() };
    if made.try_reserve_exact(size).is_err() {
        return std::ptr::null_mut();
    }
    made.resize(size, 0);
    *memory = made;
    call.output = memory.as_mut_ptr().cast();
    call.output_capacity = capacity;
    call.output
}

/// Calls a function of the interface of `gristmill_call.h`. Returns its status, its output, and the text of its error.
#[pyfunction]
pub fn call_native_whole<'py>(
    py: Python<'py>,
    address: usize,
    name: &str,
    input: &Bound<'py, PyAny>,
    capacity: usize,
) -> PyResult<(i32, Bound<'py, PyByteArray>, String)> {
    let input = PyUntypedBuffer::get(input)?;
    let source = place_of(&input)?;
    let output = PyByteArray::new_with(py, capacity, |_| Ok(()))?;
    let mut allocated: Vec<u8> = Vec::new();
    let mut error = [0_u8; ERROR_SIZE];
    let first = output.data().cast::<c_void>();
    let mut call = NativeCall {
        size: size_of::<NativeCall>() as u64,
        input: source.start,
        input_size: source.capacity as u64,
        output: first,
        output_capacity: capacity as u64,
        output_size: 0,
        error: error.as_mut_ptr().cast(),
        error_capacity: ERROR_SIZE as u64,
        is_cancelled,
        allocate,
        allocated: (&raw mut allocated).cast(),
    };
    let call = &raw mut call;
    // SAFETY: the caller passes the address of a function of this interface. All that the call points to stays valid:
    // the input is held, no other code knows the output, and the rest is on this stack. What the function does with it
    // is its author's promise; a worker is a process of its own, so a broken one costs that worker.
    let (status, written, output_at) = unsafe {
        let function = std::mem::transmute::<*const c_void, CallFunction>(address as *const c_void);
        let unlocked = ffi::PyEval_SaveThread();
        let status = function(call);
        ffi::PyEval_RestoreThread(unlocked);
        (status, (*call).output_size, (*call).output)
    };
    let held = if output_at == first { capacity } else { allocated.len() };
    let size = usize::try_from(written).unwrap_or(usize::MAX);
    if size > held {
        abort(name, written, held as u64);
    }
    error[ERROR_SIZE - 1] = 0;
    let end = error.iter().position(|&byte| byte == 0).unwrap_or(0);
    let text = String::from_utf8_lossy(&error[..end]).into_owned();
    if output_at != first {
        return Ok((status, PyByteArray::new(py, &allocated[..size]), text));
    }
    output.resize(size)?;
    Ok((status, output, text))
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

fn too_long(name: &str, size: usize) -> PyErr {
    PyValueError::new_err(format!(
        "{name}: the input has {size} bytes; functions of this interface take less than 4 GiB"
    ))
}

/// Works as [`run`], for an input whose size is not known to fit.
fn try_run(
    py: Python<'_>,
    address: usize,
    name: &str,
    input: &Place,
    output: &Place,
) -> PyResult<usize> {
    let size = u32::try_from(input.capacity).map_err(|_| too_long(name, input.capacity))?;
    Ok(run(py, address, name, (input, size), output))
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
            function(start as *const c_void, size, end as *mut c_void)
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

/// Memory that ends where a page begins that cannot be read or written.
struct GuardedMemory {
    base: *mut c_void,
    /// Bytes of the mapping, with the page.
    size: usize,
    data: *mut u8,
}

impl GuardedMemory {
    fn new(capacity: usize) -> Option<Self> {
        // SAFETY: it has no preconditions.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()?;
        let writable = capacity.checked_next_multiple_of(page)?;
        let size = writable.checked_add(page)?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: an anonymous mapping at a place of the kernel's choice touches nothing that exists.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), size, access, kind, -1, 0) };
        if base == libc::MAP_FAILED {
            return None;
        }
        // SAFETY: `writable` and `writable - capacity` are less than the size of the mapping.
        let (guard, data) =
            unsafe { (base.byte_add(writable), base.byte_add(writable - capacity)) };
        let memory = Self { base, size, data: data.cast() };
        // SAFETY: the page belongs to the mapping, which nothing else uses yet.
        let is_guarded = unsafe { libc::mprotect(guard, page, libc::PROT_NONE) } == 0;
        is_guarded.then_some(memory)
    }
}

impl Drop for GuardedMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and nothing points to it any more.
        unsafe { libc::munmap(self.base, self.size) };
    }
}
