"""Entropies of regions that are kept up to date (speedboost_and_structured 4.4, 9.7)."""

import numpy as np
import pytest

from anytime.losses import LINKS
from anytime.structured import EntropySelector
from anytime.structured.beliefs import Beliefs, entropies
from anytime.structured.scenes import Scene, SceneFeatures, Scenes
from anytime.structured.structures import WHOLE
from tests.structured.streets import streets


@pytest.fixture
def scenes():
    pictures, _ = streets(2)
    return Scenes([Scene(rgb, SceneFeatures({})) for rgb in pictures], SceneFeatures({}))


def changes(scenes, rng, n=12):
    """Scores after updates of a few regions of some level each."""
    scores = rng.standard_normal((scenes.n_elements, 4))
    for _ in range(n):
        regions = scenes.regions(int(rng.integers(scenes.n_levels)))
        chosen = rng.choice(regions.n_regions, max(1, regions.n_regions // 4), replace=False)
        scores = scores + np.isin(regions.label, chosen)[:, None] * rng.standard_normal(4)
        yield scores


def test_what_is_kept_has_the_bits_of_what_is_computed_anew(scenes):
    rng = np.random.default_rng(0)
    for scores in changes(scenes, rng):
        beliefs, said = scenes.beliefs(scores), LINKS["softmax"].transform(scores)
        np.testing.assert_array_equal(beliefs.probabilities, said)
        for level in rng.choice(
            [WHOLE, *range(scenes.n_levels)], 3, replace=False
        ):  # not all are asked for every time
            expected = scenes.regions(level).mean(entropies(said))
            np.testing.assert_array_equal(beliefs.mean_entropies(level), expected)
            selector = EntropySelector(level, 0.9)
            if level != WHOLE:
                kept, anew = selector.select_by(scenes, beliefs), selector.select(scenes, said)
                np.testing.assert_array_equal(kept, anew)
        np.testing.assert_array_equal(beliefs.entropies, entropies(said))


def test_only_regions_that_overlap_an_update_get_a_new_mean(scenes):
    rng = np.random.default_rng(1)
    regions = scenes.regions(3)
    scores = rng.standard_normal((scenes.n_elements, 3))
    beliefs = Beliefs(scenes, scores)
    kept = beliefs.mean_entropies(3)
    kept[:] = -7.0  # a mark that a new mean overwrites
    chosen = rng.choice(regions.n_regions, 2, replace=False)
    inside = np.isin(regions.label, chosen)
    beliefs.follow(scores + inside[:, None] * np.array([0.5, 0.0, 0.0]))
    renewed = beliefs.mean_entropies(3) != -7.0
    assert set(np.flatnonzero(renewed)) == set(chosen)
    above = beliefs.mean_entropies(6)
    assert (above > 0).all()  # a level that is asked for later is complete


def test_scores_that_stay_change_nothing(scenes):
    scores = np.random.default_rng(2).standard_normal((scenes.n_elements, 3))
    beliefs = scenes.beliefs(scores)
    beliefs.mean_entropies(2)[:] = -7.0
    again = scenes.beliefs(scores.copy())
    assert again is beliefs
    assert (again.mean_entropies(2) == -7.0).all()
    assert scenes.beliefs(np.zeros((scenes.n_elements, 5))) is not beliefs  # other classes
