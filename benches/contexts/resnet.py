"""ResNet-50 as an ONNX file, its weights drawn from a fixed seed, and inference with it.

The architecture is the one of He and others, "Deep Residual Learning for Image Recognition", table 1,
with batch normalisation folded into the convolutions as every runtime does. What the weights are does not
matter for what an inference costs; that they are the same in every run does.
"""

import importlib
import math
import os
from pathlib import Path
from typing import Any

from benches import machine
from benches.contexts import environment

#: Blocks of each stage, and the channels inside them; they leave with four times as many.
STAGES = ((3, 64), (4, 128), (6, 256), (3, 512))
WIDENING = 4
CLASSES = 1000
IMAGE_SHAPE = (1, 3, 224, 224)
SEED = 50
#: As of the format, so that an older runtime reads what a newer package writes.
OPSET, IR_VERSION = 17, 9


class Graph:
    """Nodes and weights of a network as they are added, each layer named by its number."""

    def __init__(self) -> None:
        self._onnx = importlib.import_module("onnx")
        self._numpy = importlib.import_module("numpy")
        self._random = self._numpy.random.default_rng(SEED)
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.parameters = 0

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Adds a node; returns the name of what it gives."""
        output = f"{kind}{len(self.nodes)}"
        node = self._onnx.helper.make_node(kind, list(inputs), [output], **attributes)
        self.nodes.append(node)
        return output

    def weight(self, *shape: int, scale: float) -> str:
        """Draws an array of weights; returns its name."""
        drawn = self._random.standard_normal(shape, dtype=self._numpy.float32)
        name = f"weight{len(self.weights)}"
        array = drawn * self._numpy.float32(scale)
        self.weights.append(self._onnx.numpy_helper.from_array(array, name))
        self.parameters += array.size
        return name

    def convolution(self, source: str, into: int, out: int, size: int, stride: int = 1) -> str:
        """Adds a convolution with its bias; scaled so that activations neither vanish nor explode."""
        kernel = self.weight(out, into, size, size, scale=math.sqrt(1 / (into * size * size)))
        bias = self.weight(out, scale=0.01)
        return self.add("Conv", source, kernel, bias, pads=[size // 2] * 4, strides=[stride] * 2)

    def bottleneck(self, source: str, into: int, inner: int, stride: int) -> str:
        """Adds a block of three convolutions around which its input is led."""
        out = inner * WIDENING
        way = self.add("Relu", self.convolution(source, into, inner, 1))
        way = self.add("Relu", self.convolution(way, inner, inner, 3, stride))
        way = self.convolution(way, inner, out, 1)
        if into != out:
            source = self.convolution(source, into, out, 1, stride)
        return self.add("Relu", self.add("Add", way, source))

    def save(self, result: str, path: Path) -> None:
        """Writes the network."""
        helper, float32 = self._onnx.helper, self._onnx.TensorProto.FLOAT
        graph = helper.make_graph(
            self.nodes,
            "resnet50",
            [helper.make_tensor_value_info("image", float32, IMAGE_SHAPE)],
            [helper.make_tensor_value_info(result, float32, [1, CLASSES])],
            self.weights,
        )
        opset = helper.make_opsetid("", OPSET)
        model = helper.make_model(graph, opset_imports=[opset], ir_version=IR_VERSION)
        self._onnx.save(model, str(path))


def write(path: Path) -> int:
    """Writes ResNet-50 to a file; returns how many parameters it has."""
    graph = Graph()
    way = graph.add("Relu", graph.convolution("image", 3, 64, 7, 2))
    way = graph.add("MaxPool", way, kernel_shape=[3, 3], pads=[1] * 4, strides=[2, 2])
    into = 64
    for stage, (blocks, inner) in enumerate(STAGES):
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            way = graph.bottleneck(way, into, inner, stride)
            into = inner * WIDENING
    way = graph.add("Flatten", graph.add("GlobalAveragePool", way))
    matrix = graph.weight(into, CLASSES, scale=math.sqrt(1 / into))
    bias = graph.weight(CLASSES, scale=0.01)
    graph.save(graph.add("Gemm", way, matrix, bias), path)
    return graph.parameters


def file() -> Path:
    """Names the file of the network, written if it was not yet."""
    path = machine.ROOT / "target" / "benches" / "resnet50.onnx"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(f".{os.getpid()}")
        write(unfinished)
        unfinished.rename(path)
    return path


def opened(path: str) -> dict[str, Any]:
    """Sets up inference: the runtime imported, the network read and laid out for this processor.

    One thread and none in reserve: a process with threads could not be forked.
    """
    runtime = importlib.import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return {"session": session, "image": image()}


def program(path: str) -> dict[str, Any]:
    """Sets up what a program of that kind has: an environment of many modules, and the network."""
    return {**environment.imported(environment.HEAVY), **opened(path)}


def image() -> Any:
    """Draws the picture that is looked at."""
    numpy = importlib.import_module("numpy")
    return numpy.random.default_rng(SEED).random(IMAGE_SHAPE, dtype=numpy.float32)


def infer(session: Any, picture: Any, count: int) -> int:
    """Runs so many inferences; returns the class that the last one found."""
    found = 0
    for _ in range(count):
        found = int(session.run(None, {"image": picture})[0].argmax())
    return found


def inferred(context: Any, count: int) -> int:
    """Runs so many inferences with what a context has."""
    return infer(context["session"], context["image"], count)
