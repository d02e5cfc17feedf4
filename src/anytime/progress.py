"""Progress of a fit: lines on stderr if ``verbose`` is set, and callbacks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, NamedTuple, TypeVar

import numpy as np

__all__ = ["FitProgress", "callbacks"]

Fit = TypeVar("Fit", bound=Callable[..., Any])


class FitProgress(NamedTuple):
    """One report of a fit to a callback.

    Attributes
    ----------
    step : int
        1, 2, ... within the ``with`` block, so that several fits can be written to one log.
    elapsed : float
        Seconds since the fit began.
    message : str
        The line that ``verbose=1`` prints.
    metrics : mapping of str to float
        The numbers in that line, such as ``held_out_loss`` or ``cost``.

    See Also
    --------
    callbacks : Passes it to functions of yours.

    Examples
    --------
    >>> import anytime as at
    >>> X, y, costs = at.datasets.load("breast_cancer")
    >>> reports = []
    >>> with at.callbacks(reports.append):
    ...     model = at.GradientBoostingClassifier(n_estimators=20).fit(X, y)
    >>> reports[0].step, sorted(reports[0].metrics)
    (1, ['round'])
    """

    step: int
    elapsed: float
    message: str
    metrics: Mapping[str, float]


class _Following:
    """The functions of one ``with`` block."""

    def __init__(self, functions: tuple[Callable[[FitProgress], object], ...]) -> None:
        self.functions, self.n_told, self.has_ended = functions, 0, False

    def tell(self, elapsed: float, message: str, metrics: Mapping[str, float]) -> None:
        """Call the functions; ends the fit once, and never again: what it still does to keep a usable model must not end too."""
        self.n_told += 1
        progress = FitProgress(self.n_told, elapsed, message, metrics)
        answers = [function(progress) for function in self.functions]
        # a function that returns what its logger returned wants no end
        wants_end = any(isinstance(answer, bool | np.bool_) and answer for answer in answers)
        if wants_end and not self.has_ended:
            self.has_ended = True
            raise KeyboardInterrupt


_FOLLOWING: ContextVar[_Following | None] = ContextVar("anytime_callbacks", default=None)
_FITTING: ContextVar[int | None] = ContextVar("anytime_fitting", default=None)


@contextmanager
def callbacks(*functions: Callable[[FitProgress], object]) -> Iterator[None]:
    """Call functions whenever a fit inside the ``with`` block reports progress: to show it, to log it or to end the fit.

    It reaches fits of every family, also those inside pipelines and searches of this process. A function that returns True ends
    the fit as Ctrl-C does: the model keeps what it has learned so far, and warns; where that is nothing yet, ``fit`` raises
    ``KeyboardInterrupt``. One block ends one fit.

    Parameters
    ----------
    *functions : callable
        Each is called with a `FitProgress`.

    Yields
    ------
    None

    See Also
    --------
    FitProgress : What the functions are called with.

    Examples
    --------
    >>> import anytime as at
    >>> X, y, costs = at.datasets.load("breast_cancer")
    >>> steps = []
    >>> with at.callbacks(lambda progress: steps.append(progress.metrics["round"])):
    ...     model = at.GradientBoostingClassifier(n_estimators=30).fit(X, y)
    >>> steps
    [10, 20]
    """
    token = _FOLLOWING.set(_Following(functions))
    try:
        yield
    finally:
        _FOLLOWING.reset(token)


def one_fit(fit: Fit) -> Fit:
    """Decorator of ``fit``: callbacks do not follow the fits of other models inside it."""

    @wraps(fit)
    def followed(self: Any, *arguments: Any, **by_name: Any) -> Any:
        is_inner = _FITTING.get() not in (None, id(self))
        variable: ContextVar[Any] = _FOLLOWING if is_inner else _FITTING
        token = variable.set(None if is_inner else id(self))
        try:
            return fit(self, *arguments, **by_name)
        finally:
            variable.reset(token)

    return followed  # type: ignore[return-value]


def is_followed() -> bool:
    """Whether functions follow the fits of this thread."""
    return _FOLLOWING.get() is not None


def was_ended() -> bool:
    """Whether one of these functions has ended a fit."""
    following = _FOLLOWING.get()
    return following is not None and following.has_ended


def report(elapsed: float, message: str, verbose: object, **metrics: float) -> None:
    """Print a line where wanted, and tell the functions that follow; they may raise ``KeyboardInterrupt``."""
    if verbose:
        print(f"[{elapsed:7.1f} s] {message}", file=sys.stderr)
    following = _FOLLOWING.get()
    if following is not None:
        following.tell(elapsed, message, metrics)
