"""Structured prediction: what the anytime models are compared with."""

from anytime_research.structured.boosted import BoostedDistribution, BoostingRules
from anytime_research.structured.inference_machine import HierarchicalInferenceMachine

__all__ = ["BoostedDistribution", "BoostingRules", "HierarchicalInferenceMachine"]
