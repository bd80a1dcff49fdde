"""The examples of the documentation run as they are printed, page by page and in order.

A page's examples share one program, which begins with the definitions that the page assumes.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("docs", "examples", "packages")
PAGES = sorted(
    str(page.relative_to(ROOT))
    for page in [
        ROOT / "README.md",
        *(one for name in FOLDERS for one in (ROOT / name).rglob("*.md")),
    ]
)
#: The most words of a page.
WORDS_MAX = 900
#: A page whose steps are programs of their own: each is a file, and the page shows what it prints.
TUTORIAL = "docs/tutorial.md"
_STEP = re.compile(
    r"^```python\n# (\w+\.py)\n(.*?)^```.*?^```text\n(.*?)^```", re.MULTILINE | re.DOTALL
)
#: Parts of what a step prints that differ from run to run. The second node may join after the last result.
_VARYING = re.compile(r"worker \d+|process \d+|local\d( local\d)*")
_FILE = re.compile(r"# (\w+)\.py\n")
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


class Page(NamedTuple):
    #: Definitions that the page's examples assume.
    given: str = ""
    #: Examples that are not run, by one of their lines, with the reasons.
    left_out: dict[str, str] = {}  # noqa: RUF012 - read only
    #: Checks that run after the examples.
    check: str = ""
    #: A program without which the examples cannot run.
    needs: str = ""


_MODEL = """
import gristmill

class Model:
    def __init__(self, path):
        with open(path) as file:
            self.factor = int(file.read())
    def predict(self, molecule):
        return self.factor * len(molecule)

read = read_model = Model
molecules = ["C", "CC", "CCC"]
molecule = molecules[0]
if __name__ == "__main__":
    with open("model.bin", "w") as file:
        file.write("2")
"""


def _compiled(page: str, name: str, language: str = "c") -> str:
    """Returns code that compiles the code of a page to a library."""
    compiler, suffix = {"c": ("cc", "c"), "fortran": ("gfortran", "f90")}[language]
    return f"""
import pathlib, re, subprocess

page = pathlib.Path({str(ROOT / page)!r}).read_text()
code = re.findall(r"```{language}\\n(.*?)```", page, re.DOTALL)
pathlib.Path("{name}.{suffix}").write_text("\\n".join(code))
subprocess.run("{compiler} -shared -fPIC -O2 {name}.{suffix} -o lib{name}.so".split(), check=True)
"""


def _compiled_rust(page: str, name: str) -> str:
    """Returns code that compiles the code of a page to a library, where cargo puts it."""
    return f"""
import pathlib, re, subprocess, sys

sys.path.append({str(ROOT / "tests")!r})
from compiled import rust_crate

page = pathlib.Path({str(ROOT / page)!r}).read_text()
code = re.findall(r"```rust\\n(.*?)```", page, re.DOTALL)
pathlib.Path("{name}.rs").write_text("\\n".join(code))
built = pathlib.Path("target/release/lib{name}.so")
built.parent.mkdir(parents=True)
compiler = ["rustc", "--crate-type=cdylib", "-O", *rust_crate()]
subprocess.run([*compiler, "{name}.rs", "-o", str(built)], check=True)
"""


_SOLVER = """
pathlib.Path("solver.c").write_text("int solver_version;")
solver = "cc -shared -fPIC solver.c -Wl,-soname,libsolver.so -o libsolver.so"
subprocess.run(solver.split(), check=True)
"""

_EXECUTOR = """
import gristmill, itertools, os, resource, signal, sys, time
import numpy

def same(*values, **named):
    return values[0] if values else None

score = simulate = fetch = load = idempotent = flaky_download = merge = fit = clean = summarize = same
molecules = ["C", "CC", "CCC"]
molecule, seed, item, url = "C", 1, 2, "file:///nowhere"
names = paths = ["a", "b"]
endless = itertools.count
executor = gristmill.Executor(2, gpus=2)
"""
#: Placements take the options that they are given, and put two nodes on this machine.
_PLACED = """
import inspect
from gristmill import on

def here(placement):
    options = inspect.signature(placement)
    def place(*given, **named):
        options.bind(*given, **named)
        return on.local(2)
    return place

on.mpi, on.ssh = here(on.mpi), here(on.ssh)
"""
_NODES = "it needs machines that are none of the tests'"
EXAMPLES = {
    "README.md": Page(),
    "docs/index.md": Page(),
    "docs/bench/plug-ins.md": Page(),
    "docs/bench/shared-setup.md": Page(
        left_out={"def run(self, engine, folder):\n    inside": "it is a method alone"}
    ),
    "docs/explanation/batch-systems.md": Page(
        left_out={"SlurmProvider(": _NODES, "provider=provider": _NODES}
    ),
    "docs/explanation/blobs-on-nodes.md": Page(
        _EXECUTOR,
        {"with Executor(nodes=on.ssh(hosts)": _NODES},
        "executor.shutdown()",
    ),
    "docs/explanation/budgets.md": Page(_EXECUTOR, check="executor.shutdown()"),
    "docs/explanation/context-environments.md": Page(
        _MODEL,
        {'old = gristmill.Context(load, "model.bin"': "it needs two environments"},
        """
