"""Cost-benefit greedy on any set function, doubling for all budgets, and certificates."""

from anytime.greedy.certificate import Certificate
from anytime.greedy.prices import FlatPrices, GroupPrices, Prices, rates_of
from anytime.greedy.selection import (
    GainOracle,
    Selection,
    SetFunction,
    doubling,
    greedy,
    replay,
    rival_ceiling,
)
from anytime.greedy.spectrum import spectral_gamma

__all__ = [
    "Certificate",
    "FlatPrices",
    "GainOracle",
    "GroupPrices",
    "Prices",
    "Selection",
    "SetFunction",
    "doubling",
    "greedy",
    "rates_of",
    "replay",
    "rival_ceiling",
    "spectral_gamma",
]
