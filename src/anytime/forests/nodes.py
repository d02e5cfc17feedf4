"""An answer and a training error at every node of a forest, so that any node can become a leaf.

scikit-learn's trees and our own store these. The trees of other libraries store answers at leaves only; rows are then sent
through the forest, and an inner node answers with the mean of the leaves below it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_consistent_length

from anytime._compat import n_training_rows
from anytime.forests.growing import ClassTree
from anytime.forests.pruning.problem import PruningProblem, leaves_of, parents
from anytime.forests.within_budget import Vote, voting
from anytime.losses import LINKS
from anytime.plan import Array
from anytime.trees.arrays import LEAF, TreeArrays
from anytime.trees.growing import join
from anytime.trees.importers import Columns, Imported, import_trees
from anytime.trees.rows import checked_weights
from anytime.validation import label_numbers

__all__ = [
    "NodeStatistics",
    "grown_from",
    "keeps_errors",
    "node_statistics",
    "read_rows",
    "truth_of",
    "usage",
    "with_unseen",
]

_SQUARES = ("squared_error", "friedman_mse")  # criteria of scikit-learn whose impurity is the mean of squares
OFTEN = 8  # tests of a group on the way of one row that are many


@dataclass(frozen=True, eq=False)
class NodeStatistics(Imported):
    """A forest with an answer and a training error at every node.

    Attributes
    ----------
    trees : TreeArrays
        With ``value`` known at every node.
    base, combine, link, classes, feature_names, columns, source
        As in :class:`~anytime.trees.importers.Imported`. ``combine`` is ``"mean"`` and ``base`` the mean of the roots.
    error : (M,) float64
        Training error of the node as a leaf: the weight of its training rows that are not of its class, or the sum of squares
        about its answer.
    n_error : float
        Weight of the training rows of a tree.
    seen : T arrays (n,) bool, or None
        The rows that each tree was grown from, if known and not all rows.
    """

    error: Array
    n_error: float
    seen: Sequence[NDArray[np.bool_]] | None = None

    @classmethod
    def of_trees(
        cls,
        trees: Sequence[ClassTree],
        *,
        columns: Columns | None = None,
        classes: NDArray[Any] | None = None,
        feature_names: list[str] | None = None,
        vote: Vote = "probability",
        source: str = "anytime",
    ) -> NodeStatistics:
        """The nodes of trees that were grown here; ``classes`` are their labels, None for regression.

        Nodes answer with the quantity that the forest averages; ``vote`` is that of ``BudgetForestClassifier``.
        """
        if not trees:
            raise ValueError("there are no trees to prune")
        arrays = join([voting(tree, vote) for tree in trees])
        sums = np.concatenate([tree.statistics for tree in trees])
        if classes is None:
            size = sums[:, 0]
            error = np.maximum(sums[:, 2] - sums[:, 1] ** 2 / np.maximum(size, np.finfo(float).tiny), 0.0)
        else:
            size = sums.sum(axis=1)
            error = size - sums.max(axis=1)
        return cls(
            trees=arrays,
            base=_root_mean(arrays, arrays.value),
            combine="mean",
            link="identity" if classes is None else "counts" if vote == "counts" else "probability",
            classes=classes,
            feature_names=feature_names,
            columns=Columns(arrays.n_features) if columns is None else columns,
            source=source,
            error=error,
            n_error=float(size[arrays.tree_start[:-1]].mean()),
            seen=_drawn(trees),
        )


def node_statistics(
    model: Any, X: Any = None, y: Any = None, sample_weight: ArrayLike | None = None
) -> NodeStatistics:
    """Answers and errors at every node of a fitted forest.

    Parameters
    ----------
    model : fitted forest
        A decision tree, random forest or extra-trees model of scikit-learn, a random forest of LightGBM
        (``boosting_type="rf"``) or XGBoost (``XGBRF*``; ``num_parallel_tree`` with one round), a tree or forest grown here
        within a budget, an `Imported` one, or a result of this function.
    X, y : (n, d) and (n,), default=None
        Rows on which errors are counted. None: the training rows, if the forest stores their errors; scikit-learn's forests do,
        with every row as often as it was drawn.
    sample_weight : (n,), default=None

    Raises
    ------
    TypeError
        If the model is not a forest.
    ValueError
        If the trees are boosted, so that no tree answers by itself; or if rows are needed and missing.
    """
    if (X is None) != (y is None):
        raise ValueError("give rows and their labels together")
    if isinstance(model, NodeStatistics):
        return model if X is None else _routed(model, model.trees.value, X, y, sample_weight)
    if (own := _own_trees(model)) is not None:
        kept = NodeStatistics.of_trees(
            own,
            columns=model.columns_,
            classes=getattr(model, "classes_", None),
            feature_names=_names(model),
            vote=model.vote,
            source=type(model).__name__,
        )
        return node_statistics(kept, X, y, sample_weight)
    imported = model if isinstance(model, Imported) else import_trees(model)
    if imported.combine != "mean":
        raise ValueError(
            f"{imported.source} adds up its trees, each of which corrects those before it, so none can be pruned by itself: "
            "prune a random forest, or order and truncate this model with make_anytime"
        )
    grown = _scikit_trees(model)
    if grown is not None:
        remembered = _remembered(imported, grown)
        if X is not None:
            return _routed(remembered, remembered.trees.value, X, y, sample_weight)
        if keeps_errors(model):
            return remembered
    if X is None:
        raise ValueError(
            f"{imported.source} stores no training errors at its nodes: pass X_train and y_train, to count them"
        )
    return _routed(imported, None, X, y, sample_weight)


# ---------------------------------------------------------------------- trees that remember


def keeps_errors(model: Any) -> bool:
    """Whether a forest stores its training errors, so that `node_statistics` needs no rows."""
    own = isinstance(model, NodeStatistics) or _own_trees(model) is not None
    comparable = hasattr(model, "classes_") or getattr(model, "criterion", None) in _SQUARES
    return own or (comparable and _scikit_trees(model) is not None)


def _own_trees(model: Any) -> list[ClassTree] | None:
    """The trees of a forest that was grown here, None for a model of another library."""
    if not hasattr(model, "plan_"):
        return None
    name, trees = type(model).__name__, getattr(model, "trees_", None)
    if trees and all(isinstance(tree, ClassTree) for tree in trees):
        return list(trees)
    if isinstance(trees, list) and not trees:
        raise ValueError(f"no whole tree of this {name} is within its budget, so there is nothing to prune")
    raise ValueError(
        f"this {name} does not hold what pruning needs. Prune the forest that was fitted: loaded and truncated models "
        "keep only its answers. To shrink a model that is already pruned or ordered, use truncate"
    )


def _names(model: Any) -> list[str] | None:
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def _scikit_trees(model: Any) -> list[Any] | None:
    """The compiled trees of a scikit-learn model, None for any other."""
    if hasattr(model, "tree_"):
        return [model.tree_]
    members = getattr(model, "estimators_", None)
    if members is None or not all(hasattr(member, "tree_") for member in members):
        return None
    return [member.tree_ for member in members]


def _remembered(imported: Imported, grown: Sequence[Any]) -> NodeStatistics:
    """What scikit-learn's trees hold: shares of the in-bag rows, or their mean; their weight; their impurity."""
    weight = np.concatenate([tree.weighted_n_node_samples for tree in grown])
    if imported.classes is None:
        value = np.concatenate([tree.value[:, :, 0] for tree in grown])
        error = weight * np.concatenate([tree.impurity for tree in grown]) * value.shape[1]
    else:
        value = np.concatenate([tree.value[:, 0, :] for tree in grown])
        error = weight * (1.0 - value.max(axis=1))
    trees = replace(imported.trees, value=np.ascontiguousarray(value, dtype=np.float64))
    roots = imported.trees.tree_start[:-1]
    return _with_statistics(imported, trees, np.maximum(error, 0.0), float(weight[roots].mean()))


