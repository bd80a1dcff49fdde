//! A library of native functions, which `tests/test_native_rust.py` calls.
#![forbid(unsafe_code)]

use std::error::Error;
use std::thread;
use std::time::Duration;

use gristmill_function::{AllocateError, Call, function};

/// Writes the mean of each number and the next one.
#[function]
fn means(input: &[f64], output: &mut [f64]) -> usize {
    let pairs = input.windows(2);
    let count = pairs.len();
    for (mean, pair) in output.iter_mut().zip(pairs) {
        *mean = (pair[0] + pair[1]) / 2.0;
    }
    count
}

/// Writes the numbers of a text, each in eight bytes.
#[function]
fn parsed(call: &mut Call) -> Result<(), Box<dyn Error>> {
    let text = str::from_utf8(call.input())?;
    let numbers: Result<Vec<f64>, _> = text.split_whitespace().map(str::parse).collect();
    Ok(call.write(&numbers?)?)
}

/// Writes the byte at the place that the first one names.
#[function]
fn picked(input: &[u8], output: &mut [u8]) -> usize {
    output[0] = input[usize::from(input[0])];
    1
}

/// Runs until its task is cancelled.
#[function]
fn patient(call: &mut Call) -> Result<(), &'static str> {
    while !call.is_cancelled() {
        thread::sleep(Duration::from_micros(100));
    }
    Err("it was told to stop")
}

/// Writes whether its task has a time limit, and the kept buffers after each other.
#[function]
fn state(call: &mut Call) -> Result<(), AllocateError> {
    let mut found = vec![u8::from(call.time_left().is_some())];
    for index in 0..call.kept_count() {
        found.extend(call.kept(index));
    }
    call.write(&found)
}

/// Says that it wrote more than there is room for.
#[function]
fn greedy(_: &[u8], output: &mut [u8]) -> usize {
    output.len() + 1
}
