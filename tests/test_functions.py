"""Functions by name and by value: workers call the version that the caller has now."""

from __future__ import annotations

import functools
import importlib
import itertools
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import gristmill
from gristmill import Executor, _functions, _resources

import calls
from stage import Script

pytestmark = pytest.mark.interpreter


def resident_kib() -> int:
    """Returns the resident memory that this process shares with no other, KiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1])
    raise AssertionError("the kernel does not say")


def test_lambdas_and_closures(shared: Executor) -> None:
    offset = 40

    def inner(value: int) -> int:
        return value + offset

    assert shared.submit(lambda: 1 + 1).result() == 2
    assert shared.submit(inner, 2).result() == 42
    assert list(shared.map(lambda value: value + offset, range(3))) == [40, 41, 42]


def test_builtins_types_and_callable_objects(shared: Executor) -> None:
    class Adder:
        def __init__(self, amount: int) -> None:
            self.amount = amount

        def __call__(self, value: int) -> int:
            return value + self.amount

    assert shared.submit(len, "four").result() == 4
    assert shared.submit(dict, a=1).result() == {"a": 1}
    adder = Adder(1)
    assert shared.submit(adder, 1).result() == 2
    adder.amount = 10
    assert shared.submit(adder, 1).result() == 11


def test_partials(shared: Executor) -> None:
    partial = functools.partial(calls.add, 1, 2)
    assert shared.submit(partial, 3).result() == 6
    assert shared.submit(functools.partial(lambda a, b: (a, b), b=2), 1).result() == (1, 2)


def test_bound_methods_see_their_object_as_it_is(shared: Executor) -> None:
    words = ["b", "a"]
    assert shared.submit(words.index, "a").result() == 1
    words.insert(0, "a")
    assert shared.submit(words.index, "a").result() == 0
    assert shared.submit("{} {}".format, 1, 2).result() == "1 2"


def test_a_captured_list_that_changed(shared: Executor) -> None:
    held: list[int] = []

    def count() -> int:
        return len(held)

    assert shared.submit(count).result() == 0
    held.append(1)
    assert shared.submit(count).result() == 1
    held.extend([2, 3])
    assert shared.submit(count).result() == 3


def test_a_captured_name_that_was_bound_anew(shared: Executor) -> None:
    number = 1

    def read() -> int:
        return number

    assert shared.submit(read).result() == 1
    number = 2
    assert shared.submit(read).result() == 2
    first = [shared.submit(lambda: item) for item in range(20)]  # noqa: B023 - as bound now
    assert [future.result() for future in first] == list(range(20))


def test_a_captured_function_whose_captures_changed(shared: Executor) -> None:
    box = {"value": 1}

    def inner() -> int:
        return box["value"]

    def outer() -> int:
        return inner()

    assert shared.submit(outer).result() == 1
    box["value"] = 2
    assert shared.submit(outer).result() == 2


def test_defaults_that_changed(shared: Executor) -> None:
    def read(value: int = 1, *, more: int = 10) -> int:
        return value + more

    assert shared.submit(read).result() == 11
    read.__defaults__ = (2,)
    assert shared.submit(read).result() == 12
    read.__kwdefaults__ = {"more": 20}
    assert shared.submit(read).result() == 22


def test_mutable_default_that_changed(shared: Executor) -> None:
    def count(held: list[int] = []) -> int:  # noqa: B006 - what is tested
        return len(held)

    assert shared.submit(count).result() == 0
    assert count.__defaults__ is not None
    count.__defaults__[0].append(1)
    assert shared.submit(count).result() == 1


def test_code_that_was_replaced(shared: Executor) -> None:
    def function() -> int:
        return 1

    def other() -> int:
        return 2

    assert shared.submit(function).result() == 1
    function.__code__ = other.__code__
    assert shared.submit(function).result() == 2


def test_an_attribute_of_a_function_that_changed(shared: Executor) -> None:
    def function() -> int:
        return function.value  # type: ignore[attr-defined, no-any-return]

    function.value = 1  # type: ignore[attr-defined]
    assert shared.submit(function).result() == 1
    function.value = 2  # type: ignore[attr-defined]
    assert shared.submit(function).result() == 2


def test_an_attribute_of_a_function_that_came_later(shared: Executor) -> None:
    def function() -> int:
        return getattr(function, "value", 0)

    alone = eval("lambda: 0")

    def outer() -> list[object]:
        return [function(), getattr(alone, "value", 0)]

    assert shared.submit(function).result() == 0
    assert shared.submit(outer).result() == [0, 0]
    function.value = alone.value = 1  # type: ignore[attr-defined]
    assert shared.submit(function).result() == 1
    assert shared.submit(outer).result() == [1, 1]
    function.value = alone.value = [2]  # type: ignore[attr-defined]
    assert shared.submit(function).result() == [2]
    assert shared.submit(outer).result() == [[2], [2]]
    function.value.append(3)  # type: ignore[attr-defined]
    assert shared.submit(function).result() == [2, 3]
    del function.value  # type: ignore[attr-defined]
    assert shared.submit(function).result() == 0


def test_an_attribute_of_a_function_of_the_main_module_that_came_later(script: Script) -> None:
    source = """
    import gristmill, sys
    def function():
        return hasattr(function, "value")
    with gristmill.Executor(1) as executor:
        print(executor.submit(function).result())
        function.value = 1
        print(executor.submit(function).result())
    """
    assert script.run(source).split() == ["False", "True"]


def test_recursive_closures(shared: Executor) -> None:
    def factorial(number: int) -> int:
        return 1 if number < 2 else number * factorial(number - 1)

    def is_even(number: int) -> bool:
        return number == 0 or is_odd(number - 1)

    def is_odd(number: int) -> bool:
        return number != 0 and is_even(number - 1)

    assert shared.submit(factorial, 10).result() == 3628800
    assert shared.submit(is_even, 10).result() is True


def test_decorated_functions(shared: Executor) -> None:
    def twice(function: Callable[[int], int]) -> Callable[[int], int]:
        @functools.wraps(function)
        def wrapper(value: int) -> int:
            return 2 * function(value)

        return wrapper

    @twice
    def add_one(value: int) -> int:
        return value + 1

    assert shared.submit(add_one, 3).result() == 8
    assert shared.submit(functools.lru_cache(lambda value: value + 1), 3).result() == 4


def test_functions_of_the_main_module(script: Script) -> None:
    printed = script.run(
        """
        import functools
        from gristmill import Executor

        factor = 3

        @functools.lru_cache
        def fibonacci(number): return number if number < 2 else fibonacci(number - 1) + fibonacci(number - 2)

        class Point:
            def __init__(self, x): self.x = x
            def scaled(self): return Point(self.x * factor)

        def scale(value): return value * factor

        def main():
            global factor
            with Executor(2) as executor:
                print(executor.submit(scale, 2).result())
                factor = 5
                print(executor.submit(scale, 2).result())
                print(executor.submit(Point(2).scaled).result().x)
                print(list(executor.map(scale, range(3))))
                print(executor.submit(fibonacci, 80).result())
                print(isinstance(executor.submit(Point, 4).result(), Point))

        main()
        """
    )
    assert printed.split("\n") == ["6", "10", "10", "[0, 5, 10]", "23416728348467685", "True", ""]


def test_functions_of_a_program_without_a_file() -> None:
    import subprocess

    text = "import gristmill\nwith gristmill.Executor(1) as ex:\n  print(ex.submit(lambda x: x + 1, 1).result())"
    for arguments, given in ((["-c", text], None), (["-"], text)):
        process = subprocess.run(
            [sys.executable, *arguments], input=given, capture_output=True, text=True, check=True
        )
        assert process.stdout == "2\n", process.stderr


def test_a_program_without_a_main_guard_is_not_run_again(script: Script) -> None:
    printed = script.run(
        """
        import gristmill
        print("once")
        executor = gristmill.Executor(2, start="spawn")
        print(executor.submit(lambda: 7).result())
        """
    )
    assert printed == "once\n7\n"


def test_an_edited_module_is_noticed(
    make_executor: Callable[..., Executor], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(tmp_path)
    module_file = tmp_path / "edited_module.py"
    module_file.write_text("def value():\n    return 1\n")
    module = importlib.import_module("edited_module")
    executor = make_executor(1)
    assert executor.submit(module.value).result() == 1
    module_file.write_text("def value():\n    return 'second version'\n")
    importlib.invalidate_caches()
    module = importlib.reload(module)
    assert executor.submit(module.value).result() == "second version"
    # The caller has not reloaded: a new worker must not silently run other code.
    module_file.write_text("def value():\n    return 'third version, unknown to the caller'\n")
    stale = make_executor(1)
    with pytest.raises(gristmill.GristmillError, match="edited"):
        stale.submit(module.value).result()
    sys.modules.pop("edited_module")


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [("a, b", "a, *, b"), ("a, b", "a, b, /"), ("a, *b", "a, b"), ("a, **b", "a, b")],
)
def test_an_edited_signature_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mine: str, theirs: str
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(tmp_path)
    module_file = tmp_path / "signature_module.py"
    module_file.write_text(f"def both({mine}):\n    return a, b\n")
    importlib.invalidate_caches()
    definition = _functions.definition(importlib.import_module("signature_module").both)
    # The length differs, because the import system may otherwise take the two files for one.
    module_file.write_text(f"def both({theirs}):\n    return a, b\n\n")
    sys.modules.pop("signature_module")
    importlib.invalidate_caches()
    with pytest.raises(gristmill.GristmillError, match="edited"):
        _functions.load(definition)
    sys.modules.pop("signature_module")


def test_a_function_of_a_module_whose_file_is_gone_goes_by_value(
    shared: Executor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    missing = tmp_path / "gone_module.py"
    missing.write_text("factor = 3\ndef value():\n    return factor\n")
    module = importlib.import_module("gone_module")
    missing.unlink()
    for cached in (tmp_path / "__pycache__").glob("*"):
        cached.unlink()
    assert shared.submit(module.value).result() == 3
    sys.modules.pop("gone_module")


def test_an_unpicklable_function_names_what_it_captures(shared: Executor) -> None:
    lock = __import__("threading").Lock()

    def locked() -> None:
        lock.acquire()

    with pytest.raises(gristmill.UnpicklableError, match=r"captures 'lock'.*lock"):
        shared.submit(locked)


@pytest.mark.long
def test_fresh_functions_leave_memory_flat(make_executor: Callable[..., Executor]) -> None:
    executor = make_executor(1)

    def worker_kib() -> int:
        text = Path("/proc/self/status").read_text()
        return int(text.partition("VmRSS:")[2].split()[0])

    def burst(start: int, count: int = 2000) -> None:
        for number in range(start, start + count):
            # Each has another constant in its code, and is therefore another function.
            function = eval(f"lambda: {number}")
            assert executor.submit(function).result() == number

    # These are more than are kept; each counts as 2 KB and its pickled form.
    burst(1_000_000, min(max(_resources.memory_size() >> 10, 4 << 20), 256 << 20) >> 11)
    before, worker_before = resident_kib(), executor.submit(worker_kib).result()
    burst(10_000)
    burst(20_000)
    assert resident_kib() - before < 2700
    assert executor.submit(worker_kib).result() - worker_before < 2700


def test_functions_alternate_without_confusion(shared: Executor) -> None:
    # These are more than the cache in front of the definitions holds, so that only some are found again.
    functions = [eval(f"lambda value: value + {number}") for number in range(1500)]
    order = list(itertools.chain(range(1500), range(0, 1500, 7), range(1499, 0, -11)))
    futures = [shared.submit(functions[place], 1) for place in order]
    assert [future.result() for future in futures] == [place + 1 for place in order]


def test_a_function_that_a_new_worker_does_not_know_yet(executor: Executor) -> None:
    offset = 5
    function = lambda value: value + offset  # noqa: E731 - it must be one object
    assert executor.submit(function, 1).result() == 6
    for _ in range(2):
        executor.submit(os._exit, 1).exception()
    assert [executor.submit(function, value).result() for value in range(20)] == list(range(5, 25))


def test_a_definition_that_does_not_load_is_an_exception_of_the_task(shared: Executor) -> None:
    class Bomb:
        def __reduce__(self) -> object:
            return (calls.fail, ("cannot be rebuilt",))

        def __call__(self) -> None: ...

    with pytest.raises(ValueError, match="cannot be rebuilt"):
        shared.submit(Bomb()).result()
    with pytest.raises(ValueError, match="cannot be rebuilt"):
        shared.submit(calls.same, Bomb()).result()
    assert shared.submit(calls.same, 1).result() == 1


def test_a_cached_function_of_the_main_program_is_called_once_in_each_worker(
    script: Script, tmp_path: Path
) -> None:
    printed = script.run(
        """
        import functools, sys
        import calls, gristmill

        @functools.cache
        def model():
            calls.append(sys.argv[1], "read")
            return 10

        def predict(number):
            return number * model()

        with gristmill.Executor(1) as executor:
            print(sum(executor.map(predict, range(100))), executor.submit(predict, 1).result())
        """,
        str(tmp_path / "note"),
    )
    assert printed == "49500 10\n"
    assert (tmp_path / "note").read_text() == "read\n"