def _with_statistics(imported: Imported, trees: TreeArrays, error: Array, n_error: float) -> NodeStatistics:
    kept = {field.name: getattr(imported, field.name) for field in fields(Imported)}
    kept |= {"trees": trees, "base": _root_mean(trees, trees.value)}
    return NodeStatistics(**kept, error=np.asarray(error, dtype=np.float64), n_error=n_error)


def _root_mean(trees: TreeArrays, value: Array) -> Array:
    """(K,) the mean answer of the roots, over the trees of each output."""
    roots = value[trees.tree_start[:-1]]
    if value.shape[1] == trees.n_outputs and trees.n_outputs > 1:
        return np.asarray(roots.mean(axis=0))
    total = np.bincount(trees.tree_output, roots[:, 0], trees.n_outputs)
    return np.asarray(total / np.bincount(trees.tree_output, minlength=trees.n_outputs))


# ---------------------------------------------------------------------- rows sent through


def _routed(
    imported: Imported, value: Array | None, X: Any, y: Any, sample_weight: ArrayLike | None
) -> NodeStatistics:
    """Errors on given rows; where inner nodes have no ``value``, the mean of the leaves that these rows reach below."""
    rows, truth, weight = read_rows(imported, X, y, sample_weight)
    trees, leaf, parent = imported.trees, leaves_of(imported.trees, rows), parents(imported.trees)
    if value is None:
        means = [_means_below(trees, parent, t, leaf[:, t], weight) for t in range(trees.n_trees)]
        trees = replace(trees, value=np.concatenate(means))
    else:
        trees = replace(trees, value=value)
    error = [_errors(imported, trees, parent, t, leaf[:, t], truth, weight) for t in range(trees.n_trees)]
    return _with_statistics(imported, trees, np.concatenate(error), float(weight.sum()))


