"""Small streams for the tests of models."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

LEARNERS = ["hoeffding_tree", "stump", "ridge", "linear", "small_net"]


def numbers(n: int = 600, d: int = 5, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Rows, and a target that is a linear function and a kink."""
    X = np.random.default_rng(seed).normal(size=(n, d))
    return X, 3.0 + X[:, 0] + 2.0 * X[:, 1] + np.abs(X[:, 2])


def labels(n: int = 600, classes: int = 2, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.str_]]:
    """Rows, and as many classes as asked for."""
    X, y = numbers(n, seed=seed)
    edges = np.quantile(y, np.linspace(0, 1, classes + 1)[1:-1])
    return X, np.array(["low", "middle", "top", "far"])[np.searchsorted(edges, y)]


def table(n: int = 600, seed: int = 0) -> tuple[pd.DataFrame, NDArray[np.float64]]:
    """Columns of numbers, some missing, and one of words that matters most."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 2)), columns=["a", "b"])
    X["colour"] = rng.choice(["red", "green", "blue"], n)
    y = X["a"] + 4.0 * (X["colour"] == "red")
    X.loc[rng.random(n) < 0.1, "b"] = np.nan
    return X, y.to_numpy()
