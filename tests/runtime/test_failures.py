"""Features that cannot be had: the answer falls back to what arrived and says so."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from anytime.blocks import FunctionBlock
from anytime.costs import FeatureCosts
from anytime.engine import Run
from anytime.features import ExtractionError, Extractor, Features
from anytime.losses import LINKS
from anytime.plan import Plan
from anytime.runtime import BatchSession, Session, replay
from anytime.testing.strategies import plans
from tests.runtime.bench import ROWS, RegressorByHand, features_of, linear_plan, model_of

X = np.array([1.0, 2.0, 3.0])


def broken(row):
    raise OSError("no connection")


def test_stage_without_its_feature_is_left_out():
    """Spec 9.6: the stage is skipped and recorded, the prediction stays at the last valid state."""
    plan = linear_plan()
    session = Session(model_of(plan), features_of(plan, g1=broken))
    answer = session.predict(X)
    assert (answer.prediction, answer.stage) == (0.5 + 1 + 300, 3)
    assert answer.failures == {"g1": "OSError: no connection"}
    assert [event.kind for event in session.trace.events] == [
        *("group", "stages", "failure", "skip", "group", "stages", "end"),
    ]


def test_stages_that_depend_on_a_failed_feature_are_left_out_too():
    costs = FeatureCosts(
        {"base": 1.0, "derived": 1.0, "other": 1.0},
        groups={"base": [0], "derived": [1], "other": [2]},
        requires={"derived": ["base"]},
    )
    plan = linear_plan(costs=costs.bind(3))
    calls: list[str] = []
    features = Features(
        {
            "base": broken,
            "derived": lambda row: calls.append("derived"),
            "other": lambda row: 3.0,
        }
    )
    answer = Session(model_of(plan), features).predict(X)
    assert (answer.prediction, calls) == (300.5, [])
    assert answer.failures["derived"] == "requires 'base', which could not be had"
    assert answer.cost == 2.0  # what was tried is paid for, what was not is not


def test_failed_extractor_is_not_called_again():
    costs = FeatureCosts({"a": 1.0, "b": 1.0}, groups={"a": [0, 1], "b": [2]}).bind(3)
    calls: list[int] = []

    def fails(row):
        calls.append(1)
        raise ValueError("no")

    plan = linear_plan(costs=costs)
    answer = Session(model_of(plan), features_of(plan, a=fails)).predict(X)
    assert (answer.prediction, calls) == (300.5, [1])


def test_refitted_plan_stops_at_its_last_complete_row():
    """Spec 9.6: refit models cannot skip."""
    plan = linear_plan(weights=[np.array([1.0]), np.array([1.0, 1.0]), np.array([2.0, 2.0, 2.0])])
    session = Session(model_of(plan), features_of(plan, g1=broken))
    answer = session.predict(X)
    assert (answer.prediction, answer.stage, answer.complete, session.reason) == (1.5, 1, False, "failed")
    assert session.resume().stage == 1
    assert not session.step()


def test_vector_of_the_wrong_length_names_group_expected_and_got():
    plan = linear_plan()
    answer = Session(model_of(plan), features_of(plan, g1=lambda row: row)).predict(X)
    assert answer.failures == {"g1": "returned 3 numbers, but the group has 1 columns"}
    answer = Session(model_of(plan), features_of(plan, g1=lambda row: "text")).predict(X)
    assert answer.failures == {"g1": "row 0, column 1: expected a number, found 'text'"}
    answer = Session(model_of(plan), features_of(plan, g1=lambda row: {"other": 1.0})).predict(X)
    assert "no value for column 1" in answer.failures["g1"]


def test_missing_value_is_a_failure_only_for_a_model_that_cannot_use_it():
    plan = linear_plan()
    features = features_of(plan, g1=lambda row: np.nan)
    assert Session(model_of(plan), features).predict(X).failures == {}

    class Finite(RegressorByHand):
        def __sklearn_tags__(self):
            tags = super().__sklearn_tags__()
            tags.input_tags.allow_nan = False
            return tags

    model = Finite()
    model.plan_, model.n_features_in_ = plan, 3
    answer = Session(model, features).predict(X)
    assert "takes no missing values" in answer.failures["g1"]
    assert answer.prediction == 301.5


def without(plan: Plan, x: np.ndarray, lost: int) -> np.ndarray:
    """The obvious way: one stage at a time, leaving out those whose features, or their requirements, are lost."""
    run = Run(plan, x[None].copy())
    needed = np.array([lost in plan.costs.table.closure(g) for g in range(plan.costs.n_groups)])
    s = 0
    while s < plan.n_stages:
        b, within = plan.locate(s)
        block = plan.blocks[b]
        if s in plan.passes and not plan.passes[s].holds(run.X, run.scores(), LINKS[plan.link])[0]:
            skipped = False
        elif block.forest is not None:
            skipped = block.forest.need(x, within, ~needed, plan.costs.table) >= 0
        else:
            skipped = bool(needed[plan.costs.groups_of(block.columns(within))].any())
        to = plan.stage_after_leaving_out(s) if skipped else s + 1
        if to == s:
            break
        if skipped:
            run.done[0] = to
        else:
            run.advance(to)
        if run.finished[0]:
            break
        s = to
    return run.scores()[0]


@settings(max_examples=150)
@given(plans(), st.sampled_from(list(ROWS)), st.data())
def test_lost_group_leaves_out_exactly_the_stages_on_whose_path_it_is(plan, x, data):
    name = data.draw(st.sampled_from(plan.costs.costs.names))
    model = model_of(plan)
    session = Session(model, features_of(plan, **{name: broken}))
    answer = session.predict(x)
    assert_array_equal(answer.scores, without(plan, x, plan.costs.costs.names.index(name)))
    assert_array_equal(replay(model, session.trace, session.values()).scores, answer.scores)
    batch = BatchSession(model, [x, x], features_of(plan, **{name: broken}))
    assert_array_equal(batch.advance().scores, [answer.scores, answer.scores])
    assert_array_equal(batch.read().cost, [answer.cost, answer.cost])


def test_derived_extractor_gets_what_others_returned():
    """Spec 9.6: start-up, base descriptors, derived features; each computed once."""
    calls: list[str] = []

    def segment(raw):
        calls.append("segment")
        return {"regions": raw.split()}

    def longest(segments):
        calls.append("longest")
        return max(map(len, segments["regions"]))

    def share(raw, segments, longest):
        calls.append("share")
        return longest / len(raw)

    features = Features(
        {
            "segment": segment,
            "longest": Extractor(longest, requires=["segment"], takes="required"),
            "share": Extractor(share, requires=["segment", "longest"], takes="both"),
        },
        columns={"segment": []},
    )
    costs = features.profile(["one two three"], unit="us")
    calls.clear()
    plan = Plan(
        blocks=[FunctionBlock([0], lambda X: X), FunctionBlock([1], lambda X: X)],
        costs=costs.bind(2, ["longest", "share"]),
        base=[0.0],
        link="identity",
    )
    session = Session(model_of(plan), features)
    answer = session.predict("a bcd ef")
    assert answer.prediction == 3 + 3 / 8
    assert calls == ["segment", "longest", "share"]
    assert session._steps.walk.example.results == {}  # nothing is kept that no stage can use any more


def test_required_result_is_kept_as_long_as_a_stage_may_build_on_it():
    costs = FeatureCosts(
        {"start": 1.0, "a": 1.0, "b": 1.0},
        groups={"start": [], "a": [0], "b": [1]},
        requires={"a": ["start"], "b": ["start"]},
    )
    features = Features(
        {
            "start": lambda raw: raw * 10,
            "a": Extractor(lambda s: s + 1, requires=["start"], takes="required"),
            "b": Extractor(lambda s: s + 2, requires=["start"], takes="required"),
        },
        columns={"start": []},
    )
    session = Session(model_of(linear_plan(2, costs=costs.bind(2))), features).start(1)
    session.step()
    assert session._steps.walk.example.results == {"start": 10}
    session.step()
    assert session._steps.walk.example.results == {}
    assert session.read().prediction == 0.5 + 11 + 120


def test_error_can_be_sent_between_processes():
    import pickle

    error = pickle.loads(pickle.dumps(ExtractionError("scan", "no film")))
    assert (error.group, error.reason, str(error)) == ("scan", "no film", "group 'scan': no film")


def test_interrupt_of_the_keyboard_is_not_a_failed_feature():
    def interrupted(row):
        raise KeyboardInterrupt

    plan = linear_plan()
    for bounds in ({}, {"deadline": 5.0}):
        session = Session(model_of(plan), features_of(plan, g1=interrupted))
        with pytest.raises(KeyboardInterrupt):
            session.predict(X, **bounds)
        assert session.read().stage == 1
