//! Nodes for the interpreter: keys, a client's door, and the agent itself.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use gristmill_agent::{Agent, AgentOptions, Capacity, Ending, Places};
use gristmill_client::{BlobTraffic, Door, DoorOptions, PeerView, Told};
use gristmill_sync::atomic::Ordering;
use gristmill_sync::clock::monotonic_ns;
use gristmill_transport::{ClientKey, KeyError, NodeKey, resolve};
use gristmill_wire::peer::Ask;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::engine::{Engine, NodeFacts, node_options, read_program};
use crate::error;
use crate::future::FutureRef;

/// The longest wait before signals are looked at.
const SLICE: Duration = Duration::from_millis(50);

/// The keys of a client and its nodes.
#[pyclass(frozen, module = "gristmill._native")]
pub struct Fleet {
    client: ClientKey,
    /// Nodes that stand by themselves have theirs already.
    node: Option<NodeKey>,
}

#[pymethods]
impl Fleet {
    /// Draws new keys, or reads a client's from a file.
    #[new]
    #[pyo3(signature = (path=None))]
    fn new(path: Option<PathBuf>) -> PyResult<Self> {
        let made = match path {
            Some(path) => ClientKey::read(&path).map(|client| Self { client, node: None }),
            None => gristmill_transport::Fleet::generate()
                .map(|fleet| Self { client: fleet.client, node: Some(fleet.node) }),
        };
        made.map_err(key_error)
    }

    /// What a node proves itself with, as one line: a secret. Empty where nodes have theirs already.
    fn node_key(&self) -> String {
        self.node.as_ref().map(|key| key.to_text().to_string()).unwrap_or_default()
    }

    /// Writes both keys to new files that only their owner may read.
    fn write(&self, client: PathBuf, node: PathBuf) -> PyResult<()> {
        let key = self.node.as_ref().ok_or_else(|| {
            PyValueError::new_err("these keys were read: their nodes have the other half")
        })?;
        self.client.write(&client).map_err(key_error)?;
        key.write(&node).map_err(key_error)
    }
}

fn key_error(error: KeyError) -> PyErr {
    PyOSError::new_err(error.to_string())
}

/// The Python version that functions travel as, and the engine's.
fn versions(py: Python<'_>) -> (String, String) {
    let python = py.version_info();
    let engine = env!("CARGO_PKG_VERSION");
    (format!("{}.{}", python.major, python.minor), engine.to_owned())
}

fn address(text: &str) -> PyResult<SocketAddr> {
    let found = resolve(text).map_err(|error| PyValueError::new_err(error.to_string()))?;
    found.first().copied().ok_or_else(|| PyValueError::new_err(format!("{text} is no address")))
}

fn nanoseconds(seconds: f64) -> u64 {
    u64::try_from(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX).as_nanos())
        .unwrap_or(u64::MAX)
}

/// So many seconds from now, monotonic nanoseconds.
fn end_of(seconds: Option<f64>) -> u64 {
    seconds.map_or(u64::MAX, |seconds| monotonic_ns().saturating_add(nanoseconds(seconds)))
}

#[pymethods]
impl Engine {
    /// Lets nodes in: those that join at `listen`, and those at the addresses of `dial`. Gives the address where they
    /// join, if they may. `told` is called with the name of each node that has failed for good, and why.
    #[expect(clippy::too_many_arguments, reason = "they come one by one from Python")]
    #[pyo3(signature = (fleet, world, *, listen, dial, name, directory, workers, tasks_per_worker, spawn, memory, gpus, duration_s, blob_memory, blob_disk, context_memory, beat_s, expiry_s, exact, nodes_max, told))]
    fn _open_door(
        &self,
        py: Python<'_>,
        fleet: &Fleet,
        world: &Bound<'_, PyBytes>,
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
        told: Py<PyAny>,
    ) -> PyResult<Option<String>> {
        let client =
            self.client().ok_or_else(|| PyRuntimeError::new_err("the engine has not started"))?;
        let (python, engine) = versions(py);
        let ask = Ask {
            lease: 0,
            workers,
            tasks_per_worker,
            expiry_ns: nanoseconds(expiry_s),
            beat_ns: nanoseconds(beat_s),
            duration_ns: u64::MAX,
            memory,
            gpus,
            blob_limits: [blob_memory, blob_disk].map(|limit| limit.unwrap_or(u64::MAX)),
            context_memory: context_memory.unwrap_or(u64::MAX),
            spawns_fresh: spawn,
            is_exact: exact,
            program: directory,
            world: world.as_bytes().to_vec(),
        };
        let listen = listen.map(address).transpose()?;
        let key = fleet.client.clone();
        let ends_at_ns = end_of(duration_s);
        let told = teller(told);
        let options = DoorOptions {
            key,
            listen,
            dial,
            ask,
            python,
            engine,
            name,
            ends_at_ns,
            nodes_max,
            told,
        };
        let door = Door::open(client, options)
            .map_err(|failure| error::named(py, "StartError", &failure.to_string()))?;
        let address = door.address.map(|address| address.to_string());
        self.keep_door(door);
        Ok(address)
    }

    /// Why nodes that should be there are not: what went wrong with which last.
    fn _node_troubles(&self) -> Vec<(String, String)> {
        self.door().map(Door::troubles).unwrap_or_default()
    }

