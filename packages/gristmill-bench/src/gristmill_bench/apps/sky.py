"""A known sky and a telescope's images of it: overlapping exposures, each with a background of its own.

Stars are round Gaussians, so wide that the middle of a pixel represents the whole pixel. An exposure points to a
position of a grid and is rotated a little. It shows the sky plus a plane, as of moonlight or a warm detector.
"""

from __future__ import annotations

from math import ceil, radians
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[np.floating[Any]]]
    Mask = np.ndarray[Any, np.dtype[np.bool]]

#: Coordinates of the middle of the sky, and size of a pixel, in degrees.
_MIDDLE, _PIXEL = (150.0, 30.0), 1 / 3600
#: Ranges of the brightness of a star's middle, and of the width of stars: pixels of one standard deviation.
_PEAKS, _WIDTHS = (20.0, 100.0), (4.0, 8.0)
#: Standard deviations beyond which a star is not seen: there it has less than a millionth of its peak.
_SEEN = 6.0
#: Largest rotation of an exposure in degrees.
_ROTATION = 3.0
#: Pixels beside the edge of an image that are not compared, because the image covers only a part of them.
_EDGE = 2


class Exposure(NamedTuple):
    """One image: pixels from the middle of the sky to its own, rotation in radians, and background as a plane."""

    right: float
    up: float
    angle: float
    level: float
    #: Slope of the background per pixel, to the right and up in the image.
    slopes: tuple[float, float]


class Survey(NamedTuple):
    """Exposures in rows and columns, of ``size`` pixels square, and the stars of the sky."""

    rows: int
    columns: int
    size: int
    overlap: float
    stars: int
    #: Largest deviation of backgrounds from zero: at the middle, and from there to either side.
    background: float
    seed: int

    def shape(self) -> tuple[int, int]:
        """Returns the rows and columns of pixels that have room for all exposures."""
        step, room = self.size * (1 - self.overlap), self.size * 1.2
        return ceil(step * (self.rows - 1) + room), ceil(step * (self.columns - 1) + room)

    def exposures(self) -> list[Exposure]:
        """Returns all exposures, row by row. The first is the reference: its background is the same everywhere."""
        import numpy as np

        source = np.random.default_rng((self.seed, 0))
        step = self.size * (1 - self.overlap)
        made = []
        for number in range(self.rows * self.columns):
            row, column = divmod(number, self.columns)
            angle = source.uniform(-radians(_ROTATION), radians(_ROTATION))
            level, *slopes = source.uniform(-self.background, self.background, 3).tolist()
            right, up = (slope / self.size if number else 0.0 for slope in slopes)
            made.append(
                Exposure(
                    step * (column - (self.columns - 1) / 2),
                    step * (row - (self.rows - 1) / 2),
                    angle,
                    level,
                    (right, up),
                )
            )
        return made

    def coordinates(self) -> Any:
        """Returns the world coordinates of the mosaic's pixels, as astropy represents them."""
        height, width = self.shape()
        return _tangent(_MIDDLE, width, height, 0.0)

    def coordinates_of(self, exposure: Exposure) -> Any:
        """Returns the world coordinates of an exposure's pixels."""
        pointed = _tangent(_MIDDLE, 1, 1, 0.0).all_pix2world([[exposure.right, exposure.up]], 0)[0]
        return _tangent(pointed, self.size, self.size, exposure.angle)

    def brightness(self, coordinates: Any, shape: tuple[int, int]) -> Array:
        """Returns the sky at the middle of each pixel of an image with these coordinates, ``float[row][column]``."""
        import numpy as np

        source = np.random.default_rng((self.seed, 1))
        height, width = self.shape()
        places = source.uniform(-0.5, 0.5, (self.stars, 2)) * (width, height)
        peaks, widths = source.uniform(*_PEAKS, self.stars), source.uniform(*_WIDTHS, self.stars)
        seen = coordinates.all_world2pix(_tangent(_MIDDLE, 1, 1, 0.0).all_pix2world(places, 0), 0)
        image = np.zeros(shape)
        for (x, y), peak, spread in zip(seen, peaks, widths, strict=True):
            left, low = (max(0, ceil(one - _SEEN * spread)) for one in (x, y))
            right, high = (max(0, ceil(one + _SEEN * spread)) for one in (x, y))
            near = image[low:high, left:right]
            row, column = np.ogrid[low : low + near.shape[0], left : left + near.shape[1]]
            near += peak * np.exp(-((column - x) ** 2 + (row - y) ** 2) / (2 * spread**2))
        return image

    def well_inside(self) -> Mask:
        """Returns which pixels of the mosaic are in an exposure and beside no edge: ``bool[row][column]``."""
        import numpy as np

        row, column = np.indices(self.shape())
        world = self.coordinates().all_pix2world(column, row, 0)
        middle = (self.size - 1) / 2
        covered, beside = np.zeros((2, *self.shape()), bool)
        for exposure in self.exposures():
            places = self.coordinates_of(exposure).all_world2pix(*world, 0)
            inward = self.size / 2 - np.maximum(*(abs(one - middle) for one in places))
            covered |= inward > _EDGE
            beside |= abs(inward) <= _EDGE
        return covered & ~beside


def _tangent(middle: Any, width: int, height: int, angle: float) -> Any:
    """Returns the gnomonic projection around a point, which is the middle of an image that is rotated by an angle."""
    import numpy as np
    from astropy.wcs import WCS

    made = WCS(naxis=2)
    made.wcs.ctype = ["RA---TAN", "DEC--TAN"]
    made.wcs.crval = middle
    made.wcs.crpix = [(width + 1) / 2, (height + 1) / 2]
    made.wcs.cdelt = [-_PIXEL, _PIXEL]
    cosine, sine = np.cos(angle), np.sin(angle)
    made.wcs.pc = [[cosine, -sine], [sine, cosine]]
    return made


def write_exposure(survey: Survey, exposure: Exposure, path: Path) -> None:
    """Makes the image of an exposure as a FITS file."""
    import numpy as np
    from astropy.io import fits

    coordinates = survey.coordinates_of(exposure)
    shape = (survey.size, survey.size)
    row, column = np.indices(shape) - (survey.size - 1) / 2
    right, up = exposure.slopes
    plane = exposure.level + right * column + up * row
    image = survey.brightness(coordinates, shape) + plane
    fits.PrimaryHDU(image.astype(np.float32), coordinates.to_header()).writeto(path)


def write_header(survey: Survey, path: Path) -> None:
    """Writes the header of the mosaic, Montage's template, in the lines of a FITS header."""
    from astropy.io import fits

    height, width = survey.shape()
    header = fits.Header(
        [("SIMPLE", True), ("BITPIX", -64), ("NAXIS", 2), ("NAXIS1", width), ("NAXIS2", height)]
    )
    header.update(survey.coordinates().to_header())
    header.tofile(path, sep="\n", endcard=True, padding=False)
