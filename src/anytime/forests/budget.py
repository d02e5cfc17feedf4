"""Trees and forests grown for a mean budget."""

from typing import Any, ClassVar

from anytime._compat import StrOptions
from anytime.forests.kinds import Classes, Numbers, SingleTree
from anytime.parameters import declared, without

_OF_FORESTS = ("n_estimators", "bootstrap", "warm_start")


@declared()
class BudgetForestClassifier(Classes):
    """A forest grown until the average row would pay more than the budget (BudgetRF).

    Each split is the one that lowers the impurity of the worst child most per unit of price, so that the most expensive path
    stays close to the cheapest possible. Trees are added as long as the mean cost of validation rows, which pay for a group once
    however many trees use it, stays within the budget. Nan, Wang and Saligrama, *Feature-Budgeted Random Forest* (ICML 2015).

    The plan starts with the levels of one tree, so that small budgets have an answer, and then adds tree after tree.
    ``predict(X, mean_budget=b)`` stops when rows have paid ``b`` on average, ``predict(X, budget=b)`` stops each row at ``b``.

    With "auto", a forest is grown for each of up to 20 settings, and abandoned after an eighth, a quarter or a half of its trees
    if another is clearly better, by three standard errors. Of the settings within one standard error of the lowest error, the one
    with the lowest loss is kept. Set ``alpha`` and ``cost_weighted`` to grow a single forest.

    Parameters
    ----------
    mean_budget : float, default=None
        Trees are grown up to it.
    n_estimators : int, default=100
        Fewer if ``mean_budget`` or the time is used up.
    impurity : {"pairs", "powers", "entropy", "gini"} or Impurity, default="pairs"
        See ``anytime.forests.impurity``.
    alpha : float or "auto", default="auto"
        Threshold of Pairs: about this many rows of other classes are tolerated in a leaf. Small: few deep trees; large: many
        shallow ones. "auto": the best of ``alphas`` on validation rows. Only with ``impurity="pairs"``.
    alphas : sequence of float, default=(0, 2, 4, 8, 15, 30, 60, 120)
        Thresholds that ``alpha="auto"`` tries.
    split : {"minimax", "expected"}, default="minimax"
        Whether a test is rated by its worst outcome or by the mean over its outcomes.
    tests : {"stumps", "multiway"}, default="stumps"
        Two outcomes, or one for each value (bin).
    search : {"exhaustive", "random"}, default="random"
        Which thresholds are tried: all, or 20 to 80 random ones per column and node, which makes trees differ more.
    max_features : int, float, "sqrt", "log2" or None, default=None
        Number of random columns tried at a node. None: all.
    min_impurity : float, default=0.0
        A node whose impurity does not exceed this is a leaf.
    discount_reused : bool, default=False
        Whether a split on a group that its path has already paid for counts as free.
    bootstrap : bool, default=True
        Whether each tree is grown from its own bootstrap sample of the rows.
    cost_weighted : bool, float from 0 to 1, or "auto", default="auto"
        How much prices count in a split: True fully, False not at all, a number raises them to this power. "auto": the best of 1,
        0.2, 0.1, 0.05 and 0 on validation rows. False, ``impurity="gini"``, ``split="expected"`` and ``max_features="sqrt"``
        are the ordinary random forest, stopped at a budget.
    vote : {"probability", "majority", "counts"}, default="probability"
        What is averaged over trees: class frequencies of leaves, their majority class, or their counts.
    class_weight : dict, "balanced" or None, default=None
        They apply to growing and to errors, not to the mean cost of rows.
    validation_fraction : float or None, default=0.2
        Then costs are those of the training rows, nothing is chosen, and trees keep the order of growing.
    categorical_features : "from_dtype", list of columns or None, default="from_dtype"
        In an array, columns listed here hold whole numbers from 0 on.
    time_budget : float, default=None
        The forest has the trees grown by then.
    warm_start : bool, default=False
        The rows have to be the same: a larger ``n_estimators`` or ``mean_budget``, or more time, then add trees. The
        setting chosen first stays. After ``anytime.load``, the trees are grown again with that setting.
    verbose : int, default=0
        Ctrl-C ends training with the trees grown so far.

    Attributes
    ----------
    plan_ : Plan
        ``plan_.expected_costs`` is the mean cost of validation rows after each stage.
    expected_cost_ : float
        The mean cost of validation rows after the last stage.
    alpha_ : float or None
        The threshold used; None with another impurity.
    setting_ : Setting
        The threshold and weight of prices that were used.
    trials_ : list of SettingTrial
        Results of each setting; missing after ``load``.
    trees_ : list of ClassTree
        In the order of the plan. Empty if not even the first was within the budget: then the plan has those of its levels that
        are. Missing after ``truncate`` or ``load``.

    See Also
    --------
    prune_forest : Prunes a fitted forest to a budget.
    GradientBoostingClassifier : Boosted trees with a price on cost.
    BudgetTreeClassifier : A single tree, with a guarantee.

    Examples
    --------
    >>> import anytime as at
    >>> X, y, costs = at.datasets.load("breast_cancer")
    >>> model = at.BudgetForestClassifier(costs=costs, mean_budget=20, n_estimators=20, random_state=0).fit(X, y)
    >>> model.expected_cost_ <= 20, bool(model.cost(X, mean_budget=10).mean() < 12)
    (True, True)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **Classes._parameter_constraints,
        "bootstrap": ["boolean"],
        "vote": [StrOptions({"probability", "majority", "counts"})],
    }


@declared(like=BudgetForestClassifier)
@without(*_OF_FORESTS, "vote", alpha=0.0, search="exhaustive", cost_weighted=True)
class BudgetTreeClassifier(SingleTree, Classes):
    """A tree whose most expensive path is close to the cheapest possible (GreedyTree), with an answer at every cost.

    Each test is the one whose worst outcome lowers the impurity most per unit of price. With exhaustive search, the most
    expensive path costs at most ``1 + ln(F(S) / F_min)`` times that of the best tree that separates the classes; ``guarantee_``
    has the factor for this tree. The levels of the tree, cut where paths become more expensive, are the stages of the plan.

    Parameters
    ----------
    mean_budget : float, default=None
        The tree is cut where its levels exceed it.

    Attributes
    ----------
    max_cost_ : float
        The cost of the most expensive path, which no row exceeds.
    guarantee_ : TreeGuarantee or None
        How far that is from the best possible, on the rows it was grown from. None if nothing is proved: for another
        ``split``, ``search`` or impurity, random columns, leaves of several rows, or stumps on three or more categories.
    expected_cost_, alpha_, setting_, trials_, trees_
        As in :class:`BudgetForestClassifier`.

    See Also
    --------
    BudgetForestClassifier : Many such trees, up to a budget.

    Examples
    --------
    >>> import anytime as at
    >>> X, y, costs = at.datasets.load("wine")
    >>> tree = at.BudgetTreeClassifier(costs=costs, random_state=0).fit(X, y)
    >>> bool(tree.cost(X).max() <= tree.max_cost_), tree.guarantee_.ratio <= tree.guarantee_.bound
    (True, True)
    """


@declared(like=BudgetForestClassifier)
class BudgetForestRegressor(Numbers):
    """A forest grown until the average row would pay more than the budget.

    As :class:`BudgetForestClassifier`; the impurity is the sum, over pairs of rows, of the squared difference of their targets.
    It is admissible, so the guarantee for classification trees holds for these, too.

    Parameters
    ----------
    impurity : {"pairs", "squared_error"} or Impurity, default="pairs"
        "squared_error" with ``split="expected"``, ``cost_weighted=False`` is the ordinary random forest.
    min_samples_leaf : int or "auto", default="auto"
        Small: few deep trees; large: many shallow ones. "auto": the best of ``leaf_sizes`` on validation rows.
    leaf_sizes : sequence of int, default=(1, 5, 15, 50)
        Minima that ``min_samples_leaf="auto"`` tries.

    Attributes
    ----------
    min_samples_leaf_ : int
        The minimum that was used.
    expected_cost_, setting_, trials_, trees_
        As in :class:`BudgetForestClassifier`.

    See Also
    --------
    BudgetForestClassifier : The same for classification.
    prune_forest : Prunes a fitted forest.

    Examples
    --------
    >>> import anytime as at
    >>> X, y, costs = at.datasets.load("diabetes")
    >>> model = at.BudgetForestRegressor(costs=costs, mean_budget=20, n_estimators=20, random_state=0).fit(X, y)
    >>> model.expected_cost_ <= 20, bool(model.score(X, y) > 0.4)
    (True, True)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **Numbers._parameter_constraints,
        "bootstrap": ["boolean"],
    }


@declared(like=BudgetForestRegressor)
@without(*_OF_FORESTS, search="exhaustive", cost_weighted=True)
class BudgetTreeRegressor(SingleTree, Numbers):
    """A tree whose most expensive path is close to the cheapest possible, with an answer at every cost.

    Parameters
    ----------
    min_samples_leaf : int or "auto", default="auto"
        "auto": the best of ``leaf_sizes`` on validation rows.

    Attributes
    ----------
    max_cost_, guarantee_
        As in :class:`BudgetTreeClassifier`; the guarantee is derived from the run, as the least impurity above 0 is unknown.
    expected_cost_, min_samples_leaf_, setting_, trials_, trees_
        As in :class:`BudgetForestRegressor`.

    See Also
    --------
    BudgetForestRegressor : A forest of such trees.

    Examples
    --------
    >>> import anytime as at
    >>> X, y, costs = at.datasets.load("diabetes")
    >>> tree = at.BudgetTreeRegressor(costs=costs, budget=10, random_state=0).fit(X, y)
    >>> tree.expected_cost_ <= 10, bool(tree.score(X, y) > 0.2)
    (True, True)
    """
