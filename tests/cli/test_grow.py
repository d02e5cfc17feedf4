"""``anytime grow``: a table or a folder of images in, a family of networks, a file and a page out."""

from __future__ import annotations

import re
import signal
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import anytime as at
from anytime.cli.errors import CliError
from anytime.cli.growing import GrowthScreen, hull_lines
from anytime.cli.image_folders import read_image_folder
from anytime.growth import GrowthSearch
from anytime.growth.journal import snapshot
from tests.cli.running import fails, hear_ctrl_c, process, run
from tests.growth.synthetic import ToyGrowth

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="needs torch")
QUICK = ["--n-growths", 1, "--set", "width=8"]


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


# ---------------------------------------------------------------------- the command


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """200 rows whose class is told by the distance from the origin."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(200, 3)), columns=["a", "b", "c"])
    rows["ring"] = np.where((rows**2).sum(axis=1) > 2.4, "outer", "inner")
    rows.to_csv(tmp_path / "rings.csv", index=False)
    return tmp_path / "rings.csv"


@needs_torch
def test_a_table_becomes_a_family_of_networks_and_grows_on(table: Path) -> None:
    file, page, search = (table.with_suffix(suffix) for suffix in (".anytime", ".html", ".search"))
    said = run("grow", table, "-t", "ring", *QUICK, "-o", file)
    assert "200 rows, 3 columns: classification, 2 classes" in said.stdout
    assert "2 networks trained" in said.stdout
    assert "accuracy on the 40 rows held out" in said.stdout
    assert "model 0, the seed: error" in said.stderr
    model = at.load(file)
    assert isinstance(model, at.GrowingNetworkClassifier)
    assert model.classes_.tolist() == ["inner", "outer"]
    assert "200 rows, 3 columns" in page.read_text()

    assert "already holds a search: add --resume" in fails("grow", table, "-t", "ring", "-o", file, code=2)
    before = snapshot(search / "journal.sqlite").models
    said = run("grow", table, "-t", "ring", *QUICK, "--resume", "-o", file)
    after = snapshot(search / "journal.sqlite").models
    assert [m.error for m in after[:2]] == [m.error for m in before]
    assert len(after) == 3
    assert "the seed" not in said.stderr  # only what is new is told
    assert len(re.findall(r'"number":', page.read_text())) == 3

    other = pd.read_csv(table).sample(frac=1, random_state=0)
    other.to_csv(table, index=False)
    assert "started on other rows" in run("grow", table, "-t", "ring", "--resume", "-o", file, code=1).stderr


@needs_torch
def test_numbers_are_predicted_and_prices_are_what_networks_cost(table: Path) -> None:
    prices = table.with_name("prices.yaml")
    prices.write_text("unit: EUR\ngroups: {a: {price: 1, columns: [a]}, rest: {price: 5, columns: [b, c]}}")
    rows = pd.read_csv(table).drop(columns="ring")
    rows["a"] += 0.1 * rows["b"]
    rows.to_csv(table, index=False)
    file = table.with_suffix(".anytime")
    said = run("grow", table, "-t", "a", *QUICK, "--task", "regression", "-o", file)
    assert "regression" in said.stdout
    prices.write_text("unit: EUR\ngroups: {c: {price: 1, columns: [c]}, b: {price: 5, columns: [b]}}")
    priced = run(
        "grow", table, "-t", "a", *QUICK, "--costs", prices, "--folder", table.parent / "x", "-o", file
    )
    assert "EUR" in priced.stdout
    assert set(at.load(file).stage_costs_) <= {1.0, 5.0, 6.0}


@needs_torch
def test_a_folder_of_images_is_grown_on(images: Path, tmp_path: Path) -> None:
    from PIL import Image

    rng = np.random.default_rng(1)
    for name, level in (("cat", 60), ("dog", 190)):
        for k in range(20):
            pixels = np.clip(rng.normal(level, 30, (8, 8, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(images / name / f"more-{k}.png")
    quick = ["--n-growths", 1, "--set", "n_cells=1", "--set", "width=4"]
    said = run("grow", images, "--size", 8, *quick, "-o", tmp_path / "pets.anytime")
    assert "46 images of 8 x 8 x 3: classification, 2 classes" in said.stdout
    assert at.load(tmp_path / "pets.anytime").input_shape_ == (3, 8, 8)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "a table needs --target"),
        (["-t", "ring", "--workers", "none"], "--workers must be a number from 1, or ray; not 'none'"),
        (["-t", "ring", "--resume"], "there is no search in"),
        (["-t", "a"], "networks need numbers, but words are in ring: encode them first"),
        (["-t", "ring", "--set", "depth=3"], "depth"),
    ],
)
def test_mistakes_are_told_before_anything_is_made(table: Path, options: list[str], message: str) -> None:
    if "--set" in options and find_spec("torch") is None:
        pytest.skip("needs torch")
    said = run("grow", table, *options, "-o", table.with_suffix(".anytime"), code=2).stderr
    assert message in said.splitlines()[-1]  # a slow machine says before how long it has read
    assert {path.name for path in table.parent.iterdir()} == {"rings.csv"}


@needs_torch
@pytest.mark.slow
def test_ctrl_c_keeps_what_there_is(table: Path) -> None:
    """growth_and_streaming C-P1 on the command line: the file is written, and the command has not failed."""
    file = table.with_suffix(".anytime")
    growing = process("grow", table, "-t", "ring", "--time-budget", 600, "-o", file, preexec_fn=hear_ctrl_c)
    for line in growing.stderr:
        if line.startswith("model 0"):
            break
    growing.send_signal(signal.SIGINT)
    said, _ = growing.communicate(timeout=300)
    assert growing.returncode == 0
    assert "trained" in said
    assert at.load(file).n_stages_ >= 1
