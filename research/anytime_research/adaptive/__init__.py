"""Cheap or costly: the thesis' sweeps, presets and baseline, and what a perfect gate could do."""

from anytime_research.adaptive.baseline import l1_exits, l1_supports
from anytime_research.adaptive.oracle import OracleRouting, oracle_curve, route_at_price, route_within_budget
from anytime_research.adaptive.sweep import PRESETS, Preset, Sweep, sweep

__all__ = [
    "PRESETS",
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
