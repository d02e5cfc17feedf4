"""The estimators: buy while it pays in expectation, then give the answer that is expected to cost least."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from anytime._compat import Interval
from anytime.acquisition.margin_block import FINISHED, UNDECIDED
from anytime.acquisition.mean_spending import spend_mean
from anytime.acquisition.purchase_values import PricesOfMoney, learn_values
from anytime.acquisition.value_block import AnswerInputs, PurchaseValueBlock, expected_losses
from anytime.advice import Offer, offer_of
from anytime.blocks import Memory
from anytime.costs import UNLIMITED, BoundCosts
from anytime.engine import Run, Stop
from anytime.estimator import Budget, ClassifierFace, Reach
from anytime.forest_run import ForestRun
from anytime.parameters import shared, store
from anytime.plan import Array, Plan
from anytime.rows import Rows, warn_of_absent
from anytime.trees.clock import Clock
from anytime.trees.reading import ColumnModel

__all__ = ["AlgorithmSelector", "ExpectedCostClassifier"]

_MOST_ROWS = 40_000  # that are learned from; of more, a sample
# Rows of a batch go by the price of money for this share of its mean budget first: they may want more than those of training
_THRIFT = 0.95


class _ExpectedCostModel(ClassifierFace, ColumnModel):
    """What both estimators share."""

    cost_penalty: float
    n_estimators: int
    min_samples_leaf: int
    max_sets: int
    random_state: Any
    verbose: int
    accuracy: float | None = None  # of classifiers
    # by which the worth of going on is judged: the fewest rows in one, and how many at most
    _value_leaves = 10, 200

    money_: PricesOfMoney

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **shared("costs", "budget", "mean_budget", "meter", "cost_penalty", "n_estimators"),
        **shared("min_samples_leaf", "categorical_features", "random_state", "n_jobs", "verbose"),
        "max_sets": [Interval(Integral, 1, 4096, closed="both")],
    }

    # ------------------------------------------------------------------ learning

    def _learn(
        self,
        numbers: Array,
        target: Array,
        losses: Array,
        inputs: AnswerInputs,
        row_prices: ArrayLike | None,
        **settings: Any,
    ) -> None:
        """Work out what purchases are worth, and keep it as a plan.

        Parameters
        ----------
        target : (n, A)
            Indicators of the classes, or losses of the options.
        losses : (n, A)
            What each answer would cost each row.
        settings
            Of the block: what makes answers of targets.
        """
        clock, costs = Clock(None, int(self.verbose)), self._bound_costs()
        priced = None if row_prices is None else _checked_row_prices(row_prices, len(numbers), costs)
        expected = partial(
            expected_losses,
            cost_matrix=settings.get("cost_matrix"),
            of_options=settings.get("of_options", False),
            option_groups=settings.get("option_groups"),
            unanswered=settings.get("unanswered", 0.0),
        )
        random = check_random_state(self.random_state)
        if len(numbers) > _MOST_ROWS:
            kept = np.sort(random.permutation(len(numbers))[:_MOST_ROWS])
            numbers, target, losses = numbers[kept], target[kept], losses[kept]
            priced = None if priced is None else priced[kept]
        told = ~np.isnan(numbers).all(axis=0) & (numbers != numbers[:1]).any(axis=0)
        candidates = np.unique(costs.column_group[told]).astype(np.intp)
        if (needed := settings.get("option_groups")) is not None:
            candidates = np.union1d(candidates, needed[needed >= 0])
        learned = learn_values(
            inputs.matrix(numbers),
            inputs.groups(costs.column_group, costs.n_groups),
            target,
            lambda owned: expected(losses, owned) if settings.get("of_options") else losses,
            expected,
            costs,
            priced,
            candidates=candidates,
            n_trees=self.n_estimators,
            min_samples_leaf=self.min_samples_leaf,
            most_sets=self.max_sets,
            least_in_leaf=self._value_leaves[0],
            most_leaves=self._value_leaves[1],
            penalty=float(self.cost_penalty),
            random=random,
            tell=clock.tell,
        )
        block = PurchaseValueBlock.of(learned, inputs, costs, width=target.shape[1], **settings)
        self.money_ = learned.money
        block = block.with_penalty(self._own_penalty())
        simple = not settings.get("of_options") and settings.get("cost_matrix") is None
        base = block.score(numbers[:1], np.zeros(1, dtype=np.int32))[0]
        blocks = [block] if block.n_stages else []
        self.plan_ = Plan(
            blocks=blocks,
            costs=costs,
            base=base,
            link="softmax" if simple else "least_cost",
            replaces=np.ones(block.n_stages, dtype=bool),
        )

    def _own_penalty(self) -> float:
        """The price of money of rows that come one by one: as given, or the one that keeps the mean, or the accuracy."""
        wanted = [self.cost_penalty]
        if self.mean_budget is not None:
            wanted.append(self.money_.for_mean_cost(float(self.mean_budget)))
        elif self.accuracy is not None:
            wanted.append(self.money_.for_mean_loss(1.0 - self.accuracy))
        return max(wanted)

    # ------------------------------------------------------------------ bounds

    def _reach(self, budget: Budget, mean_budget: float | None = None) -> Reach:
        """A single row keeps to a mean of the call itself; the model's own mean it keeps on average, by the price of money."""
        if budget is None and mean_budget is None:
            return super()._reach(np.inf if self.budget is None else self.budget)
        if mean_budget is None:
            return super()._reach(budget)
        if np.ndim(mean_budget):
            raise ValueError("mean_budget is one number, for all rows together")
        self._ticks("mean_budget", mean_budget)
        return super()._reach(mean_budget if budget is None else np.minimum(budget, mean_budget))

    def _run_plan(
        self,
        rows: Rows,
        budget: Budget,
        mean_budget: float | None,
        due: float,
        stop: Stop | None = None,
        *,
        metered: bool = False,
    ) -> Run | ForestRun:
        if budget is None and mean_budget is None:
            budget, mean_budget = self.budget, self.mean_budget
        n, plan = len(rows.X), self.plan_
        if self.meter == "model" or np.ndim(mean_budget or 0.0) or not plan.n_stages:
            return super()._run_plan(rows, budget, mean_budget, due, stop, metered=metered)
        cap = UNLIMITED if budget is None else self._ticks("budget", budget)
        if np.shape(cap) not in ((), (n,)):
            raise ValueError(
                f"budget has shape {np.shape(cap)}, but X has {n} rows: give one number, or one per row"
            )
        cap = np.broadcast_to(cap, n)
        cap = np.minimum(cap, plan.limit_ticks).astype(np.int64)
        run = Run(plan, rows.X, metered=True, threads=self._threads(), held=rows.held)
        penalty = run.memory()["block 0 penalty"]
        if mean_budget is None:
            penalty[:] = self._block.cost_penalty
            run.advance(plan.n_stages, budget=cap, deadline=due, stop=stop)
        else:
            mean = min(int(self._ticks("mean_budget", mean_budget)), int(plan.stage_ticks[-1]))
            penalty[:] = max(self.cost_penalty, self.money_.for_mean_cost(_THRIFT * self.costs_.amount(mean)))
            spend_mean(run, mean * n, cap, due=due, stop=stop, relax=self._relax)
        if rows.held is not None and not rows.held[..., self._block.sets.any(axis=0)].all():
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
        blocks = [
            block.with_penalty(penalty)
            for block in smaller.plan_.blocks
            if isinstance(block, PurchaseValueBlock)
        ]
        smaller.plan_ = replace(smaller.plan_, blocks=blocks)
        smaller.mean_budget, smaller.cost_penalty = None, penalty
        return smaller

    def _offers(self, plan: Plan, X: Array, owned: NDArray[np.bool_], cap: int) -> Sequence[Offer]:
        if not plan.blocks:
            return ()
        block = self._block
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

    @property
    def _block(self) -> PurchaseValueBlock:
        block = self._plan.blocks[0]
        assert isinstance(block, PurchaseValueBlock)
        return block

    def _file_state(self) -> dict[str, Any]:
        return {**super()._file_state(), "money": np.stack(self.money_)}

    def _restore_file_state(self, state: Any) -> None:
        super()._restore_file_state(state)
        money = np.asarray(state["money"], dtype=np.float64)
        if money.ndim != 2 or len(money) != 3 or not money.size or not np.isfinite(money).all():
            raise ValueError("prices of money do not fit together")
        self.money_ = PricesOfMoney(*money)
        if any(not isinstance(block, PurchaseValueBlock) for block in self.plan_.blocks):
            raise ValueError("the plan buys nothing by expected costs")


