//! Settings of an engine, and its start at the first task.

use std::ffi::CStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use gristmill_client::{
    BlobOptions, BroadcastOptions, BroadcastTopology, Client, ClientOptions, Config, LinkUse,
    Program, Supply, Window, memory_copy,
};
use gristmill_shm::ArenaOptions;
use gristmill_wire::peer::{LeaseGrant, LeaseRequest};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCFunction, PyWeakrefReference};

use super::Engine;
use crate::error;
use crate::stager::PythonStager;

/// The keeper's executable, compiled with the module.
static KEEPER_IMAGE: &[u8] = include_bytes!(env!("GRISTMILL_KEEPER_IMAGE"));
/// Name of the file in memory that holds the caller's worker environment.
const WORKER_ENVIRONMENT_NAME: &CStr = c"gristmill-environment";
/// Bytes of each ring: room for two thousand small records. The largest inline payload is a quarter of it.
const RING_SIZE: u32 = 256 << 10;

/// The arguments of `Executor.__init__`.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub workers: u16,
    tasks_per_worker: u32,
    spawn: bool,
    /// True if its workers are on other nodes.
    pub has_nodes: bool,
    window: Window,
    task_limit: u64,
    pub block_when_full: bool,
    supply: Supply,
    /// Maximum bytes for contexts.
    context_memory: u64,
    /// Options of the broadcast of large arguments to nodes.
    spread: BroadcastOptions,
}

/// All settings of one engine.
pub struct Settings {
    limits: Limits,
    /// A weak reference to the executor itself, which owns these settings.
    object: Py<PyWeakrefReference>,
}

impl std::ops::Deref for Settings {
    type Target = Limits;

    fn deref(&self) -> &Limits {
        &self.limits
    }
}

impl Settings {
    /// Returns the executor's object.
    ///
    /// # Errors
    /// `RuntimeError` if it is gone already.
    pub fn engine<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let object = self.object.bind(py).call0()?;
        if object.is_none() {
            Err(PyRuntimeError::new_err("the executor is gone"))
        } else {
            Ok(object)
        }
    }
}

#[pymethods]
impl Engine {
    /// Stores the settings. `Executor.__init__` calls this once.
    #[expect(clippy::too_many_arguments, reason = "they come one by one from Python")]
    #[pyo3(signature = (*, workers, tasks_per_worker, spawn, spin_us, task_limit, block_when_full, has_nodes=false, memory=u64::MAX, gpus=0, fanout=2, topology="peers", context_memory=u64::MAX))]
    fn _configure(
        slf: &Bound<'_, Self>,
        workers: u16,
        tasks_per_worker: u32,
        spawn: bool,
        spin_us: f64,
        task_limit: u64,
        block_when_full: bool,
        has_nodes: bool,
        memory: u64,
        gpus: u32,
        fanout: u32,
        topology: &str,
        context_memory: u64,
    ) -> PyResult<()> {
        let limits = Limits {
            workers,
            has_nodes,
            tasks_per_worker,
            spawn,
            window: Window::of_us(spin_us),
            task_limit: if task_limit == 0 { default_task_limit() } else { task_limit },
            block_when_full,
            supply: Supply { memory, gpus: first_gpus(gpus) },
            context_memory,
            spread: BroadcastOptions { fanout, topology: read_topology(topology)? },
        };
        let object = PyWeakrefReference::new(slf)?.unbind();
        slf.get()
            .settings
            .set(Settings { limits, object })
            .map_err(|_| PyRuntimeError::new_err("an executor is initialised once"))
    }
}

/// Returns the set of the first `count` GPUs, one bit each.
fn first_gpus(count: u32) -> u16 {
    (0..count.min(u16::BITS)).fold(0, |set, device| set | (1 << device))
}

fn read_topology(name: &str) -> PyResult<BroadcastTopology> {
    match name {
        "client" => Ok(BroadcastTopology::Client),
        "peers" => Ok(BroadcastTopology::Peers),
        "groups" => Ok(BroadcastTopology::Groups),
        other => Err(PyValueError::new_err(format!("{other:?} is no topology"))),
    }
}

