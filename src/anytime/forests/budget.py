"""Trees and forests grown for a budget: the average row pays no more than it."""

from __future__ import annotations

from typing import Any, ClassVar

from anytime._compat import StrOptions
from anytime.forests.kinds import Classes, Numbers, SingleTree
from anytime.parameters import declared, without

_OF_FORESTS = ("n_estimators", "bootstrap", "warm_start")


@declared()
class BudgetForestClassifier(Classes):
    """A forest grown until the average row would pay more than the budget (BudgetRF).

    Each tree splits where impurity falls most per unit of price in the worst outcome, so that the dearest path stays near the
    cheapest possible. Trees are added as long as validation rows, which pay for a group once however many trees use it, stay
    within the budget on average. Nan, Wang and Saligrama, *Feature-Budgeted Random Forest* (ICML 2015).

    The plan begins with one tree, level by level, so that small budgets have an answer; then tree after tree joins.
    ``predict(X, mean_budget=b)`` stops where the average row has paid ``b``, ``predict(X, budget=b)`` each row where it has.

    With "auto", a forest is grown for each of up to 20 settings, and given up after an eighth, a quarter or a half of its trees
    where another is clearly better, by three standard errors. Of those whose error is within one of the least, the one of least
    loss is taken. Name ``alpha`` and ``cost_weighted`` to grow one forest only.

    Parameters
    ----------
    mean_budget : float, default=None
        What rows may pay on average in a prediction that names no bound. None: no limit. Trees are grown up to it.
    n_estimators : int, default=100
        Number of trees or learners in the ensemble. Fewer where ``mean_budget`` or time ends growing.
    impurity : {"pairs", "powers", "entropy", "gini"} or Impurity, default="pairs"
        Of ``anytime.forests.impurity``.
    alpha : float or "auto", default="auto"
        Threshold of Pairs: a leaf is forgiven about so many rows of other classes. Small: few deep trees; large: many shallow
        ones. "auto": the best of ``alphas`` on validation rows. Only with ``impurity="pairs"``.
    alphas : sequence of float, default=(0, 2, 4, 8, 15, 30, 60, 120)
    split : {"minimax", "expected"}, default="minimax"
        Whether a test is judged by its worst outcome or by the mean of its outcomes.
    tests : {"stumps", "multiway"}, default="stumps"
        Two outcomes, or one for each value (bin).
    search : {"exhaustive", "random"}, default="random"
        Which thresholds are tried: all, or 20 to 80 random ones per column and node, which makes trees differ more.
    max_features : int, float, "sqrt", "log2" or None, default=None
        Random columns tried at a node. None: all.
    min_impurity : float, default=0.0
        A node with no more impurity is a leaf.
    discount_reused : bool, default=False
        Whether a split on what its path has paid for already counts as free.
    bootstrap : bool, default=True
        Whether each tree learns from its own draw of the rows.
    cost_weighted : bool, float from 0 to 1, or "auto", default="auto"
        How much prices count in a split: True as they are, False not at all, and between to this power. "auto": the best of 1,
        0.2, 0.1, 0.05 and 0 on validation rows. False, ``impurity="gini"``, ``split="expected"`` and ``max_features="sqrt"``
        are the ordinary random forest, stopped at a budget.
    vote : {"probability", "majority", "counts"}, default="probability"
        What is averaged over trees: shares of classes in leaves, their majority, or their counts.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes. "balanced": inversely proportional to how often they occur. None: 1 each. They count in growing
        and in errors, not in what rows pay on average.
    validation_fraction : float or None, default=0.2
        Share of the training rows held out to decide on. None: none are. Then costs are those of the training rows, nothing is
        chosen, and trees stand as grown.
    categorical_features : "from_dtype", list of columns or None, default="from_dtype"
        Columns that hold categories. "from_dtype": those of a table that are no numbers. Columns of an array that are named here
        hold whole numbers from 0 on.
    time_budget : float, default=None
        Seconds that ``fit`` may take. None: no limit. The forest has the trees that were grown by then.
    warm_start : bool, default=False
        Whether ``fit`` goes on from the fitted model. The rows have to be the same: more ``n_estimators``, a larger
        ``mean_budget`` or more time then add trees. The setting stays the one chosen first. Also after ``anytime.load``, where
        the trees are grown again with that setting.
    verbose : int, default=0
        Whether progress is printed. Ctrl-C ends training with the trees grown so far.

    Attributes
    ----------
    plan_ : Plan
        ``plan_.expected_costs`` is what validation rows pay on average after each stage.
    expected_cost_ : float
        And after the last.
    alpha_ : float or None
        The threshold used; None with another impurity.
    setting_ : Setting
        The threshold, and how much prices counted.
    trials_ : list of SettingTrial
        What each setting came to. Not after ``load``.
    trees_ : list of ClassTree
        In the order of the plan. Empty where not even the first was within the budget: then the plan has the levels of it that
        are. Not after ``truncate`` or ``load``.

    See Also
    --------
    BudgetTreeClassifier : A single tree, with what is proved of it.

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
    """A tree whose dearest path is near the cheapest possible (GreedyTree), readable at every cost.

    The test chosen is the one whose worst outcome lowers the impurity most per unit of price. With exhaustive search, the dearest
    path costs at most ``1 + ln(F(S) / F_min)`` times that of the best tree that tells the classes apart; ``guarantee_`` says how
    much it is for this tree. Levels of the tree, cut where paths become dearer, are the stages of the plan.

    Parameters
    ----------
    mean_budget : float, default=None
        What rows may pay on average in a prediction that names no bound. None: no limit. The tree is cut where its levels exceed
        it.

    Attributes
    ----------
    max_cost_ : float
        The cost of the dearest path: what no row ever exceeds.
    guarantee_ : TreeGuarantee or None
        How far that is from the best possible, on the rows it was grown on. None where nothing is proved: another
        ``split``, ``search`` or impurity, some columns only, leaves of several rows, stumps of three categories or more.
    expected_cost_, alpha_, setting_, trials_, trees_
        As in :class:`BudgetForestClassifier`.

    See Also
    --------
    BudgetForestClassifier : Many of them, up to a budget.

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
    It is admissible, so that what is proved of trees for classes holds of these.

    Parameters
    ----------
    impurity : {"pairs", "squared_error"} or Impurity, default="pairs"
        "squared_error" with ``split="expected"``, ``cost_weighted=False`` is the ordinary random forest.
    min_samples_leaf : int or "auto", default="auto"
        The fewest training rows in a leaf. Small: few deep trees; large: many shallow ones. "auto": the best of ``leaf_sizes`` on
        validation rows.
    leaf_sizes : sequence of int, default=(1, 5, 15, 50)

    Attributes
    ----------
    min_samples_leaf_ : int
        The fewest rows of a leaf that was used.
    expected_cost_, setting_, trials_, trees_
        As in :class:`BudgetForestClassifier`.

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
    """A tree whose dearest path is near the cheapest possible, readable at every cost.

    Parameters
    ----------
    min_samples_leaf : int or "auto", default="auto"
        The fewest training rows in a leaf. "auto": the best of ``leaf_sizes`` on validation rows.

    Attributes
    ----------
    max_cost_, guarantee_
        As in :class:`BudgetTreeClassifier`; the guarantee is what the run says, as the least impurity above 0 is not known.
    expected_cost_, min_samples_leaf_, setting_, trials_, trees_
        As in :class:`BudgetForestRegressor`.

    Examples
    --------
    >>> import anytime as at
    >>> X, y, costs = at.datasets.load("diabetes")
    >>> tree = at.BudgetTreeRegressor(costs=costs, budget=10, random_state=0).fit(X, y)
    >>> tree.expected_cost_ <= 10, bool(tree.score(X, y) > 0.2)
    (True, True)
    """
