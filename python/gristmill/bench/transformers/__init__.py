"""Where objects are put whose names travel instead of them."""

from gristmill.bench.transformers.base import TransformerPlugin

__all__ = ["TransformerPlugin"]
