"""Pictures on their way through the stages of a parser, which may be interrupted between stages and within them.

The one loop behind ``SceneSession`` and ``SceneParser.predict(deadline=)``.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from anytime.answer import Answer
from anytime.engine import Run, Stop
from anytime.structured.scenes import AtomValues, Scene, Scenes
from anytime.structured.segmentation import PictureInterrupted

if TYPE_CHECKING:
    from anytime.structured.scene_parser import SceneParser

__all__ = ["PictureRun", "expected_seconds", "parse_together"]


def expected_seconds(model: SceneParser) -> NDArray[np.float64]:
    """(S,) what each stage is expected to take, where prices are times; the picture is cut into regions before the first."""
    per_stage = np.diff(model.stage_costs_, prepend=model.costs_.prices["segments"])
    return 1e-3 * per_stage if model.costs_.unit == "ms" else np.zeros_like(per_stage)


class PictureRun:
    """One picture under way.

    Parameters
    ----------
    model : fitted SceneParser
    rgb : (h, w, 3) uint8
    expected : (S,)
        Seconds that stages are expected to take.

    Attributes
    ----------
    answer : Answer
        After the last stage that was finished; at first the most frequent class everywhere. It is replaced as a whole, so that
        other threads may read it.
    """

    def __init__(self, model: SceneParser, rgb: NDArray[np.uint8], expected: NDArray[np.float64]) -> None:
        self._model, self._expected, self._began = model, expected, time.monotonic()
        self._scene = Scene(rgb, model.features_, model._threads())
        self._run: Run | None = None
        whole = AtomValues(model.plan_.base[None], [0, 1], [np.zeros(rgb.shape[:2], dtype=np.int32)])
        nothing = np.zeros(model.plan_.costs.n_groups, dtype=bool)
        self.answer: Answer = model._answer(
            whole, np.zeros(1, dtype=np.int32), np.zeros(1, dtype=np.int64), nothing, np.zeros(1, dtype=bool)
        )

    @property
    def done(self) -> int:
        """Stages that are finished."""
        return 0 if self._run is None else int(self._run.done[0])

    def advance(self, until: int, cap: int, due: float, stop: Stop | None) -> str:
        """Take stages up to ``until``, while ticks, the clock and ``stop`` allow; what ended them.

        Where less than all stages were asked for, that is taken for the end of a budget.
        """
        self._scene.interrupt_at(due, stop)
        try:
            reason = self._advance(until, cap, due, stop)
        except PictureInterrupted:
            reason = "stop" if stop is not None and stop.is_set() else "deadline"
        finally:
            self._scene.interrupt_at(np.inf, None)
        self.answer = self.answer.changed(
            reason=reason,
            finished=np.array([reason == "complete"]),
            partial=np.array([reason in ("deadline", "stop")]),
            elapsed=time.monotonic() - self._began,
        )
        return reason

    def _advance(self, until: int, cap: int, due: float, stop: Stop | None) -> str:
        plan = self._model.plan_
        far_enough = "complete" if until >= plan.n_stages else "budget"
        if not until:
            return far_enough
        if self._run is None:
            if cap < plan.costs.costs.ticks(plan.costs.costs.prices["segments"]):
                return "budget"
            scenes: Any = Scenes([self._scene], self._scene.features)
            self._run = Run(plan, scenes, metered=True)
        run = self._run
        budget = np.array([cap], dtype=np.int64)
        while (stage := int(run.done[0])) < until:
            if stop is not None and stop.is_set():
                return "stop"
            if time.monotonic() + self._expected[stage] >= due:
                return "deadline"
            assert run.ledger is not None
            ledger = run.ledger.copy()
            try:
                run.advance(stage + 1, budget=budget)
            except PictureInterrupted:
                run.ledger = ledger  # the stage is paid for when it is taken
                raise
            if int(run.done[0]) == stage:
                return "budget"
            self.answer = self._model._read(run, self._began)
        return far_enough


def parse_together(
    model: SceneParser,
    pictures: Sequence[NDArray[np.uint8]],
    stages: Any,
    cap: Any,
    due: float,
    stop: Stop | None,
) -> Answer:
    """The best labels of all pictures that the time allows: every picture is taken through a stage before any goes on.

    Parameters
    ----------
    model : fitted SceneParser
    pictures : sequence of (h, w, 3) uint8
        At least one.
    stages, cap : int or (n,) int
        The most stages, and the most ticks, of all or of each.
    due : float
        On the clock of ``time.monotonic()``.
    stop : anything with ``is_set``, or None
    """
    began, expected = time.monotonic(), expected_seconds(model)
    runs = [PictureRun(model, rgb, expected) for rgb in pictures]
    goals, caps = (np.broadcast_to(limit, len(runs)).tolist() for limit in (stages, cap))
    ended = [False] * len(runs)
    reason = ""
    for stage in range(1, max(goals) + 1):
        for i, run in enumerate(runs):
            if ended[i] or stage > goals[i]:
                continue
            reason = run.advance(stage, caps[i], due, stop)
            if reason in ("deadline", "stop"):
                break
            ended[i] = run.done < stage or reason == "complete"  # no money is left, or nothing to do
        if reason in ("deadline", "stop") or all(ended):
            break
    partial = np.zeros(len(runs), dtype=bool)
    if reason in ("deadline", "stop"):
        partial[:] = [
            not over and run.done < goal for over, run, goal in zip(ended, runs, goals, strict=True)
        ]
    complete = np.array([run.done == model.plan_.n_stages for run in runs])
    if not partial.any():
        reason = "complete" if complete.all() else "budget"
    return Answer.joined(
        [run.answer for run in runs],
        reason=reason,
        finished=complete,
        partial=partial,
        elapsed=time.monotonic() - began,
    )
