"""Cost-benefit greedy on any set function, doubling for all budgets, and what theory promises of them."""

from anytime.greedy.bounds import (
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
    rival_ceiling,
)
from anytime.greedy.certificate import Certificate
from anytime.greedy.measured import Measured, greediness, greediness_slack, measure
from anytime.greedy.prices import FlatPrices, GroupPrices, Prices, rates_of
from anytime.greedy.ratios import (
    curvature_constants,
    elementwise_ratio,
    spectral_gamma,
    submodularity_ratio,
    submodularity_slack,
    value_table,
)
from anytime.greedy.selection import (
    GainOracle,
    Selection,
    SetFunction,
    best_of_greedy_or_single,
    doubling,
    greedy,
)

__all__ = [
    "GUARANTEES",
    "Certificate",
    "FlatPrices",
    "GainOracle",
    "GroupPrices",
    "Guarantee",
    "Measured",
    "Prices",
    "Selection",
    "SetFunction",
    "best_of_greedy_or_single",
    "combined_constants",
    "constrained_delta",
    "cost_factors_needed",
    "curvature_constants",
    "doubling",
    "doubling_bound",
    "doubling_bound_elementwise",
    "elementwise_ratio",
    "greediness",
    "greediness_slack",
    "greedy",
    "greedy_bound",
    "measure",
    "product_bound",
    "rate_floor",
    "rates_of",
    "regularised_gamma",
    "rival_ceiling",
    "spectral_gamma",
    "submodularity_ratio",
    "submodularity_slack",
    "value_table",
]
