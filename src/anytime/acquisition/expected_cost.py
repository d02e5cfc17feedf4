"""The estimators: buy while it pays in expectation, then give the answer with the lowest expected cost."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from anytime._compat import Interval
from anytime.acquisition.purchase_block import FINISHED, UNDECIDED
from anytime.acquisition.purchase_values import PricesOfMoney, ValueLearner
from anytime.acquisition.rowwise import RowwiseModel
from anytime.acquisition.value_block import AnswerInputs, PurchaseValueBlock, expected_losses
from anytime.advice import Offer, offer_of
from anytime.blocks import Memory
from anytime.bounded_runs import Budget
from anytime.costs import UNLIMITED
from anytime.engine import Run
from anytime.faces import ClassifierFace
from anytime.forest_run import ForestRun
from anytime.parameters import declared, store
from anytime.plan import Array, Plan
from anytime.rows import Rows, warn_of_absent
from anytime.trees.clock import Clock

__all__ = ["AlgorithmSelector", "ExpectedCostClassifier"]

_MOST_ROWS = 40_000  # that are learned from; of more, a sample
# Rows of a batch go by the price of money for this share of its mean budget first: they may want more than those of training
_THRIFT = 0.95


class _ExpectedCostModel(RowwiseModel):
    """What both estimators share."""

    cost_penalty: float
    n_estimators: int
    min_samples_leaf: int
    max_sets: int
    time_budget: float | None
    random_state: Any
    verbose: int
    accuracy: float | None = None  # of classifiers
    # by which the worth of going on is judged: the fewest rows in a leaf, and how many leaves at most
    _value_leaves = 10, 200
    _block_type = PurchaseValueBlock

    money_: PricesOfMoney

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "max_sets": [Interval(Integral, 1, 4096, closed="both")]
    }

    # ------------------------------------------------------------------ learning

    def _learn(
        self,
        clock: Clock,
        numbers: Array,
        target: Array,
        losses: Array,
        inputs: AnswerInputs,
        row_prices: ArrayLike | None,
        **answering: Any,
    ) -> None:
        """Work out what purchases are worth, and keep it as a plan.

        Parameters
        ----------
        target : (n, A)
            Indicators of the classes, or losses of the options.
        losses : (n, A)
            What each answer would cost each row.
        answering
            What makes answers of targets: settings of the block, and of ``expected_losses``.
        """
        costs, random = self._bound_costs(), check_random_state(self.random_state)

        def expected(means: Array, owned: NDArray[np.bool_]) -> Array:
            return expected_losses(means, owned, **answering)

        paid = costs.prices_of_rows(row_prices, len(numbers))
        if len(numbers) > _MOST_ROWS:
            kept = np.sort(random.permutation(len(numbers))[:_MOST_ROWS])
            numbers, target, losses, paid = numbers[kept], target[kept], losses[kept], paid[kept]
        learner = ValueLearner(
            inputs.matrix(numbers),
            inputs.groups(costs.column_group, costs.n_groups),
            target,
            lambda owned: expected(losses, owned) if answering.get("of_options") else losses,
            expected,
            costs,
            paid,
            n_trees=self.n_estimators,
            min_samples_leaf=self.min_samples_leaf,
            value_leaves=self._value_leaves,
            most_sets=self.max_sets,
            random=random,
            clock=clock,
        )
        told = ~np.isnan(numbers).all(axis=0) & (numbers != numbers[:1]).any(axis=0)
        candidates = np.unique(costs.column_group[told]).astype(np.intp)
        if (needed := answering.get("option_groups")) is not None:
            candidates = np.union1d(candidates, needed[needed >= 0])
        learned = learner.learn(candidates, float(self.cost_penalty))
        block = PurchaseValueBlock.of(learned, inputs, costs, width=target.shape[1], **answering)
        self.money_ = learned.money
        block = block.with_penalty(self._own_penalty())
        base = block.score(numbers[:1], np.zeros(1, dtype=np.int32))[0]
        link = "least_cost" if answering.get("of_options") else "softmax"
        self.plan_ = self._plan_of(block, base, link=link, cost_matrix=answering.get("cost_matrix"))

    def _own_penalty(self) -> float:
        """The price of money of rows that come one by one: as given, or the one that keeps the mean, or the accuracy."""
        wanted = [self.cost_penalty]
        if self.mean_budget is not None:
            wanted.append(self.money_.for_mean_cost(float(self.mean_budget)))
        elif self.accuracy is not None:
            wanted.append(self.money_.for_mean_loss(1.0 - self.accuracy))
        return max(wanted)

    # ------------------------------------------------------------------ bounds

    @property
    def _bounds_of_single_rows(self) -> tuple[Budget, float | None]:
        """The model's own mean is kept on average, by the price of money."""
        return self.budget, None

    def _begin_spending(self, memory: Memory, mean: int) -> None:
        thrifty = self.money_.for_mean_cost(_THRIFT * self.costs_.amount(mean))
        memory["penalty"][:] = max(self.cost_penalty, thrifty)

    def _run_plan(self, rows: Rows, *bounds: Any, metered: bool = False) -> Run | ForestRun:
        run = super()._run_plan(rows, *bounds, metered=metered)
        # rows never choose what they lack, so the run does not miss it
        if rows.held is not None and self._block and not rows.held[..., self._block.everything].all():
            warn_of_absent(rows)
        return run

    def _relax(self, memory: Memory) -> bool:
        """Lower the price of money, where rows want nothing more at this one."""
        penalty = float(memory["penalty"][0])
        lower = max(self.money_.below(penalty), self.cost_penalty)
        if lower >= penalty:
            return False
        memory["penalty"][:] = lower
        memory["next"][memory["next"] == FINISHED] = UNDECIDED
        return True

    def truncate(self, budget: float | None = None, *, mean_budget: float | None = None) -> Self:
        """A model of its own that never spends more than ``budget`` on a row, and ``mean_budget`` on average.

        Rows that come one by one, to a session or a server, go by a price of money learned in training: an estimate of the mean,
        which many alike rows may miss in either direction.
        """
        check_is_fitted(self, "plan_")
        if mean_budget is None:
            return super().truncate(budget)
        self._ticks("mean_budget", mean_budget)
        smaller = self if budget is None else super().truncate(budget)
        smaller = copy.copy(smaller)
        penalty = max(self.cost_penalty, self.money_.for_mean_cost(float(mean_budget)))
        blocks = [block.with_penalty(penalty) for block in smaller.plan_.blocks]  # type: ignore[attr-defined]
        smaller.plan_ = replace(smaller.plan_, blocks=blocks)
        smaller.mean_budget, smaller.cost_penalty = None, penalty
        return smaller

    def _offers(self, plan: Plan, X: Array, owned: NDArray[np.bool_], cap: int) -> Sequence[Offer]:
        if (block := self._block) is None:
            return ()
        memory, s = block.remember(1), block.set_of(owned)
        extra = int(owned @ block.costs.prices) - int(block.sets[s] @ block.costs.prices)
        memory["set"][0], memory["cap"][0] = s, cap if cap == UNLIMITED else cap - extra
        block.choose(X, memory)
        chosen = int(memory["next"][0])
        affordable = (block.sets[block.after[s]] & ~owned) @ block.costs.prices <= cap - int(
            owned @ block.costs.prices
        )
        if chosen < 0 or not affordable[block.after[s] == chosen].all():
            return ()
        ended, _ = block.worth(s, X)
        place = {int(t): i for i, t in enumerate(block.larger[s])}
        offers = []
        for t in block.after[s][affordable]:
            new = block.sets[t] & ~owned
            # the group that needs the others stands for them
            group = int(
                max(
                    np.flatnonzero(block.sets[t] & ~block.sets[s]),
                    key=lambda g: len(block.costs.table.closure(int(g))),
                )
            )
            if not new.any():
                continue
            gain = float(ended[0, place[s]] - ended[0, place[int(t)]])
            offers.append((int(t) != chosen, -gain, offer_of(plan, group, owned, gain=gain, change=None)))
        return [offer for *_, offer in sorted(offers, key=lambda entry: entry[:2])]

    # ------------------------------------------------------------------ files and conventions

    def _file_state(self) -> dict[str, Any]:
        return {**super()._file_state(), "money": np.stack(self.money_)}

    def _restore_file_state(self, state: Any) -> None:
        super()._restore_file_state(state)
        money = np.asarray(state["money"], dtype=np.float64)
        if money.ndim != 2 or len(money) != 3 or not money.size or not np.isfinite(money).all():
            raise ValueError("the exchange rates between money and errors do not fit together")
        self.money_ = PricesOfMoney(*money)


