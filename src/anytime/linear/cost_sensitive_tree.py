"""A tree of linear classifiers trained all at once: CSTC, the cost-sensitive tree of classifiers of Xu et al. (2013)."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from anytime._compat import Interval
from anytime.costs import BoundCosts
from anytime.greedy import GroupPrices
from anytime.linear.classifier_tree import (
    ClassifierTree,
    LinearTree,
    SubmodularTreeClassifier,
    fitted_node,
    leading_direction,
    middle,
)
from anytime.parameters import declared, store

Array = NDArray[np.float64]

_STEPS = 30  # of the quasi-Newton method between two renewals of the bounds
_SMOOTHING = 1e-4  # below this a weight of a standardised column counts as zero in a norm
_ZERO = 1e-2  # share of the largest weight of a node below which a column is dropped


@declared(like=SubmodularTreeClassifier)
class CostSensitiveTreeClassifier(ClassifierTree):
    r"""CSTC: a balanced tree of linear classifiers, trained by one objective in which a path pays for a column once.

    .. math::
        \sum_v \bigl[ \frac1n \sum_i p_i^v |x_i b_v - y_i|^2 + \rho |b_v|_1 \bigr]
        + \lambda \sum_{\text{leaves } l} p^l \sum_g c_g \sqrt{\textstyle\sum_{v \text{ above } l} |b_{v,g}|^2}

    A row reaches node ``v`` with probability ``p_i^v``, the product of logistic functions of the scores of the nodes above. The
    square roots are replaced by quadratic bounds, which are updated ``max_iter`` times; in between, a quasi-Newton method updates
    all nodes at once (Xu et al. go from node to node). Then small weights are dropped, rows take their most probable path, and
    the remaining weights are refitted. The price of a group includes its requirements.

    Parameters
    ----------
    cost_penalty : float, default=0.1
        The loss is squared error; lambda in the paper.
    l1_regularization : float, default=1e-4
        Rho in the paper.
    max_stages : int, default=3
        A stage is a level of the tree. At most 12.
    max_iter : int, default=20
        Updates of the bounds.
    l2_regularization : float, default=1e-3
        Used in the first and the last fit.

    Attributes
    ----------
    n_iter_ : int
        Updates of the bounds.
    tree_
        As in :class:`SubmodularTreeClassifier`.

    See Also
    --------
    GroupPursuitClassifier : One linear model for all rows.
    SubmodularTreeClassifier : Greedy, faster, with a budget for each node.

    Examples
    --------
    >>> import anytime as at
    >>> X, y, costs = at.datasets.load("breast_cancer")
    >>> cheap, dear = (at.CostSensitiveTreeClassifier(costs=costs, cost_penalty=p).fit(X, y) for p in (0.1, 1e-3))
    >>> bool(cheap.cost(X).mean() < dear.cost(X).mean())
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **ClassifierTree._parameter_constraints,
        "l1_regularization": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        *,
        costs: Any = None,
        cost_penalty: float = 0.1,
        l1_regularization: float = 1e-4,
        max_stages: int = 3,
        max_iter: int = 20,
        l2_regularization: float = 1e-3,
        class_weight: Mapping[Any, float] | str | None = None,
        budget: float | None = None,
        meter: str = "model",
        calibration: str | None = None,
        n_jobs: int | None = None,
    ) -> None:
        store(self, locals())

    def _grow(self, X: Array, Y: Array, share: Array, costs: BoundCosts) -> LinearTree:
        unbounded = SubmodularTreeClassifier(
            node_budget=costs.costs.total,
            max_stages=self.max_stages,
            l2_regularization=self.l2_regularization,
        )
        start = unbounded._grow(X, Y, share, costs)
        objective = _PathObjective(X, Y, share, start, costs, self.cost_penalty, self.l1_regularization)
        parameters = objective.parameters(start)
        for _ in range(self.max_iter):
            scale = objective.renew(parameters)
            optimum = minimize(
                objective, parameters / scale, args=(scale,), jac=True, method="L-BFGS-B",
                options={"maxiter": _STEPS},
            )  # fmt: skip
            parameters = optimum.x * scale
        self.n_iter_ = self.max_iter
        return self._settled(objective, parameters, costs)

    def _settled(self, objective: _PathObjective, parameters: Array, costs: BoundCosts) -> LinearTree:
        """Drop small weights, send rows where they most likely go, and fit the nodes again."""
        X, Y, share = objective.X, objective.Y, objective.share
        weights, intercepts, thresholds = objective.parts(parameters)
        n_nodes, d, _ = weights.shape
        size = np.sqrt((weights**2).sum(axis=2))
        kept = size > np.maximum(_ZERO * size.max(axis=1, keepdims=True), 10 * _SMOOTHING)
        routes = np.where(kept, weights @ objective.direction, 0.0)
        tree = LinearTree(weights.copy(), intercepts.copy(), routes, thresholds.copy(), np.zeros(d))
        rows = {0: np.arange(len(X))}
        owned: dict[int, NDArray[np.bool_]] = {}
        for v in range(n_nodes):
            here, parent = rows[v], (v - 1) // 2
            own = kept[v] | (routes[v] != 0)
            groups = np.zeros(costs.n_groups, dtype=bool)
            groups[costs.column_group[own]] = True
            owned[v] = groups | owned[parent] if v else groups
            columns = np.flatnonzero(owned[v][costs.column_group])
            if len(here) >= 2:
                tree.weights[v], tree.intercepts[v] = fitted_node(
                    X[here], Y[here], share[here], columns, self.l2_regularization
                )
            elif v:
                tree.weights[v], tree.intercepts[v] = tree.weights[parent], tree.intercepts[parent]
            if 2 * v + 2 < n_nodes:
                right = X[here] @ tree.routes[v] > tree.thresholds[v]
                rows[2 * v + 1], rows[2 * v + 2] = here[~right], here[right]
        return tree


