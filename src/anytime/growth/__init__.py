"""Architecture search by growth: from a small model to a family of models over cost, which can be stopped at any time.

Nothing here needs torch before a network is grown.
"""

from __future__ import annotations

from anytime.growth.problem import GrowthProblem, Interrupted, Job, Outcome, whole_file

__all__ = ["GrowthProblem", "Interrupted", "Job", "Outcome", "whole_file"]
