"""``LadderClassifier``: cheap models on more and more columns, and a costly model for the uncertain rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from anytime._compat import Interval
from anytime.adaptive.adaptive_classifier import AdaptiveClassifier
from anytime.adaptive.adaptive_training import GateTask
from anytime.adaptive.choosing import HeldOutRows, best_point
from anytime.adaptive.exits import crossed_path
from anytime.adaptive.ladder_choices import LadderChoice, ScoredRows
from anytime.adaptive.rungs import LEAST_ROWS, Rung, RungLearner, column_sets, purchases, sets_as_dear
from anytime.adaptive.singles import SingleLearner
from anytime.adaptive.stages import Chain, Exit, constant_block
from anytime.boosting.objective import MeanLoss
from anytime.losses import LINKS
from anytime.parameters import declared, not_negative, store
from anytime.plan import Array, Plan
from anytime.trees.clock import inner_fit
from anytime.trees.rows import fold_rows
from anytime.validation import warn_caller

_PARTS = 2  # of the rows that choose margins: each is judged by the choice of the others
_CHEAPER = 0.5  # of what a model costs that can answer alone: rungs before it cost at most so much
_LITTLE = 1.05  # times what one model costs that answers all rows: what a first answer before it may add, without a budget
_NOBODY = 1e30  # a margin that no answer has
_ORDER_SHARE = 0.2  # of the time left, for the order of columns; as much again for those without each fold
_SILENT = constant_block(np.zeros(1))  # a gate that has nothing to say: the margin alone decides


@declared(like=AdaptiveClassifier)
class LadderClassifier(AdaptiveClassifier):
    """Cheap models on more and more columns in front of a costly one; a row leaves at the first that is confident enough.

    Groups of columns are ordered by when boosting buys them at falling prices. Each exit answers with a blend of boosted and
    random trees on a prefix of that order, and rows with a large enough margin leave; the others go on, finally to the costly
    model. All margins are chosen together, by cross-validation on training rows and on validation rows if there are any, for many
    exchange rates; ``mean_budget`` or ``tolerance`` then choose among these. It is the recursion of adaptive approximation (Nan,
    *Learning to predict under a budget*, 2018, chapter 5, remark 2) with all stages learned at once, and margins for gates.

    Parameters
    ----------
    mean_budget : float, default=None
        The most accurate choice within it is taken.
    tolerance : float, default=0.01
        Without a mean budget: accuracy that may be lost compared with the costly model; the cheapest choice within it is taken.
        It holds on validation rows if there are any, else on cross-validated training rows. For new rows it is an estimate, not
        a bound: it holds on average over data sets, and a single one may lose more. Ignored with a mean budget.
    caution : float, default=0.5
        For the tolerance: number of standard errors added to the estimated loss, which is measured on rows that did not choose
        the margins. Training rows count as far as they agree with validation rows. Larger values are safer and more expensive.
        With so few rows that the error alone exceeds the tolerance, all rows go to the costly model: use a larger tolerance then.
    n_estimators : int, default=100
        Here boosted trees per exit, and as many random ones.
    max_leaf_nodes : int, default=31
        Here of boosted trees.
    min_samples_leaf : int, default=20
        Here of boosted trees.
    folds : int, default=3
        Cross-validation folds of the training rows: a whole ladder, with its own columns, is trained without each fold. Equal
        rows are in the same fold.
    verbose : int, default=0
        1: a line for every exit. Ctrl-C ends training with the exits so far.

    Attributes
    ----------
    plan_ : Plan
        A stage for each exit, then the costly model. Its qualities and expected costs are of the rows that judge, which have also
        chosen the margins; the accuracies of ``points_`` are without that.
    points_ : list of Point
        Estimated cost and accuracy of all choices, on validation rows if there are any, by falling cost. The accuracy is that of
        the costly model minus the loss on rows whose margins were chosen, at about the same cost, by other rows.
    margins_ : (L,)
        Margin thresholds of the exits in use.
    sent_ : float
        Share of rows that go to the costly model.
    expected_cost_, costly_, honest_proba_
        As in :class:`AdaptiveClassifier`.

    See Also
    --------
    AdaptiveClassifier : One cheap model with a learned gate.
    PrunedForestClassifier : A forest pruned until it fits a mean budget.

    Examples
    --------
    >>> import anytime as at
    >>> from anytime.adaptive import LadderClassifier
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y, costs = at.datasets.load("breast_cancer")
    >>> forest = RandomForestClassifier(50, oob_score=True, random_state=0).fit(X, y)
    >>> model = LadderClassifier(forest, costs=costs, mean_budget=30, n_estimators=20, random_state=0).fit(X, y)
    >>> bool(model.cost(X).mean() < 0.3 * costs.total), bool(model.score(X, y) > 0.95)
    (True, True)
    """

    _spreads = "tasks"  # folds
    cheap = "boost"
    validation_fraction = None
    answer_first = True

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **{
            name: AdaptiveClassifier._parameter_constraints[name]
            for name in ("costly", "proba_source", "costly_columns", "costly_folds")
        },
        "tolerance": [not_negative],
        "caution": [not_negative],
        "max_stages": [Interval(Integral, 2, None, closed="left")],
        "folds": [Interval(Integral, 2, None, closed="left")],
    }

    def __init__(
        self,
        costly: Any = None,
        *,
        costs: Any = None,
        mean_budget: float | None = None,
        budget: float | None = None,
        tolerance: float = 0.01,
        caution: float = 0.5,
        max_stages: int = 13,
        n_estimators: int = 100,
        learning_rate: float = 0.2,
        max_leaf_nodes: int = 31,
        min_samples_leaf: int = 20,
        class_weight: Any = None,
        folds: int = 3,
        proba_source: str = "auto",
        costly_columns: Any = None,
        evaluation_cost: float = 0.0,
        costly_folds: int = 5,
        max_bins: int = 255,
        categorical_features: Any = "from_dtype",
        time_budget: float | None = None,
        meter: str = "realised",
        calibration: str | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int | bool = 0,
    ) -> None:
        store(self, locals())

    # ------------------------------------------------------------------ learning

    def _learn_path(self, task: GateTask, X: Array) -> None:
        costly = task.costly
        if task.weight is not None:  # so that a training row counts as much as one for validation
            task = replace(task, weight=task.weight / task.weight.mean())
        models, n_rungs = self._models(task)
        own = HeldOutRows(
            task.table.X, task.y, task.weight, costly.scores, task.costs, task.base, task.loss.link
        )
        alone = [self._chain_of_exits(np.empty(0), [k], models, task) for k in range(len(models) + 1)]
        judge = train = ScoredRows.of(own, [*(model.scores for model in models), costly.scores], alone)
        if (held := task.bench) is not None:
            held_scores = [*(model.block.outputs(0, held.X) for model in models), held.costly_scores]
            judge = ScoredRows.of(held, held_scores, alone)
        path = self._path(models, n_rungs, task, train, judge)
        self.points_ = [choice.point for choice in path]
        best = self._choice(path, task.clock.over)
        self.doubt_ = 1.0
        self.cost_penalty_ = self.costly_fraction_ = None  # there is no learned gate
        self.sent_ = 0.0 if best is None else best.point.sent
        self.threshold_ = None if best is None else best.point.threshold
        self._own_exits, self._asks = 0, False
        if best is None:
            self._warn_of_no_choice(task)
            self.plan_ = self._nothing(models, task)
            scores = np.tile(task.base, (len(task.y), 1))
        else:
            which, margins = self._with_first_answer(*best.used, n_rungs, judge)
            self._own_exits, self._asks = len(margins), which[-1] == len(models)
            if len(task.y) < 2 * LEAST_ROWS and which == [len(models)]:
                _warn_of_few_rows(len(task.y), "all rows go to the costly model")
            self.plan_ = self._judged(margins, which, models, task, judge)
            scores = train.routed(best.leaves)
        self.honest_proba_ = LINKS[task.loss.link].transform(scores)

    def _models(self, task: GateTask) -> tuple[list[Rung], int]:
        """Models on ever more columns, then models that can answer alone; and how many the first are."""
        assert self.folds is not None
        objective, threads = MeanLoss(task.loss, task.y, task.weight), self._threads()

        began = task.clock.elapsed

        def order(rows: NDArray[np.intp] | None, share: float) -> list[NDArray[np.intp]]:
            start, end = task.clock.elapsed, began + share * (task.clock.seconds - began)
            return purchases(
                task.table,
                objective,
                task.base,
                task.costs,
                rows,
                threads,
                self.mean_budget,
                lambda: (task.clock.elapsed - start) / max(end - start, 1e-9),
            )

        sets = column_sets(order(None, _ORDER_SHARE), task.costs, self._most(task), self.max_stages - 1)
        if len(task.y) < 2 * LEAST_ROWS and not sets:
            return [], 0
        fold = fold_rows(task.table.X, task.y, min(self.folds, len(task.y)), task.random)
        folds = [np.flatnonzero(fold == k) for k in np.unique(fold)]
        by_fold = [
            sets_as_dear(
                order(np.flatnonzero(fold != k), (1 + n / len(folds)) * _ORDER_SHARE), task.costs, sets
            )
            for n, k in enumerate(np.unique(fold), start=1)
        ]
        learner = RungLearner(
            task.table, objective, task.base, len(self.classes_), n_estimators=self.n_estimators,
            learning_rate=self.learning_rate, max_leaf_nodes=self.max_leaf_nodes, min_samples_leaf=self.min_samples_leaf,
            folds=folds, seed=int(task.random.randint(2**31)), n_threads=threads,
            over=(lambda: task.clock.over) if np.isfinite(task.clock.seconds) else None,
        )  # fmt: skip
        singles = SingleLearner(learner, task.costs)
        rungs: list[Rung] = []
        alone: list[Rung] = []
        try:
            for columns, *others in zip(sets, *by_fold, strict=True):
                if rungs and task.clock.over:
                    break
                task.clock.tell(f"exit {len(rungs) + 1} of {len(sets)}: {int(columns.sum())} columns")
                rungs.append(learner.learn(columns, others))
            if len(task.y) >= 2 * LEAST_ROWS and task.clock.elapsed < 0.5 * task.clock.seconds:
                task.clock.tell("a forest is grown and pruned")
                with inner_fit():
                    alone += singles.pruned()
            if len(task.y) >= 2 * LEAST_ROWS and not task.clock.over:
                alone.extend(singles.boosted(np.inf if self.mean_budget is None else self.mean_budget))
        except KeyboardInterrupt:
            if not rungs:
                raise
            self._warn_of_fewer("interrupted", len(rungs))
        else:
            if task.clock.over:
                self._warn_of_fewer("time is up", len(rungs))
        return rungs + alone, len(rungs)

    def _warn_of_fewer(self, why: str, done: int) -> None:
        most = self.max_stages - 1
        warn_caller(f"{why}: the ladder has {done} of up to {most} exits before its last model")

    def _most(self, task: GateTask) -> float:
        """The maximum cost of the costly model: an exit that costs as much is useless."""
        costs, costly = task.costs, task.costly
        groups = costs.closure(costs.groups_of(costly.block.columns(0)))
        return costs.costs.amount(int(costs.prices[groups].sum())) + (costly.cost or self.evaluation_cost)

    # ------------------------------------------------------------------ choosing

    def _path(
        self, models: Sequence[Rung], n_rungs: int, task: GateTask, train: ScoredRows, judge: ScoredRows
    ) -> list[LadderChoice]:
        """Choices for many prices, by falling cost: the costly model alone, and each chain that is worth a look."""
        costly = len(models)
        X, y = judge.bench.X, judge.bench.y
        if judge is not train:
            X, y = np.concatenate([train.bench.X, X]), np.concatenate([train.bench.y, y])
        part = fold_rows(X, y, _PARTS, task.random)
        choices: list[LadderChoice] = []
        for number, which in enumerate([(costly,), *_chains(costly, n_rungs, judge)]):
            if number > 1 and task.clock.over:  # the exits that there are have been tried
                break
            answers = all_answers = judge.answers(which)
            own = judge.answers(which, judge.own_scores)
            if judge is not train:
                all_answers = train.answers(which) + answers
            for margins, crossed in zip(*crossed_path(all_answers, part), strict=True):
                # honest scores are of models of fewer rows, own ones of rows that were learned from: new rows come between
                cost = max(answers.mean_cost(margins), own.mean_cost(margins))
                choices.append(
                    LadderChoice.of(which, margins, cost, answers, all_answers, crossed, len(task.y), costly)
                )
        return sorted(choices, key=lambda choice: -choice.point.cost)

    def _choice(self, path: Sequence[LadderChoice], short_of_time: bool) -> LadderChoice | None:
        """The best; None where all are too expensive. Short of time, the best that continues from the first exit, if any does."""
        if self.mean_budget is not None:
            enough = [c for c in path if best_point([c.point], self.mean_budget) is not None]
        else:
            most = self.tolerance + 1e-12
            enough = [c for c in path if max(c.loss + self.caution * c.error, c.own_loss) <= most]
        # without it the costly model is among them: it loses nothing against itself
        exact = self.mean_budget is not None

        def rank(choice: LadderChoice) -> tuple[float, float]:
            return -choice.point.accuracy if exact else 0.0, choice.point.cost

        best = min(enough, key=rank, default=None)
        if best is None or not short_of_time or best.used[0] != [0]:
            return best
        return min((c for c in enough if c.used[0] != [0]), key=rank, default=best)

    def _with_first_answer(
        self, which: list[int], margins: Array, n_rungs: int, judge: ScoredRows
    ) -> tuple[list[int], Array]:
        """The models; before a single one, where money allows, the cheapest rung, so that a cap or a deadline finds an answer."""
        nobody = np.empty(0)
        if margins.size or not n_rungs or which[0] == 0:
            return which, margins
        first, alone = (judge.answers([k]).mean_cost(nobody) for k in (0, which[0]))
        with_it = judge.answers([0, which[0]]).mean_cost(np.array([_NOBODY]))
        most = _LITTLE * alone if self.mean_budget is None else self.mean_budget
        if first > _CHEAPER * alone or with_it > most:
            return which, margins
        return [0, which[0]], np.array([_NOBODY])

    def _chain_of_exits(
        self, margins: Array, which: Sequence[int], models: Sequence[Rung], task: GateTask
    ) -> Chain:
        """Some of the models, from cheap to costly; the costly one, where it is the last, may be a chain itself."""
        *first, last = which
        exits = [
            Exit(models[k].block, _SILENT, -float(margin), 1.0)
            for k, margin in zip(first, margins, strict=True)
        ]
        if last < len(models):
            return Chain(exits, models[last].block)
        costly = task.costly
        return Chain([*exits, *costly.exits], costly.block, costly.cost or self.evaluation_cost)

    def _judged(
        self, margins: Array, which: Sequence[int], models: Sequence[Rung], task: GateTask, judge: ScoredRows
    ) -> Plan:
        """The plan of the chosen margins, with what rows pay on average and how often they are answered rightly."""
        link = task.loss.link
        paid, answers = judge.paid(which), judge.answers(which)
        left, last = answers.leaves(margins), len(which) - 1
        stage, rows = np.where(left == last, len(paid) - 1, left), np.arange(len(left))
        expected = [
            np.average(paid[np.minimum(stage, s), rows], weights=answers.weight) for s in range(len(paid))
        ]
        plan = self._chain_of_exits(margins, which, models, task).plan(task.costs, task.base, link)
        plan = replace(plan, expected_costs=np.array(expected))
        # the costly model has exits of its own, whose answers are not known one by one
        if len(paid) > len(which):
            return plan
        right = [
            np.average(answers.right[rows, np.minimum(left, k)], weights=answers.weight)
            for k in range(last + 1)
        ]
        start = judge.bench.accuracy(np.tile(task.base, (len(rows), 1)))
        return replace(plan, quality=np.array([start, *right]))

    def _nothing(self, models: Sequence[Rung], task: GateTask) -> Plan:
        """The plan of no stages."""
        chain = self._chain_of_exits(np.empty(0), [len(models)], models, task)
        plan = chain.plan(task.costs, task.base, task.loss.link)
        return replace(plan.head(0), expected_costs=np.empty(0))

    def _warn_of_no_choice(self, task: GateTask) -> None:
        """Say why no model is within the budget."""
        outcome = "the model always gives the same answer"
        if len(task.y) < 2 * LEAST_ROWS:
            return _warn_of_few_rows(len(task.y), outcome)
        cheapest = min(point.cost for point in self.points_)
        warn_caller(
            f"no model that was tried costs at most {self.mean_budget:g} on average, the cheapest {cheapest:g}: {outcome}; raise "
            "mean_budget",
        )

    # ------------------------------------------------------------------ what the gates do

    def _exits(self) -> Sequence[Exit]:
        """Exits in use, without those of a costly model that is a chain itself."""
        chain = self._chain()
        return [] if chain is None else chain.exits[: self._own_exits]

    @property
    def margins_(self) -> Array:
        """(L,) Margin thresholds of the exits in use."""
        return np.array([-exit.threshold for exit in self._exits()])

    def gate_score(self, X: Any) -> Array:
        """(n,) Score of the first exit in use; above 0, the row continues. NaN if the table lacks a column of its gate."""
        rows, exits = self._read_in(X), self._exits()
        if not exits:
            return np.full(len(rows.X), np.inf if self._asks else -np.inf)
        return self._gate_says(exits[0], rows)

    def sent(self, X: Any) -> NDArray[np.bool_]:
        """(n,) Whether each row passes all exits and reaches the costly model; none if the last exit keeps all rows."""
        rows, exits = self._read_in(X), self._exits()
        on = np.full(len(rows.X), self._asks)
        if rows.held is not None and exits:
            return on & self._goes_on(rows, len(exits))
        for exit in exits:
            on &= exit.score(rows.X, self.plan_.link) > 0
        return on

    # ------------------------------------------------------------------ files

    def _file_state(self) -> dict[str, Any]:
        return {**super()._file_state(), "own_exits": self._own_exits, "asks": self._asks}

    def _restore_file_state(self, state: Mapping[str, Any]) -> None:
        super()._restore_file_state(state)
        exits, asks = state["own_exits"], state["asks"]
        stages = self.plan_.n_stages
        if type(exits) is not int or type(asks) is not bool or not 0 <= exits <= max(stages - 1, 0):
            raise ValueError(f"own_exits={exits!r}, asks={asks!r} do not go with a plan of {stages} stages")
        self._own_exits, self._asks = exits, asks


def _chains(n_models: int, n_rungs: int, judge: ScoredRows) -> list[tuple[int, ...]]:
    """Models one after the other that may be worth it: the rungs and the costly model, and others as the last model.

    A model that can answer alone is left out where another is as cheap and as accurate. Rungs stand before it where they are
    much cheaper: what they read is paid on top.
    """
    rungs, nobody = tuple(range(n_rungs)), np.empty(0)
    alone = [judge.answers([k]) for k in range(n_models)]
    cost, right = ([getattr(one, name)(nobody) for one in alone] for name in ("mean_cost", "accuracy"))
    chains: list[tuple[int, ...]] = [(*rungs, n_models)] if rungs else []
    best = -np.inf
    for k in sorted(range(n_rungs, n_models), key=lambda k: (cost[k], -right[k])):
        if right[k] > best:
            best = right[k]
            front = tuple(r for r in rungs if cost[r] <= _CHEAPER * cost[k])
            chains += [(k,), (*front, k)] if front else [(k,)]
    return chains


def _warn_of_few_rows(rows: int, outcome: str) -> None:
    least = 2 * LEAST_ROWS
    reason = f"{rows} rows are too few to learn cheap models from"
    warn_caller(f"{reason}: {outcome}; give {least} or more")
