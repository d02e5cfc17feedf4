"""Early answers of a scene parser have a share of the frequencies of the classes taken off; its stages do not know of it."""

import numpy as np
import pytest

import anytime as at
from anytime.structured import SceneSession, StructuredBlock, selected_pixels
from tests.structured.streets import parser, streets

SHARE = 0.6


@pytest.fixture(scope="module")
def models():
    """The same stages without and with it; their steps are short, so that scores stay near the frequencies at first."""
    settings = {"max_stages": 8, "learning_rate": 0.2, "thresholds": (0.6,)}
    return [parser(early_balance=share, **settings).fit(*streets(8)) for share in (0.0, SHARE)]


@pytest.fixture(scope="module")
def unseen():
    return streets(4, first=50)


def scores(model, pictures):
    """(S + 1, E, K) after each stage."""
    return np.array([answer.scores.values for answer in model.stages(pictures)])


def shares(n_stages):
    return np.append(0.0, SHARE * 0.7 ** np.arange(n_stages))


def test_shares_of_the_log_frequencies_are_taken_off_and_nothing_else(models, unseen):
    """Also where stages work on parts of a picture, which would be others by the balanced answers."""
    (plain, balanced), (pictures, _) = models, unseen
    assert not all(pixels.all() for pixels in selected_pixels(balanced, pictures[0]))
    counts = np.bincount(np.concatenate([own[own != 9] for own in streets(8)[1]]))
    np.testing.assert_allclose(balanced.plan_.base, np.log(counts / counts.sum()), atol=1e-3)
    taken_off = shares(balanced.n_stages_)[:, None, None] * balanced.plan_.base
    np.testing.assert_allclose(
        scores(balanced, pictures), scores(plain, pictures) - taken_off, rtol=0, atol=1e-12
    )
    np.testing.assert_array_equal(balanced.cost(pictures), plain.cost(pictures))
    for one, other in zip(
        selected_pixels(balanced, pictures[0]), selected_pixels(plain, pictures[0]), strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_stages_that_went_on_from_balanced_answers_would_say_something_else(models, unseen, monkeypatch):
    """Negative control of the test above."""
    (plain, balanced), (pictures, _) = models, unseen
    monkeypatch.setattr(StructuredBlock, "scores_before", lambda self, stage, answer: answer)
    taken_off = shares(balanced.n_stages_)[:, None, None] * balanced.plan_.base
    assert np.abs(scores(balanced, pictures) - scores(plain, pictures) + taken_off)[1:].max() > 0.01


def test_rare_classes_are_found_earlier(models, unseen):
    """Before the first stage and after the last, the classes have the recall that they have without it."""
    plain, balanced = (at.curve(model, *unseen, metric="balanced_accuracy").values for model in models)
    assert balanced[1] > plain[1] + 0.2
    assert (balanced[0], balanced[-1]) == (plain[0], plain[-1])


def test_all_readers_have_the_same_balanced_answers(models, unseen, tmp_path):
    (_, balanced), (pictures, _) = models, unseen
    balanced.save(tmp_path / "streets.anytime")
    loaded = at.load(tmp_path / "streets.anytime")
    for n_stages, answer in enumerate(balanced.stages(pictures[:1])):
        budget = float(answer.model_cost)
        np.testing.assert_array_equal(loaded.predict(pictures[:1], budget=budget)[0], answer.prediction[0])
        small = balanced.truncate(budget=budget)
        assert small.n_stages_ == n_stages
        np.testing.assert_array_equal(small.predict_proba(pictures[:1])[0], answer.probabilities[0])
        session = SceneSession(loaded).predict(pictures[0], budget=budget)
        np.testing.assert_array_equal(session.prediction[0], answer.prediction[0])


@pytest.mark.parametrize("share", [-0.1, 1.0, np.nan, "0.5"])
def test_shares_that_would_turn_frequencies_around_are_refused(share):
    with pytest.raises(ValueError, match="early_balance"):
        parser(early_balance=share).fit(*streets(2))


def test_offsets_that_do_not_fit_the_stages_are_refused(models, tmp_path, monkeypatch):
    block = models[1].plan_.blocks[0]
    for offsets in (block.offsets[1:], block.offsets[:, 1:], np.full_like(block.offsets, np.nan)):
        with pytest.raises(ValueError, match="offsets of stages must be finite"):
            block.with_offsets(offsets)
    monkeypatch.setattr(block, "offsets", block.offsets[1:])
    with pytest.raises(
        ValueError, match="cannot be saved: offsets of stages"
    ):  # what is written is read again
        models[1].save(tmp_path / "bad.anytime")
