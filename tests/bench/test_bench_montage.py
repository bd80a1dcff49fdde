"""The mosaic equals the known sky except for one background, and only because backgrounds are modelled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gristmill_bench import BenchError, ExecutorPlugin, WrongResult
from gristmill_bench.apps import mosaic
from gristmill_bench.apps.montage import Montage
from gristmill_bench.plugins import make

from applications import EXECUTORS, run

FEW_IMAGES = Montage(rows=2, columns=2, size=64, stars=20)


@pytest.mark.slow
@pytest.mark.parametrize("executor", EXECUTORS, ids=lambda one: type(one).__name__)
def test_a_mosaic_is_made_on_any_executor(executor: ExecutorPlugin, tmp_path: Path) -> None:
    assert FEW_IMAGES.check(run(FEW_IMAGES, tmp_path, executor)).startswith("4 images, ")


@pytest.mark.slow
def test_without_the_model_of_backgrounds_it_is_not_the_sky(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(folder: str, table: str, overlaps: Any, *fits: Any) -> dict[str, mosaic.Plane]:
        return {f"{number:02}.fits": mosaic.Plane(0.0, 0.0, 0.0) for number in range(4)}

    monkeypatch.setattr(mosaic, "model", nothing)
    with pytest.raises(WrongResult, match="of the brightest pixel"):
        FEW_IMAGES.check(run(FEW_IMAGES, tmp_path))


def test_a_wrong_mosaic_is_seen(tmp_path: Path) -> None:
    path = run(FEW_IMAGES, tmp_path)
    from astropy.io import fits

    def written(image: Any) -> Path:
        fits.PrimaryHDU(image).writeto(tmp_path / "wrong.fits", overwrite=True)
        return tmp_path / "wrong.fits"

    image = fits.getdata(path)
    # The centre belongs to all four images; this point belongs to one of them only.
    place = image.shape[0] // 4, image.shape[1] // 4
    for value, says in [(float("nan"), "blank"), (image[place] + 5, "off by")]:
        wrong = image.copy()
        wrong[place] = value
        with pytest.raises(WrongResult, match=says):
            FEW_IMAGES.check(written(wrong))
    with pytest.raises(WrongResult, match="a mosaic of"):
        FEW_IMAGES.check(written(image[1:]))
    assert FEW_IMAGES.check(written(image + 7)), "one background belongs to no image"


def test_images_that_do_not_overlap_have_no_difference(tmp_path: Path) -> None:
    run(Montage(rows=1, columns=3, size=64, stars=10), tmp_path)
    folder = str(tmp_path)
    apart = mosaic.subtract(folder, mosaic.Overlap("00.fits", "02.fits", 0, 2))
    assert apart is None
    assert mosaic.fit(folder, apart) is None
    assert mosaic.subtract(folder, mosaic.Overlap("00.fits", "01.fits", 0, 1)) is not None
    with pytest.raises(BenchError, match=r"mDiff: Area file .*none_area"):
        mosaic.subtract(folder, mosaic.Overlap("00.fits", "none.fits", 0, 1))


def test_programs_that_are_missing_are_named_with_what_installs_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "apt-get install montage" in str(Montage.missing())


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"rows": 1, "columns": 1}, "one image is no mosaic"),
        ({"overlap": 0.01}, "app.overlap"),
    ],
)
def test_what_makes_no_sense_is_refused(fields: dict[str, Any], says: str) -> None:
    if missing := Montage.missing():
        pytest.skip(missing)
    with pytest.raises(BenchError, match=says):
        make("app", "montage", fields)
