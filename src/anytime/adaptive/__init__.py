"""Cheap or costly: models that know when an expensive one is worth asking."""

from anytime.adaptive.baseline import l1_exits, l1_supports
from anytime.adaptive.blocks import CostlyBlock, DetachedModelError
from anytime.adaptive.models import AdaptiveClassifier
from anytime.adaptive.oracle import OracleRouting, oracle_curve, route_at_price, route_within_budget
from anytime.adaptive.sweep import PRESETS, Preset, Sweep, sweep

__all__ = [
    "PRESETS",
    "AdaptiveClassifier",
    "CostlyBlock",
    "DetachedModelError",
    "OracleRouting",
    "Preset",
    "Sweep",
    "l1_exits",
    "l1_supports",
    "oracle_curve",
    "route_at_price",
    "route_within_budget",
    "sweep",
]
