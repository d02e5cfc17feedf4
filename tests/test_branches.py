"""Branches answer budgets that are known in advance, beside the chain that may be interrupted (known_budgets_and_rows 1)."""

import asyncio
import copy
import io
import json
import re
import time
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import anytime as at
from anytime.blocks import FunctionBlock, LinearBlock
from anytime.costs import FeatureCosts
from anytime.plan import Plan
from anytime.rules import ScoreRule
from anytime.runtime import Session
from anytime.runtime.trace import replay
from anytime.serve.engine import Engine
from anytime.serve.pace import StagePace
from anytime.serve.plain import write_plain
from anytime.serve.policy import Adaptive
from anytime.serve.questions import Question
from tests.cli.running import run
from tests.runtime.bench import ROWS, features_of, model_of
from tests.strategies import feature_costs

VALUES = {"a": 5.0, "b": 6.0, "c": 9.0}


def worth(*sets: str, branches=()) -> Plan:
    """A chain of models that say how much what they read is worth; prices of a, b and c are 1, 4 and 5."""
    costs = (
        FeatureCosts({"a": 1.0, "b": 4.0, "c": 5.0}).bind(3, ["a", "b", "c"])
        if not branches
        else branches[0].costs
    )
    values = [0.0, *(sum(VALUES[name] for name in some) for some in sets)]
    return Plan(
        blocks=[LinearBlock([*map("abc".index, some)], [[VALUES[name]] for name in some]) for some in sets],
        costs=costs,
        base=[0.0],
        link="identity",
        replaces=np.ones(len(sets), dtype=bool),
        quality=np.array(values),
        branches=branches,
    )


@st.composite
def branching_plans(draw, n_columns=4) -> Plan:
    """A chain of stages that replace each other, with branches beside it that read other sets of columns.

    The last stage of the chain is the best of all, as in every plan that was not cut.
    """
    n_outputs = draw(st.sampled_from([1, 3]))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    costs = draw(feature_costs(n_columns)).bind(n_columns)
    base, priced = random.normal(size=n_outputs), draw(st.booleans())

    def some(n_stages, n_read, **more):
        blocks = []
        for _ in range(n_stages):
            columns = random.choice(n_columns, size=n_read, replace=False)
            blocks.append(LinearBlock(columns, random.normal(size=(n_read, n_outputs))))
        return Plan(
            blocks=blocks,
            costs=costs,
            base=base,
            link="logistic" if n_outputs == 1 else "softmax",
            evaluation_costs=random.choice([0.0, 0.5], size=n_stages) if priced else None,
            replaces=np.arange(n_stages) == 0
            if n_stages > 1 and random.random() < 0.3
            else np.ones(n_stages, dtype=bool),
            **more,
        )

    branches = [
        some(n_stages, int(random.integers(1, n_columns + 1)), quality=random.normal(size=n_stages + 1))
        for n_stages in draw(st.lists(st.integers(1, 2), max_size=4))
    ]
    n_stages = draw(st.integers(1, 4))
    return some(n_stages, 2, quality=np.append(np.sort(random.normal(size=n_stages)), 9.0), branches=branches)


def golden(*branches: str) -> Plan:
    """K6: chain a, c, b with costs 1, 6, 10, and branches."""
    own = worth("a")
    beside = [replace(worth(some), costs=own.costs) for some in branches]
    chain = worth("a", "ac", "abc", branches=beside) if beside else worth("a", "ac", "abc")
    return chain


@pytest.mark.parametrize(
    ("budget", "chain", "best"), [(4, 5, 6), (5, 5, 11), (6, 14, 14), (9, 14, 15), (10, 20, 20), (0.5, 0, 0)]
)
def test_golden_values_at_known_budgets(budget, chain, best):
    """known_budgets_and_rows 1.3, K6."""
    row = np.ones((1, 3))
    model = model_of(golden("b", "ab", "bc"))
    assert model.predict(row, budget=budget) == [best]
    assert model.predict(row, budget=budget, deadline=60.0) == [chain]
    assert model_of(golden()).predict(row, budget=budget) == [chain]  # negative control: no branches
    assert model.predict_one(row[0], budget) == best
    assert at.curve(model, row, [0.0], metric="neg_mean_absolute_error").at(budget) == -best


