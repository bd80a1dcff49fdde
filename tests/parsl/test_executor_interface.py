"""The interface that every executor of the Parsl surface has, under Parsl's kernel and under ours."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from gristmill.parsl import GristmillExecutor, ThreadPoolExecutor
from gristmill.parsl.executors.base import ParslExecutor

from stage import Script

EXECUTORS = pytest.mark.parametrize("kind", [GristmillExecutor, ThreadPoolExecutor])


class InPlace(ParslExecutor):
    """A user's executor, as small as possible."""

    def __init__(self, label: str, greeting: str = "hello") -> None:
        super().__init__()
        self.label = label
        self.greeting = greeting

    def submit(
        self,
        func: Callable[..., Any],
        /,
        resource_specification: dict[str, Any],
        *args: Any,
        **kwargs: Any,
    ) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(func(*args, **kwargs))
        return future

    def shutdown(self) -> None:
        super().shutdown()


class Receiver:
    """A stand-in for the receiver of a run's monitoring messages."""

    is_ended = False

    def shutdown(self) -> None:
        self.is_ended = True


@EXECUTORS
def test_an_executor_is_made_again_from_its_repr(kind: type[ParslExecutor]) -> None:
    options = {"label": "mine", "working_dir": "/tmp", "storage_access": []}
    executor = kind(**options, remote_monitoring_radio="radio")  # type: ignore[call-arg]
    again = eval(repr(executor))
    assert type(again) is kind
    for name in inspect.signature(kind).parameters:
        assert getattr(again, name) == getattr(executor, name)


def test_a_repr_has_required_arguments_by_position_and_the_others_by_name() -> None:
    assert repr(InPlace("mine")) == "InPlace('mine', greeting='hello')"


def test_a_long_repr_has_one_argument_a_line() -> None:
    executor = InPlace("mine", greeting="h" * 80)
    assert repr(executor).splitlines() == [
        "InPlace(",
        "    'mine',",
        f"    greeting='{'h' * 80}'",
        ")",
    ]


def test_a_repr_without_the_attribute_of_an_argument_says_which() -> None:
    executor = InPlace("mine")
    del executor.greeting
    with pytest.raises(AttributeError, match="InPlace has the parameter greeting"):
        repr(executor)


def test_an_executor_of_a_users_own_needs_submit_and_shutdown_only() -> None:
    with InPlace("mine") as executor:
        executor.start()
        assert executor.submit(max, {}, 1, 2).result() == 2
        assert executor.monitor_resources()


def test_an_executor_without_submit_cannot_be_made() -> None:
    with pytest.raises(TypeError, match="abstract"):
        ParslExecutor()  # type: ignore[abstract]


@EXECUTORS
def test_the_end_of_an_executor_ends_its_receiver_of_messages(kind: type[ParslExecutor]) -> None:
    receiver = Receiver()
    with kind() as executor:
        executor.monitoring_receiver = receiver
    assert receiver.is_ended


def test_a_run_folder_is_absolute_before_a_kernel_sets_it() -> None:
    assert InPlace("mine").run_dir == os.path.abspath(".")


def test_executors_are_made_without_loading_parsl(script: Script) -> None:
    text = """
        import sys
        from gristmill.parsl import GristmillExecutor, ThreadPoolExecutor
        GristmillExecutor(), ThreadPoolExecutor()
        print("parsl" in sys.modules)
    """
    assert script.run(text) == "False\n"
