"""ResNet-50 as an ONNX network with weights drawn from a fixed seed, and inference with it.

The architecture is that of He et al., *Deep Residual Learning for Image Recognition*, table 1, with batch normalisation
folded into the convolutions as every runtime does. The cost of an inference does not depend on the values of the
weights, but they have to be the same in every run.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

#: Blocks of each stage, and the channels inside them; their output has ``WIDENING`` times as many.
STAGES = ((3, 64), (4, 128), (6, 256), (3, 512))
WIDENING = 4
CLASSES = 1000
#: Rows and columns of the pictures that the network was made for. It takes other sizes too, because the layer before
#: the classes is a mean over the picture.
PIXELS = 224
SEED = 50
#: Versions of the format, so that an older runtime reads what a newer package writes.
OPSET, IR_VERSION = 17, 9


class Graph:
    """Nodes and weights of a network under construction; each layer is named by its number."""

    def __init__(self) -> None:
        self._onnx = importlib.import_module("onnx")
        self._numpy = importlib.import_module("numpy")
        self._random = self._numpy.random.default_rng(SEED)
        self.nodes: list[Any] = []
        self.weights: list[Any] = []

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Adds a node and returns the name of its output."""
        output = f"{kind}{len(self.nodes)}"
        node = self._onnx.helper.make_node(kind, list(inputs), [output], **attributes)
        self.nodes.append(node)
        return output

    def weight(self, *shape: int, scale: float) -> str:
        """Draws an array of weights and returns its name."""
        drawn = self._random.standard_normal(shape, dtype=self._numpy.float32)
        name = f"weight{len(self.weights)}"
        array = drawn * self._numpy.float32(scale)
        self.weights.append(self._onnx.numpy_helper.from_array(array, name))
        return name

    def convolution(self, source: str, into: int, out: int, size: int, stride: int = 1) -> str:
        """Adds a convolution with its bias, scaled so that activations neither vanish nor explode."""
        kernel = self.weight(out, into, size, size, scale=math.sqrt(1 / (into * size * size)))
        bias = self.weight(out, scale=0.01)
        return self.add("Conv", source, kernel, bias, pads=[size // 2] * 4, strides=[stride] * 2)

    def bottleneck(self, source: str, into: int, inner: int, stride: int) -> str:
        """Adds a block of three convolutions with a shortcut around them."""
        out = inner * WIDENING
        way = self.add("Relu", self.convolution(source, into, inner, 1))
        way = self.add("Relu", self.convolution(way, inner, inner, 3, stride))
        way = self.convolution(way, inner, out, 1)
        if into != out:
            source = self.convolution(source, into, out, 1, stride)
        return self.add("Relu", self.add("Add", way, source))

    def model(self, result: str, pixels: int) -> Any:
        """Returns the network for square pictures of ``pixels`` rows, with the output named ``result``."""
        helper, float32 = self._onnx.helper, self._onnx.TensorProto.FLOAT
        graph = helper.make_graph(
            self.nodes,
            "resnet50",
            [helper.make_tensor_value_info("image", float32, [1, 3, pixels, pixels])],
            [helper.make_tensor_value_info(result, float32, [1, CLASSES])],
            self.weights,
        )
        opset = helper.make_opsetid("", OPSET)
        return helper.make_model(graph, opset_imports=[opset], ir_version=IR_VERSION)


def network(pixels: int = PIXELS) -> Any:
    """Returns ResNet-50, of 25.5 million weights, as an ``onnx.ModelProto`` for square pictures of ``pixels`` rows."""
    graph = Graph()
    way = graph.add("Relu", graph.convolution("image", 3, 64, 7, 2))
    way = graph.add("MaxPool", way, kernel_shape=[3, 3], pads=[1] * 4, strides=[2, 2])
    into = 64
    for stage, (blocks, inner) in enumerate(STAGES):
        for block in range(blocks):
            way = graph.bottleneck(way, into, inner, 2 if stage and not block else 1)
            into = inner * WIDENING
    way = graph.add("Flatten", graph.add("GlobalAveragePool", way))
    matrix = graph.weight(into, CLASSES, scale=math.sqrt(1 / into))
    bias = graph.weight(CLASSES, scale=0.01)
    return graph.model(graph.add("Gemm", way, matrix, bias), pixels)


def write(path: Path, pixels: int = PIXELS) -> None:
    """Writes the network to a file of 102 MB."""
    importlib.import_module("onnx").save(network(pixels), str(path))


def session(model: str | bytes, *, optimized: bool = True) -> Any:
    """Returns an ``onnxruntime.InferenceSession`` over a file, or its bytes.

    The session has one thread and none in reserve, because a process with threads could not be forked.
    """
    runtime = importlib.import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    if not optimized:
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def opened(path: str) -> dict[str, Any]:
    """Sets up inference: imports the runtime, loads and optimizes the network for this processor, draws a picture."""
    made = session(path)
    return {"session": made, "image": image(made.get_inputs()[0].shape[-1])}


def image(pixels: int = PIXELS) -> Any:
    """Draws the square picture to classify, of ``pixels`` rows."""
    numpy = importlib.import_module("numpy")
    return numpy.random.default_rng(SEED).random((1, 3, pixels, pixels), dtype=numpy.float32)


def infer(session: Any, picture: Any, count: int) -> int:
    """Runs ``count`` inferences and returns the class that the last one found."""
    found = 0
    for _ in range(count):
        found = int(session.run(None, {"image": picture})[0].argmax())
    return found


def inferred(held: Any, count: int) -> int:
    """Runs ``count`` inferences with the session and picture of ``opened``."""
    return infer(held["session"], held["image"], count)


def classified(held: Any, turns: Iterable[int]) -> list[tuple[int, float]]:
    """Classifies the picture shifted by each number of columns; returns the class and score of each."""
    roll = importlib.import_module("numpy").roll
    found = []
    for turn in turns:
        scores = held["session"].run(None, {"image": roll(held["image"], turn, axis=3)})[0][0]
        best = int(scores.argmax())
        found.append((best, float(scores[best])))
    return found
