//! Native functions on structures that the test fills by itself, as `gristmill_call.h` declares them.

use std::ffi::{c_char, c_void};
use std::fmt;
use std::mem::offset_of;
use std::ptr;
use std::time::Duration;

use gristmill_function::{AllocateError, Call, ElementError, function};

/// The structure of the header, field by field.
#[repr(C)]
struct HeaderCall {
    size: u64,
    input: *const c_void,
    input_size: u64,
    output: *mut c_void,
    output_capacity: u64,
    output_size: u64,
    error: *mut c_char,
    error_capacity: u64,
    is_cancelled: unsafe extern "C" fn(*const HeaderCall) -> i32,
    allocate: unsafe extern "C" fn(*mut HeaderCall, u64) -> *mut c_void,
    caller: *mut c_void,
    deadline: u64,
    time_left: unsafe extern "C" fn(*const HeaderCall) -> u64,
    kept: *const HeaderBuffer,
    kept_count: u64,
}

#[repr(C)]
struct HeaderBuffer {
    data: *const c_void,
    size: u64,
}

/// A function of the interface.
type CallFunction = unsafe extern "C" fn(*mut HeaderCall) -> i32;

/// Bytes that begin at a multiple of 8.
#[repr(C, align(8))]
struct Aligned([u8; 64]);

/// The caller of a function: its memory, and how it answers.
struct Caller {
    input: Vec<u8>,
    output: Aligned,
    capacity: usize,
    error: Vec<u8>,
    allocated: Vec<Vec<u64>>,
    kept: Vec<Vec<u64>>,
    /// Bytes of the structure.
    size: usize,
    left_ns: u64,
}

/// The status, the output and the text of an error.
type Answer = (i32, Vec<u8>, String);

impl Caller {
    fn new(input: &[u8], capacity: usize) -> Self {
        Self {
            input: input.to_vec(),
            output: Aligned([0; 64]),
            capacity,
            error: vec![b'?'; 1024],
            allocated: Vec::new(),
            kept: Vec::new(),
            size: size_of::<HeaderCall>(),
            left_ns: u64::MAX,
        }
    }

    fn call(&mut self, function: CallFunction) -> Answer {
        // At an address of numbers, and one item more, so that it does not end with the input.
        let mut input = vec![0_u64; self.input.len() / 8 + 1];
        for (item, bytes) in input.iter_mut().zip(self.input.chunks(8)) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            *item = u64::from_ne_bytes(whole);
        }
        self.call_at(function, input.as_ptr().cast())
    }

    /// Calls a function whose input is at this address.
    fn call_at(&mut self, function: CallFunction, input: *const c_void) -> Answer {
        let output = (&raw mut self.output).cast();
        self.call_between(function, input, output)
    }

    /// Calls a function whose input and output are at these addresses.
    fn call_between(
        &mut self,
        function: CallFunction,
        input: *const c_void,
        output: *mut c_void,
    ) -> Answer {
        let buffer_of = |kept: &Vec<u64>| HeaderBuffer {
            data: kept.as_ptr().cast(),
            size: kept.len() as u64 * 8,
        };
        let kept: Vec<_> = self.kept.iter().map(buffer_of).collect();
        let whole = HeaderCall {
            size: self.size as u64,
            input,
            input_size: self.input.len() as u64,
            output,
            output_capacity: self.capacity as u64,
            output_size: 0,
            error: self.error.as_mut_ptr().cast(),
            error_capacity: self.error.len() as u64,
            is_cancelled,
            allocate,
            caller: ptr::from_mut(self).cast(),
            deadline: u64::MAX,
            time_left,
            kept: kept.as_ptr(),
            kept_count: kept.len() as u64,
        };
        // An older structure ends earlier, and so does its memory.
        let mut memory = vec![0_u64; self.size / 8];
        let call: *mut HeaderCall = memory.as_mut_ptr().cast();
        // SAFETY: both have as many bytes, the structure has no padding, and all of it that the size includes is filled.
        let (status, output, size) = unsafe {
            ptr::copy_nonoverlapping(
                (&raw const whole).cast::<u64>(),
                memory.as_mut_ptr(),
                memory.len(),
            );
            let status = function(call);
            if self.size < offset_of!(HeaderCall, deadline) {
                return (status, Vec::new(), String::new());
            }
            (status, (*call).output.cast::<u8>(), (*call).output_size)
        };
        let size = usize::try_from(size).expect("a size");
        // SAFETY: the function has written as many bytes of the output.
        let written = (0..size).map(|index| unsafe { *output.add(index) }).collect();
        let end = self.error.iter().position(|&byte| byte == 0);
        let text = end.map_or("no text", |end| str::from_utf8(&self.error[..end]).expect("UTF-8"));
        (status, written, text.to_owned())
    }
}

