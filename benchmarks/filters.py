"""Detection with filters: errors against mean features per patch (figures 6.3 to 6.5 of Grubb, *Anytime Prediction*).

The paper's patches are private; ``make_patches`` stands in: one vehicle to five other patches, 200 Haar-like features that cost
1 each. All boosters use the same stumps and exponential loss: SpeedBoost with margin filters and a fifth of each step, its twin
without filters, that twin with full steps, which are better early and worse late, and AdaBoost. The cascades end AdaBoost's
layers at detection rate 0.995 and false positive rate 0.5. Filters and cascades spend unevenly, so the cost axis is the mean over
the 60,000 test patches. What the filtered model pays is set against whichever unfiltered SpeedBoost pays less for that error.

    python benchmarks/filters.py [--seeds 3] [--rows 20000] [--stages 800] [--pictures DIR]
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

import anytime as at
from anytime.boosting.additive import AdditiveSpeedBoostClassifier
from anytime.boosting.cascade import CascadeClassifier
from anytime.boosting.filters import margin_filters
from anytime.boosting.learners import TreeLearner
from anytime_research.datasets import make_patches
from common import in_turns, median, write

Array = NDArray[np.float64]

COSTS = (0.0, 1.0, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0, 30.0, 50.0, 80.0)
TEST_ROWS = 60_000  # 10,000 vehicles and 50,000 others, as in the paper


def contestants(stages: int, seed: int) -> dict[str, Any]:
    """The models, not fitted."""
    boosting = {
        "method": "proj",
        "loss": "exponential",
        "n_estimators": stages,
        "validation_fraction": None,
        "random_state": seed,
    }
    stumps, votes = [TreeLearner(max_depth=1)], [TreeLearner(max_depth=1, leaf="vote")]
    return {
        "filtered": AdditiveSpeedBoostClassifier(
            learners=stumps, filters=margin_filters(), learning_rate=0.2, **boosting
        ),
        "unfiltered": AdditiveSpeedBoostClassifier(learners=stumps, learning_rate=0.2, **boosting),
        "unfiltered, full steps": AdditiveSpeedBoostClassifier(
            learners=stumps, learning_rate=1.0, **boosting
        ),
        "AdaBoost": AdditiveSpeedBoostClassifier(
            learners=votes, cost_aware=False, learning_rate=1.0, **boosting
        ),
        "cascade": CascadeClassifier(random_state=seed),
        "two-sided cascade": CascadeClassifier(random_state=seed, two_sided=True),
    }


class Judged:
    """A fitted model's way through the test patches.

    Attributes
    ----------
    costs, errors : (S + 1,)
        Mean cost per patch, and error, before the first stage and after each.
    areas : dict from float to float
        Area under the ROC at mean costs; of a cascade, whose scores compare only at the end, there.
    updated : (S,)
        Share of the patches that each stage has worked on.
    """

    def __init__(self, model: Any, X: Array, y: NDArray[np.intp]) -> None:
        batch = at.BatchSession(model, X, slice_seconds=0.1, tile_rows=len(X))
        costs, errors, scores = [], [], []
        for answer in model.stages(X):
            costs.append(answer.cost.mean())
            errors.append(np.mean(answer.prediction != y))
            scores.append(answer.scores[:, 0].astype(np.float32))
        self.costs, self.errors = np.array(costs), np.array(errors)
        if isinstance(model, CascadeClassifier):
            self.areas = {float(self.costs[-1]): float(roc_auc_score(y, _depths(model, X)))}
        else:
            reached = {cost: self._stage(cost) for cost in COSTS if 0 < cost <= self.costs[-1]}
            self.areas = {cost: float(roc_auc_score(y, scores[s])) for cost, s in reached.items()}
        together = batch.advance()
        assert np.array_equal(together.cost, answer.cost)  # the queue pays what the naive evaluation pays
        self.updated = np.array(batch.statistics()["updated"])

    def _stage(self, cost: float) -> int:
        """The last stage within a mean cost."""
        return int(np.searchsorted(self.costs, cost, side="right")) - 1

    def error(self, cost: float) -> float:
        """The error at a mean cost."""
        return float(self.errors[self._stage(cost)])

    def cost_to_reach(self, error: float) -> float:
        """The mean cost of the first stage with no more than this error; infinite if there is none."""
        reached = np.flatnonzero(self.errors <= error)
        return float(self.costs[reached[0]]) if reached.size else np.inf


def _depths(model: CascadeClassifier, X: Array) -> Array:
    """(n,) how likely a vehicle by the cascade: by the layer that decided, then by the score there."""
    answer = model.answer(X)
    score = answer.scores[:, 0]
    layer = np.where(
        score > 0, np.where(answer.stage < model.n_stages_, model.n_stages_ + 1, answer.stage), answer.stage
    )
    return np.asarray(layer + 0.5 * score / (1.0 + np.abs(score)))


def one_run(seed: int, rows: int, stages: int) -> tuple[dict[str, Judged], dict[str, Any]]:
    """Everything for one draw of patches."""
    X, y, _ = make_patches(rows, random_state=seed)
    Z, truth, _ = make_patches(TEST_ROWS, random_state=1000 + seed)
    models = {name: model.fit(X, y) for name, model in contestants(stages, seed).items()}
    judged = {name: Judged(model, Z, truth) for name, model in models.items()}
    filtered, plain = judged["filtered"], [judged[name] for name in ("unfiltered", "unfiltered, full steps")]
    ratios = {}
    for share in (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0):  # errors reached at shares of the unfiltered cost
        error = min(float(j.errors[: j._stage(share * plain[0].costs[-1]) + 1].min()) for j in plain)
        ratios[f"{error:.4f}"] = _ratio(filtered, plain, error)
    least = min(float(j.errors.min()) for j in plain)
    noise = float(np.sqrt(least * (1 - least) / TEST_ROWS))
    times = in_turns({name: lambda m=models[name]: m.predict(Z) for name in ("filtered", "unfiltered")}, 3)
    figures = {
        "error before the first stage": {name: float(j.errors[0]) for name, j in judged.items()},
        "error at mean features per patch": {
            name: {f"{cost:g}": round(j.error(cost), 4) for cost in COSTS} for name, j in judged.items()
        },
        "final error and cost": {
            name: [float(j.errors[-1]), float(j.costs[-1])] for name, j in judged.items()
        },
        "least error and its cost": {
            name: [float(j.errors.min()), float(j.costs[j.errors.argmin()])] for name, j in judged.items()
        },
        "area under the ROC": {
            name: {f"{cost:.3g}": round(area, 4) for cost, area in j.areas.items()}
            for name, j in judged.items()
        },
        "share updated by stages 1, 2, 3, 5, 10, 30, 100, last": {
            name: [
                round(float(j.updated[min(s, j.updated.size - 1)]), 3) for s in (0, 1, 2, 4, 9, 29, 99, 10**9)
            ]
            for name, j in judged.items()
        },
        "filtered cost over unfiltered cost, by error": ratios,
        "standard error of the least error": noise,
        "the same within two standard errors of the least error": _ratio(filtered, plain, least + 2 * noise),
        "seconds to predict": {name: median(values) for name, values in times.items()},
    }
    return judged, figures


def _ratio(filtered: Judged, plain: list[Judged], error: float) -> float | None:
    """What filters pay for an error in parts of what the better of the others pays; None if they never get there."""
    ratio = filtered.cost_to_reach(error) / min(j.cost_to_reach(error) for j in plain)
    return round(ratio, 3) if np.isfinite(ratio) else None


def picture(judged: dict[str, Judged], folder: Path) -> None:
    """Figures 6.3 and 6.4."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4))
    for name, j in judged.items():
        left.step(j.costs, j.errors, where="post", label=name)
        right.plot(1 + np.arange(j.updated.size), j.updated, label=name)
    left.set(xscale="symlog", yscale="log", xlabel="mean features per patch", ylabel="test error")
    right.set(xscale="log", xlabel="stage", ylabel="share of the patches updated")
    left.legend()
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / "filters.png", bbox_inches="tight")


def main() -> None:
    """All figures, over several draws."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--stages", type=int, default=800)
    parser.add_argument("--pictures", type=Path)
    options = parser.parse_args()
    runs = []
    for seed in range(options.seeds):
        judged, figures = one_run(seed, options.rows, options.stages)
        runs.append(figures)
        if options.pictures is not None and seed == 0:
            picture(judged, options.pictures)
    write("filters", {"train_rows": options.rows, "stages": options.stages, "runs": runs})


if __name__ == "__main__":
    main()