class ExpectedCostClassifier(_ExpectedCostModel):
    """Buy while it pays in expectation, then answer with the label that is expected to cost least.

    For few groups, such as paid services, each with an answer and a score, all sets that a row may own are looked at. What a
    purchase is worth is worked out backwards, from everything to nothing, for many prices of money: a cheap answer is worth more
    where it tells who needs a dear one. A budget may be a cap or a mean, and wrong answers may cost what they cost.

    Columns of categories that name labels are read as answers: forests are told which class each names, and which agree.

    Parameters
    ----------
    costs : FeatureCosts, mapping, table, path or sequence, default=None
        What columns cost. None: 1 per column.
    budget : float, default=None
        The most that any row may pay in a prediction that names no bound. None: no limit.
    mean_budget : float, default=None
        What rows may pay on average in a prediction that names no bound. None: no limit. No batch pays more. Rows that come one
        by one go by a price of money, and what they pay is near the mean only where they differ: alike rows all buy, or none.
    accuracy : float, default=None
        Share of right answers wanted where a prediction names no bound, at the lowest mean price that reached it on training
        rows. None: as many as can be had. With a cost matrix, one minus the mean cost of the answers. Not with ``mean_budget``.
    cost_matrix : (C, C), default=None
        What it costs to answer the second class where the first is true, in the order of ``classes_``. None: 1 where the
        answer is wrong.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes. "balanced": inversely proportional to how often they occur. None: 1 each. What mistakes with rows
        of a class cost is multiplied by its weight.
    cost_penalty : float, default=0
        Loss that one unit of cost must save to be spent. 0: rows buy as long as the budget lasts. 1: prices and costs of answers
        are in the same unit.
    n_estimators : int, default=40
        Number of trees or learners in the ensemble. Of each set of groups.
    min_samples_leaf : int, default=5
        The fewest training rows in a leaf.
    max_sets : int, default=32
        The most sets of groups that are looked at. Beyond it only those one purchase away from a chain of them are.
    categorical_features : "from_dtype", list of columns or None, default="from_dtype"
        Columns that hold categories. "from_dtype": those of a table that are no numbers.
    meter : {"realised", "model"}, default="realised"
        How a budget is counted: by what each row really pays, or by the most that a stage can cost. By the latter the
        first purchase costs as much as everything.
    random_state : int, RandomState or None, default=None
        Seed; the same seed gives the same model.
    n_jobs : int, default=None
        Threads. None: 1; -1: all cores. The result does not depend on it.
    verbose : int, default=0
        Whether progress is printed.

    Attributes
    ----------
    plan_ : Plan
        A stage for each purchase.
    money_ : PricesOfMoney
        Prices of money, and what training rows pay and lose by each, judged by trees that have not seen them.
    classes_, n_features_in_, feature_names_in_, stage_costs_, order_, categories_
        As in :class:`AnytimeClassifier`. What is bought first differs from row to row, so the order says nothing.

    Notes
    -----
    Of more than 40,000 training rows a sample of so many is learned from. With a cost matrix or class weights, scores are
    expected costs with their sign changed; ``predict_proba`` gives probabilities, ``answer`` and sessions 1 for what they choose.

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
        **shared("class_weight"),
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
        meter: str = "realised",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        store(self, locals())

    def _validate_params(self) -> None:
        super()._validate_params()
        if self.mean_budget is not None and self.accuracy is not None:
            raise ValueError("give mean_budget or accuracy: each sets the price of money")

    def fit(self, X: Any, y: Any, *, row_prices: ArrayLike | None = None) -> Self:
        """Work out what purchases are worth. A fit that fails leaves the model as it was.

        Parameters
        ----------
        X : (n, d)
            Numbers, NaN where one is missing; columns of a table may be categories.
        y : (n,)
        row_prices : (n, G), default=None
            What groups cost these rows, one column per group in the order of ``costs``. None: the same for all.
        """
        self._validate_params()
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        trained = copy.copy(self)
        numbers, y = trained._read_rows(X, y)
        labels = column_or_1d(y, warn=True)
        check_classification_targets(labels)
        trained.classes_, place = np.unique(labels, return_inverse=True)
        n_classes = len(trained.classes_)
        if n_classes < 2:
            raise ValueError("y has one class only; a classifier needs at least 2 classes")
        matrix = None if self.cost_matrix is None else _checked_matrix(self.cost_matrix, n_classes)
        if self.class_weight is not None:
            weight = compute_class_weight(self.class_weight, classes=trained.classes_, y=labels)
            matrix = weight[:, None] * (1.0 - np.eye(n_classes) if matrix is None else matrix)
        losses = (1.0 - np.eye(n_classes) if matrix is None else matrix)[place]
        inputs = AnswerInputs.of(trained.columns_.categories, trained.classes_, numbers.shape[1])
        trained._learn(numbers, np.eye(n_classes)[place], losses, inputs, row_prices, cost_matrix=matrix)
        self.__dict__ = trained.__dict__
        return self

    def predict_proba(
        self,
        X: ArrayLike,
        budget: Budget = None,
        deadline: float | None = None,
        *,
        mean_budget: float | None = None,
    ) -> Any:
        """Class probabilities, (n, C), in the order of ``classes_``. See ``answer`` for the parameters."""
        check_is_fitted(self, "plan_")
        if self.plan_.link == "softmax" or self.meter == "model" or not self.plan_.blocks:
            return super().predict_proba(X, budget, deadline, mean_budget=mean_budget)
        import time

        due = self._due(time.monotonic(), deadline)
        run = self._run_plan(self._read_in(X), budget, mean_budget, due)
        assert isinstance(run, Run)
        return self._wrapped(self._block.means(run.X, run.memory()["block 0 set"]), X, self.classes_)


class AlgorithmSelector(_ExpectedCostModel):
    """Choose one of several algorithms for each row; features that tell which are bought while they pay.

    What is learned from is what each algorithm costs each training row, such as its seconds; time-outs count as the user counts
    them (PAR10: ten times the limit). Features are priced in the same unit, and the sum of both is what is kept low. Prices of
    features may differ from row to row. It is :class:`ExpectedCostClassifier` with costs of labels for every row.

    Parameters
    ----------
    costs : FeatureCosts, mapping, table, path or sequence, default=None
        What columns cost. None: 1 per column.
    budget, mean_budget
        As in :class:`ExpectedCostClassifier`.
    cost_penalty : float, default=1
        Loss that one unit of cost must save to be spent. 1: prices of features and costs of algorithms are in the same unit.
    option_groups : mapping from str to str, default=None
        Options that can be chosen only by rows that own a group: answers of services that are paid. None: all can be chosen.
    n_estimators : int, default=100
        Number of trees or learners in the ensemble. Of each set of groups.
    min_samples_leaf : int, default=5
        The fewest training rows in a leaf.
    max_sets, categorical_features, meter, random_state, n_jobs, verbose
        As in :class:`ExpectedCostClassifier`.

    Attributes
    ----------
    classes_ : (A,)
        The options: names of the columns of y, or their numbers.
    plan_, money_, n_features_in_, feature_names_in_, stage_costs_, order_, categories_
        As in :class:`ExpectedCostClassifier`.

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
        meter: str = "realised",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        store(self, locals())

    def fit(self, X: Any, y: Any, *, row_prices: ArrayLike | None = None) -> Self:
        """Work out what purchases are worth. A fit that fails leaves the model as it was.

        Parameters
        ----------
        X : (n, d)
            Numbers, NaN where one is missing; columns of a table may be categories.
        y : (n, A)
            What each option costs each row: a table whose columns are named after the options, or an array. Labels, (n,), stand
            for a cost of 1 of every other label.
        row_prices : (n, G), default=None
            What groups cost these rows, one column per group in the order of ``costs``. None: the same for all.
        """
        self._validate_params()
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        trained = copy.copy(self)
        names = getattr(y, "columns", None)
        numbers, y = trained._read_rows(X, y)
        given = np.asarray(y)
        if given.ndim == 1 or given.shape[1] == 1:
            labels = column_or_1d(given, warn=True)
            check_classification_targets(labels)
            trained.classes_, place = np.unique(labels, return_inverse=True)
            losses = 1.0 - np.eye(len(trained.classes_))[place]
        else:
            losses = given.astype(np.float64)
            trained.classes_ = np.arange(losses.shape[1]) if names is None else np.array(list(names))
        if losses.shape[1] < 2:
            raise ValueError("y has one class only; a choice needs at least 2 options")
        if not np.isfinite(losses).all():
            raise ValueError(
                "y has costs that are no numbers; give a time-out the cost that it is to count as"
            )
        inputs = AnswerInputs.of({}, trained.classes_, numbers.shape[1])
        settings: dict[str, Any] = {"of_options": True}
        if self.option_groups is not None:
            settings |= {"option_groups": trained._places_of_groups(), "unanswered": float(losses.max())}
        trained._learn(numbers, losses, losses, inputs, row_prices, **settings)
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
        """(n, A) what each option is expected to cost, by what was bought. See ``answer`` for the parameters."""
        return -self._scores(X, budget, deadline, mean_budget)

    def predict(  # type: ignore[override]  # costs of options are learned, so no matrix can be given
        self,
        X: ArrayLike,
        budget: Budget = None,
        deadline: float | None = None,
        *,
        mean_budget: float | None = None,
    ) -> Any:
        """The option that is expected to cost least, (n,). See ``answer`` for the parameters."""
        return super().predict(X, budget, deadline, mean_budget=mean_budget)


def _checked_matrix(given: ArrayLike, n_classes: int) -> Array:
    matrix = np.asarray(given, dtype=np.float64)
    if matrix.shape != (n_classes, n_classes) or not np.isfinite(matrix).all():
        raise ValueError(
            f"cost_matrix must hold {n_classes} x {n_classes} finite numbers, one row per true class; its shape is {matrix.shape}"
        )
    return np.ascontiguousarray(matrix)


def _checked_row_prices(given: ArrayLike, n: int, costs: BoundCosts) -> Array:
    prices = np.asarray(given, dtype=np.float64)
    if prices.shape != (n, costs.n_groups):
        raise ValueError(f"row_prices has shape {prices.shape}, but needs ({n}, {costs.n_groups})")
    if not np.isfinite(prices).all() or (prices < 0).any():
        raise ValueError("row_prices must be finite and not negative")
    return prices
