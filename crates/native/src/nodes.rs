//! Nodes for Python: keys, a client's connection manager, and the agent itself.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use gristmill_agent::{Agent, AgentExit, AgentOptions, Capacity, CpuSlotAffinity};
use gristmill_client::{
    BlobTraffic, ConnectionManager, ConnectionManagerOptions, NodeEventCallback, PeerView,
};
use gristmill_sync::atomic::Ordering;
use gristmill_sync::clock::monotonic_ns;
use gristmill_transport::{ClientKey, KeyError, NodeKey, resolve};
use gristmill_wire::peer::LeaseRequest;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::engine::{Engine, NodeFacts, node_options, read_program};
use crate::error;
use crate::future::FutureRef;

/// The longest wait between checks for signals.
const SLICE: Duration = Duration::from_millis(50);

/// The key of a client, and the key of its nodes.
#[pyclass(frozen, module = "gristmill._native")]
pub struct Fleet {
    client: ClientKey,
    /// The nodes' key; `None` if the client's key was read from a file: the nodes have their key already.
    node: Option<NodeKey>,
}

#[pymethods]
impl Fleet {
    /// Generates new keys, or reads a client's key from a file.
    #[new]
    #[pyo3(signature = (path=None))]
    fn new(py: Python<'_>, path: Option<PathBuf>) -> PyResult<Self> {
        let made = match path {
            Some(path) => ClientKey::read(&path).map(|client| Self { client, node: None }),
            None => gristmill_transport::FleetKeys::generate()
                .map(|fleet| Self { client: fleet.client, node: Some(fleet.node) }),
        };
        made.map_err(|error| key_error(py, &error))
    }

    /// Returns a node's key as one line, which is a secret. Empty if the nodes have theirs already.
    fn node_key(&self) -> String {
        self.node.as_ref().map(|key| key.to_text().to_string()).unwrap_or_default()
    }

    /// Writes both keys to new files that only their owner may read.
    fn write(&self, py: Python<'_>, client: PathBuf, node: PathBuf) -> PyResult<()> {
        let key = self.node.as_ref().ok_or_else(|| {
            PyValueError::new_err("these keys were read: their nodes have the other half")
        })?;
        self.client.write(&client).map_err(|error| key_error(py, &error))?;
        key.write(&node).map_err(|error| key_error(py, &error))
    }
}

fn key_error(py: Python<'_>, error: &KeyError) -> PyErr {
    error::coded(py, PyOSError::new_err(error.to_string()), error.code())
}

/// Returns the Python version, on which the form of functions depends, and the engine's version.
fn versions(py: Python<'_>) -> (String, String) {
    let python = py.version_info();
    let engine = env!("CARGO_PKG_VERSION");
    (format!("{}.{}", python.major, python.minor), engine.to_owned())
}

/// Returns the addresses to listen at for a text `host:port`; none without a text.
fn addresses(text: Option<&str>) -> PyResult<Vec<SocketAddr>> {
    let Some(text) = text else { return Ok(Vec::new()) };
    resolve(text).map_err(|error| PyValueError::new_err(error.to_string()))
}

fn nanoseconds(seconds: f64) -> u64 {
    u64::try_from(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX).as_nanos())
        .unwrap_or(u64::MAX)
}

/// Returns the time so many seconds from now, monotonic nanoseconds.
fn end_of(seconds: Option<f64>) -> u64 {
    seconds.map_or(u64::MAX, |seconds| monotonic_ns().saturating_add(nanoseconds(seconds)))
}

#[pymethods]
impl Engine {
    /// Opens the connection manager: nodes join at `listen`, and it dials those at the
    /// addresses of `dial`. Returns the address for joining nodes, if there is one. `on_event` is called with the name of
    /// each node that has failed for good, and the reason.
    ///
    /// The lease request contains the interpreter of the nodes' workers (`directory`) and their environment
    /// (`worker_environment`), both in the format of the Python package. With `spawn`, each worker starts as a new
    /// interpreter; with `exact`, the client does not accept less than it requests.
    #[expect(clippy::too_many_arguments, reason = "they come one by one from Python")]
    #[pyo3(signature = (fleet, worker_environment, *, listen, dial, name, directory, workers, tasks_per_worker, spawn, memory, gpus, duration_s, blob_memory, blob_disk, context_memory, beat_s, expiry_s, exact, nodes_max, on_event))]
    fn _open_connection_manager(
        &self,
        py: Python<'_>,
        fleet: &Fleet,
        worker_environment: &Bound<'_, PyBytes>,
        listen: Option<&str>,
        dial: Vec<String>,
        name: String,
        directory: Vec<u8>,
        workers: u32,
        tasks_per_worker: u32,
        spawn: bool,
        memory: u64,
        gpus: u32,
        duration_s: Option<f64>,
        blob_memory: Option<u64>,
        blob_disk: Option<u64>,
        context_memory: Option<u64>,
        beat_s: f64,
        expiry_s: f64,
        exact: bool,
        nodes_max: Option<usize>,
        on_event: Py<PyAny>,
    ) -> PyResult<Option<String>> {
        let client =
            self.client().ok_or_else(|| PyRuntimeError::new_err("the engine has not started"))?;
        let (python, engine) = versions(py);
        let request = LeaseRequest {
            lease: 0,
            workers,
            tasks_per_worker,
            expiry_ns: nanoseconds(expiry_s),
            beat_ns: nanoseconds(beat_s),
            // For each node, the connection manager shortens this to the time that is left until `ends_at_ns`.
            duration_ns: u64::MAX,
            memory,
            gpus,
            blob_limits: [blob_memory, blob_disk].map(|limit| limit.unwrap_or(u64::MAX)),
            context_memory: context_memory.unwrap_or(u64::MAX),
            spawns_fresh: spawn,
            is_exact: exact,
            program: directory,
            worker_environment: worker_environment.as_bytes().to_vec(),
        };
        let listen = addresses(listen)?;
        let key = fleet.client.clone();
        let ends_at_ns = end_of(duration_s);
        let on_event = event_callback(on_event);
        let options = ConnectionManagerOptions {
            key,
            listen,
            dial,
            request,
            python,
            engine,
            name,
            ends_at_ns,
            nodes_max,
            on_event,
        };
        let connection_manager = ConnectionManager::open(client, options)
            .map_err(|failure| error::start(py, failure.code(), &failure))?;
        let address = connection_manager.address.map(|address| address.to_string());
        self.keep_connection_manager(connection_manager);
        Ok(address)
    }

