//! Settings of an engine, and its start with the first task.

use std::ffi::CStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use gristmill_client::{
    BlobOptions, Client, ClientOptions, Config, LinkUse, Program, SpreadOptions, Supply, Topology,
    Window, memory_copy,
};
use gristmill_wire::peer::{Ask, Grant};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyWeakrefReference};

use super::Engine;
use crate::error;
use crate::steward::PythonSteward;

/// The keeper's executable, compiled with the module.
static KEEPER_IMAGE: &[u8] = include_bytes!(env!("GRISTMILL_KEEPER_IMAGE"));
/// What the file in memory is called that holds the caller's world.
const WORLD_NAME: &CStr = c"gristmill-world";
/// Bytes of each ring: two thousand small records, and a quarter of it is the largest inline payload.
const RING_SIZE: u32 = 256 << 10;

/// What `Executor.__init__` was given.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    workers: u16,
    tasks_per_worker: u32,
    spawn: bool,
    /// Its workers are on other nodes.
    pub has_nodes: bool,
    window: Window,
    task_limit: u64,
    pub block_when_full: bool,
    supply: Supply,
    /// Bytes that contexts may take.
    context_memory: u64,
    /// How large arguments come to nodes.
    spread: SpreadOptions,
}

/// All settings of one engine.
pub struct Settings {
    limits: Limits,
    /// The executor itself, weakly: it owns us.
    object: Py<PyWeakrefReference>,
}

impl std::ops::Deref for Settings {
    type Target = Limits;

    fn deref(&self) -> &Limits {
        &self.limits
    }
}

impl Settings {
    /// The executor's object.
    ///
    /// # Errors
    /// It is gone already.
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
    /// Stores the settings; called once, by `Executor.__init__`.
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
            spread: SpreadOptions { fanout, topology: read_topology(topology)? },
        };
        let object = PyWeakrefReference::new(slf)?.unbind();
        slf.get()
            .settings
            .set(Settings { limits, object })
            .map_err(|_| PyRuntimeError::new_err("an executor is initialised once"))
    }
}

/// The first `count` GPUs, a bit each.
fn first_gpus(count: u32) -> u16 {
    (0..count.min(u16::BITS)).fold(0, |set, device| set | (1 << device))
}

fn read_topology(name: &str) -> PyResult<Topology> {
    match name {
        "client" => Ok(Topology::Client),
        "peers" => Ok(Topology::Peers),
        "groups" => Ok(Topology::Groups),
        other => Err(PyValueError::new_err(format!("{other:?} is no topology"))),
    }
}

/// A quarter of the machine's memory at about 250 bytes a task, 16 million at most.
fn default_task_limit() -> u64 {
    // SAFETY: two questions without arguments in memory.
    let bytes = unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) * libc::sysconf(libc::_SC_PAGESIZE) };
    (bytes.unsigned_abs() / 4 / 250).clamp(1000, 16_000_000)
}

/// The cores that this process may use: affinity and cgroup counted in.
#[pyfunction]
pub fn cpu_count() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

impl Engine {
    /// The settings.
    ///
    /// # Errors
    /// `RuntimeError`: `__init__` was not called.
    pub fn settings(&self) -> PyResult<&Settings> {
        self.settings
            .get()
            .ok_or_else(|| PyRuntimeError::new_err("Executor.__init__ was not called"))
    }

    /// The client, started with the first task.
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

    /// As [`Self::running_client`], for a task that calls `function`.
    ///
    /// # Errors
    /// As [`Self::running_client`].
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

    /// Refuses to touch an engine of the parent process.
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
        let described = settings.engine(py)?.call_method1("_describe_world", (function,))?;
        let options = client_options(&described, settings)?;
        let client = Client::start(options)
            .map_err(|failure| error::named(py, "StartError", &failure.to_string()))?;
        super::remember(&client);
        // While the processes start there is time to load what may be needed when nothing can be loaded any more.
        py.import("gristmill._errors")?;
        let client = self.client.get_or_init(|| client);
        if settings.has_nodes {
            settings.engine(py)?.call_method1("_place_nodes", (described.get_item(0)?,))?;
        }
        Ok(client)
    }
}

