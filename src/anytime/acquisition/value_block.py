"""Stages that buy what is worth its price: what purchases are worth was worked out for every set of groups."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anytime._native import Forest, row_products
from anytime.acquisition.purchase_block import FINISHED, UNDECIDED, PurchaseBlock
from anytime.acquisition.purchase_values import LearnedValues, PricesOfMoney, least_two
from anytime.blocks import Memory, State
from anytime.costs import BoundCosts
from anytime.plan import Array
from anytime.trees.growing import join

__all__ = ["AnswerInputs", "PurchaseValueBlock"]

_SCALARS = ("n_outputs", "n_features", "float32_input", "shift")
_LEAST_PROBABILITY = 1e-12
_LAST_RESORT = 1e300  # a loss that is worse than any, and less than infinite
_SETTINGS = ("width", "cost_penalty", "unanswered")


class AnswerInputs(NamedTuple):
    """What trees ask of rows: the columns, and of those that hold labels which class they name, and which of them agree.

    ``labels`` are columns whose codes are places in ``classes_of``, (l, c): the class that each code stands for, -1 for none.
    """

    n_columns: int
    labels: NDArray[np.int32]  # (l,)
    classes_of: NDArray[np.int32]  # (l, c)
    n_classes: int

    @classmethod
    def of(cls, categories: Mapping[int, Any], classes: NDArray[Any], n_columns: int) -> AnswerInputs:
        """Columns with at least two class labels among their categories hold labels."""
        place = {label: k for k, label in enumerate(classes.tolist())}
        named = {
            column: [place.get(value, -1) for value in values]
            for column, values in categories.items()
            if sum(value in place for value in values) >= 2
        }
        width = max((len(codes) for codes in named.values()), default=0)
        table = np.full((len(named), width), -1, dtype=np.int32)
        for row, codes in zip(table, named.values(), strict=True):
            row[: len(codes)] = codes
        return cls(n_columns, np.array(list(named), dtype=np.int32), table, len(classes) if named else 0)

    @property
    def pairs(self) -> NDArray[np.intp]:
        """(p, 2) places among ``labels``."""
        return np.stack(np.triu_indices(self.labels.size, 1), axis=1)

    @property
    def size(self) -> int:
        """Number of inputs."""
        return self.n_columns + self.labels.size * self.n_classes + len(self.pairs)

    def groups(self, column_group: NDArray[np.int32], n_groups: int) -> NDArray[np.bool_]:
        """(m, G) which groups an input needs."""
        own = column_group.astype(np.intp)
        named = np.repeat(own[self.labels], self.n_classes)
        first, second = own[self.labels[self.pairs]].T if len(self.pairs) else np.empty((2, 0), dtype=np.intp)
        needs = np.zeros((self.size, n_groups), dtype=bool)
        needs[np.arange(self.n_columns + named.size), np.concatenate([own, named])] = True
        rest = np.arange(self.n_columns + named.size, self.size)
        needs[rest, first] = needs[rest, second] = True
        return needs

    def matrix(self, X: Array) -> Array:
        """(n, m) inputs of rows; what a row does not have may be anything."""
        Z = np.empty((len(X), self.size))
        Z[:, : self.n_columns] = X
        if not self.labels.size:
            return Z
        codes = X[:, self.labels]
        is_class = (codes >= 0) & (codes < self.classes_of.shape[1])
        named = np.where(is_class, np.where(is_class, codes, 0.0), 0.0).astype(np.intp)
        named = np.where(is_class, self.classes_of[np.arange(self.labels.size), named], -1)
        at = self.n_columns + named.shape[1] * self.n_classes
        Z[:, self.n_columns : at] = (named[:, :, None] == np.arange(self.n_classes)).reshape(len(X), -1)
        first, second = self.pairs.T
        Z[:, at:] = (named[:, first] == named[:, second]) & (named[:, first] >= 0)
        return Z


class PurchaseValueBlock(PurchaseBlock):
    """Stage t is a row's t-th purchase, after which it is answered by all that it has.

    Where the budget does not bind, a row goes on as long as that is expected to cost less in all than ending, money being worth
    ``cost_penalty`` units of loss; where it is worth nothing, as long as there is something to buy. Where the budget binds, the
    row makes for the affordable set with which it is expected to do best.

    Parameters
    ----------
    inputs : AnswerInputs
    sets : (m, G) bool
        Sets of groups that rows may own, the first of them empty.
    steps : (e, 2) int
        Pairs of sets that are one purchase apart, by the first of each.
    forest : Forest
        A tree per stage, which gives the number of a leaf: ``n_trees`` of each set's answers, then of each set's values.
    n_trees : (2, m) int
    tables : (t,) float32
        What is said in the leaves: one table after the other, in the same order.
    money : PricesOfMoney
    costs : BoundCosts
    cost_matrix : (A, A), default=None
        What it costs to answer the second where the first is true. None: an answer costs 1 where it is wrong.
    of_options : bool, default=False
        Answers are options, and leaves tell their losses instead of probabilities.
    option_groups : (A,) int, default=None
        The group without which an option cannot be chosen; -1: it always can.
    unanswered : float, default=0
        What it costs to choose an option without its group.
    """

    kind = "values"

    def __init__(
        self,
        inputs: AnswerInputs,
        sets: NDArray[np.bool_],
        steps: NDArray[np.int32],
        forest: Forest,
        n_trees: NDArray[np.int64],
        tables: NDArray[np.float32],
        money: PricesOfMoney,
        costs: BoundCosts,
        *,
        width: int,
        cost_penalty: float = 0.0,
        cost_matrix: Array | None = None,
        of_options: bool = False,
        option_groups: NDArray[np.int32] | None = None,
        unanswered: float = 0.0,
        n_stages: int | None = None,
    ) -> None:
        self.inputs, self.sets, self.steps, self.forest_of_leaves = inputs, sets, steps, forest
        self.n_trees, self.tables, self.money, self.costs = n_trees, tables, money, costs
        self.width, self.cost_penalty = int(width), float(cost_penalty)
        self.cost_matrix, self.of_options = cost_matrix, bool(of_options)
        self.option_groups, self.unanswered = option_groups, float(unanswered)
        self._link()
        self.n_stages = self._depth if n_stages is None else int(n_stages)
        self._check()

    @classmethod
    def of(
        cls, learned: LearnedValues, inputs: AnswerInputs, costs: BoundCosts, **settings: Any
    ) -> PurchaseValueBlock:
        """What was learned, as a block."""
        parts = [*learned.answers, *learned.values]
        counts = np.array([trees.n_trees for trees, _ in parts], dtype=np.int64).reshape(2, -1)
        forest = Forest(**join([trees for trees, _ in parts]).asdict())
        tables = np.concatenate([said.astype(np.float32).ravel() for _, said in parts])
        steps = [(s, t) for s, after in enumerate(learned.sets.after) for t in after]
        return cls(
            *(
                inputs,
                learned.sets.owned,
                np.array(steps, dtype=np.int32).reshape(-1, 2),
                forest,
                counts,
                tables,
            ),
            *(learned.money, costs),
            **settings,
        )

    def _link(self) -> None:
        """Which sets follow which, and where their tables stand."""
        m = len(self.sets)
        contains = np.asarray((self.sets[None] >= self.sets[:, None]).all(axis=2))
        self.larger = [np.flatnonzero(row) for row in contains]
        self.after = [self.steps[self.steps[:, 0] == s, 1].astype(np.intp) for s in range(m)]
        points = self.money.penalty.size
        going_on = [self.larger[s].size + self.after[s].size * points for s in range(m)]
        widths = np.array([[self.width] * m, going_on])
        ends = np.cumsum(self.n_trees.ravel())
        self._first_tree = (ends - self.n_trees.ravel()).reshape(2, m)
        leaves = np.add.reduceat(self._leaves_of_trees, np.concatenate([[0], ends[:-1]])).reshape(2, m)
        sizes = (leaves * widths).ravel()
        self._shape = np.stack([leaves, widths], axis=2)
        self._table_start = (np.cumsum(sizes) - sizes).reshape(2, m)
        if int(sizes.sum()) != self.tables.size:
            raise ValueError(f"tables of {self.tables.size} numbers, but the trees need {int(sizes.sum())}")

    @cached_property
    def _leaves_of_trees(self) -> NDArray[np.int64]:
        arrays = self.forest_of_leaves.arrays()
        is_leaf = (np.asarray(arrays["feature"]) < 0).astype(np.int64)
        return np.add.reduceat(is_leaf, np.asarray(arrays["tree_start"])[:-1])

    @property
    def _depth(self) -> int:
        most = np.zeros(len(self.sets), dtype=int)
        for s in np.argsort(-self.sets.sum(axis=1), kind="stable"):
            most[s] = max((most[t] + 1 for t in self.after[s]), default=0)
        return int(most[0])

    def _check(self) -> None:
        if self.sets[0].any() or not 0 <= self.n_stages <= self._depth:
            raise ValueError("the first set has to be empty, and purchases lead from it to others")
        if not np.isfinite(self.tables).all() or not 0 <= self.cost_penalty < np.inf:
            raise ValueError("values of leaves must be finite, and cost_penalty not negative")

    # ------------------------------------------------------------------ what is said of rows

    def _said(self, kind: int, s: int, W: Array) -> Array:
        """(n, width) what the trees of a set say, on average: its answers (0), or what going on is worth (1)."""
        first, trees = int(self._first_tree[kind, s]), int(self.n_trees[kind, s])
        leaves, width = self._shape[kind, s]
        start = int(self._table_start[kind, s])
        table = self.tables[start : start + leaves * width].reshape(leaves, width)
        number = self.forest_of_leaves.stage_outputs(W, np.arange(first, first + trees))[:, :, 0].astype(
            np.intp
        )
        np.clip(number, 0, leaves - 1, out=number)
        said = np.zeros((len(W), width))
        for of_tree in number:
            said += table[of_tree]
        return said / trees

    def _expected(self, means: Array, s: int) -> Array:
        """(n, A) what each answer is expected to cost rows that own a set."""
        return expected_losses(
            means, self.sets[s], self.cost_matrix, self.of_options, self.option_groups, self.unanswered
        )

    def _inputs(self, X: Array) -> Array:
        """(n, m + 2) inputs, and room for the least two losses."""
        W = np.zeros((len(X), self.inputs.size + 2))
        W[:, :-2] = self.inputs.matrix(X)
        return W

    def means(self, X: Array, which: NDArray[np.int32]) -> Array:
        """(n, A) probabilities of classes, or mean losses of options, of rows that own these sets."""
        out = np.empty((len(X), self.width))
        for s in np.unique(which):
            rows = np.flatnonzero(which == s)
            out[rows] = self._said(0, s, self._inputs(X[rows]))
        return out

    def score(self, X: Array, which: NDArray[np.int32]) -> Array:
        """(n, A) logarithms of probabilities, or expected costs of options with their sign changed."""
        means = self.means(X, which)
        if not self.of_options:
            return np.asarray(np.log(np.clip(means, _LEAST_PROBABILITY, 1.0)))
        for s in np.unique(which):
            rows = which == s
            means[rows] = -self._expected(means[rows], s)
        return means

    # ------------------------------------------------------------------ what rows buy

    def remember(self, n_rows: int) -> Memory:
        """As all blocks of purchases (the next one is a set), which set rows own, and what money is worth to them."""
        return {
            "set": np.zeros(n_rows, dtype=np.int32),
            "penalty": np.full(n_rows, self.cost_penalty),
            **super().remember(n_rows),
        }

    @cached_property
    def everything(self) -> NDArray[np.bool_]:
        """(G,) groups of any set."""
        return np.asarray(self.sets.any(axis=0))

    def purchases(self, memory: Memory) -> NDArray[np.bool_]:
        """(n, G) what each row buys next."""
        bought = self.sets[np.maximum(memory["next"], 0)] & ~self.sets[memory["set"]]
        bought[memory["next"] < 0] = False
        return np.asarray(bought)

    def choose(self, X: Array, memory: Memory, *, go_on: Callable[[], bool] | None = None) -> bool:
        """Decide what rows that have not decided buy next; whether there was time for all."""
        undecided = memory["next"] == UNDECIDED
        for s in np.unique(memory["set"][undecided]):
            if go_on is not None and not go_on():
                return False
            rows = np.flatnonzero(undecided & (memory["set"] == s))
            self._decide(int(s), X[rows], memory, rows)
        return True

    def worth(self, s: int, X: Array) -> tuple[Array, Array]:
        """What rows that own set ``s`` can expect.

        Returns
        -------
        ended : (n, larger)
            The loss with each larger set.
        going_on : (n, steps, M)
            What going on costs in all, by step and price of money.
        """
        W = self._inputs(X)
        W[:, -2:] = least_two(self._expected(self._said(0, s, W), s))
        said = self._said(1, s, W)
        n_larger = self.larger[s].size
        return said[:, :n_larger], said[:, n_larger:].reshape(len(X), self.after[s].size, -1)

    def _decide(self, s: int, X: Array, memory: Memory, rows: NDArray[np.intp]) -> None:
        steps, larger = self.after[s], self.larger[s]
        if not steps.size:
            memory["next"][rows] = FINISHED
            return
        ended, going_on = self.worth(s, X)
        penalty, here = memory["penalty"][rows], int(np.flatnonzero(larger == s)[0])
        added = self.sets[larger] & ~self.sets[s]
        ticks = added @ self.costs.prices
        left = memory["cap"][rows] - int(self.sets[s] @ self.costs.prices)
        possible = (ticks <= left[:, None]) & ~(memory["absent"][rows][:, None] & added).any(axis=2)
        of_step = np.searchsorted(larger, steps)
        amounts = self.costs.costs.amounts(ticks)
        in_all = self._at_price(going_on, penalty, amounts[of_step])
        best = in_all.argmin(axis=1)
        spares = penalty > 0  # where money is worth nothing, rows buy as long as there is some
        ends = spares & (ended[:, here] <= in_all[np.arange(rows.size), best])
        if not possible.all():
            # what follows a purchase may be out of reach: rows make for one of the sets that are not
            at_end = np.where(possible, ended + penalty[:, None] * amounts, np.inf)
            at_end[:, here] = np.where(spares, at_end[:, here], _LAST_RESORT)
            goal = at_end.argmin(axis=1)
            on_the_way = (self.sets[larger][goal][:, None] >= self.sets[steps]).all(axis=2)
            there = np.where(on_the_way, at_end[:, of_step], np.inf)
            bound = ~possible.all(axis=1)
            best = np.where(bound, there.argmin(axis=1), best)
            ends = np.where(bound, goal == here, ends)
            # a row that would continue with more money ends for lack of it, and may be taken up again
            dear = (ticks[of_step] > left[:, None]) & ~(memory["absent"][rows][:, None] & added[of_step]).any(
                axis=2
            )
            short = bound & ends & dear.any(axis=1)
            best = np.where(short, np.where(dear, in_all, np.inf).argmin(axis=1), best)
            ends &= ~short
        price = ticks[of_step][best]
        ends &= price > 0  # what is free is had
        memory["next"][rows] = np.where(ends, FINISHED, steps[best])
        memory["price"][rows] = price
        saved = ended[:, here] - in_all[np.arange(rows.size), best]
        # where money is shared, rows without any answer come first
        memory["gain"][rows] = saved + penalty * self.costs.costs.amounts(price) if s else np.inf

    def _at_price(self, going_on: Array, penalty: Array, amounts: Array) -> Array:
        """(n, steps) what going on costs in all, between the prices of money at which it is known."""
        penalties = self.money.penalty
        at = np.clip(np.searchsorted(penalties, penalty, side="right") - 1, 0, max(penalties.size - 2, 0))
        if penalties.size == 1:
            return np.asarray(going_on[:, :, 0] + penalty[:, None] * amounts)
        share = np.clip((penalty - penalties[at]) / (penalties[at + 1] - penalties[at]), 0.0, 1.0)[:, None]
        each = np.arange(len(penalty))
        between = (1.0 - share) * going_on[each, :, at] + share * going_on[each, :, at + 1]
        return np.asarray(between + np.maximum(penalty - penalties[-1], 0.0)[:, None] * amounts)

    def buy(self, memory: Memory) -> None:
        """Let rows have what they have chosen."""
        buying = memory["next"] >= 0
        memory["set"][buying] = memory["next"][buying]
        memory["next"][buying] = UNDECIDED

    def answers(self, X: Array, memory: Memory) -> Array:
        """(n, A) scores by the sets that rows own."""
        return self.score(X, memory["set"])

    def set_of(self, owned: NDArray[np.bool_]) -> int:
        """The largest of the sets that a row with these groups has."""
        within = ~(self.sets & ~owned).any(axis=1)
        return int(np.where(within, self.sets @ self.costs.prices + self.sets.sum(axis=1), -1).argmax())

    # ------------------------------------------------------------------ as a block

    def with_penalty(self, cost_penalty: float) -> PurchaseValueBlock:
        """The block with another price of money."""
        other = copy.copy(self)
        other.cost_penalty = float(cost_penalty)
        return other

    def head(self, n_stages: int) -> PurchaseValueBlock:
        """The first ``n_stages`` purchases."""
        other = copy.copy(self)
        other.n_stages = n_stages
        return other

    def __reduce__(self) -> tuple[Any, ...]:
        description, arrays = self.state()
        return _rebuilt, (description, arrays, self.costs)

    def state(self) -> State:
        """Settings, sets, trees and what is said in their leaves."""
        trees: dict[str, Any] = dict(self.forest_of_leaves.arrays())
        description = {name: trees.pop(name) for name in _SCALARS}
        description |= {name: getattr(self, name) for name in (*_SETTINGS, "n_stages", "of_options")}
        description |= {"n_label_classes": self.inputs.n_classes}
        arrays: dict[str, NDArray[Any]] = {
            **trees,
            "labels": self.inputs.labels,
            "classes_of": self.inputs.classes_of,
            "sets": self.sets,
            "steps": self.steps,
            "n_trees": self.n_trees,
            "tables": self.tables,
            "money": np.stack(self.money),
        }
        optional = {"cost_matrix": self.cost_matrix, "option_groups": self.option_groups}
        arrays |= {name: array for name, array in optional.items() if array is not None}
        return description, arrays

    @classmethod
    def from_state(
        cls, description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], costs: BoundCosts
    ) -> PurchaseValueBlock:
        """Read what ``state`` gave."""
        own: dict[str, Any] = dict(arrays)
        settings = {name: description[name] for name in (*_SETTINGS, "n_stages", "of_options")}
        settings |= {name: own.pop(name, None) for name in ("cost_matrix", "option_groups")}
        inputs = AnswerInputs(
            costs.column_group.size, own.pop("labels"), own.pop("classes_of"), description["n_label_classes"]
        )
        sets, steps, n_trees, tables, money = (
            own.pop(name) for name in ("sets", "steps", "n_trees", "tables", "money")
        )
        forest = Forest(**own, **{name: description[name] for name in _SCALARS})
        return cls(inputs, sets, steps, forest, n_trees, tables, PricesOfMoney(*money), costs, **settings)


def expected_losses(
    means: Array,
    owned: NDArray[np.bool_],
    cost_matrix: Array | None = None,
    of_options: bool = False,
    option_groups: NDArray[np.int32] | None = None,
    unanswered: float = 0.0,
) -> Array:
    """(n, A) what each answer costs on average: of classes by their probabilities, of options by their mean losses."""
    if not of_options:
        return 1.0 - means if cost_matrix is None else row_products(np.ascontiguousarray(means), cost_matrix)
    if option_groups is None:
        return means
    return np.where((option_groups >= 0) & ~owned[option_groups], unanswered, means)


def _rebuilt(
    description: dict[str, Any], arrays: dict[str, NDArray[Any]], costs: BoundCosts
) -> PurchaseValueBlock:
    return PurchaseValueBlock.from_state(description, arrays, costs)
