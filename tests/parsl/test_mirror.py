"""``import gristmill as parsl``: Parsl's module paths and names, with Parsl and without."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import gristmill
from gristmill.parsl.presence import is_parsl_installed

HAS_PARSL = is_parsl_installed()
#: Hides Parsl from a program, if it is installed.
WITHOUT_PARSL = "import sys; sys.modules['parsl'] = None\n"

NAMES = [
    ("addresses", "address_by_hostname address_by_route get_all_addresses"),
    ("app.app", "python_app bash_app join_app"),
    ("app.errors", "AppTimeout BashExitFailure MissingOutputs BadStdStreamFile AppBadFormatting"),
    ("app.futures", "DataFuture"),
    ("app.bash", "BashApp"),
    ("app.python", "PythonApp"),
    ("concurrent", "ParslPoolExecutor"),
    ("config", "Config"),
    ("data_provider.data_manager", "DataManager"),
    ("data_provider.files", "File"),
    ("data_provider.file_noop", "NoOpFileStaging"),
    ("data_provider.ftp", "FTPSeparateTaskStaging FTPInTaskStaging"),
    ("data_provider.http", "HTTPSeparateTaskStaging HTTPInTaskStaging"),
    ("data_provider.rsync", "RSyncStaging"),
    ("data_provider.staging", "Staging"),
    ("data_provider.zip", "ZipFileStaging"),
    ("dataflow.dependency_resolvers", "DEEP_DEPENDENCY_RESOLVER SHALLOW_DEPENDENCY_RESOLVER"),
    ("dataflow.dflow", "DataFlowKernel DataFlowKernelLoader"),
    ("dataflow.errors", "DependencyError JoinError BadCheckpoint"),
    ("dataflow.futures", "AppFuture"),
    ("dataflow.memoization", "BasicMemoizer Memoizer id_for_memo"),
    ("dataflow.states", "States FINAL_STATES"),
    ("dataflow.taskrecord", "TaskRecord"),
    ("errors", "ConfigurationError NoDataFlowKernelError OptionalModuleMissing"),
    ("executors", "HighThroughputExecutor ThreadPoolExecutor MPIExecutor FluxExecutor"),
    ("executors", "WorkQueueExecutor GlobusComputeExecutor"),
    ("executors.base", "ParslExecutor"),
    ("executors.errors", "UnsupportedFeatureError InvalidResourceSpecification"),
    ("executors.high_throughput.errors", "WorkerLost ManagerLost"),
    ("executors.high_throughput.executor", "HighThroughputExecutor"),
    ("executors.high_throughput.mpi_executor", "MPIExecutor"),
    ("executors.taskvine", "TaskVineExecutor TaskVineManagerConfig TaskVineFactoryConfig"),
    ("executors.threads", "ThreadPoolExecutor"),
    ("executors.workqueue.executor", "WorkQueueExecutor"),
    ("launchers", "SimpleLauncher SingleNodeLauncher SrunLauncher MpiExecLauncher WrappedLauncher"),
    ("log_utils", "set_file_logger set_stream_logger"),
    ("logconfigs.file", "FileLogging"),
    ("logconfigs.json", "JSONLogging"),
    ("monitoring", "MonitoringHub"),
    ("providers", "LocalProvider SlurmProvider KubernetesProvider PBSProProvider AWSProvider"),
    ("providers.slurm.slurm", "SlurmProvider"),
    ("serialize", "serialize deserialize"),
    ("serialize.errors", "SerializationError"),
    ("usage_tracking.levels", "LEVEL_1"),
    ("utils", "get_all_checkpoints get_last_checkpoint RepresentationMixin"),
]


def _run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("prologue", ["", WITHOUT_PARSL], ids=["as it is", "without Parsl"])
def test_every_name_can_be_imported_looked_up_and_taken_with_all_others(prologue: str) -> None:
    lines = [f"from gristmill.{path} import {', '.join(names.split())}" for path, names in NAMES]
    lines += ["import gristmill"]
    lines += [f"gristmill.{path}.{names.split()[0]}" for path, names in NAMES]
    lines += ["from gristmill import *", "from gristmill.providers import *"]
    lines += ["python_app, bash_app, join_app, Config, File, AUTO_LOGNAME, MonitoringHub"]
    lines += ["HighThroughputExecutor, WorkQueueExecutor, ThreadPoolExecutor, LocalProvider"]
    _run("\n".join([prologue, *lines]))


def test_a_module_below_a_mirrored_one_is_mirrored_too() -> None:
    assert gristmill.dataflow.futures.AppFuture is gristmill.parsl.futures.AppFuture
    threads = gristmill.executors.threads
    assert threads.__name__ == "gristmill.executors.threads"
    assert threads.ThreadPoolExecutor is gristmill.ThreadPoolExecutor


def test_what_is_nowhere_is_not_found() -> None:
    with pytest.raises(ModuleNotFoundError):
        __import__("gristmill.nonsense")
    with pytest.raises(ModuleNotFoundError):
        __import__("gristmill.executors.nonsense")
    with pytest.raises(ImportError, match="nonsense"):
        from gristmill.executors import nonsense  # noqa: F401


def test_what_only_parsl_has_says_what_to_install() -> None:
    program = WITHOUT_PARSL + "try:\n    import gristmill.jobs.strategy\n"
    program += "except ModuleNotFoundError as error:\n    print(error)\n"
    program += "try:\n    from gristmill.executors import Nonsense\n"
    program += "except ImportError as error:\n    print('import')\n"
    assert "pip install parsl" in _run(program)


@pytest.mark.skipif(not HAS_PARSL, reason="needs Parsl")
def test_parsls_own_parts_are_parsls_where_it_is_installed() -> None:
    import parsl

    assert gristmill.HighThroughputExecutor is parsl.HighThroughputExecutor
    assert gristmill.providers.LocalProvider is parsl.providers.LocalProvider
    assert gristmill.configs.local_threads.config.executors[0].label == "threads"
    assert gristmill.jobs.error_handlers is not None


@pytest.mark.skipif(not HAS_PARSL, reason="needs Parsl")
def test_parsl_is_not_imported_by_a_program_that_needs_none_of_it(tmp_path: Path) -> None:
    program = f"""
