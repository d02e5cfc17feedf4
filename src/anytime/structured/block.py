"""Stages that refine the labels of structures: each selects regions by what is known so far, and adds to their scores.

Grubb, *Anytime Prediction*, 2014: a weak predictor is a selector and a predictor (section 3.2), and regions are selected by the
mean entropy of the current predictions of their elements (7.9).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anytime.blocks import Block, Memory, State
from anytime.ragged import Ragged
from anytime.structured.beliefs import Beliefs, entropies
from anytime.structured.predictors import LinearPredictor, RegionPredictor, TreePredictor
from anytime.structured.structures import WHOLE, Array, Structures

__all__ = ["EntropySelector", "StructuredBlock", "Update"]

_PREDICTORS: dict[str, type[LinearPredictor] | type[TreePredictor]] = {
    "linear": LinearPredictor,
    "tree": TreePredictor,
}


@dataclass(frozen=True)
class EntropySelector:
    """Which regions a stage works on.

    Attributes
    ----------
    level : int, default=0
        The regions that are worked on.
    threshold : float, default=-inf
        They are those whose elements' current predictions have more than this mean entropy, in nats; -inf: all.
    measured_at : int or None, default=None
        The level of regions whose mean counts, not below ``level``: ``WHOLE`` lets structures be worked on as a whole, or not at
        all. None: that of the regions themselves.
    """

    level: int = 0
    threshold: float = -np.inf
    measured_at: int | None = None

    @property
    def takes_all(self) -> bool:
        """Whether every region is selected, whatever is predicted."""
        return self.threshold == -np.inf

    def select(self, structures: Structures, probabilities: Array) -> NDArray[np.intp] | None:
        """Regions of ``level`` that are selected, given (E, K) distributions; None: all."""
        if self.takes_all:
            return None
        return self._above(structures, structures.regions(self._measured).mean(entropies(probabilities)))

    def select_by(self, structures: Structures, beliefs: Beliefs) -> NDArray[np.intp] | None:
        """The same by what is kept of the scores so far."""
        return None if self.takes_all else self._above(structures, beliefs.mean_entropies(self._measured))

    @property
    def _measured(self) -> int:
        return self.level if self.measured_at is None else self.measured_at

    def _above(self, structures: Structures, means: Array) -> NDArray[np.intp]:
        above = means > self.threshold
        if self._measured != self.level:
            measured = structures.regions(self._measured)
            above = above[measured.label[structures.regions(self.level).first]]
        return np.flatnonzero(above)


@dataclass(frozen=True, eq=False)
class Update:
    """One stage: selector, predictor and the step by which its outputs are multiplied.

    ``replaces``: whether they take the place of the scores so far, of which only the context then tells; all elements have
    to be selected. A step below 1 goes only that part of the way to them.
    """

    selector: EntropySelector
    predictor: RegionPredictor
    step: float
    replaces: bool = False

    def features(
        self, structures: Structures, probabilities: Array | None, which: NDArray[np.intp] | None
    ) -> Array:
        """(m, c + q) what the predictor reads of regions ``which``."""
        read = structures.read(self.selector.level, self.predictor.columns, which)
        if not self.predictor.context.size:
            return read
        assert probabilities is not None
        context = structures.context(self.selector.level, probabilities)
        if self.predictor.context.size < context.shape[1]:
            context = context[:, self.predictor.context]
        return np.hstack([read, context if which is None else context[which]])

    def change(self, structures: Structures, scores: Array) -> Array:
        """(E, K) what is added to the (E, K) scores so far, or takes their place."""
        probabilities = which = None
        if self.predictor.context.size or not self.selector.takes_all:
            beliefs = structures.beliefs(scores)
            probabilities, which = beliefs.probabilities, self.selector.select_by(structures, beliefs)
        if which is not None and not which.size:
            return np.zeros_like(scores)
        added = self.step * self.predictor.outputs(self.features(structures, probabilities, which))
        if self.replaces and self.step != 1:
            added += (1 - self.step) * scores
        regions = structures.regions(self.selector.level)
        if which is not None:
            everywhere = np.zeros((regions.n_regions, scores.shape[1]))
            everywhere[which] = added
            added = everywhere
        return added if regions.are_elements else added[regions.label]


class StructuredBlock(Block):
    """Stages that are updates of the scores of all elements.

    Parameters
    ----------
    updates : sequence of Update
    width : int
        Number of classes.
    n_columns : int
        Columns of the price list.
    offsets : (S, K), default=None
        What is added to the scores of all elements in the answer after each stage. The next stage continues from the scores
        without it, so that stages select, read and add what they do without offsets. They are for stages that add to the scores,
        and for structures that lack no column. None: nothing is added.
    """

    kind = "structured"
    uses_answer = True

    def __init__(
        self, updates: Sequence[Update], width: int, n_columns: int, offsets: Array | None = None
    ) -> None:
        self.updates, self.width, self.n_columns, self.offsets = tuple(updates), width, n_columns, offsets
        self.n_stages = len(self.updates)
        if offsets is not None:
            if offsets.shape != (self.n_stages, width) or not np.isfinite(offsets).all():
                raise ValueError(
                    f"offsets of stages must be finite numbers of shape ({self.n_stages}, {width})"
                )
            if any(update.replaces for update in self.updates):
                raise ValueError("stages that replace the scores have no offsets")
        for update in self.updates:
            predictor = update.predictor
            if predictor.width != width:
                raise ValueError(f"a stage gives {predictor.width} numbers per element, not {width}")
            if (
                predictor.columns.size
                and not 0 <= predictor.columns.min() <= predictor.columns.max() < n_columns
            ):
                raise ValueError(f"a stage reads a column that is not among the {n_columns}")
            if not np.isfinite(update.step):
                raise ValueError("the step of a stage must be finite")
            if update.replaces and not update.selector.takes_all:
                raise ValueError("a stage that replaces the scores works on all elements")

    def columns(self, stage: int) -> NDArray[np.int32]:
        """Columns that ``stage`` may read, increasing."""
        return self.updates[stage].predictor.columns

    def outputs(self, stage: int, X: Any) -> Any:
        """Stages continue from the scores so far: see ``proceed``."""
        raise TypeError("stages of structures continue from the current scores; use proceed")

    def reads(self, stage: int, X: Any, memory: Memory) -> NDArray[np.bool_] | None:
        """(n, d) columns that ``stage`` reads of each structure: none of one in which nothing is selected."""
        update, scores = self.updates[stage], self.scores_before(stage, memory["answer"].values)
        if update.selector.takes_all or not len(scores):
            return None
        which = update.selector.select_by(X, X.beliefs(scores))
        assert which is not None
        owner = X.regions(WHOLE).label[X.regions(update.selector.level).first[which]]
        columns = np.zeros((len(X), self.n_columns), dtype=bool)
        columns[np.ix_(np.unique(owner), update.predictor.columns)] = True
        return columns

    def proceed(self, first: int, stage: int, X: Any, memory: Memory) -> Any:
        """What ``stage`` adds to the answer of all elements."""
        answer: Ragged = memory["answer"]
        added = self.updates[stage].change(X, self.scores_before(stage, answer.values))
        if self.offsets is not None:
            added = added + np.diff(self.offsets[: stage + 1], axis=0, prepend=0.0)[-1]
        return answer.like(added)

    def scores_before(self, stage: int, answer: Array) -> Array:
        """(E, K) the scores that ``stage`` continues from, given the answer after the stages before it."""
        return answer if self.offsets is None or not stage else answer - self.offsets[stage - 1]

    def with_offsets(self, offsets: Array) -> StructuredBlock:
        """The same stages, whose answers have other offsets."""
        return StructuredBlock(self.updates, self.width, self.n_columns, offsets)

    def head(self, n_stages: int) -> StructuredBlock:
        """The first ``n_stages`` stages."""
        offsets = None if self.offsets is None else self.offsets[:n_stages]
        return StructuredBlock(self.updates[:n_stages], self.width, self.n_columns, offsets)

    def state(self) -> State:
        """What a file keeps."""
        stages: list[dict[str, Any]] = []
        arrays: dict[str, NDArray[Any]] = {}
        for s, update in enumerate(self.updates):
            description, own = update.predictor.state()
            selector = update.selector
            stages.append(
                {
                    "level": selector.level,
                    "threshold": selector.threshold,
                    "measured_at": selector.measured_at,
                    "step": update.step,
                    "replaces": update.replaces,
                    "predictor": update.predictor.kind,
                    **description,
                }
            )
            arrays |= {f"{s}.{name}": array for name, array in own.items()}
        if self.offsets is not None:
            arrays["offsets"] = self.offsets
        return {"n_columns": self.n_columns, "width": self.width, "stages": stages}, arrays

    @classmethod
    def from_state(
        cls, description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> StructuredBlock:
        """Read what ``state`` gave."""
        updates = []
        for s, stage in enumerate(description["stages"]):
            own = {
                name.removeprefix(f"{s}."): array
                for name, array in arrays.items()
                if name.startswith(f"{s}.")
            }
            predictor = _PREDICTORS[stage["predictor"]].from_state(stage, own)
            selector = EntropySelector(stage["level"], stage["threshold"], stage["measured_at"])
            updates.append(Update(selector, predictor, stage["step"], stage["replaces"]))
        return cls(updates, description["width"], description["n_columns"], arrays.get("offsets"))