with gristmill.Executor(1) as executor:
    assert context.submit(lambda: context["model"].predict("CC")).result() == 4
""",
    ),
    "docs/explanation/context-workers.md": Page(
        _MODEL
        + """
def load(path):
    return {"model": read_model(path)}
""",
        check="assert context.report() is None",
    ),
    "docs/explanation/contexts.md": Page(
        _MODEL
        + """
import gristmill.parsl as parsl

parsl.load(parsl.Config(executors=[parsl.GristmillExecutor(max_workers=1)]))

@parsl.python_app
def score(molecule):
    return context["model"].predict(molecule)
""",
        check="""
assert results == [2, 4, 6]
parsl.clear()
""",
    ),
    "docs/explanation/data.md": Page(
        _EXECUTOR
        + """
measured = 2.0
table = list(range(1000))


def fit(table, seed):
    return table[seed]
""",
        check="""
assert total[-1] == 2.0 * 1000 * 1000
assert [future.result() for future in futures] == table
executor.shutdown()
""",
    ),
    "docs/explanation/executor.md": Page(
        _EXECUTOR
        + """
def load_model(path):
    assert path == "model.bin"
""",
        check="executor.shutdown()",
    ),
    "docs/explanation/futures.md": Page(
        _EXECUTOR,
        check="""
assert answer == {"parts": ["a", "b"]}
asyncio.run(main())
executor.shutdown()
""",
    ),
    "docs/explanation/leases.md": Page(
        _EXECUTOR,
        {"on.hosts(": _NODES, "lease = Lease(nodes": _NODES},
    ),
    "docs/explanation/maps.md": Page(_EXECUTOR, check="executor.shutdown(cancel_futures=True)"),
    "docs/explanation/nested-tasks.md": Page(
        _EXECUTOR,
        check="""
assert fibonacci(1) == 1 and executor.submit(fibonacci, 8).result() == 21
executor.shutdown()
""",
    ),
    "docs/explanation/node-agents.md": Page(left_out={"on.hosts(": _NODES}),
    "docs/explanation/node-network.md": Page(
        'from gristmill import on\n\nhosts = ["n1", "n2"]\n',
        check='assert network.group("rack1-n1") == "rack"',
    ),
    "docs/explanation/nodes.md": Page(left_out={"on.ssh(": _NODES}),
    "docs/explanation/options-and-priorities.md": Page(_EXECUTOR, check="executor.shutdown()"),
    "docs/explanation/program-end.md": Page(_EXECUTOR, check="executor.shutdown()"),
    "docs/explanation/resources.md": Page(_EXECUTOR, check="executor.shutdown()"),
    "docs/explanation/timeouts.md": Page(
        _EXECUTOR, check="assert future.result() == 1; executor.shutdown()"
    ),
    "examples/molecular_screen/README.md": Page(
        left_out={"def simulate_each(": "it is an excerpt of molecular_screen.design.campaign"}
    ),
    "docs/explanation/timings.md": Page(_EXECUTOR, check="executor.shutdown()"),
    "docs/explanation/worker-environment.md": Page(_MODEL + "import functools\n"),
    "docs/explanation/worker-processes.md": Page(
        left_out={"preload=": "RDKit is not installed with the tests"}
    ),
    "docs/explanation/parsl.md": Page(),
    "docs/explanation/remembered-results.md": Page(),
    "docs/how-to/frozen.md": Page(),
    "docs/how-to/arrays.md": Page(
        _PLACED, check="assert len(futures) == 1000 and len(totals) == 4"
    ),
    "docs/how-to/from-dask.md": Page(
        left_out={"# Dask\n": "it needs Dask", "on.dask(": "it needs Dask"},
        check="assert total.result() == 10",
    ),
    "docs/how-to/from-joblib.md": Page(
        left_out={"# joblib\n": "it needs joblib"},
        check="assert rows == [n * n % 7 for n in range(9)]",
    ),
    "docs/how-to/from-processpool.md": Page(),
    "docs/how-to/from-ray.md": Page(
        left_out={"# Ray\n": "it needs Ray", "on.ray(": "it needs Ray"},
        check="assert [one.result() for one in sums] == [1000.0] * 8",
    ),
    "docs/how-to/gpus.md": Page(
        check="assert len(results) == 8 and {one for _, one in results} <= {'0', '1'}"
    ),
    "docs/how-to/model.md": Page(),
    "docs/how-to/native-data.md": Page(_compiled("docs/how-to/native-data.md", "jacobi")),
    "docs/how-to/native-fortran.md": Page(
        _compiled("docs/how-to/native-fortran.md", "signal", "fortran"),
        check="assert mean(x, 4) == 1.5",
        needs="gfortran",
    ),
    "docs/how-to/native-rust.md": Page(
        _compiled_rust("docs/how-to/native-rust.md", "signals"),
        check="""
