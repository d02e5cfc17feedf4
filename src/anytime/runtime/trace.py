"""A record of what a session did, and its replay: same order, same costs, identical scores."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from anytime.answer import Answer
from anytime.costs import UNLIMITED
from anytime.estimator import AnytimeModel
from anytime.features import Extractor, Features
from anytime.runtime.example import Arrival, Example
from anytime.runtime.layout import Layout
from anytime.runtime.walk import Walk


class ReplayError(ValueError):
    """A replay differs from the record: another model, other features, or another machine's arithmetic."""


@dataclass(frozen=True)
class Event:
    """One thing that a session did.

    By ``kind``: a "group" arrived, is a "failure" or "late"; ``groups`` were "given" (stages are then done again from the first);
    a group that was there was "paid" for, to ask a filter; "stages" were done up to ``stage``; the gate of stage ``stage`` was
    "asked", which could not be paid before; "skip": stages up to ``stage`` were left out, or none where the run cannot continue;
    "turn": from here on the example goes to a ``branch``; "end": the run ended (``note`` says why; resuming goes on after it).
    """

    kind: str
    at: float  # seconds of work since the example was started
    stage: int  # stages behind the example after the event
    cost: float  # what the example had paid after the event
    group: str = ""
    seconds: float = 0.0  # what the event took
    scores: tuple[float, ...] | None = None  # the answer after the event, where it may have changed
    note: str = ""
    cap: float | None = None  # what the example could have paid in all; None: anything
    # groups that were given; or all that were paid for when a stage was begun and could not be finished
    groups: tuple[str, ...] = ()
    # what given groups held before, if anything
    replaced: dict[str, list[float]] = field(default_factory=dict)
    branch: int = -1  # where the example turns to; -1: along the chain


@dataclass
class Trace:
    """What a session did with one example, event by event.

    See Also
    --------
    replay : Runs a recorded trace again.

    Examples
    --------
    >>> import anytime as at
    >>> X, y, costs = at.datasets.load("wine")
    >>> session = at.Session(at.GroupPursuitClassifier(costs=costs, random_state=0).fit(X, y)).start(X[0])
    >>> answer = session.resume(budget=20)
    >>> trace = at.Trace.from_json(session.trace.to_json())
    >>> trace.events[-1].kind, trace.events[-1].note
    ('end', 'budget')
    """

    events: list[Event] = field(default_factory=list)
    held: Sequence[str] | None = None  # groups that the row had at the start; None: they come from extractors

    def to_json(self) -> str:
        """The trace as JSON; numbers keep their exact value."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Trace:
        """Read what ``to_json`` wrote."""
        document = json.loads(text)
        events = [Event(**entry) for entry in document["events"]]
        return cls(
            [replace(e, scores=e.scores and tuple(e.scores), groups=tuple(e.groups)) for e in events],
            document["held"],
        )

    def __len__(self) -> int:
        return len(self.events)


def replay(model: AnytimeModel, trace: Trace, values: ArrayLike | Mapping[str, ArrayLike]) -> Answer:
    """Run a recorded session again, and check every stage, cost and score on the way.

    Parameters
    ----------
    model : fitted AnytimeModel
        The model of the recorded session.
    trace : Trace
        The record: ``session.trace``.
    values : (d,) array, or mapping from group to its numbers
        The features that the session saw: ``session.values()``, or the row it was started with if none were given to it.

    Returns
    -------
    Answer
        The answer at the end of the trace.

    Raises
    ------
    ReplayError
        At the first event that differs.

    See Also
    --------
    Trace : The record of a run.

    Examples
    --------
    >>> import anytime as at
    >>> X, y, costs = at.datasets.load("wine")
    >>> model = at.GroupPursuitClassifier(costs=costs, random_state=0).fit(X, y)
    >>> session = at.Session(model).start(X[0])
    >>> answer = session.resume(budget=20)
    >>> again = at.replay(model, session.trace, X[0])
    >>> bool((again.scores == answer.scores).all()), again.cost == answer.cost
    (True, True)
    """
    walk, provided = _recorded_walk(model, trace, values)
    for number, event in enumerate(trace.events):
        try:
            _redo(walk, event, provided.get(number, {}))
        except (ValueError, IndexError, AssertionError) as error:
            raise ReplayError(f"event {number} ({event.kind}): {error}") from error
        _compare(walk, number, event)
    last = trace.events[-1] if trace.events else Event("end", 0.0, 0, 0.0)
    return walk.answer(last.at, walk.example.failures, last.note if last.kind == "end" else "")


def _recorded_walk(
    model: AnytimeModel, trace: Trace, values: ArrayLike | Mapping[str, ArrayLike]
) -> tuple[Walk, dict[int, dict[str, ArrayLike]]]:
    """The example before the first event, and the numbers that each event gave, by its position."""
    layout = Layout(model, None)
    if not isinstance(values, Mapping):
        row = layout.reader.one(values).X
        values = {name: row[0, columns] for name, columns in zip(layout.names, layout.columns, strict=True)}
    numbers, provided = dict(values), {}
    # from those at the end to those at the beginning
    for place, event in reversed([*enumerate(trace.events)]):
        if event.kind == "given":
            provided[place] = {name: numbers.pop(name, ()) for name in event.groups}
            numbers |= event.replaced
    if trace.held is None:
        extractors = {name: Extractor(partial(_look_up, name, numbers)) for name in layout.names}
        layout = Layout(model, Features(extractors))
        return Walk(layout, Example(layout, None)), provided
    example = Example(layout, {})
    for name in trace.held:
        if example.accept(layout.number[name], numbers.get(name, ())) is Arrival.FAILED:
            raise ReplayError(f"group {name!r}: {example.failures[name]}")
        example.failures.pop(name, None)
    return Walk(layout, example), provided


def _look_up(name: str, numbers: Mapping[str, ArrayLike], _: Any) -> ArrayLike:
    if name not in numbers:
        raise LookupError("the recorded values do not have it")
    return numbers[name]


def _redo(walk: Walk, event: Event, provided: Mapping[str, ArrayLike]) -> None:
    cap = int(UNLIMITED) if event.cap is None else walk.costs.budget_ticks(event.cap)
    if event.kind == "given":
        walk.give({walk.layout.number[name]: numbers for name, numbers in provided.items()})
        return
    if event.kind == "turn":
        walk.turn_to(walk.layout.chain.way(event.branch))
        return
    if event.kind in ("group", "failure", "late", "paid"):
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
    elif event.kind == "asked":
        walk.ask_again(cap)
    walk.pay([walk.layout.number[name] for name in event.groups])


def _redo_stages(walk: Walk, to: int, cap: int) -> None:
    plan, layout = walk.plan, walk.layout
    if layout.features is None:
        walk.advance(to, cap)
        return
    while walk.done < to and not walk.ended:
        s = walk.done
        if layout.native[layout.block_of[s]]:
            end = min(to, plan.block_start[layout.block_of[s] + 1])
            clear, lacking = walk.clear_until(end)
            if clear < end:
                name = layout.names[lacking[0]]
                raise ValueError(f"stage {clear + 1} needs group {name!r}, which was not recorded before it")
            walk.forward(end, cap)
        else:
            walk.do_stage(s, cap)
        if walk.done == s:
            raise ValueError(f"stage {s + 1} costs more than the session could pay")


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