def test_ties_go_to_the_chain_and_then_to_the_cheaper():
    plan = golden("b", "c", "ab")
    as_good = [
        replace(branch, quality=np.array([0.0, value]))
        for branch, value in zip(plan.branches, (5, 7, 7), strict=True)
    ]
    plan, ticks = replace(plan, branches=as_good), plan.costs.costs.budget_ticks
    assert plan.choice(ticks(4)) == (-1, 1)
    assert plan.choice(ticks(5)) == (1, 1)


def test_a_stage_that_held_out_rows_liked_less_keeps_its_score_and_counts_as_the_one_before():
    """What was measured stays in the plan; a branch that is better than the stage alone does not take its place."""
    plan = golden("bc")
    measured = np.array([0.0, 5.0, 4.0, 20.0])
    beside = [replace(plan.branches[0], quality=np.array([0.0, value])) for value in (4.5, 5.5)]
    for branch, answering in zip(beside, [(-1, 2), (0, 1)], strict=True):
        changed = replace(plan, quality=measured, branches=[branch])
        assert_array_equal(changed.quality, measured)
        assert changed.choice(plan.costs.costs.budget_ticks(9)) == answering


def budgets_of(plan: Plan) -> list[float]:
    """Where answers may change, and just below."""
    ticks = np.unique([0, *plan.stage_ticks, *(b.stage_ticks[-1] for b in plan.branches)])
    amounts = plan.costs.costs.amounts(ticks)
    return [*amounts.tolist(), *(amounts * (1 - 1e-9)).tolist(), np.inf]


@given(branching_plans())
def test_no_row_pays_more_than_its_budget_by_either_meter(plan):
    """K1."""
    for meter in ("model", "realised"):
        model = model_of(plan, meter=meter)
        for budget in budgets_of(plan):
            answer = model.answer(ROWS, budget)
            assert (answer.cost <= budget).all()
            assert np.all(answer.cost <= answer.model_cost * (1 + 1e-12))
            assert_array_equal(model.cost(ROWS, budget), answer.cost)


@given(branching_plans())
def test_held_out_quality_never_falls_with_the_budget(plan):
    """K2: the best of everything that costs at most so much; brute force says which."""
    before = -np.inf
    for budget in sorted(budgets_of(plan)):
        ticks = plan.costs.costs.budget_ticks(budget)
        branch, stages = plan.choice(ticks)
        quality = (plan if branch < 0 else plan.branches[branch]).quality[stages]
        prefix = int(plan.affordable(ticks))
        assert branch >= 0 or stages == prefix
        offers = [plan.quality[prefix]]
        offers += [b.quality[-1] for b in plan.branches if b.stage_ticks[-1] <= ticks]
        assert quality == max(offers)
        assert quality >= before
        before = quality
    assert plan.choice(plan.costs.costs.budget_ticks(np.inf)) == (-1, plan.n_stages)


@given(branching_plans())
def test_what_may_be_interrupted_never_touches_a_branch(plan):
    """K3: deadline, stop flag, stages, steps and resumption are those of the plan without branches, bit for bit (K7)."""
    model, chain = model_of(plan), model_of(replace(plan, branches=()))
    for budget in budgets_of(plan):
        for bounds in ({"deadline": 60.0}, {"stop": at.StopFlag()}):
            ours, theirs = (some.answer(ROWS, budget, **bounds) for some in (model, chain))
            assert_array_equal(ours.scores, theirs.scores)
            assert ours.branch == -1
        session, other = Session(model).start(ROWS[0]), Session(chain).start(ROWS[0])
        assert_array_equal(session.resume(budget=budget).scores, other.resume(budget=budget).scores)
        assert_array_equal(session.resume().scores, other.resume().scores)
    for ours, theirs in zip(model.stages(ROWS), chain.stages(ROWS), strict=True):
        assert_array_equal(ours.scores, theirs.scores)


