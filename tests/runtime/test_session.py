"""A session gives the engine's answers from features that are computed on demand, and keeps to its bounds."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.ensemble import RandomForestClassifier

import anytime as at
from anytime.blocks import FunctionBlock, LinearBlock
from anytime.costs import FeatureCosts
from anytime.features import Features
from anytime.plan import Plan
from anytime.rules import MarginRule, ScoreRule
from anytime.runtime import Session
from anytime.trees.block import TreeBlock
from tests.runtime.bench import ROWS, features_of, linear_plan, model_of, one_tree
from tests.strategies import plans, tree_arrays

rows = st.sampled_from(list(ROWS))


def budgets(plan: Plan):
    ticks = plan.stage_ticks.tolist()
    amounts = [plan.costs.costs.amount(t) for t in [*ticks, *(t // 2 for t in ticks)]]
    return st.sampled_from([None, 0.0, *amounts])


# ---------------------------------------------------------------------- P23: lazy equals eager


@given(plans(), rows, st.data(), st.sampled_from(["model", "realised"]))
def test_lazy_features_give_the_answer_of_all_features(plan, x, data, meter):
    """P23: the same bits within every budget, and never a dearer way."""
    budget = data.draw(budgets(plan))
    model = model_of(plan, meter=meter)
    log: list[str] = []
    answer = Session(model, features_of(plan, log)).predict(x, budget=budget)
    eager = model.answer(x[None], budget)
    assert_array_equal(answer.scores, eager.scores[0])
    assert answer.stage == eager.stage[0]
    assert answer.complete == eager.complete
    assert answer.cost <= eager.cost[0]
    if budget is not None:
        assert answer.cost <= budget
    if budget is None:
        assert answer.cost == eager.cost[0]
        assert answer.cost <= answer.model_cost or np.isclose(answer.cost, answer.model_cost)
    assert len(log) == len(set(log))  # each group at most once
    assert answer.groups == log


@given(plans(), st.data(), st.sampled_from(["model", "realised"]), st.booleans())
def test_a_truncated_model_ends_for_the_same_reason_everywhere(plan, data, meter, lazily):
    """A model's own limit is its end, for batches and sessions alike; a budget below it is a reason of its own."""
    limit = data.draw(budgets(plan).filter(lambda budget: budget is not None))
    small = model_of(plan, meter=meter).truncate(limit)
    budget = data.draw(budgets(plan))
    for x in ROWS[:4]:
        whole = small.answer(x[None], budget)
        features = features_of(plan, []) if lazily else None
        one = Session(small, features).predict(x, budget=budget)
        many = at.BatchSession(small, [x] if lazily else x[None], features, budget=budget)
        many.advance()
        assert (one.reason, one.complete) == (whole.reason, whole.complete)
        assert (many.reason, many.read().complete) == (whole.reason, whole.complete)


@settings(max_examples=50)
@given(plans(), rows)
def test_requirements_come_first(plan, x):
    log: list[str] = []
    Session(model_of(plan), features_of(plan, log)).predict(x)
    for i, name in enumerate(log):
        assert set(plan.costs.costs.requires.get(name, ())) <= set(log[:i])


@settings(max_examples=50)
@given(plans(), rows)
def test_stepping_reads_every_prefix(plan, x):
    model = model_of(plan)
    session = Session(model, features_of(plan)).start(x)
    answers = [session.read()]
    while session.step():
        answers.append(session.read())
    answers.append(session.read())
    prefixes = list(model.stages(x[None]))
    for answer in answers:
        assert_array_equal(answer.scores, prefixes[answer.stage].scores[0])
        assert answer.cost == prefixes[answer.stage].cost[0]
    assert [a.stage for a in answers] == sorted(a.stage for a in answers)


@settings(max_examples=50)
@given(plans(), rows)
def test_a_row_that_is_all_there_needs_no_extractors(plan, x):
    model = model_of(plan)
    answer, eager = Session(model).predict(x), model.answer(x[None])
    assert_array_equal(answer.scores, eager.scores[0])
    assert answer.cost == eager.cost[0]
    assert answer.groups == eager.groups


def test_only_groups_on_the_rows_own_path_are_computed():
    """P23 for trees: two rows that part at the root ask for different groups."""
    model = model_of(one_tree())
    seen: dict[float, list[str]] = {}
    for first in (-1.0, 1.0):
        seen[first] = []
        Session(model, features_of(model.plan_, seen[first])).predict(np.array([first, 0.0, 0.0]))
    assert seen == {-1.0: ["root", "left"], 1.0: ["root", "right"]}


