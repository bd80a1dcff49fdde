"""Contexts with packages of their own: folders and images of environments."""

from __future__ import annotations

import importlib
import os
import sys
import venv
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from gristmill import Context, ContextCalls, ContextError, ContextWorkers, Executor
from gristmill._context.declare import with_reuse
from gristmill._images import build, storage
from gristmill._images.recipe import Recipe

from setups import load_grain

MakeEnvironment = Callable[[str], Path]
MakeExecutor = Callable[..., Executor]


@pytest.fixture
def make_environment(tmp_path: Path) -> MakeEnvironment:
    """Makes environments with a package ``grain`` of some version."""

    def make(version: str) -> Path:
        path = tmp_path / f"env-{version}"
        venv.create(path, symlinks=True, with_pip=False)
        name = f"python{sys.version_info[0]}.{sys.version_info[1]}"
        package = path / "lib" / name / "site-packages" / "grain.py"
        package.write_text(f"version = {version!r}\n")
        return path

    return make


def test_two_contexts_have_two_versions_of_one_package(
    executor: Executor, make_environment: MakeEnvironment
) -> None:
    for version in ("1", "2"):
        environment = make_environment(version)
        context = Context(load_grain, environment=environment)
        options = executor.options(context=context)
        assert options.submit(lambda context=context: context["version"]).result() == version
        assert options.submit(load_grain).result() == {"version": version}
        assert options.submit(os.getenv, "VIRTUAL_ENV").result() == str(environment)
    with pytest.raises(ImportError):
        executor.submit(load_grain).result()


def test_what_the_caller_has_imported_is_not_imported_for_a_context(
    make_executor: MakeExecutor,
    make_environment: MakeEnvironment,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    callers = tmp_path / "site-packages"
    callers.mkdir()
    # The caller has a warning filter for a class of this package, as numpy has one; workers have the filter too.
    (callers / "grain.py").write_text("version = 'caller'\nclass Sprouts(UserWarning): pass\n")
    monkeypatch.syspath_prepend(str(callers))
    grain = importlib.import_module("grain")
    monkeypatch.delitem(sys.modules, "grain")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=grain.Sprouts)
        monkeypatch.setitem(sys.modules, "grain", grain)
        executor = make_executor(1)
        for reuse, fork in (("memory", True), ("memory", False), ("disk", True)):
            context = with_reuse(
                Context(
                    load_grain, environment=make_environment("5"), workers=ContextWorkers(fork=fork)
                ),
                reuse,
            )
            options = executor.options(context=context)
            assert options.submit(lambda context=context: context["version"]).result() == "5"


def test_libraries_with_threads_need_nothing_more_in_an_environment(
    make_executor: MakeExecutor, make_environment: MakeEnvironment
) -> None:
    environment = make_environment("1")
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "numpy.py").write_text("")
    context = Context(
        lambda: {"name": importlib.import_module("numpy").__file__}, environment=environment
    )
    options = make_executor(1).options(context=context)
    assert options.submit(lambda: context["name"]).result() == str(packages / "numpy.py")


def test_a_context_imports_from_an_image(
    executor: Executor,
    make_environment: MakeEnvironment,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GRISTMILL_LOCAL_DIR", str(tmp_path))
    image = build.build(Recipe(str(make_environment("3"))), "tar", str(tmp_path / "cache"))
    context = Context(load_grain, environment=image.path, calls=ContextCalls(mode="fork"))
    options = executor.options(context=context)
    assert options.submit(lambda: context["version"]).result() == "3"


@pytest.mark.parametrize("reuse", ["memory", "none"])
def test_an_environment_on_a_shared_file_system_is_used_from_the_nodes_own_disk(
    executor: Executor,
    make_environment: MakeEnvironment,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    reuse: str,
) -> None:
    (tmp_path / "disk").mkdir()
    monkeypatch.setenv("GRISTMILL_LOCAL_DIR", str(tmp_path / "disk"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(storage, "is_worth_an_image", lambda prefix: "env-4" in prefix)
    context = with_reuse(Context(load_grain, environment=make_environment("4")), reuse)
    options = executor.options(context=context)
    place = options.submit(os.getenv, "VIRTUAL_ENV").result()
    assert place.startswith(str(tmp_path / ("disk" if reuse == "memory" else "env-4")))


def test_a_package_that_an_environment_lacks_is_named(
    executor: Executor, make_environment: MakeEnvironment
) -> None:
    def load_more() -> None:
        import hypothesis  # noqa: F401 - which the caller has

    context = Context(load_more, environment=make_environment("1"), name="model")
    with pytest.raises(ContextError, match=r'(?s)"model" failed.*No module named .hypothesis'):
        executor.options(context=context).submit(abs, -1).result()


def test_an_image_that_was_altered_is_not_used(
    executor: Executor,
    make_environment: MakeEnvironment,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GRISTMILL_LOCAL_DIR", str(tmp_path))
    image = build.build(Recipe(str(make_environment("3"))), "tar", str(tmp_path / "cache"))
    context = Context(load_grain, environment=image.path, name="model")
    assert context.key
    with open(image.path, "r+b") as file:
        file.seek(-1, os.SEEK_END)
        last = file.read(1)
        file.seek(-1, os.SEEK_END)
        file.write(bytes([last[0] ^ 1]))
    with pytest.raises(ContextError, match=r'(?s)"model" failed.*AlteredImageError'):
        executor.options(context=context).submit(abs, -1).result()


@pytest.mark.parametrize("size", [0, 300])
def test_an_image_that_was_cut_off_is_named(
    executor: Executor,
    make_environment: MakeEnvironment,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    size: int,
) -> None:
    monkeypatch.setenv("GRISTMILL_LOCAL_DIR", str(tmp_path))
    image = build.build(Recipe(str(make_environment("3"))), "tar", str(tmp_path / "cache"))
    os.truncate(image.path, size)
    context = Context(load_grain, environment=image.path, name="model")
    with pytest.raises(ContextError, match=rf'(?s)"model" failed.*ImageError: {image.path} is'):
        executor.options(context=context).submit(abs, -1).result()


def test_what_is_no_environment_is_refused_when_it_is_used_first(
    executor: Executor, tmp_path: Path
) -> None:
    for path, text in (
        (tmp_path, "is not an environment of Python"),
        (tmp_path / "no", "does not exist"),
    ):
        context = Context(load_grain, environment=path)
        with pytest.raises(ValueError, match=text):
            executor.options(context=context).submit(abs, -1)
