"""Stages that buy for each row what most lowers the loss of rows like it, for its price.

A row's neighbours are the reference rows nearest to it on what it has bought. What a group is worth is the mean fall of their
losses, by networks that have not seen them, once they have that group too (after Valancius et al., *Acquisition conditioned
oracle*, 2023, with one group at a time, pairs and triples instead of sampled sets). Or trees say it, which have learned it
(``value_trees``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anytime._native import Neighbours
from anytime.acquisition.inputs import Inputs, ValueSteps
from anytime.acquisition.masked_networks import LAYERS, MaskedNetworks
from anytime.acquisition.masked_trees import MaskedTrees
from anytime.acquisition.purchase_block import FINISHED, UNDECIDED, PurchaseBlock
from anytime.acquisition.value_trees import what_trees_see
from anytime.blocks import Memory, State
from anytime.costs import UNLIMITED, BoundCosts
from anytime.losses import LINKS
from anytime.plan import Array
from anytime.trees.block import TreeBlock

__all__ = ["FLOOR", "MOST_FOLDS", "NeighbourBlock", "Reference"]

MOST_FOLDS = 100  # networks
_SETTINGS = ("cost_penalty", "confidence", "n_neighbors", "price_power", "look_ahead")
_KEPT = (*_SETTINGS, "n_stages", "n_threads", "trees", "values")
_DRAWN = 200  # reference rows that stand for what a first purchase may say
_AT_ONCE = 2**22  # inputs that are laid out together, of at least 1,000 rows: memory is bounded
_SLICE = 1e-3  # seconds of decisions between two looks at the clock
_LARGEST_UNIT = 1e150  # of targets, whose squares are numbers too
FLOOR = 0.05  # added to the probability of the true class: no single neighbour may count for all others


class Reference(NamedTuple):
    """Rows among which neighbours are looked for."""

    rows: NDArray[np.float32]  # (N, m): their inputs
    fold: NDArray[np.int32]  # (N,): the network that was trained without them
    labels: NDArray[np.int32] | None  # (N,): of a classifier
    values: NDArray[np.float32] | None  # (N, K): of a regressor, less the offset, in the unit
    # Networks compute in single precision. What they say is told in double: times the unit, (K,) or (1,), plus the offset, (K,)
    offset: Array | None = None
    unit: Array | None = None


_VALUES = "values_"  # in a file, before the names of what belongs to the trees of a learned policy
_ARRAYS = {  # of a block without trees
    *("columns", "kind", "centre", "scale"),
    *(*ValueSteps._fields, *MaskedNetworks._fields, *Reference._fields),
}


class NeighbourBlock(PurchaseBlock):
    """Stage t is a row's t-th purchase: the answer of the networks, and trees, to all that the row then has.

    Rows that have all there is, are sure enough, or find nothing worth its price buy nothing more and keep their answer.
    """

    kind = "neighbours"

    def __init__(
        self,
        inputs: Inputs,
        steps: ValueSteps,
        networks: MaskedNetworks,
        reference: Reference,
        costs: BoundCosts,
        *,
        cost_penalty: float = 0.0,  # loss that a unit of cost must save to be spent; 0: whatever it saves
        confidence: float | None = None,  # a row whose leading class is so likely buys nothing more
        n_neighbors: int = 20,
        price_power: float = 1.0,  # gains are compared per this power of the price
        look_ahead: int = 12,  # most promising groups of which pairs and triples are tried; 0: none
        n_stages: int | None = None,  # None: one per group that has inputs
        trees: MaskedTrees | None = None,  # which have a share of the answers
        values: TreeBlock | None = None,  # which say what groups gain; None: neighbours do
        n_threads: int = 1,
    ) -> None:
        self.inputs, self.steps, self.networks, self.reference = inputs, steps, networks, reference
        self.costs, self.trees, self.values = costs, trees, values
        self.cost_penalty, self.confidence = float(cost_penalty), confidence
        self.n_neighbors, self.look_ahead, self.n_threads = int(n_neighbors), int(look_ahead), n_threads
        self.price_power = float(price_power)
        if not 0 <= self.cost_penalty < np.inf or (confidence is not None and not 0 <= confidence <= 1):
            raise ValueError("cost_penalty must not be negative, and confidence a probability")
        if (
            inputs.column.size
            and not 0 <= inputs.column.min() <= inputs.column.max() < costs.column_group.size
        ):
            raise ValueError("an input reads a column that does not exist")
        if steps.source.size and not 0 <= steps.source.min() <= steps.source.max() < inputs.column.size:
            raise ValueError("a step belongs to an input that does not exist")
        if not (
            np.isfinite(steps.low).all() and np.isfinite(steps.high).all() and (steps.high > steps.low).all()
        ):
            raise ValueError("steps go from a number to a larger one")
        own = costs.column_group[inputs.column].astype(np.int32)
        group = self._input_group = np.concatenate([own, own[steps.source]])
        self._points = steps.expanded(reference.rows)
        self.native = Neighbours(
            costs.table,
            *(self._points, group, inputs.column.size, reference.fold, reference.labels, reference.values),
            *networks,
            n_neighbours=self.n_neighbors,
            floor=FLOOR,
            price_power=self.price_power,
            look_ahead=self.look_ahead,
        )
        self.width = networks.b3.shape[1]
        if trees is not None and (
            (trees.trees.forest.n_features, trees.trees.width, trees.trees.n_stages)
            != (inputs.column.size, self.width, 1)
            or not 0 < trees.share <= 1
        ):
            raise ValueError(
                "trees must read the inputs, answer as the networks do, and have a share between 0 and 1"
            )
        self._offset = np.zeros(self.width) if reference.offset is None else reference.offset
        if self._offset.shape != (self.width,) or not np.isfinite(self._offset).all():
            raise ValueError(f"offsets must be {self.width} finite numbers")
        unit = np.ones(1) if reference.unit is None else reference.unit
        if unit.shape not in ((1,), (self.width,)) or not ((unit > 0) & (unit < _LARGEST_UNIT)).all():
            raise ValueError(f"targets are too large: their spread must be below {_LARGEST_UNIT:.0g}")
        self._unit = unit
        self._loss_unit = float(unit.max()) ** 2  # targets in smaller units count next to nothing
        self.candidates = np.unique(group)
        n_seen = inputs.column.size + self.width + costs.n_groups
        if values is not None and (values.forest.n_features, values.width, values.n_stages) != (
            n_seen,
            self.candidates.size,
            1,
        ):
            raise ValueError(
                f"the values of {self.candidates.size} groups must be learned from {n_seen} columns"
            )
        self.n_stages = self.candidates.size if n_stages is None else n_stages
        if not 0 <= self.n_stages <= self.candidates.size:
            raise ValueError(f"{self.n_stages} purchases, but there are {self.candidates.size} groups to buy")

    def __reduce__(self) -> tuple[Any, ...]:
        settings = {name: getattr(self, name) for name in _KEPT}
        return _rebuilt, ((self.inputs, self.steps, self.networks, self.reference, self.costs), settings)

    # ------------------------------------------------------------------ what rows have

    def remember(self, n_rows: int) -> Memory:
        """As all blocks of purchases, and what rows own."""
        return {
            "owned": np.zeros((n_rows, self.costs.n_groups), dtype=bool),
            **super().remember(n_rows),
        }

    @cached_property
    def everything(self) -> NDArray[np.bool_]:
        """(G,) groups that have inputs, and what they require."""
        return np.asarray(self.costs.closure(self.candidates.astype(np.int32)), dtype=bool)

    def can_only_lack(self, memory: Memory) -> NDArray[np.bool_]:
        """(n,) rows that can have nothing but what they lack, which is then named for others to see."""
        wanted = np.maximum(memory["next"], 0)
        return np.asarray((memory["next"] >= 0) & memory["absent"][np.arange(wanted.size), wanted])

    def purchases(self, memory: Memory) -> NDArray[np.bool_]:
        """(n, G) what each row buys next: a group, and what that requires and the row does not lack."""
        wanted = memory["next"]
        bought = self.required[wanted] & ~memory["absent"]
        bought[np.arange(wanted.size), wanted] = True
        bought[wanted < 0] = False
        return np.asarray(bought)

    @cached_property
    def required(self) -> NDArray[np.bool_]:
        """(G, G) each group with what it requires."""
        required = np.zeros((self.costs.n_groups, self.costs.n_groups), dtype=bool)
        for g in range(self.costs.n_groups):
            required[g, self.costs.table.closure(g)] = True
        return required

    def matrix(self, X: Array) -> NDArray[np.float32]:
        """(n, m) inputs of rows."""
        return self.steps.expanded(self.inputs.matrix(X).astype(np.float32))

    # ------------------------------------------------------------------ a stage

    def choose(
        self,
        X: Array,
        memory: Memory,
        own: NDArray[np.int64] | None = None,
        go_on: Callable[[], bool] | None = None,
    ) -> bool:
        """Decide what rows that have not decided buy next; whether there was time for all.

        Parameters
        ----------
        own : (n,), default=None
            Their own places among the reference rows, -1: none.
        go_on : callable, default=None
            Asked about every millisecond. None: there is time.
        """
        rows = np.flatnonzero(memory["next"] == UNDECIDED)
        if rows.size > self._at_once:  # those that have the same share most of the work
            rows = rows[np.lexsort(np.packbits(memory["owned"][rows], axis=1).T)]
        at, size = 0, self._at_once if go_on is None else 1
        while at < rows.size:
            if go_on is not None and not go_on():
                return False
            began, some = time.perf_counter(), rows[at : at + size]
            self._decide(X[some], memory, some, None if own is None else own[some])
            at += size
            if go_on is not None:
                pace = max((time.perf_counter() - began) / size, 1e-9)
                size = max(1, min(int(_SLICE / pace), 2 * size, self._at_once))
        return True

    def _decide(
        self, X: Array, memory: Memory, rows: NDArray[np.intp], own: NDArray[np.int64] | None
    ) -> None:
        """What rows, of which ``X`` holds the values, buy next."""
        owned, absent, inputs = memory["owned"][rows], memory["absent"][rows], self.matrix(X)
        left = memory["cap"][rows] - owned @ self.costs.prices
        # what a row has needs nothing that it lacks: the decision supposes the mean of that
        supposed = absent & (~absent @ self.required) if absent.any() else absent
        inputs[supposed[:, self._input_group]] = 0.0
        if self.values is None:
            group, price, gain, _ = self.native.choose(
                inputs, owned | supposed, absent, left, own, threads=self.n_threads
            )
        else:
            group, price, gain = self._by_value(inputs, owned | supposed, absent, left)
        gain = gain * self._loss_unit
        # what is free is had; a row that lacks the money may go on when it has more
        over = (price > 0) & (price <= left) & (gain < self._tick_penalty * price) & (self.cost_penalty > 0)
        if self.confidence is not None:
            over |= self._confidences(inputs, owned) >= self.confidence
        missed = supposed[:, self.candidates]  # where nothing else is left, it is named for others to see
        group = np.where((group < 0) & missed.any(axis=1), self.candidates[missed.argmax(axis=1)], group)
        memory["next"][rows] = np.where(over, FINISHED, group)
        memory["gain"][rows], memory["price"][rows] = gain, price

    def _gains(self, inputs: NDArray[np.float32], owned: NDArray[np.bool_]) -> Array:
        """(n, C) by how much each candidate lowers the loss, by the learned policy."""
        assert self.values is not None
        said = np.asarray(self.native.scores(inputs, owned, threads=self.n_threads))
        m, classes = self.inputs.column.size, self.reference.labels is not None
        return self.values.outputs(
            0, what_trees_see(inputs[:, :m], owned, self._input_group[:m], said, classes)
        )

    def _by_value(
        self,
        inputs: NDArray[np.float32],
        owned: NDArray[np.bool_],
        barred: NDArray[np.bool_],
        left: NDArray[np.int64],
    ) -> tuple[NDArray[np.int32], NDArray[np.int64], Array]:
        """The group of most gain per price that each row can have, its price and its gain, as neighbours would say it.

        A row that can pay for nothing names what it would buy with more money; one that can have nothing, what it lacks.
        """
        gains, needed = self._gains(inputs, owned), self.required[self.candidates].T
        price = (~owned * self.costs.prices) @ needed
        weight = np.maximum(price, 1).astype(np.float64) ** self.price_power
        rate = np.where(gains > 0, gains / weight, gains * weight)
        rate[price == 0] = np.inf
        rate[owned[:, self.candidates]] = -np.inf
        out_of_reach = (barred & ~owned) @ needed
        wanted = np.where(out_of_reach | (price > left[:, None]), -np.inf, rate)
        for more in (np.where(out_of_reach, -np.inf, rate), rate):
            none = (wanted == -np.inf).all(axis=1)
            wanted[none] = more[none]
        best = wanted.argmax(axis=1)
        rows = np.arange(len(best))
        group = np.where(wanted[rows, best] > -np.inf, self.candidates[best], FINISHED).astype(np.int32)
        return group, price[rows, best], gains[rows, best]

    @property
    def _at_once(self) -> int:
        return max(_AT_ONCE // max(self._input_group.size, 1), 1000)

    @property
    def _tick_penalty(self) -> float:
        return self.cost_penalty * self.costs.costs.amount(1)

    def _confidences(self, inputs: NDArray[np.float32], owned: NDArray[np.bool_]) -> Array:
        scores = self._said(inputs, owned)
        return np.asarray(1.0 / np.exp(scores - scores.max(axis=1, keepdims=True)).sum(axis=1))

    def begin(self) -> None:
        """Work out the first purchase, which is the same for all rows: it takes longest, and nobody is to wait for it later."""
        if self.values is not None:
            return
        nothing = np.zeros((1, self.costs.n_groups), dtype=bool)
        inputs = np.zeros((1, self._input_group.size), dtype=np.float32)
        self.native.choose(inputs, nothing, nothing, np.array([UNLIMITED - 1], dtype=np.int64))

    def expectations(self, X: Array, owned: NDArray[np.bool_]) -> tuple[int, Array, Array]:
        """Of one row: what it buys next (-1: nothing), what each group gains, and by how much it changes the answer.

        What a group may say is what it says of the neighbours. (G,) each, NaN where a group is owned or has no inputs. The
        change is the probability of another class; of numbers, the mean absolute change.
        """
        inputs, own = self.matrix(X), owned[None]
        nothing, much = np.zeros_like(own), np.array([UNLIMITED - 1], dtype=np.int64)
        gains: Any
        if self.values is None:
            group, _, _, gains = self.native.choose(inputs, own, nothing, much, all_gains=True)
        else:
            group, gains = self._by_value(inputs, own, nothing, much)[0], np.full(own.shape, np.nan)
            gains[:, self.candidates] = self._gains(inputs, own)
            gains[own] = np.nan
        now, n = self._said(inputs, own)[0], len(self.reference.rows)
        near = self.native.nearest(inputs, own)[0] if owned.any() else np.arange(0, n, max(n // _DRAWN, 1))
        changes = np.full(self.costs.n_groups, np.nan)
        for g in self.candidates[~owned[self.candidates]]:
            added = self.required[g] & ~owned
            imagined = np.where(added[self._input_group], self._points[near], inputs)
            said = self._said(imagined, np.repeat(own | added, near.size, axis=0))
            if self.reference.labels is None:
                changes[g] = (np.abs(said - now) * self._unit).mean()
            else:
                changes[g] = (said.argmax(axis=1) != now.argmax()).mean()
        return int(group[0]), gains[0] * self._loss_unit, changes

    def buy(self, memory: Memory) -> None:
        """Let rows have what they have chosen."""
        memory["owned"] |= self.purchases(memory)
        memory["next"][memory["next"] >= 0] = UNDECIDED

    def proceed(self, first: int, stage: int, X: Array, memory: Memory) -> Array:
        """Buy once per stage, and answer by all that was bought."""
        all_at_once = stage - first + 1 == self.candidates.size > 1 and self._buys_all(memory)
        if not all_at_once:
            return super().proceed(first, stage, X, memory)
        memory["owned"][:] = self.required[self.candidates].any(axis=0)
        memory["next"][:] = FINISHED
        return self.answers(X, memory)

    def answers(self, X: Array, memory: Memory) -> Array:
        """(n, K) what the networks say of rows by what they own."""
        return self.score(X, memory["owned"])

    def _buys_all(self, memory: Memory) -> bool:
        stops = self.cost_penalty > 0 or self.confidence is not None
        return not stops and bool((memory["cap"] == UNLIMITED).all()) and not memory["absent"].any()

    def score(self, X: Array, owned: NDArray[np.bool_]) -> Array:
        """(n, K) what is said of rows that own these groups."""
        scores = np.empty((len(X), self.width))
        for at in range(0, len(X), self._at_once):
            some = slice(at, at + self._at_once)
            scores[some] = self._said(self.matrix(X[some]), np.ascontiguousarray(owned[some]))
        return scores * self._unit + self._offset

    def held_out_losses(self, own: NDArray[np.intp], owned: NDArray[np.bool_], fold: int) -> Array:
        """(n,) what reference rows of a fold lose that own these groups, (n, G), by the network that has not seen them."""
        scores = self.networks.scores(fold, self._points[own], owned, self._input_group).astype(np.float64)
        if self.reference.labels is None:
            assert self.reference.values is not None
            return np.asarray(np.square(scores - self.reference.values[own]).sum(axis=1))
        told = LINKS["softmax"].transform(scores)
        told[np.arange(own.size), self.reference.labels[own]] -= 1.0
        return np.asarray(np.square(told).sum(axis=1))

    def _said(self, inputs: NDArray[np.float32], owned: NDArray[np.bool_]) -> Array:
        """(n, K) scores of rows that own these groups, in the unit of the networks."""
        scores = np.asarray(self.native.scores(inputs, owned, threads=self.n_threads))
        return scores if self.trees is None else self.trees.blended(scores, inputs, owned, self._input_group)

    # ------------------------------------------------------------------ as a block

    def head(self, n_stages: int) -> NeighbourBlock:
        """The first ``n_stages`` purchases."""
        return self.changed(n_stages=n_stages)

    def changed(self, **changes: Any) -> NeighbourBlock:
        """The same with other settings."""
        settings = {name: getattr(self, name) for name in _KEPT} | changes
        parts = (self.inputs, self.steps, self.networks, self.reference, self.costs)
        return type(self)(*parts, **settings)

    def state(self) -> State:
        """Settings, inputs, networks and reference rows."""
        arrays: dict[str, NDArray[Any]] = {
            "columns": self.inputs.column,
            **{name: getattr(self.inputs, name) for name in ("kind", "centre", "scale")},
            **self.steps._asdict(),
            **self.networks._asdict(),
            **{name: part for name, part in self.reference._asdict().items() if part is not None},
        }
        description: dict[str, Any] = {name: getattr(self, name) for name in (*_SETTINGS, "n_stages")}
        if self.trees is not None:
            of_trees, of_nodes = self.trees.trees.state()
            description |= {**of_trees, "tree_share": self.trees.share}
            arrays |= of_nodes
        if self.values is not None:
            for parts, own in ((description, 0), (arrays, 1)):
                parts |= {_VALUES + name: part for name, part in self.values.state()[own].items()}
        return description, arrays

    @classmethod
    def from_state(
        cls, description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], costs: BoundCosts
    ) -> NeighbourBlock:
        """Read what ``state`` gave."""
        column, kind, centre, scale = (arrays[name] for name in ("columns", "kind", "centre", "scale"))
        if not column.size == kind.size == centre.size == scale.size == arrays["rows"].shape[1]:
            raise ValueError("the inputs of purchases by neighbours do not fit together")
        if not (np.isfinite(centre).all() and np.isfinite(scale).all() and (scale > 0).all()):
            raise ValueError("inputs need finite centres and positive scales")
        inputs = Inputs(column, kind, centre, scale, np.empty((0, 2), dtype=np.int32))
        if not arrays["source"].size == arrays["low"].size == arrays["high"].size:
            raise ValueError("the steps of purchases by neighbours do not fit together")
        steps = ValueSteps(arrays["source"], arrays["low"], arrays["high"])
        networks = MaskedNetworks(*(arrays[name] for name in LAYERS))
        said = (arrays.get(name) for name in ("labels", "values", "offset", "unit"))
        reference = Reference(arrays["rows"], arrays["fold"], *said)
        settings = {name: description[name] for name in (*_SETTINGS, "n_stages")}
        of_values = [
            {name.removeprefix(_VALUES): part for name, part in parts.items() if name.startswith(_VALUES)}
            for parts in (description, arrays)
        ]
        if of_values[0]:
            settings["values"] = TreeBlock.from_state(of_values[0], of_values[1])
        if "tree_share" in description:
            of_nodes = {
                name: part
                for name, part in arrays.items()
                if name not in _ARRAYS and not name.startswith(_VALUES)
            }
            settings["trees"] = MaskedTrees(
                TreeBlock.from_state(description, of_nodes), description["tree_share"]
            )
        return cls(inputs, steps, networks, reference, costs, **settings)


def _rebuilt(parts: tuple[Any, ...], settings: dict[str, Any]) -> NeighbourBlock:
    block = NeighbourBlock(*parts, **settings)
    block.begin()
    return block
