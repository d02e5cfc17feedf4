"""Cheap or costly: models that know when an expensive one is worth asking."""

from anytime.adaptive.blocks import CostlyBlock, DetachedModelError
from anytime.adaptive.models import AdaptiveClassifier
from anytime.adaptive.oracle import OracleRouting, oracle_curve, route_at_price, route_within_budget

__all__ = [
    "AdaptiveClassifier",
    "CostlyBlock",
    "DetachedModelError",
    "OracleRouting",
    "oracle_curve",
    "route_at_price",
    "route_within_budget",
]
