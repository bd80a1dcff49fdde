"""Apps: the objects that the decorators return, and their calls."""

from __future__ import annotations

import gc
import threading
import traceback
import weakref
from pathlib import Path
from typing import Any

import pytest

from gristmill import UnpicklableError
from gristmill.parsl import DataFlowKernel, File, bash_app, join_app, python_app
from gristmill.parsl._kernel import pool as pools
from gristmill.parsl.concurrent import ParslPoolExecutor
from gristmill.parsl.dataflow.futures import AppFuture
from gristmill.parsl.serialize.errors import SerializationError

import calls


@python_app
def add(left: int, right: int = 10, *, more: int = 0) -> int:
    """Adds."""
    return left + right + more


@python_app(cache=True, executors=["here"], ignore_for_cache=["right"])
def called(left: int, right: int = 1) -> int:
    return left * right


@python_app
def total(inputs: Any = ()) -> int:
    return sum(inputs)


@python_app
def write(text: str, outputs: Any = ()) -> str:
    Path(outputs[0]).write_text(text)
    return text


def apply(values: list[int]) -> str:
    """Mentions an app by its name."""
    return f"{add.__name__} {sum(values)}"


class Scale:
    """A class whose methods become apps."""

    def __init__(self, factor: int) -> None:
        self.factor = factor

    def times(self, value: int) -> int:
        return self.factor * value

    @python_app
    def decorated(self, value: int) -> int:
        return self.factor + value

    @staticmethod
    @python_app
    def plain(value: int) -> int:
        return -value


@pytest.mark.usefixtures("kernel")
class TestCalls:
    def test_a_call_gives_the_future_of_its_value(self) -> None:
        future = add(1, 2)
        assert isinstance(future, AppFuture)
        assert future.result() == 3

    def test_defaults_and_named_arguments_are_the_functions_own(self) -> None:
        assert add(1).result() == 11
        assert add(1, right=2, more=3).result() == 6
        assert add(left=1, right=1).result() == 2

    def test_wrong_arguments_fail_the_task_and_not_the_call(self) -> None:
        with pytest.raises(TypeError, match="unexpected"):
            add(1, unexpected=2).result()
        with pytest.raises(TypeError, match="left"):
            add().result()

    def test_an_exception_has_its_type_and_the_line_it_came_from(self) -> None:
        @python_app
        def fail(message: str) -> None:
            raise KeyError(message)

        with pytest.raises(KeyError, match="lost") as failure:
            fail("lost").result()
        assert "in fail" in "".join(traceback.format_exception(failure.value))

    def test_inputs_are_given_as_a_list_of_values(self) -> None:
        assert total(inputs=[1, add(1, 1), add(2, 2)]).result() == 7
        assert total().result() == 0

    def test_outputs_are_futures_of_files(self, tmp_path: Path) -> None:
        path = tmp_path / "output"
        future = write("text", outputs=[File(str(path))])
        (there,) = future.outputs
        assert there.filepath == str(path)
        assert there.result().filepath == str(path)
        assert Path(there.filepath).read_text() == "text"
        assert there.tid == future.tid

    def test_a_file_of_one_call_can_be_given_to_another(self, tmp_path: Path) -> None:
        @python_app
        def read(inputs: Any = ()) -> str:
            return Path(inputs[0]).read_text()

        written = write("once", outputs=[File(str(tmp_path / "output"))])
        assert read(inputs=[written.outputs[0]]).result() == "once"

    def test_default_lists_are_not_shared_by_calls(self, tmp_path: Path) -> None:
        @python_app
        def grow(inputs: Any = [1]) -> list[int]:  # noqa: B006 - what is tested
            inputs.append(2)
            return list(inputs)

        assert [grow().result(), grow().result()] == [[1, 2], [1, 2]]

    def test_a_function_may_mention_apps(self) -> None:
        assert python_app(apply)([1, 2]).result() == "add 3"

        def by_value(value: int) -> tuple[str, int]:
            return add.__name__, value

        assert python_app(by_value)(1).result() == ("add", 1)

    def test_an_app_may_call_the_function_of_another(self) -> None:
        @python_app
        def outer(value: int) -> int:
            return add.func(value, value)

        assert outer(4).result() == 8

    def test_lambdas_and_closures_are_apps(self) -> None:
        factor = 3
        scale = python_app(lambda value: factor * value)
        assert scale(2).result() == 6
        assert scale.__name__ == "<lambda>"

    def test_built_in_functions_are_apps(self) -> None:
        assert python_app(max)(1, 5, 3).result() == 5

    def test_methods_are_apps(self) -> None:
        scale = Scale(5)
        assert python_app(scale.times)(2).result() == 10
        assert Scale.decorated(scale, 2).result() == 7
        assert Scale.plain(2).result() == -2

    def test_an_app_in_a_class_is_not_bound_to_the_object(self) -> None:
        assert Scale(5).plain(2).result() == -2

    def test_an_app_may_be_an_argument(self) -> None:
        assert python_app(lambda app: app.func(1, 1))(add).result() == 2

    def test_large_and_many_arguments_arrive(self) -> None:
        @python_app
        def count(*args: Any, **kwargs: Any) -> tuple[int, int, int]:
            return len(args), len(kwargs), len(args[0])

        block = b"x" * 3_000_000
        names = {f"name_{number}": number for number in range(2_000)}
        assert count(block, *range(20_000), **names).result() == (20_001, 2_000, 3_000_000)

    def test_an_argument_that_cannot_be_sent_fails_the_task_and_not_the_call(
        self, engine_only: DataFlowKernel
    ) -> None:
        future = add(threading.Lock(), 1)
        assert isinstance(future.exception(), UnpicklableError)
        with pytest.raises(SerializationError):
            future.result()


