"""More time in reserve while answers are late, for whatever reason.

A machine that others use too takes the processor away for some milliseconds now and then, which no measured pace tells.
"""

_TOLERATED = 6e-3  # of the answers of a window may be late, and one whatever they are
_SHORTEST, _LONGEST = 0.1, 2.0  # seconds of a window
_ENOUGH = 200  # answers that end a window before it is so long
_MORE, _LESS = 0.25, 0.2  # of the reserve: after a window with late answers, and in a second without
_MOST = 3.0  # times the reserve
_MOST_OF_ALL = 0.6  # of the time for an answer
_MOST_SECONDS = 0.02  # which the reserve grows by


class Caution:
    """How many times its reserve a question is to keep.

    Examples
    --------
    >>> caution = Caution()
    >>> for k in range(1000):
    ...     caution.note(late=k % 20 == 0, now=0.001 * k)
    >>> caution.factor, round(caution.of(0.002, 0.010), 6)
    (2.25, 0.0045)
    """

    __slots__ = ("_answers", "_began", "_late", "factor")

    def __init__(self) -> None:
        self.factor = 1.0
        self._answers = self._late = 0
        self._began: float | None = None

    def note(self, late: bool, now: float) -> None:
        """An answer has been written, late or not."""
        if self._began is None:
            self._began = now
        self._answers += 1
        self._late += late
        passed = now - self._began
        if passed < _SHORTEST or (self._answers < _ENOUGH and passed < _LONGEST):
            return
        if self._late > max(1.0, _TOLERATED * self._answers):
            self.factor = min(self.factor + _MORE, _MOST)
        else:
            self.factor = max(self.factor - _LESS * passed, 1.0)
        self._answers, self._late, self._began = 0, 0, now

    def of(self, reserve: float, allowed: float) -> float:
        """What is kept of ``allowed`` seconds for an answer instead of ``reserve``."""
        if self.factor == 1.0:
            return reserve
        more = min((self.factor - 1.0) * reserve, _MOST_OF_ALL * allowed - reserve, _MOST_SECONDS)
        return reserve + max(more, 0.0)
