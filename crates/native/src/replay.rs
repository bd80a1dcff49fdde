//! Replays of recorded graphs for Python.

use std::collections::HashMap;

use gristmill_replay::{ClusterSpec, Costs, Forecast, Graph, RecordedTask, Replay};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error;

/// Events between two checks for Ctrl-C: a tenth of a second.
const EVENTS: u64 = 100_000;

/// A task as Python passes it: nanoseconds of its run, its time of submission, bytes of its result, its function, its
/// parents.
type Row = (u64, u64, u64, u32, Vec<u32>);

/// Adds the functions of replays to the module.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(replay_costs, module)?)?;
    module.add_function(wrap_pyfunction!(replay_graph, module)?)
}

/// Returns the default cost of each step of a replay, by name.
#[pyfunction]
fn replay_costs(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let mut costs = Costs::default();
    let known = PyDict::new(py);
    for (name, field) in whole_costs(&mut costs) {
        known.set_item(name, *field)?;
    }
    known.set_item("scatter", costs.scatter)?;
    Ok(known)
}

/// Runs a graph through the scheduler in virtual time, and returns the forecast. Ctrl-C ends it.
#[pyfunction]
fn replay_graph<'py>(
    py: Python<'py>,
    tasks: Vec<Row>,
    cluster: (u16, u16, Option<u32>),
    costs: HashMap<String, f64>,
    seed: u64,
) -> PyResult<Bound<'py, PyDict>> {
    let costs = costs_of(costs)?;
    let (nodes, workers, cores) = cluster;
    let cluster = ClusterSpec { nodes, workers, cores: cores.unwrap_or(u32::MAX) };
    let refused = |text: String, code| error::coded(py, PyValueError::new_err(text), code);
    let graph = py.detach(|| Graph::new(tasks.into_iter().map(task_of).collect()));
    let graph = graph.map_err(|error| refused(error.to_string(), error.code()))?;
    let replay = py.detach(|| Replay::new(graph, cluster, costs, seed));
    let mut replay = replay.map_err(|error| refused(error.to_string(), error.code()))?;
    loop {
        let advanced = py.detach(|| replay.advance(EVENTS));
        let advanced = advanced.map_err(|error| {
            error::coded(py, PyRuntimeError::new_err(error.to_string()), error.code())
        })?;
        if advanced {
            return to_dict(py, &py.detach(|| replay.forecast()));
        }
        py.check_signals()?;
    }
}

fn task_of((run_ns, arrival_ns, result_size, function, parents): Row) -> RecordedTask {
    RecordedTask { run_ns, arrival_ns, result_size, function, parents }
}

/// Returns the integer costs by name: all but the scatter. [`Costs`] says what each of them is.
fn whole_costs(costs: &mut Costs) -> [(&'static str, &mut u64); 13] {
    [
        ("program_ns", &mut costs.program_ns),
        ("submit_ns", &mut costs.submit_ns),
        ("answer_ns", &mut costs.answer_ns),
        ("see_ns", &mut costs.see_ns),
        ("call_ns", &mut costs.call_ns),
        ("wrap_ns", &mut costs.wrap_ns),
        ("spin_ns", &mut costs.spin_ns),
        ("wake_ns", &mut costs.wake_ns),
        ("dispatch_ns", &mut costs.dispatch_ns),
        ("inbound_ns", &mut costs.inbound_ns),
        ("hop_ns", &mut costs.hop_ns),
        ("link_rate", &mut costs.link_rate),
        ("memory_rate", &mut costs.memory_rate),
    ]
}

/// Returns the default costs, with the given ones replaced.
fn costs_of(mut named: HashMap<String, f64>) -> PyResult<Costs> {
    let mut costs = Costs::default();
    for (name, field) in whole_costs(&mut costs) {
        let Some(value) = named.remove(name) else { continue };
        let least = f64::from(u8::from(name.ends_with("_rate")));
        // An hour is longer than any step; the sum of larger values could overflow.
        let most = if name.ends_with("_rate") { 1e18 } else { 3.6e12 };
        if !(least..=most).contains(&value) {
            let text = format!("{name} is from {least} to {most:e}, not {value}");
            return Err(PyValueError::new_err(text));
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is within")]
        let whole = value.round() as u64;
        *field = whole;
    }
    if let Some(value) = named.remove("scatter") {
        if !(0.0..=2.0).contains(&value) {
            let text = format!("scatter is from 0 to 2, not {value}");
            return Err(PyValueError::new_err(text));
        }
        costs.scatter = value;
    }
    match named.keys().next() {
        Some(name) => Err(PyValueError::new_err(format!("{name:?} is not the name of a cost"))),
        None => Ok(costs),
    }
}

/// Returns a forecast as a dict. [`Forecast`] says what each value is.
fn to_dict<'py>(py: Python<'py>, found: &Forecast) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, value) in [
        ("makespan_ns", found.makespan_ns),
        ("work_ns", found.work_ns),
        ("critical_path_ns", found.critical_path_ns),
        ("bound_ns", found.bound_ns),
        ("wait_mean_ns", found.wait.mean_ns),
        ("wait_p50_ns", found.wait.p50_ns),
        ("wait_p99_ns", found.wait.p99_ns),
        ("wait_max_ns", found.wait.max_ns),
        ("bytes_sent", found.bytes_sent),
        ("bytes_received", found.bytes_received),
        ("given_back", found.given_back),
        ("events", found.events),
    ] {
        dict.set_item(name, value)?;
    }
    dict.set_item("tasks_of_nodes", &found.tasks_of_nodes)?;
    Ok(dict)
}
