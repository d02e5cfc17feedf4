"""Measures of curves that only the papers' tables use."""

from anytime_research.curves.frontier import Frontier, select_on_validation, upper_envelope, worst_ratio
from anytime_research.curves.measures import (
    at_fraction,
    diminishing_returns_violations,
    error_at_fraction,
    monotonicity_violations,
    plateau_alpha,
    relative_increase,
    stalled_stages,
    value_of_computation,
)
from anytime_research.curves.prefix_precision import PrefixPrecision, prefix_precision

__all__ = [
    "Frontier",
    "PrefixPrecision",
    "at_fraction",
    "diminishing_returns_violations",
    "error_at_fraction",
    "monotonicity_violations",
    "plateau_alpha",
    "prefix_precision",
    "relative_increase",
    "select_on_validation",
    "stalled_stages",
    "upper_envelope",
    "value_of_computation",
    "worst_ratio",
]
