"""Filtered tree ensembles: rows that are kept out stay as they are, and the queue equals the naive evaluation."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import anytime as at
from anytime.costs import UNLIMITED, FeatureCosts
from anytime.engine import Run
from anytime.losses import LINKS
from anytime.plan import Plan
from anytime.rules import EntropyRule, FunctionRule, MarginRule, OutsideRule, Rule
from anytime.runtime import BatchSession, StopFlag
from anytime.trees.block import TreeBlock
from tests.reference.random_trees import Shape, random_forest, random_rows
from tests.runtime.bench import model_of

N_FEATURES = 5


def spread(scores):
    return scores.max(axis=1) - scores.min(axis=1) if scores.shape[1] > 1 else np.abs(scores[:, 0])


def random_rule(random: np.random.Generator, n_outputs: int, margins_only: bool) -> Rule:
    """A filter of any kind on scores, sometimes open to all."""
    margins = [
        MarginRule(random.choice([0.2, 1.0, 4.0, 40.0, np.inf])),
        MarginRule(random.choice([0.1, 0.5]), below=False),
    ]
    if margins_only:
        return margins[random.random() < 0.2]
    kinds = [
        *margins,
        EntropyRule(random.choice([0.0, 0.01, 0.3])),
        FunctionRule(function=spread, threshold=random.choice([1.0, 20.0]), below=True),
        OutsideRule(-1.0, 1.0) if n_outputs == 1 else MarginRule(2.0),
    ]
    return kinds[random.integers(len(kinds))]


def filtered_trees(seed: int, n_outputs: int = 1, n_blocks: int = 2) -> tuple[Plan, np.ndarray]:
    """Blocks of trees, most stages with a filter, and rows for them."""
    random = np.random.default_rng(seed)
    margins_only = bool(random.random() < 0.5)  # such blocks run natively
    shape = Shape(n_stages=8, n_features=N_FEATURES, n_outputs=n_outputs, shared=True)
    forests = [random_forest(random, shape) for _ in range(n_blocks)]
    n_stages = shape.n_stages * n_blocks
    plan = Plan(
        blocks=[TreeBlock(forest) for forest in forests],
        costs=FeatureCosts(random.integers(0, 9, N_FEATURES).astype(float)).bind(N_FEATURES),
        base=random.normal(size=n_outputs),
        link="logistic" if n_outputs == 1 else "softmax",
        evaluation_costs=random.choice([0.0, 0.5], size=n_stages),
        passes={
            s: random_rule(random, n_outputs, margins_only) for s in range(n_stages) if random.random() < 0.8
        },
    )
    return plan, random_rows(random, forests[0], 40).clip(-1e300, 1e300)  # infinity is refused


cases = st.tuples(st.integers(0, 2**32 - 1), st.sampled_from([1, 3]))


def naive_updates(plan: Plan, X: np.ndarray) -> np.ndarray:
    """(S, n) the rows that each stage works on, stage after stage."""
    run = Run(plan, X)
    worked = []
    for stage in range(1, plan.n_stages + 1):
        before = run._applied.copy()
        run.advance(stage)
        worked.append(run._applied > before)
    return np.array(worked)


# ---------------------------------------------------------------------- P18


@given(cases)
def test_rows_that_do_not_pass_are_bit_identical_and_pay_nothing(case):
    """P18: scores of non-passing rows before and after each stage; the stage's cost is that of the rows that pass."""
    plan, X = filtered_trees(*case)
    answers = list(model_of(plan).stages(X))
    worked = naive_updates(plan, X)
    for s, (before, after) in enumerate(pairwise(answers)):
        rule = plan.passes.get(s)
        held = np.ones(len(X), bool) if rule is None else rule.holds(X, before.scores, LINKS[plan.link])
        assert_array_equal(worked[s], held)
        assert after.scores[~held].tobytes() == before.scores[~held].tobytes()
        assert_array_equal(after.cost[~held], before.cost[~held])
        assert (after.cost[held] >= before.cost[held] + plan.evaluation_costs[s]).all()


