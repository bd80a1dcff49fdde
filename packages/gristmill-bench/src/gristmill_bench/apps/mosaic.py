"""Steps of a mosaic, a task each: programs of Montage (Caltech/IPAC) on files in the folder of the run.

Tasks exchange the names of files, so that all workers need the same file system. The projection is ``mProjectPP``, for
images with tangent planes: ``mProject`` as of version 6.0 gives a few pixels of them areas that are 10^10 times too
large.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

from gristmill_bench.apps.sky import Exposure, Survey, write_exposure
from gristmill_bench.errors import BenchError

PROGRAMS = (
    "mProjectPP",
    "mImgtbl",
    "mOverlaps",
    "mDiff",
    "mFitplane",
    "mBgModel",
    "mBackground",
    "mAdd",
)
#: Folders of images, and files, in the folder of a run.
FOLDERS = (RAW, PROJECTED, DIFFERENCES, CORRECTED) = (
    "raw",
    "projected",
    "differences",
    "corrected",
)
HEADER, MOSAIC = "mosaic.hdr", "mosaic.fits"
#: Messages of programs about two images that overlap too little.
_APART = ("All pixels are blank", "Images don't overlap", "Too few pixels")
#: Names of the values that ``mFitplane`` reports for a plane, as ``mBgModel`` expects them.
_PLANE = (
    *("a", "b", "c", "crpix1", "crpix2", "xmin", "xmax", "ymin", "ymax", "xcenter", "ycenter"),
    *("npixel", "rms", "boxx", "boxy", "boxwidth", "boxheight", "boxang"),
)
#: Upper limit of the model's iterations; the model stops when it has converged.
_ITERATIONS = 32_767


class Plane(NamedTuple):
    """Plane to subtract from an image: slope per pixel to the right and up, and level at the mosaic's reference."""

    right: float
    up: float
    level: float

    def less(self, other: Plane) -> Plane:
        """Returns the difference of both planes."""
        return Plane(self.right - other.right, self.up - other.up, self.level - other.level)


class Overlap(NamedTuple):
    """Two images, by name and by number in the table of projected images."""

    plus: str
    minus: str
    plus_number: int
    minus_number: int


def call(folder: str, *words: str) -> dict[str, str]:
    """Runs a program of Montage in a folder and returns its output.

    Raises ``BenchError`` with the message of the program.
    """
    ended = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    said = ended.stdout.rpartition("[struct ")[2]
    found = {name: value.strip('"') for name, value in re.findall(r'(\w+)=("[^"]*"|[^,\]]+)', said)}
    if found.get("stat") != "OK":
        raise BenchError(f"{words[0]}: {found.get('msg') or ended.stderr or ended.returncode}")
    return found


def expose(folder: str, name: str, survey: Survey, exposure: Exposure) -> str:
    """Makes an image of the known sky and returns its name, as the other tasks do."""
    write_exposure(survey, exposure, Path(folder, RAW, name))
    return name


def project(folder: str, name: str) -> str:
    """Projects an image to the pixels of the mosaic."""
    call(folder, "mProjectPP", f"{RAW}/{name}", f"{PROJECTED}/{name}", HEADER)
    return name


def tabulate(folder: str, images: str, *_names: str) -> str:
    """Makes the table of the images in a folder; ``_names`` makes the task wait for them."""
    call(folder, "mImgtbl", images, f"{images}.tbl")
    return f"{images}.tbl"


def find_overlaps(folder: str, table: str) -> list[Overlap]:
    """Returns the pairs of images that overlap."""
    call(folder, "mOverlaps", table, "overlaps.tbl")
    names = ("plus", "minus", "cntr1", "cntr2")
    found = _rows(Path(folder, "overlaps.tbl"), names)
    return [Overlap(str(one), str(other), int(i), int(j)) for one, other, i, j in found]


def subtract(folder: str, overlap: Overlap) -> str | None:
    """Subtracts two images where they overlap; returns ``None`` if they overlap only beside edges."""
    name = f"{DIFFERENCES}/{overlap.plus_number}-{overlap.minus_number}.fits"
    first, second = f"{PROJECTED}/{overlap.plus}", f"{PROJECTED}/{overlap.minus}"
    return name if _unless_apart(folder, "mDiff", first, second, name, HEADER) else None


def fit(folder: str, difference: str | None) -> dict[str, str] | None:
    """Fits a plane to a difference and returns the program's output, or ``None`` if there are too few pixels."""
    return None if difference is None else _unless_apart(folder, "mFitplane", difference)


def model(
    folder: str, table: str, overlaps: list[Overlap], *fits: dict[str, str] | None
) -> dict[str, Plane]:
    """Returns the plane to subtract from each image, relative to that of the first: differences determine no more."""
    from astropy.table import Table

    rows = [
        (overlap.plus_number, overlap.minus_number, *(float(found[name]) for name in _PLANE))
        for overlap, found in zip(overlaps, fits, strict=True)
        if found is not None
    ]
    planes = Table(rows=rows, names=("plus", "minus", *_PLANE))
    planes["npixel"] = planes["npixel"].astype(int)
    planes.write(Path(folder, "fits.tbl"), format="ascii.ipac", overwrite=True)
    call(folder, "mBgModel", "-i", str(_ITERATIONS), table, "fits.tbl", "corrections.tbl")
    corrections = _rows(Path(folder, "corrections.tbl"), ("id", "a", "b", "c"))
    found = {int(number): Plane(*map(float, plane)) for number, *plane in corrections}
    images = {
        Path(name).name: int(number)
        for name, number in _rows(Path(folder, table), ("fname", "cntr"))
    }
    alone = [name for name, number in images.items() if number not in found]
    if alone:
        raise BenchError(f"mBgModel has nothing on {', '.join(alone)}")
    common = found[images[min(images)]]
    return {name: found[number].less(common) for name, number in images.items()}


def correct(folder: str, name: str, planes: dict[str, Plane]) -> str:
    """Subtracts the plane of an image from it."""
    plane = [repr(one) for one in planes[name]]
    call(folder, "mBackground", f"{PROJECTED}/{name}", f"{CORRECTED}/{name}", *plane)
    return name


def add(folder: str, table: str, images: str, mosaic: str) -> str:
    """Adds images up to the mosaic, whose pixels are the means of the images that cover them."""
    call(folder, "mAdd", "-e", "-p", images, table, HEADER, mosaic)
    return mosaic


def _unless_apart(folder: str, *words: str) -> dict[str, str] | None:
    try:
        return call(folder, *words)
    except BenchError as error:
        if str(error).partition(": ")[2].startswith(_APART):
            return None
        raise


def _rows(table: Path, columns: tuple[str, ...]) -> list[tuple[Any, ...]]:
    """Returns some columns of a table of Montage, row by row."""
    from astropy.table import Table

    return list(Table.read(table, format="ascii.ipac")[columns].iterrows())
