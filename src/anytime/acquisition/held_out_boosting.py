"""Boosted trees whose number of rounds rows of the first fold choose, and which are then grown on all rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from anytime.boosting.objective import MeanLoss
from anytime.boosting.rounds import GradientRounds
from anytime.plan import Array
from anytime.trees.binning import BinnedData
from anytime.trees.clock import Clock
from anytime.trees.growing import TreeGrower

__all__ = ["HeldOutBoosting"]


class HeldOutBoosting:
    """Shared trees over copies of rows, of which ``held`` judge those grown on the others.

    Parameters
    ----------
    seen : (r, p)
        What trees read of each copy.
    objective : MeanLoss
    start : (K,)
        Scores before the first round.
    held : (h,)
        Copies that judge.
    max_leaf_nodes, min_samples_leaf, n_threads : int
    """

    def __init__(
        self,
        seen: Array,
        objective: MeanLoss,
        start: Array,
        held: NDArray[np.intp],
        *,
        max_leaf_nodes: int,
        min_samples_leaf: int,
        n_threads: int,
    ) -> None:
        grower = TreeGrower(
            max_leaf_nodes=max_leaf_nodes,
            min_samples_leaf=min_samples_leaf,
            l2_regularization=1.0,
            n_threads=n_threads,
        )
        self._parts = BinnedData.fit(seen, n_threads=n_threads), objective, grower, start
        self._settings: dict[str, Any] = {"learning_rate": 0.1, "shared": True}
        kept = np.setdiff1d(np.arange(len(seen)), held, assume_unique=True)
        self.judged = GradientRounds(*self._parts, rows=kept, judge=held, **self._settings)

    def judge(self, n_rounds: int, n_iter_no_change: int, clock: Clock) -> bool:
        """Grow on the other copies, in half of the time that is left; whether any round helped."""
        half = clock.elapsed + 0.5 * (clock.seconds - clock.elapsed)
        self.judged.run(n_rounds, n_iter_no_change, clock.ends(half))
        return bool(self.judged.best)

    def refitted(self, clock: Clock) -> GradientRounds | None:
        """As many rounds on all copies; None if time was too short for one."""
        final = GradientRounds(*self._parts, **self._settings)
        final.run(self.judged.best, None, clock.ends(clock.seconds))
        return final if final.rounds else None
