"""Structured prediction: what the anytime models are compared with, and stages on several workers."""

from anytime_research.structured.inference_machine import HierarchicalInferenceMachine, SomeColumns, Visit
from anytime_research.structured.scheduling import Schedule, StageTasks, list_schedule, stage_tasks

__all__ = [
    "HierarchicalInferenceMachine",
    "Schedule",
    "SomeColumns",
    "StageTasks",
    "Visit",
    "list_schedule",
    "stage_tasks",
]
