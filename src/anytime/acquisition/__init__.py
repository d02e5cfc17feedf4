"""Feature acquisition row by row, based on what similar rows would gain."""

from anytime.acquisition.additive import (
    AdditiveClassifier,
    FunctionTerms,
    LinearTerms,
    StepTerms,
    as_additive,
)
from anytime.acquisition.estimators import AcquisitionClassifier, AcquisitionRegressor
from anytime.acquisition.expected_cost import AlgorithmSelector, ExpectedCostClassifier
from anytime.acquisition.margin_classifier import MarginAcquisitionClassifier, MarginTrace

__all__ = [
    "AcquisitionClassifier",
    "AcquisitionRegressor",
    "AdditiveClassifier",
    "AlgorithmSelector",
    "ExpectedCostClassifier",
    "FunctionTerms",
    "LinearTerms",
    "MarginAcquisitionClassifier",
    "MarginTrace",
    "StepTerms",
    "as_additive",
]
