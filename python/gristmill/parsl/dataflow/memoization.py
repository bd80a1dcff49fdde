"""Parsl's ``parsl.dataflow.memoization``."""

from gristmill.parsl import _fallback
from gristmill.parsl._kernel.checkpoint import get_all_checkpoints as get_all_checkpoints
from gristmill.parsl._kernel.memo_key import MemoKeyError as MemoKeyError
from gristmill.parsl._kernel.memo_key import id_for_memo as id_for_memo
from gristmill.parsl._kernel.memoization import BasicMemoizer as BasicMemoizer
from gristmill.parsl._kernel.memoizer import CheckpointCommand as CheckpointCommand
from gristmill.parsl._kernel.memoizer import Memoizer as Memoizer

__getattr__, __dir__ = _fallback.lookups(__name__)
