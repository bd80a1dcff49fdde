"""Stores for objects, whose names travel instead of them."""

from gristmill_bench.transformers.base import TransformerPlugin

__all__ = ["TransformerPlugin"]
