"""Cheap or costly: models that know when an expensive one is worth asking."""

from anytime.adaptive.adaptive_classifier import AdaptiveClassifier
from anytime.adaptive.blocks import CostlyBlock, DetachedModelError
from anytime.adaptive.ladder import LadderClassifier

__all__ = ["AdaptiveClassifier", "CostlyBlock", "DetachedModelError", "LadderClassifier"]
