"""All exceptions of the Parsl surface, by Parsl's names.

If a program has imported Parsl, each exception is also an instance of Parsl's exception of that name, so ``except``
clauses written for Parsl catch it. This module never imports Parsl: programs without such clauses do not pay for that.
"""

from __future__ import annotations

import importlib
import sys
from functools import partial

from gristmill._errors import GristmillError, UnpicklableError, WorkerLostError
from gristmill._when_imported import when_imported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType
    from typing import Any

    from gristmill.parsl._kernel.files import File


class ParslError(GristmillError):
    """The base of all exceptions of the Parsl surface."""

    code = "parsl_error"


class ConfigurationError(ParslError):
    """A configuration that cannot be used."""

    code = "configuration_invalid"


class OptionalModuleMissing(ParslError):
    """A feature that needs a module that is not installed."""

    code = "optional_module_missing"

    def __init__(self, module_names: list[str], reason: str) -> None:
        super().__init__(module_names, reason)
        self.module_names = module_names
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"this needs {', '.join(self.module_names)}, which could not be imported: {self.reason}"
        )


class InternalConsistencyError(ParslError):
    """A broken invariant."""

    code = "internal_inconsistency"


class NoDataFlowKernelError(ParslError):
    """A missing data-flow kernel: none was loaded, or it was cleaned up."""

    code = "no_kernel"


class AppException(ParslError):
    """An app that could not run to its end."""

    code = "app_failed"


class AppBadFormatting(ParslError):
    """A bash app whose function failed to make the command line."""

    code = "app_bad_formatting"


class BashExitFailure(AppException):
    """A bash app whose command line ended with an exit code other than 0."""

    code = "bash_exit_failure"

    def __init__(self, app_name: str, exitcode: int) -> None:
        super().__init__(app_name, exitcode)
        self.app_name = app_name
        self.exitcode = exitcode

    def __str__(self) -> str:
        return f"bash_app {self.app_name} failed with unix exit code {self.exitcode}"


class AppTimeout(AppException):
    """An app that ran longer than its walltime."""

    code = "app_timeout"


class BashAppNoReturn(AppException):
    """A bash app whose function returned no command line."""

    code = "bash_no_return"

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class MissingOutputs(ParslError):
    """A bash app that succeeded without writing all of its output files."""

    code = "missing_outputs"

    def __init__(self, reason: str, outputs: list[File]) -> None:
        super().__init__(reason, outputs)
        self.reason = reason
        self.outputs = outputs

    def __str__(self) -> str:
        return f"{self.reason}: {', '.join(file.filepath for file in self.outputs)}"


class BadStdStreamFile(ParslError):
    """A file for standard output or error that cannot be opened, or an argument that does not specify one."""

    code = "bad_stream_file"

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self._reason = reason

    def __str__(self) -> str:
        return f"bad file for a standard stream: {self._reason}"


class DataFlowException(ParslError):
    """The base of errors in what surrounds a task: its dependencies and checkpoints."""

    code = "data_flow_failed"


class BadCheckpoint(DataFlowException):
    """A checkpoint that cannot be read."""

    code = "bad_checkpoint"

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return self.reason


#: Maximum number of tasks that a message about a chain of failures names.
_WAY_MAX = 100


