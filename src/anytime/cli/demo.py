"""``anytime demo``: the first minute. Real images, real extractors, measured prices, and a model that can be interrupted."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anytime.cli.errors import CliError
from anytime.cli.io import listing
from anytime.cli.tables import console, number, print_table, print_title, step, track

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from anytime.cli.digits import Digits
    from anytime.curves import Comparison
    from anytime.features import Features
    from anytime.plan import Answer
    from anytime.runtime import Session

__all__ = ["demo"]


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Where the model, prices, plot and report go.")
    ] = Path("demo"),
    quick: Annotated[bool, typer.Option("--quick", help="A third of the images and smaller models.")] = False,
) -> None:
    """Read digits under a budget: measure prices, train, see what a millisecond buys, interrupt an answer.

    Takes less than a minute, needs no network, and leaves a report in a folder.
    """
    from anytime.features import Features

    began = time.monotonic()
    _make_folder(output)
    from anytime.datasets.images import image_extractors

    features = Features(image_extractors())
    data = _prepare(features, output, quick)
    models = _train(data, quick)
    comparison = _judge(models, data, output)
    ladder = models["ladder"]
    ladder.save(output / "digits.anytime")
    _write_table(data, output / "test.csv")
    _ask_one_image(ladder, features, data)
    _say_goodbye(output, comparison, time.monotonic() - began)


def _make_folder(path: Path) -> None:
    if path.exists() and not path.is_dir():
        raise CliError(f"{path} is a file; name a folder with --output")
    path.mkdir(parents=True, exist_ok=True)


# ---------------------------------------------------------------------- 1, 2: prices and features


def _prepare(features: Features, output: Path, quick: bool) -> Digits:
    import pandas as pd

    from anytime.cli.digits import Digits, Part, feature_tables
    from anytime.cli.profiling import print_prices
    from anytime.datasets.images import load_digit_images

    with step("making the images"):
        images, y, *split = load_digit_images()
    if quick:
        split = [rows[::3] for rows in split]
    count = sum(map(len, split))
    _heading(1, "What do features cost on this machine?")
    _say(
        f"{count:,} grey images of digits, moved, turned and noisy; {len(features.names)} ways to describe one. "
        "Each is timed, one image at a time:"
    )
    with step("measuring"):
        costs = features.profile(images[split[0][: 20 if quick else 60]], repeats=3, path=output / "costs.yaml")
    print_prices(costs)
    _heading(2, "All features of all images")
    began = time.monotonic()
    parts = []
    tables = [feature_tables(features, images[rows]) for rows in split]
    todo = [(k, table) for k, rows in enumerate(split) for table in [tables[k]] * -(-len(rows) // 50)]
    computed: list[list[pd.DataFrame]] = [[] for _ in split]
    for k, table in track(todo, "computing features"):
        computed[k].append(next(table))
    for rows, found in zip(split, computed, strict=True):
        parts.append(Part(images[rows], pd.concat(found, ignore_index=True), y[rows]))
    _say(
        f"{parts[0].X.shape[1]} columns in {time.monotonic() - began:.1f} s: {len(parts[0].y)} images to train on, "
        f"{len(parts[1].y)} to order by, {len(parts[2].y)} to judge by."
    )
    return Digits(*parts, costs=costs)


# ---------------------------------------------------------------------- 3, 4: models and curves


def _train(data: Digits, quick: bool) -> dict[str, Any]:
    from anytime.cli import digits

    size = 30 if quick else 80
    _heading(3, "Three models from the same trees of scikit-learn")
    with step("training a forest as usual"):
        usual = digits.usual(data, size)
    _say("usual: a forest as everybody trains it. Its first tree wants every feature.")
    with step("training and ordering a forest of one-group trees"):
        grouped = digits.grouped(data, size // 4)
    _say(
        "one group per tree: each tree needs one kind of feature, and at.make_anytime sorts them by what they gain per "
        f"millisecond on held-out images. It buys {', '.join(grouped.order_)}."
    )
    with step("training a forest per purchase"):
        ladder = digits.ladder(data, grouped.order_, size)
    skipped = digits.groups_left_out(ladder, data.costs.groups)
    _say(
        "ladder: one forest per purchase in that order, each replacing the last. "
        + (f"Never bought, as it does not pay: {listing(skipped)}." if skipped else "Every purchase pays.")
    )
    return {"ladder": ladder, "one group per tree": grouped, "usual": usual}


def _judge(models: dict[str, Any], data: Digits, output: Path) -> Comparison:
    from anytime.cli.compare import print_comparison
    from anytime.curves import compare

    _heading(4, f"What does a millisecond buy? Accuracy on {len(data.test.y)} new images")
    with step("judging every stage"):
        comparison = compare(models, data.test.X, data.test.y)
    print_comparison(comparison, log=True)
    comparison.report(output / "report.html", title="Reading digits under a budget")
    try:
        axes = comparison.plot(log=True)
    except ImportError:
        _say("curve.png is left out: matplotlib is not installed (pip install 'anytime[plot]').")
    else:
        axes.set_title("Reading digits under a budget")
        axes.figure.savefig(output / "curve.png", dpi=150)
    return comparison


def _write_table(data: Digits, path: Path) -> None:
    data.test.X.assign(digit=data.test.y).to_csv(path, index=False, float_format="%.6g")


# ---------------------------------------------------------------------- 5: one image


def _ask_one_image(model: Any, features: Features, data: Digits) -> None:
    from anytime.runtime import Session

    i = _telling_image(model, data)
    raw, truth = data.test.images[i], data.test.y[i]
    _heading(5, f"One new image, a {truth}: features are computed only while there is time")
    _print_image(raw)
    session = Session(model, features)
    for warm_up in data.test.images[:20]:
        session.predict(warm_up, deadline=1.0)  # a session learns how long things take here
    rows = [_row("budget " + number(b, 2) + " ms", session.predict(raw, budget=b), session) for b in _budgets(model)]
    for milliseconds in (0.5, 2, 20):
        answer = session.predict(raw, deadline=milliseconds / 1e3)
        rows.append(_row(f"deadline {milliseconds:g} ms", answer, session))
    answer, asked = _interrupted(session, raw, model)
    rows.append(_row(asked, answer, session))
    rows.append(_row("95% sure", session.predict(raw, confidence=0.95), session))
    rows.append(_row("no limit", session.predict(raw), session))
    print_table(["<asked for", "<says", "sure", "cost ms", "took ms", "ended by", "<computed"], rows)


def _telling_image(model: Any, data: Digits) -> int:
    """An image that the first glance gets wrong and everything gets right."""
    import numpy as np

    first = model.predict(data.test.X, budget=float(model.stage_costs_[0])) == data.test.y
    final = model.predict(data.test.X) == data.test.y
    telling = np.flatnonzero(~first & final)
    return int(telling[0]) if telling.size else 0


def _budgets(model: Any) -> list[float]:
    """Budgets in round numbers that reach the first, a middle and the last stage but one."""
    from math import ceil, log10

    reached = [float(model.stage_costs_[j]) for j in sorted({0, model.n_stages_ // 2, max(model.n_stages_ - 2, 0)})]
    digits = [1 - int(log10(cost)) + (cost < 1) for cost in reached]
    return [ceil(cost * 10**d) / 10**d for cost, d in zip(reached, digits, strict=True)]


def _interrupted(session: Session, raw: Any, model: Any) -> tuple[Answer, str]:
    """Ask without any bound, and let another thread call it off."""
    from anytime import StopFlag

    patience = 0.0015
    flag = StopFlag()
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)  # Python looks every 5 ms whether another thread wants to run; that is too late here
    try:
        other = threading.Timer(patience, flag.set)
        other.start()
        answer = session.predict(raw, stop=flag)
        other.join()
    finally:
        sys.setswitchinterval(before)
    return answer, f"stop after {patience * 1e3:g} ms"


def _row(asked: str, answer: Answer, session: Session) -> list[str]:
    return [
        asked,
        str(answer.prediction),
        f"{answer.confidence:.0%}",
        number(float(answer.cost), 3),
        number(1e3 * answer.elapsed, 3),
        session.reason,
        listing(answer.groups, 2) if answer.groups else "nothing",
    ]


def _print_image(image: NDArray[np.float64]) -> None:
    """The image in characters, at half its resolution."""
    out = console()
    shades = " .:*#" if out.options.ascii_only else " ░▒▓█"
    small = image.reshape(16, 2, 32).mean(axis=1)
    levels = (small.clip(0, 0.999) * len(shades)).astype(int)
    for row in levels:
        out.print("    " + "".join(shades[level] for level in row), markup=False)
    out.print()


# ---------------------------------------------------------------------- words


def _heading(number_: int, text: str) -> None:
    console().print()
    print_title(f"{number_}  {text}")


def _say(text: str) -> None:
    from rich.padding import Padding

    console().print(Padding(text, (0, 0, 0, 3)), markup=False)


def _say_goodbye(output: Path, comparison: Comparison, seconds: float) -> None:
    _heading(6, f"Done in {seconds:.0f} s. What is in {output}/")
    files = {
        "report.html": "the curves with a budget slider; open it in a browser",
        "curve.png": "the curves as a picture",
        "digits.anytime": "the ladder; no pickle, safe to pass on",
        "costs.yaml": "the prices measured above",
        "test.csv": "features of the new images, and the digit",
    }
    rows = [[f"   {name}", what] for name, what in files.items() if (output / name).exists()]
    print_table(["<", "<"], rows)
    _say("Try next:")
    for line in (
        f"anytime inspect {output}/digits.anytime",
        f"anytime predict {output}/digits.anytime {output}/test.csv --budget 0.2 --with-cost",
        "anytime fit YOUR.csv --target COLUMN -o yours.anytime",
    ):
        console().print(f"     {line}", markup=False, soft_wrap=True)
