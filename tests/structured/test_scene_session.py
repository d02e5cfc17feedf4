"""A picture under way: interrupts, resuming, reading from other threads (speedboost_and_structured 9.1, 9.7, 9.8)."""

import copy
import threading

import numpy as np
import pytest

from anytime.structured import SceneSession
from tests.structured.streets import parser, streets


@pytest.fixture(scope="module")
def model():
    return parser().fit(*streets(8))


@pytest.fixture(scope="module")
def picture():
    return streets(1, first=70)[0][0]


class CountedStop:
    """Set after so many questions."""

    def __init__(self, questions):
        self.left = questions

    def is_set(self):
        self.left -= 1
        return self.left < 0


def test_without_bounds_a_session_says_what_the_model_does(model, picture):
    answer = SceneSession(model).predict(picture)
    assert (answer.reason, answer.complete) == ("complete", True)
    np.testing.assert_array_equal(answer.prediction[0], model.predict([picture])[0])
    np.testing.assert_allclose(answer.cost, model.cost([picture]))


def test_there_is_an_answer_before_anything_is_computed(model, picture):
    session = SceneSession(model)
    with pytest.raises(ValueError, match="no picture yet"):
        session.read()
    session.start(picture)
    first = session.read()
    assert first.stage == 0
    assert first.prediction[0].shape == picture.shape[:2]
    assert len(np.unique(first.prediction[0])) == 1
    late = session.resume(deadline=0.0)
    assert late.reason == "deadline"
    np.testing.assert_array_equal(late.prediction[0], first.prediction[0])


def test_interrupted_and_resumed_is_uninterrupted(model, picture):
    """9.1: bit for bit, wherever the interrupts come, also within the segmentation and within a stage."""
    expected = SceneSession(model).predict(picture)
    for questions in (0, 1, 2, 3, 5, 8):
        session = SceneSession(model)
        answer = session.predict(picture, stop=CountedStop(questions))
        assert answer.reason in ("stop", "deadline")
        assert np.max(answer.stage) < model.plan_.n_stages
        answer = session.resume()
        np.testing.assert_array_equal(answer.scores.values, expected.scores.values)
        np.testing.assert_array_equal(answer.cost, expected.cost)


def test_a_budget_is_a_cap_and_can_be_raised(model, picture):
    session = SceneSession(model)
    assert session.predict(picture, budget=1.0).cost == 0.0
    answer = session.resume(budget=30.0)
    assert answer.reason == "budget"
    assert (answer.cost <= 30.0).all()
    np.testing.assert_array_equal(session.resume().prediction[0], model.predict([picture])[0])


@pytest.mark.parametrize("meter", ["model", "realised"])
def test_a_budget_buys_what_it_buys_in_predict(model, picture, meter):
    metered = copy.copy(model)
    metered.meter = meter
    for budget in (0.0, 27.0, 33.0, float(model.stage_costs_[-1])):
        answer = SceneSession(metered).predict(picture, budget=budget)
        np.testing.assert_array_equal(answer.prediction[0], metered.predict([picture], budget=budget)[0])
        assert answer.cost <= budget


def test_what_other_threads_read_is_the_answer_of_one_stage(model, picture):
    """9.8: one consistent labelling at any moment."""
    expected = {np.max(a.stage): a.prediction[0] for a in model.stages([picture])}
    session, done, seen = SceneSession(model), threading.Event(), []

    def read_on():
        while not done.is_set():
            seen.append(session.read())

    session.start(picture)
    reader = threading.Thread(target=read_on)
    reader.start()
    for _ in range(5):
        session.start(picture)
        session.resume()
    done.set()
    reader.join()
    stages = [int(np.max(answer.stage)) for answer in seen]
    assert len(set(stages)) > 2
    for answer, stage in list(zip(seen, stages, strict=True))[:: max(1, len(seen) // 200)]:
        if stage:
            np.testing.assert_array_equal(answer.prediction[0], expected[stage])
