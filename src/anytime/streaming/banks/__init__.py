"""Banks of on-line weak learners: what a model on a stream is made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from anytime.streaming.banks.bank import Average, Bank, Learner
from anytime.streaming.banks.linear import OnlineLinear, OnlineRidge
from anytime.streaming.banks.nets import SmallNet
from anytime.streaming.banks.own import OwnLearner
from anytime.streaming.banks.refit import FtrlTree
from anytime.streaming.banks.trees import HoeffdingTree, Stump

__all__ = [
    "Average",
    "Bank",
    "FtrlTree",
    "HoeffdingTree",
    "Learner",
    "OnlineLinear",
    "OnlineRidge",
    "OwnLearner",
    "SmallNet",
    "Stump",
    "bank_from_state",
    "learner_named",
]

_NAMED: dict[str, type[Learner]] = {
    learner.kind: learner for learner in (HoeffdingTree, Stump, OnlineRidge, OnlineLinear, SmallNet, FtrlTree)
}


def learner_named(learner: str | Learner) -> Learner:
    """The learner itself, or the one of that name with its defaults.

    >>> learner_named("ridge")
    OnlineRidge(penalty=1.0)
    """
    if isinstance(learner, Learner):
        return learner
    if learner not in _NAMED:
        raise ValueError(
            f"there is no learner {learner!r}; there are {', '.join(_NAMED)}, and OwnLearner(factory)"
        )
    return _NAMED[learner]()


def bank_from_state(description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Bank:
    """The bank whose ``state`` this is, of whatever kind."""
    raise NotImplementedError
