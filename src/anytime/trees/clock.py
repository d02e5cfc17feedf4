"""How long training takes: progress for the user, and an end where time is up."""

from __future__ import annotations

import sys
import time

import numpy as np

__all__ = ["Clock"]


class Clock:
    """Progress told on stderr, and the end of the time that training may take.

    Parameters
    ----------
    seconds : float or None
    verbose : int
    """

    def __init__(self, seconds: float | None, verbose: int) -> None:
        self.began = time.monotonic()
        self.seconds = np.inf if seconds is None else seconds
        self.verbose = verbose

    @property
    def over(self) -> bool:
        """Whether time is up."""
        return time.monotonic() - self.began >= self.seconds

    @property
    def half_over(self) -> bool:
        """Whether half of it is."""
        return time.monotonic() - self.began >= self.seconds / 2

    def tell(self, message: str) -> None:
        """A line of progress, where wanted."""
        if self.verbose:
            print(f"[{time.monotonic() - self.began:7.1f} s] {message}", file=sys.stderr)
