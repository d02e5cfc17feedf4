"""Labels of sequences: ``SequenceLabeler`` with and without context, boosted trees, and python-crfsuite on the same features.

    ANYTIME_DATA=... python benchmarks/sequences.py --choose            # tries settings, not on test words
    ANYTIME_DATA=... python benchmarks/sequences.py                     # all parts that are not in the results yet
    ANYTIME_DATA=... python benchmarks/sequences.py --parts conll       # those whose name begins so
    ANYTIME_DATA=... python benchmarks/sequences.py --only trees        # one model anew, of parts that have results

Every feature costs 1. Settings are those that ``--choose`` found (``results/sequences_dev.json``): on the development words of UD
English EWT, on a fifth of the training words of "letters small 0", and on a fifth of the training sentences of CoNLL-2000, where
half of the others were learned from. The CRF is python-crfsuite's, a linear chain with all transitions.
Boosted trees see one element at a time, of letters in fold 0 only; of strings the 254 most frequent values are categories.
Bars: CoNLL-2000 F1 within 0.005 of the CRF, 20,000 words a second, half of the cost loses at most 0.01; letters: error with
context at most 0.6 of that without, and no more than the CRF's, both settings.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import anytime as at
from _sequence_sets import Part, development_parts, parts
from anytime.curves import chunk_f1
from common import RESULTS, write

SETTINGS: dict[str, dict[str, Any]] = {
    "conll2000": {"labeler": {"context": 2, "l2_regularization": 0.5}, "crf": 0.01},
    "ud-ewt": {"labeler": {"context": 2, "l2_regularization": 0.2}, "crf": 0.1},
    "letters": {"labeler": {"context": 4, "l2_regularization": 0.5}, "crf": 1.0},
}  # as ``--choose`` found them
TRIED_ON_LETTERS = [{"context": c, "l2_regularization": p} for c in (2, 4, 6) for p in (0.5, 2.0)]
TRIED_ON_WORDS = [{"context": 2, "l2_regularization": p} for p in (0.2, 0.5, 1.0)]
PENALTIES = (1.0, 0.1, 0.01)  # of the CRF


def quality(part: Part, said: Any) -> dict[str, float]:
    """Share of elements that are right, and of chunks where there are any."""
    right = np.concatenate([np.asarray(a) == np.asarray(b) for a, b in zip(said, part.y_test, strict=True)])
    figures = {"accuracy": round(float(right.mean()), 5)}
    if part.metric == "chunk_f1":
        figures["chunk_f1"] = round(chunk_f1(part.y_test, said), 5)
    return figures


def labelled(part: Part, seed: int, **settings: Any) -> dict[str, Any]:
    """Fit, judge and time a labeler."""
    began = time.process_time()
    model = at.SequenceLabeler(random_state=seed, **settings).fit(part.X, part.y)
    fit_seconds = time.process_time() - began
    began = time.process_time()
    said = model.predict(part.X_test)
    pace = sum(map(len, said)) / (time.process_time() - began)
    curve = at.curve(model, part.X_test, part.y_test, metric=part.metric)
    objective = [step.value for step in model.steps_]
    return {
        **settings,
        **quality(part, said),
        "fit_seconds": round(fit_seconds, 1),
        "elements_per_second": round(pace),
        "stages": model.n_stages_,
        "cost": float(model.stage_costs_[-1]),
        "half_cost": round(float(curve.at(0.5 * model.stage_costs_[-1])), 5),
        "curve": [
            [round(float(c), 3), round(float(v), 5)] for c, v in zip(curve.costs, curve.values, strict=True)
        ],
        "order": model.order_,
        "replaced_in_part": sum(step.update.step < 1 for step in model.steps_),
        "objective_rises": int(np.sum(np.diff(objective) > 1e-12)),
    }


def chain_crf(part: Part, penalty: float) -> dict[str, Any]:
    """A linear-chain CRF by python-crfsuite on the same features."""
    import pycrfsuite

    def items(structure: Any) -> Any:
        if isinstance(structure, np.ndarray):
            structure = [{f"x{j}": row[j] for j in np.flatnonzero(row)} for row in structure]
        return pycrfsuite.ItemSequence(structure)

    began = time.process_time()
    trainer = pycrfsuite.Trainer(verbose=False)
    trainer.set_params(
        {"c1": 0.0, "c2": penalty, "max_iterations": 200, "feature.possible_transitions": True}
    )
    for structure, labels in zip(part.X, part.y, strict=True):
        trainer.append(items(structure), [str(label) for label in labels])
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "crf")
        trainer.train(path)
        fit_seconds = time.process_time() - began
        tagger = pycrfsuite.Tagger()
        tagger.open(path)
        began = time.process_time()
        said: list[Any] = [tagger.tag(items(structure)) for structure in part.X_test]
        pace = sum(map(len, said)) / (time.process_time() - began)
        tagger.close()
    if not isinstance(part.y_test[0][0], str):
        said = [[int(label) for label in labels] for labels in said]
    return {
        **quality(part, said),
        "penalty": penalty,
        "fit_seconds": round(fit_seconds, 1),
        "elements_per_second": round(pace),
    }


def boosted_trees(part: Part, seed: int) -> dict[str, Any]:
    """Plain boosting: every element for itself, all features."""
    X, X_test = part.table()
    categorical = None if part.has_pixels else list(range(X.shape[1]))
    model = at.GradientBoostingClassifier(
        n_estimators=40,
        learning_rate=0.3,
        l2_regularization=1.0,  # without it scores of rare classes run away
        categorical_features=categorical,
        random_state=seed,
    )
    began = time.process_time()
    model.fit(X, np.concatenate([np.asarray(labels) for labels in part.y]))
    fit_seconds = time.process_time() - began
    said = np.split(model.predict(X_test), np.cumsum([len(labels) for labels in part.y_test])[:-1])
    return {**quality(part, said), "trees": model.n_stages_, "fit_seconds": round(fit_seconds, 1)}


def choose(part: Part, seed: int) -> dict[str, Any]:
    """Settings, judged on sequences that are not those of the test."""
    grid = TRIED_ON_LETTERS if part.has_pixels else TRIED_ON_WORDS
    tried = [labelled(part, seed, **settings) for settings in grid]
    crfs = [chain_crf(part, penalty) for penalty in PENALTIES]
    best = max(tried, key=lambda figures: figures[part.metric])
    return {
        "labeler": {name: best[name] for name in ("context", "l2_regularization")},
        "crf": max(crfs, key=lambda figures: figures[part.metric])["penalty"],
        "tried": [
            {name: value for name, value in figures.items() if name not in ("curve", "order")}
            for figures in tried + crfs
        ],
    }


def figures_of(part: Part, settings: dict[str, Any], seed: int, with_trees: bool) -> dict[str, Any]:
    """All models of one part."""
    figures = {
        "train": [len(part.X), sum(map(len, part.y))],
        "test": [len(part.X_test), sum(map(len, part.y_test))],
        "with_context": labelled(part, seed, **settings["labeler"]),
        "without_context": labelled(part, seed, **{**settings["labeler"], "context": 0}),
        "crf": chain_crf(part, settings["crf"]),
    }
    return {**figures, "trees": boosted_trees(part, seed)} if with_trees else figures


def kind_of(name: str) -> str:
    """The name of a part without its fold."""
    return " ".join(word for word in name.split() if not word.isdigit())


def summary(done: dict[str, Any]) -> dict[str, Any]:
    """The bars, as far as there are figures."""
    out: dict[str, Any] = {}
    for kind in dict.fromkeys(map(kind_of, done)):
        folds = [figures for name, figures in done.items() if kind_of(name) == kind]
        metric = "chunk_f1" if "chunk_f1" in folds[0]["crf"] else "accuracy"
        names = ("with_context", "without_context", "trees", "crf")
        held = {name: [fold[name][metric] for fold in folds if name in fold] for name in names}
        mean = {name: float(np.mean(values)) for name, values in held.items() if values}
        ours = [fold["with_context"] for fold in folds]
        out[kind] = {
            "folds": len(folds),
            "metric": metric,
            **{name: round(value, 5) for name, value in mean.items()},
            "less_crf": round(mean["with_context"] - mean["crf"], 5),
            "no_worse_than_crf_in": sum(f["with_context"][metric] >= f["crf"][metric] for f in folds),
            "error_to_that_without": round((1 - mean["with_context"]) / (1 - mean["without_context"]), 3),
            "half_cost_loses": round(float(np.mean([f[metric] - f["half_cost"] for f in ours])), 5),
            "elements_per_second": round(float(np.mean([f["elements_per_second"] for f in ours]))),
            "fit_seconds": round(float(np.mean([f["fit_seconds"] for f in ours])), 1),
        }
    return out


def read(name: str, key: str) -> dict[str, Any]:
    """What a file of results holds under a key; nothing where there is no file."""
    path = RESULTS / f"{name}.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))[key] if path.exists() else {}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", default="", help="beginning of the names of parts to run")
    parser.add_argument("--choose", action="store_true", help="try settings, without the test words")
    parser.add_argument("--again", action="store_true", help="also parts that have results")
    parser.add_argument("--only", choices=["trees", "crf"], help="this model anew, of parts with results")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    data = Path(os.environ["ANYTIME_DATA"])
    if asked.choose:
        for name, load in development_parts(data):
            if name.startswith(asked.parts) and (asked.again or name not in read("sequences_dev", "parts")):
                found = choose(load(), asked.seed)
                write("sequences_dev", {"parts": {**read("sequences_dev", "parts"), name: found}})
        return
    for name, load in parts(data):
        known = read("sequences", "parts").get(name)
        if not name.startswith(asked.parts) or (known and not (asked.again or asked.only)):
            continue
        kind = name.split()[0]
        trees = kind != "letters" or name.endswith(" 0")
        if asked.only:
            if not known or (asked.only == "trees" and not trees):
                continue
            one = (
                boosted_trees(load(), asked.seed)
                if asked.only == "trees"
                else chain_crf(load(), SETTINGS[kind]["crf"])
            )
            figures = {**known, asked.only: one}
        else:
            figures = figures_of(load(), SETTINGS[kind], asked.seed, with_trees=trees)
        # read again: another process may have added parts meanwhile
        done = {**read("sequences", "parts"), name: figures}
        write("sequences", {"summary": summary(done), "parts": done})


if __name__ == "__main__":
    main()
