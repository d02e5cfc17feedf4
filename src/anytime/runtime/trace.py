"""A record of what a session did, and its replay: the same order, the same costs, the same bits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from anytime.answer import Answer
from anytime.costs import UNLIMITED
from anytime.estimator import AnytimeModel
from anytime.features import Extractor, Features
from anytime.runtime.example import Example
from anytime.runtime.layout import Layout
from anytime.runtime.walk import Walk

__all__ = ["Event", "ReplayError", "Trace", "replay"]


class ReplayError(ValueError):
    """A replay did not go as recorded: another model, other features, or another machine's arithmetic."""


@dataclass(frozen=True)
class Event:
    """One thing that a session did.

    Attributes
    ----------
    kind : {"group", "failure", "late", "given", "paid", "stages", "skip", "end"}
        A group arrived, failed, was not there in time, or was given (stages are then done again from the first); one that was
        there was paid for, to ask a filter; stages were done up to ``stage``; stage ``stage`` was left out; the run ended
        (``note`` says why; resuming goes on after it).
    at : float
        Seconds of work since the example was started.
    stage : int
        Stages behind the example after the event.
    cost : float
        What the example had paid after the event.
    group : str, default=""
    seconds : float, default=0
        What the event took.
    scores : tuple of float or None
        The answer after the event, where it may have changed.
    note : str, default=""
    cap : float or None
        What the example could have paid in all; None: anything.
    """

    kind: str
    at: float
    stage: int
    cost: float
    group: str = ""
    seconds: float = 0.0
    scores: tuple[float, ...] | None = None
    note: str = ""
    cap: float | None = None


@dataclass
class Trace:
    """What a session did with one example, event by event.

    Attributes
    ----------
    events : list of Event
    """

    events: list[Event] = field(default_factory=list)

    def to_json(self) -> str:
        """All events as JSON; numbers are written so that they are read back to the same bits."""
        return json.dumps({"events": [asdict(event) for event in self.events]})

    @classmethod
    def from_json(cls, text: str) -> Trace:
        """Read what ``to_json`` wrote."""
        events = [Event(**entry) for entry in json.loads(text)["events"]]
        return cls([replace(event, scores=event.scores and tuple(event.scores)) for event in events])

    def __len__(self) -> int:
        return len(self.events)


def replay(model: AnytimeModel, trace: Trace, values: ArrayLike | Mapping[str, ArrayLike]) -> Answer:
    """Run a recorded session again, and check every stage, cost and score on the way.

    Parameters
    ----------
    model : fitted AnytimeModel
    trace : Trace
    values : (d,) array, or mapping from group to its numbers
        The features that the session saw: the row it was started with, or ``session.values()``.

    Returns
    -------
    Answer
        The answer at the end of the trace.

    Raises
    ------
    ReplayError
        At the first event that goes another way.
    """
    walk, recorded = _recorded_walk(model, trace, values)
    for number, event in enumerate(trace.events):
        try:
            _redo(walk, event, recorded)
        except (ValueError, IndexError, AssertionError) as error:
            raise ReplayError(f"event {number} ({event.kind}): {error}") from error
        _compare(walk, number, event)
    last = trace.events[-1] if trace.events else Event("end", 0.0, 0, 0.0)
    return walk.answer(last.at, walk.example.failures, last.note if last.kind == "end" else "")


def _recorded_walk(
    model: AnytimeModel, trace: Trace, values: ArrayLike | Mapping[str, ArrayLike]
) -> tuple[Walk, dict[str, ArrayLike]]:
    """The example before the first event, and the numbers of its groups."""
    layout = Layout(model, None)
    if not isinstance(values, Mapping):
        row = layout.reader.one(values).X
        values = {name: row[0, columns] for name, columns in zip(layout.names, layout.columns, strict=True)}
    recorded = dict(values)
    if any(event.kind in ("group", "failure", "late") for event in trace.events):
        extractors = {name: Extractor(partial(_look_up, name, recorded)) for name in layout.names}
        layout = Layout(model, Features(extractors))
        return Walk(layout, Example(layout, None)), recorded
    there = set(recorded) - {event.group for event in trace.events if event.kind == "given"}
    X, available = np.full((1, layout.column_group.size), np.nan), np.zeros(len(layout.names), dtype=bool)
    available[[columns.size == 0 for columns in layout.columns]] = True
    for name in there:
        X[0, layout.columns[layout.number[name]]], available[layout.number[name]] = recorded[name], True
    failures = {name: "is not there" for name in layout.names if name not in there}
    state = {"raw": None, "X": X, "available": available, "failures": failures, "results": {}}
    return Walk(layout, Example.from_state(layout, state)), recorded


def _look_up(name: str, recorded: Mapping[str, ArrayLike], _: Any) -> ArrayLike:
    if name not in recorded:
        raise LookupError("the recorded values do not have it")
    return recorded[name]


def _redo(walk: Walk, event: Event, recorded: Mapping[str, ArrayLike]) -> None:
    cap = int(UNLIMITED) if event.cap is None else walk.costs.budget_ticks(event.cap)
    if event.kind == "given":
        walk.give({walk.layout.number[event.group]: _look_up(event.group, recorded, None)})
    elif event.kind in ("group", "failure", "late", "paid"):
        group = walk.layout.number[event.group]
        walk.buy(group)  # what failed has been paid for
        if event.kind == "group":
            walk.example.fetch(group, lambda: 0.0)
        elif event.kind == "failure":
            walk.example.failures[event.group] = event.note
    elif event.kind == "skip":
        if event.group:
            walk.example.failures.setdefault(event.group, event.note)
        for left_out in range(walk.done, event.stage):
            walk.skip(left_out, failed=bool(event.group))
    elif event.kind == "stages":
        _redo_stages(walk, event.stage, cap)
    elif walk.layout.features is None and walk.costs.amount(walk.paid) < event.cost:
        walk.advance(event.stage + 1, cap)  # groups that were bought for a stage which then could not be done


def _redo_stages(walk: Walk, to: int, cap: int) -> None:
    plan, layout = walk.plan, walk.layout
    if layout.features is None:
        walk.advance(to, cap)
    while walk.done < to and not walk.ended:
        s = walk.done
        if layout.native[layout.block_of[s]]:
            end = min(to, plan.block_start[layout.block_of[s] + 1])
            clear, group = walk.clear_until(end)
            if clear < end:
                raise ValueError(
                    f"stage {clear + 1} needs group {layout.names[group]!r}, which was not recorded before it"
                )
            walk.forward(end, cap)
        else:
            walk.do_stage(s, cap)


def _compare(walk: Walk, number: int, event: Event) -> None:
    seen: list[tuple[str, Any, Any]] = [
        ("stage", walk.done, event.stage),
        ("cost", walk.costs.amount(walk.paid), event.cost),
    ]
    if event.scores is not None:
        seen.append(("scores", tuple(walk.scores()[0].tolist()), event.scores))
    for what, now, then in seen:
        if not np.array_equal(now, then, equal_nan=True):
            raise ReplayError(f"event {number} ({event.kind}): {what} is {now}, but {then} was recorded")
