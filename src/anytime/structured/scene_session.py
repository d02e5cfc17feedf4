"""One picture under way: stages refine its label map, an interrupt ends them, and any thread may read meanwhile."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np

from anytime.answer import Answer
from anytime.costs import UNLIMITED
from anytime.engine import Run, Stop
from anytime.structured.pictures import read_picture
from anytime.structured.scene_parser import SceneParser
from anytime.structured.scenes import AtomValues, PictureInterrupted, Scene, Scenes

__all__ = ["SceneSession"]


class SceneSession:
    """A parser, and one picture under way.

    One thread computes (others that try wait for it); any thread may ``read`` meanwhile, and gets the labelling after the last
    stage that was finished, never a mixture of two. Before the picture is cut into regions, this is the most frequent class.

    Deadline and ``stop`` are looked at between stages and within them, every few thousand operations of the segmentation and
    every row of a code. What an interrupted stage has computed is kept for the next call; its change of the scores is not.

    Parameters
    ----------
    model : fitted SceneParser

    Examples
    --------
    >>> import numpy as np
    >>> import anytime as at
    >>> label = np.repeat([[0, 1]], 24, axis=0).repeat(16, axis=1)
    >>> picture = np.where(label[:, :, None] == 1, [200, 40, 40], [30, 30, 190]).astype(np.uint8)
    >>> X, y = [picture, picture[:, ::-1]] * 2, [label, label[:, ::-1]] * 2
    >>> model = at.SceneParser(n_centres=4, max_stages=3, min_samples_leaf=1, folds=2, random_state=0).fit(X, y)
    >>> session = at.structured.SceneSession(model)
    >>> answer = session.predict(picture, deadline=60.0)
    >>> bool((answer.prediction[0] == label).all()), answer.reason
    (True, 'complete')
    """

    def __init__(self, model: SceneParser) -> None:
        self.model = model
        self._writer = threading.Lock()
        self._run: Run | None = None
        self._answer: Answer | None = None
        # what stages are expected to take, where prices are times; regions are there before the first
        per_stage = np.diff(model.stage_costs_, prepend=model.costs_.prices["segments"])
        self._expected = 1e-3 * per_stage if model.costs_.unit == "ms" else np.zeros_like(per_stage)

    def predict(
        self,
        picture: Any,
        *,
        budget: float | None = None,
        mean_budget: float | None = None,
        deadline: float | None = None,
        stop: Stop | None = None,
    ) -> Answer:
        """Take a new picture as far as the bounds allow: ``start`` and ``resume``."""
        began = time.monotonic()
        self.start(picture)
        left = None if deadline is None else max(0.0, deadline - (time.monotonic() - began))
        return self.resume(budget=budget, mean_budget=mean_budget, deadline=left, stop=stop)

    def start(self, picture: Any) -> None:
        """Begin with a picture; from now on ``read`` is about it."""
        rgb = read_picture(picture)
        with self._writer:
            model = self.model
            self._began = time.monotonic()
            self._scene, self._run = Scene(rgb, model.features_, model._threads()), None
            whole = AtomValues(model.plan_.base[None], [0, 1], [np.zeros(rgb.shape[:2], dtype=np.int32)])
            nothing = np.zeros(model.plan_.costs.n_groups, dtype=bool)
            self._answer = model._answer(
                whole, 0, np.zeros(1, dtype=np.int64), nothing, np.zeros(1, dtype=bool)
            )

    def resume(
        self,
        *,
        budget: float | None = None,
        mean_budget: float | None = None,
        deadline: float | None = None,
        stop: Stop | None = None,
    ) -> Answer:
        """Go on with the picture.

        Parameters
        ----------
        budget, mean_budget : float, default=None
            As in ``SceneParser.predict``: what it may have cost in the end, counted by the model's ``meter``.
        deadline : float, default=None
            Seconds from now. A stage that is not expected to end in time is not begun.
        stop : anything with ``is_set``, default=None

        Returns
        -------
        Answer
            Of one picture: ``prediction`` is a list of one label map.
        """
        due = time.monotonic() + deadline if deadline is not None else np.inf
        with self._writer:
            if self._answer is None:
                raise ValueError("there is no picture yet: call start(picture) first")
            stages, most, _ = self.model._reach(budget, mean_budget)
            cap = UNLIMITED if most is None else int(most)
            reason = self._proceed(int(stages), cap, due, stop)
            complete = np.array([reason == "complete"])
            self._answer = self._answer.changed(
                reason=reason, finished=complete, elapsed=time.monotonic() - self._began
            )
            return self._answer

    def read(self) -> Answer:
        """The labelling after the last finished stage; never waits."""
        if self._answer is None:
            raise ValueError("there is no picture yet: call start(picture) first")
        return self._answer

    def _proceed(self, until: int, cap: int, due: float, stop: Stop | None) -> str:
        """Take stages until something ends them; what that was."""
        scene, plan = self._scene, self.model.plan_
        far_enough = "complete" if until == plan.n_stages else "budget"
        if not until:
            return far_enough
        scene.interrupt_at(due, stop)
        try:
            if self._run is None:
                first = plan.costs.costs.ticks(plan.costs.costs.prices["segments"])
                if cap < first:
                    return "budget"
                self._run = Run(plan, Scenes([scene], self.model.features_), metered=True)  # type: ignore[arg-type]
            run = self._run
            while (stage := int(run.done[0])) < until:
                if stop is not None and stop.is_set():
                    return "stop"
                if time.monotonic() + self._expected[stage] >= due:
                    return "deadline"
                run.advance(stage + 1, budget=np.array([cap], dtype=np.int64))
                if int(run.done[0]) == stage:
                    return "budget"
                self._answer = self.model._read(run, self._began)
            return far_enough
        except PictureInterrupted:
            return "stop" if stop is not None and stop.is_set() else "deadline"
        finally:
            scene.interrupt_at(np.inf, None)