def with_unseen(
    statistics: NodeStatistics,
    X: Any,
    y: Any,
    sample_weight: ArrayLike | None = None,
    *,
    seen: Sequence[NDArray[np.bool_]] | None = None,
    share: float,
) -> NodeStatistics:
    """The same nodes with errors that include rows the tree was not grown from.

    Trees of unlimited depth make no error on the rows they were grown from, so every split seems worth its price. Errors become
    ``(1 - share)`` times the rate on those rows plus ``share`` times the rate on others; a share of 0.632 is Efron's estimator of
    the error of a bootstrapped model.

    Parameters
    ----------
    statistics : NodeStatistics
    X, y : (n, d) and (n,)
    sample_weight : (n,), default=None
    seen : T arrays (n,) bool, default=None
        The rows that each tree was grown from. None: none of them.
    share : float
    """
    rows, truth, weight = read_rows(statistics, X, y, sample_weight)
    trees, parent = statistics.trees, parents(statistics.trees)
    leaf = leaves_of(trees, rows)
    rate = statistics.error / statistics.n_error
    for t in range(trees.n_trees):
        new = weight if seen is None else np.where(seen[t], 0.0, weight)
        if new.any():
            nodes = slice(*trees.tree_start[t : t + 2])
            error = _errors(statistics, trees, parent, t, leaf[:, t], truth, new)
            rate[nodes] = (1.0 - share) * rate[nodes] + share * error / new.sum()
    return replace(statistics, error=rate, n_error=1.0)


def grown_from(model: Any) -> list[NDArray[np.bool_]] | None:
    """Which rows each tree of a fitted forest was grown from; None if all rows, or unknown."""
    if isinstance(model, NodeStatistics):
        return None if model.seen is None else list(model.seen)
    if hasattr(model, "plan_"):
        return _drawn(_own_trees(model) or [])
    if not getattr(model, "bootstrap", False) or not hasattr(model, "estimators_samples_"):
        return None
    drawn = model.estimators_samples_
    return [np.isin(np.arange(n_training_rows(model)), rows) for rows in drawn]


def _drawn(trees: Sequence[ClassTree]) -> list[NDArray[np.bool_]] | None:
    return [tree.in_bag > 0 for tree in trees if tree.in_bag is not None] or None


def read_rows(
    imported: Imported, X: Any, y: Any, sample_weight: ArrayLike | None
) -> tuple[Array, NDArray[Any], Array]:
    """Rows as the trees read them, with their labels and weights."""
    rows, truth = imported.encode(X), truth_of(imported, y)
    check_consistent_length(rows, truth)
    return rows, truth, np.ones(len(rows)) if sample_weight is None else checked_weights(sample_weight, rows)


def _errors(
    imported: Imported,
    trees: TreeArrays,
    parent: NDArray[np.int32],
    t: int,
    leaf: NDArray[np.int32],
    truth: NDArray[Any],
    weight: Array,
) -> Array:
    """(m,) error of each node of tree ``t`` on rows that reach the leaves ``leaf``."""
    if imported.classes is None:
        moments = weight[:, None] * np.column_stack([np.ones(len(truth)), truth, truth**2])
        error = _squares(imported, trees, t, _upwards(trees, parent, t, leaf, moments))
    else:
        counts = weight[:, None] * (truth[:, None] == np.arange(len(imported.classes)))
        error = _misjudged(imported, trees, t, _upwards(trees, parent, t, leaf, counts))
    return np.maximum(error, 0.0)


def _upwards(
    trees: TreeArrays, parent: NDArray[np.int32], t: int, nodes: NDArray[np.integer[Any]], amounts: Array
) -> Array:
    """(m, q) at each node of tree ``t`` the sum of the (n, q) ``amounts`` that stand at it or below, at ``nodes``."""
    first, stop = trees.tree_start[t : t + 2]
    out = np.zeros((stop - first, amounts.shape[1]))
    at, left = nodes, amounts
    while at.size:
        for q, column in enumerate(left.T):
            out[:, q] += np.bincount(at - first, column, stop - first)
        at = parent[at]
        inside = at >= 0
        at, left = at[inside], left[inside]
    return out


