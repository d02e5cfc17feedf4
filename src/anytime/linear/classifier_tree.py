"""Trees of linear classifiers: every row goes down a balanced tree and pays for the columns of the nodes on its path.

Here they are trained from the root down (ASTC, the approximately submodular tree of classifiers of Kusner et al., 2014), in
``cost_sensitive_tree`` all at once (CSTC). Both are peers of budgeted forests: Nan, *Adaptive Classification*, section 3.5.
Nodes are fitted by least squares to the indicator of each class. The levels of the tree are the stages of a plan, each of which
replaces the answer of the level above.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anytime._compat import Interval, checked_weights
from anytime._native import row_products
from anytime.blocks import Block, Memory, State
from anytime.calibrated import holding_out
from anytime.costs import BoundCosts
from anytime.estimator import AnytimeModel
from anytime.faces import ClassifierFace
from anytime.greedy import greedy
from anytime.linear.moments import Moments
from anytime.linear.pursuit import GroupedProblem, PursuitOracle
from anytime.linear.sequencing import Arrangement
from anytime.parameters import declared, store
from anytime.plan import Plan
from anytime.validation import class_labels, numbered_classes, validated, weighed_by_class

Array = NDArray[np.float64]

_MOST_LEVELS = 12


@dataclass(frozen=True, eq=False)
class LinearTree:
    """A balanced tree of linear classifiers, level by level: the children of node ``v`` are ``2 v + 1`` and ``2 v + 2``."""

    weights: Array  # (N, d, C): what a node adds up for each class, of columns less their ``centres``
    intercepts: Array  # (N, C)
    routes: Array  # (N, d): a row goes right where ``(x - centres) @ routes[v]`` exceeds ``thresholds[v]``
    thresholds: Array  # (N,)
    centres: Array  # (d,): also what a missing value counts as

    @property
    def n_levels(self) -> int:
        """Levels of the tree, 1 for a root alone."""
        return len(self.intercepts).bit_length()

    def support(self, node: int) -> NDArray[np.bool_]:
        """(d,) columns that a node looks at; in the last level nothing is routed."""
        used = (self.weights[node] != 0).any(axis=1)
        inner = 2 * node + 1 < len(self.intercepts)
        return np.asarray(used | (self.routes[node] != 0)) if inner else np.asarray(used)


class LinearTreeBlock(Block):
    """The levels of a tree of linear classifiers as stages: level ``t`` gives the scores of the node that a row has reached."""

    kind = "linear tree"

    def __init__(self, tree: LinearTree) -> None:
        self.tree = tree
        n, d, width = tree.weights.shape
        shapes = {"intercepts": (n, width), "routes": (n, d), "thresholds": (n,), "centres": (d,)}
        if n == 0 or n & (n + 1):
            raise ValueError(f"a balanced tree has 1, 3, 7, ... nodes, not {n}")
        for name, shape in shapes.items():
            if getattr(tree, name).shape != shape:
                raise ValueError(f"{name} has shape {getattr(tree, name).shape}, but needs {shape}")
        for name in ("weights", *shapes):
            if not np.isfinite(getattr(tree, name)).all():
                raise ValueError(f"{name} of a tree of classifiers must be finite")
        self.n_stages, self.width = tree.n_levels, width
        self._supports = np.array([tree.support(v) for v in range(n)]).reshape(n, d)

    def columns(self, stage: int) -> NDArray[np.int32]:
        """Of all nodes of the level."""
        level = self._supports[2**stage - 1 : 2 ** (stage + 1) - 1]
        return np.flatnonzero(level.any(axis=0)).astype(np.int32)

    def remember(self, n_rows: int) -> Memory:
        """The node that a row has reached."""
        return {"node": np.zeros(n_rows, dtype=np.int64)}

    def reads(self, stage: int, X: Array, memory: Memory) -> NDArray[np.bool_]:
        """What the node that a row has reached looks at."""
        return np.asarray(self._supports[memory["node"]])

    def proceed(self, first: int, stage: int, X: Array, memory: Memory) -> Array:
        """From the node that each row has reached down to level ``stage``."""
        tree, node, last = self.tree, memory["node"], len(self.tree.intercepts) // 2
        outputs = np.empty((len(X), self.width))
        for level in range(first, stage + 1):
            for v in np.unique(node):
                rows = np.flatnonzero(node == v)
                used = np.flatnonzero(self._supports[v])
                values = np.nan_to_num(X[np.ix_(rows, used)] - tree.centres[used], nan=0.0)
                if level == stage:
                    outputs[rows] = row_products(values, tree.weights[v, used]) + tree.intercepts[v]
                if v < last:
                    right = row_products(values, tree.routes[v, used, None])[:, 0] > tree.thresholds[v]
                    node[rows] = 2 * v + 1 + right
        return outputs

    def outputs(self, stage: int, X: Array) -> Array:
        """From the root."""
        return self.proceed(0, stage, X, self.remember(len(X)))

    def head(self, n_stages: int) -> LinearTreeBlock:
        """The upper levels."""
        if n_stages == self.n_stages:
            return self
        t, n = self.tree, 2**n_stages - 1
        return LinearTreeBlock(
            LinearTree(t.weights[:n], t.intercepts[:n], t.routes[:n], t.thresholds[:n], t.centres)
        )

    def state(self) -> State:
        """The arrays of the tree."""
        return {}, dict(vars(self.tree))

    @classmethod
    def from_state(
        cls, description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> LinearTreeBlock:
        """Read what ``state`` gave."""
        return cls(
            LinearTree(**{name: np.asarray(array, dtype=np.float64) for name, array in arrays.items()})
        )


# ---------------------------------------------------------------------- one node by least squares


def fitted_node(
    X: Array, Y: Array, share: Array, columns: NDArray[np.intp], l2_regularization: float
) -> tuple[Array, Array]:
    """Weights (d, C) and intercept (C,) of least squares on some columns, rows counted by ``share``."""
    share = share / share.sum()
    mean, target = share @ X[:, columns], share @ Y
    A = X[:, columns] - mean
    C = (A.T * share) @ A
    C.flat[:: columns.size + 1] += l2_regularization
    coefficients = np.zeros((X.shape[1], Y.shape[1]))
    coefficients[columns] = np.linalg.solve(C, (A.T * share) @ (Y - target))
    return coefficients, target - mean @ coefficients[columns]


def halving(X: Array, share: Array, coefficients: Array) -> tuple[Array, float]:
    """Route (d,) and threshold that halve rows along the direction in which the scores of a node vary most."""
    answers = X @ coefficients
    direction = leading_direction(answers, share)
    return coefficients @ direction, middle(answers @ direction, share)


def middle(values: Array, share: Array) -> float:
    """Between the least value that has half of the weight up to it and the next; 0 where there are no values."""
    if not values.size:
        return 0.0
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(share[order])
    low = float(values[order[np.searchsorted(reached, 0.5 * reached[-1] * (1 - 1e-12))]])
    above = values[values > low]
    return 0.5 * (low + float(above.min())) if above.size else low


def leading_direction(answers: Array, share: Array) -> Array:
    """(C,) the direction in which answers (n, C) differ most; its largest entry is positive."""
    about = answers - np.average(answers, axis=0, weights=share)
    vector = np.linalg.eigh((about.T * share) @ about)[1][:, -1]
    return np.asarray(vector * np.sign(vector[np.abs(vector).argmax()]))


# ---------------------------------------------------------------------- the estimators


class ClassifierTree(ClassifierFace, AnytimeModel):
    """What both trees of classifiers share."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "l2_regularization": [Interval(Real, 0, None, closed="neither")],
    }

    max_stages: int
    l2_regularization: float
    class_weight: Mapping[Any, float] | str | None

    @holding_out
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Train the tree.

        Parameters
        ----------
        X : (n, d)
            NaN for a missing value, which counts as the mean of its column.
        y : (n,)
        sample_weight : (n,), default=None
            Rows of weight 0 are ignored.
        """
        self._validate_params()
        if self.max_stages > _MOST_LEVELS:
            raise ValueError(
                f"max_stages={self.max_stages} would take {2**self.max_stages - 1} nodes; at most {_MOST_LEVELS}"
            )
        X, y = validated(self, X, y, dtype=np.float64, ensure_all_finite="allow-nan")
        y = class_labels(y)
        weight = checked_weights(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        weight = np.asarray(weighed_by_class(weight, self.class_weight, y))
        X, y, weight = X[weight > 0], y[weight > 0], weight[weight > 0]
        classes, labels = numbered_classes(y)
        bound = self._bound_costs()
        Y = np.eye(len(classes))[labels]
        moments = Moments(X.shape[1], 1)
        moments.add(X, Y[:, :1], weight)
        units = moments.standardised()
        Z = np.nan_to_num((X - units.mean) / units.scale, nan=0.0)
        share = weight / weight.sum()
        tree = self._grow(Z, Y, share, bound)
        scaled = LinearTree(
            tree.weights / units.scale[:, None], tree.intercepts, tree.routes / units.scale, tree.thresholds,
            units.mean,
        )  # fmt: skip
        self.classes_, self.tree_ = classes, scaled
        self.plan_ = Plan(
            blocks=[LinearTreeBlock(scaled)],
            costs=bound,
            base=share @ Y,
            link="least_squares",
            replaces=np.ones(scaled.n_levels, dtype=bool),
        )
        return self

    @abstractmethod
    def _grow(self, X: Array, Y: Array, share: Array, costs: BoundCosts) -> LinearTree:
        """A tree for standardised columns and indicators of the classes, rows counted by ``share``."""


@declared()
class SubmodularTreeClassifier(ClassifierTree):
    """ASTC: a balanced tree of linear classifiers, each of which buys columns by gain per price up to its own budget.

    From the root down, a node uses the columns that its ancestors have bought, for free, and adds columns by forward regression
    on its rows, by gain per price, until ``node_budget`` is spent. Half of its rows go to each child, split at the median of its
    prediction (with more than two classes, along the direction in which predictions differ most).

    Parameters
    ----------
    node_budget : float, default=5
        The most that a node may spend.
    max_stages : int, default=3
        A stage is a level of the tree: 1 is a single linear classifier. At most 12.
    l2_regularization : float, default=1e-3
        Columns are standardised.
    min_samples_leaf : int, default=20
        A node with fewer rows predicts the same as its parent.

    Attributes
    ----------
    tree_ : LinearTree
    plan_, stage_costs_, order_, n_features_in_, feature_names_in_
        As in :class:`AnytimeClassifier`. A stage is a level of the tree.

    See Also
    --------
    CostSensitiveTreeClassifier : All nodes trained together.
    GroupPursuitClassifier : One linear model for all rows.

    Examples
    --------
    >>> import anytime as at
    >>> X, y, costs = at.datasets.load("breast_cancer")
    >>> model = at.SubmodularTreeClassifier(costs=costs, node_budget=25).fit(X, y)
    >>> round(model.score(X, y), 2), round(float(model.cost(X).mean()))
    (0.98, 45)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **ClassifierTree._parameter_constraints,
        "node_budget": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        *,
        costs: Any = None,
        node_budget: float = 5.0,
        max_stages: int = 3,
        l2_regularization: float = 1e-3,
        min_samples_leaf: int = 20,
        class_weight: Mapping[Any, float] | str | None = None,
        budget: float | None = None,
        meter: str = "model",
        calibration: str | None = None,
        n_jobs: int | None = None,
    ) -> None:
        store(self, locals())

    def _grow(self, X: Array, Y: Array, share: Array, costs: BoundCosts) -> LinearTree:
        n_nodes, d, n_classes = 2**self.max_stages - 1, X.shape[1], Y.shape[1]
        tree = LinearTree(
            np.zeros((n_nodes, d, n_classes)), np.zeros((n_nodes, n_classes)), np.zeros((n_nodes, d)),
            np.zeros(n_nodes), np.zeros(d),
        )  # fmt: skip
        arrangement = Arrangement.of(costs)
        rows: dict[int, NDArray[np.intp]] = {0: np.arange(len(X))}
        owned: dict[int, NDArray[np.intp]] = {0: np.empty(0, dtype=np.intp)}
        for v in range(n_nodes):
            here, parent = rows[v], (v - 1) // 2
            owned[v] = owned[parent] if v else owned[0]
            if v and (len(here) < self.min_samples_leaf or np.ptp(Y[here], axis=0).max() == 0):
                for name in ("weights", "intercepts", "routes", "thresholds"):
                    getattr(tree, name)[v] = getattr(tree, name)[parent]
            else:
                owned[v] = self._bought(X[here], Y[here], share[here], arrangement, owned[v])
                groups = arrangement.groups[owned[v]]
                columns = np.flatnonzero(np.isin(costs.column_group, groups))
                tree.weights[v], tree.intercepts[v] = fitted_node(
                    X[here], Y[here], share[here], columns, self.l2_regularization
                )
                tree.routes[v], tree.thresholds[v] = halving(X[here], share[here], tree.weights[v])
            if 2 * v + 2 < n_nodes:
                right = X[here] @ tree.routes[v] > tree.thresholds[v]
                rows[2 * v + 1], rows[2 * v + 2] = here[~right], here[right]
        return tree

    def _bought(
        self, X: Array, Y: Array, share: Array, arrangement: Arrangement, owned: NDArray[np.intp]
    ) -> NDArray[np.intp]:
        """Groups of ``arrangement`` that a node looks at, given those of its ancestors."""
        moments = Moments(X.shape[1], Y.shape[1])
        moments.add(X, Y, share)
        columns = arrangement.columns
        C, V, power = moments.centred()
        problem = GroupedProblem.from_moments(
            C[np.ix_(columns, columns)], V[columns], arrangement.start, self.l2_regularization, whitened=False,
            power=float(power.sum()),
        )  # fmt: skip
        purse = arrangement.prices()
        for group in owned:
            purse.buy(int(group))
        purse.spent = 0.0
        budget = arrangement.costs.costs.budget_ticks(self.node_budget)
        chosen = greedy(PursuitOracle(problem, "forward"), purse, budget=budget, min_gain=1e-9).order
        return np.union1d(owned, chosen).astype(np.intp)
