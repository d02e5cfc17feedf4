"""Forests pruned for a budget: all trees together, so that rows need fewer groups and the forest stays nearly as good.

BudgetPrune (Nan, Wang and Saligrama, *Pruning Random Forests for Prediction on a Budget*, 2016; Nan, *Budgeted prediction*,
chapter 4). A forest made for accuracy reads almost everything for every row, much of it a few times only. Pruning makes rows
either use a group often or not at all.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from anytime.forests.nodes import NodeStatistics, grown_from, keeps_errors, node_statistics, with_unseen
from anytime.forests.pruning.paths import voting
from anytime.forests.pruning.problem import leaves_of
from anytime.forests.pruning.pruned import PrunedForest
from anytime.parameters import declared, without
from anytime.trees.arrays import LEAF
from anytime.trees.imported_models import AnytimeClassifier, AnytimeRegressor
from anytime.trees.making import check_columns, take_names, to_fit_again
from anytime.trees.rows import checked_weights


@declared()
class PrunedForestClassifier(PrunedForest, AnytimeClassifier):
    """A forest of trees for classification, pruned for a budget.

    ``fit`` trains a forest on a part of the rows. All its trees are then pruned together: subtrees become leaves where the
    error that they save is not worth, at ``cost_penalty``, what rows pay to go through them. A row pays for a group once, however
    many nodes and trees read it. The optimum is found exactly. Prunings for smaller and smaller budgets are nested, and become
    stages of a plan that each replace the answer. For a forest that is fitted already use :func:`anytime.prune_forest`.

    Parameters
    ----------
    estimator : classifier, default=None
        A decision tree, random forest or extra-trees classifier of scikit-learn, a random forest of LightGBM or XGBoost, or
        a ``BudgetForestClassifier``. None: ``RandomForestClassifier``.
    mean_budget : float, default=None
        What rows may pay on average in a prediction that names no bound. None: no limit. The forest is pruned so that new rows
        keep to it, and no more.
    cost_penalty : float, default=None
        Loss that one unit of cost must save to be spent. The loss is the error of single trees. 0 prunes what saves no error.
    tolerance : float, default=None
        Keep the cheapest pruning whose held-out error exceeds the least by at most so many standard errors. The rows that
        judge it then have no share in the errors of nodes. At most one of ``mean_budget``, ``cost_penalty`` and ``tolerance`` is
        given. None of them: the last stage is the whole forest.
    method : {"auto", "min_cut", "primal_dual"}, default="auto"
        "min_cut": exact, by a minimum cut. "primal_dual": nearly exact, in less memory. "auto": exact where memory allows.
    vote : {"mean", "majority"}, default="mean"
        Whether trees are averaged with what they answer, shares of classes (or whatever vote a ``BudgetForestClassifier`` has),
        or with a whole vote each.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes. "balanced": inversely proportional to how often they occur. None: 1 each. They count in growing
        and in errors, not in what rows pay on average.
    out_of_bag : float, default=0.632
        Weight, in the errors of nodes, of rows that their tree was not grown from; the rest is the error on those it was grown
        from, which in full-grown trees is nil. Rows out of the bag where trees have drawn theirs, else held-out ones, but not
        with ``tolerance``. 0: in-bag errors only, as in the paper. The default is that of the .632 bootstrap.
    refit : bool or "auto", default="auto"
        Whether the leaves of a pruning get answers that fit each other: corrections by ridge regression on the training rows, for
        all trees together. What is pruned and what it costs does not change, and the whole forest answers as before. "auto": as
        held-out rows prefer; False where there are none. Never with ``vote="majority"``, nor where trees average other things
        than numbers or probabilities. False: nodes answer as they did in their tree, as in the paper.
    evaluation_cost : float, default=0.0
        Price of evaluating one stage, features apart, in the unit of ``costs``. Here it is paid at every node that tests a row.
        Pruning and ``mean_budget`` reckon with it; predictions do not charge it.
    max_stages : int, default=12
        The most stages that the plan may have. They are prunings at equal ratios of cost.
    validation_fraction : float, default=0.2
        Share of the training rows held out to decide on. None: none are. They say how good prunings are, and together with the
        training rows what they cost.
    random_state : int, RandomState or None, default=None
        Seed; the same seed gives the same model. It chooses the rows held out, and seeds the estimator where that has no seed.
    verbose : int, default=0
        Whether progress is printed. Ctrl-C ends the search, between prunings, with what was found.

    Attributes
    ----------
    columns_, source_, estimator_
        As in :class:`AnytimeClassifier`.
    path_ : PruningPath
        All prunings considered, with cost, error, size and how they do on held-out rows.
    refit_ : bool
        Whether leaves were refitted.
    usage_ : Usage or None
        How many rows use each group never, seldom and often, before and after pruning. None after ``truncate``.
    pruning_ : Pruning or None
        The last stage as a pruning of the forest. None after ``load`` and ``truncate``.
    pruner_ : BudgetPruner or None
        Finds prunings for other budgets. None after ``load`` and ``truncate``.
    n_nodes_ : int
        Nodes of the last stage, leaves included.
    gap_ : float
        How far ``error + cost_penalty * cost`` of the last stage might be from the best; 0 where it is the best, or nothing was
        asked for. NaN after ``truncate``: not known.

    See Also
    --------
    prune_forest : The same for a forest that is fitted already.
    BudgetForestClassifier : Grows a forest within a budget instead.

    References
    ----------
    Nan, Wang, Saligrama: *Pruning Random Forests for Prediction on a Budget*, 2016.

    Examples
    --------
    >>> import anytime as at
    >>> X, y, costs = at.datasets.load("breast_cancer")
    >>> model = PrunedForestClassifier(costs=costs, mean_budget=40, random_state=0).fit(X, y)
    >>> bool(30 < model.path_.cost[-1] <= 40)
    True
    """

    def _default(self) -> BaseEstimator:
        from sklearn.ensemble import RandomForestClassifier

        return RandomForestClassifier()

    def _voting(self, statistics: NodeStatistics) -> NodeStatistics:
        return voting(statistics) if self.vote == "majority" else statistics


@declared(like=PrunedForestClassifier)
@without("vote", "class_weight")
class PrunedForestRegressor(PrunedForest, AnytimeRegressor):
    """A forest of trees for regression, pruned for a budget.

    Parameters
    ----------
    estimator : regressor, default=None
        A decision tree, random forest or extra-trees regressor of scikit-learn, a random forest of LightGBM or XGBoost, or
        a ``BudgetForestRegressor``. None: ``RandomForestRegressor``.
    cost_penalty : float, default=None
        Loss that one unit of cost must save to be spent. The loss is the squared error of single trees, or what the criterion of
        the estimator counts.

    Attributes
    ----------
    columns_, source_, estimator_
        As in :class:`AnytimeClassifier`.
    path_, usage_, refit_, pruning_, pruner_, n_nodes_, gap_
        As in :class:`PrunedForestClassifier`.

    See Also
    --------
    prune_forest : The same for a forest that is fitted already.

    Examples
    --------
    >>> import anytime as at
    >>> X, y, costs = at.datasets.load("diabetes")
    >>> model = PrunedForestRegressor(costs=costs, mean_budget=5, random_state=0).fit(X, y)
    >>> bool(model.path_.cost[-1] <= 5)
    True
    """

    def _default(self) -> BaseEstimator:
        from sklearn.ensemble import RandomForestRegressor

        return RandomForestRegressor()


def prune_forest(
    forest: Any,
    X_val: Any,
    y_val: Any = None,
    *,
    costs: Any = None,
    mean_budget: float | None = None,
    budget: float | None = None,
    cost_penalty: float | None = None,
    tolerance: float | None = None,
    X_train: Any = None,
    y_train: Any = None,
    sample_weight: ArrayLike | None = None,
    method: str = "auto",
    vote: str = "mean",
    out_of_bag: float = 0.632,
    refit: bool | Literal["auto"] = "auto",
    evaluation_cost: float = 0.0,
    max_stages: int = 12,
    meter: str = "realised",
    n_jobs: int | None = None,
    verbose: int = 0,
) -> PrunedForestClassifier | PrunedForestRegressor:
    """Prune a fitted forest for a budget.

    Parameters
    ----------
    forest : fitted forest
        A decision tree, random forest or extra-trees model of scikit-learn, a random forest of LightGBM
        (``boosting_type="rf"``) or XGBoost (``XGBRF*``), one of this library, or what
        ``anytime.trees.importers.import_file`` read.
    X_val, y_val : (n, d) and (n,), y_val default=None
        Held-out rows, not seen in training. What they pay is what pruning makes small; they pay less than new rows would, which
        is cross-fitted where they are few. Their truth says how good the prunings are, and without ``X_train`` and ``tolerance``
        it also has a share in the errors of nodes, as ``out_of_bag`` says.
    costs, mean_budget, budget, cost_penalty, tolerance, method, vote, out_of_bag, refit, evaluation_cost, max_stages, meter
        As in :class:`PrunedForestClassifier`.
    X_train, y_train : (m, d) and (m,), default=None
        The rows that the forest was trained on, in their order; of a forest grown here, without those that ``fit`` held out.
        Errors of nodes are counted on those of them that a tree has not drawn, and on all where the forest remembers none.
        They pay together with ``X_val``, and ``refit`` needs them. None: what the forest remembers, and ``X_val, y_val``.
    sample_weight : (n,), default=None
        Weights of the held-out rows.
    n_jobs, verbose
        As in :class:`PrunedForestClassifier`.

    Returns
    -------
    PrunedForestClassifier or PrunedForestRegressor
        With none of ``mean_budget``, ``cost_penalty`` and ``tolerance`` its last stage answers as ``forest`` does. Its
        ``estimator`` is a clone of ``forest``, where that can be fitted again.

    Raises
    ------
    ValueError
        The trees add up, as those of boosting do.

    Examples
    --------
    >>> import anytime as at
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y, costs = at.datasets.load("breast_cancer")
    >>> forest = RandomForestClassifier(20, random_state=0).fit(X[::2], y[::2])
    >>> model = prune_forest(forest, X[1::2], y[1::2], costs=costs, mean_budget=40)
    >>> bool(30 < model.cost(X[1::2]).mean() <= 40)
    True
    """
    given = locals()
    options = {name: given[name] for name in PrunedForestRegressor._get_param_names() if name in given}
    statistics = _statistics(forest, (X_val, y_val, sample_weight), X_train, y_train, out_of_bag, tolerance)
    rungs: list[Any] = [(statistics, None)]
    made: PrunedForestClassifier | PrunedForestRegressor
    if statistics.classes is not None:
        made = PrunedForestClassifier(to_fit_again(forest, rungs), vote=vote, **options)
    else:
        if vote != "mean":
            raise ValueError("vote is for classes; a forest of numbers answers with the mean of its trees")
        made = PrunedForestRegressor(to_fit_again(forest, rungs), **options)
    made._validate_params()
    made._check_goal()
    take_names(made, rungs, X_val)
    check_columns(made, statistics)
    weight = None if sample_weight is None else checked_weights(sample_weight, X_val)
    learned = None if X_train is None else (X_train, y_train, None)
    made._prune(statistics, made._bound_costs(), (X_val, y_val, weight), learned)
    return made


def _statistics(
    forest: Any,
    held: tuple[Any, Any, ArrayLike | None],
    X_train: Any,
    y_train: Any,
    out_of_bag: float,
    tolerance: float | None,
) -> NodeStatistics:
    """Errors and answers of the nodes, as far as the rows that are there can tell."""
    if (X_train is None) != (y_train is None):
        raise ValueError("give X_train and y_train together: training rows and their truth")
    counts_held = held[1] is not None and tolerance is None  # what judges prunings does not choose them
    if not keeps_errors(forest) and X_train is None:
        if not counts_held:
            given = (
                "y_val, or" if tolerance is None else "besides the rows that tolerance compares prunings on"
            )
            raise ValueError(
                f"this {type(forest).__name__} keeps no training errors at its nodes: give {given} X_train and y_train, to "
                "count them"
            )
        return node_statistics(forest, *held)  # of rows that no tree was grown from
    statistics = node_statistics(forest, *(() if keeps_errors(forest) else (X_train, y_train)))
    seen = None if X_train is None else grown_from(forest)
    if seen is not None and len(seen[0]) != len(X_train):
        raise ValueError(
            f"X_train has {len(X_train)} rows, but the trees were grown from {len(seen[0])}: give those, or no X_train"
        )
    statistics = replace(statistics, seen=seen)
    if seen is not None:
        _check_grown_from(statistics, X_train)
    if out_of_bag and seen is not None:
        return with_unseen(statistics, X_train, y_train, seen=seen, share=out_of_bag)
    if out_of_bag and counts_held:
        return with_unseen(statistics, *held, share=out_of_bag)
    return statistics


def _check_grown_from(statistics: NodeStatistics, X_train: Any) -> None:
    """Refuse rows that cannot be those that the trees were grown from: every leaf was made for some of them."""
    assert statistics.seen is not None
    trees = statistics.trees
    leaf = leaves_of(trees, statistics.encode(X_train))
    leaves = np.flatnonzero(trees.feature == LEAF)
    drawn = leaf[np.transpose(statistics.seen)]
    empty = leaves.size - np.isin(leaves, drawn).sum()
    if empty > 0.01 * leaves.size:
        raise ValueError(
            f"X_train is not what the trees were grown from, or in another order: of {leaves.size} leaves {empty} are reached by "
            "none of the rows that their tree has drawn"
        )
