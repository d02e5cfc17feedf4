"""Cheap or costly: models that know when an expensive one is worth asking."""

from anytime.adaptive.adaptive_classifier import AdaptiveClassifier
from anytime.adaptive.baseline import l1_exits, l1_supports
from anytime.adaptive.blocks import CostlyBlock, DetachedModelError
from anytime.adaptive.ladder import LadderClassifier
from anytime.adaptive.online import (
    Exp3G,
    Expert,
    Experts,
    FeedbackGraph,
    OnlineSelector,
    RegretTracker,
    RequestLearner,
    hard_environment,
    regret_lower_bound,
    regret_upper_bound,
)
from anytime.adaptive.oracle import OracleRouting, oracle_curve, route_at_price, route_within_budget
from anytime.adaptive.sensing import SensorNetworkClassifier, SensorNetworkRegressor
from anytime.adaptive.sweep import PRESETS, Preset, Sweep, sweep

__all__ = [
    "PRESETS",
    "AdaptiveClassifier",
    "CostlyBlock",
    "DetachedModelError",
    "Exp3G",
    "Expert",
    "Experts",
    "FeedbackGraph",
    "LadderClassifier",
    "OnlineSelector",
    "OracleRouting",
    "Preset",
    "RegretTracker",
    "RequestLearner",
    "SensorNetworkClassifier",
    "SensorNetworkRegressor",
    "Sweep",
    "hard_environment",
    "l1_exits",
    "l1_supports",
    "oracle_curve",
    "regret_lower_bound",
    "regret_upper_bound",
    "route_at_price",
    "route_within_budget",
    "sweep",
]
