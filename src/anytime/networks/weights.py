"""Weights of exits in the training loss: one small object per scheme, for any training loop.

A network with exits is trained on ``sum_i B_i l_i``, with ``l_i`` the loss of exit i. A scheme gives the weights ``B``.
Fixed schemes keep them. AdaLoss (Hu, *Anytime Neural Networks*, chapter 4) makes every weight inversely proportional to a
running mean of its loss, which minimises the geometric mean of the expected losses instead of their sum.

>>> scheme = AdaLoss(gamma=0.05)
>>> scheme([2.0, 1.0, 0.5])                   # the weights for this batch; the losses count from the next one on
array([1., 1., 1.])
>>> scheme.weights.round(4)
array([0.2875, 0.525 , 1.    ])

Losses may be numbers, a NumPy array or a torch tensor, also on a GPU: the arithmetic is the same, stays on the device and
waits for nothing. No gradient flows through the weights.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

__all__ = [
    "SCHEMES",
    "AdaLoss",
    "ConstantWeights",
    "FirstOrder",
    "HalfEnd",
    "LinearWeights",
    "LossWeights",
    "Minimax",
    "Once",
    "OneExit",
    "loss_weights",
    "mean_over_processes",
]

_SMALLEST_LOSS = 1e-8  # a loss of zero would take all the weight


class LossWeights(ABC):
    """Weights of the exits' losses. Call it once per batch: ``weights = scheme(losses)``.

    Attributes
    ----------
    weights : (L,) or None
        The current weights; None before the first batch if the number of exits is unknown.
    """

    name: ClassVar[str]
    weights: Any = None

    def __call__(self, losses: Any) -> Any:
        """(L,) the weights of this batch, then learn from its losses.

        Parameters
        ----------
        losses : (L,) sequence, array or tensor
            The mean loss of each exit on this batch.
        """
        losses = _plain(losses)
        if self.weights is None or len(self.weights) != len(losses) or type(self.weights) is not type(losses):
            self.weights = _like(losses, self.first(len(losses)) if self.weights is None else self.weights)
        weights = self.weights
        self.update(losses)
        return weights

    @abstractmethod
    def first(self, n_exits: int) -> Sequence[float]:
        """(L,) the weights of the first batch."""

    def update(self, losses: Any) -> None:
        """Learn from the losses of a batch; ``weights`` are those of the next one."""
        return None

    def state_dict(self) -> dict[str, Any]:
        """The state of the scheme, for a checkpoint."""
        return {name: _copied(value) for name, value in vars(self).items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the result of ``state_dict``."""
        for name, value in state.items():
            setattr(self, name, _copied(value))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class ConstantWeights(LossWeights):
    """Every exit counts the same (CONST: deep supervision, MSDNet)."""

    name = "constant"

    def first(self, n_exits: int) -> Sequence[float]:
        return [1.0] * n_exits


class LinearWeights(LossWeights):
    """Weights grow evenly from 0.25 at the first exit to 1 at the last (LINEAR)."""

    name = "linear"

    def first(self, n_exits: int) -> Sequence[float]:
        return np.linspace(0.25, 1.0, n_exits).tolist() if n_exits > 1 else [1.0]


class HalfEnd(LossWeights):
    """The last exit counts as much as all others together (Half-End), or has another share of the total.

    Parameters
    ----------
    share : float, default=0.5
        Share of the last exit in the sum of all weights. Its weight is 1.
    """

    name = "half_end"

    def __init__(self, share: float = 0.5) -> None:
        if not 0 < share <= 1:
            raise ValueError(f"share must be above 0 and at most 1, not {share}")
        self.share = share

    def first(self, n_exits: int) -> Sequence[float]:
        early = (1.0 / self.share - 1.0) / max(n_exits - 1, 1)
        return [early] * (n_exits - 1) + [1.0]

    def __repr__(self) -> str:
        return f"HalfEnd({self.share})"


class OneExit(LossWeights):
    """Only one exit counts (OPT): the network trained for this exit alone.

    Parameters
    ----------
    exit : int, default=-1
        Its number from 0 on, or from the end.
    """

    name = "one_exit"

    def __init__(self, exit: int = -1) -> None:
        self.exit = exit

    def first(self, n_exits: int) -> Sequence[float]:
        if not -n_exits <= self.exit < n_exits:
            raise ValueError(f"there is no exit {self.exit}; the network has {n_exits} exits, counted from 0")
        weights = [0.0] * n_exits
        weights[self.exit] = 1.0
        return weights

    def __repr__(self) -> str:
        return f"OneExit({self.exit})"