def test_decorating_says_what_was_decorated() -> None:
    assert (add.__name__, add.__doc__) == ("add", "Adds.")
    assert (add.cache, add.executors, add.ignore_for_cache) == (False, "all", None)
    assert called.func(2, 3) == 6
    assert (called.cache, called.executors, called.ignore_for_cache) == (True, ["here"], ["right"])
    assert total.kwargs == {"inputs": ()}


@pytest.mark.parametrize("decorate", [python_app, bash_app])
@pytest.mark.parametrize(
    "options",
    [
        {"executors": "here"},
        {"executors": [1]},
        {"executors": 5},
        {"cache": "yes"},
        {"ignore_for_cache": "name"},
    ],
)
def test_options_of_a_wrong_type_are_refused_where_they_are_written(
    decorate: Any, options: dict[str, Any]
) -> None:
    with pytest.raises(TypeError):
        decorate(**options)(len)


@pytest.mark.parametrize("decorate", [python_app, bash_app, join_app])
def test_what_is_no_function_is_refused_where_it_is_decorated(decorate: Any) -> None:
    with pytest.raises(TypeError, match="function"):
        decorate(5)


@pytest.mark.parametrize("kind", ["threads", "engine"])
def test_an_app_may_be_bound_to_a_kernel(make_kernel: Any, kind: str) -> None:
    bound = python_app(add.func, data_flow_kernel=make_kernel(kind))
    assert bound(1).result() == 11


def test_an_executor_that_is_not_there_fails_the_task(make_kernel: Any) -> None:
    kernel = make_kernel("threads")
    app = python_app(add.func, data_flow_kernel=kernel, executors=["elsewhere"])
    with pytest.raises(ValueError, match="elsewhere"):
        app(1).result()


def test_a_pool_keeps_few_of_the_functions_that_it_was_given(make_kernel: Any) -> None:
    class Value:
        pass

    def function_of(value: Value) -> Any:
        return lambda: value is None

    references = []
    with ParslPoolExecutor(dfk=make_kernel("threads")) as pool:
        for _ in range(100):
            value = Value()
            references.append(weakref.ref(value))
            assert pool.submit(function_of(value)).result() is False
        del value
        gc.collect()
        assert sum(one() is not None for one in references) <= 70
        assert pool.app_count == 100


def test_a_pool_keeps_the_functions_that_were_used_last(
    make_kernel: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "_APPS_MAX", 2)
    with ParslPoolExecutor(dfk=make_kernel("threads")) as pool:
        app = pool.get_app(calls.same)
        for _ in range(10):
            pool.get_app(lambda: None)
            assert pool.get_app(calls.same) is app


def test_an_app_goes_with_its_last_reference(make_kernel: Any) -> None:
    kernel = make_kernel("engine")
    app = python_app(calls.same, data_flow_kernel=kernel)
    assert app(1).result() == 1
    reference = weakref.ref(app)
    del app
    gc.collect()
    assert reference() is None
