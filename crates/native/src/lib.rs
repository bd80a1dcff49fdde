//! `gristmill._native`: the client's and the worker's side of Python.
//!
//! Guarantees: no Rust panic unwinds into the interpreter; no Python code runs while the client's mutex is held. The
//! few functions that run for every task call CPython directly; everything else is ordinary PyO3.

mod arena;
mod attached;
mod buffer_view;
mod callee;
mod codec;
mod collector;
mod direct_call;
mod double_fork;
mod engine;
mod error;
mod forked;
mod function;
mod future;
mod guarded_memory;
mod huge_pages;
mod image;
mod interrupt;
mod job_signals;
mod journal;
mod known_functions;
mod lent;
mod loading;
mod machine;
mod made_once;
mod native_call;
mod nested;
mod nodes;
mod object;
mod output;
mod parents;
mod raw;
mod replay;
mod serve;
mod setup_timer;
mod stager;
mod throw_barrier;
mod undisturbed;
mod zygote;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::type_object::PyTypeInfo;
use pyo3::types::PyDict;

use engine::{AppFastPath, BoundEngine, ContextUse, Engine, ForeignFutureError, MapResults};

/// Returns a dict that describes the build of the module.
#[pyfunction]
fn build_info(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let info = PyDict::new(py);
    info.set_item("profile", env!("GRISTMILL_PROFILE"))?;
    info.set_item("version", env!("CARGO_PKG_VERSION"))?;
    info.set_item("wire_version", gristmill_wire::WIRE_VERSION)?;
    Ok(info)
}

/// Panics. A packager's test calls it to check that the report of a panic names its line.
#[pyfunction]
fn panic_on_purpose() {
    panic!("on purpose");
}

/// Returns an attribute that is not in the module's dict: `Future`, which is made on demand.
#[pyfunction]
#[pyo3(name = "__getattr__")]
fn find_attribute<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    if name == "Future" {
        return future::future_type(py);
    }
    let text = format!("module 'gristmill._native' has no attribute '{name}'");
    Err(pyo3::exceptions::PyAttributeError::new_err(text))
}

/// Adds to a class a method that CPython calls with an array of arguments (`METH_FASTCALL`).
fn add_fast_method<T: PyTypeInfo>(
    py: Python<'_>,
    name: &'static std::ffi::CStr,
    body: raw::FastMethod,
    doc: &'static std::ffi::CStr,
) -> PyResult<()> {
    let class = T::type_object(py);
    let definition = Box::leak(Box::new(raw::method(name, body, doc)));
    // SAFETY: the definition is never freed; the returned descriptor is a new reference.
    let method = unsafe {
        let method = ffi::PyDescr_NewMethod(class.as_type_ptr(), definition);
        Bound::from_owned_ptr_or_err(py, method)?
    };
    class.setattr(name, method)
}

