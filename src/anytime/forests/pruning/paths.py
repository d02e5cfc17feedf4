"""From prunings of one forest to a plan: each is a stage that replaces the answer of a smaller one.

The prunings of growing budgets are nested, so a row that continues from one to the next pays only for what the larger one reads
in addition: after a stage, it has paid exactly the cost of that pruning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from anytime.costs import BoundCosts
from anytime.forests.levels import cut
from anytime.forests.nodes import NodeStatistics
from anytime.forests.pruning.problem import Pruning, PruningProblem
from anytime.forests.pruning.refit import Lessons
from anytime.losses import LINKS, loss_for
from anytime.plan import Array, Plan
from anytime.trees.block import TreeBlock
from anytime.trees.ladder import as_replacing_stage

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class PruningPath:
    """Prunings of one forest from cheap to costly, with their held-out results.

    Attributes
    ----------
    cost_penalty : (P,)
        The weight of cost against error for which each was found.
    cost, evaluation_cost : (P,)
        Mean cost of features, and of tests, for the rows that chose the prunings.
    expected_cost : (P,)
        Expected cost of features for new rows.
    error : (P,)
        Training error, the mean over trees, which pruning minimises.
    n_nodes : (P,) int
        Nodes of all trees, leaves included.
    loss : (P,) or None
        Held-out error of the whole forest: the share of wrong labels, or the mean of squares. None: no labels.
    deviation : (P,) or None
        The standard error of ``loss``.
    quality : (P,) or None
        Minus the held-out loss of the scores, as in :class:`~anytime.plan.Plan`.
    stages : (S,) int
        The prunings that became stages; the last is the requested one. The first tests nothing and is not a stage.
    """

    cost_penalty: Array
    cost: Array
    expected_cost: Array
    evaluation_cost: Array
    error: Array
    n_nodes: NDArray[np.int64]
    loss: Array | None
    deviation: Array | None
    quality: Array | None
    stages: NDArray[np.int64]

    def __post_init__(self) -> None:
        for name, value in self.state().items():
            if name != "stages" and value is not None and np.shape(value) != (len(self),):
                raise ValueError(f"{name} of {len(self)} prunings has shape {np.shape(value)}")
        in_order = self.stages.dtype.kind == "i" and np.isin(self.stages, np.arange(len(self))).all()
        if self.stages.ndim != 1 or not in_order or (len(self) > 1 and not self.stages.size):
            raise ValueError(f"the stages of {len(self)} prunings are numbered {self.stages.tolist()}")

    def __len__(self) -> int:
        return self.cost_penalty.size

    def head(self, n_stages: int) -> PruningPath:
        """The prunings up to the last of the first ``n_stages`` stages; of none, the one that tests nothing."""
        stop = 1 + int(self.stages[n_stages - 1]) if n_stages else 1
        cut: dict[str, Any] = {
            name: None if value is None else value[:stop] for name, value in self.state().items()
        }
        return PruningPath(**cut | {"stages": self.stages[:n_stages]})

    def to_frame(self) -> pd.DataFrame:
        """One row per pruning."""
        import pandas as pd

        columns: dict[str, Any] = {name: value for name, value in self.state().items() if name != "stages"}
        columns["stage"] = np.isin(np.arange(len(self)), self.stages)
        return pd.DataFrame({name: value for name, value in columns.items() if value is not None})

    def state(self) -> dict[str, Any]:
        """What a file keeps."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def spaced(costs: Array, most: int) -> NDArray[np.int64]:
    """Positions in ``costs``, which rise from a first one that tests nothing and is left out: at most ``most``, at equal ratios.

    The last is among them, and, where there is room, the largest that is free.
    """
    last = costs.size - 1
    free = np.flatnonzero(costs == 0)[-1]
    ends = np.unique([free, last]) if free > 0 and most > 1 else np.array([last])
    most -= ends.size - 1
    priced = np.arange(free + 1, last + 1)
    if priced.size <= most:
        return np.union1d(ends, priced)
    wanted = np.geomspace(costs[priced[0]], costs[last], most) if most > 1 else costs[[last]]
    nearest = np.abs(np.log(costs[priced])[:, None] - np.log(wanted)).argmin(axis=0)
    return np.union1d(ends, priced[nearest])


def plan_of(
    answering: Answering,
    prunings: Sequence[Pruning],
    costs: BoundCosts,
    *,
    expected_costs: Array,
    quality: Array | None,
) -> Plan:
    """The plan whose stages are nested prunings, from cheap to costly; before the first every tree answers with its root.

    ``expected_costs`` (S,) and ``quality`` (S + 1,) are as in :class:`~anytime.plan.Plan`.
    """
    statistics = answering.statistics
    trees = statistics.trees
    whole = [
        replace(statistics, trees=cut(replace(trees, value=answering.values(pruning)), pruning.internal))
        for pruning in prunings
    ]
    n_features = trees.n_features
    return Plan(
        blocks=[TreeBlock(as_replacing_stage(forest, None, n_features, None)) for forest in whole],
        costs=costs,
        base=statistics.base,
        link=statistics.link,
        replaces=np.ones(len(whole), dtype=bool),
        quality=quality,
        expected_costs=np.maximum.accumulate(expected_costs),
    )


