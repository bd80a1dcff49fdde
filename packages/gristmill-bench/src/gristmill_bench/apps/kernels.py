"""Kernels of rFaaS: product of two matrices, Jacobi method, prices of options (Copik et al., section 5).

Each kernel is written from its formula, and divided into the chosen number of tasks.
"""

from __future__ import annotations

from itertools import pairwise
from math import erf, exp, log, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from gristmill_bench.apps.base import App
from gristmill_bench.engine import Engine
from gristmill_bench.errors import WrongResult

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[np.floating[Any]]]

#: Allowed difference between two formulas, for a price of 50 to 150.
_PRICE_TOLERANCE = 1e-4
#: Tasks that share the work of a step.
Parts = Annotated[int, Field(ge=1)]


def multiply(rows: Array, right: Array) -> Array:
    """Returns some rows of a product."""
    product: Array = rows @ right
    return product


def sweep(rows: Array, right: Array, guess: Array, first: int) -> Array:
    """Returns some components of the next guess of the Jacobi method."""
    import numpy as np

    diagonal = rows[np.arange(len(rows)), first + np.arange(len(rows))]
    own = guess[first : first + len(rows)]
    better: Array = own + (right - rows @ guess) / diagonal
    return better


def prices(options: Array) -> Array:
    """Returns the prices of European calls by Black and Scholes (1973).

    :param options: a row for each option: price, strike, rate and volatility a year, years.
    """
    import numpy as np

    price, strike, rate, volatility, years = options.T
    spread = volatility * np.sqrt(years)
    above = (np.log(price / strike) + (rate + volatility**2 / 2) * years) / spread
    cost: Array = price * _normal(above) - strike * np.exp(-rate * years) * _normal(above - spread)
    return cost


def _price(price: float, strike: float, rate: float, volatility: float, years: float) -> float:
    """Returns the price of one option."""
    spread = volatility * sqrt(years)
    above = (log(price / strike) + (rate + volatility**2 / 2) * years) / spread
    discounted = strike * exp(-rate * years)
    return price * _below(above) - discounted * _below(above - spread)


def _below(value: float) -> float:
    """Returns the distribution function of the normal distribution, by the standard library."""
    return (1 + erf(value / sqrt(2))) / 2


def _normal(values: Array) -> Array:
    """Returns the distribution function of the normal distribution (Abramowitz and Stegun, 26.2.17: off by 7.5e-8)."""
    import numpy as np

    weight = 1 / (1 + 0.2316419 * np.abs(values))
    factors = (1.330274429, -1.821255978, 1.781477937, -0.356563782, 0.319381530)
    series = np.zeros_like(values)
    for factor in factors:
        series = (series + factor) * weight
    tail = np.exp(-(values**2) / 2) / np.sqrt(2 * np.pi) * series
    below: Array = np.where(values >= 0, 1 - tail, tail)
    return below


class MatMul(App):
    """The product of two random matrices, in blocks of rows."""

    needs: ClassVar[tuple[str, ...]] = ("numpy",)

    size: Annotated[int, Field(ge=1)] = 500
    parts: Parts = 4
    seed: int = 1

    def factors(self) -> tuple[Array, Array]:
        """Returns the two factors."""
        import numpy as np

        source = np.random.default_rng(self.seed)
        return source.random((self.size, self.size)), source.random((self.size, self.size))

    def prepare(self, folder: Path) -> tuple[Array, Array]:
        """Makes the factors."""
        return self.factors()

    def run(self, engine: Engine, folder: Path) -> Array:
        """Returns the product."""
        import numpy as np

        left, right = self.inputs(folder)
        shares = np.array_split(left, self.parts)
        tasks = [engine.submit(multiply, rows, right) for rows in shares if len(rows)]
        return np.concatenate([task.result() for task in tasks])

    def check(self, result: Array) -> str:
        """Checks that the product maps a random vector to the same vector as its factors do (Freivalds, 1977)."""
        import numpy as np

        left, right = self.factors()
        vector = np.random.default_rng(self.seed + 1).random(self.size)
        expected = left @ (right @ vector)
        error = float(np.linalg.norm(result @ vector - expected) / np.linalg.norm(expected))
        if not error < 1e-12:
            raise WrongResult(f"the product is off by {error:.1e}")
        return f"product of {self.size} x {self.size}, off by {error:.1e}"


