"""Banks of online weak learners: the parts of a model on a stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from anytime.streaming.banks.bank import Bank, Hypotheses, StreamLearner
from anytime.streaming.banks.linear import OnlineLinear, OnlineRidge
from anytime.streaming.banks.native import NativeBank, RoundRules
from anytime.streaming.banks.nets import NetBlock, SmallNet
from anytime.streaming.banks.own import OwnLearner
from anytime.streaming.banks.trees import HoeffdingTree, Stump

__all__ = [
    "NAMED_LEARNERS",
    "Bank",
    "HoeffdingTree",
    "Hypotheses",
    "NativeBank",
    "NetBlock",
    "OnlineLinear",
    "OnlineRidge",
    "OwnLearner",
    "RoundRules",
    "SmallNet",
    "StreamLearner",
    "Stump",
    "bank_from_state",
    "learner_named",
]

NAMED_LEARNERS: dict[str, type[StreamLearner]] = {
    learner.kind: learner for learner in (HoeffdingTree, Stump, OnlineRidge, OnlineLinear, SmallNet)
}


def learner_named(learner: str | StreamLearner) -> StreamLearner:
    """The learner itself, or the one of that name with its defaults.

    >>> learner_named("ridge")
    OnlineRidge(l2_regularization=1.0)
    """
    if isinstance(learner, StreamLearner):
        return learner
    if learner not in NAMED_LEARNERS:
        raise ValueError(
            f"there is no learner {learner!r}; the learners are {', '.join(NAMED_LEARNERS)}, and OwnLearner(factory)"
        )
    return NAMED_LEARNERS[learner]()


def bank_from_state(description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Bank:
    """The bank whose ``state`` this is, of whatever kind."""
    kind = description["kind"]
    if kind not in StreamLearner.kinds:
        raise ValueError(f"there is no bank of {kind!r}; the kinds are {', '.join(NAMED_LEARNERS)}")
    learner = StreamLearner.kinds[kind](**description["learner"])
    bank: Bank = learner.bank_type().from_state(learner, description, arrays)
    return bank
