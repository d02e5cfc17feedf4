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
from anytime.cli.options import option
from anytime.cli.tables import console, print_table, print_text, print_title, step, track

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from anytime.answer import Answer
    from anytime.cli.digits import Digits
    from anytime.features import Features
    from anytime.runtime import Session

WAYS = ("ink", "pixels", "upright", "upright edges", "holes", "swept edges")  # of eight: a minute is short
_WARM_UP = 128  # images: a session plans with the slowest times of the last so many
_DEADLINES = (0.001, 0.003, 0.02)  # seconds
_PATIENCE = 0.0015  # seconds until another thread interrupts


def demo(
    output: Annotated[
        Path, option("FOLDER", "Folder for the model, prices, plot and report.", "--output", "-o")
    ] = Path("demo"),
    quick: Annotated[
        bool, typer.Option("--quick", help="Use a third of the images and smaller models.")
    ] = False,
) -> None:
    """Read digits under a budget: a tour in one minute.

    Measures what features cost, trains a model with these prices, shows what a millisecond buys, and interrupts an answer.
    Takes less than a minute, needs no network, and leaves a report in a folder.
    """
    from anytime.features import Features

    began = time.monotonic()
    _make_folder(output)
    from anytime.datasets.images import image_extractors

    extractors = image_extractors()
    features = Features({name: extractors[name] for name in WAYS})
    data = _prepare(features, output, quick)
    models = _train(data, quick)
    _judge(models, data, output)
    model = models["SpeedBoost"]
    model.save(output / "digits.anytime")
    data.test.X.assign(digit=data.test.y).to_csv(output / "test.csv", index=False, float_format="%.6g")
    _ask_one_image(model, features, data)
    _say_goodbye(output, time.monotonic() - began)


def _make_folder(path: Path) -> None:
    if path.exists() and not path.is_dir():
        raise CliError(f"{path} is a file; name a folder with --output")
    path.mkdir(parents=True, exist_ok=True)


# ---------------------------------------------------------------------- 1, 2: prices and features


def _prepare(features: Features, output: Path, quick: bool) -> Digits:
    import numpy as np

    from anytime.cli.digits import Digits, Part
    from anytime.cli.profiling import print_prices
    from anytime.datasets.images import load_digit_images

    with step("creating the images"):
        images, y, train, valid, test = load_digit_images()
    split = [rows[::3] if quick else rows for rows in (np.concatenate([train, valid]), test)]
    _heading(1, "What do features cost on this machine?")
    _say(
        f"{sum(map(len, split)):,} grey images of digits, shifted, rotated and noisy, and {len(features.names)} ways to "
        "describe an image. Each way is timed, one image at a time:"
    )
    with step("measuring"):
        typical = list(images[split[0][: 20 if quick else 60]])
        costs = features.profile(typical, n_repeats=3, path=output / "costs.yaml")
    console().print()
    print_prices(costs)
    _heading(2, "All features of all images")
    began = time.monotonic()
    table = _all_features(features, images[np.concatenate(split)])
    ends = np.cumsum([len(rows) for rows in split])
    parts = [
        Part(images[rows], table.iloc[end - len(rows) : end].reset_index(drop=True), y[rows])
        for rows, end in zip(split, ends, strict=True)
    ]
    _say(
        f"{table.shape[1]} columns in {time.monotonic() - began:.1f} s; {len(split[0])} images for training, "
        f"{len(split[1])} for testing."
    )
    return Digits(costs, *parts)


def _all_features(features: Features, images: NDArray[np.float64], batch: int = 50) -> pd.DataFrame:
    import pandas as pd

    starts = range(0, len(images), batch)
    tables = [
        features.matrix(list(images[start : start + batch])) for start in track(starts, "computing features")
    ]
    return pd.concat(tables, ignore_index=True)


# ---------------------------------------------------------------------- 3, 4: models and curves


def _train(data: Digits, quick: bool) -> dict[str, Any]:
    from anytime.cli import digit_rivals, digits

    rounds = 10 if quick else 20
    _heading(3, "One model for every budget, and what a careful user would do without it")
    with step("training SpeedBoost"):
        speedboost = digits.speedboost(data, rounds, digits.SECONDS)
    left_out = digits.groups_left_out(speedboost, data.costs)
    _say(
        "SpeedBoost: at.SpeedBoostClassifier buys the group that gains most per millisecond on held-out images, and retrains "
        f"after each purchase. It buys {', '.join(speedboost.order_)}."
        + (f" Not worth their price: {listing(left_out)}." if left_out else "")
    )
    with step("training ordinary boosting"):
        usual = digits.usual(data, rounds)
    _say(
        "as usual: at.GradientBoostingClassifier, which ignores prices. Its trees use all groups, so even the first ones need "
        "nearly everything."
    )
    with step("training one model per budget"):
        others = digit_rivals.rivals(data, rounds, digits.TREES)
    if "LightGBM's penalties" in others:
        _say(
            "one LightGBM per budget: groups by what they gain per millisecond on held-out images, and a LightGBM for each set. "
            "LightGBM's penalties: the first use of a column costs the price of its group; the best of several trade-offs."
        )
    else:
        _say(
            "one model per budget: groups by what they gain per millisecond on held-out images, and an ordinary model for each "
            "set. LightGBM is not installed (pip install 'anytime[lightgbm]'), so at.GradientBoostingClassifier "
            "stands for it."
        )
    return {"SpeedBoost": speedboost, **others, "as usual": usual}