    /// Returns the last failure of each node that is expected and missing: its name and the text.
    fn _node_failures(&self) -> Vec<(String, String)> {
        self.connection_manager().map(ConnectionManager::last_failures).unwrap_or_default()
    }

    /// Returns the number of nodes that have left for good. Also returns those after the first `known`: the name, the
    /// reason, and whether the node announced its end.
    fn _departures(&self, known: usize) -> (usize, Vec<(String, String, bool)>) {
        let (count, new) = self
            .connection_manager()
            .map(|connection_manager| connection_manager.departures(known))
            .unwrap_or_default();
        (count, new.into_iter().map(|one| (one.name, one.text, one.has_ended)).collect())
    }

    /// Fails every task with `StartError` and refuses new ones, because no node will ever run them. `reason` is the
    /// text.
    fn _give_up_nodes(&self, py: Python<'_>, reason: &str) {
        if let Some(client) = self.client() {
            py.detach(|| client.give_up_nodes(reason));
        }
    }

    /// Returns whether the engine can get no more workers.
    fn _is_broken(&self) -> bool {
        self.client().is_some_and(|client| client.failure().is_some())
    }

    /// Asks present and future nodes to last for so many seconds from now.
    fn _extend(&self, py: Python<'_>, seconds: f64) {
        if let Some(connection_manager) = self.connection_manager() {
            connection_manager.set_end(end_of(Some(seconds)));
        }
        if let Some(client) = self.client() {
            py.detach(|| client.extend(nanoseconds(seconds)));
        }
    }

    /// Returns how long workers of nodes were held so far, in worker-seconds, and their memory, in gigabyte-seconds.
    fn _allocation(&self) -> (f64, f64) {
        self.client().map(|client| client.allocation()).unwrap_or_default()
    }

    /// Fails every task with `LeaseExpiredError`, refuses more, and ends all workers.
    fn _expire(&self, py: Python<'_>, text: &str) {
        if let Some(connection_manager) = self.connection_manager() {
            connection_manager.close();
        }
        if let Some(client) = self.client() {
            py.detach(|| client.expire(text));
        }
    }

    /// Explains why the task of a future does not run yet, or where it is. `failures` are the failures of missing
    /// nodes.
    ///
    /// # Errors
    /// `TypeError` for an object that is not a future of this executor.
    fn _explain(
        &self,
        py: Python<'_>,
        future: &Bound<'_, PyAny>,
        failures: Vec<(String, String)>,
    ) -> PyResult<String> {
        let own = FutureRef::from_ptr(py, future.as_ptr())
            .filter(|future| std::ptr::eq(future.engine(), self));
        let task = own.map(FutureRef::task).ok_or_else(|| {
            PyTypeError::new_err("an executor can explain only the futures that it returned")
        })?;
        let client = self.running_client(py)?;
        Ok(py.detach(|| client.explain(task, &failures)))
    }

    /// Returns the present nodes: for each, the fields of a `gristmill.Node`.
    fn _nodes<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let peers = self.client().map(|client| client.peers()).unwrap_or_default();
        peers.into_iter().map(|peer| describe(py, &peer)).collect()
    }
}

/// Makes the callback that passes a node's name and failure to `on_event`. It does nothing once the interpreter ends.
fn event_callback(on_event: Py<PyAny>) -> NodeEventCallback {
    Box::new(move |name, text| {
        Python::try_attach(|py| {
            if let Err(error) = on_event.call1(py, (name, text)) {
                error.write_unraisable(py, None);
            }
        });
    })
}

