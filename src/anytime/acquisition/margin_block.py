"""Stages that buy for each row what has most to say about rows like it: fast margin-based cost-sensitive classification.

Nan et al. 2014; Nan 2018, chapter 2. A row's neighbours are reference points that look like it on what is known of it. Of the
groups it does not have, it buys the one with which most neighbours would be on the right side, less what it costs.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anytime._native import Margins
from anytime.acquisition.additive import AdditiveClassifier, LinearTerms, StepTerms
from anytime.acquisition.purchase_block import FINISHED, UNDECIDED
from anytime.blocks import Block, Memory, State
from anytime.costs import BoundCosts
from anytime.plan import Array

__all__ = ["ACQUISITIONS", "DISTANCES", "NEIGHBOURHOODS", "MarginBlock", "scaling"]

NEIGHBOURHOODS = ("nearest", "radius", "exact")
DISTANCES = ("standardised", "raw", "contributions")
ACQUISITIONS = ("margin", "random")

_MOST_RUNNING = 1 << 24  # numbers that are kept of rows and reference points; beyond that they are made again
_RUNNING = ("margins", "distances")
_SETTINGS = (
    *("cost_penalty", "confidence", "neighbourhood", "n_neighbors", "radius", "refresh"),
    *("distance", "acquisition", "seed"),
)


class MarginBlock(Block):
    """Stage t is a row's t-th purchase: it gives the additive score of what the row then has.

    Rows that have all there is, or are sure enough, buy nothing more and keep their score.
    """

    kind = "margins"
    width = 1

    def __init__(
        self,
        classifier: AdditiveClassifier,
        reference: ArrayLike,  # (n, d): points to look for neighbours among, NaN where a value is missing
        positive: ArrayLike,  # (n,): their class
        costs: BoundCosts,
        *,
        cost_penalty: float = 0.0,  # accuracy that one unit of cost must bring to be spent
        confidence: float | None = None,  # a row whose estimated accuracy is above this buys nothing more
        # where nobody is within the radius, or exactly alike, the nearest count
        neighbourhood: str = "nearest",
        n_neighbors: int = 65,
        radius: float = 1.0,
        # estimate accuracy after a purchase on neighbours found anew. False: on those by which the purchase was
        # chosen
        refresh: bool = True,
        # distances between rows in deviations of the reference points, in the columns' own units, or between
        # terms of the score
        distance: str = "standardised",
        acquisition: str = "margin",
        seed: int = 0,  # of random purchases
        n_stages: int | None = None,  # None: one per group that the classifier uses
        n_threads: int = 1,
    ) -> None:
        self.classifier, self.costs = classifier, costs
        self.reference = np.ascontiguousarray(reference, dtype=np.float64)
        self.positive = np.ascontiguousarray(positive, dtype=bool)
        self.cost_penalty, self.confidence = float(cost_penalty), confidence
        self.neighbourhood, self.n_neighbors, self.radius = neighbourhood, int(n_neighbors), float(radius)
        self.refresh, self.distance, self.acquisition, self.seed = refresh, distance, acquisition, int(seed)
        self.n_threads = n_threads
        self._check()
        # What the classifier does not use cannot change an answer, so nobody buys it.
        self.candidates = np.zeros(costs.n_groups, dtype=bool)
        self.candidates[costs.column_group[classifier.used]] = True
        every = int(self.candidates.sum())
        self.n_stages = every if n_stages is None else n_stages
        if not 0 <= self.n_stages <= every:
            raise ValueError(f"{self.n_stages} purchases, but there are {every} groups to buy")
        self._native = self._margins()

    def _check(self) -> None:
        n, d = self.reference.shape if self.reference.ndim == 2 else (0, -1)
        if n == 0 or d != self.classifier.n_features or d != self.costs.column_group.size:
            raise ValueError(
                f"reference points of shape {self.reference.shape} for a classifier of {self.classifier.n_features} columns "
                f"and prices of {self.costs.column_group.size}"
            )
        if self.positive.shape != (n,):
            raise ValueError(f"{n} reference points, but classes of shape {self.positive.shape}")
        if np.isinf(self.reference).any():
            raise ValueError("reference points must be finite, or NaN where a value is missing")
        for name, allowed in (
            ("neighbourhood", NEIGHBOURHOODS),
            ("distance", DISTANCES),
            ("acquisition", ACQUISITIONS),
        ):
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}, not {getattr(self, name)!r}")
        if not (0 <= self.cost_penalty < np.inf and 0 <= self.radius < np.inf and self.n_neighbors >= 1):
            raise ValueError("cost_penalty and radius must not be negative, and n_neighbors at least 1")
        if self.confidence is not None and not 0 <= self.confidence <= 1:
            raise ValueError(f"confidence must be a share of rows, 0 to 1, not {self.confidence}")

    def _margins(self) -> Margins:
        label = np.where(self.positive, 1.0, -1.0)
        contributions = label[:, None] * self._by_group(self.classifier.contributions(self.reference))
        return Margins(
            self.costs.table,
            label * self.classifier.offset,
            np.ascontiguousarray(contributions),
            np.ascontiguousarray(self._filled.T),
            self.candidates,
            neighbourhood=NEIGHBOURHOODS.index(self.neighbourhood),
            n_neighbours=self.n_neighbors,
            radius=self.radius,
            tick_weight=self._tick_weight,
            enough=np.inf if self.confidence is None else self.confidence,
            refresh=self.refresh,
            random=self.acquisition == "random",
            seed=self.seed,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (
            (self.classifier, self.reference, self.positive, self.costs),
            {name: getattr(self, name) for name in (*_SETTINGS, "n_stages", "n_threads")},
        )

    @property
    def _tick_weight(self) -> float:
        return self.cost_penalty * self.costs.costs.amount(1)

    # ------------------------------------------------------------------ where rows stand

    @cached_property
    def _scaling(self) -> tuple[Array, Array]:
        return scaling(self.reference)

    @cached_property
    def _filled(self) -> Array:
        """(n, d) coordinates of the reference points; a missing value counts as the mean."""
        mean, _ = self._scaling
        return self.coordinates(np.where(np.isnan(self.reference), mean, self.reference))

    def coordinates(self, X: Array) -> Array:
        """(n, d) where rows stand: distances are between these."""
        if self.distance == "raw":
            return np.ascontiguousarray(X)
        if self.distance == "contributions":
            return self.classifier.contributions(X)
        mean, deviation = self._scaling
        return (X - mean) / deviation

    def _by_group(self, contributions: Array) -> Array:
        """(n, G) contributions added up within groups."""
        out = np.zeros((len(contributions), self.costs.n_groups))
        for j in np.flatnonzero(self.classifier.used):
            out[:, self.costs.column_group[j]] += contributions[:, j]
        return out

    # ------------------------------------------------------------------ a stage

    def remember(self, n_rows: int) -> Memory:
        """The order of purchases, the next one once it is chosen, and running sums over reference points where there is room."""
        memory: Memory = {
            "order": np.full((n_rows, self.costs.n_groups), -1, dtype=np.int32),
            "owned": np.zeros(n_rows, dtype=np.int32),
            "next": np.full(n_rows, UNDECIDED, dtype=np.int32),
            "estimate": np.zeros(n_rows),
            "promise": np.zeros(n_rows),
        }
        if n_rows * len(self.reference) <= _MOST_RUNNING:
            memory |= {name: np.zeros((n_rows, len(self.reference))) for name in _RUNNING}
        return memory

    @cached_property
    def _everything(self) -> NDArray[np.int64]:
        """What a row may buy, requirements included, increasing."""
        return np.flatnonzero(self.costs.closure(np.flatnonzero(self.candidates).astype(np.int32)))

    @cached_property
    def _first(self) -> NDArray[np.int32]:
        """Columns of the first purchase, which is the same for all rows."""
        d = self.reference.shape[1]
        first = self.reads(0, np.full((1, d), np.nan), self.remember(1))
        return np.flatnonzero(first).astype(np.int32)

    def columns(self, stage: int) -> NDArray[np.int32]:
        """All that a row may have bought by then."""
        return self._later if stage else self._first

    @cached_property
    def _later(self) -> NDArray[np.int32]:
        return np.flatnonzero(np.isin(self.costs.column_group, self._everything)).astype(np.int32)

    def reads(self, stage: int, X: Array, memory: Memory) -> NDArray[np.bool_]:
        """The columns of the group that each row buys next, and of what that requires."""
        self.choose(X, memory)
        columns = np.zeros(X.shape, dtype=bool)
        for group in np.unique(memory["next"]):
            if group >= 0:
                bought = np.isin(self.costs.column_group, self.costs.table.closure(group))
                columns[memory["next"] == group] = bought
        return columns

    def choose(self, X: Array, memory: Memory) -> None:
        """Decide what each row buys next, and estimate its accuracy now: ``memory["next"]`` and ``memory["estimate"]``."""
        self._native.choose(self.coordinates(X), **self._running(memory), threads=self.n_threads)

    def proceed(self, first: int, stage: int, X: Array, memory: Memory) -> Array:
        """Buy once per stage, and give the score of all that was bought."""
        purchases = stage - first + 1
        everything = purchases > 1 and purchases == int(self.candidates.sum())  # in one go
        if everything and self.confidence is None:
            self._buy_everything(memory)
        else:
            self._native.proceed(
                self.coordinates(X), **self._running(memory), purchases=purchases, threads=self.n_threads
            )
        return self.score(X, self.bought(memory))

    def outputs(self, stage: int, X: Array) -> Array:
        """``proceed`` from nothing."""
        return self.proceed(0, stage, X, self.remember(len(X)))

    @staticmethod
    def _running(memory: Memory) -> dict[str, Any]:
        return dict.fromkeys(_RUNNING) | memory

    def _buy_everything(self, memory: Memory) -> None:
        """Whoever buys all, and is not asked on the way, need not know in which order."""
        memory["order"][:, : self._everything.size] = self._everything
        memory["owned"][:] = self._everything.size
        memory["next"][:] = FINISHED

    def bought(self, memory: Memory) -> NDArray[np.bool_]:
        """(n, G) groups that rows have."""
        has = np.zeros(memory["order"].shape, dtype=bool)
        row, place = np.nonzero(memory["order"] >= 0)
        has[row, memory["order"][row, place]] = True
        return has

    def score(self, X: Array, bought: NDArray[np.bool_]) -> Array:
        """(n, 1) offset and terms of what was bought. A score of 0 speaks for the larger class."""
        terms = np.where(bought[:, self.costs.column_group], self.classifier.contributions(X), 0.0)
        # all columns in their order: the same bits whatever the order of purchase
        score = self.classifier.offset + terms.sum(axis=1)
        return np.where(score == 0, self.undecided, score)[:, None]

    @property
    def undecided(self) -> float:
        """The score of a row of which nothing speaks for either class."""
        return 2.0**-40 if 2 * self.positive.sum() > self.positive.size else 0.0

    # ------------------------------------------------------------------ as a block

    def head(self, n_stages: int) -> MarginBlock:
        """The first ``n_stages`` purchases."""
        return self.changed(n_stages=n_stages)

    def changed(self, **changes: Any) -> MarginBlock:
        """The same with other settings."""
        settings = {name: getattr(self, name) for name in (*_SETTINGS, "n_threads", "n_stages")} | changes
        return type(self)(self.classifier, self.reference, self.positive, self.costs, **settings)

    def state(self) -> State:
        """Settings, reference points, and the terms of the classifier."""
        description, arrays = self.classifier.state()
        settings = {name: getattr(self, name) for name in (*_SETTINGS, "n_stages")}
        description |= {"classifier": self.classifier.kind, **settings}
        return description, {"reference": self.reference, "positive": self.positive, **arrays}

    @classmethod
    def from_state(
        cls, description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], costs: BoundCosts
    ) -> MarginBlock:
        """Read what ``state`` gave."""
        terms = LinearTerms if description["classifier"] == "linear" else StepTerms
        own = {name: array for name, array in arrays.items() if name not in ("reference", "positive")}
        settings = {name: description[name] for name in (*_SETTINGS, "n_stages")}
        classifier = terms(offset=description["offset"], **own)
        return cls(classifier, arrays["reference"], arrays["positive"], costs, **settings)


def scaling(X: Array) -> tuple[Array, Array]:
    """Mean and deviation of each column, missing values left out; 0 and 1 where there is nothing to measure."""
    there = ~np.isnan(X)
    count = np.maximum(there.sum(axis=0), 1)
    mean = np.where(there, X, 0.0).sum(axis=0) / count
    deviation = np.sqrt((np.where(there, X - mean, 0.0) ** 2).sum(axis=0) / count)
    return mean, np.where(deviation > 0, deviation, 1.0)


def _rebuilt(parts: tuple[Any, ...], settings: dict[str, Any]) -> MarginBlock:
    return MarginBlock(*parts, **settings)
