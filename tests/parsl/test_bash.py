"""Bash apps: command lines, their output, and their ends."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from gristmill.parsl import AUTO_LOGNAME, DataFlowKernel, File, bash_app, python_app
from gristmill.parsl.app.errors import (
    AppBadFormatting,
    BadStdStreamFile,
    BashAppNoReturn,
    BashExitFailure,
    MissingOutputs,
)
from gristmill.parsl.dataflow.errors import DependencyError

import calls
from stage import Gate


@bash_app
def echo(text: str, stdout: Any = None, stderr: Any = None) -> str:
    return f"echo '{text}'; echo 'no {text}' >&2"


@bash_app
def run(command: str, stdout: Any = None, stderr: Any = None, outputs: Any = ()) -> str:
    return command


@bash_app
def logged(
    text: str, stdout: Any = AUTO_LOGNAME, stderr: Any = AUTO_LOGNAME, label: Any = None
) -> str:
    return f"echo {text}; echo no {text} >&2"


@bash_app
def concatenate(inputs: Any = (), outputs: Any = ()) -> str:
    return f"cat {' '.join(map(str, inputs))} > {outputs[0]}"


def test_a_command_that_ends_well_gives_0(kernel: DataFlowKernel) -> None:
    assert run("true").result() == 0


def test_it_is_a_bash_that_runs_it(kernel: DataFlowKernel, tmp_path: Path) -> None:
    path = tmp_path / "output"
    run('a=(1 2 3); [[ ${#a[@]} == 3 ]] && echo "$BASH"', stdout=str(path)).result()
    assert "bash" in path.read_text()


@pytest.mark.parametrize("code", [1, 3, 127, 255])
def test_another_exit_code_is_a_failure(kernel: DataFlowKernel, code: int) -> None:
    with pytest.raises(BashExitFailure) as failure:
        run(f"exit {code}").result()
    assert (failure.value.app_name, failure.value.exitcode) == ("run", code)


def test_a_command_that_a_signal_ends_is_a_failure(kernel: DataFlowKernel) -> None:
    with pytest.raises(BashExitFailure) as failure:
        run("kill -KILL $$").result()
    assert failure.value.exitcode == -9


def test_outputs_that_are_none_are_no_files(kernel: DataFlowKernel) -> None:
    assert run("true", outputs=None).result() == 0


def test_inputs_that_are_no_list_are_named_where_nothing_is_staged(kernel: DataFlowKernel) -> None:
    with pytest.raises(TypeError, match="inputs must be a list, not 3"):
        concatenate(inputs=3, outputs=(), _parsl_staging_inhibit=True)


def test_what_it_prints_goes_where_the_call_says(kernel: DataFlowKernel, tmp_path: Path) -> None:
    out, err = tmp_path / "a" / "b" / "out", tmp_path / "c" / "err"
    future = echo("hello", stdout=str(out), stderr=err)
    assert future.result() == 0
    assert (future.stdout, future.stderr) == (str(out), err)
    assert out.read_text() == "hello\n"
    assert err.read_text().endswith("no hello\n")


def test_standard_error_begins_with_the_command(kernel: DataFlowKernel, tmp_path: Path) -> None:
    err = tmp_path / "err"
    run("true", stderr=str(err)).result()
    lines = err.read_text().splitlines()
    assert lines == ["--> executable follows <--", "true", "--> end executable <--"]


@pytest.mark.parametrize(
    ("modes", "text"),
    [((None, None), "one\ntwo\n"), (("w", "w"), "two\n"), (("w", "a"), "one\ntwo\n")],
)
def test_output_is_appended_unless_the_call_says_otherwise(
    kernel: DataFlowKernel, tmp_path: Path, modes: tuple[Any, Any], text: str
) -> None:
    out = str(tmp_path / "out")
    for word, mode in zip(("one", "two"), modes, strict=True):
        echo(word, stdout=out if mode is None else (Path(out), mode)).result()
    assert Path(out).read_text() == text


@pytest.mark.parametrize("wanted", [("a", "w", "x"), (1, "w"), ("path", 5), 3.5, ["path"], b"path"])
def test_what_names_no_file_is_refused(kernel: DataFlowKernel, wanted: Any) -> None:
    with pytest.raises(BadStdStreamFile):
        run("true", stdout=wanted).result()


def test_a_file_that_cannot_be_opened_is_named(kernel: DataFlowKernel, tmp_path: Path) -> None:
    with pytest.raises(BadStdStreamFile, match=str(tmp_path)):
        run("true", stderr=str(tmp_path)).result()
    with pytest.raises(BadStdStreamFile):
        run("true", stderr=(str(tmp_path / "file"), "nonsense")).result()


def test_files_are_named_by_the_run_if_asked_for(kernel: DataFlowKernel) -> None:
    first, second = logged("hello"), logged("hello", label="mine")
    for future, suffix in ((first, ""), (second, "_mine")):
        assert future.result() == 0
        folder = Path(kernel.run_dir, "task_logs", f"{future.tid // 10000:04}")
        name = f"task_{future.tid:04}_logged{suffix}"
        assert future.stdout == str(folder / f"{name}.stdout")
        assert future.stderr == str(folder / f"{name}.stderr")
        assert Path(future.stdout).read_text() == "hello\n"


def test_a_configuration_may_name_the_files(make_kernel: Any, tmp_path: Path) -> None:
    def name(task: Any, stream: str) -> str:
        return str(tmp_path / f"{task['func_name']}.{task['id']}.{stream}")

    kernel = make_kernel("threads", std_autopath=name)
    future = bash_app(logged.func, data_flow_kernel=kernel)("hello")
    assert future.result() == 0
    assert Path(future.stdout) == tmp_path / "logged.0.stdout"
    assert Path(future.stdout).read_text() == "hello\n"


def test_a_file_object_for_output_is_a_future_of_the_file(
    kernel: DataFlowKernel, tmp_path: Path
) -> None:
    path = tmp_path / "out"
    path.write_text("before\n")
    future = echo("hello", stdout=File(str(path)))
    assert future.stdout.result().filepath == str(path)
    assert path.read_text() == "hello\n"


def test_files_pass_from_one_command_to_the_next(kernel: DataFlowKernel, tmp_path: Path) -> None:
    parts = [tmp_path / f"part{number}" for number in range(3)]
    written = [run(f"echo {part.name} > {part}", outputs=[File(str(part))]) for part in parts]
    joined = concatenate(
        inputs=[one.outputs[0] for one in written], outputs=[File(str(tmp_path / "all"))]
    )
    assert Path(joined.outputs[0].result()).read_text() == "part0\npart1\npart2\n"


def test_a_file_that_the_command_did_not_write_is_missing(
    kernel: DataFlowKernel, tmp_path: Path
) -> None:
    here, gone = tmp_path / "here", tmp_path / "gone"
    future = run(f"touch {here}", outputs=[File(str(here)), File(str(gone))])
    with pytest.raises(MissingOutputs) as failure:
        future.result()
    assert [file.filepath for file in failure.value.outputs] == [str(gone)]
    # By Parsl's rule a failed task has no output files.
    assert isinstance(future.outputs[0].exception(), MissingOutputs)


def test_a_command_is_not_made_of_an_argument_that_failed(kernel: DataFlowKernel) -> None:
    with pytest.raises(DependencyError):
        run(run("exit 1")).result()


def test_the_command_line_is_made_from_values(kernel: DataFlowKernel, tmp_path: Path) -> None:
    @python_app
    def word() -> str:
        return "made"

    out = tmp_path / "out"
    echo(word(), stdout=str(out)).result()
    assert out.read_text() == "made\n"


def test_defaults_are_given_to_the_function(kernel: DataFlowKernel, tmp_path: Path) -> None:
    @bash_app
    def greet(name: str = "world", *, times: int = 2, stdout: Any = None) -> str:
        return f"for i in $(seq {times}); do echo {name}; done"

    out = tmp_path / "out"
    greet(stdout=str(out)).result()
    assert out.read_text() == "world\nworld\n"


def test_a_function_that_returns_nothing_is_told_so(kernel: DataFlowKernel) -> None:
    @bash_app
    def nothing() -> Any:
        pass

    with pytest.raises(BashAppNoReturn, match="nothing"):
        nothing().result()


def test_a_function_that_returns_no_text_is_told_so(kernel: DataFlowKernel) -> None:
    with pytest.raises(ValueError, match="int"):
        bash_app(lambda: 5)().result()


def test_a_function_that_cannot_make_its_command_is_told_so(kernel: DataFlowKernel) -> None:
    @bash_app
    def wrong(inputs: Any = ()) -> str:
        return f"cat {inputs[0]}"

    with pytest.raises(AppBadFormatting, match="IndexError"):
        wrong().result()


def test_an_exception_of_the_function_is_its_own(kernel: DataFlowKernel) -> None:
    @bash_app
    def fails() -> str:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fails().result()


def test_a_retry_appends_to_the_same_file(make_kernel: Any, tmp_path: Path) -> None:
    path, out = tmp_path / "was here", tmp_path / "out"
    kernel = make_kernel("threads", retries=1)
    again = bash_app(run.func, data_flow_kernel=kernel)
    command = f"echo run; test -e '{path}' || {{ touch '{path}'; exit 1; }}"
    assert again(command, stdout=str(out), stderr=os.devnull).result() == 0
    assert out.read_text() == "run\nrun\n"


@pytest.mark.parametrize("first", ["bash app", "plain call"])
def test_bash_apps_end_after_a_callback_that_leaves(
    kernel: DataFlowKernel, gate: Gate, first: str
) -> None:
    def leave(_future: Any) -> None:
        raise SystemExit(1)

    entering = python_app(calls.enter)(gate.path)
    left = run("true", stdout=entering) if first == "bash app" else entering
    left.add_done_callback(leave)
    gate.wait_entered()
    gate.open()
    assert not left.result()
    assert run("true").result() == 0
    assert isinstance(run("exit 3").exception(), BashExitFailure)
