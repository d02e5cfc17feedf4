"""What commands print: tables, notes and progress, on a terminal of any kind or in a file."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import isfinite
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

_WIDE = 200  # columns: nothing is cut in a table that goes to a file or another program
_WORTH_A_LINE = 1.0  # seconds: shorter work needs no word where no spinner can be shown


def console(stderr: bool = False) -> Console:
    """The terminal; 80 columns wide where it is a file or a pipe."""
    from rich.console import Console

    class Terminal(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # errors.Commands knows what to do

    return Terminal(stderr=stderr, highlight=False, emoji=False)


# ---------------------------------------------------------------------- numbers


def number(value: float, digits: int = 4) -> str:
    """A number with a few significant digits; ``-`` where there is none."""
    return f"{value:.{digits}g}" if isfinite(value) else "-"


def amount(value: float, unit: str | None, digits: int = 4) -> str:
    """A cost with its unit: ``2 ms``, ``1 column``."""
    unit = "column" if unit == "columns" and value == 1 else unit
    return f"{number(value, digits)} {unit}" if unit and isfinite(value) else number(value, digits)


def share(value: float) -> str:
    """A quality to four decimals."""
    return f"{value:.4f}" if isfinite(value) else "-"


def counted(count: int, thing: str) -> str:
    """How many of a thing: ``1 row``, ``2 rows``."""
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


def thinned(length: int, most: int) -> list[int]:
    """At most ``most`` positions out of ``length``, evenly spread, the first and the last among them."""
    if length <= most:
        return list(range(length))
    return sorted({round(j * (length - 1) / (most - 1)) for j in range(most)})


# ---------------------------------------------------------------------- tables


def print_title(text: str) -> None:
    """A heading."""
    from rich.text import Text

    console().print(Text(text, style="bold"))


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], *, title: str | None = None, left_out: int = 0
) -> None:
    """A table; columns whose name begins with ``<`` are words and stand to the left, the others to the right."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        show_edge=False,
        collapse_padding=True,
        header_style="bold",
        show_header=any(columns),
    )
    lines = [[str(cell) for cell in row] for row in rows]
    for j, name in enumerate(columns):
        words, name = name.startswith("<"), name.removeprefix("<")
        width = max(map(len, [name, *[line[j] for line in lines]]))
        # where room is short, words are cut, never numbers
        table.add_column(
            name, justify="left" if words else "right", min_width=4 if words else width, no_wrap=True
        )
    for line in lines:
        table.add_row(*map(Text, line))
    out = console()
    if not out.is_terminal:
        out.width = max(out.width, _WIDE)
    if title:
        out.print()
        out.print(Text(title, style="bold"))
    out.print(table)
    if left_out:
        out.print(Text(f"({left_out} more between these)", style="dim"))


def print_text(text: str, indent: int = 0) -> None:
    """A paragraph, wrapped to the terminal's width."""
    import textwrap

    out = console()
    margin = " " * indent
    for line in textwrap.wrap(text, min(out.width, 100), initial_indent=margin, subsequent_indent=margin):
        out.print(line, markup=False, soft_wrap=True)


def note(text: str) -> None:
    """A line beside the result: to standard error, so that the output can be piped."""
    from rich.text import Text

    console(stderr=True).print(Text(text, style="dim"), soft_wrap=True)


# ---------------------------------------------------------------------- progress


@contextmanager
def step(text: str) -> Iterator[None]:
    """A spinner with the time passed while work of unknown length is done; one line in a file, if it took long."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    out = console(stderr=True)
    began = time.monotonic()
    if not is_live(out):
        yield
        if time.monotonic() - began > _WORTH_A_LINE:
            note(f"{text}: {time.monotonic() - began:.1f} s")
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=out, transient=True) as progress:
        progress.add_task(text, total=None)
        yield


def track(items: Sequence[Any], text: str) -> Iterator[Any]:
    """The items, with a bar that shows how many are done."""
    with counting(text, len(items)) as done:
        for item in items:
            yield item
            done(1)


@contextmanager
def counting(text: str, total: int) -> Iterator[Callable[[int], object]]:
    """A bar while ``total`` things are done, and what to tell when some more are; one line in a file, if it took long."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    out = console(stderr=True)
    began = time.monotonic()
    if not is_live(out):
        yield lambda more: None
        if time.monotonic() - began > _WORTH_A_LINE:
            note(f"{text}: {time.monotonic() - began:.1f} s")
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=out, transient=True) as progress:
        task = progress.add_task(text, total=total)
        yield lambda more: progress.advance(task, more)


def is_live(out: Console) -> bool:
    """Whether what is printed there can be drawn over."""
    return out.is_terminal and not out.is_dumb_terminal and sys.stderr.isatty()
