"""Large-scale neural network inference: many calls of some inferences each, all with one network.

This is one of the two applications of the function-context paper (Phung et al., *Accelerating Function-Centric
Applications by Discovering, Distributing, and Retaining Reusable Context in Workflow Systems*, section 4.1.1): 10,000
to 100,000 calls of 16 to 1,600 inferences with ResNet-50. Loading the network takes some tenths of a second, and an
inference some hundredths, so that the time of short calls depends on whether the network is kept between calls.
"""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Annotated, ClassVar, NamedTuple

from pydantic import Field

from gristmill_bench.apps import resnet
from gristmill_bench.apps.base import App
from gristmill_bench.engine import Engine
from gristmill_bench.errors import WrongResult
from gristmill_bench.plugins import NONE_IS_A_CHOICE
from gristmill_bench.within import Reuse

#: Relative tolerance of scores: the optimized and the plain network differ by rounding of 32-bit numbers.
_TOLERANCE = 1e-3


class Inferences(NamedTuple):
    """Class and score of each picture of each call, and seconds from the first submission to the last result."""

    calls: list[list[tuple[int, float]]]
    seconds: float


class Lnni(App):
    """Inference with ResNet-50, whose network is loaded once, or for every call (``reuse``)."""

    needs: ClassVar[tuple[str, ...]] = ("numpy", "onnx", "onnxruntime")

    calls: Annotated[int, Field(ge=1)] = 32
    #: Inferences of a call; consecutive ones shift the picture by one more column.
    inferences: Annotated[int, Field(ge=1)] = 16
    #: Rows and columns of a picture; the cost of an inference grows with their square.
    pixels: Annotated[int, Field(ge=32, le=1024)] = resnet.PIXELS
    reuse: Annotated[Reuse, NONE_IS_A_CHOICE] = "memory"

    def prepare(self, folder: Path) -> Path:
        """Writes the network to the folder."""
        path = folder.absolute() / "resnet50.onnx"
        resnet.write(path, self.pixels)
        return path

    def run(self, engine: Engine, folder: Path) -> Inferences:
        """Returns the found classes and scores; deletes the file of the network."""
        path: Path = self.inputs(folder)
        try:
            inside = engine.within(resnet.opened, str(path), reuse=self.reuse)
            begun = perf_counter()
            tasks = [
                inside.submit(resnet.classified, self._turns(one)) for one in range(self.calls)
            ]
            found = [task.result() for task in tasks]
            return Inferences(found, perf_counter() - begun)
        finally:
            path.unlink(missing_ok=True)

    def _turns(self, call: int) -> range:
        return range(call * self.inferences, (call + 1) * self.inferences)

    def check(self, result: Inferences) -> str:
        """Checks that calls are complete, and repeats one inference of each with the network without optimizations."""
        wrong = [number for number, one in enumerate(result.calls) if len(one) != self.inferences]
        if wrong or len(result.calls) != self.calls:
            raise WrongResult(f"{len(result.calls)} calls, {len(wrong)} of which lack inferences")
        network = resnet.network(self.pixels).SerializeToString()
        plain = resnet.session(network, optimized=False)
        held = {"session": plain, "image": resnet.image(self.pixels)}
        for call, ones in enumerate(result.calls):
            # Another index in each call: the first inference of one call, the second of the next.
            turn = self._turns(call)[call % self.inferences]
            found = ones[call % self.inferences]
            ((kind, score),) = resnet.classified(held, [turn])
            if found[0] != kind or abs(found[1] - score) > _TOLERANCE * max(1.0, abs(score)):
                raise WrongResult(f"picture {turn} is of class {kind} by {score:.6g}, not {found}")
        return f"{self.calls} calls of {self.inferences} inferences in {result.seconds:.2f} s"

    def figures(self, result: Inferences) -> dict[str, float]:
        """Returns the seconds of all calls, without the time to write the network."""
        return {"calls_s": result.seconds}
