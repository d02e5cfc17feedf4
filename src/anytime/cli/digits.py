"""The models of the demonstration: two ways to read a digit from features that take time to compute."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from anytime.boosting import GradientBoostingClassifier, SpeedBoostClassifier
from anytime.costs import FeatureCosts

if TYPE_CHECKING:
    import pandas as pd

SECONDS = 15.0  # that SpeedBoost may take, so that the demonstration is short on a slow machine, too
TREES: dict[str, Any] = {
    "learning_rate": 0.3,
    "max_leaf_nodes": 8,
    "min_samples_leaf": 5,
    "l2_regularization": 0.1,
}


@dataclass(frozen=True)
class Part:
    """Some of the images: raw, and with all their features."""

    images: NDArray[np.float64]
    X: pd.DataFrame
    y: NDArray[np.intp]


@dataclass(frozen=True)
class Digits:
    """The rows on which the models are trained and evaluated."""

    costs: FeatureCosts
    train: Part
    test: Part


def speedboost(data: Digits, rounds: int, seconds: float | None) -> Any:
    """Groups bought by what they gain per millisecond, and a model of full strength on what is bought so far."""
    model = SpeedBoostClassifier(
        costs=data.costs,
        n_estimators=rounds,
        n_iter_no_change=5,
        time_budget=seconds,
        random_state=0,
        **TREES,
    )
    return model.fit(data.train.X, data.train.y)


def usual(data: Digits, rounds: int) -> Any:
    """The same trees boosted as everybody does: each looks everywhere, so the first answer costs nearly everything."""
    return GradientBoostingClassifier(costs=data.costs, n_estimators=rounds, **TREES).fit(
        data.train.X, data.train.y
    )


def groups_left_out(model: Any, costs: FeatureCosts) -> list[str]:
    """Groups that the model never buys."""
    return [name for name in costs.groups if name not in model.order_]
