"""What the first calls of a node wait for: packages that come as one image, an interpreter, a setup."""

from __future__ import annotations

import importlib
import os
import shutil
import venv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.metadata import PackageNotFoundError, distribution
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import monotonic
from typing import Any

from gristmill import GristmillError
from gristmill._images import build
from gristmill._images.recipe import Recipe
from gristmill._images.storage import LOCAL_VARIABLE
from gristmill.bench.apps import resnet
from gristmill.bench.apps.lnni import Lnni
from gristmill.bench.executors.base import scratch
from gristmill.bench.figures.contexts.inference import PIXELS
from gristmill.bench.figures.contexts.levels import opened
from gristmill.bench.figures.data import Data
from gristmill.bench.figures.figure import Figure, Relation
from gristmill.bench.figures.relations import alike, at_least
from gristmill.bench.figures.session import Case, Sample, Session

#: What inference imports, and what that does, as far as its version needs it.
_PACKAGES = ("numpy", "onnxruntime", "flatbuffers", "protobuf", "packaging")
_INFERENCES = 16
#: Invocations of which the medians are taken.
_CALLS = 20
_COLD, _HOT, _LIBRARY, _INVOCATION = "L2 (cold)", "L2 (hot)", "L3 (library)", "L3 (invocation)"
_BEFORE, _SETUP, _CALL, _BACK = (
    "until the setup begins",
    "setup",
    "inference",
    "until the result is there",
)
_PHASES = (_BEFORE, _SETUP, _CALL, _BACK)
#: Readings of one clock: when a setup began and ended, when a call began and ended.
Readings = tuple[float, float, float, float]


class Breakdown(Figure):
    """The first call and the second on a node whose disk is empty, in parts. A context has an environment of its own,
    an image of 38 MB, 130 MB unpacked: numpy, ONNX Runtime, and what these import. The first call unpacks it, starts an
    interpreter, imports and opens ResNet-50 in it, and runs 16 inferences of small pictures. At L2 the second call
    does all that again, but for the unpacking. At L3 the setup stays: its own time is that of the library, and the
    invocations are those after it, of which medians are given. Until the setup begins: what the paper calls transfer
    and worker overhead, together, as the file is where the node is; and for an invocation, until it begins. The paper
    has 144 packages of 3.1 GB, and counts as execution at L2 that its model is built.
    """

    key = "contexts-table-5"
    source = "Function contexts, table 5"
    title = "What first calls wait for, and later ones"
    across = "phase"
    upward = "seconds"
    form = "table"
    relations = (
        Relation(
            "with what is on disk already a call begins far sooner: the first one waits at least three times as long",
            at_least(_COLD, 3, _HOT, (_BEFORE,)),
        ),
        Relation(
            "a library begins about as late as a first call at L2",
            alike(_LIBRARY, _COLD, 2, (_BEFORE,)),
        ),
        Relation(
            "an invocation at L3 begins in less than a hundredth of the time of a later call at L2",
            at_least(_HOT, 100, _INVOCATION, (_BEFORE,)),
        ),
        Relation(
            "cold and hot calls set up and compute alike",
            alike(_COLD, _HOT, 1.5, (_SETUP, _CALL)),
        ),
        Relation(
            "in all, an invocation at L3 takes less than three fifths of a later call at L2 (paper: 57 %)",
            lambda data: _shorter(data, 5 / 3),
        ),
    )

    def measure(self, session: Session) -> Data:
        """Packs the environment once, and measures both levels in turns, each with an empty disk."""
        data = self.empty()
        missing = Lnni.missing()
        if missing is not None:
            data.missing[_COLD] = missing
            return data
        with scratch() as folder:
            try:
                image = packed(Path(folder))
            except GristmillError as error:
                data.missing[_COLD] = str(error)
                return data
            network = Path(folder, "resnet50.onnx")
            resnet.write(network, PIXELS)
            cases = [
                Case(f"{level} on an empty disk", "all", partial(measured, image, str(network)))
                for level, measured in (("L2", on_disk), ("L3", in_memory))
            ]
            return session.turns(data, cases)


