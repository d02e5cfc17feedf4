"""``LadderClassifier``: answers on ever more columns, and a costly model for who is still in doubt."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils._param_validation import Interval

from anytime.adaptive.choosing import Bench, Point, best_point
from anytime.adaptive.costly import read_costly
from anytime.adaptive.exits import Answers, price_path
from anytime.adaptive.learning import Task
from anytime.adaptive.models import AdaptiveClassifier
from anytime.adaptive.rungs import LEAST_ROWS, Rung, RungLearner, column_sets, purchases
from anytime.adaptive.stages import Chain, Exit, constant_block
from anytime.boosting.boosted import positive_integer
from anytime.boosting.objective import Objective
from anytime.losses import LINKS
from anytime.plan import Array, Plan

__all__ = ["LadderClassifier"]

_SILENT = constant_block(np.zeros(1))  # a gate that has nothing to say: the margin alone decides


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows, and honest scores of them from all exits and the costly model."""

    bench: Bench
    scores: Sequence[Array]

    def answers(self, paid: Array, which: Sequence[int]) -> Answers:
        """What some of the models come to; ``paid`` (S, n): after their stages, if nobody leaves before the last."""
        link, last = LINKS[self.bench.link], len(which) - 1
        scores = [self.scores[k] for k in which]
        right = np.column_stack([self.bench.right(s) for s in scores])
        margin = np.array([link.margin(s) for s in scores[:last]]).reshape(last, len(right)).T
        weight = np.ones(len(right)) if self.bench.weight is None else self.bench.weight
        return Answers(margin, right, np.column_stack([*paid[:last], paid[-1]]), weight)

    def routed(self, margins: Array, which: Sequence[int]) -> Array:
        """(n, K) The scores with which rows leave."""
        *exits, last = which
        scores = self.scores[last].copy()
        for k in exits[::-1]:
            sure = LINKS[self.bench.link].margin(self.scores[k]) >= margins[k]
            scores[sure] = self.scores[k][sure]
        return scores


def _point(answers: Answers, margins: Array) -> Point:
    sent = float(np.average(answers.leaves(margins) == margins.size, weights=answers.weight))
    first = -float(margins[0]) if margins.size else -np.inf
    return Point(first, answers.accuracy(margins), answers.mean_cost(margins), sent, doubt=1.0)


