"""Who shows whose loss: feedback graphs (Alon et al., *Online Learning with Feedback Graphs*, 2015)."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["FeedbackGraph"]


class FeedbackGraph:
    """What playing an expert shows of the losses of all.

    Parameters
    ----------
    shows : (K, K) bool
        ``shows[i, j]``: playing i shows the loss of j. Every expert has to be shown by somebody.
    explorers : sequence of int, default=None
        Experts that together show every loss; played at random when exploring. None: chosen greedily, each the one that
        shows most of what is still unseen.

    Examples
    --------
    >>> graph = FeedbackGraph.requests([True, True, False, False])
    >>> graph.observability, graph.explorers.tolist()
    ('weak', [0])
    >>> FeedbackGraph.bandit(3).explorers.tolist()
    [0, 1, 2]
    """

    def __init__(self, shows: ArrayLike, explorers: ArrayLike | None = None) -> None:
        self.shows: NDArray[np.bool_] = np.array(shows, dtype=np.bool_, order="C")
        if self.shows.ndim != 2 or self.shows.shape[0] != self.shows.shape[1] or not self.shows.size:
            raise ValueError(
                f"shows has shape {self.shows.shape}; a square matrix is needed, a row per expert"
            )
        unseen = np.flatnonzero(~self.shows.any(axis=0))
        if unseen.size:
            raise ValueError(
                f"nobody shows the losses of the experts {unseen.tolist()}, so they cannot be estimated; "
                "add an expert that does, such as one that always asks"
            )
        self.explorers = _dominating(self.shows) if explorers is None else self._checked(explorers)

    def _checked(self, explorers: ArrayLike) -> NDArray[np.intp]:
        given = np.unique(np.asarray(explorers, dtype=np.intp))
        if not given.size or given[0] < 0 or given[-1] >= self.n_experts:
            raise ValueError(
                f"explorers are {given.tolist()}; at least one of 0 to {self.n_experts - 1} is needed"
            )
        unseen = np.flatnonzero(~self.shows[given].any(axis=0))
        if unseen.size:
            raise ValueError(f"the explorers {given.tolist()} do not show the losses of {unseen.tolist()}")
        return given

    @classmethod
    def requests(cls, asks: ArrayLike) -> FeedbackGraph:
        """Experts that ask show all losses, the others none, not even their own; the first that asks explores."""
        asking = np.asarray(asks, dtype=np.bool_)
        return cls(np.repeat(asking[:, None], asking.size, axis=1))

    @classmethod
    def full(cls, n_experts: int) -> FeedbackGraph:
        """Everybody shows everything: prediction with expert advice."""
        return cls(np.ones((n_experts, n_experts), dtype=np.bool_))

    @classmethod
    def bandit(cls, n_experts: int) -> FeedbackGraph:
        """Everybody shows itself alone."""
        return cls(np.eye(n_experts, dtype=np.bool_))

    @property
    def n_experts(self) -> int:
        """K."""
        return int(self.shows.shape[0])

    @property
    def observability(self) -> Literal["strong", "weak"]:
        """Strong if every expert shows itself or is shown by all others: regret √T is possible, else T^(2/3)."""
        others = self.shows | np.eye(self.n_experts, dtype=np.bool_)
        strong = np.diag(self.shows) | others.all(axis=0)
        return "strong" if strong.all() else "weak"

    def seeing(self, probabilities: ArrayLike) -> NDArray[np.float64]:
        """The probability of seeing each loss if experts are drawn with ``probabilities``, ``P(i) = Σ_{j shows i} p(j)``."""
        return np.asarray(np.asarray(probabilities, dtype=np.float64) @ self.shows)


def _dominating(shows: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Greedy cover: within a factor ``1 + log K`` of the smallest set that shows everything."""
    unseen = np.ones(shows.shape[0], dtype=np.bool_)
    chosen: list[int] = []
    while unseen.any():
        chosen.append(int((shows & unseen).sum(axis=1).argmax()))
        unseen &= ~shows[chosen[-1]]
    return np.array(sorted(chosen), dtype=np.intp)
