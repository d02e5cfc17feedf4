"""Cheap models in front of a costly one, and rules that decide which rows need it."""

from anytime.adaptive.adaptive_classifier import AdaptiveClassifier
from anytime.adaptive.blocks import CostlyBlock, DetachedModelError
from anytime.adaptive.ladder import LadderClassifier

__all__ = ["AdaptiveClassifier", "CostlyBlock", "DetachedModelError", "LadderClassifier"]