class LadderClassifier(AdaptiveClassifier):
    """Several cheap models on ever more columns in front of a costly one; a row leaves at the first that is sure of its answer.

    Groups of columns are put in the order in which boosting buys them at falling prices. Each exit answers with a blend of
    boosted and random trees on a beginning of that order, and keeps rows whose margin is large enough; the others go on, in the
    end to the costly model. All margins are chosen together, on training rows that the models have not learned from and on
    validation rows where there are some, for many prices; then ``budget`` or ``tolerance`` choose among those. It is the
    recursion of adaptive approximation (Nan, *Learning to predict under a budget*, 2018, chapter 5, remark 2, seed 001) with all
    stages learned at once, and margins for gates.

    Parameters
    ----------
    costly : estimator, callable, (n, C) chances or None, default=None
        As in :class:`AdaptiveClassifier`.
    costs : FeatureCosts, mapping, table, path or sequence, default=None
        What columns cost. None: 1 per column.
    budget : float, default=None
        What the average row may pay: the most accurate choice within it.
    tolerance : float, default=0.01
        Without a budget: how much accuracy may be lost against the costly model; the cheapest choice within it. With a budget
        it is not looked at: all accuracy that the budget buys is wanted.
    caution : float, default=1.0
        Of the tolerance: by how many standard errors of the difference in accuracy the choice has to be on the safe side, since
        the rows that it is made on flatter it.
    n_exits : int, default=12
        Exits before the costly model, at most.
    n_trees : int, default=100
        Boosted trees of each exit, and as many random ones.
    learning_rate : float, default=0.2
    max_leaves : int, default=31
    min_rows : int, default=20
        In a leaf of a boosted tree.
    cross_fit : int, default=3
        Folds by which boosted trees judge training rows; random trees judge those that they have not drawn.
    costly_proba, costly_columns, costly_cost, n_folds, max_bins, categorical_features, time_budget, meter, random_state, n_jobs
        As in :class:`AdaptiveClassifier`. ``time_budget``: after so many seconds no further exit is learned.
    verbose : int, default=0
        1: tell of every exit.

    Attributes
    ----------
    plan_ : Plan
        A stage for each exit, then the costly model.
    points_ : list of Point
        What all choices come to, on validation rows where there are some, from the most accurate to the cheapest.
    margins_ : (L,)
        From which on rows leave, of the exits that are in use.
    sent_ : float
        Share of rows that go to the costly model.
    expected_cost_, costly_, honest_proba_, classes_, n_features_in_, feature_names_in_, stage_costs_, order_, categories_
        As in :class:`AdaptiveClassifier`.

    Examples
    --------
    >>> import anytime as at
    >>> from anytime.adaptive import LadderClassifier
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y, costs = at.datasets.load("breast_cancer")
    >>> forest = RandomForestClassifier(50, oob_score=True, random_state=0).fit(X, y)
    >>> model = LadderClassifier(forest, costs=costs, n_trees=20, random_state=0).fit(X, y)
    >>> bool(model.cost(X).mean() < 0.3 * costs.total), bool(model.score(X, y) > 0.95)
    (True, True)
    """

    cheap = "boost"
    validation_fraction = None
    answer_first = True

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **{
            name: AdaptiveClassifier._parameter_constraints[name]
            for name in (
                *("costly", "costs", "budget", "costly_proba", "costly_columns", "costly_cost", "n_trees"),
                *("learning_rate", "min_rows", "n_folds", "max_bins", "categorical_features", "time_budget"),
                *("meter", "random_state", "n_jobs", "verbose"),
            )
        },
        "tolerance": [Interval(Real, 0, None, closed="left")],
        "caution": [Interval(Real, 0, None, closed="left")],
        "n_exits": [positive_integer],
        "max_leaves": [Interval(Integral, 2, None, closed="left")],
        "cross_fit": [Interval(Integral, 2, None, closed="left")],
    }

    def __init__(
        self,
        costly: Any = None,
        *,
        costs: Any = None,
        budget: float | None = None,
        tolerance: float = 0.01,
        caution: float = 1.0,
        n_exits: int = 12,
        n_trees: int = 100,
        learning_rate: float = 0.2,
        max_leaves: int = 31,
        min_rows: int = 20,
        cross_fit: int = 3,
        costly_proba: str = "auto",
        costly_columns: Any = None,
        costly_cost: float = 0.0,
        n_folds: int = 5,
        max_bins: int = 255,
        categorical_features: Any = "from_dtype",
        time_budget: float | None = None,
        meter: str = "expected",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int | bool = 0,
    ) -> None:
        self.costly = costly
        self.costs = costs
        self.budget = budget
        self.tolerance = tolerance
        self.caution = caution
        self.n_exits = n_exits
        self.n_trees = n_trees
        self.learning_rate = learning_rate
        self.max_leaves = max_leaves
        self.min_rows = min_rows
        self.cross_fit = cross_fit
        self.costly_proba = costly_proba
        self.costly_columns = costly_columns
        self.costly_cost = costly_cost
        self.n_folds = n_folds
        self.max_bins = max_bins
        self.categorical_features = categorical_features
        self.time_budget = time_budget
        self.meter = meter
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    # ------------------------------------------------------------------ learning

    def _train(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None,
        chances: ArrayLike | None,
        X_val: Any,
        y_val: Any,
    ) -> None:
        question, chances = self._question(X, y, sample_weight, chances)
        costly = read_costly(question, self.costly_proba, chances)
        task = self._task(question, costly, X_val, y_val)
        rungs = self._rungs(task)
        own = Bench(task.table.X, task.y, task.weight, costly.scores, task.costs, task.base, task.loss.link)
        train = _Rows(own, [*(rung.scores for rung in rungs), costly.scores])
        judge = train
        if (held := task.bench) is not None:
            judge = _Rows(held, [*(rung.block.outputs(0, held.X) for rung in rungs), held.costly_scores])
        path, answers = self._path(rungs, task, train, judge)
        best = self._choice(path, answers)
        self.costly_, self.doubt_ = costly.model, 1.0
        self.gamma_ = self.costly_fraction_ = None  # there is no learned gate
        self.sent_ = 0.0 if best is None else self.points_[best].sent
        self.threshold_ = None
        if best is None or len(task.y) < 2 * LEAST_ROWS:
            self._warn(best is None, task)
        if best is None:
            self.plan_ = self._nothing(rungs, task)
            scores = np.tile(task.base, (len(task.y), 1))
        else:
            which = _used(path[best])
            self.plan_ = self._judged(path[best], which, rungs, task, judge)
            scores = train.routed(path[best], which)
            if len(which) > 1:
                self.threshold_ = -float(path[best][which[0]])
        self.honest_proba_ = LINKS[task.loss.link].transform(scores)

    def _rungs(self, task: Task) -> list[Rung]:
        """Models on ever more columns, each cheaper than the costly one."""
        assert self.cross_fit is not None
        objective, threads = Objective(task.loss, task.y, task.weight), self._threads()
        order = purchases(task.table, objective, task.base, task.costs, threads)
        fold = np.random.RandomState(0).permutation(len(task.y)) % self.cross_fit
        learner = RungLearner(
            task.table,
            objective,
            task.base,
            len(self.classes_),
            n_trees=self.n_trees,
            learning_rate=self.learning_rate,
            max_leaves=self.max_leaves,
            min_rows=self.min_rows,
            folds=[np.flatnonzero(fold == k) for k in range(self.cross_fit)],
            seed=int(task.random.randint(2**31)),
            n_threads=threads,
        )
        sets = column_sets(order, task.costs, self._most(task), self.n_exits)
        rungs: list[Rung] = []
        for number, columns in enumerate(sets):
            if rungs and task.clock.over:
                break
            task.clock.tell(f"exit {number + 1} of {len(sets)}: {int(columns.sum())} columns")
            rungs.append(learner.learn(columns))
        return rungs

    def _most(self, task: Task) -> float:
        """What the costly model costs at most: an exit as dear as that is of no use."""
        costs, costly = task.costs, task.costly
        groups = costs.closure(costs.groups_of(costly.block.columns(0)))
        return costs.costs.amount(int(costs.prices[groups].sum())) + (costly.cost or self.costly_cost)

    # ------------------------------------------------------------------ choosing

    def _path(
        self, rungs: Sequence[Rung], task: Task, train: _Rows, judge: _Rows
    ) -> tuple[list[Array], Answers]:
        """Margins for many prices, and the answers that judge them; the first send all rows to the costly model."""
        nobody, which = np.full(len(rungs), np.inf), range(len(rungs) + 1)
        alone, chain = (self._chain_of_exits(nobody, some, rungs, task) for some in (which[-1:], which))
        answers = judge.answers(judge.bench.bill(chain), which)
        known = answers if judge is train else train.answers(train.bench.bill(chain), which) + answers
        path = [nobody, *(price_path(known) if rungs else ())]
        costly = _point(judge.answers(judge.bench.bill(alone), which[-1:]), np.empty(0))
        self.points_ = [costly, *(_point(answers, margins) for margins in path[1:])]
        return path, answers

    def _choice(self, path: Sequence[Array], answers: Answers) -> int | None:
        """The number of the best point; None where all are too dear."""
        points = self.points_
        if self.budget is not None:
            best = best_point(points, self.budget)
            return None if best is None else points.index(best)
        losses = [answers.loss(margins) for margins in path]
        enough = [
            k
            for k, (mean, error) in enumerate(losses)
            if mean + self.caution * error <= self.tolerance + 1e-12
        ]
        return min(enough, key=lambda k: points[k].cost)  # the costly model loses nothing against itself

    def _chain_of_exits(
        self, margins: Array, which: Sequence[int], rungs: Sequence[Rung], task: Task
    ) -> Chain:
        """Some of the models, from cheap to costly; the costly one, where it is the last, may be a chain itself."""
        *first, last = which
        exits = [Exit(rungs[k].block, _SILENT, -float(margins[k]), 1.0) for k in first]
        if last < len(rungs):
            return Chain(exits, rungs[last].block)
        costly = task.costly
        return Chain([*exits, *costly.exits], costly.block, costly.cost or self.costly_cost)

    def _judged(
        self, margins: Array, which: Sequence[int], rungs: Sequence[Rung], task: Task, judge: _Rows
    ) -> Plan:
        """The plan of the chosen margins, with what rows pay on average and how often they are answered rightly."""
        nobody, link = np.full(len(rungs), np.inf), task.loss.link
        paid = judge.bench.bill(self._chain_of_exits(nobody, which, rungs, task))
        answers = judge.answers(paid, which)
        left, last = answers.leaves(margins[list(which[:-1])]), len(which) - 1
        stage, rows = np.where(left == last, len(paid) - 1, left), np.arange(len(left))
        expected = [
            np.average(paid[np.minimum(stage, s), rows], weights=answers.weight) for s in range(len(paid))
        ]
        plan = self._chain_of_exits(margins, which, rungs, task).plan(task.costs, task.base, link)
        plan = replace(plan, expected_costs=np.array(expected))
        if len(paid) > len(
            which
        ):  # the costly model has exits of its own, whose answers are not known one by one
            return plan
        right = [
            np.average(answers.right[rows, np.minimum(left, k)], weights=answers.weight)
            for k in range(last + 1)
        ]
        start = judge.bench.accuracy(np.tile(task.base, (len(rows), 1)))
        return replace(plan, quality=np.array([start, *right]))

    def _nothing(self, rungs: Sequence[Rung], task: Task) -> Plan:
        """The plan of no stages."""
        which = [len(rungs)]
        plan = self._chain_of_exits(np.empty(0), which, rungs, task).plan(
            task.costs, task.base, task.loss.link
        )
        return replace(plan.head(0), expected_costs=np.empty(0))

    def _warn(self, constant: bool, task: Task) -> None:
        """Say why there is no answer but one, or no exit."""
        costs, rows, least = task.costs, len(task.y), 2 * LEAST_ROWS
        outcome = "the model always gives the same answer" if constant else "all rows go to the costly model"
        if rows < least:
            reason, advice = f"{rows} rows are too few to learn cheap models from", f"give {least} or more"
        else:
            cheapest = min(point.cost for point in self.points_)
            reason = f"no choice costs at most {self.budget:g} on average, the cheapest {cheapest:g}"
            closures = [costs.closure(np.array([group], dtype=np.int32)) for group in range(costs.n_groups)]
            prices = [costs.costs.amount(int(costs.prices[closure].sum())) for closure in closures]
            if min(prices) <= (self.budget or 0.0):
                reason += ", as cheaper columns were not worth buying first"
            advice = "raise the budget"
        warnings.warn(f"{reason}: {outcome}; {advice}", stacklevel=4)

    # ------------------------------------------------------------------ what the gates do

    @property
    def margins_(self) -> Array:
        """(L,) Margins from which on rows leave, of the exits that are in use."""
        chain = self._chain()
        return np.array([] if chain is None else [-exit.threshold for exit in chain.exits])

    def sent(self, X: Any) -> NDArray[np.bool_]:
        """(n,) Whether each row passes all exits and goes on to the costly model; nobody where ``sent_`` is 0."""
        rows, chain = self._checked(X), self._chain()
        on = np.full(len(rows), bool(self.sent_))
        for exit in () if chain is None else chain.exits:
            on &= exit.score(rows, self.plan_.link) > 0
        return on

    def soft_proba(self, X: Any) -> Array:
        """(n, C) The chances themselves: a margin decides for good."""
        return np.asarray(self.predict_proba(X))


def _used(margins: Array) -> list[int]:
    """Exits at which somebody leaves, and the model that keeps who is left: the first exit that keeps all, or the costly one."""
    last = int(np.argmax(np.append(margins, -np.inf) == -np.inf))
    return [k for k in range(last) if margins[k] < np.inf] + [last]