// This module relies on the interpreter's lock: a free-threaded build turns the lock on.
#[pymodule(gil_used = true)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    gristmill_sync::clock::start();
    gristmill_sync::process::watch_forks();
    add_constants(module)?;
    module.add_class::<arena::ArenaMemory>()?;
    module.add_class::<guarded_memory::GuardedMemory>()?;
    module.add_class::<Engine>()?;
    module.add_class::<BoundEngine>()?;
    module.add_class::<ContextUse>()?;
    module.add_class::<AppFastPath>()?;
    module.add_class::<future::Ledger>()?;
    let foreign = py.get_type::<ForeignFutureError>();
    foreign.setattr("code", "foreign_future")?;
    module.add("ForeignFutureError", foreign)?;
    module.add_class::<MapResults>()?;
    module.add_class::<nodes::Fleet>()?;
    module.add_class::<stager::BroughtFile>()?;
    module.add_function(wrap_pyfunction!(nodes::run_agent, module)?)?;
    module.add_class::<setup_timer::SetupTimer>()?;
    module.add_class::<zygote::PyZygote>()?;
    image::add_to(module)?;
    module.add_class::<journal::PyJournal>()?;
    replay::add_to(module)?;
    module.add_class::<journal::JournalEntries>()?;
    const SUBMIT_DOC: &std::ffi::CStr =
        c"submit($self, fn, /, *args, **kwargs)\n--\n\nRuns fn(*args, **kwargs) in a worker; returns its future.";
    add_fast_method::<Engine>(py, c"submit", engine::submit_method, SUBMIT_DOC)?;
    add_fast_method::<BoundEngine>(py, c"submit", engine::submit_with_options, SUBMIT_DOC)?;
    const APP_DOC: &std::ffi::CStr = c"submit($self, app, function, arguments, keywords, ledger, /)\n--\n\nRuns function(*arguments, **keywords) in a worker for `app`; returns its app future.";
    add_fast_method::<AppFastPath>(py, c"submit", engine::submit_app, APP_DOC)?;
    // Unlike the other names, this one is not added to `__all__`.
    module.setattr("__getattr__", wrap_pyfunction!(find_attribute, module)?)?;
    module.index()?.append("Future")?;
    module.add_function(wrap_pyfunction!(build_info, module)?)?;
    module.add_function(wrap_pyfunction!(panic_on_purpose, module)?)?;
    module.add_function(wrap_pyfunction!(collector::hide_from_collector, module)?)?;
    module.add_function(wrap_pyfunction!(collector::show_to_collector, module)?)?;
    machine::add_to(module)?;
    module.add_function(wrap_pyfunction!(engine::spill_place, module)?)?;
    module.add_function(wrap_pyfunction!(engine::wait_any, module)?)?;
    module.add_function(wrap_pyfunction!(future::make_app_future_type, module)?)?;
    module.add_function(wrap_pyfunction!(engine::abort_all, module)?)?;
    module.add_function(wrap_pyfunction!(engine::finish_all, module)?)?;
    module.add_function(wrap_pyfunction!(serve::become_a_worker, module)?)?;
    job_signals::add_to(module)?;
    output::add_to(module)?;
    module.add_function(wrap_pyfunction!(serve::serve, module)?)?;
    module.add_function(wrap_pyfunction!(interrupt::is_interrupted, module)?)?;
    module.add_function(wrap_pyfunction!(serve::tell_left, module)?)?;
    module.add_function(wrap_pyfunction!(forked::generation, module)?)?;
    module.add_function(wrap_pyfunction!(forked::notices_clone, module)?)?;
    add_loading(module)?;
    module.add_function(wrap_pyfunction!(lent::return_lent, module)?)?;
    module.add_function(wrap_pyfunction!(function::modules_changed, module)?)?;
    add_nested(module)?;
    native_call::add_to(module)?;
    // Only the tests of the codec call these functions.
    for probe in [
        wrap_pyfunction!(codec::encode_payload, module)?,
        wrap_pyfunction!(codec::decode_payload, module)?,
        wrap_pyfunction!(codec::call_payload, module)?,
    ] {
        module.add_function(probe)?;
    }
    Ok(())
}

/// Adds numbers that the Python side shares with the client, the keeper and the arena.
fn add_constants(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("INTERRUPT_SIGNAL", gristmill_client::INTERRUPT_SIGNAL)?;
    module.add("THREADED_EXIT_CODE", gristmill_client::THREADED_EXIT_CODE)?;
    module.add("SETUP_ALARM", gristmill_client::SETUP_ALARM)?;
    module.add("SETUP_EXIT_CODE", gristmill_client::SETUP_EXIT_CODE)?;
    module.add("BLOCK_MIN", gristmill_shm::BLOCK_MIN)
}

/// Adds the functions that note what a worker is loading.
fn add_loading(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(loading::is_loading, module)?)?;
    module.add_function(wrap_pyfunction!(loading::loading_begin, module)?)?;
    module.add_function(wrap_pyfunction!(loading::loading_goes_on, module)?)?;
    module.add_function(wrap_pyfunction!(loading::loading_end, module)?)?;
    module.add_function(wrap_pyfunction!(loading::loading_interrupted, module)?)?;
    Ok(())
}

/// Adds the classes and functions that tasks need to submit tasks.
fn add_nested(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<nested::Ticket>()?;
    module.add_class::<nested::NestedContext>()?;
    module.add_class::<nested::NestedTerms>()?;
    module.add_function(wrap_pyfunction!(nested::nested_check, module)?)?;
    module.add_function(wrap_pyfunction!(nested::nested_submit, module)?)?;
    module.add_function(wrap_pyfunction!(nested::nested_size, module)?)?;
    module.add_function(wrap_pyfunction!(engine::map_bytes_max, module)?)?;
    module.add_function(wrap_pyfunction!(nested::nested_define_context, module)?)?;
    module.add_function(wrap_pyfunction!(nested::nested_result, module)?)?;
    module.add_function(wrap_pyfunction!(nested::nested_exception, module)?)?;
    module.add_function(wrap_pyfunction!(nested::nested_state, module)?)?;
    module.add_function(wrap_pyfunction!(nested::nested_cancel, module)?)?;
    module.add_function(wrap_pyfunction!(nested::nested_watch, module)?)?;
    module.add_function(wrap_pyfunction!(nested::nested_wait, module)?)?;
    Ok(())
}
