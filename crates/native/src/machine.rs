//! The CPUs and the memory that this process may use, for the Python side.

use pyo3::prelude::*;

/// Returns the number of CPUs that this process and its children can keep busy: those in its affinity mask, reduced by
/// the CPU quota of its control groups (rounded down, at least 1).
#[pyfunction]
fn cpu_count() -> usize {
    gristmill_machine::cpus().usable()
}

/// Returns the number of CPUs in the affinity mask of the calling thread, and the smallest quota of a control group in
/// CPUs; `None` means no quota.
#[pyfunction]
fn cpu_limits() -> (usize, Option<f64>) {
    let cpus = gristmill_machine::cpus();
    (cpus.allowed, cpus.quota)
}

/// Returns two sizes in bytes: the memory that this process and its children may use, and the machine's memory.
#[pyfunction]
fn memory_sizes() -> (u64, u64) {
    let memory = gristmill_machine::memory();
    (memory.usable, memory.machine)
}

/// Adds the functions.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(cpu_count, module)?)?;
    module.add_function(wrap_pyfunction!(cpu_limits, module)?)?;
    module.add_function(wrap_pyfunction!(memory_sizes, module)?)
}
