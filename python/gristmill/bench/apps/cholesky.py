"""Tiled Cholesky factorization: ``A = L L^T`` by blocks, the graph of dense linear algebra (TaPS, section III-E).

The algorithm is the right-looking one of Buttari et al. (2009): each step factorizes a block of the diagonal, solves
the blocks below it, and updates what is right of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field, model_validator

from gristmill.bench.apps.base import App
from gristmill.bench.engine import Engine
from gristmill.bench.errors import WrongResult

if TYPE_CHECKING:
    import numpy as np

    Block = np.ndarray[Any, np.dtype[np.floating[Any]]]


def factorize(diagonal: Block) -> Block:
    """The lower factor of a block of the diagonal."""
    import numpy as np

    factor: Block = np.linalg.cholesky(diagonal)
    return factor


def solve(factor: Block, below: Block) -> Block:
    """``X`` with ``X factor^T = below``."""
    import numpy as np

    solved: Block = np.linalg.solve(factor, below.T).T
    return solved


def update(block: Block, left: Block, right: Block) -> Block:
    """What is left of a block once two solved ones are taken out."""
    rest: Block = block - left @ right.T
    return rest


class Cholesky(App):
    """The factor of a random symmetric positive definite matrix."""

    needs: ClassVar[tuple[str, ...]] = ("numpy",)

    #: Rows and columns of the matrix, and of a block: the one has to divide the other.
    size: Annotated[int, Field(ge=1)] = 512
    block: Annotated[int, Field(ge=1)] = 128
    seed: int = 1

    @model_validator(mode="after")
    def _blocks_fit(self) -> Cholesky:
        if self.size % self.block:
            raise ValueError(f"blocks of {self.block} do not divide a matrix of {self.size}")
        return self

    def matrix(self) -> Block:
        """What is factorized."""
        import numpy as np

        half = np.random.default_rng(self.seed).standard_normal((self.size, self.size))
        return half @ half.T + self.size * np.eye(self.size)

    def prepare(self, folder: Path) -> dict[tuple[int, int], Block]:
        """The blocks of the matrix, those of its lower half."""
        matrix = self.matrix()
        return {
            (row, column): matrix[self._place(row, column)].copy()
            for row in range(self.size // self.block)
            for column in range(row + 1)
        }

    def run(self, engine: Engine, folder: Path) -> Block:
        """Gives the factor."""
        import numpy as np

        count = self.size // self.block
        blocks: dict[tuple[int, int], Any] = dict(self.inputs(folder))
        for pivot in range(count):
            blocks[pivot, pivot] = engine.submit(factorize, blocks[pivot, pivot])
            for row in range(pivot + 1, count):
                blocks[row, pivot] = engine.submit(solve, blocks[pivot, pivot], blocks[row, pivot])
            for row in range(pivot + 1, count):
                for column in range(pivot + 1, row + 1):
                    blocks[row, column] = engine.submit(
                        update, blocks[row, column], blocks[row, pivot], blocks[column, pivot]
                    )
        factor = np.zeros((self.size, self.size))
        for place, task in blocks.items():
            factor[self._place(*place)] = task.result()
        return factor

    def _place(self, row: int, column: int) -> tuple[slice, slice]:
        """Where a block is in the matrix."""
        step = self.block
        return (
            slice(row * step, (row + 1) * step),
            slice(column * step, (column + 1) * step),
        )

    def check(self, result: Block) -> str:
        """The factor times its transpose is the matrix."""
        import numpy as np

        matrix = self.matrix()
        error = float(np.linalg.norm(result @ result.T - matrix) / np.linalg.norm(matrix))
        if not error < 1e-12:
            raise WrongResult(f"the factor is off by {error:.1e} of the matrix")
        return f"factor of {self.size} x {self.size}, off by {error:.1e}"