assert means(x).tolist() == [1.5, 1.5, 1.5]
assert str(error) == "libsignals.so:parsed returned status 1: invalid float literal"
""",
        needs="cargo",
    ),
    "docs/how-to/native.md": Page(_compiled("docs/how-to/native.md", "kernels") + _SOLVER),
    "docs/how-to/parsl.md": Page(
        left_out={
            "# Parsl\n": "it needs Parsl",
            "gristmill.parsl.install()": "it changes what every later import of Parsl gives",
            "from gristmill.parsl import GristmillExecutor": "it needs Parsl",
            "SlurmProvider(": _NODES,
        }
    ),
    "docs/how-to/profile.md": Page(),
    "docs/how-to/slurm.md": Page(
        _PLACED, {"SlurmProvider(": _NODES}, "assert len(results) == 100_000"
    ),
    "docs/how-to/ssh.md": Page(_PLACED),
    "docs/how-to/stop.md": Page(check="assert open('state.txt').read() == 'stopped'"),
    "docs/how-to/waiting.md": Page(),
}


def run_program(name: str, folder: Path) -> str:
    ended = subprocess.run(
        [sys.executable, name], cwd=folder, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def blocks(page: str) -> list[str]:
    return _BLOCK.findall((ROOT / page).read_text())


def left_out(page: str, block: str) -> bool:
    return any(line in block for line in EXAMPLES.get(page, Page()).left_out)


def test_a_page_is_read_in_five_minutes() -> None:
    """Reference pages and results are for looking things up."""
    read = [page for page in PAGES if not page.startswith(("docs/reference/", "docs/results/"))]
    words = {page: len((ROOT / page).read_text().split()) for page in read}
    assert {page: count for page, count in words.items() if count > WORDS_MAX} == {}


@pytest.mark.parametrize("page", [page for page in PAGES if page != TUTORIAL and blocks(page)])
def test_the_examples_of_a_page_run(page: str, tmp_path: Path) -> None:
    assert page in EXAMPLES, f"say in EXAMPLES what the examples of {page} take for granted"
    given, unused, check, needs = EXAMPLES[page]
    for line in unused:
        assert any(line in block for block in blocks(page)), f"{page} has no example with {line}"
    run = [block for block in blocks(page) if not left_out(page, block)]
    if not run:
        pytest.skip("; ".join(sorted(set(unused.values()))))
    if needs and shutil.which(needs) is None:
        pytest.skip(f"there is no {needs}")
    program = tmp_path / "program.py"
    parts = [given]
    for block in run:
        if (named := _FILE.match(block)) is not None:
            # The page puts this block into a file of its own.
            (tmp_path / f"{named[1]}.py").write_text(given + block)
            block = f"import {named[1]}"
        parts.append(block)
    program.write_text("\n".join([*parts, check]))
    run_program(program.name, tmp_path)


def test_the_steps_of_the_tutorial_print_what_it_shows(tmp_path: Path) -> None:
    text = (ROOT / TUTORIAL).read_text()
    steps = _STEP.findall(text)
    lines = [block for block in blocks(TUTORIAL) if not _FILE.match(block)]
    assert len(steps) + len(lines) == len(blocks(TUTORIAL))
    assert all("on.ssh(" in line for line in lines), f"left out, because {_NODES}"
    for name, program, shown in steps:
        (tmp_path / name).write_text(program)
        printed = run_program(name, tmp_path)
        assert _VARYING.sub("N", printed) == _VARYING.sub("N", shown)


def test_the_tutorial_changes_one_line_for_nodes() -> None:
    programs = {name: program for name, program, _ in _STEP.findall((ROOT / TUTORIAL).read_text())}
    here, nodes = programs["pi.py"].splitlines(), programs["nodes.py"].splitlines()
    pairs = zip(here, nodes, strict=False)
    changed = [pair for pair in pairs if pair[0] != pair[1]]
    assert len(changed) == 1
    (remote,) = (block for block in blocks(TUTORIAL) if "on.ssh(" in block)
    assert remote.partition("nodes=")[0] == changed[0][1].partition("nodes=")[0]
