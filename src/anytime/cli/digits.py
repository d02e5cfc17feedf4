"""The models of the demonstration: three ways to read a digit from features that take time to compute.

All are scikit-learn's extremely randomised trees; they differ in what a tree may look at, and so in what an answer costs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesClassifier

from anytime.costs import FeatureCosts
from anytime.trees import make_anytime

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Digits", "Part", "grouped", "groups_left_out", "ladder", "usual"]

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


def usual(data: Digits, trees: int) -> Any:
    """A forest as everybody trains it: every tree looks everywhere, so the first answer costs everything."""
    forest = ExtraTreesClassifier(trees, min_samples_leaf=_LEAF, random_state=0).fit(
        data.train.X, data.train.y
    )
    return make_anytime(forest, costs=data.costs, X=data.valid.X, y=data.valid.y)


def grouped(data: Digits, trees: int) -> Any:
    """A forest whose trees look at one group each, sorted by what they gain per millisecond on held-out images."""
    forest = ExtraTreesClassifier(0, min_samples_leaf=_LEAF, random_state=0, warm_start=True)
    for k, columns in enumerate(data.costs.groups.values(), start=1):
        seen = data.train.X * 0.0  # no tree can split on a column that is the same everywhere
        seen[list(columns)] = data.train.X[list(columns)]
        forest.set_params(n_estimators=trees * k).fit(seen, data.train.y)
    return make_anytime(forest, costs=data.costs, X=data.valid.X, y=data.valid.y)


def ladder(data: Digits, order: Sequence[str], trees: int) -> Any:
    """One forest per purchase, each trained on all that is bought by then and replacing the one before.

    A group whose forest does not lower the loss on held-out images is never bought.
    """
    rungs: list[tuple[Any, list[str]]] = []
    columns: list[str] = []
    best = np.inf
    for group in order:
        wider = [*columns, *map(str, data.costs.groups[group])]
        forest = ExtraTreesClassifier(trees, min_samples_leaf=_LEAF, random_state=0)
        forest.fit(data.train.X[wider], data.train.y)
        loss = _held_out_loss(forest, data.valid, wider)
        if loss < best:
            best, columns = loss, wider
            rungs.append((forest, wider))
    return make_anytime(rungs, costs=data.costs, X=data.valid.X, y=data.valid.y)


def _held_out_loss(forest: Any, part: Part, columns: list[str]) -> float:
    from sklearn.metrics import log_loss

    return float(log_loss(part.y, forest.predict_proba(part.X[columns]), labels=forest.classes_))


def groups_left_out(model: Any, groups: Iterable[str]) -> list[str]:
    """Groups that the model never buys."""
    return [name for name in groups if name not in model.order_]
