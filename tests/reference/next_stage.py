"""The obvious way to find the next stage that works on a row: ask every filter on the way."""

import numpy as np


def next_stage(thresholds: np.ndarray, margin: float, stage: int) -> int:
    """First stage from ``stage`` on that has no filter (NaN) or whose filter is open to this margin."""
    for s in range(stage, thresholds.size):
        if np.isnan(thresholds[s]) or margin < thresholds[s]:
            return s
    return int(thresholds.size)