def voting(statistics: NodeStatistics) -> NodeStatistics:
    """The same forest with a whole vote at every node instead of the shares of the classes."""
    assert statistics.classes is not None
    link, trees = LINKS[statistics.link], statistics.trees
    n_classes = len(statistics.classes)
    if trees.value.shape[1] < link.n_outputs(n_classes):
        raise ValueError(
            f"{statistics.source} has a tree for each class, so that no tree has a vote: use vote='mean'"
        )
    votes = np.eye(n_classes)[link.transform(trees.value).argmax(axis=1)]
    trees = replace(trees, value=votes, n_outputs=n_classes)
    base = votes[trees.tree_start[:-1]].mean(axis=0)
    return replace(statistics, trees=trees, base=base, link="probability")


# ---------------------------------------------------------------------- answers, and held-out rows that judge them


@dataclass(frozen=True, eq=False)
class Marks:
    """How prunings do on held-out rows, (P,) each: as in :class:`PruningPath`, and the squared distance from the truth."""

    loss: Array
    deviation: Array
    quality: Array
    distance: Array

    def head(self, n: int) -> Marks:
        """Those of the first ``n`` prunings."""
        return Marks(self.loss[:n], self.deviation[:n], self.quality[:n], self.distance[:n])


class Answering:
    """What the nodes of prunings answer: as in their trees, or with leaves that ``lessons`` correct together.

    The cost rows of the problem are those that judge.
    """

    def __init__(self, statistics: NodeStatistics, problem: PruningProblem, lessons: Lessons | None) -> None:
        if lessons is not None and statistics.link == "probability":
            statistics = replace(statistics, link="least_squares")  # what is corrected may leave 0 to 1
        self.statistics, self.problem, self.lessons = statistics, problem, lessons
        self.marks: Marks | None = None  # of the prunings that were judged

    def values(self, pruning: Pruning) -> Array:
        """(M, W) values of the nodes of a pruning; those of the whole forest are as they were trained."""
        value = self.statistics.trees.value
        as_grown = not pruning.internal.any() or (pruning.internal == self.problem.splits).all()
        if self.lessons is None or as_grown:
            return value
        return self.lessons.fitted(self.problem, value, pruning.internal)

    def judge(self, prunings: Sequence[Pruning], truth: NDArray[Any]) -> None:
        """Set the marks of prunings on the rows of the problem."""
        link, weight = LINKS[self.statistics.link], self.problem.weight
        loss = loss_for(self.statistics.link)
        target = truth[:, 0] if truth.ndim == 2 and truth.shape[1] == 1 else truth
        wanted = truth if self.statistics.classes is None else np.eye(len(self.statistics.classes))[truth]
        judged = np.empty((4, len(prunings)))
        for p, pruning in enumerate(prunings):
            scores = self._scores(pruning)
            predicted = link.transform(scores)
            apart = ((predicted - wanted) ** 2).mean(axis=1)
            wrong = apart if self.statistics.classes is None else (predicted.argmax(axis=1) != truth) * 1.0
            mean = np.average(wrong, weights=weight)
            deviation = np.sqrt(np.average((wrong - mean) ** 2, weights=weight) / max(len(wrong) - 1, 1))
            judged[:, p] = mean, deviation, -loss(scores, target, weight), np.average(apart, weights=weight)
        self.marks = Marks(*judged)

    def is_better_than(self, other: Answering) -> bool:
        """Whether prunings come nearer to the truth of the rows that judged both, on average over the prunings."""
        if self.marks is None or other.marks is None:
            return False
        return bool(self.marks.distance.mean() < other.marks.distance.mean())

    def _scores(self, pruning: Pruning) -> Array:
        """(n, K) answers of a pruning, tree by tree: a row ends where its way is cut."""
        trees, problem = self.statistics.trees, self.problem
        each = trees.value.shape[1] == trees.n_outputs > 1 or trees.n_outputs == 1
        end, value = problem.ends(pruning.internal), self.values(pruning)
        total = np.zeros((len(problem.leaf), trees.n_outputs))
        for t, leaf in enumerate(problem.leaf.T):
            output = slice(None) if each else slice(trees.tree_output[t], trees.tree_output[t] + 1)
            total[:, output] += value[end[leaf]]
        return total / trees.n_stages
