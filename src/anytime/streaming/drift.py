"""Drift: two detectors of change in a stream of numbers, and the reaction of a boosted model.

The theory of streaming boosting assumes rows from one distribution. If that changes, the losses of the model rise; a detector
monitors them and raises an alarm, and learners that increase the loss on recent rows are left out until they fit again.

``Adwin`` is adaptive windowing (Bifet and Gavalda, *Learning from Time-Changing Data with Adaptive Windowing*, 2007): the longest
window without a change, in logarithmic memory. ``TwoWindows`` compares two windows of fixed size next to each other.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_LEVELS = 48  # buckets of up to 2^47 values: no stream is longer


def _cut(n_old: float, n_new: float, variance: float, log_term: float) -> float:
    """How far two means of numbers between 0 and 1 may lie apart by chance.

    ``sqrt(2 / m s^2 ln(2 / d)) + 2 / (3 m) ln(2 / d)``, where m is the harmonic mean of the sizes' halves.
    """
    per = 1.0 / n_old + 1.0 / n_new
    return math.sqrt(2.0 * per * variance * log_term) + 2.0 / 3.0 * per * log_term


class Adwin:
    """Adaptive windowing, with exponential buckets.

    The window is cut where the means of its two parts differ significantly; the older part is dropped. Buckets
    of 1, 2, 4, ... values hold a sum and a sum of squared deviations each, at most ``per_level`` of a size, so memory is
    logarithmic in the length of the window, and here a constant.

    Examples
    --------
    >>> detector = Adwin()
    >>> any([detector.update(0.2) for _ in range(1000)]), any([detector.update(0.8) for _ in range(100)])
    (False, True)
    >>> detector.n_values < 150
    True
    """

    def __init__(
        self,
        delta: float = 0.002,  # about how likely a false alarm is in each look at the window
        *,
        per_level: int = 5,
        every: int = 32,  # values between two looks
        least: int = 5,  # values that each of two parts has at least
    ) -> None:
        if not 0 < delta < 1:
            raise ValueError(f"delta is a probability, between 0 and 1; got {delta}")
        self.delta, self.per_level, self.every, self.least = delta, per_level, every, least
        self._sums = np.zeros((_LEVELS, per_level + 1))  # of the buckets of a level, oldest first
        self._deviations = np.zeros((_LEVELS, per_level + 1))
        self._filled = [0] * _LEVELS
        self._top = 0  # no bucket is on a higher level
        self._seen = 0
        self.n_values, self._total, self._spread = 0, 0.0, 0.0

    @property
    def room(self) -> int:
        """Values until the next look."""
        return self.every - self._seen % self.every

    @property
    def mean(self) -> float:
        """Mean of the window."""
        return self._total / self.n_values if self.n_values else 0.0

    @property
    def variance(self) -> float:
        """Variance of the window."""
        return max(self._spread / self.n_values, 0.0) if self.n_values else 0.0

    def update(self, value: float) -> bool:
        """Add a number between 0 and 1; True: the mean has risen. A fall shortens the window without an alarm."""
        if self.n_values:
            self._spread += self.n_values / (self.n_values + 1) * (value - self.mean) ** 2
        self._total += value
        self.n_values += 1
        self._push(0, value, 0.0)
        self._seen += 1
        if self._seen % self.every or self.n_values < 2 * self.least:
            return False
        before, shrunk = self.mean, False
        while self._has_change():
            self._drop_oldest()
            shrunk = True
        return shrunk and self.mean > before

    def _push(self, level: int, total: float, deviation: float) -> None:
        """A bucket more on a level; the two oldest of a full one become one of the next."""
        at = self._filled[level]
        self._sums[level, at], self._deviations[level, at] = total, deviation
        self._filled[level] += 1
        self._top = max(self._top, level)
        if self._filled[level] <= self.per_level:
            return
        size = 2.0**level
        (first, second), (one, two) = self._sums[level, :2], self._deviations[level, :2]
        merged, spread = float(first + second), float(one + two + (first - second) ** 2 / (2.0 * size))
        self._shift(level, 2)
        self._push(level + 1, merged, spread)

    def _shift(self, level: int, n: int) -> None:
        for table in (self._sums, self._deviations):
            table[level, :-n] = table[level, n:].copy()
        self._filled[level] -= n

    def _has_change(self) -> bool:
        """Whether some cut of the window, oldest first, has means that lie too far apart."""
        if self.n_values < 2 * self.least:
            return False
        log_term = math.log(2.0 * math.log(self.n_values) / self.delta)
        variance, n_old, old = self.variance, 0.0, 0.0
        for level in range(self._top, -1, -1):
            for at in range(self._filled[level]):
                n_old += 2.0**level
                old += float(self._sums[level, at])
                n_new = self.n_values - n_old
                if n_new < self.least:
                    return False
                if n_old < self.least:
                    continue
                apart = abs(old / n_old - (self._total - old) / n_new)
                if apart > _cut(n_old, n_new, variance, log_term):
                    return True
        return False

    def _drop_oldest(self) -> None:
        level = self._top
        size, total, deviation = 2**level, float(self._sums[level, 0]), float(self._deviations[level, 0])
        self.n_values -= size
        self._total -= total
        apart = total / size - self.mean
        self._spread -= deviation + size * self.n_values / (size + self.n_values) * apart**2
        self._shift(level, 1)
        while self._top and not self._filled[self._top]:
            self._top -= 1

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Everything, as numbers and arrays."""
        numbers = {
            "filled": list(self._filled),
            "top": self._top,
            "seen": self._seen,
            "n_values": self.n_values,
        }
        arrays = {
            "sums": self._sums.copy(),
            "deviations": self._deviations.copy(),
            "window": np.array([self._total, self._spread]),
        }
        return numbers, arrays

    def restore(self, numbers: dict[str, Any], arrays: dict[str, Array]) -> None:
        """Go on from a state."""
        self._filled, self._top = list(numbers["filled"]), numbers["top"]
        self._seen, self.n_values = numbers["seen"], numbers["n_values"]
        self._sums, self._deviations = arrays["sums"].copy(), arrays["deviations"].copy()
        self._total, self._spread = map(float, arrays["window"])


