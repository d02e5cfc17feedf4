"""Greedy selection: every bound of the theory, constants of set functions and runs, counter-examples."""

from anytime_research.greedy.applied import AppliedBounds, bounds
from anytime_research.greedy.bounds import (
    GUARANTEES,
    Guarantee,
    combined_constants,
    constrained_delta,
    cost_factors_needed,
    doubling_bound,
    doubling_bound_elementwise,
    greedy_bound,
    product_bound,
    rate_floor,
    regularised_gamma,
)
from anytime_research.greedy.curvature import curvature_constants, curved_gamma
from anytime_research.greedy.measured import Measured, greediness, greediness_slack, measure, measured_of
from anytime_research.greedy.ratios import (
    elementwise_ratio,
    submodularity_ratio,
    submodularity_slack,
    value_table,
)

__all__ = [
    "GUARANTEES",
    "AppliedBounds",
    "Guarantee",
    "Measured",
    "bounds",
    "combined_constants",
    "constrained_delta",
    "cost_factors_needed",
    "curvature_constants",
    "curved_gamma",
    "doubling_bound",
    "doubling_bound_elementwise",
    "elementwise_ratio",
    "greediness",
    "greediness_slack",
    "greedy_bound",
    "measure",
    "measured_of",
    "product_bound",
    "rate_floor",
    "regularised_gamma",
    "submodularity_ratio",
    "submodularity_slack",
    "value_table",
]