# ---------------------------------------------------------------------- interrupt, resume, state


@given(plans(), rows, st.data())
def test_resumed_equals_uninterrupted(plan, x, data):
    """speedboost_and_structured 9.1: continuing after an interrupt gives bit-identical results, also in another process."""
    model = model_of(plan)
    whole = Session(model, features_of(plan)).predict(x)
    session = Session(model, features_of(plan))
    answer = session.predict(x, max_stages=data.draw(st.integers(0, plan.n_stages)))
    for stage in sorted(data.draw(st.lists(st.integers(answer.stage, plan.n_stages), max_size=3))):
        if data.draw(st.booleans()):
            state = pickle.loads(pickle.dumps(session.state()))
            session = Session.restore(state, model, features_of(plan))
            assert_array_equal(session.read().scores, answer.scores)
        answer = session.resume(max_stages=stage)
    answer = session.resume()
    assert_array_equal(answer.scores, whole.scores)
    assert (answer.cost, answer.groups, answer.stage) == (whole.cost, whole.groups, whole.stage)


def test_raising_the_budget_goes_on_without_paying_twice():
    log: list[str] = []
    plan = linear_plan()
    session = Session(model_of(plan, meter="realised"), features_of(plan, log))
    x = np.array([1.0, 2.0, 3.0])
    answer = session.predict(x, budget=3.0)
    assert (answer.stage, answer.cost, session.reason) == (2, 3.0, "budget")
    answer = session.resume(budget=5.9)
    assert (answer.stage, answer.cost, log) == (2, 3.0, ["g0", "g1"])
    answer = session.resume(budget=6.0)
    assert (answer.stage, answer.cost, answer.prediction) == (3, 6.0, 0.5 + 1 + 20 + 300)
    assert log == ["g0", "g1", "g2"]


def test_state_of_another_model_is_refused():
    plan = linear_plan()
    state = Session(model_of(plan), features_of(plan)).start(np.ones(3)).state()
    other = linear_plan(4)
    with pytest.raises(ValueError, match="another model"):
        Session.restore(state, model_of(other), features_of(other))


def test_reading_before_any_example_says_so():
    with pytest.raises(RuntimeError, match="call start first"):
        Session(model_of(linear_plan())).read()


def test_answer_before_the_first_stage_is_the_base():
    plan = linear_plan()
    answer = Session(model_of(plan), features_of(plan)).start(np.ones(3)).read()
    assert (answer.prediction, answer.stage, answer.cost, answer.groups) == (0.5, 0, 0.0, [])
    assert not answer.complete


def test_siblings_share_what_was_measured_and_nothing_else():
    plan = linear_plan()
    session = Session(model_of(plan), features_of(plan))
    other = session.sibling()
    session.predict(np.ones(3))
    with pytest.raises(RuntimeError, match="call start first"):
        other.read()
    assert other.statistics()["groups"]["g0"]["count"] == 1


# ---------------------------------------------------------------------- bounds


def test_model_meter_stops_before_the_first_stage_that_costs_too_much():
    plan = linear_plan()
    session = Session(model_of(plan, meter="model"), features_of(plan))
    for budget, stage in [(0.9, 0), (1.0, 1), (2.99, 1), (3.0, 2), (6.0, 3)]:
        assert session.predict(np.ones(3), budget=budget).stage == stage


def test_plan_limit_is_never_lifted():
    plan = linear_plan(limit=3.0)
    for meter in ("model", "realised"):
        session = Session(model_of(plan, meter=meter), features_of(plan))
        assert session.predict(np.ones(3), budget=100.0).cost == 3.0
        while session.step():
            pass
        assert session.read().cost == 3.0


def test_model_budget_holds_when_none_is_named():
    plan = linear_plan()
    assert Session(model_of(plan, budget=1.5), features_of(plan)).predict(np.ones(3)).cost == 1.0


def test_a_mean_budget_means_in_a_session_what_it_means_in_predict():
    random = np.random.default_rng(0)
    X = random.normal(size=(200, 4))
    model = at.GradientBoostingRegressor(n_estimators=6, random_state=0).fit(X, X.sum(axis=1))
    for mean_budget in (0.0, 2.0, 4.0):
        answer = at.Session(model).predict(X[0], mean_budget=mean_budget)
        assert answer.prediction == model.predict(X, mean_budget=mean_budget)[0]
        assert answer.stage == model.answer(X[:1], mean_budget=mean_budget).stage[0]


