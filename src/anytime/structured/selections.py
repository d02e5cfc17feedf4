"""The regions of a picture that each stage of a scene parser selects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anytime.engine import Run
from anytime.losses import LINKS
from anytime.structured.block import StructuredBlock
from anytime.structured.scene_parser import SceneParser
from anytime.structured.scenes import Scenes

__all__ = ["selected_pixels"]


def selected_pixels(model: SceneParser, picture: Any) -> Iterator[NDArray[np.bool_]]:
    """Pixels of the regions that each stage works on, one map per stage.

    Parameters
    ----------
    model : fitted SceneParser
    picture : (h, w, 3) array, or as ``SceneParser.predict`` takes it

    Returns
    -------
    iterator of (h, w) bool
        The first is that of stage 1.

    Examples
    --------
    >>> import anytime as at
    >>> label = np.repeat([[0, 1]], 24, axis=0).repeat(16, axis=1)
    >>> picture = np.where(label[:, :, None] == 1, [200, 40, 40], [30, 30, 190]).astype(np.uint8)
    >>> X, y = [picture, picture[:, ::-1]] * 2, [label, label[:, ::-1]] * 2
    >>> model = at.SceneParser(n_centres=4, max_stages=3, min_samples_leaf=1, folds=2, random_state=0).fit(X, y)
    >>> [mask.shape for mask in at.structured.selected_pixels(model, picture)][0]
    (24, 32)
    """
    scenes = model._structures([picture])
    atom = scenes.scenes[0].hierarchy.atom
    run = Run(model.plan_, scenes)  # type: ignore[arg-type]
    for block in model.plan_.blocks:
        assert isinstance(block, StructuredBlock)
        for stage, update in enumerate(block.updates):
            answer: Any = run.scores()
            scores = block.scores_before(stage, answer.values)
            which = update.selector.select(scenes, LINKS["softmax"].transform(scores))
            yield _atoms_in(scenes, update.selector.level, which)[atom]
            run.advance(stage + 1)


def _atoms_in(scenes: Scenes, level: int, which: NDArray[np.intp] | None) -> NDArray[np.bool_]:
    """(A,) atoms of some regions of a level; None: of all."""
    regions = scenes.regions(level)
    chosen = np.full(regions.n_regions, which is None)
    if which is not None:
        chosen[which] = True
    return np.asarray(chosen[regions.label])
