"""Solve a pruning problem: exactly by a minimum cut, nearly by the primal-dual method; paths and budgets.

Put ``y_h = 1`` where node h stays internal. The problem is then to minimise ``-sum gain_h y_h + lambda sum price w``, lambda the
``cost_penalty``, where ``y_h <= y_parent(h)``, and ``y_h <= w`` for every pair (group, cost row) that h is the first to need on
the row's way: a minimum cut. Its smallest solution shrinks as lambda grows, and its value is concave and piecewise linear in
lambda. So prunings found for other penalties settle the fate of most nodes, and where the lines of two prunings cross is where to
look for one between.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anytime.forests.pruning.problem import Pruning, PruningProblem, nested
from anytime.spreading import n_places, side_by_side

__all__ = ["BudgetPruner", "min_cut", "primal_dual"]

Array = NDArray[np.float64]
Internal = NDArray[np.bool_]

_OPEN, _PRUNED, _INTERNAL = 0, 1, 2
_ROUNDING = 1e-12  # of an error: a smaller gain is none, and ties go to the smaller pruning
_MOST_LINKS = 80_000_000  # that "auto" cuts exactly, in some two gigabytes


def min_cut(
    problem: PruningProblem,
    cost_penalty: float,
    *,
    at_least: Internal | None = None,
    at_most: Internal | None = None,
    n_threads: int = 1,
) -> Pruning:
    """The best pruning, by a minimum cut in integers; of several, the one with the fewest internal nodes.

    Parameters
    ----------
    problem : PruningProblem
    cost_penalty : float
        Weight of a unit of cost against error.
    at_least, at_most : (M,) bool, default=None
        Nodes known to stay internal, and nodes not known to be pruned: the solutions for a larger and for a smaller
        ``cost_penalty``. They make the problem smaller without changing the result.
    n_threads : int, default=1
        Threads for evaluating the result; the cut itself runs on one.
    """
    _check_penalty(cost_penalty)
    graph, nodes = problem.graph, problem.graph.nodes
    gain = problem.gain[nodes]
    slack = _ROUNDING * problem.error[nodes] / (problem.n_error * problem.n_trees)
    # Gains add up to less than 2**60, so what is below -2**60 is never made good.
    unit = np.ldexp(1.0, 60 - np.frexp(max(gain[gain > 0].sum(), 1e-200))[1])
    with np.errstate(over="ignore"):  # infinite is too much as well
        gained = np.maximum(np.floor((gain - slack) * unit), -(2.0**60))
        expense = np.minimum(np.ceil(_expense(problem, cost_penalty)[nodes] * unit), 2.0**60)
        rate = cost_penalty * problem.prices / problem.n_cost * unit
    whole = gained.astype(np.int64) - expense.astype(np.int64)
    fate = np.full(nodes.size, _OPEN, dtype=np.uint8)
    if at_most is not None:
        fate[~problem.check(at_most)[nodes]] = _PRUNED
    if at_least is not None:
        fate[problem.check(at_least)[nodes]] = _INTERNAL
    graph.cut(whole, rate, fate)
    internal = problem.of_splits(fate == _INTERNAL)
    return problem.valued(internal, cost_penalty, bound=None, method="min_cut", n_threads=n_threads)


def primal_dual(
    problem: PruningProblem,
    cost_penalty: float,
    *,
    step: Literal["shares", "sqrt", "polyak", "constant"] = "shares",
    tol: float = 1e-3,
    max_iter: int = 1000,
    start: Pruning | None = None,
    n_threads: int = 1,
) -> Pruning:
    """A pruning whose value is at most ``tol`` (relative) above the best, and a bound that proves it.

    The price of every pair (group, row) is split among the trees that need it; each tree is pruned separately at these charges
    (a recursion from the leaves up), and the charges are corrected where trees disagree (Algorithm 3 of *BudgetPrune*).

    Parameters
    ----------
    problem : PruningProblem
    cost_penalty : float
        Weight of a unit of cost against error.
    step : {"shares", "sqrt", "polyak", "constant"}, default="shares"
        How charges are corrected. "shares": the part that a node pays grows exponentially with how often it wanted to stay
        internal (dual averaging with entropies); needs no memory per row. The others are subgradient steps on one multiplier per
        row, tree and group: of length ``first / sqrt(s)`` with ``first = cost_penalty * mean price / n_cost``;
        ``(best value - bound) / |subgradient|^2``; or ``first``, which stalls.
    tol : float, default=1e-3
    max_iter : int, default=1000
    start : Pruning, default=None
        A solution for another ``cost_penalty`` with the same step rule, to start from; its charges are scaled to the new prices.
    n_threads : int, default=1
        The result does not depend on it.
    """
    _check_penalty(cost_penalty)
    if not tol >= 0:
        raise ValueError(f"tol is {tol}; it must not be negative")
    if max_iter < 1:
        raise ValueError(f"max_iter is {max_iter}; it must be at least 1")
    graph = problem.graph
    if start is not None and start.state is None:
        raise ValueError("start was not found by the primal-dual method; it has nothing to start from")
    gain = (problem.gain - _expense(problem, cost_penalty))[graph.nodes]
    kept, bound, iterations, state = graph.dual(
        gain,
        float(problem.error[problem.tree_start[:-1]].sum() / (problem.n_error * problem.n_trees)),
        cost_penalty,
        step=step,
        first=1.0,
        tolerance=tol,
        max_iterations=max_iter,
        start=None if start is None else start.state,
        threads=n_threads,
    )
    internal = problem.of_splits(kept != 0)
    pruning = problem.valued(internal, cost_penalty, bound=bound, method="primal_dual", n_threads=n_threads)
    return replace(pruning, iterations=iterations, state=state)


class BudgetPruner:
    """Prunings of one problem for many trade-offs, each using those found before.

    Parameters
    ----------
    problem : PruningProblem
        A forest with the errors and costs of validation rows.
    method : {"auto", "min_cut", "primal_dual"}, default="auto"
        "min_cut" is exact. "auto": "min_cut" if memory is likely to suffice, else "primal_dual".
    tol : float, default=1e-3
        Tolerance of the primal-dual method.
    n_threads : int, default=1
        Threads that evaluate prunings; the result does not depend on it.
    tell : callable, default=None
        Called with a line of text for every pruning found.

    Attributes
    ----------
    interrupted : bool
        Whether the user ended a search (Ctrl-C, checked between prunings); it then returned the best so far.

    See Also
    --------
    prune_forest : Prunes a fitted forest.

    Examples
    --------
    A tree that tests group 0 and then, on the right, group 1; one row, which goes to the right twice.

    >>> problem = PruningProblem(
    ...     parent=np.array([-1, 0, 0, 2, 2]), tree_start=np.array([0, 5]), error=np.array([10.0, 0, 4, 1, 0]),
    ...     n_error=20, prices=np.array([1.0, 2.0]), leaf=np.array([[4]]), weight=None,
    ...     group_start=np.array([0, 1, 1, 2, 2, 2]), node_groups=np.array([0, 1]))
    >>> pruner = BudgetPruner(problem)
    >>> [(p.cost, p.error) for p in pruner.path()]
    [(0.0, 0.5), (1.0, 0.2), (3.0, 0.05)]
    >>> pruner.to_budget(2.5).cost
    1.0
    """

    def __init__(
        self,
        problem: PruningProblem,
        method: Literal["auto", "min_cut", "primal_dual"] = "auto",
        *,
        tol: float = 1e-3,
        n_threads: int = 1,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        if method not in ("auto", "min_cut", "primal_dual"):
            raise ValueError(f"method is {method!r}; it must be 'auto', 'min_cut' or 'primal_dual'")
        if method == "auto":
            method = "min_cut" if problem.graph.n_links <= _MOST_LINKS else "primal_dual"
        self.problem = problem
        self.method = method
        self.tol = tol
        self.n_threads = n_threads
        self.interrupted = False
        self._tell = tell
        self._by_penalty: dict[float, Pruning] = {}
        self._foreseen: dict[float, Pruning] = {}  # the best for penalties that may be asked for next

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_tell": None}

    @property
    def prunings(self) -> list[Pruning]:
        """All prunings found so far, nested, by decreasing ``cost_penalty``."""
        by_penalty = sorted(self._by_penalty.values(), key=lambda pruning: -pruning.cost_penalty)
        return nested(self.problem, by_penalty, n_threads=self.n_threads)

    def prune(self, cost_penalty: float) -> Pruning:
        """The best pruning for ``cost_penalty``."""
        _check_penalty(cost_penalty)
        if cost_penalty not in self._by_penalty:
            pruning = self._by_penalty[cost_penalty] = self._solve(float(cost_penalty))
            if self._tell is not None:
                what = f"cost {pruning.spent:.6g}, error {pruning.error:.6g}"
                self._tell(f"pruning {len(self._by_penalty)}: cost_penalty {cost_penalty:.4g}, {what}")
        return self._by_penalty[cost_penalty]

    def path(self, cost_penalties: ArrayLike | None = None, n: int = 20) -> list[Pruning]:
        """Nested prunings by decreasing ``cost_penalty``, from the one that keeps least to the one that keeps most.

        Parameters
        ----------
        cost_penalties : array of float, default=None
            None: at most ``n`` prunings, all different, from a penalty of 0 to one at which only what is free is kept. Between
            two of them whose costs differ most, another is looked for where their lines cross, until there are ``n`` or there is
            none between any two.
        n : int, default=20
            The most prunings to find when ``cost_penalties`` is None.
        """
        if n < 2:
            raise ValueError(f"n is {n}; a path has two ends at least")
        try:
            if cost_penalties is None:
                prunings = self._vertices(n)
            else:
                wanted = np.unique(np.asarray(cost_penalties, dtype=float))
                prunings = [self.prune(float(cost_penalty)) for cost_penalty in _halving(wanted)]
        except KeyboardInterrupt:
            prunings = self._until_now()
        prunings.sort(key=lambda pruning: -pruning.cost_penalty)
        return nested(self.problem, prunings, n_threads=self.n_threads)

    def to_budget(self, budget: float) -> Pruning:
        """The pruning of the path with the least error that spends at most ``budget`` on features and computation.

        It is the best of all that are best for some ``cost_penalty``; one that is best for none may have less error.
        """
        if np.isnan(budget):
            raise ValueError("budget is NaN; give a number of units")
        try:
            return self._searched(budget)
        except KeyboardInterrupt:
            return min(self._until_now(budget), key=lambda pruning: pruning.error)

    def _searched(self, budget: float) -> Pruning:
        low, high = self.prune(0.0), self.prune(self._largest())
        if low.spent <= budget:
            return low
        if high.spent > budget:
            raise ValueError(f"nothing costs less than {high.spent:g} on average; the budget is {budget:g}")
        while (middle := self._between(low, high)) is not None:
            low, high = (low, middle) if middle.spent <= budget else (middle, high)
        return high

    def _until_now(self, budget: float = np.inf) -> list[Pruning]:
        """The best pruning within a budget that an interrupted search has found; raises again if there is none."""
        prunings = [pruning for pruning in self._by_penalty.values() if pruning.spent <= budget]
        if not prunings:
            raise  # the interrupt that is being handled
        self.interrupted = True
        warnings.warn(
            f"interrupted: the best of the {len(self._by_penalty)} prunings found so far", stacklevel=3
        )
        return prunings

    def _foresee(self, pairs: Sequence[tuple[Pruning, Pruning]]) -> None:
        """Look on a cluster for the prunings between several pairs at the same time; a minimum cut is the same wherever."""
        crossings = [(_crossing(low, high), low, high) for low, high in pairs]
        new = [
            (at, high.internal, low.internal)
            for at, low, high in crossings
            if low.cost_penalty < at < high.cost_penalty
            and at not in self._by_penalty
            and at not in self._foreseen
        ]
        if self.method != "min_cut" or len(new) < 2:
            return
        prunings = side_by_side(_cut, (self.problem,), new)
        self._foreseen |= {pruning.cost_penalty: pruning for pruning in prunings}

    def _solve(self, cost_penalty: float) -> Pruning:
        if cost_penalty in self._foreseen:
            return self._foreseen[cost_penalty]
        if self.method == "primal_dual":
            near = min(
                self._by_penalty.values(),
                key=lambda p: abs(np.log((p.cost_penalty + 1e-300) / (cost_penalty + 1e-300))),
                default=None,
            )
            return primal_dual(self.problem, cost_penalty, tol=self.tol, start=near, n_threads=self.n_threads)
        below = max((other for other in self._by_penalty if other < cost_penalty), default=None)
        above = min((other for other in self._by_penalty if other > cost_penalty), default=None)
        return min_cut(
            self.problem,
            cost_penalty,
            at_most=None if below is None else self._by_penalty[below].internal,
            at_least=None if above is None else self._by_penalty[above].internal,
            n_threads=self.n_threads,
        )

    def _largest(self) -> float:
        """A ``cost_penalty`` at which nothing is kept that costs anything."""
        problem = self.problem
        weight = np.ones(1) if problem.weight is None else problem.weight[problem.weight > 0]
        prices = [
            *problem.prices[problem.prices > 0],
            *([problem.evaluation_cost] if problem.evaluation_cost else []),
        ]
        if not prices:
            return 1.0
        gains = float(np.maximum(problem.gain, 0).sum())
        return float(2.0 * max(gains, np.finfo(float).tiny) * problem.n_cost / (min(prices) * weight.min()))

    def _between(self, low: Pruning, high: Pruning) -> Pruning | None:
        """A pruning that beats both where their lines cross, if there is one."""
        cost_penalty = _crossing(low, high)
        if not low.cost_penalty < cost_penalty < high.cost_penalty:
            return None
        middle = self.prune(cost_penalty)
        return middle if high.spent < middle.spent < low.spent else None

    def _vertices(self, n: int) -> list[Pruning]:
        """``n`` prunings that are best for some ``cost_penalty``, their costs as even as they come."""
        low, high = self.prune(0.0), self.prune(self._largest())
        if low.spent == high.spent:  # nothing that is worth keeping costs anything
            return [high]
        done, pending = [low], [(low, high)]
        while pending and len(done) + len(pending) < n:
            pending.sort(key=lambda pair: pair[1].spent - pair[0].spent)  # the widest first
            if n_places() > 1 and _crossing(*pending[0]) not in self._foreseen:
                self._foresee(pending[: n_places()])
            low, high = pending.pop(0)
            if (middle := self._between(low, high)) is None:
                done.append(high)
            else:
                pending += [(low, middle), (middle, high)]
        return done + [high for _, high in pending]


# ---------------------------------------------------------------------- helpers


def _crossing(low: Pruning, high: Pruning) -> float:
    """The ``cost_penalty`` at which two prunings are equally good; NaN where they cost the same."""
    saved = low.spent - high.spent
    return float((high.error - low.error) / saved) if saved > 0 else np.nan


def _cut(problem: PruningProblem, bounds: tuple[float, Internal, Internal]) -> Pruning:
    cost_penalty, at_least, at_most = bounds
    return min_cut(problem, cost_penalty, at_least=at_least, at_most=at_most)


def _check_penalty(cost_penalty: float) -> None:
    if not (np.isfinite(cost_penalty) and cost_penalty >= 0):
        raise ValueError(f"cost_penalty is {cost_penalty}; it must be finite and not negative")


def _expense(problem: PruningProblem, cost_penalty: float) -> Array:
    """(M,) what testing at each node costs in computation."""
    return cost_penalty * problem.evaluation_cost / problem.n_cost * problem.reach


def _halving(values: Array) -> list[float]:
    """The ends, then the middle, then the middles of the halves, ...: each between the nearest that came before."""
    if values.size < 3:
        return list(values)
    order, pending = [0, values.size - 1], [(0, values.size - 1)]
    while pending:
        first, last = pending.pop(0)
        if last - first > 1:
            middle = (first + last) // 2
            order.append(middle)
            pending += [(first, middle), (middle, last)]
    return [float(values[k]) for k in order]