@given(branching_plans(), st.data())
def test_every_way_to_ask_for_a_known_budget_gives_the_same_answer(plan, data):
    """K4: batch, single rows, budgets per row, sessions with and without extractors, truncated models."""
    model = model_of(plan)
    for budget in budgets_of(plan):
        whole = model.answer(ROWS, budget)
        assert_array_equal([model.predict_one(x, budget) for x in ROWS], whole.prediction)
        small = model.truncate(budget)
        assert_array_equal(small.answer(ROWS).scores, whole.scores)
        assert small.answer(ROWS).complete
        log: list[str] = []
        for features in (None, features_of(plan, log)):
            one = Session(model, features).predict(ROWS[0], budget=budget)
            assert_array_equal(one.scores, whole.scores[0])
            assert (one.branch, one.reason) == (whole.branch, whole.reason)
            assert one.stage == np.broadcast_to(whole.stage, len(ROWS))[0]
            assert one.cost <= budget
        assert len(log) == len(set(log))
    each = np.array([data.draw(st.sampled_from(budgets_of(plan))) for _ in ROWS])
    mixed = model.answer(ROWS, each)
    alone = [model.answer(ROWS[i : i + 1], each[i]) for i in range(len(ROWS))]
    assert_array_equal(mixed.scores, np.concatenate([answer.scores for answer in alone]))
    assert_array_equal(mixed.model_cost, np.concatenate([np.atleast_1d(a.model_cost) for a in alone]))
    assert_array_equal(model.predict(ROWS, each), mixed.prediction)
    assert_array_equal(model.cost(ROWS, each), mixed.cost)


@settings(max_examples=40)
@given(branching_plans())
def test_a_truncated_model_keeps_what_smaller_budgets_can_use_and_nothing_else(plan):
    """K5."""
    model = model_of(plan)
    for limit in budgets_of(plan):
        small = model.truncate(limit)
        used = set()
        for budget in [b for b in budgets_of(plan) if b <= limit]:
            ours, theirs = model.answer(ROWS, budget), small.answer(ROWS, budget)
            assert_array_equal(ours.scores, theirs.scores)
            used.add(int(theirs.branch))
        assert used - {-1} == set(range(len(small.plan_.branches)))


@settings(max_examples=40)
@given(branching_plans())
def test_a_session_on_its_way_to_a_branch_can_be_stored_and_replayed(plan):
    model = model_of(plan)
    for budget in budgets_of(plan):
        session = Session(model)
        answer = session.predict(ROWS[0], budget=budget)
        again = Session.restore(session.state(), model)
        assert_array_equal(replay(model, session.trace, ROWS[0]).scores, answer.scores)
        assert_array_equal(again.resume().scores, session.resume().scores)
        if session.read().branch < 0:
            assert_array_equal(replay(model, session.trace, ROWS[0]).scores, session.read().scores)


def test_a_branch_that_lacks_a_group_is_not_taken():
    plan = golden("b", "ab", "bc")
    model = model_of(plan)
    model.feature_names_in_ = np.array(["a", "b", "c"])
    row = {"a": 1.0, "c": 1.0}
    assert model.predict([row], budget=9) == [14]
    assert Session(model).predict(row, budget=9).scores == [14]
    assert model.predict([{**row, "b": 1.0}], budget=9) == [15]


