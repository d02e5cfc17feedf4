"""A boosted stream as a plan: each prefix of learners is a stage.

The answer after ``i`` learners is made of the partial sums ``y_i = project(y_{i-1} - eta_i h_i(x))``. Where only the last of
them counts and nothing is projected, it is a plain sum, and trees stay the native block that they are. Otherwise, and where rows
are standardised first, a ``StreamBlock`` keeps the partial sums of each row and replaces the answer at every stage.
Source: Hu, *Anytime Prediction and Learning*, Algorithms 6 to 8.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anytime._native import Forest
from anytime.blocks import Block, Memory, State
from anytime.plan import Array
from anytime.streaming.scaling import standardised
from anytime.trees.block import TreeBlock

AVERAGINGS = ("last", "theory", "post", "all")


def scaled_trees(block: TreeBlock, factors: Array) -> TreeBlock:
    """The stages of a forest, each with its outputs multiplied by its own factor."""
    fields: dict[str, Any] = dict(block.forest.arrays())
    fields.pop("shift")  # the finest unit depends on the values
    trees = np.repeat(factors, np.diff(fields["stage_start"]))
    nodes = np.repeat(trees, np.diff(fields["tree_start"]))
    fields["value"] = fields["value"] * nodes[:, None]
    return TreeBlock(Forest(**fields))


class StreamBlock(Block):
    """Partial sums of learners on standardised rows, projected and averaged; every stage replaces the answer."""

    kind = "stream"

    def __init__(
        self,
        learners: Block,  # what learner ``i`` says of a row, one stage per learner
        # (N,): what it is multiplied by: minus the step size, zero where the learner is held back
        steps: ArrayLike,
        start: ArrayLike,  # (m,): the partial sum before the first learner
        *,
        # (m,): the answer is ``offset + factor * y``
        offset: ArrayLike = 0.0,
        factor: float = 1.0,
        # (d,): columns are read as ``(x - centre) / scale``, a missing value as 0. None: as they are
        centres: ArrayLike | None = None,
        scales: ArrayLike | None = None,
        box: ArrayLike | None = None,  # (m, 2): least and largest value of each partial sum
        radius: float | None = None,  # largest norm of a partial sum
        # of ``y_0, ..., y_i`` the last, the mean without the last, without the first, or of all
        averaging: str = "last",
    ) -> None:
        self.learners = learners
        self.n_stages, self.width = learners.n_stages, learners.width
        self.steps = np.ascontiguousarray(steps, dtype=np.float64)
        self.start = np.ascontiguousarray(start, dtype=np.float64)
        self.offset = np.array(np.broadcast_to(np.asarray(offset, dtype=np.float64), (self.width,)))
        self.factor = float(factor)
        self.centres = None if centres is None else np.ascontiguousarray(centres, dtype=np.float64)
        self.scales = None if scales is None else np.ascontiguousarray(scales, dtype=np.float64)
        self.box = None if box is None else np.ascontiguousarray(box, dtype=np.float64)
        self.radius = None if radius is None else float(radius)
        self.averaging = averaging
        self._check()

    def _check(self) -> None:
        if self.steps.shape != (self.n_stages,) or self.start.shape != (self.width,):
            raise ValueError(f"{self.n_stages} learners of {self.width} outputs do not fit their steps")
        if (self.centres is None) != (self.scales is None):
            raise ValueError("centres and scales of columns go together")
        if self.centres is not None and self.scales is not None:
            if self.centres.ndim != 1 or self.centres.shape != self.scales.shape:
                raise ValueError("each column has a centre and a scale")
            if not (self.scales > 0).all():
                raise ValueError("scales of columns must be positive")
            if any(c[-1] >= self.centres.size for c in map(self.columns, range(self.n_stages)) if c.size):
                raise ValueError(f"a learner reads a column beyond the {self.centres.size} that have a scale")
        if self.box is not None and (
            self.box.shape != (self.width, 2) or not (self.box[:, 0] <= self.box[:, 1]).all()
        ):
            raise ValueError(f"a box has the least and the largest value of {self.width} outputs")
        if self.radius is not None and not self.radius > 0:
            raise ValueError(f"radius must be positive, not {self.radius}")
        if self.averaging not in AVERAGINGS:
            raise ValueError(f"averaging must be one of {', '.join(AVERAGINGS)}, not {self.averaging!r}")
        numbers = [self.steps, self.start, self.offset, np.array([self.factor])]
        numbers += [a for a in (self.centres, self.scales, self.box) if a is not None]
        if not all(np.isfinite(array).all() for array in numbers):
            raise ValueError("the numbers of a stream block must be finite")

    def columns(self, stage: int) -> NDArray[np.int32]:
        return self.learners.columns(stage)

    def outputs(self, stage: int, X: Array) -> Array:
        return self.proceed(0, stage, X, self.remember(len(X)))

    def remember(self, n_rows: int) -> Memory:
        """The partial sum of each row, the sum of those that are averaged, and how many learners have spoken."""
        started = np.tile(self.start, (n_rows, 1))
        memory: Memory = {"sum": started, "spoken": np.zeros(n_rows, dtype=np.int64)}
        if self.averaging != "last":
            memory["total"] = np.zeros_like(started) if self.averaging == "post" else started.copy()
        return memory

    def proceed(self, first: int, stage: int, X: Array, memory: Memory) -> Array:
        rows = self._standardised(X)
        current, answer = memory["sum"], memory["sum"]
        for s in range(first, stage + 1):
            moved = self._projected(current + self.steps[s] * self.learners.outputs(s, rows))
            memory["spoken"] += 1
            answer = self._averaged(moved, memory)
            current[:] = moved
        return np.asarray(self.offset + self.factor * answer)

    def _standardised(self, X: Array) -> Array:
        if self.centres is None or self.scales is None:
            return X
        return standardised(X, self.centres, self.scales)

    def _projected(self, y: Array) -> Array:
        if self.box is not None:
            y = np.clip(y, self.box[:, 0], self.box[:, 1])
        if self.radius is not None:
            norm = np.sqrt((y * y).sum(axis=1, keepdims=True))
            y = np.where(norm > self.radius, y * (self.radius / np.maximum(norm, self.radius)), y)
        return y

    def _averaged(self, moved: Array, memory: Memory) -> Array:
        """The answer after a learner has moved the partial sum; keeps the sum of those that are averaged."""
        if self.averaging == "last":
            return moved
        spoken, total = memory["spoken"][:, None], memory["total"]
        if self.averaging == "theory":
            answer = total / spoken
            total += moved
            return np.asarray(answer)
        total += moved
        return np.asarray(total / (spoken if self.averaging == "post" else spoken + 1))

    def head(self, n_stages: int) -> StreamBlock:
        if n_stages == self.n_stages:
            return self
        return StreamBlock(
            self.learners.head(n_stages), self.steps[:n_stages], self.start, **self._settings()
        )

    def _settings(self) -> dict[str, Any]:
        return {
            "offset": self.offset,
            "factor": self.factor,
            "centres": self.centres,
            "scales": self.scales,
            "box": self.box,
            "radius": self.radius,
            "averaging": self.averaging,
        }

    def state(self) -> State:
        arrays: dict[str, NDArray[Any]] = {"steps": self.steps, "start": self.start, "offset": self.offset}
        for name in ("centres", "scales", "box"):
            if getattr(self, name) is not None:
                arrays[name] = getattr(self, name)
        description = {"factor": self.factor, "radius": self.radius, "averaging": self.averaging}
        return description, arrays

    @classmethod
    def from_state(
        cls, description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], learners: Block
    ) -> StreamBlock:
        """Restore from the output of ``state``, and the learners."""
        optional = {name: arrays.get(name) for name in ("centres", "scales", "box")}
        return cls(
            learners,
            arrays["steps"],
            arrays["start"],
            offset=arrays["offset"],
            factor=description["factor"],
            radius=description["radius"],
            averaging=description["averaging"],
            **optional,
        )