class _PathObjective:
    """The objective of CSTC with quadratic bounds for its roots, and its gradient."""

    def __init__(
        self,
        X: Array,
        Y: Array,
        share: Array,
        start: LinearTree,
        costs: BoundCosts,
        cost_penalty: float,
        l1_regularization: float,
    ) -> None:
        self.X, self.Y, self.share, self.l1_regularization = X, Y, share, l1_regularization
        self.n_nodes, self.d, self.n_classes = start.weights.shape
        answers = X @ start.weights[0]
        # of the answers, along which rows are routed at every node
        self.direction = leading_direction(answers, share)
        ticks = GroupPrices(costs).prices(np.arange(costs.n_groups))
        # (G,) with all that is required
        self.price = cost_penalty * costs.costs.amounts(ticks.astype(np.int64))
        self.group = costs.column_group
        first = self.n_nodes // 2
        self.leaves = range(first, self.n_nodes)
        self.above = {leaf: _path(leaf) for leaf in self.leaves}
        # of each leaf: the root at which the bound touches
        self.bound = np.ones((self.n_nodes, costs.n_groups))
        # a soft step as wide as the scores of the root are spread
        along = answers @ self.direction
        spread = np.sqrt(share @ (along - share @ along) ** 2)
        self.steepness = 4.0 / max(float(spread), 1e-9)

    def parameters(self, tree: LinearTree) -> Array:
        """All parameters side by side; rows are halved along the common direction."""
        weights = tree.weights
        thresholds = np.zeros(self.n_nodes)
        node = np.zeros(len(self.X), dtype=np.int64)
        for v in range(self.n_nodes // 2):
            projected = self.X[node == v] @ weights[v] @ self.direction
            thresholds[v] = middle(projected, self.share[node == v])
            node[node == v] = 2 * v + 1 + (projected > thresholds[v])
        return np.concatenate([weights.ravel(), tree.intercepts.ravel(), thresholds])

    def parts(self, parameters: Array) -> tuple[Array, Array, Array]:
        """Weights (N, d, C), intercepts (N, C), thresholds (N,)."""
        m, k = self.n_nodes * self.d * self.n_classes, self.n_nodes * self.n_classes
        return (
            parameters[:m].reshape(self.n_nodes, self.d, self.n_classes),
            parameters[m : m + k].reshape(self.n_nodes, self.n_classes),
            parameters[m + k :],
        )

    def renew(self, parameters: Array) -> Array:
        """Let the bounds touch the roots at these weights; return a scale of the parameters in which curvatures are about 1."""
        weights = self.parts(parameters)[0]
        power = self._group_power(weights)
        curvature = 1.0 + self.l1_regularization / np.sqrt(weights**2 + _SMOOTHING**2)
        for leaf in self.leaves:
            self.bound[leaf] = np.sqrt(power[self.above[leaf]].sum(axis=0) + _SMOOTHING**2)
            rate = (self.price / self.bound[leaf])[self.group] / len(self.leaves)
            curvature[self.above[leaf]] += rate[:, None]
        scale = np.ones(parameters.size)
        scale[: weights.size] = 1 / np.sqrt(curvature.ravel())
        return scale

    def _group_power(self, weights: Array) -> Array:
        """(N, G) squared norm of each group's weights in each node."""
        squares = (weights**2).sum(axis=2)
        return np.array([np.bincount(self.group, row, self.price.size) for row in squares])

    def __call__(self, scaled: Array, scale: Array) -> tuple[float, Array]:
        """Value and gradient at ``scaled * scale``."""
        weights, intercepts, thresholds = self.parts(scaled * scale)
        linear = np.einsum("nd,vdc->vnc", self.X, weights, optimize=True)
        answer = linear + intercepts[:, None, :]
        loss = ((answer - self.Y) ** 2).sum(axis=2)  # (N, n)
        right = expit(self.steepness * (linear @ self.direction - thresholds[:, None]))
        arrive = np.ones((self.n_nodes, len(self.X)))
        for v in range(1, self.n_nodes):
            up = (v - 1) // 2
            arrive[v] = arrive[up] * (right[up] if v == 2 * up + 2 else 1 - right[up])
        power, paid = self._group_power(weights), np.zeros(self.n_nodes)
        for leaf in self.leaves:
            at = self.bound[leaf]
            paid[leaf] = 0.5 * float(
                self.price @ ((power[self.above[leaf]].sum(axis=0) + _SMOOTHING**2) / at + at)
            )
        size = np.sqrt(weights**2 + _SMOOTHING**2)
        value = float(
            (arrive * (loss + paid[:, None])).sum(axis=0) @ self.share + self.l1_regularization * size.sum()
        )
        # gradient: through the loss, through the prices, through where rows go
        slope = 2 * (arrive * self.share)[:, :, None] * (answer - self.Y)
        below = arrive * self.share * (loss + paid[:, None])  # (N, n): later, of a node and all below it
        for v in range(self.n_nodes - 1, 0, -1):
            below[(v - 1) // 2] += below[v]
        through = slope.copy()
        step = np.zeros(self.n_nodes)
        for v in range(self.n_nodes // 2):
            # d value / d score
            turn = self.steepness * (below[2 * v + 2] * (1 - right[v]) - below[2 * v + 1] * right[v])
            through[v] += turn[:, None] * self.direction
            step[v] = -turn.sum()
        gradient = (
            np.einsum("nd,vnc->vdc", self.X, through, optimize=True) + self.l1_regularization * weights / size
        )
        reached = arrive @ self.share
        for leaf in self.leaves:
            rate = reached[leaf] * (self.price / self.bound[leaf])[self.group]
            for v in self.above[leaf]:
                gradient[v] += rate[:, None] * weights[v]
        return value, scale * np.concatenate([gradient.ravel(), slope.sum(axis=1).ravel(), step])


def _path(node: int) -> list[int]:
    """A node and all above it."""
    path = [node]
    while path[-1]:
        path.append((path[-1] - 1) // 2)
    return path