/// Returns the default limit of tasks: at about 250 bytes a task they fill a quarter of the memory that the machine or
/// the control group allows. At most 16 million.
fn default_task_limit() -> u64 {
    (gristmill_machine::memory().usable / 4 / 250).clamp(1000, 16_000_000)
}

impl Engine {
    /// Returns the settings.
    ///
    /// # Errors
    /// `RuntimeError` if `__init__` was not called.
    pub fn settings(&self) -> PyResult<&Settings> {
        self.settings
            .get()
            .ok_or_else(|| PyRuntimeError::new_err("Executor.__init__ was not called"))
    }

    /// Returns the client; the first call starts it.
    ///
    /// # Errors
    /// `StartError`; `ForkedProcessError` in a forked child.
    #[inline]
    pub fn running_client(&self, py: Python<'_>) -> PyResult<&Arc<Client>> {
        match self.client() {
            Some(client) => Ok(client),
            None => self.start(py, None),
        }
    }

    /// Does the same as [`Self::running_client`], for a task that calls `function`.
    ///
    /// # Errors
    /// The same as for [`Self::running_client`].
    ///
    /// # Safety
    /// `function` is a live object.
    #[inline]
    pub unsafe fn client_for(
        &self,
        py: Python<'_>,
        function: *mut ffi::PyObject,
    ) -> PyResult<&Arc<Client>> {
        match self.client() {
            Some(client) => Ok(client),
            None => {
                // SAFETY: the caller's function is live.
                let function = unsafe { Bound::from_borrowed_ptr(py, function) };
                self.start(py, Some(&function))
            }
        }
    }

    /// Fails if the engine belongs to the parent process.
    ///
    /// # Errors
    /// `ForkedProcessError` in a forked child.
    pub fn refuse_orphan(&self, py: Python<'_>) -> PyResult<()> {
        if !self.is_orphan() {
            return Ok(());
        }
        let text = "this executor belongs to the parent process: a forked child has no workers; make a new Executor \
                    in the child";
        Err(error::named(py, "ForkedProcessError", text))
    }

    #[cold]
    fn start(&self, py: Python<'_>, function: Option<&Bound<'_, PyAny>>) -> PyResult<&Arc<Client>> {
        self.refuse_orphan(py)?;
        if self.is_closed.load(std::sync::atomic::Ordering::Relaxed) {
            return Err(error::shut_down(py));
        }
        let settings = self.settings()?;
        // This comes before any thread is started: it takes the kernel a microsecond in a process with one thread, and
        // about 15 ms in one with several.
        let _mode = gristmill_sync::barrier::register();
        let described =
            settings.engine(py)?.call_method1("_describe_worker_environment", (function,))?;
        let (worker_environment, options) =
            (described.get_item(0)?, client_options(&described, settings)?);
        // Python code ran above, so another thread or a signal handler may have started or closed the engine. No Python
        // code runs from here to the end of `start_once`.
        if let Some(client) = self.client() {
            return Ok(client);
        }
        let client = self.start_once(py, options)?;
        on_start(py, settings, worker_environment.unbind(), client)?;
        // While the processes start there is time to import what may be needed when the interpreter can import no more.
        error::prepare(py)?;
        crate::codec::pickle::load(py)?;
        Ok(client)
    }

    /// Starts the client of an engine that has none. Runs no Python code, so that the engine gets only one client.
    fn start_once(&self, py: Python<'_>, options: ClientOptions) -> PyResult<&Arc<Client>> {
        if self.is_closed.load(std::sync::atomic::Ordering::Relaxed) {
            return Err(error::shut_down(py));
        }
        let client =
            Client::start(options).map_err(|failure| error::start(py, failure.code(), &failure))?;
        super::remember(&client);
        Ok(self.client.get_or_init(|| client))
    }
}

/// Time between two looks for signals while nodes are placed.
const LOOK: Duration = Duration::from_millis(20);

