"""What theory promises of greedy sequences, as numbers.

Every function gives the right-hand side of an inequality. ``F`` is a monotone set function, worth 0 on the empty set; the
*rival* is any set at all, most usefully the best one of its cost; the cost of a set is the sum of its elements' costs, so that
shared requirements void these theorems. ``GUARANTEES`` lists them side by side.

Theorems 4.x and 5.x are those of Grubb, *Anytime Prediction*; 3.x those of Hu, *Anytime Prediction and Learning for the Balance
between Computation and Accuracy*. Where a printed statement is wrong, the corrected one is the default.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

__all__ = [
    "GUARANTEES",
    "Guarantee",
    "combined_constants",
    "constrained_delta",
    "cost_factors_needed",
    "doubling_bound",
    "doubling_bound_elementwise",
    "greedy_bound",
    "product_bound",
    "rate_floor",
    "regularised_gamma",
]


# ---------------------------------------------------------------------- one step


def rate_floor(joint_gain: ArrayLike, cost: ArrayLike, *, gamma: float = 1.0, delta: float = 0.0) -> Array:
    """Lemma 4.2.2: some element of a set gains at least this per unit of cost.

    Parameters
    ----------
    joint_gain, cost : float or array
        What the whole set would gain now, and its cost.
    gamma, delta : float
        The function's approximate submodularity (``submodularity_ratio``).
    """
    return np.asarray((gamma * np.asarray(joint_gain, dtype=np.float64) - delta) / np.asarray(cost))


# ---------------------------------------------------------------------- at the costs of prefixes


def greedy_bound(
    rival: ArrayLike,
    spent: ArrayLike,
    budget: ArrayLike,
    *,
    gamma: float = 1.0,
    delta: float = 0.0,
    alpha: float = 1.0,
    beta: float = 0.0,
    n_rival: ArrayLike = 1,
    form: Literal["tight", "loose", "per_cost", "printed"] = "tight",
) -> Array:
    """Theorems 4.2.4, 4.3.3 and 3.3.2: what a greedy prefix is worth at least. Only at the costs of prefixes.

    With ``share = 1 - exp(-alpha gamma spent / budget)``:

    - "tight": ``share (F(rival) - n_rival beta / (alpha gamma) - delta / gamma)``;
    - "loose": ``share F(rival) - n_rival beta spent / budget - alpha delta spent / budget``, which is never more;
    - "per_cost": ``share F(rival) - beta spent - alpha delta spent / budget``, for choices whose *rate*, not gain, misses the
      best by at most ``beta``;
    - "printed": Theorem 4.3.3 as printed, "loose" without ``n_rival``. Wrong for ``beta > 0``.

    Theorem 3.3.2 and Corollaries 5.2.7 and 5.4.5 for forward regression are this with ``spectral_gamma`` or
    ``regularised_gamma``. The corollaries for OMP have ``alpha`` equal to ``gamma``; Theorem 3.3.2 shows that OMP needs no such
    ``alpha``. Corollaries 5.3.5 and 5.4.10, conjectures, have ``constrained_delta`` in the form "loose", and for OMP, where
    they are refuted, "printed" with ``beta`` equal to ``delta``.

    Parameters
    ----------
    rival : float or array
        The value ``F`` of the rival.
    spent, budget : float or array
        Cost of the greedy prefix, and of the rival.
    gamma, delta : float
        Approximate submodularity of ``F`` (Definition 4.2.1); 1 and 0 for submodular functions.
    alpha, beta : float
        How greedy the choices were (Definition 4.3.1; ``greediness``); 1 and 0 for exactly greedy ones. In the forms "per_cost"
        and "printed" a mean over the steps, weighted by what they cost, may stand for ``beta``.
    n_rival : int or array, default=1
        Number of elements of the rival; matters only with ``beta``.

    Examples
    --------
    >>> greedy_bound(1.0, spent=[1.0, 2.0], budget=1.0).round(4)
    array([0.6321, 0.8647])
    """
    _check_constants(gamma=gamma, delta=delta, alpha=alpha, beta=beta)
    rival, spent, budget = (np.asarray(a, dtype=np.float64) for a in (rival, spent, budget))
    _check_budget(budget)
    ratio = spent / budget
    share = -np.expm1(-alpha * gamma * ratio)
    if form == "tight":
        # share / (alpha gamma) tends to the ratio as the constants vanish
        weight = share / (alpha * gamma) if alpha * gamma > 0 else ratio
        return np.asarray(share * rival - weight * (np.asarray(n_rival) * beta + alpha * delta))
    slack = {"loose": np.asarray(n_rival) * beta * ratio, "per_cost": beta * spent, "printed": beta * ratio}
    if form not in slack:
        raise ValueError(f"form is {form!r}; it is one of 'tight', {', '.join(map(repr, slack))}")
    return np.asarray(share * rival - slack[form] - alpha * delta * ratio)


def product_bound(
    rival: float, prices: ArrayLike, budget: float, *, gamma: float = 1.0, delta: float = 0.0
) -> Array:
    """Theorem 4.2.4 before its last estimate: what the greedy prefixes are worth at least, sharper than ``greedy_bound``.

    ``(1 - prod_j max(0, 1 - gamma c(g_j) / budget)) (F(rival) - delta / gamma)`` after each step.

    Parameters
    ----------
    rival, budget : float
        Value and cost of the rival.
    prices : (k,) float
        What each greedy step paid.
    gamma, delta : float

    Returns
    -------
    (k,) float
    """
    _check_constants(gamma=gamma, delta=delta)
    _check_budget(budget)
    prices = np.asarray(prices, dtype=np.float64)
    share = 1.0 - np.cumprod(np.maximum(0.0, 1.0 - gamma * prices / budget))
    weight = share / gamma if gamma > 0 else np.cumsum(prices) / budget
    return np.asarray(share * rival - weight * delta)


# ---------------------------------------------------------------------- at every budget


def doubling_bound(
    rival: ArrayLike,
    *,
    gamma: float = 1.0,
    delta: float = 0.0,
    alpha: float = 1.0,
    beta: float = 0.0,
    n_rival: ArrayLike = 1,
    form: Literal["tight", "loose", "printed"] = "tight",
) -> Array:
    """Theorem 4.4.4: what doubling is worth at least at *any* budget above ``c_min``. Needs a run that never got stuck.

    Parameters
    ----------
    rival : float or array
        The value ``F`` of the best set that costs a *sixth* of the budget.
    gamma, delta, alpha, beta, n_rival, form
        As in ``greedy_bound``. "printed" is ``(1 - exp(-gamma)) F(rival) - delta``, and wrong for ``beta > 0``.
    """
    return greedy_bound(
        rival, 1.0, 1.0, gamma=gamma, delta=delta, alpha=alpha, beta=beta, n_rival=n_rival, form=form
    )


def doubling_bound_elementwise(rival: ArrayLike, ratio: float, *, small_budget: bool = False) -> Array:
    """Theorem 3.4.3: what doubling is worth at least at *any* budget above ``c_min``. Needs a run that never got stuck.

    ``(1 - exp(-ratio**2 / (1 + ratio))) F(rival)``.

    Parameters
    ----------
    rival : float or array
        The value ``F`` of the best set that costs a *quarter* of the budget.
    ratio : float
        ``elementwise_ratio`` of ``F``, never ``spectral_gamma``: a suppressor variable has the first at 0, whatever the second.
    small_budget : bool, default=False
        True for budgets of at most four times the first price: the printed proof has no such prefix, and its repair gives
        ``1 - exp(-2 ratio)``.
    """
    _check_constants(ratio=ratio)
    exponent = 2.0 * ratio if small_budget else ratio**2 / (1.0 + ratio)
    return np.asarray(-np.expm1(-exponent) * np.asarray(rival, dtype=np.float64))


def cost_factors_needed(prices: ArrayLike) -> Array:
    """Theorems 3.4.1 and 4.4.1: why no sequence is near the best at every budget without a factor of 4 in cost.

    Just before a purchase the budget is nearly enough for it, and the dearest thing owned is an older one. Where elements are
    worth exponentially more as they cost more, this ratio is the factor in cost by which the sequence lags.
    Whatever the order, these ratios come arbitrarily near 4 or beyond; doubling stays at 4.

    Parameters
    ----------
    prices : (k,) float
        In the order of purchase.

    Returns
    -------
    (k - 1,) float

    Examples
    --------
    >>> cost_factors_needed([2, 1, 3, 6, 12, 24])
    array([1.5, 3. , 4. , 4. , 4. ])
    """
    prices = np.asarray(prices, dtype=np.float64)
    return np.asarray(np.cumsum(prices)[1:] / np.maximum.accumulate(prices)[:-1])


# ---------------------------------------------------------------------- constants of sparse approximation


def regularised_gamma(
    least_eigenvalue: float, l2_regularization: float, *, m: float = 1.0, M: float = 1.0
) -> float:
    """Submodularity of sparse approximation, and greediness of OMP: ``(m least_eigenvalue + r) / (M + r)``, r the regularization.

    Theorems 5.2.5 and 5.2.6 (squared loss, ``m = M = 1``), 5.4.3 and 5.4.4 (losses with curvature between ``m`` and ``M``), 5.5.2
    (several targets). Columns have unit variance; for groups see ``spectral_gamma``. Never below ``r / (M + r)``.

    Parameters
    ----------
    least_eigenvalue : float
        Of the covariance of the columns.
    l2_regularization : float
        Weight of ``w'w / 2``.
    m, M : float
        Least and greatest curvature of the loss; ``m`` 0 for one that is only convex, ``M`` 1/4 for the logistic.
    """
    _check_constants(least_eigenvalue=least_eigenvalue, l2_regularization=l2_regularization, m=m, M=M)
    return (m * least_eigenvalue + l2_regularization) / (M + l2_regularization)


def constrained_delta(gamma: float, radius: float, *, M: float = 1.0) -> float:
    """The ``delta`` that goes with ``gamma`` where weights stay within a ball: ``M gamma**2 radius**2 / 2``.

    Theorems 5.3.3 and 5.4.8. A conjecture: proved at the empty set alone. The same ``beta`` for the greediness of OMP (Theorems
    5.3.4 and 5.4.9) is refuted at 1; measure it with ``greediness_slack``. For a given gain, ``gamma = min(1, gain / radius**2)``
    loses least.
    """
    _check_constants(gamma=gamma, radius=radius, M=M)
    return M * gamma**2 * radius**2 / 2.0


def combined_constants(constants: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """Theorem 5.5.1: ``(gamma, delta)`` of a sum of functions, from theirs: the least gamma, all deltas together."""
    gammas, deltas = zip(*constants, strict=True)
    return min(gammas), sum(deltas)


# ---------------------------------------------------------------------- side by side


@dataclass(frozen=True)
class Guarantee:
    """``F(prefix) >= share(gamma) F(rival)``, where the rival costs a ``cost_factor``-th of the prefix's budget.

    Attributes
    ----------
    name, theorem : str
    share : callable
        From gamma to the promised share of the rival's value.
    cost_factor : float
    budgets : {"prefixes", "every", "one"}
        Where it holds: at the costs of prefixes, at every budget above ``c_min``, or at one that is known beforehand.
    constant : str
        The function that finds gamma.
    proved : bool

    Examples
    --------
    >>> for g in GUARANTEES:
    ...     print(f"{g.theorem:15} {g.share(1.0):.3f} of the best at cost/{g.cost_factor:g}: {g.name}")
    Theorem 4.2.4   0.632 of the best at cost/1: greedy
    Theorem 3.3.2   0.632 of the best at cost/1: forward regression and OMP
    Corollary 5.2.7 0.632 of the best at cost/1: OMP, one column at a time
    section 4.1     0.316 of the best at cost/1: greedy or best single element
    Theorem 4.4.4   0.632 of the best at cost/6: doubling
    section 4.4     0.632 of the best at cost/4: doubling, conjectured
    Theorem 3.4.3   0.393 of the best at cost/4: doubling, elementwise
    Theorem 3.4.3   0.865 of the best at cost/4: doubling, elementwise, small budgets
    """

    name: str
    theorem: str
    share: Callable[[float], float]
    cost_factor: float = 1.0
    budgets: Literal["prefixes", "every", "one"] = "prefixes"
    constant: str = "submodularity_ratio"
    proved: bool = True


def _after(exponent: float) -> float:
    return -math.expm1(-exponent)


GUARANTEES = (
    Guarantee("greedy", "Theorem 4.2.4", _after),
    Guarantee("forward regression and OMP", "Theorem 3.3.2", _after, constant="spectral_gamma"),
    Guarantee(
        "OMP, one column at a time", "Corollary 5.2.7", lambda g: _after(g**2), constant="regularised_gamma"
    ),
    Guarantee(  # of functions that are not submodular it promises nothing
        "greedy or best single element",
        "section 4.1",
        lambda g: _after(1.0) / 2 if g == 1 else 0.0,
        budgets="one",
    ),
    Guarantee("doubling", "Theorem 4.4.4", _after, 6.0, "every"),
    Guarantee("doubling, conjectured", "section 4.4", _after, 4.0, "every", proved=False),
    Guarantee(
        "doubling, elementwise",
        "Theorem 3.4.3",
        lambda g: float(doubling_bound_elementwise(1.0, g)),
        4.0,
        "every",
        "elementwise_ratio",
    ),
    Guarantee(  # of at most four times the first price
        "doubling, elementwise, small budgets",
        "Theorem 3.4.3",
        lambda g: float(doubling_bound_elementwise(1.0, g, small_budget=True)),
        4.0,
        "every",
        "elementwise_ratio",
    ),
)


def _check_constants(**constants: float) -> None:
    for name, value in constants.items():
        if not 0 <= value < math.inf:
            raise ValueError(f"{name} is {value}; it must be finite and not negative")


def _check_budget(budget: ArrayLike) -> None:
    if not np.all(np.asarray(budget) > 0):
        raise ValueError("the rival's budget must be positive: what costs nothing has no rival")
