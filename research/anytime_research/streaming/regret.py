"""Regret and risk of a stream's model, prefix by prefix, against a competitor.

Regret (Hu 2019, equation 5.1) is how much more a run has paid than a fixed predictor would have on the same rows. The
competitor need not be a sum of weak learners: the thesis takes a deep regression tree fitted in hindsight to all rows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax
from sklearn.tree import DecisionTreeRegressor

from anytime.streaming.losses import Absolute, Hinge, Logistic, Softmax, Squared, StreamLoss, Target

Array = NDArray[np.float64]
Competitor = Callable[[Array], Array]

__all__ = ["Competitor", "StreamRegret", "best_constant", "deep_tree", "risk"]


class StreamRegret:
    """What every prefix has paid more than a competitor, on the rows seen so far.

    Parameters
    ----------
    loss : StreamLoss
    competitor : callable
        From rows (b, d) to scores (b, m); one fitted in hindsight to the same rows (``deep_tree``), or any other.
    growth : float, default=1.2
        The average regret is written down whenever the number of rows has grown by this factor.

    Attributes
    ----------
    n_rows : int
    paid : (k,) float
        Sums of losses of the k answers that were added.
    competitor_paid : float
    history : list of (int, (k,) float)
        Numbers of rows, and average regrets then.
    """

    def __init__(self, loss: StreamLoss, competitor: Competitor, *, growth: float = 1.2) -> None:
        if growth <= 1:
            raise ValueError(f"growth is above 1; got {growth}")
        self.loss, self.competitor, self.growth = loss, competitor, growth
        self.n_rows, self.competitor_paid = 0, 0.0
        self.paid = np.zeros(0)
        self.history: list[tuple[int, Array]] = []
        self._next = 1.0

    def add(self, answers: Array, X: Array, y: Target) -> None:
        """Answers (k, b, m) of k prefixes to the rows of a round, given before learning them."""
        losses = self.loss.value(answers, y).sum(axis=-1)
        self.paid = losses if self.n_rows == 0 else self.paid + losses
        self.competitor_paid += float(self.loss.value(self.competitor(X), y).sum())
        self.n_rows += len(X)
        if self.n_rows >= self._next:
            self.history.append((self.n_rows, self.average()))
            self._next = self.n_rows * self.growth

    def regret(self) -> Array:
        """(k,) Signed: negative where the run has paid less than the competitor."""
        return np.asarray(self.paid - self.competitor_paid)

    def average(self) -> Array:
        """(k,) Regret per row."""
        return self.regret() / max(self.n_rows, 1)


def risk(loss: StreamLoss, answers: Array, y: Target) -> Array:
    """(k,) Mean losses of answers (k, n, m) on rows that were not learned from: what regret becomes by averaging."""
    return np.asarray(loss.value(answers, y).mean(axis=-1))


# ---------------------------------------------------------------------- the competitor of the thesis


def deep_tree(
    X: Array,
    y: Target,
    loss: StreamLoss,
    *,
    depth: int = 15,
    radius: float = 10.0,
    min_leaf: int = 1,
    random_state: int = 0,
) -> Competitor:
    """A regression tree fitted in hindsight to all rows, its leaves holding what is best for the loss.

    Splits are by squares (of class indicators, for classes). Classes' scores are kept within ``radius``, without which a pure
    leaf would run off where ``rho`` is 0.
    """
    y = np.asarray(y)
    coded = np.eye(int(y.max()) + 1)[y.astype(np.intp)] if isinstance(loss, Softmax) else y
    tree = DecisionTreeRegressor(max_depth=depth, min_samples_leaf=min_leaf, random_state=random_state)
    leaf = tree.fit(X, coded).apply(X)
    order = np.argsort(leaf, kind="stable")
    numbers, firsts = np.unique(leaf[order], return_index=True)
    n_outputs = coded.shape[1] if coded.ndim == 2 else 1
    values = np.zeros((tree.tree_.node_count, n_outputs))
    for number, rows in zip(numbers, np.split(order, firsts[1:]), strict=True):
        values[number] = best_constant(loss, y[rows], n_outputs, radius if loss.classifies else np.inf)
    return lambda rows: np.asarray(values[tree.apply(rows)])


def best_constant(loss: StreamLoss, y: Target, n_outputs: int = 1, radius: float = np.inf) -> Array:
    """(m,) The constant score of least mean loss, each coordinate within ``radius``."""
    if isinstance(loss, Squared):
        best = np.asarray(y, dtype=np.float64).reshape(len(y), n_outputs).mean(axis=0) / (
            1.0 + 2.0 * loss.rho
        )
    elif isinstance(loss, Absolute):
        table = np.asarray(y, dtype=np.float64).reshape(len(y), n_outputs)
        best = np.array([_penalised_median(column, loss.rho) for column in table.T])
    elif isinstance(loss, Hinge):
        lead = 2.0 * _share_of_positives(y) - 1.0
        best = np.clip([lead / (2.0 * loss.rho) if loss.rho else np.sign(lead)], -1.0, 1.0)
    elif isinstance(loss, Logistic):
        best = _logistic_newton(_share_of_positives(y), loss.rho, radius)
    elif isinstance(loss, Softmax):
        shares = np.bincount(np.asarray(y, dtype=np.intp), minlength=n_outputs) / len(y)
        best = _softmax_newton(shares, loss.rho, radius)
    else:
        raise ValueError(
            f"the best constant for {type(loss).__name__} is not known; give a competitor of your own"
        )
    return np.asarray(np.clip(best, -radius, radius))


def _share_of_positives(y: Target) -> float:
    return float(np.mean(np.asarray(y, dtype=np.float64) > 0))


def _logistic_newton(share: float, rho: float, radius: float) -> Array:
    """Least point of ``share ln(1 + e^-y) + (1 - share) ln(1 + e^y) + rho y^2`` within ``radius``, by Newton's method."""
    score, low, high = 0.0, -radius, radius
    for _ in range(100):
        chance = float(expit(score))
        slope = chance - share + 2.0 * rho * score
        low, high = (low, score) if slope > 0 else (score, high)
        bend = chance * (1.0 - chance) + 2.0 * rho
        after = score - slope / bend if bend > 0 else np.inf
        if not low < after < high:  # Newton would leave what is left
            after = (low + high) / 2.0 if np.isfinite(low + high) else score - 4.0 * np.sign(slope)
        if abs(after - score) <= 1e-12 * (1.0 + abs(score)):
            break
        score = after
    return np.array([score])