    /// How many nodes have gone for good so far; and of those after the first so many which, why, and whether they said so
    /// themselves.
    fn _departures(&self, known: usize) -> (usize, Vec<(String, String, bool)>) {
        let (count, new) = self.door().map(|door| door.departures(known)).unwrap_or_default();
        (count, new.into_iter().map(|one| (one.name, one.text, one.has_ended)).collect())
    }

    /// Fails every task with `StartError`, and refuses more: no worker can be had, for this reason.
    fn _give_up_workers(&self, py: Python<'_>, text: &str) {
        if let Some(client) = self.client() {
            py.detach(|| client.give_up_workers(text));
        }
    }

    /// Whether no worker can be had any more.
    fn _is_broken(&self) -> bool {
        self.client().is_some_and(|client| client.failure().is_some())
    }

    /// Asks nodes, those that are there and those to come, to last for so long from now on.
    fn _extend(&self, py: Python<'_>, seconds: f64) {
        if let Some(door) = self.door() {
            door.set_end(end_of(Some(seconds)));
        }
        if let Some(client) = self.client() {
            py.detach(|| client.extend(nanoseconds(seconds)));
        }
    }

    /// How long workers of nodes, and gigabytes of their memory, were held so far, together, seconds.
    fn _allocation(&self) -> (f64, f64) {
        self.client().map(|client| client.allocation()).unwrap_or_default()
    }

    /// Fails every task with `LeaseExpired`, refuses more, and ends all workers.
    fn _expire(&self, py: Python<'_>, text: &str) {
        if let Some(door) = self.door() {
            door.close();
        }
        if let Some(client) = self.client() {
            py.detach(|| client.expire(text));
        }
    }

    /// Says why the task of a future does not run yet, or where it is; `troubles` are those of nodes that are not there.
    ///
    /// # Errors
    /// `TypeError` for what is no future of this executor.
    fn _explain(
        &self,
        py: Python<'_>,
        future: &Bound<'_, PyAny>,
        troubles: Vec<(String, String)>,
    ) -> PyResult<String> {
        let own = FutureRef::from_ptr(py, future.as_ptr())
            .filter(|future| std::ptr::eq(future.engine(), self));
        let task = own.map(FutureRef::task).ok_or_else(|| {
            PyTypeError::new_err("only a future that this executor gave can be explained by it")
        })?;
        let client = self.running_client(py)?;
        Ok(py.detach(|| client.explain(task, &troubles)))
    }

    /// The nodes that are there, a dict each.
    fn _nodes<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let peers = self.client().map(|client| client.peers()).unwrap_or_default();
        peers.into_iter().map(|peer| describe(py, &peer)).collect()
    }
}

/// What calls `told` with a node's name and what is wrong with it; not once the interpreter ends.
fn teller(told: Py<PyAny>) -> Told {
    Box::new(move |name, text| {
        Python::try_attach(|py| {
            if let Err(error) = told.call1(py, (name, text)) {
                error.write_unraisable(py, None);
            }
        });
    })
}

/// What is told of bytes of blobs.
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
    let blobs = PyDict::new(py);
    for (name, bytes) in blob_counts(peer.blobs) {
        blobs.set_item(name, bytes)?;
    }
    dict.set_item("blob_bytes", blobs)?;
    Ok(dict)
}

/// Runs a node agent until it is told to stop or nobody needs it; gives why it ended and the last thing that went wrong.
/// `opened` is called with the address where it listens, if it does.
///
/// # Errors
/// `ValueError` for a key or an address, `StartError` when it cannot listen, and what a signal handler raises.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "they come one by one from Python")]
#[pyo3(signature = (key, *, join, listen, name, workers, memory, gpus, cores, domains, pins, labels, patience_s, walltime_s, drain_s, program, opened))]
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
    domains: Vec<u64>,
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
    let facts = NodeFacts { program, cores, domains: domains.clone() };
    let options = AgentOptions {
        key: NodeKey::parse(key).map_err(|error| PyValueError::new_err(error.to_string()))?,
        listen: listen.map(address).transpose()?,
        join,
        python,
        engine,
        name,
        capacity: Capacity { workers, memory, gpus },
        places: Places { domains, pins },
        labels,
        walltime: walltime_s.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
        drain_time: Duration::try_from_secs_f64(drain_s).unwrap_or_default(),
        patience: patience_s.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
        prepare: Box::new(move |ask, grant, places| node_options((ask, grant), places, &facts)),
    };
    let agent = Agent::new(options)
        .map_err(|failure| error::named(py, "StartError", &failure.to_string()))?;
    opened.call1((agent.address().map(|address| address.to_string()),))?;
    let (stops, waker) = agent.stopper();
    let thread = std::thread::spawn(move || agent.run());
    let mut raised = None;
    while !thread.is_finished() {
        py.detach(|| std::thread::sleep(SLICE));
        if let Err(error) = py.check_signals() {
            // PAIRS: stop (the agent's loop): nothing else goes with it.
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
        Ending::Stopped => ("stopped".to_owned(), String::new()),
        Ending::TimeOver => ("time over".to_owned(), String::new()),
        Ending::Finished => ("finished".to_owned(), String::new()),
        Ending::Idle(text) => ("idle".to_owned(), text),
        Ending::Refused(text) => ("refused".to_owned(), text),
    })
}
