"""Hills with balls on them, and their simulation by MuJoCo.

Hills are a sum of waves, so that the height of every point is known without the simulator's grid. The ground is loose:
rolling balls lose energy and rest within seconds, or leave over the edge and fall.
"""

from __future__ import annotations

from math import ceil, pi, sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[np.floating[Any]]]
    Mask = np.ndarray[Any, np.dtype[np.bool]]

#: Radius in metres, and density in kilograms a cubic metre, of a ball of water.
RADIUS_M, DENSITY = 0.1, 1000.0
MASS_KG = DENSITY * 4 / 3 * pi * RADIUS_M**3
GRAVITY = 9.81
#: Distance in metres by which rolling moves the ground's force ahead of a ball. It holds a ball on slopes of up to a
#: fifth.
_ROLLING_M = 0.02
#: Number of waves, range of their lengths, their total height, and step of the grid; lengths in metres.
_WAVES, _LENGTHS_M, _HEIGHT_M, _GRID_M = 12, (1.6, 3.2), 0.5, 0.1
#: States kept of each simulated second.
_KEPT_HZ = 10
#: Speed in metres a second below which a ball rests, though it may creep by millimetres for long and then roll again.
RESTING = 0.05


class World(NamedTuple):
    """Parameters of a simulation: balls, sides of the square ground in metres, seconds, steps a second, and seed."""

    balls: int
    size_m: float
    seconds: float
    ticks: int
    seed: int

    def steps(self) -> list[int]:
        """Returns the steps after which a state is kept, including the last step."""
        count, stride = ceil(self.seconds * self.ticks), self.ticks // _KEPT_HZ
        return [*range(stride, count, stride), count]

    def waves(self) -> Array:
        """Returns ``float[waves][3]``: growth of each wave's phase per metre along x and y, and phase at the origin."""
        import numpy as np

        source = np.random.default_rng((self.seed, 0))
        angle, phase = source.uniform(0, 2 * pi, (2, _WAVES))
        number = 2 * pi / source.uniform(*_LENGTHS_M, _WAVES)
        return np.stack([number * np.cos(angle), number * np.sin(angle), phase], axis=1)

    def heights(self, x: Array, y: Array) -> Array:
        """Returns the height of the ground at some points, in metres."""
        import numpy as np

        phases = np.stack([x, y, np.ones_like(x)], axis=-1) @ self.waves().T
        height: Array = np.cos(phases).sum(axis=-1) * (_HEIGHT_M / sqrt(2 * _WAVES))
        return height

    def slopes(self, x: Array, y: Array) -> Array:
        """Returns the slope of the ground at some points, in metres of height per metre."""
        import numpy as np

        waves = self.waves()
        phases = np.stack([x, y, np.ones_like(x)], axis=-1) @ waves.T
        rise = np.sin(phases) @ waves[:, :2] * (_HEIGHT_M / sqrt(2 * _WAVES))
        steepness: Array = np.linalg.norm(rise, axis=-1)
        return steepness

    def grid(self) -> Array:
        """Returns the heights of the simulator's grid, ``float[y][x]``."""
        import numpy as np

        half = self.size_m / 2
        places = np.linspace(-half, half, ceil(self.size_m / _GRID_M) + 1)
        return self.heights(*np.meshgrid(places, places))

    def starts(self) -> Array:
        """Returns the points where balls are dropped, ``float[balls][2]``.

        Each point is in a square of its own, and none is near the edge.
        """
        import numpy as np

        source = np.random.default_rng((self.seed, 1))
        side = squares_beside(self.balls)
        width = room_m(self.size_m) / side
        squares = source.permutation(side**2)[: self.balls]
        corners = np.stack(np.divmod(squares, side), axis=1) * width - room_m(self.size_m) / 2
        own = width - 2 * RADIUS_M
        places: Array = corners + RADIUS_M + source.uniform(0, own, (self.balls, 2))
        return places


def room_m(size_m: float) -> float:
    """Returns the side of the square in which balls are dropped, in metres."""
    return 0.8 * size_m


def squares_beside(balls: int) -> int:
    """Returns the number of squares along one side with which each ball has a square."""
    return ceil(sqrt(balls))


def _description(world: World, grid: Array) -> str:
    """Returns the world in MuJoCo's own format."""
    low, high = float(grid.min()), float(grid.max())
    rows, half, above = len(grid), world.size_m / 2, high + 1.5 * RADIUS_M
    balls = "".join(
        f'<body pos="{x!r} {y!r} {above!r}"><freejoint/>'
        f'<geom type="sphere" size="{RADIUS_M}" density="{DENSITY}"/></body>'
        for x, y in world.starts().tolist()
    )
    # An elliptic cone and iterations against slip keep resting balls from creeping downhill.
    return f"""<mujoco>
      <option timestep="{1 / world.ticks!r}" gravity="0 0 -{GRAVITY}" cone="elliptic" noslip_iterations="5"/>
      <asset>
        <hfield name="hills" nrow="{rows}" ncol="{rows}" size="{half} {half} {high - low!r} 1"/>
      </asset>
      <default><geom condim="6" friction="0.8 {_ROLLING_M} {_ROLLING_M}"/></default>
      <worldbody><geom type="hfield" hfield="hills" pos="0 0 {low!r}"/>{balls}</worldbody>
    </mujoco>"""


def simulate(world: World) -> Array:
    """Returns ``float[states][balls][9]``: position, velocity and spin of each ball, about ten states a second.

    The simulation ends early once all balls have rested for a second or have left.
    """
    import mujoco
    import numpy as np

    grid = world.grid()
    model = mujoco.MjModel.from_xml_string(_description(world, grid))
    model.hfield_data[:] = ((grid - grid.min()) / np.ptp(grid)).ravel()
    data = mujoco.MjData(model)
    kept, last, resting = [_state(data)], 0, 0
    for step in world.steps():
        mujoco.mj_step(model, data, step - last)
        kept.append(_state(data))
        last = step
        resting = 0 if rolling(world, kept[-1]).any() else resting + 1
        if resting == _KEPT_HZ:
            break
    return np.stack(kept)


def rolling(world: World, state: Array) -> Mask:
    """Returns which balls neither rest nor have left, ``bool[balls]``."""
    import numpy as np

    is_there = abs(state[:, :2]).max(axis=1) <= world.size_m / 2
    moving: Mask = is_there & (np.linalg.norm(state[:, 3:6], axis=1) >= RESTING)
    return moving


def _state(data: Any) -> Array:
    """Returns ``float[balls][9]``: MuJoCo's state without the orientations, which do not matter for a ball."""
    import numpy as np

    return np.hstack([data.qpos.reshape(-1, 7)[:, :3], data.qvel.reshape(-1, 6)])