/// Says that a task is cancelled when it has half a second left.
unsafe extern "C" fn is_cancelled(call: *const HeaderCall) -> i32 {
    // SAFETY: the caller of the function has made the call.
    i32::from(unsafe { (*(*call).caller.cast::<Caller>()).left_ns } == 500_000_000)
}

unsafe extern "C" fn time_left(call: *const HeaderCall) -> u64 {
    // SAFETY: the caller of the function has made the call.
    unsafe { (*(*call).caller.cast::<Caller>()).left_ns }
}

/// Has memory for 1,000 bytes.
unsafe extern "C" fn allocate(call: *mut HeaderCall, capacity: u64) -> *mut c_void {
    if capacity > 1000 {
        return ptr::null_mut();
    }
    let size = usize::try_from(capacity).expect("a size");
    let mut memory = vec![0_u64; size / 8 + 1];
    // SAFETY: the caller of the function has made the call.
    unsafe {
        (*call).output = memory.as_mut_ptr().cast();
        (*call).output_capacity = capacity;
        (*(*call).caller.cast::<Caller>()).allocated.push(memory);
        (*call).output
    }
}

/// Exported symbols of the functions below, as a caller finds them.
mod symbols {
    use super::HeaderCall;

    unsafe extern "C" {
        pub(super) fn test_halved(call: *mut HeaderCall) -> i32;
        pub(super) fn test_counted(call: *mut HeaderCall) -> i32;
        pub(super) fn test_greedy(call: *mut HeaderCall) -> i32;
        pub(super) fn test_written(call: *mut HeaderCall) -> i32;
        pub(super) fn test_shortened(call: *mut HeaderCall) -> i32;
        pub(super) fn test_oversized(call: *mut HeaderCall) -> i32;
        pub(super) fn test_failing(call: *mut HeaderCall) -> i32;
        pub(super) fn test_panicking(call: *mut HeaderCall) -> i32;
        pub(super) fn test_mute(call: *mut HeaderCall) -> i32;
        pub(super) fn test_task(call: *mut HeaderCall) -> i32;
        pub(super) fn test_joined(call: *mut HeaderCall) -> i32;
    }
}

#[function]
fn test_halved(input: &[f64], output: &mut [f64]) -> usize {
    for (half, whole) in output.iter_mut().zip(input) {
        *half = whole / 2.0;
    }
    input.len()
}

#[function]
fn test_counted(input: &[u8], output: &mut [u32]) -> Result<usize, fmt::Error> {
    let Some(first) = output.first_mut() else { return Ok(0) };
    *first = u32::try_from(input.len()).map_err(|_| fmt::Error)?;
    Ok(1)
}

#[function]
fn test_greedy(_: &[u8], output: &mut [u16]) -> usize {
    output.len() + 1
}

/// Writes the input three times, by way of what it has been given if that is enough.
#[function]
fn test_written(call: &mut Call) -> Result<(), AllocateError> {
    call.write(&call.input().repeat(3))
}

/// Allocates twice, and makes the output shorter.
#[function]
fn test_shortened(call: &mut Call<'_>) -> Result<(), Box<dyn std::error::Error>> {
    call.allocate(100)?.fill(1);
    let output = call.allocate(16)?;
    assert_eq!(output, [0; 16]);
    call.output_of::<u64>()?.copy_from_slice(&[7, 8]);
    call.set_size(8);
    assert_eq!(call.allocate(2000), Err(AllocateError { size: 2000 }));
    Ok(())
}

#[function]
fn test_oversized(call: &mut Call) {
    call.set_size(call.input().len() + 1);
}