import sys, gristmill
from gristmill.config import Config
from gristmill.dataflow.memoization import BasicMemoizer
from gristmill.executors.threads import ThreadPoolExecutor
hasattr(gristmill, "nonsense")
@gristmill.python_app
def double(value): return 2 * value
@gristmill.bash_app
def true(): return "true"
@gristmill.join_app
def again(value): return double(value)
with gristmill.load(Config(run_dir={str(tmp_path)!r})):
    assert (double(double(1)).result(), true().result(), again(2).result()) == (4, 0, 4)
print([name for name in sys.modules if name.startswith("parsl")])
"""
    assert _run(program) == "[]\n"


@pytest.mark.skipif(not HAS_PARSL, reason="needs Parsl")
@pytest.mark.parametrize(
    ("ours", "module", "theirs"),
    [
        ("AppTimeout", "parsl.app.errors", "AppTimeout"),
        ("DependencyError", "parsl.dataflow.errors", "DependencyError"),
        ("WorkerLost", "parsl.executors.high_throughput.errors", "WorkerLost"),
        ("UnpicklableError", "parsl.serialize.errors", "SerializationError"),
    ],
)
def test_except_clauses_for_parsls_errors_catch_ours(ours: str, module: str, theirs: str) -> None:
    from gristmill.parsl import errors

    kind = getattr(errors, ours)
    assert issubclass(kind, getattr(__import__(module, fromlist=[theirs]), theirs))
    if ours in ("WorkerLost", "UnpicklableError"):
        assert str(kind("what happened")) == "what happened"
