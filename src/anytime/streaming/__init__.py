"""Boosting on data streams: models that learn from rows as they arrive and can predict at any moment."""

from anytime.streaming.algorithm import StreamAlgorithm
from anytime.streaming.banks import (
    HoeffdingTree,
    OnlineLinear,
    OnlineRidge,
    OwnLearner,
    SmallNet,
    Stump,
)
from anytime.streaming.drift import Drift
from anytime.streaming.projections import Ball, Box
from anytime.streaming.streaming_boost import StreamingBoostClassifier, StreamingBoostRegressor
from anytime.streaming.streams import StreamProgress, learn_stream, read_stream

__all__ = [
    "Ball",
    "Box",
    "Drift",
    "HoeffdingTree",
    "OnlineLinear",
    "OnlineRidge",
    "OwnLearner",
    "SmallNet",
    "StreamAlgorithm",
    "StreamProgress",
    "StreamingBoostClassifier",
    "StreamingBoostRegressor",
    "Stump",
    "learn_stream",
    "read_stream",
]
