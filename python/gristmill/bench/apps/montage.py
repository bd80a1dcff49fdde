"""A mosaic of overlapping images of the sky, by the programs of Montage (Caltech/IPAC), as in TaPS, section III-E.

Each image is projected to the pixels of the mosaic. Where two overlap, their difference is fitted by a plane; a model
of all differences gives the plane to take from each image, and what is left of them is added up. Differences do not
tell what all backgrounds have in common, so planes are counted from that of a reference.

Paths are arguments of tasks, and files are in the folder of the run: all workers have to see one file system.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field, model_validator

from gristmill.bench.apps import mosaic
from gristmill.bench.apps.base import App
from gristmill.bench.apps.sky import Survey, write_header
from gristmill.bench.engine import Engine
from gristmill.bench.errors import WrongResult

#: How far the mosaic may be from the sky, as a share of the sky's brightest pixel.
TOLERANCE = 0.03


class Montage(App):
    """A mosaic of images with backgrounds of their own, by Caltech's Montage (TaPS); workers share a file system."""

    needs: ClassVar[tuple[str, ...]] = ("astropy", "numpy")

    #: Images: with more of them side by side the model does not come to an end.
    rows: Annotated[int, Field(ge=1, le=6)] = 4
    columns: Annotated[int, Field(ge=1, le=6)] = 4
    #: Pixels of the sides of an image, and the share of them in which neighbours overlap.
    size: Annotated[int, Field(ge=64, le=4096)] = 200
    overlap: Annotated[float, Field(ge=0.15, le=0.5)] = 0.2
    stars: Annotated[int, Field(ge=1)] = 200
    #: How bright backgrounds are at most; the brightest star has 100.
    background: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 50.0
    seed: Annotated[int, Field(ge=0)] = 1

    @classmethod
    def missing(cls) -> str | None:
        """Programs come from a package of the system."""
        programs = all(shutil.which(one) for one in mosaic.PROGRAMS)
        absent = (super().missing(), None if programs else "apt-get install montage")
        return ", ".join(filter(None, absent)) or None

    @model_validator(mode="after")
    def _images_overlap(self) -> Montage:
        if self.rows * self.columns < 2:
            raise ValueError("one image is no mosaic")
        return self

    def survey(self) -> Survey:
        """What is looked at."""
        return Survey(
            self.rows, self.columns, self.size, self.overlap, self.stars, self.background, self.seed
        )

    def prepare(self, folder: Path) -> Survey:
        """Makes the folders of images and the header of the mosaic; the images are made by tasks."""
        survey = self.survey()
        for name in mosaic.FOLDERS:
            (folder / name).mkdir()
        write_header(survey, folder / mosaic.HEADER)
        return survey

    def run(self, engine: Engine, folder: Path) -> Path:
        """Gives the file of the mosaic. How many images overlap is known only when they are projected."""
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
        """Wherever there is an image the mosaic is the known sky, but for one background, and within a tolerance."""
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