@declared()
class ExpectedCostClassifier(ClassifierFace, _ExpectedCostModel):
    """Buy while it pays in expectation, then answer with the label that has the lowest expected cost.

    For few groups, such as paid services, each with an answer and a score: the method considers all sets that a row may own. The
    value of a purchase is computed by backward induction, from all groups to none, for many exchange rates between money and
    loss: a cheap answer is worth more if it reveals which rows need an expensive one. A budget may be a cap or a mean, and
    mistakes may have different costs.

    Categorical columns that name labels are treated as answers: forests learn which class each names, and which agree.

    Parameters
    ----------
    mean_budget : float, default=None
        No batch pays more. Single rows use an exchange rate between money and loss, so they pay about the mean only if
        they differ: of similar rows, all buy or none does.
    accuracy : float, default=None
        Required share of right answers when ``predict`` is given no bound, at the lowest mean price that reached it on training
        rows. None: as many as possible. With a cost matrix, one minus the mean cost of the answers. Not with ``mean_budget``.
    cost_matrix : (C, C), default=None
        The cost of answering the second class if the first is true, in the order of ``classes_``. None: 1 for every wrong answer.
    class_weight : dict, "balanced" or None, default=None
        The cost of mistakes on rows of a class is multiplied by its weight.
    cost_penalty : float, default=0
        0: rows buy as long as the budget lasts. 1: prices and costs of answers are in the same unit.
    n_estimators : int, default=40
        Here per set of groups.
    max_sets : int, default=32
        Maximum number of sets of groups considered. Beyond it, only sets one purchase away from a chain are considered.
    time_budget : float, default=None
        Forests then have fewer trees, and fewer rows estimate the value of further purchases. Ctrl-C leaves the model
        as it was.
    meter : {"realised", "model"}, default="realised"
        By the latter the first purchase costs as much as everything.

    Attributes
    ----------
    plan_ : Plan
        A stage for each purchase.
    money_ : PricesOfMoney
        Exchange rates between money and loss, with the out-of-bag cost and loss of training rows for each.
    order_ : list of str
        Groups of the plan. Purchases differ from row to row, so the order has no meaning.

    See Also
    --------
    AcquisitionClassifier : For many groups.
    cascade : For services that answer requests.
    AlgorithmSelector : For the choice of an algorithm.

    Notes
    -----
    With more than 40,000 training rows, a sample of that size is used. A cost matrix and class weights change answers and
    purchases but not probabilities, so the answer need not be the most likely class.

    Examples
    --------
    >>> import anytime as at
    >>> X, y, costs = at.datasets.load("heart")
    >>> model = at.ExpectedCostClassifier(costs=costs, max_sets=16, random_state=0).fit(X, y)
    >>> bool(model.cost(X, mean_budget=20).mean() <= 20), bool(model.cost(X, budget=20).max() <= 20)
    (True, True)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **_ExpectedCostModel._parameter_constraints,
        "accuracy": [Interval(Real, 0, 1, closed="both"), None],
        "cost_matrix": ["array-like", None],
    }

    def __init__(
        self,
        *,
        costs: Any = None,
        budget: float | None = None,
        mean_budget: float | None = None,
        accuracy: float | None = None,
        cost_matrix: ArrayLike | None = None,
        class_weight: dict[Any, float] | str | None = None,
        cost_penalty: float = 0.0,
        n_estimators: int = 40,
        min_samples_leaf: int = 5,
        max_sets: int = 32,
        categorical_features: Any = "from_dtype",
        time_budget: float | None = None,
        meter: str = "realised",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        store(self, locals())

    def _validate_params(self) -> None:
        super()._validate_params()
        if self.mean_budget is not None and self.accuracy is not None:
            raise ValueError("give mean_budget or accuracy, not both: each sets the exchange rate")

    def fit(self, X: Any, y: Any, *, row_prices: ArrayLike | None = None) -> Self:
        """Learn the values of purchases. If the fit fails, the model stays as it was.

        Parameters
        ----------
        X : (n, d)
            Numbers, with NaN for missing values; columns of a table may be categories.
        y : (n,)
            The true labels.
        row_prices : (n, G), default=None
            Prices of the groups for these rows, one column per group in the order of ``costs``. None: the same for all.
        """
        self._validate_params()
        clock = Clock(self.time_budget, int(self.verbose))
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        trained = copy.copy(self)
        numbers, y = trained._read_rows(X, y)
        labels = column_or_1d(y, warn=True)
        check_classification_targets(labels)
        trained.classes_, place = np.unique(labels, return_inverse=True)
        n_classes = len(trained.classes_)
        if n_classes < 2:
            raise ValueError("y has only one class; a classifier needs at least 2 classes")
        matrix = None if self.cost_matrix is None else _checked_matrix(self.cost_matrix, n_classes)
        if self.class_weight is not None:
            weight = compute_class_weight(self.class_weight, classes=trained.classes_, y=labels)
            matrix = weight[:, None] * (1.0 - np.eye(n_classes) if matrix is None else matrix)
        losses = (1.0 - np.eye(n_classes) if matrix is None else matrix)[place]
        inputs = AnswerInputs.of(trained.columns_.categories, trained.classes_, numbers.shape[1])
        trained._learn(
            clock, numbers, np.eye(n_classes)[place], losses, inputs, row_prices, cost_matrix=matrix
        )
        self.__dict__ = trained.__dict__
        return self

    @property
    def _trained_cost_matrix(self) -> Array | None:  # type: ignore[override]
        check_is_fitted(self, "plan_")
        return self.plan_.cost_matrix


@declared(like=ExpectedCostClassifier)
class AlgorithmSelector(ClassifierFace, _ExpectedCostModel):
    """Choose one of several algorithms for each row, and buy features that predict which one while they pay.

    It learns from the cost of each algorithm on each training row, such as its seconds; give time-outs the cost they count as
    (PAR10: ten times the limit). Features are priced in the same unit, and the sum of both costs is minimised. Prices of features
    may differ from row to row. It is :class:`ExpectedCostClassifier` with costs of labels for every row.

    Parameters
    ----------
    cost_penalty : float, default=1
        1: prices of features and costs of algorithms are in the same unit.
    option_groups : mapping from str to str, default=None
        Options that require a group, such as the answers of paid services. None: all options are always available.

    Attributes
    ----------
    classes_ : (A,)
        The options: names of the columns of y, or their numbers.
    plan_ : Plan
        A stage for each purchase.
    money_ : PricesOfMoney
        As in :class:`ExpectedCostClassifier`.

    See Also
    --------
    ExpectedCostClassifier : The same planning for labels.
    cascade : Paid services in place of algorithms.

    Notes
    -----
    Options have expected costs and no probabilities: ``predict_proba`` is 1 for the chosen option and 0 for the others.

    Examples
    --------
    >>> import anytime as at, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> size = rng.uniform(size=200)
    >>> seconds = np.column_stack([1 + 9 * size, np.full(200, 4.0)])  # the first is quick on small problems
    >>> model = at.AlgorithmSelector(costs=[0.1], n_estimators=20, random_state=0).fit(size[:, None], seconds)
    >>> model.predict([[0.05], [0.9]]).tolist(), model.cost([[0.05], [0.9]]).tolist()
    ([0, 1], [0.1, 0.1])
    """

    # costs differ more than right and wrong do: a time-out may count as thousands of seconds
    _value_leaves = 30, 20

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **_ExpectedCostModel._parameter_constraints,
        "option_groups": [dict, None],
    }

    def __init__(
        self,
        *,
        costs: Any = None,
        budget: float | None = None,
        mean_budget: float | None = None,
        cost_penalty: float = 1.0,
        option_groups: dict[Any, str] | None = None,
        n_estimators: int = 100,
        min_samples_leaf: int = 5,
        max_sets: int = 32,
        categorical_features: Any = "from_dtype",
        time_budget: float | None = None,
        meter: str = "realised",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        store(self, locals())

    def fit(self, X: Any, y: Any, *, row_prices: ArrayLike | None = None) -> Self:
        """Learn the values of purchases. If the fit fails, the model stays as it was.

        Parameters
        ----------
        X : (n, d)
            Numbers, with NaN for missing values; columns of a table may be categories.
        y : (n, A)
            The cost of each option for each row: a table with a column per option, or an array. Labels, (n,), stand for a cost of
            1 for every other label.
        row_prices : (n, G), default=None
            Prices of the groups for these rows, one column per group in the order of ``costs``. None: the same for all.
        """
        self._validate_params()
        clock = Clock(self.time_budget, int(self.verbose))
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        trained = copy.copy(self)
        names = getattr(y, "columns", None)
        numbers, y = trained._read_rows(X, y)
        targets = np.asarray(y)
        if targets.ndim == 1 or targets.shape[1] == 1:
            labels = column_or_1d(targets, warn=True)
            check_classification_targets(labels)
            trained.classes_, place = np.unique(labels, return_inverse=True)
            losses = 1.0 - np.eye(len(trained.classes_))[place]
        else:
            losses = targets.astype(np.float64)
            trained.classes_ = np.arange(losses.shape[1]) if names is None else np.array(list(names))
        if losses.shape[1] < 2:
            raise ValueError("y has only one class or option; a choice needs at least 2")
        if not np.isfinite(losses).all():
            raise ValueError(
                "y has costs that are not finite; replace a time-out by the cost it counts as, such as ten times the limit"
            )
        inputs = AnswerInputs.of({}, trained.classes_, numbers.shape[1])
        settings: dict[str, Any] = {"of_options": True}
        if self.option_groups is not None:
            settings |= {"option_groups": trained._places_of_groups(), "unanswered": float(losses.max())}
        trained._learn(clock, numbers, losses, losses, inputs, row_prices, **settings)
        self.__dict__ = trained.__dict__
        return self

    def _places_of_groups(self) -> NDArray[np.int32]:
        """(A,) the group of each option, -1 for none."""
        names, options = list(self._bound_costs().costs.names), self.classes_.tolist()
        places = np.full(len(options), -1, dtype=np.int32)
        for option, group in (self.option_groups or {}).items():
            if option not in options or group not in names:
                raise ValueError(
                    f"option_groups says that {option!r} needs the group {group!r}; options are {options}, groups are {names}"
                )
            places[options.index(option)] = names.index(group)
        return places

    def expected_costs(
        self,
        X: ArrayLike,
        budget: Budget = None,
        deadline: float | None = None,
        *,
        mean_budget: float | None = None,
    ) -> Array:
        """(n, A) expected cost of each option, given what was bought. See ``answer`` for the parameters."""
        return -self._scores(X, budget, deadline, mean_budget)

    def predict(  # type: ignore[override]  # costs of options are learned, so no matrix can be given
        self,
        X: ArrayLike,
        budget: Budget = None,
        deadline: float | None = None,
        *,
        mean_budget: float | None = None,
    ) -> Any:
        """The option with the lowest expected cost, (n,). See ``answer`` for the parameters."""
        return super().predict(X, budget, deadline, mean_budget=mean_budget)


def _checked_matrix(cost_matrix: ArrayLike, n_classes: int) -> Array:
    matrix = np.asarray(cost_matrix, dtype=np.float64)
    if matrix.shape != (n_classes, n_classes) or not np.isfinite(matrix).all():
        raise ValueError(
            f"cost_matrix must hold {n_classes} x {n_classes} finite numbers, one row per true class; its shape is {matrix.shape}"
        )
    return np.ascontiguousarray(matrix)