/// Tells an executor that its client has begun. If it has nodes, a thread of its own places them, and a handler's exception
/// ends only the wait for it: without nodes, tasks of other threads, and later ones, would wait forever.
///
/// # Errors
/// Raises the error of `_on_start`, or that of a signal handler. After an error of `_on_start` there will be no nodes, and tasks
/// fail.
fn on_start(
    py: Python<'_>,
    settings: &Settings,
    environment: Py<PyAny>,
    client: &Arc<Client>,
) -> PyResult<()> {
    let engine = settings.engine(py)?;
    if !settings.has_nodes {
        return engine.call_method1("_on_start", (environment,)).map(drop);
    }
    let (engine, client) = (engine.unbind(), Arc::clone(client));
    let (sender, mut receiver) = mpsc::channel();
    let place = PyCFunction::new_closure(py, None, None, move |arguments, _| {
        let py = arguments.py();
        let placed = engine.call_method1(py, "_on_start", (environment.clone_ref(py),)).map(drop);
        if let Err(error) = &placed {
            py.detach(|| client.give_up_nodes(&error.to_string()));
        }
        // The receiver is gone if a handler has raised.
        let _ = sender.send(placed);
    })?;
    // No Python code runs in this thread until the other one has begun.
    py.import("_thread")?.call_method1("start_new_thread", (place, ()))?;
    loop {
        let outcome = &mut receiver;
        match py.detach(move || outcome.recv_timeout(LOOK)) {
            Ok(placed) => return placed,
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err("the thread that places nodes has ended"));
            }
        }
    }
}

/// Reads the dict that `_worker_environment.program` returns.
///
/// # Errors
/// An entry is missing or has the wrong type.
pub fn read_program(program: &Bound<'_, PyAny>) -> PyResult<Program> {
    let output = if program.get_item("output")?.is_truthy()? {
        gristmill_client::Output::Forward
    } else {
        gristmill_client::Output::Discard
    };
    Ok(Program {
        arguments: program.get_item("arguments")?.extract()?,
        environment: program.get_item("environment")?.extract()?,
        directory: program.get_item("directory")?.extract()?,
        umask: program.get_item("umask")?.extract()?,
        stdout: output,
        stderr: output,
    })
}

fn client_options(described: &Bound<'_, PyAny>, limits: &Limits) -> PyResult<ClientOptions> {
    let (worker_environment, program): (Bound<'_, PyBytes>, Bound<'_, PyAny>) =
        described.extract()?;
    let workers = if limits.has_nodes { 0 } else { limits.workers };
    let core = Config {
        workers,
        // An interpreter of its own takes long to start, and shares no memory with the others.
        workers_min: if limits.spawn { 0 } else { workers },
        supply: limits.supply,
        numa_nodes: read_numa_nodes(&program)?,
        spare_max: if limits.has_nodes { 0 } else { Config::default().spare_max },
        outstanding_max: limits.task_limit,
        arguments_max: gristmill_machine::memory().usable / 4,
        tasks_per_worker_max: limits.tasks_per_worker,
        context_memory: limits.context_memory,
        ..Config::default()
    };
    Ok(ClientOptions {
        core,
        program: read_program(&program)?,
        descriptors: vec![memory_copy(WORKER_ENVIRONMENT_NAME, worker_environment.as_bytes())?],
        spawn_fresh: limits.spawn,
        keeper_image: KEEPER_IMAGE,
        window: limits.window,
        arena: arena_options().map_err(PyValueError::new_err)?,
        ring_size: RING_SIZE,
        blobs: BlobOptions { broadcast: limits.spread, ..BlobOptions::default() },
        links: if limits.has_nodes { LinkUse::Outwards } else { LinkUse::None },
    })
}

/// Returns the memory limit of large payloads, and the directories they spill to beyond it.
///
/// # Errors
/// A sentence: `GRISTMILL_ARENA_MEMORY` is not a number of bytes.
fn arena_options() -> Result<ArenaOptions, String> {
    let text = std::env::var("GRISTMILL_ARENA_MEMORY").unwrap_or_default();
    let memory = if text.is_empty() { None } else { Some(text.parse::<u64>()) };
    let memory = memory
        .transpose()
        .map_err(|_| format!("GRISTMILL_ARENA_MEMORY must be a number of bytes, not {text:?}"))?;
    Ok(ArenaOptions { memory, spill: spill_directories() })
}

/// Returns the directories for payloads that do not fit into memory, the preferred one first: only
/// `GRISTMILL_SPILL_DIR` if it is set (none if it is empty), else `TMPDIR`, `/var/tmp`, `/tmp`.
pub fn spill_directories() -> Vec<PathBuf> {
    if let Some(chosen) = std::env::var_os("GRISTMILL_SPILL_DIR") {
        return if chosen.is_empty() { Vec::new() } else { vec![chosen.into()] };
    }
    let own = std::env::var_os("TMPDIR").filter(|path| !path.is_empty());
    own.map(PathBuf::from).into_iter().chain(["/var/tmp".into(), "/tmp".into()]).collect()
}

