"""What the terminal shows while networks grow: the hull drawn with characters, and what is being trained."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from anytime.cli.tables import console, counted, is_live, note, number

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from anytime.growth import GrowthSearch, Model
    from anytime.growth.journal import Snapshot

Piece = tuple[str, str]
_HULL, _OTHER = "bold green", "dim"
_DOING = {
    "seed": "training the seed",
    "candidates": "trying additions to model {}",
    "child": "training a child of model {}",
}
_HEIGHT, _WIDTH = 12, 78
_LOOK = 0.25  # seconds between two looks at a search


def plain_number(value: float) -> str:
    """A cost without powers of ten: ``12.5``, ``14,660``."""
    return f"{value:,.0f}" if value >= 1000 else number(value)


def hull_lines(
    costs: Sequence[float], errors: Sequence[float], *, width: int, height: int, ascii_only: bool = False
) -> list[list[Piece]]:
    """Lines of styled pieces: all models by cost, to the right, and error, upwards; those of the hull joined by a line."""
    from anytime.growth import hull_values, lower_hull

    c, e = np.asarray(costs, dtype=np.float64), np.asarray(errors, dtype=np.float64)
    hull = lower_hull(c, e)
    span, rise = (float(np.ptp(v)) or 1.0 for v in (c, e))
    columns = np.rint((c - c.min()) / span * (width - 1)).astype(int)
    cells: list[list[Piece]] = [[(" ", "")] * width for _ in range(height)]

    def row(error: float) -> int:
        return height - 1 - round((error - float(e.min())) / rise * (height - 1))

    for x in range(int(columns[hull].min()), width):
        value = float(hull_values(c, e, max(c.min(), c.min() + span * x / (width - 1))))
        cells[row(value)][x] = ("." if ascii_only else "·", _HULL)
    dot, big = ("o", "#") if ascii_only else ("○", "●")
    for i in np.argsort(np.isin(np.arange(c.size), hull), kind="stable"):  # those of the hull lie on top
        cells[row(float(e[i]))][columns[i]] = (big, _HULL) if i in hull else (dot, _OTHER)
    bar = "|" if ascii_only else "│"
    labels = {0: float(e.max()), height - 1: float(e.min())}
    return [
        [(f"{number(labels[r], 3) if r in labels else '':>8} {bar}", "dim"), *line]
        for r, line in enumerate(cells)
    ]


class GrowthScreen:
    """The state of a search, as rich draws it; call it with the search, or a snapshot of it, whenever that may have changed.

    Parameters
    ----------
    time_budget : float or None
        Seconds, to say how much is left.
    unit : str
        Of the costs.
    live : bool
        Whether the picture is drawn again and again; otherwise a line is printed per new model.
    known : Snapshot or None
        What there is already.
    """

    def __init__(
        self, time_budget: float | None, unit: str, live: bool, earlier: Snapshot | None = None
    ) -> None:
        self.time_budget, self.unit, self.live = time_budget, unit, live
        self._began = time.monotonic()
        self._models: list[Model] = earlier.models if earlier else []
        self._n_failed, self._doing = len(earlier.failures) if earlier else 0, "starting"

    def __call__(self, search: GrowthSearch | Snapshot) -> None:
        """Look at the search."""
        shown, before = {model.number for model in self._models}, self._n_failed
        failures = search.failures
        self._models, self._n_failed = search.models, len(failures)
        doing = [_DOING[job.kind].format(job.parent) for job in search.running.values()]
        self._doing = ", ".join(doing) or "finishing"
        if not self.live:
            for model in self._models:
                if model.number not in shown:
                    note(self._line(model))
            for failed in failures[before:]:
                note(f"job {failed.number} failed: {failed.failure.splitlines()[0]}")

    def _line(self, model: Model) -> str:
        origin = "the seed" if model.parent is None else f"grown from model {model.parent}"
        cost = f"{plain_number(model.cost)} {self.unit}"
        return f"model {model.number}, {origin}: error {number(model.error)}, {cost}"

    def __rich__(self) -> RenderableType:
        """The picture as it is now."""
        from rich.console import Group
        from rich.text import Text

        return Group(*self._picture(), Text(self._status(), style="dim"))

    def _picture(self) -> Iterator[Text]:
        from rich.text import Text

        if not self._models:
            return
        out = console(stderr=True)
        width = min(out.width, _WIDTH + 10) - 11
        costs, errors = [m.cost for m in self._models], [m.error for m in self._models]
        ascii_only = out.options.ascii_only
        for line in hull_lines(costs, errors, width=width, height=_HEIGHT, ascii_only=ascii_only):
            yield Text.assemble(*line, no_wrap=True)
        least, most = plain_number(min(costs)), f"{plain_number(max(costs))} {self.unit}"
        yield Text(f"{' ' * 10}{least}{most:>{width - len(least)}}", style="dim", no_wrap=True)

    def _status(self) -> str:
        passed = time.monotonic() - self._began
        clock = f"{passed:.0f} s" if self.time_budget is None else f"{passed:.0f} of {self.time_budget:.0f} s"
        failed = f", {counted(self._n_failed, 'failed job')}" if self._n_failed else ""
        return f"{clock}, {counted(len(self._models), 'model')}{failed}; {self._doing} (Ctrl-C ends it)"


@contextmanager
def watched(folder: Path, time_budget: float | None, unit: str) -> Iterator[None]:
    """Show the search of a folder while it runs: a picture on a terminal, lines in a file."""
    from rich.live import Live

    from anytime.growth.journal import snapshot

    out, journal, ended = console(stderr=True), folder / "journal.sqlite", threading.Event()
    screen = GrowthScreen(time_budget, unit, live=is_live(out), earlier=snapshot(journal))

    def look() -> None:
        while not ended.wait(_LOOK):
            screen(snapshot(journal))

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    picture = (
        Live(screen, console=out, refresh_per_second=4, transient=True) if screen.live else nullcontext()
    )
    try:
        with picture:
            yield
    finally:
        ended.set()
        watcher.join()
        screen(snapshot(journal))