def packed(folder: Path) -> str:
    """Makes an image, below a folder, of an environment that has what inference needs of what is installed here.

    Raises ``ImageError`` if none can be made of this interpreter.
    """
    prefix = folder / "environment"
    venv.create(prefix, symlinks=True, with_pip=False)
    (site,) = prefix.glob("lib/python*/site-packages")
    for name in _PACKAGES:
        try:
            found = distribution(name)
        except PackageNotFoundError:
            continue
        for file in found.files or ():
            source = Path(str(found.locate_file(file)))
            if ".." not in file.parts and source.is_file():
                (site / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, site / file)
    return build.build(Recipe(str(prefix)), "tar", str(folder / "cache")).path


def ready() -> Callable[[str], dict[str, Any]]:
    """The setup: a function that travels by value, as its environment has no suite to import it from."""

    def opened(path: str) -> dict[str, Any]:
        begun = monotonic()
        numpy = importlib.import_module("numpy")
        runtime = importlib.import_module("onnxruntime")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        session = runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        image = numpy.zeros(session.get_inputs()[0].shape, dtype=numpy.float32)
        return {"session": session, "image": image, "setup": (begun, monotonic())}

    return opened


def inference() -> Callable[[Any], Readings]:
    """The call, by value too."""

    def infer(context: Any) -> Readings:
        begun = monotonic()
        for _ in range(_INFERENCES):
            context["session"].run(None, {"image": context["image"]})
        return (*context["setup"], begun, monotonic())

    return infer


def on_disk(image: str, network: str) -> Iterator[Sample]:
    """The first call at L2, and the second."""
    with empty_disk(), opened("L2", ready(), network, workers=1, environment=image) as level:
        for row in (_COLD, _HOT):
            start = monotonic()
            readings = level.submit(inference(), level.context).result()
            phases = _between(start, *readings, monotonic())
            # Setup and call follow each other: what is between them belongs to what is not theirs.
            yield from _samples(row, (phases[0] + phases[2], phases[1], phases[3], phases[4]))


def in_memory(image: str, network: str) -> Iterator[Sample]:
    """The library at L3, as of its first call, and calls that find it."""
    call = inference()
    with empty_disk(), opened("L3", ready(), network, workers=1, environment=image) as level:
        start = monotonic()
        begun, ended, *_ = level.submit(call, level.context).result()
        yield Sample(_LIBRARY, _BEFORE, begun - start)
        yield Sample(_LIBRARY, _SETUP, ended - begun)
        found = []
        for _ in range(_CALLS):
            start = monotonic()
            *_, begun, ended = level.submit(call, level.context).result()
            found.append((begun - start, 0.0, ended - begun, monotonic() - ended))
        yield from _samples(_INVOCATION, tuple(map(median, zip(*found, strict=True))))


@contextmanager
def empty_disk() -> Iterator[None]:
    """Has nodes that begin here open images on a disk of their own, which has none."""
    before = os.environ.get(LOCAL_VARIABLE)
    with scratch() as folder:
        os.environ[LOCAL_VARIABLE] = folder
        try:
            yield
        finally:
            if before is None:
                del os.environ[LOCAL_VARIABLE]
            else:
                os.environ[LOCAL_VARIABLE] = before


def _between(*readings: float) -> list[float]:
    return [later - one for one, later in pairwise(readings)]


def _samples(row: str, seconds: tuple[float, ...]) -> Iterator[Sample]:
    for phase, value in zip(_PHASES, seconds, strict=True):
        yield Sample(row, phase, value)


def _shorter(data: Data, times: float) -> tuple[bool, str]:
    hot, invocation = (sum(data.at(row, one) for one in _PHASES) for row in (_HOT, _INVOCATION))
    return hot >= times * invocation, f"{invocation:.3g} s, {hot:.3g} s"