def test_skipping_reaches_cheaper_stages_only_when_asked():
    """speedboost_and_structured 9.1: skipping leaves the trained order and has to be asked for; refitted plans never do it."""
    costs = FeatureCosts({"dear": 9.0, "cheap": 1.0}, groups={"dear": [0], "cheap": [1]}).bind(2)
    plan = linear_plan(2, costs=costs)
    model = model_of(plan, meter="realised")
    x = np.ones(2)
    assert Session(model, features_of(plan)).predict(x, budget=2.0).scores == [0.5]
    answer = Session(model, features_of(plan), skip=True).predict(x, budget=2.0)
    assert (answer.prediction, answer.cost, answer.groups) == (10.5, 1.0, ["cheap"])
    refitted = linear_plan(2, costs=costs, weights=[np.array([1.0]), np.array([0.5, 2.0])])
    session = Session(model_of(refitted, meter="realised"), features_of(refitted), skip=True)
    assert session.predict(x, budget=2.0).stage == 0


@settings(max_examples=50)
@given(plans(), rows, st.sampled_from([0.4, 0.6, 0.75, 0.9, 0.99]))
def test_confidence_stops_at_the_first_prefix_that_is_sure_enough(plan, x, confidence):
    model = model_of(plan)
    answer = Session(model, features_of(plan)).predict(x, confidence=confidence)
    for prefix in model.stages(x[None]):
        # the look-ahead adds in another order than the engine: the last bit may differ
        if prefix.confidence[0] >= confidence + 1e-12 or prefix.complete:
            assert answer.stage <= prefix.stage
            break
    assert answer.complete or answer.confidence >= confidence


def test_confidence_of_a_long_forest_is_checked_after_every_tree():
    """More stages than are looked at in one go."""
    feature = np.full(200, -1, dtype=np.int32)
    stump = one_tree().blocks[0].forest.arrays()
    arrays = {**stump, "tree_start": np.arange(201), "stage_start": np.arange(201), "feature": feature}
    for name in ("left", "right", "category_set"):
        arrays[name] = feature
    for name in ("default_left", "missing", "members_left"):
        arrays[name] = np.zeros(200, dtype=np.uint8)
    arrays |= {"threshold": np.zeros(200), "value": np.full((200, 1), 0.01)}
    arrays["tree_output"] = np.zeros(200, dtype=np.int32)
    arrays.pop("shift", None)
    from anytime._native import Forest

    plan = Plan(
        blocks=[TreeBlock(Forest(**arrays))],
        costs=FeatureCosts([1, 1, 1]).bind(3),
        base=[0.0],
        link="logistic",
    )
    answer = Session(model_of(plan)).predict(np.zeros(3), confidence=1 / (1 + np.exp(-1.235)))
    assert answer.stage == 124


def test_confidence_of_a_regressor_is_refused():
    with pytest.raises(ValueError, match="predicts numbers"):
        Session(model_of(linear_plan())).predict(np.ones(3), confidence=0.9)


@pytest.mark.parametrize(
    ("bound", "message"),
    [
        ({"budget": -1.0}, "budget must not be negative"),
        ({"budget": [1.0, 2.0]}, "one budget"),
        ({"deadline": -1.0}, "deadline must be"),
        ({"deadline": "10ms"}, "deadline must be a non-negative number of seconds, not '10ms'"),
        ({"max_stages": -1}, "max_stages must be a non-negative number, not -1"),
        ({"max_stages": "2"}, "max_stages must be a non-negative number, not '2'"),
        ({"stop": True}, "is_set"),
    ],
)
def test_bad_bounds_raise_before_anything_is_computed(bound, message):
    log: list[str] = []
    plan = linear_plan()
    with pytest.raises(ValueError, match=message):
        Session(model_of(plan), features_of(plan, log)).predict(np.ones(3), **bound)
    assert log == []


# ---------------------------------------------------------------------- rules


