"""All that learns in a model on a stream: learners, the scales of columns and target, the numbers of categories.

One object, so that a checkpoint is one state and a reading is one snapshot.
"""

from collections.abc import Mapping
from math import sqrt
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from anytime.blocks import Block
from anytime.costs import BoundCosts
from anytime.plan import Array, Plan
from anytime.streaming.banks import Hypotheses, bank_from_state
from anytime.streaming.boosted_bank import BoostedBank
from anytime.streaming.categories import CategoryNumbers
from anytime.streaming.class_weights import ClassWeights
from anytime.streaming.interrupts import unbroken
from anytime.streaming.plans import StreamBlock, scaled_trees
from anytime.streaming.projections import Ball, Box
from anytime.streaming.rehearsal import Rehearsal
from anytime.streaming.scaling import RunningScale
from anytime.trees.block import TreeBlock

_PIECE = 1024  # rows at a time: what a round needs of memory does not grow with the chunk


class StreamState:
    """A boosted bank on rows and targets as a user has them."""

    def __init__(
        self,
        boosting: BoostedBank,
        categories: CategoryNumbers,
        columns: RunningScale | None,  # None: learners read columns as they are
        target: RunningScale | None,  # None: the target is a class
        batch_size: int,  # rows of a round
        *,
        rehearsal: Rehearsal | None = None,  # rows to learn from again; None: every row is learned from once
        class_weights: ClassWeights | None = None,  # how much rows count by their class; None: all alike
    ) -> None:
        self.boosting, self.categories = boosting, categories
        self.rehearsal, self.class_weights = rehearsal, class_weights
        self.columns, self.target, self.batch_size = columns, target, batch_size
        # weight of the rows predicted before learning, and what was wrong with them
        self._judged = [0.0, 0.0]

    @property
    def n_rows(self) -> int:
        """Rows learned from."""
        return self.boosting.n_rows

    # ------------------------------------------------------------------ learning

    def learn(self, X: Array, y: NDArray[Any], weight: Array | None) -> Array:
        """Learn from rows (n, d) in order; (n, m) the scores that each was given before it was learned.

        Ctrl-C falls between two pieces of many rows: what was learned by then stays, and is whole.
        """
        if len(X) == 1:
            return self._learn_piece(X, y, weight)
        scores = np.empty((len(X), self.boosting.bank.n_outputs))
        for rows in self.pieces(len(X)):
            with unbroken():
                scores[rows] = self._learn_piece(X[rows], y[rows], None if weight is None else weight[rows])
        return scores

    def pieces(self, n: int) -> list[slice]:
        """Rows that are learned from at a time: so many rounds that memory does not grow with the chunk."""
        size = self.batch_size * max(_PIECE // self.batch_size, 1)
        return [slice(at, at + size) for at in range(0, n, size)]

    def _learn_piece(self, X: Array, y: NDArray[Any], weight: Array | None) -> Array:
        counting = weight if self.class_weights is None else self.class_weights.apply(y, weight)
        scores = self._learn_and_rehearse(X, y, counting)
        self._judge(scores, y, weight)
        return scores

    def _learn_and_rehearse(self, X: Array, y: NDArray[Any], weight: Array | None) -> Array:
        """Learn from rows, and again from some of those kept wherever that is due."""
        n, rehearsal = len(X), self.rehearsal
        if rehearsal is None or n < rehearsal.room:
            return self._learn(X, y, weight)
        scores = np.empty((n, self.boosting.bank.n_outputs))
        at = 0
        while at < n:
            rows = slice(at, min(at + rehearsal.room, n))
            scores[rows] = self._learn(X[rows], y[rows], None if weight is None else weight[rows])
            if not rehearsal.room:
                self._rehearse(rehearsal)
            at = rows.stop
        return scores

    def _rehearse(self, rehearsal: Rehearsal) -> None:
        rehearsal.meet(self.boosting.n_alarms)
        X, y, weight = rehearsal.draw()
        if not len(X):
            return
        if self.target is not None:
            y = (y - self.target.mean) / self.target.scale
        X = X if self.columns is None else self.columns.apply(X)
        self.boosting.rehearse(X, y, weight, batch_size=self.batch_size)

    def _learn(self, X: Array, y: NDArray[Any], weight: Array | None) -> Array:
        if self.target is None:
            X = self._taken(self.categories.learn(X, 2.0 * y - 1.0), y, weight)
            return self.boosting.learn(X, y, weight, batch_size=self.batch_size)
        if self.target.frozen:
            mean, scale = self.target.mean, self.target.scale
            goal = (y - mean) / scale
            X = self._taken(self.categories.learn(X, goal), y, weight)
            return mean + scale * self.boosting.learn(X, goal, weight, batch_size=self.batch_size)
        means, scales = self.target.follow(y[:, None])
        goal = ((y[:, None] - means[1:]) / scales[1:])[:, 0]
        X = self._taken(self.categories.learn(X, goal), y, weight)
        scores = self.boosting.learn(X, goal, weight, batch_size=self.batch_size)
        return np.asarray(means[:-1] + scales[:-1] * scores)

    def _taken(self, X: Array, y: NDArray[Any], weight: Array | None) -> Array:
        """Rows as learners read them; kept for rehearsals as they are before that."""
        if self.rehearsal is not None:
            self.rehearsal.keep(X, y, weight)
        return X if self.columns is None else self.columns.advance(X)

    # ------------------------------------------------------------------ what was answered before learning

    def _judge(self, scores: Array, y: NDArray[Any], weight: Array | None) -> None:
        if len(y) == 1 and weight is None:  # one row at a time: plain numbers are quicker
            self._judged[0] += 1.0
            self._judged[1] += self._wrong_by(scores[0].tolist(), y.item())
            return
        if self.target is not None:
            wrong = (scores[:, 0] - y) ** 2
        elif scores.shape[1] == 1:
            wrong = (scores[:, 0] > 0) != (y > 0)
        else:
            wrong = scores.argmax(axis=1) != y
        for each in (wrong if weight is None else wrong * weight).tolist():  # in order, whatever the chunks
            self._judged[1] += each
        for each in [1.0] * len(y) if weight is None else weight.tolist():
            self._judged[0] += each

    def _wrong_by(self, scores: list[float], y: float) -> float:
        if self.target is not None:
            return (scores[0] - y) ** 2
        if len(scores) == 1:
            return float((scores[0] > 0) != (y > 0))
        return float(scores.index(max(scores)) != y)

    @property
    def error(self) -> float:
        """Of the answers given before learning: root mean square, or the share of wrong classes; NaN before any row."""
        count, wrong = self._judged
        if not count:
            return float("nan")
        return wrong / count if self.target is None else sqrt(wrong / count)

    # ------------------------------------------------------------------ reading

    def scores(self, X: Array) -> Array:
        """(n, m) scores by the learners as they are now, of rows whose categories are numbers already."""
        answers = self.boosting.predict(X if self.columns is None else self.columns.apply(X))
        return answers if self.target is None else self.target.mean + self.target.scale * answers

    def plan(
        self, costs: BoundCosts, link: str, *, hypotheses: Hypotheses, evaluation_cost: float, best: bool
    ) -> Plan:
        """A frozen copy: one stage per learner, each at ``evaluation_cost``; with ``best`` it ends with the best prefix."""
        boosting = self.boosting
        offset, factor = (0.0, 1.0) if self.target is None else (self.target.mean[0], self.target.scale[0])
        learners = boosting.bank.read(hypotheses)
        n = learners.n_stages
        block, replaces = self._block(learners, float(offset), float(factor))
        plan = Plan(
            blocks=[block],
            costs=costs,
            base=offset + factor * boosting.start,
            link=link,
            replaces=np.ones(n, dtype=bool) if replaces else None,
            evaluation_costs=np.full(n, evaluation_cost) if evaluation_cost else None,
            quality=self.quality(),
        )
        if not best or not self.n_rows:
            return plan
        return plan.head(max(boosting.prefix_losses.best(), 1))

    def quality(self) -> Array | None:
        """(N + 1,) minus the recent mean loss of every prefix; None before any row, or where a learner has seen none."""
        means = self.boosting.prefix_losses.means()
        return -means if np.isfinite(means).all() else None

    def _block(self, learners: Block, offset: float, factor: float) -> tuple[Block, bool]:
        """The stages, and whether they replace the answer."""
        boosting, projection = self.boosting, self.boosting.projection
        moves = -boosting.steps * boosting.gates
        a_sum = boosting.averaging == "last" and projection is None
        if a_sum and self.columns is None and isinstance(learners, TreeBlock):
            return scaled_trees(learners, factor * moves), False
        box = None
        if isinstance(projection, Box):
            sides = [np.broadcast_to(side, learners.width) for side in (projection.low, projection.high)]
            box = np.column_stack(sides)
        block = StreamBlock(
            learners,
            moves,
            boosting.start,
            offset=offset,
            factor=factor,
            centres=None if self.columns is None else self.columns.mean,
            scales=None if self.columns is None else self.columns.scale,
            box=box,
            radius=projection.size if isinstance(projection, Ball) else None,
            averaging=boosting.averaging,
        )
        return block, True

    # ------------------------------------------------------------------ files

    def state(self) -> dict[str, Any]:
        """Everything, in plain values and arrays, so that learning continues bit for bit."""
        return {
            "bank": list(self.boosting.bank.state()),
            "boosting": list(self.boosting.state()),
            "categories": self.categories.state(),
            "columns": None if self.columns is None else self.columns.state(),
            "target": None if self.target is None else self.target.state(),
            "batch_size": self.batch_size,
            "judged": list(self._judged),
            "rehearsal": None if self.rehearsal is None else self.rehearsal.state(),
            "class_weights": None if self.class_weights is None else self.class_weights.state(),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Read what ``state`` gave."""
        bank = bank_from_state(*state["bank"])
        boosting = BoostedBank.from_state(bank, *state["boosting"])
        columns, target, rehearsal = state["columns"], state["target"], state["rehearsal"]
        n_classes = max(bank.n_outputs, 2) if target is None else None
        learning = cls(
            boosting,
            CategoryNumbers.from_state(state["categories"], bank.n_features),
            None if columns is None else RunningScale.from_state(columns, bank.n_features),
            None if target is None else RunningScale.from_state(target, 1),
            int(state["batch_size"]),
            rehearsal=None
            if rehearsal is None
            else Rehearsal.from_state(rehearsal, bank.n_features, n_classes),
            class_weights=None
            if state["class_weights"] is None
            else ClassWeights.from_state(state["class_weights"], max(bank.n_outputs, 2)),
        )
        if learning.batch_size < 1:
            raise ValueError("a round has at least one row")
        learning._judged = [float(each) for each in state["judged"]]
        if len(learning._judged) != 2:
            raise ValueError("expected the total weight of the evaluated rows, and their total error")
        return learning
