"""Balls that fall on hills and roll until they rest: each simulation is a task that needs no other (TaPS).

The result is chaotic and has no formula, but it obeys laws: energy does not grow, balls do not sink, a resting ball
touches something, and the same beginning has the same end.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field, model_validator

from gristmill_bench.apps.base import App
from gristmill_bench.apps.hills import (
    GRAVITY,
    MASS_KG,
    RADIUS_M,
    World,
    rolling,
    room_m,
    simulate,
    squares_beside,
)
from gristmill_bench.engine import Engine
from gristmill_bench.errors import WrongResult

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[np.floating[Any]]]

#: Seconds after which all balls rest: the longest of 566 simulations took 8 s.
SETTLED_S = 20.0
#: Energy in joules that lifts one ball by half its radius. Contacts are springs, and push a bit more at the edge.
_PUSH_J = MASS_KG * GRAVITY * RADIUS_M / 2


class Physics(App):
    """Balls that roll on hills until they rest: independent simulations of rigid bodies (TaPS)."""

    needs: ClassVar[tuple[str, ...]] = ("mujoco-core", "numpy")

    simulations: Annotated[int, Field(ge=1)] = 16
    balls: Annotated[int, Field(ge=1)] = 10
    #: Largest number of simulated seconds, in the first of which balls fall, and steps a second. A simulation ends when
    #: all balls have rested for a second. With longer steps balls would sink in.
    seconds: Annotated[float, Field(ge=1, le=3600)] = SETTLED_S
    ticks: Annotated[int, Field(ge=100, le=10_000)] = 240
    #: Sides of the ground in metres.
    size: Annotated[float, Field(ge=2, le=100)] = 10.0
    seed: Annotated[int, Field(ge=0)] = 1

    @model_validator(mode="after")
    def _balls_have_room(self) -> Physics:
        if room_m(self.size) / squares_beside(self.balls) < 2.2 * RADIUS_M:
            raise ValueError(f"{self.balls} balls do not fit side by side on {self.size:g} m")
        return self

    def worlds(self) -> list[World]:
        """Returns the worlds to simulate, each with other hills."""
        import numpy as np

        seeds = np.random.SeedSequence(self.seed).generate_state(self.simulations, np.uint64)
        return [
            World(self.balls, self.size, self.seconds, self.ticks, seed) for seed in seeds.tolist()
        ]

    def prepare(self, folder: Path) -> list[World]:
        """Returns the worlds; tasks make their hills and balls."""
        return self.worlds()

    def run(self, engine: Engine, folder: Path) -> list[Array]:
        """Returns the states that each simulation has kept."""
        return list(engine.map(simulate, self.inputs(folder)))

    def check(self, result: list[Array]) -> str:
        """Checks each simulation against the laws, and that one of them is the same to the last bit when repeated."""
        import numpy as np

        worlds = self.worlds()
        if len(result) != len(worlds):
            raise WrongResult(f"{len(result)} simulations instead of {len(worlds)}")
        roll, gone = np.sum([_checked(*one) for one in zip(worlds, result, strict=True)], axis=0)
        again = self.seed % len(worlds)
        if not np.array_equal(simulate(worlds[again]), result[again]):
            raise WrongResult(f"simulation {again} comes out differently when it is repeated")
        balls = self.balls * self.simulations
        longest = worlds[0].steps()[max(map(len, result)) - 2] / self.ticks
        return f"{balls} balls after {longest:g} s: {roll} roll, {gone} left by the edge, all others rest"


def _checked(world: World, states: Array) -> tuple[int, int]:
    """Returns the numbers of balls that still roll and that have left.

    Raises ``WrongResult`` if the states are impossible.
    """
    import numpy as np

    most = 1 + len(world.steps())
    if not (2 <= len(states) <= most and states.shape[1:] == (world.balls, 9)):
        raise WrongResult(f"states of shape {states.shape}")
    if not np.isfinite(states).all():
        raise WrongResult("states that are no numbers")
    if not np.array_equal(states[0, :, :2], world.starts()):
        raise WrongResult("balls were not dropped where they should")
    energy = _energy_j(states)
    growth = float((energy - np.minimum.accumulate(energy)).max())
    if growth > _PUSH_J:
        raise WrongResult(f"energy grows by {growth:.3g} J out of nothing")
    x, y, z = np.moveaxis(states[..., :3], -1, 0)
    on_ground = np.maximum(abs(x), abs(y)) < world.size_m / 2 - RADIUS_M
    above = (z - world.heights(x, y))[on_ground]
    if np.any(above < RADIUS_M / 4):
        raise WrongResult(f"a ball is {RADIUS_M - above.min():.3g} m in the ground")
    moving = rolling(world, states[-1])
    if len(states) < most or world.seconds >= SETTLED_S:
        if moving.any():
            raise WrongResult(f"{moving.sum()} balls still roll at the end")
        if np.any(_gaps_m(world, states[-1])[on_ground[-1]] > RADIUS_M / 4):
            raise WrongResult("a ball rests on nothing")
    has_left = np.maximum(abs(x[-1]), abs(y[-1])) > world.size_m / 2
    return int(moving.sum()), int(has_left.sum())


def _energy_j(states: Array) -> Array:
    """Returns the energy of all balls, ``float[states]``: of height, motion and spin.

    The moment of inertia of a ball is two fifths m r^2.
    """
    height, motion = states[..., 2], (states[..., 3:6] ** 2).sum(axis=-1)
    spin = 0.4 * RADIUS_M**2 * (states[..., 6:] ** 2).sum(axis=-1)
    energy: Array = MASS_KG * (GRAVITY * height + (motion + spin) / 2).sum(axis=-1)
    return energy


def _gaps_m(world: World, state: Array) -> Array:
    """Returns the distance of each ball to the nearest surface: the ground, as a plane there, or another ball."""
    import numpy as np

    x, y, z = state[:, :3].T
    ground = (z - world.heights(x, y)) / np.sqrt(1 + world.slopes(x, y) ** 2) - RADIUS_M
    between = np.linalg.norm(state[:, None, :3] - state[None, :, :3], axis=-1) - 2 * RADIUS_M
    np.fill_diagonal(between, np.inf)
    gaps: Array = np.minimum(ground, between.min(axis=1))
    return gaps