/// Fails with the input as text.
#[function]
fn test_failing(call: &mut Call) -> Result<(), String> {
    Err(String::from_utf8_lossy(call.input()).into_owned())
}

#[function]
fn test_panicking(input: &[u8], _: &mut [u8]) -> usize {
    usize::from(input[input.len()])
}

/// Panics with a value that is no text.
#[function]
fn test_mute(_: &mut Call) {
    std::panic::panic_any(7);
}

/// Writes the time left, whether the task is cancelled, and how many buffers are kept.
#[function]
fn test_task(call: &mut Call) -> Result<(), AllocateError> {
    let text = format!("{:?} {} {}", call.time_left(), call.is_cancelled(), call.kept_count());
    call.write(text.as_bytes())
}

/// Writes the numbers of two kept buffers, one as bytes and one as numbers.
#[function]
fn test_joined(call: &mut Call) -> Result<(), Box<dyn std::error::Error>> {
    let (first, second) = (call.kept(0), call.kept_of::<u64>(1)?);
    call.allocate(first.len() + 8 * second.len())?;
    call.output()[..first.len()].copy_from_slice(first);
    call.output_of::<u64>()?[first.len() / 8..].copy_from_slice(second);
    Ok(())
}

fn bytes<const SIZE: usize>(numbers: [f64; SIZE]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
}

#[test]
fn slices_are_the_items_of_the_buffers() {
    let (status, output, _) = Caller::new(&bytes([3.0, 5.0]), 16).call(symbols::test_halved);
    assert_eq!((status, output), (0, bytes([1.5, 2.5])));
    let (status, output, _) = Caller::new(b"abc", 7).call(symbols::test_counted);
    assert_eq!((status, output), (0, 3_u32.to_ne_bytes().to_vec()), "7 bytes have room for one");
}

#[test]
fn empty_buffers_may_have_no_address() {
    let null: *mut c_void = ptr::null_mut();
    let mut caller = Caller::new(b"", 0);
    let nothing = (0, Vec::new(), "no text".to_owned());
    for function in [symbols::test_halved, symbols::test_counted, symbols::test_written] {
        assert_eq!(caller.call_between(function, null, null), nothing);
    }
    let odd: *mut c_void = ptr::without_provenance_mut(1);
    assert_eq!(caller.call_between(symbols::test_halved, odd, odd), nothing);
}

#[test]
fn an_input_without_whole_items_is_an_error() {
    let (status, _, text) = Caller::new(b"nine byte", 16).call(symbols::test_halved);
    assert_eq!(status, 1);
    assert_eq!(text, "the input has 9 bytes, which is no whole number of items of type f64");
}

#[test]
fn buffers_at_wrong_addresses_are_errors() {
    let memory = Aligned([0; 64]);
    let odd: *const c_void = memory.0[1..].as_ptr().cast();
    let (status, _, text) = Caller::new(&[0; 16], 16).call_at(symbols::test_halved, odd);
    assert_eq!(status, 1);
    assert_eq!(
        text,
        "the input begins at an address that is no multiple of 8, as items of type f64 need it"
    );
    let (mut input, mut output) = (Aligned([0; 64]), Aligned([0; 64]));
    let (input, odd) = ((&raw mut input).cast_const().cast(), output.0[1..].as_mut_ptr().cast());
    let (status, _, text) =
        Caller::new(&[0; 16], 16).call_between(symbols::test_halved, input, odd);
    assert_eq!(status, 1);
    assert!(text.starts_with("the output begins at an address"), "{text}");
}

#[test]
fn more_items_than_the_output_holds_are_an_error() {
    let (status, output, text) = Caller::new(b"", 5).call(symbols::test_greedy);
    assert_eq!((status, output.len()), (1, 0));
    assert_eq!(text, "it returned 3 items, but its output holds 2");
    let (status, output, text) = Caller::new(b"ab", 2).call(symbols::test_oversized);
    assert_eq!((status, output.len()), (2, 0));
    assert_eq!(text, "panicked: an output of 3 bytes does not fit into 2");
}