class PropagatedException(DataFlowException):
    """A failure caused by the failures of other tasks.

    :param dependent_exceptions_tids: each failure with a description of its origin, such as ``"task 3"``.
    :param task_id: the number of the task that failed because of them.

    ``__cause__`` is the first failure that is not itself a ``PropagatedException``.
    """

    code = "propagated_failure"

    def __init__(
        self,
        dependent_exceptions_tids: Sequence[tuple[BaseException, str]],
        task_id: int,
        *,
        failure_description: str,
    ) -> None:
        super().__init__(dependent_exceptions_tids, task_id)
        self.dependent_exceptions_tids = dependent_exceptions_tids
        self.task_id = task_id
        self._failure_description = failure_description
        if dependent_exceptions_tids:
            first, _ = dependent_exceptions_tids[0]
            # In a chain of failures, each link already has the root as its cause.
            self.__cause__ = first.__cause__ if isinstance(first, PropagatedException) else first

    def __str__(self) -> str:
        return (
            f"{self._failure_description} for task {self.task_id}. "
            f"The representative cause is via {' <- '.join(self._way())}"
        )

    def __repr__(self) -> str:
        # The arguments are left out: a chain of failures may be deeper than the stack.
        return f"{type(self).__name__}({str(self)!r})"

    def _way(self) -> list[str]:
        """Returns the descriptions of the failed tasks, from the nearest to the root."""
        failure: Any = self
        way: list[str] = []
        while issubclass(type(failure), PropagatedException) and failure.dependent_exceptions_tids:
            others = " (+ others)" if len(failure.dependent_exceptions_tids) > 1 else ""
            failure, described = failure.dependent_exceptions_tids[0]
            way.append(described + others)
        left_out = len(way) - _WAY_MAX
        if left_out > 0:
            way[_WAY_MAX // 2 : -_WAY_MAX // 2] = [f"({left_out} more)"]
        return way


class DependencyError(PropagatedException):
    """A task that did not start because a task among its arguments failed."""

    code = "app_dependency_failed"

    def __init__(
        self, dependent_exceptions_tids: Sequence[tuple[BaseException, str]], task_id: int
    ) -> None:
        super().__init__(
            dependent_exceptions_tids, task_id, failure_description="Dependency failure"
        )


class JoinError(PropagatedException):
    """A join app that failed because a task it waited for failed."""

    code = "join_failed"

    def __init__(
        self, dependent_exceptions_tids: Sequence[tuple[BaseException, str]], task_id: int
    ) -> None:
        super().__init__(dependent_exceptions_tids, task_id, failure_description="Join failure")


class ExecutorError(ParslError):
    """An executor that cannot do what it was asked for."""

    code = "executor_failed"

    def __init__(self, executor: Any, reason: str) -> None:
        super().__init__(executor, reason)
        self.executor = executor
        self.reason = reason

    def __str__(self) -> str:
        return f"executor {self.executor.label} failed: {self.reason}"


class BadStateException(ExecutorError):
    """An executor that has failed for good."""

    code = "executor_bad_state"

    def __init__(self, executor: Any, exception: BaseException) -> None:
        super().__init__(executor, str(exception))


class UnsupportedFeatureError(ExecutorError):
    """A feature that this executor lacks and another one has."""

    code = "unsupported_feature"

    def __init__(self, feature: str, current_executor: str, target_executor: str | None) -> None:
        ParslError.__init__(self, feature, current_executor, target_executor)
        self.feature = feature
        self.current_executor = current_executor
        self.target_executor = target_executor

    def __str__(self) -> str:
        hint = f"; {self.target_executor} has it" if self.target_executor else ""
        return f"{self.current_executor} does not support {self.feature}{hint}"


class InvalidResourceSpecification(ExecutorError):
    """A resource specification with keys that the executor does not know, or values it cannot use."""

    code = "invalid_resource_specification"

    def __init__(self, invalid_keys: set[str], message: str = "") -> None:
        ParslError.__init__(self, invalid_keys, message)
        self.invalid_keys = invalid_keys
        self.message = message

    def __str__(self) -> str:
        return f"Invalid Resource Specification Supplied: {self.invalid_keys}. {self.message}"


class ScalingFailed(ExecutorError):
    """A block that a provider could not start or stop."""

    code = "scaling_failed"


#: The modules in which Parsl has exceptions of the same names.
_COUNTERPARTS: dict[str, tuple[type[Exception], ...]] = {
    "parsl.errors": (
        ParslError,
        ConfigurationError,
        OptionalModuleMissing,
        InternalConsistencyError,
        NoDataFlowKernelError,
    ),
    "parsl.app.errors": (
        AppException,
        AppBadFormatting,
        BashExitFailure,
        AppTimeout,
        BashAppNoReturn,
        MissingOutputs,
        BadStdStreamFile,
    ),
    "parsl.dataflow.errors": (
        DataFlowException,
        BadCheckpoint,
        PropagatedException,
        DependencyError,
        JoinError,
    ),
    "parsl.executors.errors": (
        ExecutorError,
        BadStateException,
        UnsupportedFeatureError,
        InvalidResourceSpecification,
        ScalingFailed,
    ),
    "parsl.executors.high_throughput.errors": (WorkerLostError,),
    "parsl.serialize.errors": (UnpicklableError,),
}
#: Exceptions that have another name in Parsl.
_NAMES_OF_PARSL: dict[type[Exception], str] = {
    UnpicklableError: "SerializationError",
    WorkerLostError: "WorkerLost",
}


def adopt(module_name: str, classes: Sequence[type[Exception]]) -> None:
    """Makes each class a subclass of Parsl's class of that name, after our own bases.

    The change happens once the program has imported that module of Parsl. Before the import no ``except`` clause can
    name Parsl's class, and importing it here would take seconds.
    """
    if module_name in sys.modules:
        # ``sys.modules`` may hold a module that another thread is still importing; ``import_module`` waits for it.
        _adopt(classes, importlib.import_module(module_name))
    else:
        when_imported(module_name, partial(_adopt, classes))


def _adopt(classes: Sequence[type[Exception]], module: ModuleType) -> None:
    for one in classes:
        counterpart = getattr(module, _NAMES_OF_PARSL.get(one, one.__name__), None)
        if isinstance(counterpart, type) and counterpart not in one.__mro__:
            _keep_own_behaviour(one)
            one.__bases__ = (*one.__bases__, counterpart)


def _keep_own_behaviour(one: type[Exception]) -> None:
    """Keeps methods inherited from ``Exception``: Parsl's base would override them with other signatures."""
    for name in ("__init__", "__str__"):
        setattr(one, name, getattr(one, name))


for _module_name, _classes in _COUNTERPARTS.items():
    adopt(_module_name, _classes)