@pytest.mark.parametrize(
    ("row", "values"),
    [
        ({"a": 1.0, "b": 1.0}, {1: 5, 4: 6, 5: 11, 6: 11, 9: 11, 10: 11, None: 11}),
        ({"b": 1.0}, {1: 0, 4: 6, 5: 6, 6: 6, 9: 6, 10: 6, None: 6}),
    ],
)
def test_rows_that_lack_groups_get_the_best_that_can_be_done_and_never_less_for_more_money(row, values):
    """K2 for rows that are not complete: stages that need what is not there count as not done; so does the server (K4)."""
    model = model_of(golden("b", "ab", "bc"))
    model.feature_names_in_ = np.array(["a", "b", "c"])
    held = np.array([name in row for name in "abc"])

    async def ask(budget):
        engine = Engine(model, StagePace([3], [1e-6]), Adaptive(reserve=0.001), slo=30.0)
        return await engine.answer(Question(np.ones((1, 3)), budget=budget, held=held))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for budget, value in values.items():
            assert model.predict([row], budget=budget) == [value]
            assert model.predict_one(row, budget) == value
            assert Session(model).predict(row, budget=budget).scores == [value]
            assert asyncio.run(ask(budget)).scores == [[value]]


def test_a_mean_that_nobody_has_measured_is_a_known_budget():
    model, row = model_of(golden("b", "ab", "bc")), np.ones((1, 3))
    assert model.predict(row, mean_budget=5) == model.predict(row, budget=5) == [11]
    assert model.predict(row, budget=9, mean_budget=5) == model.predict_one(row[0], 9, mean_budget=5) == 11


@pytest.mark.parametrize("bounds", [{"mean_budget": 5}, {"budget": 9, "mean_budget": 5}, {"budget": 5}])
def test_sessions_and_the_server_answer_a_mean_that_nobody_has_measured_as_predict_does(bounds):
    model = model_of(golden("b", "ab", "bc"))
    answer = model.answer(np.ones((1, 3)), **bounds)
    engine = Engine(model, StagePace([3], [1e-6]), Adaptive(reserve=0.001), slo=30.0)
    served = asyncio.run(engine.answer(Question(np.ones((1, 3)), **bounds)))
    session = Session(model).predict(np.ones(3), **bounds)
    account = Session(model, mean_budget=5).predict(np.ones(3))
    expected = (11, 5, 1)
    assert (answer.scores.item(), answer.cost.item(), np.max(answer.branch)) == expected
    assert (served.scores.item(), served.cost.item(), served.branch.item()) == expected
    for told in (session, account):
        assert (told.scores.item(), told.cost, told.branch) == expected


def test_after_a_branch_its_answer_stays_until_the_chain_is_better():
    session = Session(model_of(golden("b", "ab", "bc")))
    assert session.predict(np.ones(3), budget=9).scores == [15]
    again = session.resume(budget=9)
    assert (again.scores.item(), again.cost, again.branch) == (15, 9, 2)  # a would be the tenth unit
    assert session.step()
    assert (session.read().scores.item(), session.read().cost) == (15, 10)  # the chain has a, worth 5
    assert session.read("best_validated").scores == [15]
    last = session.resume()
    assert (last.scores.item(), last.cost, last.branch, last.reason) == (20, 10, -1, "complete")


def test_a_stored_answer_of_a_branch_is_told_as_it_was():
    model = model_of(golden("b", "ab", "bc"))
    session = Session(model)
    first = session.predict(np.ones(3), budget=5)
    again = Session.restore(session.state(), model).read()
    replayed = replay(model, session.trace, np.ones(3))
    for told in (again, replayed):
        assert (told.stage, told.branch, told.complete, told.cost) == (1, 1, False, 5.0)
    assert (first.reason, replayed.reason) == ("budget", "budget")


def test_a_slow_branch_does_not_make_the_chain_seem_slow():
    plan = golden("b", "ab", "bc")
    slow = FunctionBlock([0, 1], lambda X: time.sleep(0.02) or np.full(len(X), 11.0), 1)
    branches = [replace(b, blocks=[slow]) if k == 1 else b for k, b in enumerate(plan.branches)]
    session = Session(model_of(replace(plan, branches=branches)))
    for _ in range(3):
        assert session.predict(np.ones(3), budget=5).scores == [11]
    assert session.predict(np.ones(3), deadline=0.015).scores == [20]