/// Returns the names and values of the counts of blob bytes.
pub fn blob_counts(blobs: BlobTraffic) -> [(&'static str, u64); 5] {
    [
        ("named", blobs.named),
        ("given", blobs.given),
        ("fetched", blobs.fetched),
        ("passed_on", blobs.passed_on),
        ("saved", blobs.saved()),
    ]
}

#[expect(clippy::cast_precision_loss, reason = "for humans")]
fn describe<'py>(py: Python<'py>, peer: &PeerView) -> PyResult<Bound<'py, PyDict>> {
    let seconds = |ns: u64| ns as f64 / 1e9;
    let is_measured = peer.round_trip_ns != u64::MAX;
    let dict = PyDict::new(py);
    dict.set_item("name", &*peer.name)?;
    let labels = PyDict::new(py);
    for (name, value) in peer.labels.lines().filter_map(|label| label.split_once('=')) {
        labels.set_item(name, value)?;
    }
    dict.set_item("labels", labels)?;
    dict.set_item("connected", peer.is_connected)?;
    dict.set_item("distrusted", peer.is_distrusted)?;
    dict.set_item("round_trip_s", is_measured.then(|| seconds(peer.round_trip_ns)))?;
    dict.set_item("workers", peer.workers)?;
    dict.set_item("waiting", peer.tasks[0])?;
    dict.set_item("running", peer.tasks[1])?;
    dict.set_item("busy_s", seconds(peer.busy_ns))?;
    dict.set_item("up_s", seconds(monotonic_ns().saturating_sub(peer.since_ns)))?;
    let left = peer.ends_at_ns.saturating_sub(monotonic_ns());
    dict.set_item("ends_in_s", (peer.ends_at_ns != u64::MAX).then(|| seconds(left)))?;
    dict.set_item("memory", peer.granted.0)?;
    dict.set_item("granted_workers", peer.granted.1)?;
    dict.set_item("sent_bytes", peer.sent_bytes)?;
    dict.set_item("received_bytes", peer.received_bytes)?;
    for (name, bytes) in blob_counts(peer.blobs) {
        dict.set_item(format!("blob_bytes_{name}"), bytes)?;
    }
    Ok(dict)
}

/// Runs a node agent until it is told to stop or is no longer needed. Returns the reason for its end, and the last
/// failure. `opened` is called once, with the address at which the agent listens, or `None` if it does not listen.
///
/// # Errors
/// `ValueError` for a key or an address, `StartError` if it cannot listen, and any exception that a signal handler
/// raises.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "they come one by one from Python")]
#[pyo3(signature = (key, *, join, listen, name, workers, memory, gpus, cores, numa_nodes, pins, labels, patience_s, walltime_s, drain_s, program, opened))]
pub fn run_agent(
    py: Python<'_>,
    key: &str,
    join: Vec<String>,
    listen: Option<&str>,
    name: String,
    workers: u32,
    memory: u64,
    gpus: u32,
    cores: usize,
    numa_nodes: Vec<u64>,
    pins: Vec<u16>,
    labels: String,
    patience_s: Option<f64>,
    walltime_s: Option<f64>,
    drain_s: f64,
    program: &Bound<'_, PyAny>,
    opened: &Bound<'_, PyAny>,
) -> PyResult<(String, String)> {
    let (python, engine) = versions(py);
    let program = read_program(program)?;
    let facts = NodeFacts { program, cores, numa_nodes: numa_nodes.clone() };
    let options = AgentOptions {
        key: NodeKey::parse(key).map_err(|error| {
            error::coded(py, PyValueError::new_err(error.to_string()), error.code())
        })?,
        listen: addresses(listen)?,
        join,
        python,
        engine,
        name,
        capacity: Capacity { workers, memory, gpus },
        affinity: CpuSlotAffinity { numa_nodes, pins },
        labels,
        walltime: walltime_s.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
        drain_time: Duration::try_from_secs_f64(drain_s).unwrap_or_default(),
        patience: patience_s.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
        prepare: Box::new(move |request, grant, places| {
            node_options((request, grant), places, &facts)
        }),
    };
    let agent =
        Agent::new(options).map_err(|failure| error::start(py, failure.code(), &failure))?;
    opened.call1((agent.address().map(|address| address.to_string()),))?;
    let (stops, waker) = agent.stopper();
    let thread = std::thread::spawn(move || agent.run());
    let mut raised = None;
    while !thread.is_finished() {
        py.detach(|| std::thread::sleep(SLICE));
        if let Err(error) = py.check_signals() {
            // PAIRS: stop (the agent's loop): no other data is published with it.
            stops.fetch_add(1, Ordering::Relaxed);
            waker.wake();
            raised.get_or_insert(error);
        }
    }
    if let Some(error) = raised {
        return Err(error);
    }
    let ending = thread.join().map_err(|_| PyRuntimeError::new_err("the agent panicked"))?;
    Ok(match ending {
        AgentExit::Stopped => ("stopped".to_owned(), String::new()),
        AgentExit::TimeOver => ("time over".to_owned(), String::new()),
        AgentExit::Finished => ("finished".to_owned(), String::new()),
        AgentExit::Idle(text) => ("idle".to_owned(), text),
        AgentExit::Refused(text) => ("refused".to_owned(), text),
    })
}
