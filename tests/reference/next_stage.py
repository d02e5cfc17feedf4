"""The obvious way to find the next stage that works on a row: ask every filter on the way."""

import numpy as np


def next_stage(thresholds: np.ndarray, number: float, stage: int, below: bool) -> int:
    """First stage from ``stage`` on that has a threshold (not NaN) to which this number is (or is not) below."""
    for s in range(stage, thresholds.size):
        if not np.isnan(thresholds[s]) and (number < thresholds[s]) == below:
            return s
    return int(thresholds.size)
