"""How long training takes: progress for the user, an end where time is up, and Ctrl-C in a fit that is part of another."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from anytime.progress import is_followed, report, was_ended


class Clock:
    """Progress, told to whoever follows it, and the end of the time that training may take."""

    def __init__(self, seconds: float | None, verbose: int) -> None:
        self.began = time.monotonic()
        self.seconds = np.inf if seconds is None else seconds
        self.verbose = verbose

    @property
    def elapsed(self) -> float:
        """Seconds since training began."""
        return time.monotonic() - self.began

    @property
    def over(self) -> bool:
        """Whether time is up."""
        return self.elapsed >= self.seconds

    def ends(self, moment: float) -> Callable[[], bool]:
        """A function to be called after each piece of work: whether another one that takes as long would end after ``moment``."""
        before = self.elapsed

        def time_is_up() -> bool:
            nonlocal before
            now = self.elapsed
            took, before = now - before, now
            return now + took > moment

        return time_is_up

    @property
    def is_followed(self) -> bool:
        """Whether anyone wants to know of progress."""
        return bool(self.verbose) or is_followed()

    def tell(self, message: str, **metrics: float) -> None:
        """A line of progress with the numbers in it, where wanted; a callback may end the fit, as Ctrl-C does."""
        report(self.elapsed, message, self.verbose, **metrics)


@contextmanager
def inner_fit() -> Iterator[None]:
    """Around a fit that is part of a larger one: Ctrl-C in it, or a callback, ends the larger one too.

    A fit that Ctrl-C ends keeps what it has learned, and returns as if nothing had happened. That is right for the user's
    own fit; inside a larger fit it would hide that the user wants all of it to end. So ``KeyboardInterrupt`` is raised again
    once the inner fit is over. In threads other than the main one, which Ctrl-C never reaches, nothing is done.
    """
    had_ended = was_ended()
    with _noting_interrupts() as interrupts:
        yield
    if interrupts or (was_ended() and not had_ended):
        raise KeyboardInterrupt


@contextmanager
def _noting_interrupts() -> Iterator[list[int]]:
    """The interrupts that come meanwhile."""
    before, interrupts = signal.getsignal(signal.SIGINT), list[int]()
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield interrupts
        return
    handle = before

    def noting(number: int, frame: Any) -> None:
        try:
            handle(number, frame)
        except KeyboardInterrupt:
            interrupts.append(number)
            raise

    signal.signal(signal.SIGINT, noting)
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, before)
