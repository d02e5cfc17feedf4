"""``anytime grow``: a table or a folder of images in, a family of networks, a file and a page out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from anytime.cli.errors import CliError
from anytime.cli.growing import GrowthScreen, hull_lines
from anytime.cli.image_folders import read_image_folder
from anytime.growth import GrowthSearch
from tests.growth.synthetic import ToyGrowth


def text_of(lines: list[list[tuple[str, str]]]) -> list[str]:
    return ["".join(piece for piece, _ in line) for line in lines]


def test_the_hull_is_drawn_as_it_is() -> None:
    assert text_of(
        hull_lines([0, 5, 10, 10], [1.0, 0.25, 0.0, 0.75], width=11, height=5, ascii_only=True)
    ) == [
        "       1 |#          ",
        "         | ..       o",
        "         |   ..      ",
        "         |     #..   ",
        "       0 |        ..#",
    ]
    assert text_of(hull_lines([3.0], [0.5], width=3, height=2))[-1] == "     0.5 │●··"


def test_the_screen_says_what_is_done_and_draws_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from rich.console import Console

    said, screen = [], GrowthScreen(60, "mult-adds", live=True)

    def look(search: GrowthSearch) -> None:
        screen(search)
        console = Console(width=90)
        with console.capture() as captured:
            console.print(screen)
        said.append(captured.get().splitlines())

    GrowthSearch(ToyGrowth(failing=(3,)), tmp_path).run(max_models=3, report=look)
    assert "of 60 s, 0 models; training the seed (Ctrl-C ends it)" in said[0][-1]
    assert "1 model; trying additions to model 0" in said[2][-1]
    assert "3 models, 1 failed job" in said[-1][-1]
    assert sum(line.count("●") + line.count("○") for line in said[-1]) == 3
    assert capsys.readouterr().err == ""  # nothing but the picture


def test_in_a_file_there_is_a_line_per_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    screen = GrowthScreen(None, "mult-adds", live=False)
    GrowthSearch(ToyGrowth(failing=(3,)), tmp_path).run(max_models=3, report=screen)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "model 0, the seed: error 0.5, 4 mult-adds"
    assert lines[1].startswith("model 2, grown from model 0: error ")
    assert lines[2] == "job 3 failed: RuntimeError: no luck with job 3"
    assert len(lines) == 4


# ---------------------------------------------------------------------- images


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Two classes of three images each, 6 x 5 pixels in colour."""
    Image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        for k in range(3):
            Image.fromarray(rng.integers(0, 256, (6, 5, 3), dtype=np.uint8)).save(
                tmp_path / name / f"{k}.png"
            )
        (tmp_path / name / "notes.txt").write_text("no image")
    return tmp_path


def test_a_folder_per_class_is_read(images: Path) -> None:
    X, y = read_image_folder(images)
    assert X.shape == (6, 3, 6, 5)
    assert X.dtype == np.uint8
    assert y.tolist() == ["cat"] * 3 + ["dog"] * 3
    resized, _ = read_image_folder(images, size=8)
    assert resized.shape == (6, 3, 8, 8)


def test_grey_images_have_one_channel(images: Path) -> None:
    from PIL import Image

    for file in images.glob("*/*.png"):
        Image.open(file).convert("L").save(file)
    assert read_image_folder(images)[0].shape == (6, 1, 6, 5)


def test_images_that_cannot_be_used_are_named(images: Path) -> None:
    from PIL import Image

    Image.new("RGB", (7, 7)).save(images / "dog" / "9.png")
    with pytest.raises(CliError, match=r"9\.png has 7 x 7 pixels, but .*0\.png has 6 x 5: --size brings all"):
        read_image_folder(images)
    (images / "dog" / "9.png").write_bytes(b"no image at all")
    with pytest.raises(CliError, match=r"9\.png is no picture that can be read"):
        read_image_folder(images)
    with pytest.raises(CliError, match="needs a folder of images for each of two classes or more, but has 0"):
        read_image_folder(images / "cat")