#[test]
fn an_output_of_another_size_is_allocated() {
    let mut caller = Caller::new(b"ab", 6);
    assert_eq!(caller.call(symbols::test_written).1, b"ababab");
    assert!(caller.allocated.is_empty(), "it fits");
    let mut caller = Caller::new(b"ab", 5);
    assert_eq!(caller.call(symbols::test_written).1, b"ababab");
    assert_eq!(caller.allocated.len(), 1);
    let (status, _, text) = Caller::new(&[0; 400], 0).call(symbols::test_written);
    assert_eq!((status, &*text), (1, "there is no memory for an output of 1200 bytes"));
    let (status, output, text) = Caller::new(b"", 0).call(symbols::test_shortened);
    assert_eq!((status, output), (0, 7_u64.to_ne_bytes().to_vec()), "{text}");
}

#[test]
fn the_text_of_an_error_ends_at_a_letter_where_the_room_ends() {
    let failed = |room, text: &str| {
        let mut caller = Caller::new(text.as_bytes(), 0);
        caller.error = vec![b'?'; room];
        caller.call(symbols::test_failing)
    };
    let cut = [(9, "größer"), (8, "größe"), (6, "grö"), (5, "grö"), (4, "gr"), (1, "")];
    for (room, said) in cut {
        assert_eq!(failed(room, "größer"), (1, Vec::new(), said.to_owned()), "room for {room}");
    }
    assert_eq!(failed(0, "größer"), (1, Vec::new(), "no text".to_owned()));
}

#[test]
fn a_panic_is_an_error_with_its_text() {
    let (status, _, text) = Caller::new(b"abc", 3).call(symbols::test_panicking);
    assert_eq!(status, 2);
    assert_eq!(text, "panicked: index out of bounds: the len is 3 but the index is 3");
    let (status, _, text) = Caller::new(b"", 0).call(symbols::test_mute);
    assert_eq!((status, &*text), (2, "panicked: its value is no text"));
    let (status, _, text) = Caller::new(b"", 0).call(symbols::test_joined);
    let said = "panicked: kept buffer 0 was asked for, but the function has 0";
    assert_eq!((status, &*text), (2, said));
}

#[test]
fn a_function_knows_the_state_of_its_task() {
    let state = |left_ns| {
        let mut caller = Caller::new(b"", 64);
        caller.left_ns = left_ns;
        String::from_utf8(caller.call(symbols::test_task).1).expect("text")
    };
    assert_eq!(state(u64::MAX), "None false 0");
    assert_eq!(state(500_000_000), format!("{:?} true 0", Some(Duration::from_millis(500))));
    assert_eq!(state(0), format!("{:?} false 0", Some(Duration::ZERO)));
}

#[test]
fn kept_buffers_are_bytes_or_items() {
    let mut caller = Caller::new(b"", 0);
    caller.kept = vec![vec![1, 2], vec![3]];
    let (status, output, text) = caller.call(symbols::test_joined);
    let joined: Vec<u8> = [1_u64, 2, 3].iter().flat_map(|one| one.to_ne_bytes()).collect();
    assert_eq!((status, output), (0, joined), "{text}");
}

#[test]
fn the_structure_of_an_older_header_lacks_what_came_later() {
    for (size, said) in [
        (offset_of!(HeaderCall, deadline), "None false 0"),
        (offset_of!(HeaderCall, kept), "Some(7ns) false 0"),
        (size_of::<HeaderCall>(), "Some(7ns) false 1"),
    ] {
        let mut caller = Caller::new(b"", 64);
        (caller.size, caller.left_ns, caller.kept) = (size, 7, vec![vec![1]]);
        let (status, output, _) = caller.call(symbols::test_task);
        assert_eq!((status, &*output), (0, said.as_bytes()), "{size} bytes");
    }
}

#[test]
fn what_is_no_call_fails() {
    let mut caller = Caller::new(b"", 64);
    caller.size = offset_of!(HeaderCall, output);
    assert_eq!(caller.call(symbols::test_task).0, 1);
    // SAFETY: a null pointer is no call.
    assert_eq!(unsafe { symbols::test_task(ptr::null_mut()) }, 1);
}

#[test]
fn errors_say_which_buffer_they_are_about() {
    let error = ElementError::NotWhole { buffer: "kept buffer", size: 3, element: "u16" };
    assert!(error.to_string().starts_with("the kept buffer has 3 bytes"));
}
