"""The steps of AdaBoost and AdaBoost.MM: exponential loss, classifiers that vote, steps by the edge.

Mukherjee and Schapire, *A theory of multiclass boosting*; what SpeedBoost is compared with (Grubb and Bagnell, *SpeedBoost*, seed
004, section 4.1). Costs are charged but do not count in the choice.
"""

import numpy as np

from anytime.boosting.objective import MeanLoss, Rows
from anytime.plan import Array


class EdgeSteps(MeanLoss):
    """An exponential loss with the steps of AdaBoost.MM, ``1/2 ln((1 + d) / (1 - d))`` with d the edge of the votes.

    For two classes this is AdaBoost's ``1/2 ln((1 - e) / e)``, with e the weighted error, and the best step. For more it is a
    shorter one: the loss falls to at most ``sqrt(1 - d²)`` of what it was, and that much is certain from d alone.
    """

    def search(
        self,
        scores: Array,
        direction: Array,
        largest: float,
        rows: Rows = slice(None),
        value: float | None = None,
    ) -> tuple[float, float]:
        """The step along votes, and how much the mean loss falls by it."""
        scores, direction = scores[rows], direction[rows]
        pull, share = -self.loss.required_gradient()(scores, self.y[rows]), self.shares(rows)
        vote = _vote(direction)
        mass = float(share @ (np.abs(pull[:, 0]) if pull.shape[1] == 1 else pull.max(axis=1)))
        if vote == 0 or mass == 0:
            return 0.0, 0.0
        edge = float(share @ np.einsum("nk,nk->n", pull, direction)) / (vote * mass)
        with np.errstate(divide="ignore"):
            step = float(np.clip(np.arctanh(np.clip(edge, -1.0, 1.0)) / vote, -largest, largest))
        before = self.value_of(scores, rows) if value is None else value
        gain = before - self.value_of(scores + step * direction, rows)
        return (step, gain) if gain > 0 else (0.0, 0.0)


def _vote(direction: Array) -> float:
    """How much a vote raises its class above the others; a row without a vote is all 0."""
    raised = np.abs(direction[:, 0]) if direction.shape[1] == 1 else np.ptp(direction, axis=1)
    vote = float(raised.max(initial=0.0))
    if not np.isclose(raised[raised > 0], vote, rtol=1e-9, atol=0).all():
        raise ValueError(
            "AdaBoost needs learners whose votes all have the same size: TreeLearner(leaf='vote')"
        )
    return vote