class TwoWindows:
    """Two adjacent windows of fixed size; an alarm if the mean of the newer one is significantly higher.

    Simpler than ``Adwin`` and less sensitive: it misses changes that are small or take longer than ``size`` values. ``delta`` is
    the approximate probability of a false alarm in each test; there is one test per ``every`` values.
    """

    def __init__(self, size: int = 200, delta: float = 0.002, *, every: int = 32) -> None:
        if size < 2 or not 0 < delta < 1:
            raise ValueError(f"needs two values in a window and 0 < delta < 1; got {size} and {delta}")
        self.size, self.delta, self.every = size, delta, every
        self._ring = np.zeros(2 * size)
        self.n_values, self._seen = 0, 0

    @property
    def room(self) -> int:
        """Values until the next look."""
        return self.every - self._seen % self.every

    def update(self, value: float) -> bool:
        """Add a number between 0 and 1; True: the mean has risen, and all values before are forgotten."""
        self._ring[self.n_values % self._ring.size] = value
        self.n_values += 1
        self._seen += 1
        if self._seen % self.every or self.n_values < self._ring.size:
            return False
        ordered = np.roll(self._ring, -(self.n_values % self._ring.size))
        old, new = ordered[: self.size].mean(), ordered[self.size :].mean()
        log_term = math.log(2.0 / self.delta)
        if new - old <= _cut(self.size, self.size, float(ordered.var()), log_term):
            return False
        self.n_values = 0
        return True

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Everything, as numbers and arrays."""
        return {"n_values": self.n_values, "seen": self._seen}, {"ring": self._ring.copy()}

    def restore(self, numbers: dict[str, Any], arrays: dict[str, Array]) -> None:
        """Go on from a state."""
        self.n_values, self._seen, self._ring = numbers["n_values"], numbers["seen"], arrays["ring"].copy()


# ---------------------------------------------------------------------- what a model does about it


@dataclass(frozen=True)
class Drift:
    """How a boosted model reacts to drift.

    After an alarm, every learner with a negative windowed edge is left out of all answers, so that every prefix stays a valid
    model. It returns once its edge on the rows since then is positive ("fade"), or starts over ("restart"), a few learners at a
    time. "fade" is gentler: a learner may recover faster than a new one learns. "restart" ends better if other columns matter
    than before, because a tree keeps its splits. The alarm depends on the losses of all learners together: learners 1 to k of a
    run then differ from those of a run with k learners.

    Parameters
    ----------
    detector : {"adwin", "windows"}
    action : {"fade", "restart"}
    delta : float, default=0.002
        See the detectors.
    size : int, default=200
        Size of each window of "windows".
    grace : int, default=100
        Number of rows whose mean loss becomes the scale ``s`` that maps losses to ``l / (l + s)``, between 0 and 1.
    """

    detector: Literal["adwin", "windows"] = "adwin"
    action: Literal["fade", "restart"] = "fade"
    delta: float = 0.002
    size: int = 200
    grace: int = 100

    def __post_init__(self) -> None:
        if self.detector not in ("adwin", "windows"):
            raise ValueError(f"there is no detector {self.detector!r}; use 'adwin' or 'windows'")
        if self.action not in ("fade", "restart"):
            raise ValueError(f"there is no action {self.action!r}; use 'fade' or 'restart'")
        if self.grace < 1:
            raise ValueError(f"grace is a number of rows, at least 1; got {self.grace}")

    def make(self) -> Adwin | TwoWindows:
        """A fresh detector."""
        return Adwin(self.delta) if self.detector == "adwin" else TwoWindows(self.size, self.delta)


class Watch:
    """A detector on the losses of a model."""

    def __init__(self, drift: Drift) -> None:
        self.drift, self.detector = drift, drift.make()
        self.n_alarms, self._seen, self._scale = 0, 0, 0.0

    @property
    def room(self) -> int:
        """Rows until the detector looks for a change."""
        return self.drift.grace - self._seen if self._seen < self.drift.grace else self.detector.room

    def see(self, losses: Array) -> tuple[bool, bool]:
        """Take in the losses of rows; whether the detector has looked for a change, and whether they have risen."""
        looked = alarm = False
        for loss in losses.tolist():
            if self._seen < self.drift.grace:
                self._seen += 1
                self._scale += (loss - self._scale) / self._seen
                continue
            looked |= self.detector.room == 1
            alarm |= self.detector.update(loss / (loss + self._scale) if loss > 0 else 0.0)
        self.n_alarms += alarm
        return looked, alarm

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Everything, as numbers and arrays."""
        numbers, arrays = self.detector.state()
        own = {"n_alarms": self.n_alarms, "watched": self._seen, "scale": self._scale}
        return {**own, "detector": numbers}, arrays

    def restore(self, numbers: dict[str, Any], arrays: dict[str, Array]) -> None:
        """Go on from a state."""
        self.n_alarms, self._seen, self._scale = (numbers[name] for name in ("n_alarms", "watched", "scale"))
        self.detector.restore(numbers["detector"], arrays)
