"""Labels of sequences: ``SequenceLabeler`` with and without context against python-crfsuite on the same features.

    ANYTIME_DATA=... python benchmarks/sequences.py                 # all parts that are not in the results yet
    ANYTIME_DATA=... python benchmarks/sequences.py --parts conll   # those whose name begins so
    ANYTIME_DATA=... python benchmarks/sequences.py --share 0.05    # a rehearsal, which is not written

Every feature costs 1. python-crfsuite is a linear-chain CRF with L2 penalty 1 and all transitions; on letters also with 0.1,
and the better of the two on the test words counts. Bars: CoNLL-2000 F1 within 0.005 of the CRF, 20,000 words a second, half of
the cost loses at most 0.01; letters: error with context at most 0.6 of that without, and no more than the CRF's, both settings.
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
from _sequence_sets import Part, parts
from anytime.curves import chunk_f1
from common import RESULTS, write

SHARES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)  # of the cost of everything, at which curves are read


def quality(part: Part, said: Any) -> dict[str, float]:
    """Share of elements that are right, and of chunks where there are any."""
    right = np.concatenate([np.asarray(a) == np.asarray(b) for a, b in zip(said, part.y_test, strict=True)])
    figures = {"accuracy": round(float(right.mean()), 5)}
    if part.metric == "chunk_f1":
        figures["chunk_f1"] = round(chunk_f1(part.y_test, said), 5)
    return figures


def labelled(part: Part, context: int, seed: int) -> dict[str, Any]:
    """Fit, judge and time a labeler."""
    began = time.process_time()
    model = at.SequenceLabeler(context=context, random_state=seed).fit(part.X, part.y)
    fit_seconds = time.process_time() - began
    n_elements = sum(map(len, part.y_test))
    began = time.process_time()
    said = model.predict(part.X_test)
    pace = n_elements / (time.process_time() - began)
    total = model.costs_.total
    figures: dict[str, Any] = {
        **quality(part, said),
        "fit_seconds": round(fit_seconds, 1),
        "elements_per_second": round(pace),
        "stages": model.n_stages_,
        "cost": float(model.stage_costs_[-1]),
        "order": model.order_,
    }
    if context:
        curve = at.curve(model, part.X_test, part.y_test, metric=part.metric)
        figures["curve"] = {str(share): round(float(curve.at(share * total)), 5) for share in SHARES}
    return figures


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


def figures_of(part: Part, seed: int) -> dict[str, Any]:
    """All models of one part."""
    letters = part.metric == "accuracy" and isinstance(part.X[0], np.ndarray)
    return {
        "train": [len(part.X), sum(map(len, part.y))],
        "test": [len(part.X_test), sum(map(len, part.y_test))],
        "with_context": labelled(part, part.context, seed),
        "without_context": labelled(part, 0, seed),
        "crf": max(
            (chain_crf(part, penalty) for penalty in ((1.0, 0.1) if letters else (1.0,))),
            key=lambda figures: figures[part.metric],
        ),
    }


def summary(done: dict[str, Any]) -> dict[str, Any]:
    """The bars, as far as there are figures."""
    out: dict[str, Any] = {}
    if "conll2000" in done:
        ours, crf = done["conll2000"]["with_context"], done["conll2000"]["crf"]
        out["conll2000"] = {
            "f1": ours["chunk_f1"],
            "f1_less_crf": round(ours["chunk_f1"] - crf["chunk_f1"], 5),
            "half_cost_loses": round(ours["chunk_f1"] - ours["curve"]["0.5"], 5),
            "words_per_second": ours["elements_per_second"],
        }
    for setting in ("small", "large"):
        folds = [figures for name, figures in done.items() if name.startswith(f"letters {setting}")]
        if folds:
            error = {
                kind: float(np.mean([1 - fold[kind]["accuracy"] for fold in folds]))
                for kind in ("with_context", "without_context", "crf")
            }
            out[f"letters {setting}"] = {
                "folds": len(folds),
                **{kind: round(value, 5) for kind, value in error.items()},
                "ratio": round(error["with_context"] / error["without_context"], 3),
            }
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", default="", help="beginning of the names of parts to run")
    parser.add_argument(
        "--share", type=float, default=1.0, help="of the training sequences; results are then not written"
    )
    parser.add_argument("--again", action="store_true", help="also parts that have results")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    path = RESULTS / "sequences.json"
    done = json.loads(path.read_text(encoding="utf-8"))["parts"] if path.exists() else {}
    for name, load in parts(Path(os.environ["ANYTIME_DATA"])):
        if not name.startswith(asked.parts) or (name in done and not asked.again and asked.share == 1):
            continue
        part = load()
        if asked.share < 1:
            n = max(20, round(asked.share * len(part.X)))
            print(name, json.dumps(figures_of(part._replace(X=part.X[:n], y=part.y[:n]), asked.seed)))
            continue
        done[name] = figures_of(part, asked.seed)
        write("sequences", {"summary": summary(done), "parts": done})


if __name__ == "__main__":
    main()