def _judge(models: dict[str, Any], data: Digits, output: Path) -> None:
    from anytime.cli.compare import print_comparison
    from anytime.curves import compare

    _heading(4, f"What does a millisecond buy? Accuracy on {len(data.test.y)} new images")
    with step("evaluating every stage"):
        comparison = compare(models, data.test.X, data.test.y)
    print_comparison(comparison, log=True)
    comparison.report(output / "report.html", title="Reading digits under a budget")
    try:
        axes = comparison.plot(log=True)
    except ImportError:
        _say("curve.png is skipped: matplotlib is not installed (pip install 'anytime[plot]').")
    else:
        axes.set_title("Reading digits under a budget")
        axes.figure.savefig(output / "curve.png", dpi=150)


# ---------------------------------------------------------------------- 5: one image


def _ask_one_image(model: Any, features: Features, data: Digits) -> None:
    from anytime.runtime import Session

    i = _telling_image(model, data)
    raw, truth = data.test.images[i], data.test.y[i]
    _heading(5, f"One new image, a {truth}: features are computed only while there is time")
    _say(
        "Chosen for show: among the images that the first stage gets wrong and the full model right, the clearest."
    )
    _print_image(raw)
    console().print()
    session = Session(model, features)
    for other in data.test.images[:_WARM_UP]:
        session.predict(other)  # a session learns how long things take here, and plans with that
    rows = [_row(f"budget {b:.3g} ms", session.predict(raw, budget=b), session) for b in _budgets(model)]
    for seconds in _DEADLINES:
        rows.append(_row(f"deadline {1e3 * seconds:g} ms", session.predict(raw, deadline=seconds), session))
    rows.append(_row(f"stop at {1e3 * _PATIENCE:g} ms", _interrupted(session, raw), session))
    rows.append(_row("50% is enough", session.predict(raw, confidence=0.5), session))
    rows.append(_row("no limit", session.predict(raw), session))
    print_table(["<request", "<answer", "sure", "cost", "took", "<ended by", "<computed"], rows)
    _say("cost: by the prices above; took: on the clock; both in ms. Another thread sent 'stop'.")


def _telling_image(model: Any, data: Digits) -> int:
    """The clearest of the images that the first glance gets wrong and everything gets right."""
    import numpy as np

    first = model.predict(data.test.X, budget=float(model.stage_costs_[0])) == data.test.y
    probabilities = model.predict_proba(data.test.X)
    final = model.classes_[probabilities.argmax(axis=1)] == data.test.y
    return int(np.argmax(np.where(~first & final, probabilities.max(axis=1), 0.0)))


def _budgets(model: Any) -> list[float]:
    """Budgets in round numbers that reach the first stage, one in the middle, and the last but one."""
    from math import ceil, floor, log10

    stages = sorted({0, (model.n_stages_ - 1) // 2, max(model.n_stages_ - 2, 0)})
    costs = [float(model.stage_costs_[j]) for j in stages]
    units = [10.0 ** (floor(log10(cost)) - 1) for cost in costs]
    return [ceil(cost / unit + 1e-9) * unit for cost, unit in zip(costs, units, strict=True)]


def _interrupted(session: Session, raw: Any) -> Answer:
    """Ask without any bound, and let another thread call it off."""
    from anytime import StopFlag

    flag = StopFlag()
    before = sys.getswitchinterval()
    # Python looks every 5 ms whether another thread wants to run; that is too late here
    sys.setswitchinterval(1e-4)
    try:
        other = threading.Timer(_PATIENCE, flag.set)
        other.start()
        answer = session.predict(raw, stop=flag)
        other.join()
    finally:
        sys.setswitchinterval(before)
    return answer


def _row(asked: str, answer: Answer, session: Session) -> list[str]:
    return [
        asked,
        str(answer.prediction),
        f"{answer.confidence:.0%}",
        f"{float(answer.cost):.3f}",
        f"{1e3 * answer.elapsed:.2f}",
        session.reason,
        _bought(answer.groups),
    ]


def _bought(groups: list[str]) -> str:
    if len(groups) < 2:
        return "".join(groups) or "nothing"
    return f"{groups[-1]}, {len(groups) - 1} before"


def _print_image(image: NDArray[np.float64]) -> None:
    """The image in characters, at half its resolution."""
    out = console()
    shades = " .:*#" if out.options.ascii_only else " ░▒▓█"
    small = image.reshape(16, 2, 32).mean(axis=1)
    levels = (small.clip(0, 0.999) * len(shades)).astype(int)
    inked = levels.any(axis=1).nonzero()[0]
    for row in levels[inked[0] : inked[-1] + 1]:
        out.print("      " + "".join(shades[level] for level in row).rstrip(), markup=False)


# ---------------------------------------------------------------------- words


def _heading(number: int, text: str) -> None:
    console().print()
    print_title(f"{number}  {text}")


def _say(text: str) -> None:
    print_text(text, indent=3)


def _say_goodbye(output: Path, seconds: float) -> None:
    _heading(6, f"Done in {seconds:.0f} s. Files in {output}")
    files = {
        "report.html": "the curves with a budget slider: open it in a browser",
        "curve.png": "the curves as a picture",
        "digits.anytime": "the SpeedBoost model: not a pickle, safe to share",
        "costs.yaml": "the prices measured above",
        "test.csv": "features and digits of the test images",
    }
    for name, what in files.items():
        if (output / name).exists():
            console().print(f"   {name:<16}{what}")
    console().print()
    _say("Try next:")
    for line in (
        f"anytime inspect {output}/digits.anytime",
        f"anytime predict {output}/digits.anytime {output}/test.csv --budget 0.5 --with-cost",
        f"anytime curve {output}/digits.anytime {output}/test.csv --target digit",
        "anytime fit YOUR.csv --target COLUMN -o yours.anytime",
    ):
        console().print(f"     {line}", markup=False, soft_wrap=True)