def test_a_session_pays_for_a_branch_what_it_costs():
    """Where evaluating stages costs something, none of the chain is done on the way."""
    plan = golden("b", "ab", "bc")
    parts = [replace(b, evaluation_costs=np.array([0.25])) for b in plan.branches]
    model = model_of(replace(plan, branches=parts, evaluation_costs=np.full(3, 0.25)))
    answer = Session(model).predict(np.ones(3), budget=5.75)
    assert (answer.scores.item(), answer.cost, answer.model_cost) == (11, 5.25, 5.25)


def test_an_ensemble_takes_a_member_with_branches():
    X, y, costs = at.datasets.load("breast_cancer")
    members = [
        at.SpeedBoostClassifier(costs=costs, n_estimators=n, max_stages=3, random_state=0) for n in (3, 6)
    ]
    ensemble = at.ExponentialEnsemble(members, random_state=0).fit(X, y)
    assert ensemble.score(X, y) > 0.9


def test_c_says_that_it_has_no_branches():
    model = model_of(golden("b", "ab", "bc"))
    assert "double" in model.to_c()
    with pytest.raises(at.ExportError, match="this model answers with a branch"):
        model.truncate(5).to_c()


def test_an_extractor_that_only_a_branch_needs_has_to_be_there():
    plan = replace(golden("b"), blocks=golden("b").blocks[:1], replaces=[True], quality=np.array([0.0, 5.0]))
    with pytest.raises(ValueError, match="b"):
        Session(model_of(plan), at.Features({"a": lambda raw: 1.0}))


def test_a_failed_extractor_on_the_way_to_a_branch_leaves_what_the_chain_can_do():
    model = model_of(golden("b", "ab", "bc"))

    def broken(raw):
        raise OSError("no line")

    features = at.Features({"a": lambda raw: 1.0, "b": broken, "c": lambda raw: 1.0})
    answer = Session(model, features).predict(None, budget=9)
    assert (answer.scores.item(), answer.reason, answer.branch) == (5.0, "failed", -1)
    assert answer.cost == 5  # b, which was started, and a; c is too dear now


def test_on_the_way_to_a_branch_the_chain_answers_first():
    """1: what branch and chain share is bought first, so that whoever reads meanwhile finds a prefix of the chain."""
    model = model_of(golden("b", "ab", "bc"))
    session = Session(model)
    answer = session.predict(np.ones(3), budget=5)
    seen = [(event.kind, event.scores) for event in session.trace.events if event.kind == "stages"]
    assert seen == [("stages", (5.0,)), ("stages", (11.0,))]
    assert (answer.cost, answer.groups, answer.stage, answer.branch) == (5.0, ["a", "b"], 1, 1)
    assert answer.reason == "budget"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"quality": None}, "branch 0 must combine stages as the plan does, and have a quality"),
        ({"replaces": None}, "the first stage of branch 0 must replace the base"),
        ({"limit": 3.0}, "branch 0 must have no limit"),
        ({"base": [1.0]}, "branch 0 must begin with the base of the plan"),
        ({"link": "logistic"}, "branch 0 must have the costs, the link and the outputs of the plan"),
        ({"costs": FeatureCosts([1.0, 1.0, 1.0]).bind(3)}, "branch 0 must have the costs"),
    ],
)
def test_a_branch_that_does_not_fit_is_refused(change, message):
    plan = golden("b")
    with pytest.raises(ValueError, match=message):
        replace(plan, branches=[replace(plan.branches[0], **change)])
    with pytest.raises(ValueError, match="cannot have filters or gates"):
        replace(plan, stops={0: ScoreRule(LinearBlock([0], [[1.0]]), 0.0)})
    with pytest.raises(ValueError, match="needs the quality of its prefixes"):
        replace(plan, quality=None)
    with pytest.raises(ValueError, match="must have no branches"):
        replace(plan, branches=[replace(plan, branches=plan.branches)])