def test_closed_filter_asks_for_no_feature():
    """P18: the score of a row that does not pass is bit-identical, and its features are not bought."""
    passes = {1: MarginRule(0.7), 2: MarginRule(np.inf)}
    plan = linear_plan(passes=passes, link="logistic", base=[0.0])
    log: list[str] = []
    session = Session(model_of(plan), features_of(plan, log)).start(np.array([1.0, 1.0, 1.0]))
    session.step()
    before = session.read().scores
    session.step()
    assert_array_equal(session.read().scores, before)
    assert log == ["g0"]
    session.step()
    assert log == ["g0", "g2"]


def test_gate_releases_the_row():
    plan = linear_plan(stops={0: MarginRule(1.0, below=False)}, link="logistic", base=[0.0])
    log: list[str] = []
    answer = Session(model_of(plan), features_of(plan, log)).predict(np.array([2.0, 1.0, 1.0]))
    assert (answer.complete, answer.stage, log) == (True, 1, ["g0"])


def test_features_of_rules_are_asked_for_too():
    rule = ScoreRule(LinearBlock([2], [[1.0]]), 0.0)
    for where in ("passes", "stops"):
        plan = linear_plan(2, costs=linear_plan().costs, **{where: {0: rule}})
        log: list[str] = []
        answer = Session(model_of(plan), features_of(plan, log)).predict(np.array([1.0, 1.0, -1.0]))
        eager = model_of(plan).answer(np.array([[1.0, 1.0, -1.0]]))
        assert_array_equal(answer.scores, eager.scores[0])
        assert answer.cost == eager.cost[0]
        assert "g2" in log


def test_a_gate_that_cannot_be_paid_ends_the_run_after_its_stage():
    rule = ScoreRule(LinearBlock([2], [[1.0]]), 0.0)
    plan = linear_plan(2, costs=linear_plan().costs, stops={0: rule})
    model = model_of(plan, meter="realised")
    x = np.ones(3)
    answer, eager = Session(model, features_of(plan)).predict(x, budget=3.0), model.answer(x[None], 3.0)
    assert (answer.stage, answer.cost) == (eager.stage[0], eager.cost[0]) == (1, 1.0)


# ---------------------------------------------------------------------- best validated prefix


@settings(max_examples=50)
@given(plans(), rows, st.data())
def test_best_validated_reads_the_prefix_with_the_best_quality(plan, x, data):
    from dataclasses import replace

    quality = np.array(
        data.draw(st.lists(st.floats(0, 1), min_size=plan.n_stages + 1, max_size=plan.n_stages + 1))
    )
    plan = replace(plan, quality=quality)
    model = model_of(plan)
    session = Session(model, features_of(plan))
    latest = session.predict(x, max_stages=data.draw(st.integers(0, plan.n_stages)))
    best = session.read("best_validated")
    assert best.stage == int(np.argmax(quality[: latest.stage + 1]))
    assert_array_equal(best.scores, list(model.stages(x[None]))[best.stage].scores[0])
    assert (best.cost, best.groups) == (latest.cost, latest.groups)


def test_best_validated_needs_a_validated_model():
    session = Session(model_of(linear_plan())).start(np.ones(3))
    with pytest.raises(ValueError, match="needs the quality of each stage"):
        session.read("best_validated")
    with pytest.raises(ValueError, match="policy"):
        session.read("first")


# ---------------------------------------------------------------------- what does not fit together


def test_missing_extractor_is_named():
    with pytest.raises(ValueError, match="uses group 'g1', but features has no extractor"):
        Session(model_of(linear_plan()), Features({"g0": len, "g2": len}))


def test_group_that_no_stage_uses_needs_no_extractor():
    plan = linear_plan(1, costs=linear_plan().costs)
    session = Session(model_of(plan), Features({"g0": lambda row: row[0]}))
    assert session.predict(np.ones(3)).prediction == 1.5


def test_unpaid_requirement_of_an_extractor_is_named():
    plan = linear_plan(2)
    features = Features({"g0": len, "g1": len}, requires={"g1": ["g0"]})
    with pytest.raises(ValueError, match=r"requires=\{'g1': \['g0'\]\} into FeatureCosts"):
        Session(model_of(plan), features)


def test_vector_goes_where_the_price_list_says():
    """The order of a group's numbers is that of its columns in FeatureCosts, not that of the matrix."""
    costs = FeatureCosts({"a": 1.0, "b": 1.0}, groups={"a": [2, 0], "b": [1]}).bind(3)
    block = FunctionBlock([0, 1, 2], lambda X: X, 3)
    plan = Plan(blocks=[block], costs=costs, base=np.zeros(3), link="identity")
    features = Features({"a": lambda raw: [20.0, 0.0], "b": lambda raw: 10.0})
    assert_array_equal(Session(model_of(plan), features).predict(None).scores, [0.0, 10.0, 20.0])


