//! `gristmill._native`: the client's and the worker's side of Python.
//!
//! Guarantees: no Rust panic unwinds into the interpreter; no Python code runs while the client's mutex is held. The few
//! entry points that every task passes speak to CPython directly; everything else is ordinary PyO3.

mod arena;
mod callee;
mod codec;
mod collector;
mod double_fork;
mod engine;
mod error;
mod fork;
mod function;
mod future;
mod huge_pages;
mod image;
mod journal;
mod nested;
mod nodes;
mod object;
mod parents;
mod raw;
mod replay;
mod serve;
mod setup_timer;
mod steward;
mod zygote;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::type_object::PyTypeInfo;
use pyo3::types::PyDict;

use engine::{AppLane, ContextUse, Engine, ForeignFuture, MapResults, Options};

/// How the module was built.
#[pyfunction]
fn build_info(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let info = PyDict::new(py);
    info.set_item("profile", env!("GRISTMILL_PROFILE"))?;
    info.set_item("version", env!("CARGO_PKG_VERSION"))?;
    info.set_item("wire_version", gristmill_wire::WIRE_VERSION)?;
    Ok(info)
}

/// What the module has besides its dict: `Future`, which is made on demand.
#[pyfunction]
#[pyo3(name = "__getattr__")]
fn find_attribute<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    if name == "Future" {
        return future::future_type(py);
    }
    let text = format!("module 'gristmill._native' has no attribute '{name}'");
    Err(pyo3::exceptions::PyAttributeError::new_err(text))
}

/// Gives a class a method that CPython calls without a tuple of arguments.
fn add_fast_method<T: PyTypeInfo>(
    py: Python<'_>,
    name: &'static std::ffi::CStr,
    body: raw::FastMethod,
    doc: &'static std::ffi::CStr,
) -> PyResult<()> {
    let class = T::type_object(py);
    let definition = Box::leak(Box::new(raw::method(name, body, doc)));
    // SAFETY: the definition is never freed; the descriptor that comes back is a new reference.
    let method = unsafe {
        let method = ffi::PyDescr_NewMethod(class.as_type_ptr(), definition);
        Bound::from_owned_ptr_or_err(py, method)?
    };
    class.setattr(name, method)
}

// Without the interpreter's lock nothing here would be guarded: a build without one turns it on.
#[pymodule(gil_used = true)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    gristmill_sync::clock::start();
    fork::watch();
    module.add("INTERRUPT_SIGNAL", gristmill_client::INTERRUPT_SIGNAL)?;
    module.add("THREADED_EXIT_CODE", gristmill_client::THREADED_EXIT_CODE)?;
    module.add("SETUP_ALARM", gristmill_client::SETUP_ALARM)?;
    module.add("SETUP_EXIT_CODE", gristmill_client::SETUP_EXIT_CODE)?;
    module.add("BLOCK_MIN", gristmill_shm::BLOCK_MIN)?;
    module.add_class::<arena::ArenaMemory>()?;
    module.add_class::<Engine>()?;
    module.add_class::<Options>()?;
    module.add_class::<ContextUse>()?;
    module.add_class::<AppLane>()?;
    module.add_class::<future::Ledger>()?;
    module.add("ForeignFuture", py.get_type::<ForeignFuture>())?;
    module.add_class::<MapResults>()?;
    module.add_class::<nodes::Fleet>()?;
    module.add_class::<steward::BroughtFile>()?;
    module.add_function(wrap_pyfunction!(nodes::run_agent, module)?)?;
    module.add_class::<setup_timer::SetupTimer>()?;
    module.add_class::<zygote::PyZygote>()?;
    image::add_to(module)?;
    module.add_class::<journal::PyJournal>()?;
    replay::add_to(module)?;
    module.add_class::<journal::JournalEntries>()?;
    const SUBMIT_DOC: &std::ffi::CStr =
        c"submit($self, fn, /, *args, **kwargs)\n--\n\nRuns fn(*args, **kwargs) in a worker; gives its future.";
    add_fast_method::<Engine>(py, c"submit", engine::submit_method, SUBMIT_DOC)?;
    add_fast_method::<Options>(py, c"submit", engine::submit_with_options, SUBMIT_DOC)?;
    const APP_DOC: &std::ffi::CStr = c"submit($self, app, function, arguments, keywords, ledger, /)\n--\n\nRuns function(*arguments, **keywords) in a worker for `app`; gives its app future.";
    add_fast_method::<AppLane>(py, c"submit", engine::submit_app, APP_DOC)?;
    // Not a name of the module like the others, which `__all__` lists.
    module.setattr("__getattr__", wrap_pyfunction!(find_attribute, module)?)?;
    module.index()?.append("Future")?;
    module.add_function(wrap_pyfunction!(build_info, module)?)?;
    module.add_function(wrap_pyfunction!(collector::hide_from_collector, module)?)?;
    module.add_function(wrap_pyfunction!(collector::show_to_collector, module)?)?;
    module.add_function(wrap_pyfunction!(engine::cpu_count, module)?)?;
    module.add_function(wrap_pyfunction!(engine::wait_any, module)?)?;
    module.add_function(wrap_pyfunction!(future::make_app_future_type, module)?)?;
    module.add_function(wrap_pyfunction!(engine::finish_all, module)?)?;
    module.add_function(wrap_pyfunction!(serve::become_a_worker, module)?)?;
    module.add_function(wrap_pyfunction!(serve::outlast_end, module)?)?;
    module.add_function(wrap_pyfunction!(serve::serve, module)?)?;
    module.add_function(wrap_pyfunction!(serve::is_interrupted, module)?)?;
    add_nested(module)?;
    for probe in [
        wrap_pyfunction!(codec::encode_payload, module)?,
        wrap_pyfunction!(codec::decode_payload, module)?,
        wrap_pyfunction!(codec::call_payload, module)?,
    ] {
        module.add_function(probe)?;
    }
    Ok(())
}

/// What tasks use that submit tasks.
fn add_nested(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<nested::Ticket>()?;
    module.add_class::<nested::NestedContext>()?;
    module.add_function(wrap_pyfunction!(nested::nested_check, module)?)?;
    module.add_function(wrap_pyfunction!(nested::nested_check_options, module)?)?;
    module.add_function(wrap_pyfunction!(nested::nested_submit, module)?)?;
    module.add_function(wrap_pyfunction!(nested::nested_define_context, module)?)?;
    module.add_function(wrap_pyfunction!(nested::nested_result, module)?)?;
    module.add_function(wrap_pyfunction!(nested::nested_exception, module)?)?;
    module.add_function(wrap_pyfunction!(nested::nested_state, module)?)?;
    module.add_function(wrap_pyfunction!(nested::nested_cancel, module)?)?;
    module.add_function(wrap_pyfunction!(nested::nested_watch, module)?)?;
    module.add_function(wrap_pyfunction!(nested::nested_wait, module)?)?;
    Ok(())
}
