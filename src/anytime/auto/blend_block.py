"""Several models as one stage: a weighted sum of what they say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anytime.blocks import Array, Block, State

_CAUTIOUS_LOGARITHM = 1e-7  # seconds
_SMOOTHED = 1e-3  # added to every probability: a forest that has never seen a class does not rule it out


class LogProbabilityBlock(Block):
    """One stage that gives the logarithms of another's probabilities; with one output, the logarithm of the odds.

    Parameters
    ----------
    inner : Block
        One stage, of one probability per class.
    width : int
        1 for two classes of a logistic link, else the number of classes.
    """

    kind = "log probabilities"
    n_stages = 1

    def __init__(self, inner: Block, width: int) -> None:
        if inner.n_stages != 1 or inner.width != max(width, 2):
            raise ValueError(
                f"{inner.n_stages} stages of {inner.width} probabilities do not give {width} scores"
            )
        self.inner, self.width = inner, width

    def columns(self, stage: int) -> NDArray[np.int32]:
        return self.inner.columns(0)

    def outputs(self, stage: int, X: Array) -> Array:
        logs = np.log(np.clip(self.inner.outputs(0, X), 0.0, 1.0) + _SMOOTHED)
        return logs[:, 1:] - logs[:, :1] if self.width == 1 else logs

    def seconds(self, stage: int, n_rows: int) -> float:
        return self.inner.seconds(0, n_rows) + n_rows * self.inner.width * _CAUTIOUS_LOGARITHM

    def head(self, n_stages: int) -> LogProbabilityBlock:
        return self

    def state(self) -> State:
        return {"width": self.width}, {}


class BlendBlock(Block):
    """One stage: the weighted sum of the outputs of others.

    Parameters
    ----------
    parts : sequence of Block
        One stage each, all of the same width.
    shares : (m,) float
    """

    kind = "blend"
    n_stages = 1

    def __init__(self, parts: Sequence[Block], shares: Any) -> None:
        self.parts, self.shares = list(parts), np.asarray(shares, dtype=np.float64)
        if not self.parts or self.shares.shape != (len(self.parts),) or not np.isfinite(self.shares).all():
            raise ValueError(f"{len(self.parts)} parts need as many finite shares, not {self.shares.shape}")
        self.width = self.parts[0].width
        if any(part.n_stages != 1 or part.width != self.width for part in self.parts):
            raise ValueError("the parts of a blend are single stages of the same width")

    def columns(self, stage: int) -> NDArray[np.int32]:
        return np.unique(np.concatenate([part.columns(0) for part in self.parts]))

    def outputs(self, stage: int, X: Array) -> Array:
        total = np.zeros((len(X), self.width))
        for part, share in zip(self.parts, self.shares.tolist(), strict=True):
            total += share * part.outputs(0, X)
        return total

    def seconds(self, stage: int, n_rows: int) -> float:
        parts = [part.seconds(0, n_rows) for part in self.parts]
        return sum(parts) if all(parts) else 0.0

    def head(self, n_stages: int) -> BlendBlock:
        return self

    def state(self) -> State:
        return {}, {"shares": self.shares}
