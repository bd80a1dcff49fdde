//! Signals that every process of a job gets, for `gristmill._job_signals`; the names of signals.

use std::os::raw::c_int;

use gristmill_sync::job_signals;
use pyo3::prelude::*;

/// Adds the functions of this file.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(all_job_signals, module)?)?;
    module.add_function(wrap_pyfunction!(handled_signals, module)?)?;
    module.add_function(wrap_pyfunction!(note_handled_signals, module)?)?;
    module.add_function(wrap_pyfunction!(leave_signals_to_program, module)?)?;
    module.add_function(wrap_pyfunction!(leave_signal_again, module)?)?;
    module.add_function(wrap_pyfunction!(signal_name, module)?)
}

/// Returns the numbers of the signals that workers leave to the program.
#[pyfunction(name = "job_signals")]
fn all_job_signals() -> Vec<c_int> {
    job_signals::all().collect()
}

/// Returns the signals that this process catches or ignores, or that this thread blocks, one bit each.
#[pyfunction]
fn handled_signals() -> u64 {
    job_signals::handled_here()
}

/// Notes the signals that the program handled when it described its workers.
#[pyfunction]
fn note_handled_signals(signals: u64) {
    job_signals::note_handled(signals);
}

/// Makes this process leave the signals of its job to the program that started this keeper; without a keeper, to the
/// program of the process that this one was forked from.
#[pyfunction]
#[pyo3(signature = (keeper=None))]
fn leave_signals_to_program(keeper: Option<i32>) {
    match keeper {
        Some(keeper) => gristmill_keeper::leave_signals_to_program(keeper),
        None => job_signals::leave_to_program(None),
    }
}

/// Leaves a signal to the program again, after user code has restored its default action.
#[pyfunction]
fn leave_signal_again(number: c_int) {
    job_signals::leave_again(number);
}

/// Returns the name of a signal. Each number has one.
#[pyfunction]
fn signal_name(number: c_int) -> String {
    gristmill_keeper::signal_name(number).into_owned()
}
