"""``anytime stream``: rows as they come, checkpoints, and going on."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import anytime as at
from tests.cli.running import fails, hear_ctrl_c, process, run

FEW = ("--learner", "ridge", "--n-estimators", 3)


@pytest.fixture
def trips(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"km": rng.exponential(5.0, 600), "hour": rng.integers(0, 24, 600)})
    X["kind"] = rng.choice(["bus", "tram"], 600)
    X["minutes"] = (3.0 * X["km"] + 5.0 * (X["kind"] == "bus")).round(3)
    X.to_csv(tmp_path / "trips.csv", index=False)
    X.assign(late=np.where(X["minutes"] > 15, "yes", "no")).drop(columns="minutes").to_csv(
        tmp_path / "late.csv", index=False
    )
    return tmp_path


def test_a_table_is_learned_row_by_row(trips: Path) -> None:
    out = run("stream", trips / "trips.csv", "-t", "minutes", "--save", trips / "m.anytime", *FEW).stdout
    model = at.load(trips / "m.anytime")
    assert (
        f"600 rows learned; before learning each: root mean square error {model.progressive_error_:.4g}"
        in out
    )
    assert f"wrote {trips / 'm.anytime'}" in " ".join(out.split("\n"))
    assert type(model).__name__ == "StreamingBoostRegressor"
    assert list(model.feature_names_in_) == ["km", "hour", "kind"]
    answers = run("predict", trips / "m.anytime", trips / "trips.csv", "--budget", 3).stdout
    assert len(answers.splitlines()) == 601


def test_chunks_checkpoints_and_interruptions_leave_no_trace(trips: Path) -> None:
    save = ("--save", trips / "m.anytime")
    run("stream", trips / "trips.csv", "-t", "minutes", "--save", trips / "whole.anytime", *FEW)
    text = (trips / "trips.csv").read_text().splitlines(keepends=True)
    run("stream", "-", "-t", "minutes", *save, *FEW, "--chunk", 37, given="".join(text[:251]))
    told = run(
        "stream", trips / "trips.csv", "-t", "minutes", *save, "--resume", "--every", 100, "--chunk", 50
    )
    assert "continued after 250 rows" in told.stderr
    assert "350 rows, " in told.stderr
    assert (trips / "m.anytime").read_bytes() == (trips / "whole.anytime").read_bytes()
    told = run("stream", trips / "trips.csv", "-t", "minutes", *save, "--resume")
    assert f"nothing new: {trips / 'm.anytime'} has read all 600 rows" in " ".join(told.stderr.split())
    assert (trips / "m.anytime").read_bytes() == (trips / "whole.anytime").read_bytes()


def test_only_the_same_stream_is_resumed(trips: Path) -> None:
    save = ("-t", "minutes", "--save", trips / "m.anytime")
    lines = (trips / "trips.csv").read_text().splitlines(keepends=True)
    for name, rows in (("day", lines[1:11]), ("other", lines[300:])):
        (trips / f"{name}.csv").write_text("".join([lines[0], *rows]))
    run("stream", trips / "day.csv", *save, *FEW)
    other = fails("stream", trips / "other.csv", *save, "--resume")
    assert "has read 10 rows of day.csv" in other
    assert f"--begin {trips / 'm.anytime'}" in other
    assert at.load(trips / "m.anytime").rows_seen_ == 10
    moved = (trips / "day.csv").rename(trips / "moved.csv")
    moved.write_text("".join(lines[:31]))  # it has grown
    run("stream", moved, *save, "--resume")
    assert at.load(trips / "m.anytime").rows_seen_ == 30
    moved.write_text("".join(lines[:26]))  # and lost rows
    short = fails("stream", moved, *save, "--resume")
    assert "has 25 rows, but" in short
    assert "--begin" in short


def test_another_stream_may_begin_with_a_model(trips: Path) -> None:
    first = ("--save", trips / "a.anytime", *FEW)
    run("stream", trips / "trips.csv", "-t", "minutes", *first)
    run(
        "stream",
        trips / "trips.csv",
        "-t",
        "minutes",
        "--begin",
        trips / "a.anytime",
        "--save",
        trips / "b.anytime",
    )
    assert at.load(trips / "b.anytime").rows_seen_ == 1200
    assert at.load(trips / "a.anytime").rows_seen_ == 600


def test_classes_prices_and_settings(trips: Path) -> None:
    (trips / "prices.yaml").write_text(
        "groups:\n  trip: {price: 2, columns: [km, hour]}\n  kind: {price: 1, columns: [kind]}\n"
    )
    run(
        *(
            "stream",
            trips / "late.csv",
            "-t",
            "late",
            "--save",
            trips / "m.anytime",
            "--costs",
            trips / "prices.yaml",
        ),
        *(
            "--learner",
            "stump",
            "--n-estimators",
            4,
            "--set",
            "learning_rate=0.5",
            "--set",
            "algorithm={kind: StreamAlgorithm, gate: skip}",
            "--set",
            "class_weight={'yes': 2.0}",
            "--drift",
            "adwin",
        ),
    )
    model = at.load(trips / "m.anytime")
    assert model.classes_.tolist() == ["no", "yes"]
    assert (model.learning_rate, model.drift, model.learner) == (0.5, "adwin", "stump")
    assert (model.algorithm.gate, model.class_weight) == ("skip", {"yes": 2.0})
    assert model.costs_.total == 3.0
    assert "4 stages" in run("inspect", trips / "m.anytime").stdout
    run(
        "stream",
        trips / "late.csv",
        "-t",
        "late",
        "--save",
        trips / "n.anytime",
        *FEW,
        "--classes",
        "yes,no,maybe",
    )
    assert at.load(trips / "n.anytime").classes_.tolist() == ["maybe", "no", "yes"]


def test_learners_have_settings_of_their_own(trips: Path) -> None:
    save = ("--save", trips / "m.anytime", "--n-estimators", 3)
    run(
        "stream",
        trips / "trips.csv",
        "-t",
        "minutes",
        *save,
        "--set",
        "learner={kind: HoeffdingTree, max_features: 1}",
    )
    assert at.load(trips / "m.anytime").learner == at.streaming.HoeffdingTree(max_features=1)
    for wrong in ("{kind: Oak}", "{kind: HoeffdingTree, leaves: 3}", "{max_features: 1}"):
        message = fails(
            "stream", trips / "trips.csv", "-t", "minutes", *save, "--set", f"learner={wrong}", code=2
        )
        assert "is not a valid object" in message


def test_what_is_wrong_is_told_in_one_line(trips: Path) -> None:
    save = ("--save", trips / "m.anytime")
    assert "no column 'minuts'" in fails("stream", trips / "trips.csv", "-t", "minuts", *save, code=2)
    assert "no such file" in fails("stream", trips / "absent.csv", "-t", "y", *save)
    assert "no such parameter" in fails(
        "stream", trips / "trips.csv", "-t", "km", *save, "--set", "depth=3", code=2
    )
    options = ("--classes", "a,b", "--task", "regression")
    assert "--classes" in fails("stream", trips / "late.csv", "-t", "late", *save, *options, code=2)
    assert "at least two" in fails(
        "stream", trips / "late.csv", "-t", "late", *save, "--classes", "a", code=2
    )
    unknown = fails("stream", trips / "late.csv", "-t", "late", *save, *FEW, "--classes", "yes,maybe")
    assert "'no'" in unknown
    assert "--classes" in unknown
    run("fit", trips / "late.csv", "-t", "late", "-o", trips / "f.anytime", "--n-estimators", 3)
    other = ("--begin", trips / "f.anytime")
    assert "does not learn from a stream" in fails("stream", trips / "late.csv", "-t", "late", *save, *other)
    assert "one of them" in fails(
        "stream", trips / "late.csv", "-t", "late", *save, *other, "--resume", code=2
    )


def test_ctrl_c_leaves_a_whole_checkpoint(trips: Path) -> None:
    """A pipe that never ends: the model has what came before the interrupt."""
    import subprocess

    arguments = (
        "stream",
        "-",
        "-t",
        "minutes",
        "--save",
        trips / "m.anytime",
        "--chunk",
        50,
        "--every",
        100,
        *FEW,
    )
    running = process(*arguments, stdin=subprocess.PIPE, preexec_fn=hear_ctrl_c)
    assert running.stdin is not None
    running.stdin.write("".join((trips / "trips.csv").read_text().splitlines(keepends=True)[:431]))
    running.stdin.flush()
    deadline = time.monotonic() + 300
    while not (trips / "m.anytime").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(1.0)
    running.send_signal(signal.SIGINT)
    running.wait(timeout=300)  # before the pipe is closed: the end of the rows is no interrupt
    _, told = running.communicate()
    assert running.returncode == 130, told
    model = at.load(trips / "m.anytime")
    assert model.position_ == model.rows_seen_ >= 100
    assert model.rows_seen_ % 50 == 0
    assert "--resume continues" in told


def test_a_stream_with_bad_rows_stops_or_goes_on_without_them(trips: Path) -> None:
    lines = (trips / "trips.csv").read_text().splitlines()
    names = lines[0].split(",")
    missing, wrong = dict.fromkeys(names, "1"), dict.fromkeys(names, "1")
    missing["minutes"], wrong["km"] = "", "far"
    bad = [",".join(row[name] for name in names) for row in (missing, wrong)]
    (trips / "bad.csv").write_text("\n".join([*lines[:401], *bad, *lines[401:]]) + "\n")
    asked = (
        "stream",
        trips / "bad.csv",
        "-t",
        "minutes",
        "--save",
        trips / "bad.anytime",
        "--chunk",
        100,
        *FEW,
    )
    told = run(*asked, code=1).stderr
    assert "after 400 rows; --resume continues from there" in told
    assert (
        "row 402: column 'km' held numbers so far, but here holds 'far'; --lenient continues without it"
        in told
    )
    assert at.load(trips / "bad.anytime").rows_seen_ == 400
    out = run(*asked, "--lenient").stdout
    assert "601 rows learned" in out
    assert "left out: 1 rows without a target" in out


def test_rows_without_a_target_may_be_among_the_first(trips: Path) -> None:
    lines = (trips / "trips.csv").read_text().splitlines()
    lines[300] = lines[300].rpartition(",")[0] + ","
    (trips / "bad.csv").write_text("\n".join(lines) + "\n")
    asked = ("stream", trips / "bad.csv", "-t", "minutes", "--save", trips / "bad.anytime", *FEW)
    assert "row 300: the target 'minutes' is missing; --lenient continues without it" in fails(*asked)
    out = run(*asked, "--lenient").stdout
    assert "599 rows learned" in out
    assert "left out: 1 rows without a target" in out
    lines[1:6] = [line.rpartition(",")[0] + "," for line in lines[1:6]]
    (trips / "bad.csv").write_text("\n".join(lines) + "\n")
    assert "no row of the first chunk has a value of the target" in fails(*asked, "--lenient", "--chunk", 5)


def test_cells_can_be_named_that_mean_a_missing_value(trips: Path) -> None:
    text = (trips / "trips.csv").read_text().splitlines()
    cells = text[3].split(",")
    cells[text[0].split(",").index("km")] = "?"
    text[3] = ",".join(cells)
    (trips / "gaps.csv").write_text("\n".join(text))
    asked = ["stream", trips / "gaps.csv", "-t", "minutes", "--save", trips / "gaps.anytime", *FEW]
    run(*asked, "--na-values", "?")
    assert at.load(trips / "gaps.anytime").categories_.keys() == {
        list(at.load(trips / "gaps.anytime").feature_names_in_).index("kind")
    }
    run(*asked[:1], "-", *asked[2:], "--na-values", "?", given="\n".join(text))