/// Returns the directory for payloads that do not fit into memory, with the bytes that it has room for; and each
/// unsuitable directory before it, with the reason.
#[pyfunction]
#[expect(clippy::type_complexity, reason = "a pair and a list of pairs for Python")]
pub fn spill_place() -> (Option<(PathBuf, u64)>, Vec<(PathBuf, String)>) {
    let (place, refusals) = gristmill_shm::find_spill_directory(&spill_directories());
    let refusals = refusals.into_iter().map(|refusal| (refusal.directory, refusal.reason));
    (place.map(|place| (place.directory, place.room)), refusals.collect())
}

/// Returns the NUMA nodes of each CPU slot, if workers are bound to cores.
fn read_numa_nodes(program: &Bound<'_, PyAny>) -> PyResult<Vec<u64>> {
    let numa_nodes: Option<Vec<u64>> = program.call_method1("get", ("numa_nodes",))?.extract()?;
    Ok(numa_nodes.unwrap_or_default())
}

/// Facts about a node that its agent knows, besides the resources that it grants.
pub struct NodeFacts {
    /// The program of its zygotes.
    pub program: Program,
    /// Number of cores that it offers.
    pub cores: usize,
    /// The NUMA nodes of each CPU slot, one bit each; empty if workers are not bound.
    pub numa_nodes: Vec<u64>,
}

impl NodeFacts {
    /// Returns environment variables for workers in these CPU slots: the indices of the slots, and a worker's share of
    /// threads.
    fn variables(&self, places: &[u16]) -> [Vec<u8>; 2] {
        let threads = (self.cores / places.len().max(1)).max(1);
        let names: Vec<String> = places.iter().map(u16::to_string).collect();
        let places = format!("GRISTMILL_NODE_PLACES={}", names.join(","));
        [places.into_bytes(), format!("GRISTMILL_NODE_THREADS={threads}").into_bytes()]
    }

    fn numa_nodes_of(&self, places: &[u16]) -> Vec<u64> {
        places
            .iter()
            .filter_map(|&place| self.numa_nodes.get(usize::from(place)).copied())
            .collect()
    }
}

/// Returns the options of a lease's engine with these CPU slots of the node. Its program runs in the client's working
/// directory, if that exists here.
///
/// # Errors
/// A sentence: there is no memory for the worker environment.
pub fn node_options(
    (request, grant): (&LeaseRequest, &LeaseGrant),
    places: &[u16],
    facts: &NodeFacts,
) -> Result<ClientOptions, String> {
    let workers = u16::try_from(grant.workers).unwrap_or(u16::MAX);
    let worker_environment = memory_copy(WORKER_ENVIRONMENT_NAME, &request.worker_environment)
        .map_err(|error| error.to_string())?;
    let mut program = facts.program.clone();
    let directory = std::path::Path::new(std::ffi::OsStr::from_bytes(&request.program));
    if directory.is_dir() {
        program.directory.clone_from(&request.program);
    }
    program.environment.extend(facts.variables(places));
    let core = Config {
        workers,
        supply: Supply { memory: grant.memory, gpus: grant.gpus },
        numa_nodes: facts.numa_nodes_of(places),
        shares_nested_only: true,
        outstanding_max: u64::MAX,
        tasks_per_worker_max: request.tasks_per_worker,
        context_memory: if request.context_memory == u64::MAX {
            grant.memory / 2
        } else {
            request.context_memory
        },
        ..Config::default()
    };
    Ok(ClientOptions {
        core,
        program,
        descriptors: vec![worker_environment],
        spawn_fresh: request.spawns_fresh,
        keeper_image: KEEPER_IMAGE,
        window: Window::Learned,
        arena: arena_options()?,
        ring_size: RING_SIZE,
        // The agent sets the other options.
        blobs: BlobOptions { stager: Some(Arc::new(PythonStager)), ..BlobOptions::default() },
        links: LinkUse::Inwards,
    })
}
