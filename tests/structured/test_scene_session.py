"""A picture under way: interrupts, resuming, reading from other threads (speedboost_and_structured 9.1, 9.7, 9.8)."""

import copy
import threading
import time

import numpy as np
import pytest

from anytime.structured import SceneParser, SceneSession, selected_pixels
from anytime.structured.predictors import TreePredictor
from anytime.structured.scenes import Scene, Scenes
from anytime.structured.segmentation import PictureInterrupted
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
    with pytest.raises(ValueError, match="no image yet"):
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
            answer = session.read()
            if not seen or answer is not seen[-1]:
                seen.append(answer)

    session.start(picture)
    reader = threading.Thread(target=read_on)
    reader.start()
    for turn in range(
        50
    ):  # until the reader has been let in at several moments, which a busy machine may put off
        session.start(picture)
        session.resume()
        if turn >= 4 and len({int(np.max(answer.stage)) for answer in seen[:]}) > 2:
            break
    done.set()
    reader.join()
    stages = [int(np.max(answer.stage)) for answer in seen]
    assert len(set(stages)) > 2
    for answer, stage in list(zip(seen, stages, strict=True))[:: max(1, len(seen) // 200)]:
        if stage:
            np.testing.assert_array_equal(answer.prediction[0], expected[stage])


def interrupted_within_stages(model, picture):
    """Sessions that were interrupted when a stage had begun to read features, at each stage that does."""
    read = Scene.read
    for turn in range(model.plan_.n_stages + 1):
        session, left = SceneSession(model), [turn]

        def interrupted(self, *arguments, left=left):
            left[0] -= 1
            if left[0] < 0:
                raise PictureInterrupted
            return read(self, *arguments)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Scene, "read", interrupted)
            if session.predict(picture).complete:
                return
        yield session


def test_a_stage_that_is_interrupted_is_paid_for_once(model, picture):
    """9.1: groups and evaluation are charged when a stage is finished."""
    expected = SceneSession(model).predict(picture)
    sessions = list(interrupted_within_stages(model, picture))
    assert len(sessions) > 2
    for session in sessions:
        answer = session.read()
        assert answer.reason == "deadline"
        stage = int(np.max(answer.stage))
        assert (answer.cost <= model.plan_.prefix_costs[stage] + 1e-9).all()
        whole = session.resume()
        np.testing.assert_array_equal(whole.scores.values, expected.scores.values)
        np.testing.assert_array_equal(whole.cost, expected.cost)


def test_a_flag_within_the_context_ends_the_stage_before_its_trees(model, picture, monkeypatch):
    """9.7: on large pictures summing up what is said around regions takes milliseconds, and trees would come on top."""
    expected, around, outputs = SceneSession(model).predict(picture), Scenes._around, TreePredictor.outputs
    stop, evaluated = threading.Event(), []

    def interrupted(scenes, level):
        stop.set()
        return around(scenes, level)

    def counted(predictor, features):
        evaluated.append(stop.is_set())
        return outputs(predictor, features)

    session = SceneSession(model)
    with monkeypatch.context() as patch:
        patch.setattr(Scenes, "_around", interrupted)
        patch.setattr(TreePredictor, "outputs", counted)
        assert session.predict(picture, stop=stop).reason == "stop"
    assert not any(evaluated)
    np.testing.assert_array_equal(session.resume().scores.values, expected.scores.values)


def test_a_deadline_holds_for_a_list_of_pictures(model):
    """Every picture has a label map, whatever time there was; what is reached is a prefix of the stages."""
    pictures, _ = streets(3, first=90)
    prefixes = {np.max(a.stage): a.prediction for a in model.stages(pictures)}
    for deadline in (0.0, 0.004, 0.02, 0.1, 60.0):
        answer = model.answer(pictures, deadline=deadline)
        assert [labels.shape for labels in answer.prediction] == [p.shape[:2] for p in pictures]
        for i, stage in enumerate(answer.stage):
            if stage:
                np.testing.assert_array_equal(answer.prediction[i], prefixes[stage][i])
        assert max(answer.stage) - min(answer.stage) <= 1  # none is far behind
    assert (answer.reason, answer.complete) == ("complete", True)
    np.testing.assert_array_equal(answer.cost, model.cost(pictures))
    early = model.answer(pictures, deadline=0.0)
    assert (early.reason, early.stage.tolist(), early.partial.all()) == ("deadline", [0, 0, 0], True)
    for said, base in zip(early.prediction, model.predict(pictures, budget=0), strict=True):
        np.testing.assert_array_equal(said, base)
    np.testing.assert_array_equal(
        model.predict(pictures, deadline=60.0)[1], prefixes[model.plan_.n_stages][1]
    )
    assert model.predict([], deadline=1.0) == []


def test_a_deadline_and_a_budget_both_hold(model):
    pictures, _ = streets(2, first=90)
    for meter in ("model", "realised"):
        bounded = copy.copy(model).set_params(meter=meter)
        answer = bounded.answer(pictures, budget=30.0, deadline=60.0)
        assert answer.reason == "budget"
        assert (answer.cost <= 30.0).all()
        np.testing.assert_array_equal(answer.prediction[0], bounded.predict(pictures, budget=30.0)[0])


def test_a_set_stop_flag_ends_a_list_at_once(model, picture):
    stop = threading.Event()
    stop.set()
    answer = model.answer([picture], stop=stop)
    assert (answer.reason, answer.stage.tolist()) == ("stop", [0])


@pytest.mark.realtime
def test_interrupts_are_answered_within_five_milliseconds():
    """Deadlines and stop flags at random moments of a parse of 480 x 360 pixels; what else the machine does is not counted."""
    clock = (
        time.pthread_getcpuclockid(threading.get_ident()) if hasattr(time, "pthread_getcpuclockid") else None
    )

    def computed():
        """Seconds of this thread, whoever asks."""
        return time.monotonic() if clock is None else time.clock_gettime(clock)

    pictures, labels = streets(4, height=360, width=480)
    large = parser(
        n_centres=20, costs=None, descriptors=SceneParser().descriptors, folds=2, max_stages=10
    ).fit(pictures, labels)
    session, rng = SceneSession(large), np.random.default_rng(0)
    began = time.monotonic()
    session.predict(pictures[0])
    whole, late = time.monotonic() - began, []
    for i in range(60):
        moment, stop, at_time = float(rng.uniform(0, whole)), threading.Event(), []

        def interrupt(stop=stop, at_time=at_time):
            at_time.append(computed())
            stop.set()

        timer = threading.Timer(moment, interrupt)
        timer.start()
        session.predict(pictures[i % 4], **({"deadline": moment} if i % 2 else {"stop": stop}))
        ended = computed()
        timer.join()
        late.append(ended - at_time[0])
    assert np.quantile(late, 0.95) < 0.005


def test_pixels_of_a_stage_are_those_whose_scores_it_changes(picture):
    """What is shown as selected is where the stage works: scores change nowhere else."""
    model = parser(thresholds=(0.3,), early_balance=0.0).fit(*streets(8))
    answers, masks = list(model.stages([picture])), list(selected_pixels(model, picture))
    for before, after, mask in zip(answers, answers[1:], masks, strict=False):
        changed = (before.scores.values != after.scores.values).any(axis=1)
        assert not (after.scores.like(changed).parts()[0] & ~mask).any()
    assert masks[0].all()
    assert any(0 < mask.mean() < 1 for mask in masks)  # some stages do select
