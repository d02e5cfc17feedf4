"""Gate and cheap model as boosted trees that share what they buy: ADAPT-GBRT.

In turns a tree joins the cheap model and a tree joins the gate. A split that needs a feature for the first time must be worth its
price; what either of the two has bought is free for both. With no row allowed to the costly model the gate stays a constant and
the cheap model of two classes is Greedy Miser, tree for tree. Nan, *Learning to predict under a budget*, 2018, Algorithm 5.
Beyond it, one tree answers for all of several classes: a tenth of the trees for ten, and what it buys is paid by what all save.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from anytime.adaptive.routing import Divergence, KullbackLeibler, Learned
from anytime.adaptive.stages import constant_block
from anytime.blocks import Block
from anytime.boosting.learners import TrainingRows
from anytime.boosting.objective import MeanLoss
from anytime.boosting.rounds import GradientRounds
from anytime.costs import BoundCosts
from anytime.losses import training_loss
from anytime.plan import Array
from anytime.trees.block import TreeBlock
from anytime.trees.growing import TreeGrower
from anytime.trees.ladder import add_base

__all__ = ["BoostedPair", "BoostedPairLearner"]

_LEAST_SHARE = 1e-9  # of a row's weight that the cheap model keeps, so that it can always be fitted


@dataclass(frozen=True, eq=False)
class BoostedPair(Learned):
    """A gate and a cheap model of trees.

    Attributes
    ----------
    trees : pair of GradientRounds
        Of the cheap model and of the gate.
    bought : (G,) bool
        Groups that they use.
    """

    trees: tuple[GradientRounds, GradientRounds]
    bases: tuple[Array, Array]
    bought: NDArray[np.bool_]


class BoostedPairLearner:
    """Learns gate and cheap model as boosted trees.

    Parameters
    ----------
    table : TrainingRows
    y : (n,) int
        Numbers of classes.
    costs : BoundCosts
    cost_penalty : float, default=0
        Mean loss that one unit of cost must save. The sums of Algorithm 5 are not divided by the number of rows: its
        cost_penalty is this one times their weight.
    divergence : Divergence, default=KullbackLeibler()
    weight : (n,), default=None
    n_estimators : int, default=100
        Rounds of each of the two.
    learning_rate : float, default=0.1
    max_depth : int, default=4
    min_samples_leaf : int, default=20
    l2_regularization : float, default=0.0
    folds : int or None, default=None
        Route by what gate and cheap model say of rows that they have not learned from: both are learned again without each fold,
        on the features that were bought. A cheap model that fits its own rows too well would seem to need no help. None: by what
        they say of their own rows, as in the thesis.
    n_threads : int, default=1
    over : callable, default=never
        Whether time is up: no further tree is grown then.
    """

    rounds: ClassVar[type[GradientRounds]] = (
        GradientRounds  # what trees are grown by; the thesis has other leaves
    )

    def __init__(
        self,
        table: TrainingRows,
        y: NDArray[np.intp],
        costs: BoundCosts,
        *,
        n_classes: int | None = None,
        cost_penalty: float = 0.0,
        divergence: Divergence | None = None,
        weight: Array | None = None,
        n_estimators: int = 100,
        learning_rate: float = 0.1,
        max_depth: int | None = 4,
        min_samples_leaf: int = 20,
        l2_regularization: float = 0.0,
        folds: int | None = None,
        n_threads: int = 1,
        over: Callable[[], bool] = lambda: False,
    ) -> None:
        n_classes = int(y.max()) + 1 if n_classes is None else n_classes
        self.table, self.y, self.costs, self.cost_penalty = table, y, costs, cost_penalty
        self.divergence = KullbackLeibler() if divergence is None else divergence
        self.weight = np.ones(len(y)) if weight is None else weight
        self.loss = training_loss("logistic" if n_classes == 2 else "multinomial")
        self.n_outputs = 1 if n_classes == 2 else n_classes
        self.n_estimators, self.learning_rate = n_estimators, learning_rate
        self.over = over
        fold = np.random.RandomState(0).permutation(len(y)) % (folds or 1)
        self._folds = [np.flatnonzero(fold == k) for k in range(folds or 0)]
        self.grower = TreeGrower(
            max_leaf_nodes=None,
            max_depth=max_depth,
            min_samples_leaf=min_samples_leaf,
            l2_regularization=l2_regularization,
            cost_penalty=cost_penalty * float(self.weight.sum()),
            n_threads=n_threads,
        )

    def start(self, random: np.random.RandomState | None) -> BoostedPair:
        """Greedy Miser and no gate; with ``random``, a gate that is a random direction."""
        nobody = np.zeros(len(self.y))
        cheap, base = self._cheap(nobody)
        gate, gate_base = self._gate(nobody, cheap.bought)
        for _ in range(self.n_estimators):
            if self.over() or not cheap.round():
                break
        gate.scores[:] = 0.0 if random is None else self._random_direction(random)[:, None]
        return self._pair(cheap, gate, (base, gate_base))

    def learn(self, probabilities: Array, before: Learned) -> BoostedPair:
        """A tree for the cheap model and one for the gate in turns, as long as one of them finds a split worth its price."""
        cheap, base = self._cheap(probabilities)
        gate, gate_base = self._gate(probabilities, cheap.bought)
        # columns without a gain, with the amount bought then: they are tried again only after further purchases
        idle: dict[GradientRounds, int] = {}
        for _ in range(self.n_estimators):
            for ensemble in (cheap, gate):
                owned = 0 if ensemble.bought is None else int(ensemble.bought.sum())
                if idle.get(ensemble) != owned and not ensemble.round():
                    idle[ensemble] = owned
            if self.over() or (len(idle) == 2 and len(set(idle.values())) == 1):
                break
        return self._pair(cheap, gate, (base, gate_base))

    # ------------------------------------------------------------------ the two ensembles

    def _cheap(self, probabilities: Array) -> tuple[GradientRounds, Array]:
        """Weighted by the probability to stay."""
        objective = MeanLoss(self.loss, self.y, self.weight * np.maximum(1.0 - probabilities, _LEAST_SHARE))
        base = self.loss.base(self.y, self.n_outputs, sample_weight=objective.weight)
        return self._boosting(objective, base), base

    def _gate(self, probabilities: Array, bought: NDArray[np.bool_] | None) -> tuple[GradientRounds, Array]:
        """Fitted to the probabilities themselves: the derivatives of the logistic loss take soft labels as they are."""
        kind, target = self.divergence, self.divergence.target(probabilities)
        objective = MeanLoss(kind.loss, target, self.weight * kind.scale)
        mean = float(objective.weight @ target)
        if kind.loss.link == "logistic":
            edge = 0.5 / target.size
            mean = float(logit(np.clip(mean, edge, 1.0 - edge)))
        base = np.array([mean])
        boosting = self._boosting(objective, base)
        boosting.bought = bought  # the very same array: what one buys, both have
        return boosting, base

    def _boosting(self, objective: MeanLoss, start: Array) -> GradientRounds:
        costs = self.costs if self.cost_penalty else None
        # a split of a tree for all outputs saves about so many times what it saves of one mixture of them
        grower = replace(self.grower, cost_penalty=self.grower.cost_penalty / start.size)
        return self.rounds(
            self.table.binned,
            objective,
            grower,
            start,
            learning_rate=self.learning_rate,
            costs=costs,
            shared=True,
        )

    def _pair(self, cheap: GradientRounds, gate: GradientRounds, bases: tuple[Array, Array]) -> BoostedPair:
        bought = np.zeros(self.costs.n_groups, dtype=bool) if cheap.bought is None else cheap.bought
        price = self.costs.costs.amount(int(self.costs.prices[bought].sum()))
        return BoostedPair(
            gate=self._honest_scores(gate, bases[1], bought)[:, 0].copy(),
            cheap_loss=self.loss.per_row(self._honest_scores(cheap, bases[0], bought), self.y),
            penalty=self.cost_penalty * price,
            blocks=lambda: (_block(gate, bases[1]), _block(cheap, bases[0])),
            trees=(cheap, gate),
            bases=bases,
            bought=bought.copy(),
        )

    def _honest_scores(self, ensemble: GradientRounds, base: Array, bought: NDArray[np.bool_]) -> Array:
        """(n, K) scores of rows as if they had not been learned from, by as many trees on what was bought."""
        if not self._folds or not ensemble.rounds:
            return ensemble.scores
        columns = bought[self.costs.column_group] if self.cost_penalty else None
        grower = replace(self.grower, cost_penalty=0.0)
        scores = np.empty_like(ensemble.scores)
        for fold in self._folds:
            others = np.setdiff1d(np.arange(len(self.y)), fold)
            again = self.rounds(
                self.table.binned,
                ensemble.objective,
                grower,
                base,
                learning_rate=self.learning_rate,
                rows=others,
                columns=columns,
                shared=True,
                keep_trees=False,
            )
            while len(again.rounds) < len(ensemble.rounds) and not self.over() and again.round():
                pass
            scores[fold] = again.scores[fold]
        return scores

    def _random_direction(self, random: np.random.RandomState) -> Array:
        """(n,) A random linear score of the columns, of mean 0 and deviation 1."""
        X = np.where(np.isfinite(self.table.X), self.table.X, np.nan)
        with np.errstate(invalid="ignore", divide="ignore"):
            Z = (X - np.nanmean(X, axis=0)) / np.nanstd(X, axis=0)
        scores = np.where(np.isfinite(Z), Z, 0.0) @ random.standard_normal(X.shape[1])
        spread = float(scores.std())
        return np.asarray((scores - scores.mean()) / (spread if spread > 0 else 1.0))


def _block(boosting: GradientRounds, base: Array) -> Block:
    """All trees and the base, as one stage."""
    if not boosting.rounds:
        return constant_block(base)
    trees = boosting.trees(one_stage=True)
    add_base(trees, trees.value, base)
    return TreeBlock(trees)
