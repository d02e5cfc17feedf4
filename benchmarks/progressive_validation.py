"""Progressive validation: every row of a stream is answered, then learned, by streaming boosting and by river's ensembles.

The measure is the share of wrong classes, or the root of the mean square error, over all rows of the stream from the first on.
Streams are in ``_progressive_streams.py``: those that were tried, and others on which defaults were chosen. river's ensembles
have 10 models (its defaults, where it has any); its regressors read columns standardised on the way. Streaming boosting has its
defaults; beside it the same with an eye on drift. It is told which classes there are.

    python benchmarks/progressive_validation.py [--development] [--data DIR] [--streams "a;b"] [--models "a;b"]
        [--keep DIR [--no-more]] [--print]

A run with ``--keep`` can be broken off and goes on where it was. ``--print`` prints the tables of the last run.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import anytime as at
from _forest_curves import kept
from _progressive_streams import DEVELOPMENT, TRIED, Stream
from common import RESULTS, write

OURS = ("StreamingBoost", "StreamingBoost, drift")


def ours(**settings: Any) -> Callable[[Stream], dict[str, float]]:
    """Streaming boosting, one row at a time: chunks do not matter to the last bit."""

    def run(stream: Stream) -> dict[str, float]:
        Model = at.StreamingBoostClassifier if stream.classifies else at.StreamingBoostRegressor
        model = Model(random_state=0, **settings)
        classes = {"classes": np.unique(stream.y)} if stream.classifies else {}
        began = time.process_time()
        said = model.predict_then_fit(stream.X, stream.y, **classes)
        return judged(stream, said, time.process_time() - began)

    return run


def river_model(name: str, classifies: bool) -> Any:
    """One of river's ensembles of 10; None where it has none for the task."""
    from river import ensemble, forest, preprocessing, tree

    base = tree.HoeffdingTreeClassifier()
    if classifies:
        return {
            "ARF": lambda: forest.ARFClassifier(n_models=10, seed=0),
            "AMF": lambda: forest.AMFClassifier(n_estimators=10, seed=0),
            "AdaBoost": lambda: ensemble.AdaBoostClassifier(base, n_models=10, seed=0),
            "ADWINBoosting": lambda: ensemble.ADWINBoostingClassifier(base, n_models=10, seed=0),
            "SRP": lambda: ensemble.SRPClassifier(n_models=10, seed=0),
            "LeveragingBagging": lambda: ensemble.LeveragingBaggingClassifier(base, n_models=10, seed=0),
            "OXT": lambda: None,
        }[name]()
    found = {
        "ARF": lambda: forest.ARFRegressor(n_models=10, seed=0),
        "AMF": lambda: forest.AMFRegressor(n_estimators=10, seed=0),
        "SRP": lambda: ensemble.SRPRegressor(n_models=10, seed=0),
        "OXT": lambda: forest.OXTRegressor(n_models=10, seed=0),
    }.get(name, lambda: None)()
    return None if found is None else preprocessing.StandardScaler() | found


def theirs(name: str) -> Callable[[Stream], dict[str, float] | None]:
    """An ensemble of river, one row at a time."""

    def run(stream: Stream) -> dict[str, float] | None:
        model = river_model(name, stream.classifies)
        if model is None:
            return None
        began = time.process_time()
        said = []
        for values, truth in zip(stream.X.tolist(), stream.y.tolist(), strict=True):
            row = dict(enumerate(values))
            said.append(model.predict_one(row))
            model.learn_one(row, truth)
        nothing = -1 if stream.classifies else 0.0
        answers = np.array([nothing if answer is None else answer for answer in said])
        return judged(stream, answers, time.process_time() - began)

    return run


def judged(stream: Stream, said: Any, seconds: float) -> dict[str, float]:
    """What was wrong with the answers, and the time they took."""
    wrong = (said != stream.y).mean() if stream.classifies else np.sqrt(np.mean((said - stream.y) ** 2))
    return {"error": float(f"{wrong:.5g}"), "us_per_row": round(1e6 * seconds / len(said), 1)}


MODELS: dict[str, Callable[[Stream], dict[str, float] | None]] = {
    OURS[0]: ours(),
    OURS[1]: ours(drift=at.streaming.Drift("adwin", action="restart")),
    **{
        name: theirs(name)
        for name in ("ARF", "AMF", "OXT", "AdaBoost", "ADWINBoosting", "SRP", "LeveragingBagging")
    },
}


# ---------------------------------------------------------------------- tables


def counted(streams: dict[str, Any]) -> dict[str, Any]:
    """On how many streams each of ours is as good as river's best or better, and how far from it."""
    found: dict[str, Any] = {}
    for own in OURS:
        ratios = {}
        for name, stream in streams.items():
            errors = {model: figures["error"] for model, figures in stream["models"].items() if figures}
            rivals = [error for model, error in errors.items() if model not in OURS]
            if own in errors and rivals:
                ratios[name] = errors[own] / min(rivals)
        if not ratios:
            continue
        found[own] = {
            "streams": len(ratios),
            "as_good_or_better": sum(ratio <= 1 for ratio in ratios.values()),
            "ratios": {name: round(ratio, 3) for name, ratio in ratios.items()},
        }
    return found


def table(streams: dict[str, Any]) -> str:
    """All errors, the least of a row in bold; a dash where a model cannot do the task or was not run."""
    names = [name for name in MODELS if any(stream["models"].get(name) for stream in streams.values())]
    lines = [f"| stream | rows | {' | '.join(names)} |", "|---" * (2 + len(names)) + "|"]
    for stream, known in streams.items():
        errors = {name: figures["error"] for name, figures in known["models"].items() if figures}
        least = min(errors.values())
        cells = [
            "-" if name not in errors else f"**{shown}**" if errors[name] == least else shown
            for name in names
            for shown in [f"{errors.get(name, 0):.4g}"]
        ]
        lines.append(f"| {stream} | {known['rows']:,} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--development", action="store_true", help="the streams that defaults are chosen on")
    parser.add_argument("--data", default=os.environ.get("ANYTIME_DATA"), help="folder of the public sets")
    parser.add_argument("--streams", help="some of them, with semicolons between")
    parser.add_argument("--models", help="some of them, with semicolons between")
    parser.add_argument("--keep", type=Path, help="folder of what is done: a run can then go on")
    parser.add_argument("--no-more", action="store_true", help="only write what is kept, and run nothing")
    parser.add_argument("--print", action="store_true", help="print the tables of the last run")
    options = parser.parse_args()
    sources = DEVELOPMENT if options.development else TRIED
    name = "progressive_development" if options.development else "progressive_validation"
    if options.print:
        record = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
        print(table(record["streams"]))
        for own, found in record["verdict"].items():
            print(f"\n{own}: {found['as_good_or_better']} of {found['streams']}")
        return
    some = options.streams.split(";") if options.streams else list(sources)
    models = options.models.split(";") if options.models else list(MODELS)
    streams: dict[str, Any] = {stream: {"models": {}} for stream in some}
    for model in models:
        for stream in some:
            rows = sources[stream](options.data)
            run = partial(MODELS[model], rows)
            if options.no_more and not (options.keep / f"{model}/{stream}.pickle").exists():
                continue
            figures = kept(options.keep, f"{model}/{stream}", run)
            streams[stream] |= {"rows": len(rows.y), "columns": rows.X.shape[1]}
            streams[stream]["measure"] = "share of wrong classes" if rows.classifies else "root mean square"
            streams[stream]["models"][model] = figures
    write(name, {"streams": streams, "verdict": counted(streams)})


if __name__ == "__main__":
    main()