@settings(max_examples=30)
@given(cases)
def test_filters_that_let_all_pass_reproduce_the_unfiltered_run(case):
    """P18: theta = inf."""
    plan, X = filtered_trees(*case)
    whole = [MarginRule(np.inf), EntropyRule(-1.0), FunctionRule(function=spread, threshold=-1.0)]
    shared = {"blocks": plan.blocks, "costs": plan.costs, "base": plan.base, "link": plan.link}
    plain = Plan(**shared)
    filtered = Plan(**shared, passes={s: whole[s % 3] for s in range(plan.n_stages)})
    for a, b in zip(model_of(plain).stages(X), model_of(filtered).stages(X), strict=True):
        assert a.scores.tobytes() == b.scores.tobytes()
        assert_array_equal(a.cost, b.cost)
    assert_array_equal(model_of(plain).decision_function(X), model_of(filtered).decision_function(X))


def test_decisions_are_revocable():
    """speedboost_and_structured 2.8: a row that one stage leaves out is worked on again by a later stage with a wider filter."""
    plan, X = filtered_trees(7)
    worked = naive_updates(plan, X)
    left_out = ~worked[:-1]
    later = np.logical_or.accumulate(worked[::-1])[::-1][1:]
    assert (left_out & later).any()


# ---------------------------------------------------------------------- P19


@settings(max_examples=30, deadline=None)
@given(cases, st.sampled_from([1, 7, 100]), st.sampled_from([1e-9, 1.0]))
def test_queue_equals_naive_evaluation_after_every_stage(case, tile_rows, slice_seconds):
    """P19: scores and costs, and the share of the rows that each stage has updated (Fig. 6.4)."""
    plan, X = filtered_trees(*case)
    batch = BatchSession(model_of(plan), X, tile_rows=tile_rows, slice_seconds=slice_seconds)
    for stage, naive in enumerate(model_of(plan).stages(X)):
        answer = batch.advance(max_stages=stage)
        assert answer.scores.tobytes() == naive.scores.tobytes()
        assert_array_equal(answer.cost, naive.cost)
    assert answer.complete
    statistics = batch.statistics()
    assert_allclose(statistics["updated"], naive_updates(plan, X).mean(axis=1))
    assert statistics["mean_cost"] == pytest.approx(naive.cost.mean())


@settings(max_examples=25, deadline=None)
@given(cases, st.data())
def test_rows_join_and_leave_and_work_is_interrupted_without_a_trace(case, data):
    """P19 with a stream: whoever joins when, and whatever interrupts, answers and costs are the naive ones."""
    plan, X = filtered_trees(*case)
    whole = model_of(plan).answer(X)
    batch = BatchSession(model_of(plan), tile_rows=6, slice_seconds=data.draw(st.sampled_from([1e-9, 1e-3])))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(X)), max_size=3)))
    left: dict[int, tuple[np.ndarray, float]] = {}
    stop = StopFlag()
    stop.set()
    for part in np.split(np.arange(len(X)), cuts):
        if part.size:
            assert_array_equal(batch.add(X[part]), part)
        if data.draw(st.booleans()):
            batch.advance(stop=stop)
        batch.advance(max_stages=data.draw(st.integers(0, plan.n_stages)))
        batch.advance(budget_total=data.draw(st.floats(0, 1)) * float(whole.cost.sum()))
        if data.draw(st.booleans()) and batch.numbers.size:
            gone = int(batch.numbers[0])
            left[gone] = batch.pop([gone])
    answer = batch.advance()
    assert answer.scores.tobytes() == whole.scores[batch.numbers].tobytes()
    assert_array_equal(answer.cost, whole.cost[batch.numbers])
    for number, early in left.items():
        assert early.cost[0] <= whole.cost[number]


@settings(max_examples=30, deadline=None)
@given(cases)
def test_sessions_jump_where_the_engine_asks(case):
    """One row at a time, the jumps of a session give the engine's answer."""
    plan, X = filtered_trees(*case)
    model = model_of(plan)
    whole = model.answer(X[:5])
    for i, row in enumerate(X[:5]):
        session = at.Session(model)
        session.start(row)
        answer = session.resume()
        assert answer.scores.tobytes() == whole.scores[i : i + 1].tobytes()
        assert answer.cost == whole.cost[i]


# ---------------------------------------------------------------------- the native path