class Jacobi(App):
    """The solution of a linear system with a dominant diagonal, by Jacobi iterations."""

    needs: ClassVar[tuple[str, ...]] = ("numpy",)

    size: Annotated[int, Field(ge=1)] = 500
    iterations: Annotated[int, Field(ge=1)] = 50
    parts: Parts = 2
    seed: int = 1

    def system(self) -> tuple[Array, Array]:
        """Returns a matrix and the right-hand side."""
        import numpy as np

        source = np.random.default_rng(self.seed)
        matrix = source.random((self.size, self.size))
        return matrix + self.size * np.eye(self.size), source.random(self.size)

    def prepare(self, folder: Path) -> tuple[Array, Array]:
        """Makes the system."""
        return self.system()

    def run(self, engine: Engine, folder: Path) -> Array:
        """Returns the last guess."""
        import numpy as np

        matrix, right = self.inputs(folder)
        bounds = np.linspace(0, self.size, min(self.parts, self.size) + 1).astype(int).tolist()
        shares = list(pairwise(bounds))
        guess: Array = np.zeros(self.size)
        for _ in range(self.iterations):
            tasks = [
                engine.submit(sweep, matrix[low:high], right[low:high], guess, low)
                for low, high in shares
            ]
            guess = np.concatenate([task.result() for task in tasks])
        return guess

    def check(self, result: Array) -> str:
        """Checks the guess against the same iterations without tasks, and that its error is below the first one's."""
        import numpy as np

        matrix, right = self.system()
        guess: Array = np.zeros(self.size)
        for _ in range(self.iterations):
            guess = guess + (right - matrix @ guess) / np.diagonal(matrix)
        rest = float(np.linalg.norm(matrix @ result - right) / np.linalg.norm(right))
        if not (np.allclose(result, guess, rtol=1e-10, atol=1e-14) and rest < 1):
            raise WrongResult(f"the guess leaves {rest:.1e} of the right side")
        return f"{self.size} unknowns, {self.iterations} iterations: {rest:.1e} is left"


class BlackScholes(App):
    """The prices of many options."""

    needs: ClassVar[tuple[str, ...]] = ("numpy",)

    options: Annotated[int, Field(ge=1)] = 100_000
    parts: Parts = 8
    seed: int = 1

    def table(self) -> Array:
        """Returns a row for each option."""
        import numpy as np

        low, high = (50.0, 50.0, 0.01, 0.1, 0.1), (150.0, 150.0, 0.08, 0.6, 2.0)
        return np.random.default_rng(self.seed).uniform(low, high, (self.options, len(low)))

    def prepare(self, folder: Path) -> Array:
        """Draws the options."""
        return self.table()

    def run(self, engine: Engine, folder: Path) -> Array:
        """Returns the price of each option."""
        import numpy as np

        shares = np.array_split(self.inputs(folder), self.parts)
        tasks = [engine.submit(prices, share) for share in shares if len(share)]
        return np.concatenate([task.result() for task in tasks])

    def check(self, result: Array) -> str:
        """Checks all prices with the error function of the standard library, a formula that the tasks do not use."""
        table = self.table()
        if len(result) != len(table):
            raise WrongResult(f"{len(result)} prices of {len(table)} options")
        for row, cost in zip(table.tolist(), map(float, result), strict=True):
            expected = _price(*row)
            # The comparison fails for NaN too.
            if not abs(cost - expected) < _PRICE_TOLERANCE:
                raise WrongResult(f"an option costs {expected}, not {cost}")
        return f"{len(result)} options, {float(result.mean()):.4f} on average"
