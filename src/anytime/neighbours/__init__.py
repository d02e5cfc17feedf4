"""Buying features for one row at a time, by what rows that look like it would gain."""

from anytime.neighbours.additive import (
    AdditiveClassifier,
    FunctionTerms,
    LinearTerms,
    StepTerms,
    as_additive,
)
from anytime.neighbours.models import Calibration, MarginAcquisitionClassifier, MarginTrace

__all__ = [
    "AdditiveClassifier",
    "Calibration",
    "FunctionTerms",
    "LinearTerms",
    "MarginAcquisitionClassifier",
    "MarginTrace",
    "StepTerms",
    "as_additive",
]