# ---------------------------------------------------------------------- files, exports, the server


@pytest.fixture(scope="module")
def fitted():
    """A boosted model with a branch beside its chain: what was a late stage answers middling budgets too."""
    X, y, costs = at.datasets.load("breast_cancer")
    model = at.SpeedBoostClassifier(costs=costs, n_estimators=10, max_stages=4, random_state=0).fit(X, y)
    plan = replace(model.plan_, branches=())
    X_other = X.copy()
    X_other[:, [*range(5), *range(9, X.shape[1])]] = 0.0
    other = at.SpeedBoostClassifier(costs=costs, n_estimators=10, max_stages=1, random_state=0).fit(
        X_other, y
    )
    quality = np.linspace(0.0, 1.0, plan.n_stages + 1)
    branch = replace(
        other.plan_.head(1), costs=plan.costs, base=plan.base, quality=np.array([0.0, 0.99]), branches=()
    )
    model.plan_ = replace(plan, quality=quality, branches=[branch])
    assert plan.stage_costs[0] < branch.stage_costs[-1] < plan.stage_costs[-1]
    return model, X


def test_branches_are_kept_in_files(fitted, tmp_path):
    model, X = fitted
    model.save(tmp_path / "m.anytime")
    again = at.load(tmp_path / "m.anytime")
    budget = float(model.plan_.branches[0].stage_costs[-1])
    assert model.answer(X, budget).branch == again.answer(X, budget).branch == 0
    for money in (0, budget * 0.99, budget, model.costs_.total):
        assert_array_equal(model.predict_proba(X, money), again.predict_proba(X, money))
    assert [at.curve(again, X, y).at(budget) for y in [model.predict(X, budget)]] == [1.0]


def test_a_written_table_says_which_branch_answered(fitted, tmp_path):
    model, X = fitted
    model.save(tmp_path / "m.anytime")
    pd.DataFrame(X).to_csv(tmp_path / "rows.csv", index=False)
    for budget, branch in ((float(model.plan_.branches[0].stage_costs[-1]), 0), (model.costs_.total, -1)):
        options = ["--budget", budget, "--with-cost"]
        told = run("predict", tmp_path / "m.anytime", tmp_path / "rows.csv", *options).stdout
        assert set(pd.read_csv(io.StringIO(told))["branch"]) == {branch}


def test_a_printed_curve_and_its_report_say_which_branch_answers_and_what_it_bought(fitted, tmp_path):
    model, X = fitted
    _, y, _ = at.datasets.load("breast_cancer")
    model.save(tmp_path / "m.anytime")
    pd.DataFrame(X).assign(target=y).to_csv(tmp_path / "rows.csv", index=False)
    told = run("curve", tmp_path / "m.anytime", tmp_path / "rows.csv", "--target", "target").stdout
    lines = [line.split() for line in told.splitlines()]
    heads = next(words for words in lines if words[:2] == ["stage", "branch"])
    budget = float(model.plan_.branches[0].stage_costs[-1])
    answer = model.answer(X, budget=budget)
    line = next(words for words in lines if words[:3] == ["1", "0", f"{budget:g}"])
    assert line[heads.index("groups") - len(heads)] == str(len(answer.groups))
    assert any(words[:2] == ["1", "chain"] for words in lines)
    page = at.compare({"m": model}, X, y).report(tmp_path / "r.html").read_text(encoding="utf-8")
    (drawn,) = json.loads(re.search(r'id="data">(.*?)</script>', page, re.S)[1])["models"]
    point = drawn["branches"].index(0)
    shown = {p["group"] for p in drawn["purchases"] if sum(turn <= point for turn in p["turns"]) % 2}
    assert shown == set(answer.groups)


