"""A cheap model and a gate learned one after the other: what learning them together is compared with.

L1-regularised logistic regression says which features matter; on each set of them there is a cheap model, and a gate that is
taught where the cheap model is wrong (the "L1" baseline of Nan, *Learning to predict under a budget*, 2018, chapter 5 and
appendix A).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sklearn
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from anytime.adaptive.linear import standardised
from anytime.adaptive.stages import Exit, constant_block
from anytime.blocks import Block, LinearBlock
from anytime.plan import Array

__all__ = ["BaselineExit", "l1_exits", "l1_supports"]

_VERSION = tuple(int(part) for part in sklearn.__version__.split(".")[:2])
_L1: dict[str, Any] = {"l1_ratio": 1.0} if _VERSION >= (1, 8) else {"penalty": "l1"}
_STRENGTHS = tuple(np.geomspace(1e-3, 1e1, 20))
_SHARES = tuple(np.linspace(0.0, 1.0, 22)[1:-1])  # 20 class weights inside (0, 1)


@dataclass(frozen=True, eq=False)
class BaselineExit:
    """One of the baseline's cheap models with one of its gates.

    Attributes
    ----------
    support : tuple of int
        Columns that both use.
    share : float
        Weight of rows on which the cheap model is wrong, when the gate was taught; the others weigh the rest to 1.
    exit : Exit
    """

    support: tuple[int, ...]
    share: float
    exit: Exit


def l1_supports(
    X: ArrayLike,
    y: ArrayLike,
    *,
    strengths: Sequence[float] = _STRENGTHS,
    standardise: bool = True,
    max_iter: int = 2000,
) -> list[tuple[int, ...]]:
    """Sets of columns: for each strength those with the largest coefficients, from one column to all that are not 0.

    Parameters
    ----------
    X : (n, d)
    y : (n,)
    strengths : sequence of float
        ``C`` of scikit-learn: the inverse of the regularisation.
    standardise : bool, default=True
    max_iter : int, default=2000

    Returns
    -------
    list of tuple of int
        Different sets, in the order in which they were met; none where all coefficients are 0.
    """
    numbers = np.asarray(X, dtype=np.float64)
    _, _, Z = standardised(numbers, np.full(len(numbers), 1.0 / len(numbers)), standardise)
    found: dict[tuple[int, ...], None] = {}
    for strength in strengths:
        size = _l1_sizes(Z, np.asarray(y), strength, max_iter)
        order = np.argsort(-size, kind="stable")
        for k in range(1, int(np.count_nonzero(size)) + 1):
            found.setdefault(tuple(sorted(order[:k].tolist())))
    return list(found)


def _l1_sizes(Z: Array, y: NDArray[np.generic], strength: float, max_iter: int) -> Array:
    """(d,) The largest coefficient of each column over the classes."""
    solver = "liblinear" if np.unique(y).size == 2 else "saga"
    model = LogisticRegression(
        C=strength, solver=solver, max_iter=max_iter, random_state=0, intercept_scaling=100.0, **_L1
    )
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", ConvergenceWarning
        )  # the order of the coefficients is all that matters
        return np.asarray(np.abs(model.fit(Z, y).coef_).max(axis=0))


def l1_exits(
    X: ArrayLike,
    y: NDArray[np.intp],
    supports: Sequence[Sequence[int]],
    *,
    n_classes: int | None = None,
    shares: Sequence[float] = _SHARES,
    standardise: bool = True,
) -> Iterator[BaselineExit]:
    """A cheap model for each set of columns and, behind it, gates from one that sends few rows on to one that sends many.

    Parameters
    ----------
    X : (n, d)
    y : (n,) int
        Numbers of classes.
    supports : sequence of sequence of int
    n_classes : int, default=None
        None: as many as there are in ``y``.
    shares : sequence of float
        Weights of rows on which the cheap model is wrong, each inside (0, 1).
    standardise : bool, default=True
    """
    numbers = np.asarray(X, dtype=np.float64)
    n_classes = int(y.max()) + 1 if n_classes is None else n_classes
    mean, scale, Z = standardised(numbers, np.full(len(numbers), 1.0 / len(numbers)), standardise)
    for support in supports:
        columns = np.asarray(support, dtype=np.int32)
        part = Z[:, columns]
        cheap = LogisticRegression(max_iter=1000).fit(part, y)
        wrong = cheap.predict(part) != y
        block = _block(cheap, columns, mean, scale, n_classes)
        for share in shares:
            gate = _gate(part, wrong, share, columns, mean, scale)
            yield BaselineExit(tuple(int(c) for c in columns), float(share), Exit(block, gate))


def _gate(
    part: Array, wrong: NDArray[np.bool_], share: float, columns: NDArray[np.int32], mean: Array, scale: Array
) -> Block:
    """Above 0 where the cheap model is likely to be wrong."""
    if wrong.all() or not wrong.any():
        return constant_block(np.array([1.0 if wrong.all() else -1.0]))
    weights = {False: 1.0 - share, True: share}
    model = LogisticRegression(class_weight=weights, max_iter=1000).fit(part, wrong)
    return _block(model, columns, mean, scale, 2)


def _block(
    model: LogisticRegression, columns: NDArray[np.int32], mean: Array, scale: Array, n_classes: int
) -> LinearBlock:
    """A logistic regression on standardised columns as a stage; classes that it has not seen are given up."""
    table = np.zeros((columns.size, 1 if n_classes == 2 else n_classes))
    intercepts = np.full(table.shape[1], -30.0 if table.shape[1] > 1 else 0.0)
    known = np.asarray(model.classes_, dtype=np.intp)
    if table.shape[1] == 1:
        table[:, 0], intercepts[0] = model.coef_[0], model.intercept_[0]
    elif known.size == 2:  # one score for two of several classes
        table[:, known[1]] = model.coef_[0]
        intercepts[known] = [0.0, model.intercept_[0]]
    else:
        table[:, known], intercepts[known] = model.coef_.T, model.intercept_
    return LinearBlock(
        columns, table / scale[columns, None], intercepts=intercepts[None, :], centres=mean[columns]
    )