class Staged(Run):
    """A run that asks every filter in Python, stage by stage."""

    def is_native(self, b):
        return False


class StopsAfter:
    """Says stop when asked for the n-th time."""

    def __init__(self, n):
        self.left = n

    def is_set(self):
        self.left -= 1
        return self.left < 0


@given(cases, st.booleans(), st.data())
def test_native_filters_do_what_filters_in_python_do(case, metered, data):
    """The same bits, payments and updates, within any limits, interrupted and resumed."""
    plan, X = filtered_trees(*case)
    native, staged = (kind(plan, X, metered=metered) for kind in (Run, Staged))
    everything = int(plan.stage_ticks[-1])
    for _ in range(data.draw(st.integers(1, 3))):
        until = np.array(data.draw(st.lists(st.integers(0, plan.n_stages), min_size=40, max_size=40)))
        budget = data.draw(st.integers(0, everything)) if metered else UNLIMITED
        native.advance(until, budget=budget, stop=StopsAfter(data.draw(st.integers(0, 3))))
        assert native.advance(until, budget=budget)
        assert staged.advance(until, budget=budget)
        assert_array_equal(native.done, staged.done)
        assert native.scores().tobytes() == staged.scores().tobytes()
        assert_array_equal(native.updates, staged.updates)
        assert_array_equal(native._applied, staged._applied)
        assert_array_equal(native.at_limit, staged.at_limit)
        if metered:
            assert_array_equal(native.ledger.paid, staged.ledger.paid)
            assert_array_equal(native.ledger.bought, staged.ledger.bought)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("thresholds", {"threshold": np.zeros(2)}),
        ("scores", {"rest": np.zeros((1, 1))}),
        ("worked", {"worked": np.zeros(1, dtype=np.int32)}),
        ("updates", {"updates": np.zeros(1, dtype=np.int64)}),
        ("left_out", {"left_out": np.zeros(1, dtype=np.int32)}),
        ("last", {"last": np.zeros(1, dtype=np.int32)}),
        ("need a ledger", {"absent": np.zeros(4, dtype=bool)}),
        ("row 0: done 0 and until 99", {"until": np.full(40, 99, dtype=np.int32)}),
    ],
)
def test_native_filters_check_what_they_are_given(name, wrong):
    plan, X = filtered_trees(0)
    given = {
        "X": X,
        "acc": np.zeros((40, 1), dtype=np.int64),
        "done": np.zeros(40, dtype=np.int32),
        "until": np.full(40, 8, dtype=np.int32),
        "threshold": np.full(8, np.nan),
        "below": np.ones(8, dtype=bool),
        "start": np.zeros((40, 1)),
        "rest": np.zeros((40, 1)),
        "worked": np.zeros(40, dtype=np.int32),
        "updates": np.zeros(8, dtype=np.int64),
        "left_out": np.zeros(40, dtype=np.int32),
        "last": np.zeros(40, dtype=np.int32),
        "ledger": None,
        "evaluation": np.zeros(8, dtype=np.int64),
        "budget": np.zeros(40, dtype=np.int64),
    }
    assert plan.blocks[0].forest.run_filtered(**given)
    given["done"][:] = 0
    with pytest.raises(ValueError, match=name):
        plan.blocks[0].forest.run_filtered(**given | wrong)


def test_filters_on_margins_run_natively_and_others_do_not():
    plan, X = filtered_trees(0)
    shared = {"blocks": plan.blocks, "costs": plan.costs, "base": plan.base, "link": plan.link}
    assert Run(Plan(**shared, passes={3: MarginRule(1.0)}), X).is_native(0)
    assert not Run(Plan(**shared, passes={3: EntropyRule(0.1)}), X).is_native(0)
    assert Run(Plan(**shared, passes={3: EntropyRule(0.1)}), X).is_native(1)
    assert not Run(Plan(**shared, stops={3: MarginRule(1.0)}), X).is_native(0)
    assert not Run(Plan(**shared, passes={3: MarginRule(1.0)}, combine="mean"), X).is_native(0)


# ---------------------------------------------------------------------- two kinds of budget


