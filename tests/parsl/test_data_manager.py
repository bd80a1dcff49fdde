"""The choice of a provider for staging, and its effects on arguments, outputs and functions."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest

from gristmill.parsl import File
from gristmill.parsl.app.futures import DataFuture
from gristmill.parsl.data_provider.data_manager import default_staging
from gristmill.parsl.data_provider.file_noop import NoOpFileStaging
from gristmill.parsl.data_provider.staging import NoStagingProvider, Staging

from stage import Script
from staging_kernel import StandInKernel


class Recording(Staging):
    """A provider for one scheme that puts files under ``/staged`` and wraps functions."""

    def __init__(self, scheme: str, future: Any = None) -> None:
        self.scheme = scheme
        self.future = future
        self.asked: list[tuple[Any, ...]] = []

    def can_stage_in(self, file: File) -> bool:
        return file.scheme == self.scheme

    can_stage_out = can_stage_in

    def stage_in(self, dm: Any, executor: str, file: File, parent_fut: Any) -> Any:
        self.asked.append(("in", executor, file, parent_fut))
        file.local_path = f"/staged/{file.filename}"
        return self.future

    def stage_out(self, dm: Any, executor: str, file: File, app_fu: Any) -> Any:
        self.asked.append(("out", executor, file, app_fu))
        return self.future

    def replace_task(self, dm: Any, executor: str, file: File, func: Any) -> Any:
        return lambda *values: ("in", func(*values))

    def replace_task_stage_out(self, dm: Any, executor: str, file: File, func: Any) -> Any:
        return lambda *values: ("out", func(*values))


def path_of(file: File) -> str:
    return file.filepath


@pytest.mark.parametrize(
    "value", [1, "in.txt", None, [File("in.txt")], {"file": File("in.txt")}, Future()]
)
def test_what_is_no_file_goes_to_the_task_as_it_is(value: Any) -> None:
    manager = StandInKernel(None).data_manager
    assert manager.optionally_stage_in(value, path_of, "cluster") == (value, path_of)


def test_a_local_file_goes_to_the_task_as_a_copy() -> None:
    manager = StandInKernel(None).data_manager
    file = File("in.txt")
    staged, function = manager.optionally_stage_in(file, path_of, "cluster")
    assert staged is not file
    assert staged.filepath == "in.txt"
    assert function is path_of


def test_staging_is_seen_by_the_task_only() -> None:
    kernel = StandInKernel(None, [Recording("mine")])
    file = File("mine://host/in.txt")
    assert kernel.run(path_of, file) == ("in", "/staged/in.txt")
    assert file.local_path is None


def test_the_first_provider_that_takes_a_file_stages_it() -> None:
    other, first, second = Recording("other"), Recording("mine"), Recording("mine")
    manager = StandInKernel(None, [other, first, second]).data_manager
    manager.optionally_stage_in(File("mine:in.txt"), path_of, "cluster")
    manager.stage_out(File("mine:out.txt"), "cluster", Future())
    assert [kind for kind, *_ in first.asked] == ["in", "out"]
    assert not other.asked
    assert not second.asked


def test_a_task_waits_for_the_future_that_a_provider_gives() -> None:
    future: Future[File] = Future()
    manager = StandInKernel(None, [Recording("mine", future)]).data_manager
    staged, _ = manager.optionally_stage_in(File("mine:in.txt"), path_of, "cluster")
    assert staged is future
    assert manager.stage_out(File("mine:out.txt"), "cluster", Future()) is future


def test_a_file_that_a_task_writes_is_staged_once_it_is_there() -> None:
    provider = Recording("mine")
    manager = StandInKernel(None, [provider]).data_manager
    writer: Future[None] = Future()
    original = DataFuture(writer, File("mine:in.txt"), tid=3)
    staged, _ = manager.optionally_stage_in(original, path_of, "cluster")
    ((_, _, file, parent),) = provider.asked
    assert parent is staged
    assert staged.tid == 3
    assert not staged.done()
    writer.set_result(None)
    assert staged.result() is file
    assert staged.result().filepath == "/staged/in.txt"
    assert original.result().local_path is None


def test_a_task_fails_as_what_writes_its_file_does() -> None:
    manager = StandInKernel(None).data_manager
    writer: Future[None] = Future()
    staged, _ = manager.optionally_stage_in(
        DataFuture(writer, File("in.txt"), tid=3), path_of, "cluster"
    )
    writer.set_exception(KeyError("lost"))
    with pytest.raises(KeyError, match="lost"):
        staged.result()


def test_functions_are_wrapped_for_what_they_read_and_what_they_write() -> None:
    manager = StandInKernel(None, [Recording("mine")]).data_manager
    written = manager.replace_task_stage_out(File("mine:out.txt"), path_of, "cluster")
    assert written(File("x")) == ("out", "x")
    both = manager.replace_task(File("mine:in.txt"), written, "cluster")
    assert both(File("x")) == ("in", ("out", "x"))


def test_a_provider_that_does_nothing_leaves_everything_as_it_is() -> None:
    class Nothing(Staging):
        def can_stage_in(self, file: File) -> bool:
            return True

        can_stage_out = can_stage_in

    manager = StandInKernel(None, [Nothing()]).data_manager
    file = File("mine:in.txt")
    assert manager.stage_in(file, file, "cluster") is file
    assert manager.stage_out(file, "cluster", Future()) is None
    assert manager.replace_task(file, path_of, "cluster") is path_of
    assert manager.replace_task_stage_out(file, path_of, "cluster") is path_of


def test_a_new_provider_takes_no_file() -> None:
    assert not Staging().can_stage_in(File("in.txt"))
    assert not Staging().can_stage_out(File("in.txt"))


def test_a_file_that_no_provider_takes_is_refused_by_name() -> None:
    manager = StandInKernel(None, [NoOpFileStaging()]).data_manager
    with pytest.raises(
        ValueError, match=r"cluster cannot stage file .*odd://host/in.txt.*NoOpFileStaging"
    ):
        manager.optionally_stage_in(File("odd://host/in.txt"), path_of, "cluster")
    with pytest.raises(NoStagingProvider, match="cluster cannot stage out file"):
        manager.stage_out(File("odd://host/in.txt"), "cluster", Future())


def test_an_executor_without_providers_stages_nothing() -> None:
    manager = StandInKernel(None, []).data_manager
    with pytest.raises(ValueError, match="no provider is set"):
        manager.optionally_stage_in(File("in.txt"), path_of, "cluster")


def test_executors_that_name_no_providers_have_the_usual_ones() -> None:
    names = [repr(provider) for provider in default_staging]
    assert names == [
        "NoOpFileStaging()",
        "FTPSeparateTaskStaging()",
        "HTTPSeparateTaskStaging()",
        "ZipFileStaging()",
    ]


def test_files_and_futures_of_parsl_are_staged_too() -> None:
    theirs = pytest.importorskip("parsl.data_provider.files")
    futures = pytest.importorskip("parsl.app.futures")
    kernel = StandInKernel(None, [Recording("mine")])
    assert kernel.run(path_of, theirs.File("mine:in.txt")) == ("in", "/staged/in.txt")
    writer: Future[None] = Future()
    writer.set_result(None)
    data_future = futures.DataFuture(writer, theirs.File("mine:in.txt"), tid=3)
    assert kernel.run(path_of, data_future) == ("in", "/staged/in.txt")


def test_providers_of_parsl_stage_files() -> None:
    theirs = pytest.importorskip("parsl.data_provider.rsync")
    manager = StandInKernel("/work", [theirs.RSyncStaging("host")]).data_manager
    staged, function = manager.optionally_stage_in(File("in.txt"), path_of, "cluster")
    assert staged.filepath == "/work/in.txt"
    assert function is not path_of


def test_nothing_is_loaded_for_transfers_before_there_is_one(script: Script) -> None:
    script.run(
        """
        import sys
        import gristmill.parsl._kernel.data_manager
        from gristmill.parsl import File
        from types import SimpleNamespace
        kernel = SimpleNamespace(executors={"one": SimpleNamespace(working_dir=None)})
        manager = gristmill.parsl._kernel.data_manager.DataManager(kernel)
        manager.optionally_stage_in(File("in.txt"), print, "one")
        loaded = {"parsl", "requests", "urllib.request", "http.client", "ftplib", "zipfile", "ssl"} & set(sys.modules)
        assert not loaded, loaded
        """
    )