def test_an_onnx_model_answers_known_budgets_as_predict_does(fitted):
    onnxruntime = pytest.importorskip("onnxruntime")
    model, X = fitted
    branch = float(model.plan_.branches[0].stage_costs[-1])
    budgets = [float(model.stage_costs_[0]), branch, None]
    proto = model.to_onnx(budgets=budgets)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    for budget in budgets:
        name = "all" if budget is None else repr(budget).removesuffix(".0")
        (found,) = session.run([f"probability_{name}"], {"X": X})
        assert_array_equal(found.argmax(axis=1), model.predict_proba(X, budget).argmax(axis=1))
        np.testing.assert_allclose(found, model.predict_proba(X, budget), rtol=1e-12)


@settings(max_examples=30)
@given(branching_plans())
def test_the_server_answers_known_budgets_as_predict_does(plan):
    """K4; a question with a deadline of its own keeps to the chain (K3)."""
    model = model_of(plan)

    async def ask(**bounds):
        engine = Engine(model, StagePace([plan.n_stages], [1e-6]), Adaptive(reserve=0.001), slo=30.0)
        return [await engine.answer(Question(X, **bounds)) for X in (ROWS, ROWS[:1])]

    for budget in budgets_of(plan):
        for X, served in zip((ROWS, ROWS[:1]), asyncio.run(ask(budget=budget)), strict=True):
            whole = model.answer(X, budget)
            assert_array_equal(served.scores, whole.scores)
            assert_array_equal(served.branch, np.broadcast_to(whole.branch, len(X)))
            assert_array_equal(served.cost, np.broadcast_to(whole.model_cost, len(X)))
            assert served.reason == whole.reason
            assert served.groups == whole.groups
            if plan.branches:
                assert (
                    write_plain(served, "m", "1")["branch"] == np.broadcast_to(whole.branch, len(X)).tolist()
                )
        hurried = asyncio.run(ask(budget=budget, deadline=20.0))[0]
        assert_array_equal(hurried.scores, model.answer(ROWS, budget, deadline=20.0).scores)


def test_questions_that_are_answered_together_get_the_calibrated_probabilities_of_their_branch(fitted):
    model, X = fitted
    _, y, _ = at.datasets.load("breast_cancer")
    model = copy.copy(model).calibrate(X, y)
    budget = float(model.plan_.branches[0].stage_costs[-1])

    async def ask():
        engine = Engine(model, StagePace([model.n_stages_], [1e-6]), Adaptive(reserve=0.001), slo=30.0)
        return await asyncio.gather(
            *(engine.answer(Question(X[i : i + 1].copy(), budget=budget)) for i in range(2))
        )

    for i, served in enumerate(asyncio.run(ask())):
        assert served.branch.tolist() == [0]
        assert_array_equal(served.probabilities, model.predict_proba(X[i : i + 1], budget=budget))


def test_a_branch_that_answers_for_want_of_a_group_says_so():
    """The chain begins with what the table lacks: a branch answers, with a warning and the reason."""
    random = np.random.default_rng(0)
    X = pd.DataFrame(random.normal(size=(400, 3)), columns=["age", "pressure", "scan"])
    y = (X.sum(axis=1) > 0).astype(int)
    model = at.SpeedBoostClassifier(costs={"age": 1, "pressure": 2, "scan": 50}, random_state=0).fit(X, y)
    assert model.order_[0] == "age"
    assert model.plan_.branches
    with pytest.warns(UserWarning, match="'age' is missing.*did you mean 'age' instead of 'Age'"):
        assert model.answer(X.rename(columns={"age": "Age"})).reason == "groups"
    with pytest.warns(UserWarning, match="did you mean 'age' instead of 'AGE'"):
        model.predict(X.rename(columns={"age": "AGE"}))
    with pytest.warns(UserWarning, match="'age' is missing"):
        model.predict_one({"pressure": 1.0, "scan": 2.0})
    assert model.answer(X, budget=2).reason == "budget"  # nothing lacks: no warning
