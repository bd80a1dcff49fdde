"""A mosaic of overlapping images of the sky, by the programs of Montage (Caltech/IPAC), as in TaPS, section III-E.

Each image is projected to the pixels of the mosaic. Where two images overlap, a plane is fitted to their difference. A
model of all differences gives the plane to subtract from each image, and the corrected images are added up. Differences
do not show what all backgrounds have in common, so that planes are relative to that of a reference image.

Tasks exchange paths, and files are in the folder of the run: all workers need the same file system.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field, model_validator

from gristmill_bench.apps import mosaic
from gristmill_bench.apps.base import App
from gristmill_bench.apps.sky import Survey, write_header
from gristmill_bench.engine import Engine
from gristmill_bench.errors import WrongResult

#: Allowed difference between the mosaic and the sky, as a share of the sky's brightest pixel.
TOLERANCE = 0.03


class Montage(App):
    """A mosaic of images with backgrounds of their own, by Caltech's Montage (TaPS); workers share a file system."""

    needs: ClassVar[tuple[str, ...]] = ("astropy", "numpy")

    #: Rows and columns of images; with more of them the background model does not terminate.
    rows: Annotated[int, Field(ge=1, le=6)] = 4
    columns: Annotated[int, Field(ge=1, le=6)] = 4
    #: Pixels of an image's side, and the share of them in which neighbours overlap.
    size: Annotated[int, Field(ge=64, le=4096)] = 200
    overlap: Annotated[float, Field(ge=0.15, le=0.5)] = 0.2
    stars: Annotated[int, Field(ge=1)] = 200
    #: Largest brightness of backgrounds; the brightest star has 100.
    background: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 50.0
    seed: Annotated[int, Field(ge=0)] = 1

    @classmethod
    def missing(cls) -> str | None:
        """Returns the missing distributions, and the system package to install if a program of Montage is missing."""
        programs = all(shutil.which(one) for one in mosaic.PROGRAMS)
        absent = (super().missing(), None if programs else "apt-get install montage")
        return ", ".join(filter(None, absent)) or None

    @model_validator(mode="after")
    def _images_overlap(self) -> Montage:
        if self.rows * self.columns < 2:
            raise ValueError("one image is no mosaic")
        return self

    def survey(self) -> Survey:
        """Returns the survey whose images form the mosaic."""
        return Survey(
            self.rows, self.columns, self.size, self.overlap, self.stars, self.background, self.seed
        )

    def prepare(self, folder: Path) -> Survey:
        """Makes the folders of images and the header of the mosaic; tasks make the images."""
        survey = self.survey()
        for name in mosaic.FOLDERS:
            (folder / name).mkdir()
        write_header(survey, folder / mosaic.HEADER)
        return survey

    def run(self, engine: Engine, folder: Path) -> Path:
        """Returns the path of the mosaic.

        The program waits for the projected images, because only they show which images overlap.
        """
        survey: Survey = self.inputs(folder)
        here = str(folder.absolute())
        projected = []
        for number, exposure in enumerate(survey.exposures()):
            image = engine.submit(mosaic.expose, here, f"{number:02}.fits", survey, exposure)
            projected.append(engine.submit(mosaic.project, here, image))
        table = engine.submit(mosaic.tabulate, here, mosaic.PROJECTED, *projected)
        found = engine.submit(mosaic.find_overlaps, here, table)
        fits = [
            engine.submit(mosaic.fit, here, engine.submit(mosaic.subtract, here, overlap))
            for overlap in found.result()
        ]
        planes = engine.submit(mosaic.model, here, table, found, *fits)
        corrected = [engine.submit(mosaic.correct, here, image, planes) for image in projected]
        table = engine.submit(mosaic.tabulate, here, mosaic.CORRECTED, *corrected)
        added = engine.submit(mosaic.add, here, table, mosaic.CORRECTED, mosaic.MOSAIC)
        return folder / added.result()

    def check(self, result: Path) -> str:
        """Checks that the mosaic is the known sky inside the images, up to one common background and the tolerance."""
        import numpy as np
        from astropy.io import fits

        survey = self.survey()
        found = fits.getdata(result).astype(float)
        if found.shape != survey.shape():
            raise WrongResult(f"a mosaic of {found.shape} pixels, not {survey.shape()}")
        sky = survey.brightness(survey.coordinates(), found.shape)
        inside = survey.well_inside()
        holes = int((inside & ~np.isfinite(found)).sum())
        if holes:
            raise WrongResult(f"{holes} pixels of the mosaic are blank where there are images")
        rest = (found - sky)[inside]
        common = float(np.median(rest))
        off = float(abs(rest - common).max()) / float(sky.max())
        if not off < TOLERANCE:
            raise WrongResult(f"the mosaic is off by {off:.1%} of the brightest pixel")
        images = self.rows * self.columns
        return f"{images} images, {inside.sum()} pixels off by {off:.1%} at most, on a background of {common:.1f}"
