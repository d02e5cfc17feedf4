"""Structured prediction: what the anytime models are compared with, and stages on several workers."""

from anytime_research.structured.boosted import BoostedDistribution, DistributionRules, LabelledRows
from anytime_research.structured.inference_machine import HierarchicalInferenceMachine
from anytime_research.structured.scheduling import Schedule, StageTasks, list_schedule, stage_tasks

__all__ = [
    "BoostedDistribution",
    "DistributionRules",
    "HierarchicalInferenceMachine",
    "LabelledRows",
    "Schedule",
    "StageTasks",
    "list_schedule",
    "stage_tasks",
]
