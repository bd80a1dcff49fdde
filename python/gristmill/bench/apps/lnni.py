"""Large-scale neural network inference: many calls of some inferences each, all with one network.

One of the two applications of the function-context paper (Phung et al., *Accelerating Function-Centric Applications by
Discovering, Distributing, and Retaining Reusable Context in Workflow Systems*, section 4.1.1): 10,000 to 100,000 calls
of 16 to 1,600 inferences with ResNet-50. Opening the network takes some tenths of a second, an inference some
hundredths: whether the network is kept between calls decides how long the short ones take.
"""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Annotated, ClassVar, NamedTuple

from pydantic import Field

from gristmill.bench.apps import resnet
from gristmill.bench.apps.base import App
from gristmill.bench.engine import Engine
from gristmill.bench.errors import WrongResult
from gristmill.bench.plugins import NONE_IS_A_CHOICE
from gristmill.bench.within import Reuse

#: Scores of the optimized network and of the plain one differ by rounding of 32-bit numbers.
_TOLERANCE = 1e-3


class Inferences(NamedTuple):
    """What each call has found, class and score for each picture, and seconds from the first submission to the last."""

    calls: list[list[tuple[int, float]]]
    seconds: float


class Lnni(App):
    """Inference with ResNet-50, of which the network is opened once, or for every call (``reuse``)."""

    needs: ClassVar[tuple[str, ...]] = ("numpy", "onnx", "onnxruntime")

    calls: Annotated[int, Field(ge=1)] = 32
    #: Of each call; neighbours look at a picture turned by another column.
    inferences: Annotated[int, Field(ge=1)] = 16
    #: Rows and columns of a picture: what an inference costs grows with their square.
    pixels: Annotated[int, Field(ge=32, le=1024)] = resnet.PIXELS
    reuse: Annotated[Reuse, NONE_IS_A_CHOICE] = "memory"

    def prepare(self, folder: Path) -> Path:
        """Writes the network."""
        path = folder.absolute() / "resnet50.onnx"
        resnet.write(path, self.pixels)
        return path

    def run(self, engine: Engine, folder: Path) -> Inferences:
        """Gives what was found; the file of the network is gone afterwards."""
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
        """Each call has looked at its pictures; the network without optimizations finds the same in one of each."""
        wrong = [number for number, one in enumerate(result.calls) if len(one) != self.inferences]
        if wrong or len(result.calls) != self.calls:
            raise WrongResult(f"{len(result.calls)} calls, {len(wrong)} of which lack inferences")
        network = resnet.network(self.pixels).SerializeToString()
        plain = resnet.session(network, optimized=False)
        held = {"session": plain, "image": resnet.image(self.pixels)}
        for call, ones in enumerate(result.calls):
            # Not the same one of all calls: the first of one, the second of the next.
            turn = self._turns(call)[call % self.inferences]
            found = ones[call % self.inferences]
            ((kind, score),) = resnet.classified(held, [turn])
            if found[0] != kind or abs(found[1] - score) > _TOLERANCE * max(1.0, abs(score)):
                raise WrongResult(f"picture {turn} is of class {kind} by {score:.6g}, not {found}")
        return f"{self.calls} calls of {self.inferences} inferences in {result.seconds:.2f} s"

    def figures(self, result: Inferences) -> dict[str, float]:
        """Without the writing of the network."""
        return {"calls_s": result.seconds}
