"""One picture under way: stages refine its label map, an interrupt ends them, and any thread may read meanwhile."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np

from anytime.answer import Answer
from anytime.costs import UNLIMITED
from anytime.engine import Stop
from anytime.structured.pictures import read_picture
from anytime.structured.scene_parser import SceneParser
from anytime.structured.scene_run import PictureRun, expected_seconds

__all__ = ["SceneSession"]


class SceneSession:
    """A parser, and one picture under way.

    One thread computes (others that try wait for it); any thread may ``read`` meanwhile, and gets the labelling after the last
    stage that was finished, never a mixture of two. Before the picture is cut into regions, this is the most frequent class.

    Deadline and ``stop`` are looked at between stages and within them, every few thousand operations of segmentation,
    descriptors and codes. What an interrupted stage has completed is kept for the next call: regions, whole descriptors and
    codes. What was half done is begun anew, so that calls shorter than the segmentation (about 20 ms for 480 x 360 pixels)
    never get beyond it.

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
        self._picture: PictureRun | None = None
        self._expected = expected_seconds(model)

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
            self._picture = PictureRun(self.model, rgb, self._expected)

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
            picture = self._current()
            stages, most, _ = self.model._reach(budget, mean_budget)
            picture.advance(int(stages), UNLIMITED if most is None else int(most), due, stop)
            return picture.answer

    def read(self) -> Answer:
        """The labelling after the last finished stage; never waits."""
        return self._current().answer

    def _current(self) -> PictureRun:
        if self._picture is None:
            raise ValueError("there is no picture yet: call start(picture) first")
        return self._picture
