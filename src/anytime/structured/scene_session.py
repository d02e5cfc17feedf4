"""One picture in progress: stages refine its label map until an interrupt, and any thread may read meanwhile."""

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
    """A parser, and the current picture.

    One thread computes (others that try wait for it); any thread may ``read`` meanwhile, and gets the labels after the last
    completed stage, never a mixture of two. Before the picture is segmented, this is the most frequent class.

    Deadline and ``stop`` are checked between stages and within them, every few thousand operations of segmentation, descriptors
    and codes. Completed parts of an interrupted stage are kept for the next call: regions, whole descriptors and codes.
    Incomplete parts start over, so calls shorter than the segmentation (about 20 ms for 480 x 360 pixels) never get beyond it.

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
        """Label a new picture within the bounds: ``start`` and ``resume``."""
        began = time.monotonic()
        self.start(picture)
        left = None if deadline is None else max(0.0, deadline - (time.monotonic() - began))
        return self.resume(budget=budget, mean_budget=mean_budget, deadline=left, stop=stop)

    def start(self, picture: Any) -> None:
        """Start a picture; from now on ``read`` returns its labels."""
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
        """Continue the picture.

        Parameters
        ----------
        budget, mean_budget : float, default=None
            As in ``SceneParser.predict``: the total cost at the end, counted by the model's ``meter``.
        deadline : float, default=None
            Seconds from now. A stage that is not expected to end in time is not started.
        stop : anything with ``is_set``, default=None

        Returns
        -------
        Answer
            For one picture: ``prediction`` is a list of one label map.
        """
        due = time.monotonic() + deadline if deadline is not None else np.inf
        with self._writer:
            picture = self._current()
            stages, most, _ = self.model._reach(budget, mean_budget)
            picture.advance(int(stages), UNLIMITED if most is None else int(most), due, stop)
            return picture.answer

    def read(self) -> Answer:
        """The labels after the last completed stage; never waits."""
        return self._current().answer

    def _current(self) -> PictureRun:
        if self._picture is None:
            raise ValueError("there is no image yet: call start(picture) first")
        return self._picture