def _means_below(
    trees: TreeArrays, parent: NDArray[np.int32], t: int, leaf: NDArray[np.int32], weight: Array
) -> Array:
    """(m, W) the mean answer below each node: of the rows, or of the leaves where no row comes."""
    nodes = np.arange(*trees.tree_start[t : t + 2])
    own = nodes[trees.feature[nodes] == LEAF]
    by_leaf = _upwards(trees, parent, t, own, np.column_stack([np.ones(own.size), trees.value[own]]))
    by_row = _upwards(
        trees, parent, t, leaf, weight[:, None] * np.column_stack([np.ones(leaf.size), trees.value[leaf]])
    )
    sums = np.where(by_row[:, :1] > 0, by_row, by_leaf)
    means = sums[:, 1:] / sums[:, :1]
    means[own - nodes[0]] = trees.value[own]  # to the last bit
    return np.asarray(means)


def _misjudged(imported: Imported, trees: TreeArrays, t: int, counts: Array) -> Array:
    """(m,) weight of the rows at each node that are not of the class it answers, from the (m, C) weights of the classes.

    A tree that answers for one of several classes decides nothing by itself: there it is the sum of squares, about their mean,
    of the truth that a row is of the class.
    """
    size = counts.sum(axis=1)
    value = trees.value[slice(*trees.tree_start[t : t + 2])]
    link = LINKS[imported.link]
    if value.shape[1] < link.n_outputs(counts.shape[1]):
        share = counts[:, trees.tree_output[t]] / np.where(size > 0, size, 1.0)
        return np.asarray(size * share * (1.0 - share))
    answer = link.transform(value).argmax(axis=1)
    return np.asarray(size - counts[np.arange(size.size), answer])


def _squares(imported: Imported, trees: TreeArrays, t: int, moments: Array) -> Array:
    """(m,) sum of squares about the answer of each node, from ``sum w``, ``sum w y`` and ``sum w y^2`` at it."""
    answer = LINKS[imported.link].transform(trees.value[slice(*trees.tree_start[t : t + 2])])
    n_targets = (moments.shape[1] - 1) // 2
    outputs = np.arange(n_targets) if answer.shape[1] == n_targets else trees.tree_output[t : t + 1]
    size, first, second = moments[:, :1], moments[:, 1 + outputs], moments[:, 1 + n_targets + outputs]
    return np.asarray((second - 2.0 * answer * first + answer**2 * size).sum(axis=1))


def truth_of(imported: Imported, y: Any) -> NDArray[Any]:
    """Class numbers (n,), or targets (n, K)."""
    if imported.classes is None:
        targets = np.asarray(y, dtype=np.float64)
        targets = targets[:, None] if targets.ndim == 1 else targets
        if targets.ndim != 2 or targets.shape[1] != imported.base.size:
            raise ValueError(
                f"y has shape {np.shape(y)}, but {imported.source} predicts {imported.base.size} numbers per row"
            )
        if (bad := np.flatnonzero(~np.isfinite(targets).all(axis=1))).size:
            raise ValueError(f"y is missing or infinite in {bad.size} rows, first in row {bad[0]}")
        return targets
    return label_numbers(y, imported.classes)


# ---------------------------------------------------------------------- the shape of trees, and what rows use


def usage(problem: PruningProblem, internal: NDArray[np.bool_] | None = None) -> Array:
    """(G, 3) shares of the cost rows that need each group never, one to seven times, and more often, over all trees.

    A row needs a group once for every ``internal`` node on its path that tests it, or that tests a group requiring it; None:
    every node of the whole forest. After Nan, *Budgeted prediction*, table 4.1.
    """
    internal = problem.splits if internal is None else problem.check(internal)
    times = np.zeros((len(problem.leaf), problem.prices.size), dtype=np.int32)
    owner = np.repeat(np.arange(problem.n_nodes), np.diff(problem.group_start))
    for t in range(problem.n_trees):
        first, stop = problem.tree_start[t : t + 2]
        here = slice(problem.group_start[first], problem.group_start[stop])
        kept = internal[owner[here]]
        # on the way to each node, and at it
        tests = np.zeros((stop - first, problem.prices.size), dtype=np.int32)
        tests[owner[here][kept] - first, problem.node_groups[here][kept]] = 1
        for level in problem.levels[1:]:
            own = level[slice(*np.searchsorted(level, (first, stop)))]
            tests[own - first] += tests[problem.parent[own] - first]
        times += tests[problem.leaf[:, t] - first]
    weight = np.ones(len(times)) if problem.weight is None else problem.weight
    none, many = times == 0, times >= OFTEN
    shares = [weight @ part / weight.sum() for part in (none, ~none & ~many, many)]
    return np.stack(shares, axis=1)
