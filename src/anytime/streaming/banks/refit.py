"""Trees by follow the regularised leader: grown anew, at growing intervals, on the rows seen so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from anytime.streaming.banks.bank import Bank, Learner

__all__ = ["FtrlTree"]


@dataclass(frozen=True)
class FtrlTree(Learner):
    """Regression trees of bounded depth, refitted to the rows seen so far; the depth is the regulariser.

    At a refit ``h = argmin sum_s |q_s - h(x_s)|^2`` over trees of ``max_depth``, approximately: trees are grown greedily. Targets are
    those of the time when a row was seen.

    Parameters
    ----------
    max_depth : int, default=3
    buffer : int, default=5000
        Rows kept, a uniform sample of all once there are more.
    growth : float, default=1.2
        A refit follows when the rows seen have grown by this factor.
    min_rows : int, default=5
        The fewest rows of a leaf.
    """

    kind: ClassVar[str] = "ftrl_tree"

    max_depth: int = 3
    buffer: int = 5000
    growth: float = 1.2
    min_rows: int = 5

    def __post_init__(self) -> None:
        for name in ("max_depth", "buffer", "min_rows"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if not self.growth > 1:
            raise ValueError(f"growth is {self.growth}; it must be more than 1")

    def make(self, n_learners: int, n_features: int, n_outputs: int, random_state: int = 0) -> Bank:
        """A bank of empty trees."""
        raise NotImplementedError