def _softmax_newton(shares: Array, rho: float, radius: float) -> Array:
    """Least point of ``-sum_k shares_k ln softmax(y)_k + rho |y|^2``, by damped Newton steps, within ``radius``."""
    score, rho = np.zeros(shares.size), max(rho, 1e-9)  # flat along equal scores without

    def value(y: Array) -> float:
        return float(np.logaddexp.reduce(y) - shares @ y + rho * (y @ y))

    for _ in range(100):
        chances = np.asarray(softmax(score))
        slope = chances - shares + 2.0 * rho * score
        bend = np.diag(chances + 2.0 * rho) - np.outer(chances, chances)
        move, size, now = np.linalg.solve(bend, slope), 1.0, value(score)
        while size > 1e-10 and value(np.clip(score - size * move, -radius, radius)) > now:
            size /= 2.0
        after = np.clip(score - size * move, -radius, radius)
        if np.abs(after - score).max() <= 1e-10:
            break
        score = after
    return score


def _penalised_median(values: Array, rho: float) -> float:
    """Least point of ``mean |y - values| + rho y^2``: a median drawn towards 0."""
    if rho == 0:
        return float(np.median(values))
    ordered = np.sort(values)
    n = ordered.size
    # between the k-th value and the next the derivative is (2 k - n) / n + 2 rho y
    low, high = np.append(-np.inf, ordered), np.append(ordered, np.inf)
    free = np.clip((n - 2.0 * np.arange(n + 1)) / (2.0 * rho * n), low, high)
    paid = np.array([np.abs(ordered - y).mean() + rho * y**2 for y in free])
    return float(free[paid.argmin()])
