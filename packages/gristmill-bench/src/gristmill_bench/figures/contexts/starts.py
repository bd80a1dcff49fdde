"""The waiting time of a node's first calls: packages that come as one image, an interpreter, a setup."""

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
from gristmill.instruments import IMAGE_FOLDER, ImageRecipe, build_image
from gristmill_bench.apps import resnet
from gristmill_bench.apps.lnni import Lnni
from gristmill_bench.executors.base import scratch
from gristmill_bench.figures.contexts.inference import PIXELS
from gristmill_bench.figures.contexts.levels import opened
from gristmill_bench.figures.data import Data
from gristmill_bench.figures.figure import Figure, Relation
from gristmill_bench.figures.relations import alike, at_least
from gristmill_bench.figures.session import Case, Sample, Session

#: Packages that inference imports, and their dependencies, of which the installed version may need only some.
_PACKAGES = ("numpy", "onnxruntime", "flatbuffers", "protobuf", "packaging")
_INFERENCES = 16
#: Number of invocations in each median.
_CALLS = 20
_COLD, _HOT, _LIBRARY, _INVOCATION = "L2 (cold)", "L2 (hot)", "L3 (library)", "L3 (invocation)"
_BEFORE, _SETUP, _CALL, _BACK = (
    "until the setup begins",
    "setup",
    "inference",
    "until the result is there",
)
_PHASES = (_BEFORE, _SETUP, _CALL, _BACK)
#: Readings of one clock: the begin and end of a setup, then the begin and end of a call.
Readings = tuple[float, float, float, float]


class Breakdown(Figure):
    """The first call and the second on a node with an empty disk, in parts. A context has its own environment, an image
    of 38 MB, 130 MB unpacked: numpy, ONNX Runtime, and their imports. The first call unpacks it, starts an interpreter,
    imports ResNet-50's libraries and opens the network in it, and runs 16 inferences of small pictures. At L2 the
    second call does all that again, except for the unpacking. At L3 the setup stays: the time of the setup is that of
    the library, and the invocations are the calls after it, shown as medians. "Until the setup begins" is the sum of
    what the paper calls transfer and worker overhead, because the file is already on the node; for an invocation it is
    the time until the invocation begins. The paper has 144 packages of 3.1 GB, and its execution time at L2 includes
    building the model.
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
    """Makes an image, in a folder, of an environment with the installed packages that inference needs.

    Raises ``ImageError`` if this interpreter cannot be packed.
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
    return build_image(ImageRecipe(str(prefix)), "tar", str(folder / "cache")).path


def ready() -> Callable[[str], dict[str, Any]]:
    """Returns the setup: a function that travels by value, because its environment cannot import the suite."""

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
    """Returns the function of a call, which travels by value too."""

    def infer(context: Any) -> Readings:
        begun = monotonic()
        for _ in range(_INFERENCES):
            context["session"].run(None, {"image": context["image"]})
        return (*context["setup"], begun, monotonic())

    return infer


def on_disk(image: str, network: str) -> Iterator[Sample]:
    """Measures the first call at L2, and the second."""
    with empty_disk(), opened("L2", ready(), network, workers=1, environment=image) as level:
        for row in (_COLD, _HOT):
            start = monotonic()
            readings = level.submit(inference(), level.context).result()
            phases = _between(start, *readings, monotonic())
            # The call follows the setup: the time between them counts as neither, but as waiting.
            yield from _samples(row, (phases[0] + phases[2], phases[1], phases[3], phases[4]))


def in_memory(image: str, network: str) -> Iterator[Sample]:
    """Measures the library at L3 by its first call, and calls that find it."""
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
    """Makes nodes that start in the block open images on an empty disk folder."""
    before = os.environ.get(IMAGE_FOLDER)
    with scratch() as folder:
        os.environ[IMAGE_FOLDER] = folder
        try:
            yield
        finally:
            if before is None:
                del os.environ[IMAGE_FOLDER]
            else:
                os.environ[IMAGE_FOLDER] = before


def _between(*readings: float) -> list[float]:
    return [later - one for one, later in pairwise(readings)]


def _samples(row: str, seconds: tuple[float, ...]) -> Iterator[Sample]:
    for phase, value in zip(_PHASES, seconds, strict=True):
        yield Sample(row, phase, value)


def _shorter(data: Data, times: float) -> tuple[bool, str]:
    hot, invocation = (sum(data.at(row, one) for one in _PHASES) for row in (_HOT, _INVOCATION))
    return hot >= times * invocation, f"{invocation:.3g} s, {hot:.3g} s"