class AdaLoss(LossWeights):
    """Weights inversely proportional to running means of the losses (equations 4.3 to 4.7).

    ``B_i = gamma + (1 - gamma) min_j m_j / m_i``, with ``m_i`` the running mean of loss i. The largest weight is 1.

    Parameters
    ----------
    gamma : float, default=0.05
        Share of a constant weight; 0: pure AdaLoss, 1: all weights are 1.
    momentum : float, default=0.9
        Momentum of the running means.
    period : int, default=1
        Batches from one change of the weights to the next.

    Attributes
    ----------
    means : (L,) or None
        Running means of the losses.
    """

    name = "adaloss"

    def __init__(self, gamma: float = 0.05, momentum: float = 0.9, period: int = 1) -> None:
        if not 0 <= gamma <= 1:
            raise ValueError(f"gamma must be between 0 and 1, not {gamma}")
        if not 0 <= momentum < 1:
            raise ValueError(f"momentum must be at least 0 and below 1, not {momentum}")
        if period < 1:
            raise ValueError(f"period must be at least 1 batch, not {period}")
        self.gamma, self.momentum, self.period = gamma, momentum, period
        self.means: Any = None
        self.batches = 0

    def first(self, n_exits: int) -> Sequence[float]:
        return [1.0] * n_exits

    def update(self, losses: Any) -> None:
        losses = mean_over_processes(losses)
        if self.means is None:
            self.means = losses
        else:
            self.means = self.momentum * _like(losses, self.means) + (1 - self.momentum) * losses
        self.batches += 1
        if self._is_due():
            means = self.means.clip(_SMALLEST_LOSS)
            self.weights = self.gamma + (1 - self.gamma) * (means.min() / means)

    def _is_due(self) -> bool:
        return self.batches % self.period == 0

    def __repr__(self) -> str:
        return f"{type(self).__name__}(gamma={self.gamma}, momentum={self.momentum}, period={self.period})"


class Once(AdaLoss):
    """AdaLoss that sets its weights once, after ``period`` batches, and then keeps them (Chen and Koltun 2017).

    Parameters
    ----------
    gamma, momentum
        As in ``AdaLoss``.
    period : int, default=100
        Batches before the weights are set.
    """

    name = "once"

    def __init__(self, gamma: float = 0.05, momentum: float = 0.9, period: int = 100) -> None:
        super().__init__(gamma, momentum, period)

    def _is_due(self) -> bool:
        return self.batches == self.period


class FirstOrder(AdaLoss):
    """AdaLoss over gradients: weights inversely proportional to the gradient norms of the exits.

    Call it with these norms, ``weights = scheme(norms)``, where norm i is that of the gradient of loss i with respect to the
    output of exit i. The trainer of this package measures them.
    """

    name = "first_order"


class Minimax(LossWeights):
    """Weights of a game in which an opponent picks the exit that is furthest behind its reference network (experimental).

    ``w_i <- w_i exp(rate * (l_i - r_i) / r_i)``, scaled to a mean of 1, with ``r_i`` the loss that a network reaches
    which is trained for exit i alone.

    Parameters
    ----------
    references : (L,) sequence of float
        The losses ``r_i``.
    rate : float, default=0.01
    """

    name = "minimax"

    def __init__(self, references: Sequence[float], rate: float = 0.01) -> None:
        if min(references) <= 0:
            raise ValueError("references are losses above 0, one per exit")
        self.references, self.rate = [float(r) for r in references], rate

    def first(self, n_exits: int) -> Sequence[float]:
        if n_exits != len(self.references):
            raise ValueError(f"{len(self.references)} references, but the network has {n_exits} exits")
        return [1.0] * n_exits

    def update(self, losses: Any) -> None:
        losses = mean_over_processes(losses)
        references = _like(losses, self.references)
        gaps = (self.rate * (losses / references - 1.0)).clip(-1.0, 1.0)
        grown = self.weights * (np.exp(gaps) if isinstance(gaps, np.ndarray) else gaps.exp())
        self.weights = grown / grown.mean()

    def __repr__(self) -> str:
        return f"Minimax({self.references}, rate={self.rate})"


SCHEMES: dict[str, type[LossWeights]] = {
    scheme.name: scheme
    for scheme in (ConstantWeights, LinearWeights, HalfEnd, OneExit, AdaLoss, Once, FirstOrder)
}


def loss_weights(scheme: str | LossWeights) -> LossWeights:
    """A scheme by its name, or the scheme itself."""
    if isinstance(scheme, LossWeights):
        return scheme
    if scheme not in SCHEMES:
        raise ValueError(f"no scheme {scheme!r}; the schemes are {', '.join(SCHEMES)}")
    return SCHEMES[scheme]()


# ---------------------------------------------------------------------- arrays of either library


def _plain(losses: Any) -> Any:
    """(L,) an array, or a tensor without its history."""
    if hasattr(losses, "detach"):
        return losses.detach().float()
    if isinstance(losses, Sequence) and losses and hasattr(losses[0], "detach"):
        return sys.modules["torch"].stack([loss.detach().float() for loss in losses])
    return np.asarray(losses, dtype=np.float64)


def _like(losses: Any, values: Any) -> Any:
    """``values`` as an array, or a tensor on the device of ``losses``."""
    if hasattr(losses, "detach"):
        return sys.modules["torch"].as_tensor(values, dtype=losses.dtype, device=losses.device)
    return np.asarray(values, dtype=np.float64)


def _copied(value: Any) -> Any:
    if hasattr(value, "detach"):
        return value.detach().clone()
    return value.copy() if isinstance(value, np.ndarray) else value


def mean_over_processes(losses: Any) -> Any:
    """Losses averaged over the processes of ``torch.distributed``, where there are several: all then have the same weights."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not hasattr(losses, "detach"):
        return losses
    if not (distributed.is_available() and distributed.is_initialized()):
        return losses
    losses = losses.clone()
    distributed.all_reduce(losses)
    return losses / distributed.get_world_size()
