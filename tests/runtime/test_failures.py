"""Features that cannot be had: the answer falls back to what arrived and says so."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from anytime.blocks import FunctionBlock, LinearBlock
from anytime.costs import FeatureCosts
from anytime.features import ExtractionError, Extractor, Features
from anytime.plan import Plan
from anytime.rules import ScoreRule
from anytime.runtime import BatchSession, Session, replay
from anytime.trees.arrays import LEAF, MISSING_NAN, NUMERIC, TreeArrays
from anytime.trees.block import TreeBlock
from tests.reference.engine import run_row
from tests.runtime.bench import (
    ROWS,
    RegressorByHand,
    features_of,
    incomplete,
    linear_plan,
    model_of,
    one_tree,
)

X = np.array([1.0, 2.0, 3.0])


def broken(row):
    raise OSError("no connection")


def test_stage_without_its_feature_is_left_out():
    """speedboost_and_structured 9.6: the stage is skipped and recorded, the prediction stays at the last valid state."""
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
    """speedboost_and_structured 9.6: refit models cannot skip."""
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


@given(incomplete(), st.sampled_from(list(ROWS)), st.data())
def test_lost_group_leaves_out_exactly_the_stages_on_whose_path_it_is(case, x, data):
    """The answer is that of a row without the group, and no more is bought for a stage than it takes to know that."""
    plan, _, budget = case
    names, amount = plan.costs.costs.names, plan.costs.costs.amount
    broken_ones = data.draw(st.sets(st.integers(0, len(names) - 1)))
    model = model_of(plan, meter="realised", budget=None if budget is None else amount(budget))

    def features() -> Features:
        return features_of(plan, **{names[g]: broken for g in broken_ones})

    scores, paid, stage = run_row(plan, x, budget=budget, broken=broken_ones)
    session = Session(model, features())
    answer = session.predict(x)
    assert_allclose(answer.scores, scores, atol=1e-9)
    assert (answer.cost, answer.stage) == (amount(paid), stage)
    assert_array_equal(replay(model, session.trace, session.values()).scores, answer.scores)
    earlier = data.draw(st.integers(0, answer.stage))
    walk, part = session._steps.walk, Session(model, features()).predict(x, max_stages=earlier)
    assert_array_equal(walk.prefix_scores(earlier, walk.skipped)[0], part.scores)
    batch = BatchSession(model, [x, x], features()).advance()
    assert_array_equal(batch.scores, [answer.scores, answer.scores])
    assert_array_equal((batch.cost, batch.stage), [2 * [answer.cost], 2 * [answer.stage]])
    assert (batch.complete, batch.failures.keys() <= answer.failures.keys()) == (answer.complete, True)
    if budget is None:
        lost = [not broken_ones.isdisjoint(plan.costs.table.closure(g)) for g in range(len(names))]
        scores, _, stage = run_row(plan, x, held=~np.array(lost))
        assert_allclose(answer.scores, scores, atol=1e-9)
        assert answer.stage == stage


def stumps(*features: int) -> TreeBlock:
    """One stage of trees, each of which tests one column at 0 and adds 1 to the right of it."""
    n = len(features)
    split = np.array(features).repeat(3)
    split[1::3] = split[2::3] = LEAF
    arrays = TreeArrays(
        tree_start=3 * np.arange(n + 1),
        stage_start=np.array([0, n]),
        feature=split.astype(np.int32),
        threshold=np.zeros(3 * n),
        left=np.tile([1, LEAF, LEAF], n).astype(np.int32),
        right=np.tile([2, LEAF, LEAF], n).astype(np.int32),
        default_left=np.zeros(3 * n, np.uint8),
        missing=np.full(3 * n, MISSING_NAN, np.uint8),
        category_set=np.full(3 * n, NUMERIC, np.int32),
        members_left=np.zeros(3 * n, np.uint8),
        category_start=np.zeros(1, np.int64),
        categories=np.zeros(0, np.int32),
        value=np.tile([[0.0], [0.0], [1.0]], (n, 1)),
        tree_output=np.zeros(n, np.int32),
        n_outputs=1,
        n_features=3,
    )
    return TreeBlock(arrays)


@pytest.mark.parametrize("replaces", [None, [False, True, False]])
def test_nothing_is_bought_for_trees_once_one_of_them_is_known_to_need_what_is_lost(replaces):
    """Columns 0, 1, 2 cost 1, 2, 3. The second stage needs 2, then 1, which was lost: a later tree shows that at once."""
    blocks = [LinearBlock([1], [[1.0]]), stumps(2, 1), LinearBlock([0], [[10.0]])]
    plan = linear_plan(blocks=blocks, replaces=replaces and np.array(replaces))
    model, log = model_of(plan), []
    answer = Session(model, features_of(plan, log, g1=broken)).predict(X)
    end = replaces is not None  # what the last stage adds belongs to the second
    assert (answer.prediction, answer.cost, log) == ((0.5, 2.0, []) if end else (10.5, 3.0, ["g0"]))
    batch = BatchSession(model, [X], features_of(plan, g1=broken)).advance()
    assert (batch.prediction.tolist(), batch.cost.tolist()) == ([answer.prediction], [answer.cost])


def test_replacing_stage_whose_path_does_not_meet_what_is_lost_is_done():
    """The second stage is a tree with three columns; this row needs 0 and 2 of them, and has lost 1."""
    blocks = [LinearBlock([1], [[1.0]]), *one_tree().blocks]
    plan = linear_plan(blocks=blocks, replaces=np.array([True, True]))
    answer = Session(model_of(plan), features_of(plan, g1=broken)).predict(X)
    assert (answer.prediction, answer.stage, answer.cost) == (6.0, 2, 6.0)


def test_best_validated_answer_asks_no_gate_that_reads_what_could_not_be_had():
    """Such a gate was not asked: asked with NaN, it would have ended the run after the first stage."""
    gate = ScoreRule(LinearBlock([1], [[1.0]]), below=True)
    plan = linear_plan(4, stops={0: gate}, quality=np.array([0.0, 0.1, 0.2, 0.9, 0.5]))
    session = Session(model_of(plan), features_of(plan, g1=broken))
    assert session.predict(np.array([1.0, -2.0, 3.0, 4.0])).prediction == 0.5 + 1 + 300 + 4000
    assert session.read("best_validated").prediction == 0.5 + 1 + 300


def test_derived_extractor_gets_what_others_returned():
    """speedboost_and_structured 9.6: start-up, base descriptors, derived features; each computed once."""
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