def test_columns_named_in_the_price_list_are_found_by_the_models_names():
    costs = FeatureCosts({"a": 1.0, "b": 1.0}, groups={"a": ["z", "x"], "b": ["y"]})
    block = FunctionBlock([0, 1, 2], lambda X: X, 3)
    plan = Plan(blocks=[block], costs=costs.bind(3, ["x", "y", "z"]), base=np.zeros(3), link="identity")
    model = model_of(plan)
    features = Features({"a": lambda raw: {"x": 0.0, "z": 20.0}, "b": lambda raw: 10.0})
    with pytest.raises(ValueError, match="no feature_names_in_"):
        Session(model, features)
    model = model_of(plan)
    model.feature_names_in_ = np.array(["x", "y", "z"], dtype=object)
    assert_array_equal(Session(model, features).predict(None).scores, [0.0, 10.0, 20.0])


@settings(max_examples=25)
@given(tree_arrays(4), rows)
def test_group_of_columns_without_extractor_is_only_paid(trees, x):
    """A step such as a blood draw has a price and nothing to compute."""
    groups = {"draw": [], "a": [0, 1], "b": [2, 3]}
    costs = FeatureCosts(
        {"draw": 5.0, "a": 1.0, "b": 2.0}, groups=groups, requires={"a": ["draw"], "b": ["draw"]}
    )
    plan = Plan(blocks=[TreeBlock(trees)], costs=costs.bind(4), base=[0.0], link="logistic")
    model = model_of(plan)
    features = Features({"a": lambda row: row[:2], "b": lambda row: row[2:]})
    answer, eager = Session(model, features).predict(x), model.answer(x[None])
    assert answer.cost == eager.cost[0]
    assert_allclose(answer.scores, eager.scores[0], rtol=0)
    assert not answer.groups or answer.groups[0] == "draw"


@settings(max_examples=40)
@given(plans(), rows, st.data())
def test_features_that_are_given_are_not_computed(plan, x, data):
    model, log = model_of(plan), []
    features = features_of(plan, log)
    given_groups = data.draw(st.sets(st.sampled_from(sorted(features.names))))
    session = Session(model, features).start(x)
    session.give({name: features_of(plan).extractors[name].function(x) for name in given_groups})
    assert_array_equal(session.resume().scores, model.answer(x[None]).scores[0])
    assert not given_groups.intersection(log)


def test_what_is_given_has_to_fit():
    model = model_of(one_tree())
    session = Session(model, features_of(model.plan_)).start(np.zeros(3))
    with pytest.raises(ValueError, match="no group 'other'"):
        session.give({"other": 1.0})
    with pytest.raises(ValueError, match="returned 2 numbers"):
        session.give({"root": [1.0, 2.0]})
    assert session.resume().failures == {}


def test_nothing_is_bought_for_a_model_that_needs_what_could_not_be_had():
    """Every stage is a model of its own on all groups so far: without the second group, the third is of no use."""
    random = np.random.default_rng(0)
    X = random.normal(size=(400, 3))
    y = (X @ [1.0, 1.0, 1.0] + 0.3 * random.normal(size=400) > 0).astype(int)
    cheap, middle, whole = (
        RandomForestClassifier(10, random_state=0).fit(X[:, :columns], y) for columns in (1, 2, 3)
    )
    costs = at.FeatureCosts({"a": 1.0, "b": 2.0, "c": 50.0}, groups={"a": [0], "b": [1], "c": [2]})
    model = at.make_anytime([(cheap, [0]), (middle, [0, 1]), whole], costs=costs)

    def fails(raw):
        raise RuntimeError("no sample")

    features = at.Features({"a": lambda raw: raw[:1], "b": fails, "c": lambda raw: raw[2:]})
    answer = at.Session(model, features).predict(X[0])
    assert answer.groups == ["a", "b"]  # what was tried is paid for
    assert (answer.stage, answer.model_cost, answer.cost) == (1, 1.0, 3.0)
    assert answer.prediction == cheap.predict(X[:1, :1])[0]
    assert "no sample" in answer.failures["b"]
