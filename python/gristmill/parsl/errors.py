"""Every exception of the Parsl surface, by Parsl's names.

Where Parsl is installed each is also an instance of Parsl's exception of that name: ``except`` clauses written for
Parsl catch it. In a worker they are not: it would have to import Parsl to say what went wrong, and it is the client who
catches, which unpickles the exception into its own classes.
"""

from __future__ import annotations

import importlib
import sys

from gristmill._errors import GristmillError, UnpicklableError, WorkerLost
from gristmill.parsl.presence import is_parsl_installed, is_parsl_loaded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from gristmill.parsl.files import File


class ParslError(GristmillError):
    """The base of all of them."""


class ConfigurationError(ParslError):
    """A configuration that cannot be used."""


class OptionalModuleMissing(ParslError):
    """A feature needs a module that is not installed."""

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


class NoDataFlowKernelError(ParslError):
    """There is no data-flow kernel: none was loaded, or it was cleaned up."""


class AppException(ParslError):
    """An app could not be run to its end."""


class AppBadFormatting(ParslError):
    """The body of a bash app could not make its command line."""


class BashExitFailure(AppException):
    """The command line of a bash app ended with another exit code than 0."""

    def __init__(self, app_name: str, exitcode: int) -> None:
        super().__init__(app_name, exitcode)
        self.app_name = app_name
        self.exitcode = exitcode

    def __str__(self) -> str:
        return f"bash_app {self.app_name} failed with unix exit code {self.exitcode}"


class AppTimeout(AppException):
    """An app ran longer than its walltime."""


class BashAppNoReturn(AppException):
    """The body of a bash app returned no command line."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class MissingOutputs(ParslError):
    """A bash app ended well, and files it was to write are not there."""

    def __init__(self, reason: str, outputs: list[File]) -> None:
        super().__init__(reason, outputs)
        self.reason = reason
        self.outputs = outputs

    def __str__(self) -> str:
        return f"{self.reason}: {', '.join(file.filepath for file in self.outputs)}"


class BadStdStreamFile(ParslError):
    """A file for standard output or error that cannot be opened, or no specification of one."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self._reason = reason

    def __str__(self) -> str:
        return f"bad file for a standard stream: {self._reason}"


class DataFlowException(ParslError):
    """The base of what the kernel says of a task's surroundings."""


class BadCheckpoint(DataFlowException):
    """A checkpoint that cannot be read."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return self.reason


#: How many tasks a message about a chain of failures names.
_WAY_MAX = 100


class PropagatedException(DataFlowException):
    """Other tasks failed, and so this one did.

    :param dependent_exceptions_tids: each failure with a description of where it came from, as ``"task 3"``.
    :param task_id: the number of the task that failed because of them.

    The cause is the first failure that is not itself one of these.
    """

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
            # Of a long chain each link has the root already.
            self.__cause__ = first.__cause__ if isinstance(first, PropagatedException) else first

    def __str__(self) -> str:
        return (
            f"{self._failure_description} for task {self.task_id}. "
            f"The representative cause is via {' <- '.join(self._way())}"
        )

    def __repr__(self) -> str:
        # Not its arguments: a chain of failures may be deeper than the stack.
        return f"{type(self).__name__}({str(self)!r})"

    def _way(self) -> list[str]:
        """From the nearest task to the root."""
        failure: BaseException = self
        way: list[str] = []
        while isinstance(failure, PropagatedException) and failure.dependent_exceptions_tids:
            others = " (+ others)" if len(failure.dependent_exceptions_tids) > 1 else ""
            failure, described = failure.dependent_exceptions_tids[0]
            way.append(described + others)
        left_out = len(way) - _WAY_MAX
        if left_out > 0:
            way[_WAY_MAX // 2 : -_WAY_MAX // 2] = [f"({left_out} more)"]
        return way


class DependencyError(PropagatedException):
    """A task among the arguments failed; this one was not started."""

    def __init__(
        self, dependent_exceptions_tids: Sequence[tuple[BaseException, str]], task_id: int
    ) -> None:
        super().__init__(
            dependent_exceptions_tids, task_id, failure_description="Dependency failure"
        )


class JoinError(PropagatedException):
    """A task that a join app waited for failed."""

    def __init__(
        self, dependent_exceptions_tids: Sequence[tuple[BaseException, str]], task_id: int
    ) -> None:
        super().__init__(dependent_exceptions_tids, task_id, failure_description="Join failure")


class ExecutorError(ParslError):
    """An executor cannot do what it was asked for."""

    def __init__(self, executor: Any, reason: str) -> None:
        super().__init__(executor, reason)
        self.executor = executor
        self.reason = reason

    def __str__(self) -> str:
        return f"executor {self.executor.label} failed: {self.reason}"


class BadStateException(ExecutorError):
    """An executor has failed for good."""

    def __init__(self, executor: Any, exception: BaseException) -> None:
        super().__init__(executor, str(exception))


class UnsupportedFeatureError(ExecutorError):
    """A feature that this executor does not have, and that another one has."""

    def __init__(self, feature: str, current_executor: str, target_executor: str | None) -> None:
        ParslError.__init__(self, feature, current_executor, target_executor)
        self.feature = feature
        self.current_executor = current_executor
        self.target_executor = target_executor

    def __str__(self) -> str:
        hint = f"; {self.target_executor} has it" if self.target_executor else ""
        return f"{self.current_executor} does not support {self.feature}{hint}"


class InvalidResourceSpecification(ExecutorError):
    """Keys of a resource specification that the executor does not know, or values it cannot use."""

    def __init__(self, invalid_keys: set[str], message: str = "") -> None:
        ParslError.__init__(self, invalid_keys, message)
        self.invalid_keys = invalid_keys
        self.message = message

    def __str__(self) -> str:
        return f"Invalid Resource Specification Supplied: {self.invalid_keys}. {self.message}"


class ScalingFailed(ExecutorError):
    """A provider could not start or stop a block."""


#: Where Parsl has its exceptions of the same names.
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
    "parsl.executors.high_throughput.errors": (WorkerLost,),
    "parsl.serialize.errors": (UnpicklableError,),
}
#: Those that Parsl has by another name.
_NAMES_OF_PARSL: dict[type[Exception], str] = {UnpicklableError: "SerializationError"}


def _adopt_counterparts() -> None:
    """Makes each class a subclass of Parsl's of that name, behind our own bases."""
    for module_name, classes in _COUNTERPARTS.items():
        module = importlib.import_module(module_name)
        for one in classes:
            counterpart = getattr(module, _NAMES_OF_PARSL.get(one, one.__name__), None)
            if isinstance(counterpart, type) and counterpart not in one.__mro__:
                _keep_own_behaviour(one)
                one.__bases__ = (*one.__bases__, counterpart)


def _keep_own_behaviour(one: type[Exception]) -> None:
    """What the class inherits from ``Exception`` would else come from Parsl's, which wants other arguments."""
    for name in ("__init__", "__str__"):
        setattr(one, name, getattr(one, name))


def _is_client() -> bool:
    """Whether this process is no worker: nothing has been served here."""
    return "gristmill._zygote" not in sys.modules


if is_parsl_loaded() or (_is_client() and is_parsl_installed()):
    _adopt_counterparts()
