"""Whole structures are labelled beside the event loop: pictures, sentences, graphs, each stage in a thread.

A stage of a picture takes milliseconds, its regions more than that. So stages run in threads, clients are told the labels after
the last stage that was finished in time, and an interrupt ends what nobody waits for any more.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from anytime._native import StopFlag
from anytime.answer import Answer
from anytime.costs import UNLIMITED
from anytime.engine import Run
from anytime.serve.pace import StagePace, checkpoints_of
from anytime.serve.questions import Question
from anytime.serve.sessions import SessionsBeside
from anytime.structured.model import StructuredModel
from anytime.structured.scene_parser import SceneParser
from anytime.structured.scene_session import SceneSession
from anytime.structured.structures import Structures

_REASONS = ("deadline", "groups", "budget")  # of many structures the first that one of them has
_TURNS = 2  # of measuring, the last of which counts


class Labelling(SessionsBeside):
    """Answers the structures of one model: each picture in a session of its own, sentences or graphs of a request together."""

    def __init__(self, model: StructuredModel, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(os.cpu_count() or 1, clock)
        self.model = model

    def _begin(self, question: Question) -> list[Any]:
        assert question.raws is not None
        if not isinstance(self.model, SceneParser):
            return [_StructuresUnderWay(self.model, question.raws)]  # type: ignore[arg-type]
        sessions = []
        for picture in question.raws:
            sessions.append(SceneSession(self.model))
            sessions[-1].start(picture)
        return sessions

    def _run(self, sessions: list[Any], i: int, question: Question, due: float, stop: StopFlag) -> None:
        left = None if due == np.inf else max(due - self.clock(), 0.0)
        sessions[i].resume(budget=question.budget, mean_budget=question.mean_budget, deadline=left, stop=stop)

    def _read(self, sessions: list[Any], question: Question) -> Answer:
        parts: list[Answer] = [session.read() for session in sessions]
        reasons = ["deadline" if part.reason in ("", "stop") else part.reason for part in parts]
        sizes = [len(part.scores) for part in parts]
        return Answer.joined(
            parts,
            stage=np.concatenate(
                [np.full(n, part.stage) for n, part in zip(sizes, parts, strict=True)]
            ).astype(np.int64),
            elapsed=self.clock() - question.arrived,
            partial=np.repeat([reason == "deadline" for reason in reasons], sizes),
            reason=next((reason for reason in _REASONS if reason in reasons), "complete"),
        )


class _StructuresUnderWay:
    """Sentences or graphs of one request, whose stages are run one after the other."""

    def __init__(self, model: StructuredModel, structures: Structures) -> None:
        self._model, self._began = model, time.monotonic()
        self._run = Run(model.plan_, structures, metered=True)  # type: ignore[arg-type]
        self._answer = model._read(self._run, self._began)

    def resume(
        self, budget: float | None, mean_budget: float | None, deadline: float | None, stop: StopFlag
    ) -> None:
        """Run stages until all is done that the bounds allow."""
        due = np.inf if deadline is None else time.monotonic() + deadline
        stages, most, _ = self._model._reach(budget, mean_budget)
        cap = UNLIMITED if most is None else int(most)
        for stage in range(1, int(stages) + 1):
            if not self._run.advance(stage, budget=cap, deadline=due, stop=stop):
                return
            self._answer = self._model._read(self._run, self._began)
        reason = "complete" if self._answer.complete or stages == self._model.plan_.n_stages else "budget"
        if self._run.incomplete.any():
            reason = "groups"
        self._answer = self._answer.changed(reason=reason)

    def read(self) -> Answer:
        """The labels after the last stage that was finished."""
        return self._answer


def pace_of(model: StructuredModel, read: Callable[[], Structures]) -> StagePace:
    """How long the stages of a model take on an example that ``read`` gives, anew each time."""
    checkpoints = checkpoints_of(model.plan_.n_stages)
    times = np.zeros(checkpoints.size)
    for _ in range(_TURNS):
        began = time.perf_counter()
        run = Run(model.plan_, read(), metered=True)  # type: ignore[arg-type]
        for k, stage in enumerate(checkpoints):
            run.advance(int(stage))
            times[k] = time.perf_counter() - began
    return StagePace(checkpoints, times)