/// Reads what `_world.program` gives.
///
/// # Errors
/// It lacks something.
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
    let (world, program): (Bound<'_, PyBytes>, Bound<'_, PyAny>) = described.extract()?;
    let workers = if limits.has_nodes { 0 } else { limits.workers };
    let core = Config {
        workers,
        supply: limits.supply,
        domains: read_domains(&program)?,
        spare_max: if limits.has_nodes { 0 } else { Config::default().spare_max },
        outstanding_max: limits.task_limit,
        tasks_per_worker_max: limits.tasks_per_worker,
        context_memory: limits.context_memory,
        ..Config::default()
    };
    Ok(ClientOptions {
        core,
        program: read_program(&program)?,
        descriptors: vec![memory_copy(WORLD_NAME, world.as_bytes())?],
        spawn_fresh: limits.spawn,
        keeper_image: KEEPER_IMAGE,
        window: limits.window,
        ring_size: RING_SIZE,
        blobs: BlobOptions { spread: limits.spread, ..BlobOptions::default() },
        links: if limits.has_nodes { LinkUse::Outwards } else { LinkUse::None },
    })
}

/// Which of the machine's memories each worker's place is near to, if workers are bound to cores.
fn read_domains(program: &Bound<'_, PyAny>) -> PyResult<Vec<u64>> {
    let domains: Option<Vec<u64>> = program.call_method1("get", ("domains",))?.extract()?;
    Ok(domains.unwrap_or_default())
}

/// What a node's agent knows of it beyond what it gives.
pub struct NodeFacts {
    /// What its zygotes are.
    pub program: Program,
    /// The cores that it offers.
    pub cores: usize,
    /// Which of its memories each place is near to, a bit each; empty: workers are not bound.
    pub domains: Vec<u64>,
}

impl NodeFacts {
    /// What workers at these places are told by their environment: which those are, and their share of the threads.
    fn told(&self, places: &[u16]) -> [Vec<u8>; 2] {
        let threads = (self.cores / places.len().max(1)).max(1);
        let names: Vec<String> = places.iter().map(u16::to_string).collect();
        let places = format!("GRISTMILL_NODE_PLACES={}", names.join(","));
        [places.into_bytes(), format!("GRISTMILL_NODE_THREADS={threads}").into_bytes()]
    }

    fn domains_of(&self, places: &[u16]) -> Vec<u64> {
        places.iter().filter_map(|&place| self.domains.get(usize::from(place)).copied()).collect()
    }
}

/// The engine of a lease with these places of the node: its program in the client's working directory, if that exists
/// here.
///
/// # Errors
/// A sentence: there is no memory for the world.
pub fn node_options(
    (ask, grant): (&Ask, &Grant),
    places: &[u16],
    facts: &NodeFacts,
) -> Result<ClientOptions, String> {
    let workers = u16::try_from(grant.workers).unwrap_or(u16::MAX);
    let world = memory_copy(WORLD_NAME, &ask.world).map_err(|error| error.to_string())?;
    let mut program = facts.program.clone();
    let directory = std::path::Path::new(std::ffi::OsStr::from_bytes(&ask.program));
    if directory.is_dir() {
        program.directory.clone_from(&ask.program);
    }
    program.environment.extend(facts.told(places));
    let core = Config {
        workers,
        supply: Supply { memory: grant.memory, gpus: grant.gpus },
        domains: facts.domains_of(places),
        shares_nested_only: true,
        outstanding_max: u64::MAX,
        tasks_per_worker_max: ask.tasks_per_worker,
        context_memory: if ask.context_memory == u64::MAX {
            grant.memory / 2
        } else {
            ask.context_memory
        },
        ..Config::default()
    };
    Ok(ClientOptions {
        core,
        program,
        descriptors: vec![world],
        spawn_fresh: ask.spawns_fresh,
        keeper_image: KEEPER_IMAGE,
        window: Window::Learned,
        ring_size: RING_SIZE,
        // The rest is the agent's business.
        blobs: BlobOptions { steward: Some(Arc::new(PythonSteward)), ..BlobOptions::default() },
        links: LinkUse::Inwards,
    })
}