def test_curve_of_a_filtered_model_is_by_mean_realised_cost():
    """speedboost_and_structured 2.10: a batch budget is the mean cost per row, which filters lower; stage costs are bounds."""
    plan, X = filtered_trees(12)
    model, y = model_of(plan), np.arange(len(X)) % 2
    answers = list(model.stages(X))
    realised = at.curve(model, X, y, meter="realised")
    by_model = at.curve(model, X, y, meter="model")
    assert_allclose(realised.costs, [a.cost.mean() for a in answers])
    assert_allclose(by_model.costs, [0.0, *plan.stage_costs])
    assert (realised.costs <= by_model.costs + 1e-12).all()
    assert realised.costs[-1] < by_model.costs[-1]


def test_batch_budget_buys_more_than_the_same_budget_for_each_row():
    """speedboost_and_structured 2.10: a total, spent unevenly, takes the undecided rows further than its equal share would."""
    plan, X = filtered_trees(12)
    model = model_of(plan, meter="realised")
    share = 0.5 * float(model.answer(X).cost.mean())
    each = model.answer(X, budget=share)
    batch = BatchSession(model, X)
    together = batch.advance(budget_total=share * len(X))
    assert each.cost.max() <= share
    assert together.cost.sum() <= share * len(X)
    assert together.cost.max() > share
    assert together.cost.sum() > each.cost.sum()


# ---------------------------------------------------------------------- rules


def test_margin_and_entropy_ask_the_same_of_two_classes():
    """For two classes entropy falls as the margin grows: |f| < theta iff H(f) > H(theta)."""
    scores = np.random.default_rng(0).normal(size=(200, 1)) * 3
    link, empty = LINKS["logistic"], np.empty((200, 0))
    p = 1 / (1 + np.exp(-1.3))
    h = -(p * np.log(p) + (1 - p) * np.log(1 - p))
    assert_array_equal(MarginRule(1.3).holds(empty, scores, link), EntropyRule(h).holds(empty, scores, link))


def test_entropy_is_that_of_the_predicted_distribution():
    link = LINKS["softmax"]
    scores = np.log([[0.25, 0.25, 0.5], [1.0, 1.0, 1.0], [1e-300, 1e-300, 1.0]])
    assert_allclose(EntropyRule(0.0).measure(scores, link), [1.5 * np.log(2), np.log(3), 0.0], atol=1e-12)
    unnormalised = LINKS["ova"]
    assert_allclose(EntropyRule(0.0).measure(np.zeros((1, 4)), unnormalised), [np.log(4)])


def test_user_rule_takes_numbers_or_yes_and_no():
    scores, empty, link = np.array([[-2.0], [0.5], [3.0]]), np.empty((3, 0)), LINKS["logistic"]
    assert FunctionRule(function=lambda s: s[:, 0] > 0).holds(empty, scores, link).tolist() == [
        False,
        True,
        True,
    ]
    below = FunctionRule(function=spread, threshold=1.0, below=True)
    assert below.holds(empty, scores, link).tolist() == [False, True, False]
    with pytest.raises(ValueError, match=r"shape \(3, 1\), but needs one number per row, \(3,\)"):
        FunctionRule(function=lambda s: s).holds(empty, scores, link)


def test_model_with_a_user_rule_cannot_be_saved(tmp_path):
    from anytime.trees.imported_models import AnytimeClassifier

    plan, _ = filtered_trees(1)
    model = AnytimeClassifier(None)
    model.classes_ = np.array([0, 1])
    model.plan_ = Plan(
        blocks=plan.blocks,
        costs=plan.costs,
        base=plan.base,
        link=plan.link,
        passes={0: FunctionRule(function=spread)},
    )
    with pytest.raises(TypeError, match="FunctionRule holds a Python function and cannot be saved"):
        model.save(tmp_path / "model.anytime")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MarginRule(np.nan), "threshold of a rule must be a number"),
        (lambda: OutsideRule(1.0, 1.0), "from 1.0 to 1.0 is empty"),
        (lambda: EntropyRule(0.1).check(LINKS["identity"], 1), "which the link 'identity' does not give"),
        (lambda: OutsideRule(0.0).check(LINKS["softmax"], 3), "for a single score, but there are 3"),
    ],
)
def test_rules_say_what_is_wrong_with_them(make, message):
    with pytest.raises(ValueError, match=message):
        make()
