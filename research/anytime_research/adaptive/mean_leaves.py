"""Gate and cheap model whose leaves hold mean residuals, as Algorithm 5 of the thesis has them."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from anytime.adaptive.boosted import BoostedPairLearner
from anytime.boosting.rounds import GradientRounds
from anytime.trees.growing import GrownTree

__all__ = ["MeanLeafPairLearner"]


class MeanLeafRounds(GradientRounds):
    """Boosting whose leaves hold mean residuals: every row bends alike."""

    def _grow(self, gradient: NDArray[Any], hessian: NDArray[Any], *drawn: Any) -> GrownTree:
        return super()._grow(gradient, np.ones_like(hessian), *drawn)


class MeanLeafPairLearner(BoostedPairLearner):
    """A pair of boosted models with such leaves; parameters are those of ``BoostedPairLearner``."""

    rounds: ClassVar[type[GradientRounds]] = MeanLeafRounds
