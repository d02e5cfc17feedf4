"""The models of the demonstration: three ways to read a digit from features that take time to compute.

All are scikit-learn's trees; they differ in what a tree may look at, and so in what an answer costs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier

from anytime.costs import FeatureCosts
from anytime.trees import make_anytime

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Digits", "Part", "grouped", "groups_left_out", "ladder", "usual"]

_CLEARLY = 0.97  # of the loss before
_LEAF = 2  # images in a leaf, at least: half the size of a full tree, and no worse


@dataclass(frozen=True)
class Part:
    """Some of the images: raw, and with all their features."""

    images: NDArray[np.float64]
    X: pd.DataFrame
    y: NDArray[np.intp]


@dataclass(frozen=True)
class Digits:
    """What the models are trained, ordered and judged on."""

    costs: FeatureCosts
    train: Part
    valid: Part
    test: Part


def usual(data: Digits, rounds: int) -> Any:
    """Boosted trees as everybody trains them: each looks everywhere, so the first answer costs nearly everything."""
    return _made(_boosting(rounds), data)


def grouped(data: Digits, rounds: int) -> Any:
    """The same with one parameter more: each tree keeps to one group, and can be had for the price of that group."""
    place = {column: j for j, column in enumerate(data.train.X.columns)}
    groups = [{place[str(column)] for column in columns} for columns in data.costs.groups.values()]
    return _made(_boosting(rounds, interaction_cst=groups), data)


def _boosting(rounds: int, **parameters: Any) -> Any:
    speed = {"learning_rate": 0.3, "max_leaf_nodes": 8, "max_bins": 31, "early_stopping": False}
    return HistGradientBoostingClassifier(max_iter=rounds, random_state=0, **speed, **parameters)


def _made(estimator: Any, data: Digits) -> Any:
    """Fitted, made interruptible, and sorted by what each tree gains per millisecond on held-out images."""
    estimator.fit(data.train.X, data.train.y)
    return make_anytime(estimator, costs=data.costs, X=data.valid.X, y=data.valid.y)


def ladder(data: Digits, trees: int) -> Any:
    """A forest for each purchase from cheap to dear, trained on all that is bought by then and replacing the one before.

    A group whose forest does not clearly lower the loss on held-out images is never bought.
    """
    rungs: list[tuple[Any, list[str]]] = []
    columns: list[str] = []
    best = np.inf
    for group in sorted(data.costs.names, key=lambda name: data.costs.prices[name]):
        wider = [*columns, *map(str, data.costs.groups[group])]
        forest = ExtraTreesClassifier(trees, min_samples_leaf=_LEAF, random_state=0)
        forest.fit(data.train.X[wider], data.train.y)
        loss = _held_out_loss(forest, data.valid, wider)
        if loss < _CLEARLY * best:
            best, columns = loss, wider
            rungs.append((forest, wider))
    return make_anytime(rungs, costs=data.costs, X=data.valid.X, y=data.valid.y)


def _held_out_loss(forest: Any, part: Part, columns: list[str]) -> float:
    from sklearn.metrics import log_loss

    return float(log_loss(part.y, forest.predict_proba(part.X[columns]), labels=forest.classes_))


def groups_left_out(model: Any, groups: Iterable[str]) -> list[str]:
    """Groups that the model never buys."""
    return [name for name in groups if name not in model.order_]
