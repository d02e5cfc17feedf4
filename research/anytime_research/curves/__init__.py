"""Measures of curves that only the papers' tables use."""

from anytime_research.curves.measures import (
    at_fraction,
    diminishing_returns_violations,
    error_at_fraction,
    plateau_alpha,
    relative_increase,
    stalled_stages,
)
from anytime_research.curves.prefix_precision import PrefixPrecision, prefix_precision

__all__ = [
    "PrefixPrecision",
    "at_fraction",
    "diminishing_returns_violations",
    "error_at_fraction",
    "plateau_alpha",
    "prefix_precision",
    "relative_increase",
    "stalled_stages",
]
