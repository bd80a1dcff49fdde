"""Tiled Cholesky factorization: ``A = L L^T`` by blocks, the graph of dense linear algebra (TaPS, section III-E).

The algorithm is the right-looking one of Buttari et al. (2009): each step factorizes a diagonal block, solves the
blocks below it, and updates the blocks to the right of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field, model_validator

from gristmill_bench.apps.base import App
from gristmill_bench.engine import Engine
from gristmill_bench.errors import WrongResult

if TYPE_CHECKING:
    import numpy as np

    Block = np.ndarray[Any, np.dtype[np.floating[Any]]]


def factorize(diagonal: Block) -> Block:
    """Returns the lower Cholesky factor of a diagonal block."""
    import numpy as np

    factor: Block = np.linalg.cholesky(diagonal)
    return factor


def solve(factor: Block, below: Block) -> Block:
    """Returns ``X`` with ``X factor^T = below``."""
    import numpy as np

    solved: Block = np.linalg.solve(factor, below.T).T
    return solved


def update(block: Block, left: Block, right: Block) -> Block:
    """Subtracts the product of two solved blocks from a block: ``block - left right^T``."""
    rest: Block = block - left @ right.T
    return rest


class Cholesky(App):
    """The Cholesky factor of a random symmetric positive definite matrix."""

    needs: ClassVar[tuple[str, ...]] = ("numpy",)

    #: Rows and columns of the matrix, and of a block; the block size has to divide the matrix size.
    size: Annotated[int, Field(ge=1)] = 512
    block: Annotated[int, Field(ge=1)] = 128
    seed: int = 1

    @model_validator(mode="after")
    def _blocks_fit(self) -> Cholesky:
        if self.size % self.block:
            raise ValueError(f"blocks of {self.block} do not divide a matrix of {self.size}")
        return self

    def matrix(self) -> Block:
        """Returns the matrix to factorize."""
        import numpy as np

        half = np.random.default_rng(self.seed).standard_normal((self.size, self.size))
        return half @ half.T + self.size * np.eye(self.size)

    def prepare(self, folder: Path) -> dict[tuple[int, int], Block]:
        """Returns the blocks of the matrix's lower half, by row and column."""
        matrix = self.matrix()
        return {
            (row, column): matrix[self._place(row, column)].copy()
            for row in range(self.size // self.block)
            for column in range(row + 1)
        }

    def run(self, engine: Engine, folder: Path) -> Block:
        """Returns the factor."""
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
        """Returns the rows and columns of the matrix that a block covers."""
        step = self.block
        return (
            slice(row * step, (row + 1) * step),
            slice(column * step, (column + 1) * step),
        )

    def check(self, result: Block) -> str:
        """Checks that the factor times its transpose is the matrix."""
        import numpy as np

        matrix = self.matrix()
        error = float(np.linalg.norm(result @ result.T - matrix) / np.linalg.norm(matrix))
        if not error < 1e-12:
            raise WrongResult(f"the factor is off by {error:.1e} of the matrix")
        return f"factor of {self.size} x {self.size}, off by {error:.1e}"
