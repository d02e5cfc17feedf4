"""Forests pruned for a budget: all trees together, so that rows need fewer groups and accuracy stays nearly the same.

BudgetPrune (Nan, Wang and Saligrama, *Pruning Random Forests for Prediction on a Budget*, 2016; Nan, *Budgeted prediction*,
chapter 4). A forest built for accuracy reads almost every group for every row, many of them only a few times. After pruning, a
row uses a group either often or not at all.
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

    ``fit`` trains a forest on a part of the rows and then prunes all its trees together: a subtree becomes a leaf if the error
    that it saves is not worth, at ``cost_penalty``, what rows pay for it. A row pays for a group once, however many nodes and
    trees read it. The optimum is computed exactly. Prunings for smaller budgets are nested and become the stages of a plan, each
    of which replaces the answer. For a fitted forest, use :func:`anytime.prune_forest`.

    Parameters
    ----------
    estimator : classifier, default=None
        A decision tree, random forest or extra-trees classifier of scikit-learn, a random forest of LightGBM or XGBoost, or
        a ``BudgetForestClassifier``. None: ``RandomForestClassifier``.
    mean_budget : float, default=None
        The forest is pruned just enough that new rows keep to it.
    cost_penalty : float, default=None
        The loss is the error of single trees. 0 prunes subtrees that save no error.
    tolerance : float, default=None
        Keep the cheapest pruning whose held-out error exceeds the lowest by at most this many standard errors. The rows that
        decide this are then not used for the errors of nodes. Set at most one of ``mean_budget``, ``cost_penalty`` and
        ``tolerance``. Without any, the last stage is the whole forest.
    method : {"auto", "min_cut", "primal_dual"}, default="auto"
        "min_cut": exact, by a minimum cut. "primal_dual": nearly exact, in less memory. "auto": exact if memory allows.
    vote : {"mean", "majority"}, default="mean"
        Whether the outputs of trees are averaged (class frequencies, or the vote of a ``BudgetForestClassifier``), or each tree
        votes for one class.
    class_weight : dict, "balanced" or None, default=None
        They apply to growing and to errors, not to the mean cost of rows.
    out_of_bag : float, default=0.632
        Weight, in the errors of nodes, of rows that their tree was not grown from; the rest is the in-bag error, which is 0 in
        full-grown trees. These rows are the out-of-bag rows if trees have bootstrap samples, else held-out rows, but not with
        ``tolerance``. 0: in-bag errors only, as in the paper. The default is that of the .632 bootstrap.
    refit : bool or "auto", default="auto"
        Whether the leaves of a pruning are refitted together, by ridge regression on the training rows. The prunings, their
        costs and the answers of the whole forest stay the same. "auto": if held-out rows improve; False if there are none.
        Never with ``vote="majority"``, nor if trees average anything but numbers or probabilities. False: nodes keep the
        answers of their own tree, as in the paper.
    evaluation_cost : float, default=0.0
        Here per node that tests a row. Pruning and ``mean_budget`` include it; predictions do not charge it.
    max_stages : int, default=12
        They are prunings at equal ratios of cost.
    validation_fraction : float, default=0.2
        They measure the quality of prunings and, together with the training rows, their cost.
    random_state : int, RandomState or None, default=None
        It draws the held-out rows, and seeds an estimator without a seed.
    verbose : int, default=0
        Ctrl-C ends the search between prunings and keeps the best so far.

    Attributes
    ----------
    columns_, source_, estimator_
        As in :class:`AnytimeClassifier`.
    path_ : PruningPath
        All prunings considered, with cost, error, size and held-out loss.
    refit_ : bool
        Whether leaves were refitted.
    usage_ : Usage or None
        Shares of rows that use each group never, rarely and often, before and after pruning. None after ``truncate``.
    pruning_ : Pruning or None
        The last stage as a pruning of the forest. None after ``load`` and ``truncate``.
    pruner_ : BudgetPruner or None
        Finds prunings for other budgets. None after ``load`` and ``truncate``.
    n_nodes_ : int
        Nodes of the last stage, leaves included.
    gap_ : float
        Upper bound on the distance of ``error + cost_penalty * cost`` of the last stage from the optimum; 0 if it is optimal
        or no pruning was requested. NaN (unknown) after ``truncate``.

    See Also
    --------
    prune_forest : The same for a fitted forest.
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
        The loss is the squared error of single trees, or what the criterion of the estimator counts.

    Attributes
    ----------
    columns_, source_, estimator_
        As in :class:`AnytimeClassifier`.
    path_, usage_, refit_, pruning_, pruner_, n_nodes_, gap_
        As in :class:`PrunedForestClassifier`.

    See Also
    --------
    BudgetForestRegressor : Grows a forest within a budget instead.
    prune_forest : The same for a fitted forest.

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
        A decision tree, random forest or extra-trees model of scikit-learn, a random forest of LightGBM (``boosting_type="rf"``)
        or XGBoost (``XGBRF*``), one of this library, or the result of ``anytime.trees.importers.import_file``.
    X_val, y_val : (n, d) and (n,), y_val default=None
        Validation rows, not used in training. Pruning minimises what they pay, so they pay less than new rows; if they are few,
        costs are cross-fitted. Their labels measure the quality of prunings and, without ``X_train`` and ``tolerance``, also
        contribute to the errors of nodes, see ``out_of_bag``.
    costs, mean_budget, budget, cost_penalty, tolerance
        As in :class:`PrunedForestClassifier`.
    X_train, y_train : (m, d) and (m,), default=None
        The rows that the forest was trained on, in their order; for a forest of this library, without those that ``fit`` held
        out. Errors of nodes are counted on out-of-bag rows, or on all rows if the forest does not remember its samples. Costs
        are measured on them and ``X_val`` together, and ``refit`` needs them. None: use the errors that the forest stores, and
        ``X_val, y_val``.
    sample_weight : (n,), default=None
        Weights of the held-out rows.
    method, vote, out_of_bag, refit, evaluation_cost, max_stages, meter, n_jobs, verbose
        As in :class:`PrunedForestClassifier`.

    Returns
    -------
    PrunedForestClassifier or PrunedForestRegressor
        Without ``mean_budget``, ``cost_penalty`` and ``tolerance``, its last stage predicts the same as ``forest``. Its
        ``estimator`` is a clone of ``forest``, if that can be refitted.

    Raises
    ------
    ValueError
        If the trees are boosted, so that each corrects those before it.

    See Also
    --------
    PrunedForestClassifier : Trains and prunes in one fit.
    make_anytime : Keeps the full prediction and changes the order of trees.
    BudgetForestClassifier : Grows a forest for a budget.

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
    settings = locals()
    options = {name: settings[name] for name in PrunedForestRegressor._get_param_names() if name in settings}
    statistics = _statistics(forest, (X_val, y_val, sample_weight), X_train, y_train, out_of_bag, tolerance)
    rungs: list[Any] = [(statistics, None)]
    made: PrunedForestClassifier | PrunedForestRegressor
    if statistics.classes is not None:
        made = PrunedForestClassifier(to_fit_again(forest, rungs), vote=vote, **options)
    else:
        if vote != "mean":
            raise ValueError("vote is for classification; regression averages the trees")
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
        raise ValueError("give X_train and y_train together: training rows and their labels")
    counts_held = held[1] is not None and tolerance is None  # what judges prunings does not choose them
    if not keeps_errors(forest) and X_train is None:
        if not counts_held:
            needed = (
                "y_val, or" if tolerance is None else "besides the rows that tolerance compares prunings on"
            )
            raise ValueError(
                f"this {type(forest).__name__} stores no training errors at its nodes: pass {needed} X_train and y_train, to "
                "count them"
            )
        return node_statistics(forest, *held)  # of rows that no tree was grown from
    statistics = node_statistics(forest, *(() if keeps_errors(forest) else (X_train, y_train)))
    seen = None if X_train is None else grown_from(forest)
    if seen is not None and len(seen[0]) != len(X_train):
        raise ValueError(
            f"X_train has {len(X_train)} rows, but the trees were grown from {len(seen[0])}: pass those, or leave X_train out"
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
            f"X_train differs from the rows that the trees were grown from, or is in another order: {empty} of {leaves.size} "
            "leaves are reached by none of the rows that their tree was grown from"
        )
