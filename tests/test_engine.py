"""The engine against the obvious implementation, and its promises: prefixes, budgets, interrupts."""

import pickle
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from anytime._native import StopFlag
from anytime.blocks import FunctionBlock, LinearBlock
from anytime.costs import UNLIMITED, FeatureCosts
from anytime.engine import Run
from anytime.plan import Plan
from anytime.rules import MarginRule, ScoreRule
from anytime.trees.arrays import TreeArrays
from anytime.trees.block import TreeBlock
from tests.reference.engine import run_row
from tests.strategies import plans

ROWS = np.random.default_rng(1).normal(size=(12, 4)).round(1)


def two_groups(**more) -> Plan:
    """Two linear stages over columns priced 1 and 2."""
    return Plan(
        blocks=[LinearBlock([0], [[1.0]]), LinearBlock([1], [[10.0]])],
        costs=FeatureCosts([1.0, 2.0]).bind(2),
        base=[0.5],
        link="identity",
        **more,
    )


@given(plans(), st.data())
def test_engine_equals_the_obvious_implementation(plan, data):
    budgets = plan.stage_ticks.tolist() + [t // 2 for t in plan.stage_ticks.tolist()] + [UNLIMITED]
    budget = data.draw(st.sampled_from(budgets))
    until = data.draw(st.integers(0, plan.n_stages))
    run = Run(plan, ROWS, metered=True)
    run.advance(until, budget=budget)
    assert run.ledger is not None
    for i, x in enumerate(ROWS):
        scores, paid, done = run_row(plan, x, until=until, budget=budget)
        assert_allclose(run.scores()[i], scores, rtol=1e-12, atol=1e-12)
        assert run.ledger.paid[i] == paid
        assert run.done[i] == done


@given(plans())
def test_metering_does_not_change_the_answer(plan):
    free, metered = Run(plan, ROWS), Run(plan, ROWS, metered=True)
    free.advance()
    metered.advance()
    assert_array_equal(free.scores(), metered.scores())


@given(plans(), st.data())
def test_a_run_in_pieces_gives_the_same_bits(plan, data):
    whole = Run(plan, ROWS, metered=True)
    whole.advance()
    pieces = Run(plan, ROWS, metered=True)
    for _ in range(20):
        steps = data.draw(st.lists(st.integers(0, 3), min_size=len(ROWS), max_size=len(ROWS)))
        pieces.advance(pieces.done + np.array(steps))
        pieces = pickle.loads(pickle.dumps(pieces))
    pieces.advance()
    assert_array_equal(pieces.scores(), whole.scores())
    assert_array_equal(pieces.ledger.paid, whole.ledger.paid)


@given(plans(), st.integers(2, 12))
def test_growing_budgets_end_where_the_last_one_alone_does(plan, steps):
    budget = int(plan.stage_ticks[-1]) * 3 // 4
    growing, direct = Run(plan, ROWS, metered=True), Run(plan, ROWS, metered=True)
    for step in range(1, steps + 1):
        growing.advance(budget=budget * step // steps)
    direct.advance(budget=budget)
    assert_array_equal(growing.scores(), direct.scores())
    assert_array_equal(growing.done, direct.done)


@settings(max_examples=50)
@given(plans())
def test_an_answer_depends_only_on_what_was_bought(plan):
    for budget in plan.stage_ticks.tolist():
        run = Run(plan, ROWS, metered=True)
        run.advance(budget=budget)
        other = ROWS.copy()
        other[~run.ledger.bought[:, plan.costs.column_group]] = 1e6
        again = Run(plan, other, metered=True)
        again.advance(budget=budget)
        assert_array_equal(again.scores(), run.scores())


@settings(max_examples=50)
@given(plans())
def test_a_filter_that_lets_all_pass_and_a_gate_that_lets_none_go_change_no_bit(plan):
    """speedboost_and_structured P18: a threshold of infinity is no filter."""
    plain = replace(plan, passes={}, stops={})
    filtered = replace(plain, stops={0: MarginRule(np.inf, below=False)})
    if plan.weights is None:
        filtered = replace(filtered, passes={s: MarginRule(np.inf) for s in range(plan.n_stages)})
    scores = []
    for each in (plain, filtered):
        run = Run(each, ROWS)
        run.advance()
        scores.append(run.scores())
    assert_array_equal(scores[0], scores[1])


@settings(max_examples=50)
@given(plans())
def test_realised_cost_is_at_most_model_cost(plan):
    """speedboost_and_structured P23."""
    run = Run(plan, ROWS, metered=True)
    for stage in range(1, plan.n_stages + 1):
        run.advance(stage)
        assert (run.ledger.paid <= plan.stage_ticks[stage - 1]).all()


def test_prefix_sums_and_costs_by_hand():
    plan = two_groups()
    run = Run(plan, np.array([[3.0, 0.2]]), metered=True)
    assert run.scores().tolist() == [[0.5]]
    run.advance(1)
    assert run.scores().tolist() == [[3.5]]
    assert plan.costs.costs.amounts(run.ledger.paid).tolist() == [1.0]
    run.advance()
    assert run.scores().tolist() == [[5.5]]
    assert plan.stage_costs.tolist() == [1.0, 3.0]
    assert plan.order == ["x0", "x1"]


def test_a_replacing_stage_discards_the_base_and_all_before():
    run = Run(two_groups(replaces=np.array([False, True])), np.array([[3.0, 0.2]]))
    run.advance()
    assert run.scores().tolist() == [[2.0]]


def test_skipping_to_a_replacing_stage_changes_nothing():
    calls = []
    first = FunctionBlock([0], lambda x: calls.append(len(x)) or x)
    plan = Plan(
        blocks=[first, LinearBlock([1], [[2.0]]), LinearBlock([0], [[1.0]])],
        costs=FeatureCosts([1.0, 1.0]).bind(2),
        base=[7.0],
        link="identity",
        replaces=np.array([False, True, False]),
    )
    run = Run(plan, np.array([[3.0, 0.5]]))
    run.advance()
    assert (run.scores().tolist(), calls) == ([[4.0]], [])
    prefix = Run(plan, np.array([[3.0, 0.5]]))
    prefix.advance(1)
    assert (prefix.scores().tolist(), calls) == ([[10.0]], [1])


def test_mean_of_the_stages_done_and_base_before_the_first():
    run = Run(two_groups(combine="mean"), np.array([[3.0, 0.2]]))
    assert run.scores().tolist() == [[0.5]]
    run.advance(1)
    assert run.scores().tolist() == [[3.0]]
    run.advance(2)
    assert run.scores().tolist() == [[2.5]]


def test_a_refitted_table_uses_its_own_row_for_every_prefix():
    """linear_and_networks 2.1: truncating one weight vector is wrong; each prefix has its own."""
    weights = [np.array([[2.0]]), np.array([[1.0], [0.1]])]
    run = Run(two_groups(weights=weights, intercepts=np.array([[0.0], [100.0]])), np.array([[3.0, 0.2]]))
    run.advance(1)
    assert run.scores().tolist() == [[6.0]]
    run.advance(2)
    assert_allclose(run.scores(), [[100 + 3.0 + 0.1 * 2.0]])


def test_rows_that_do_not_pass_keep_their_bits():
    """speedboost_and_structured P18."""
    plan = two_groups(passes={1: MarginRule(2.0)})
    X = np.array([[3.0, 1.0], [1.0, 1.0]])
    run = Run(plan, X, metered=True)
    run.advance()
    assert run.scores().tolist() == [[3.5], [11.5]]
    assert plan.costs.costs.amounts(run.ledger.paid).tolist() == [1.0, 3.0]
    assert run.complete.all()


def test_a_gate_releases_rows_and_a_learned_gate_pays_for_what_it_reads():
    gate = ScoreRule(LinearBlock([1], [[1.0]]))
    plan = two_groups(stops={0: gate})
    run = Run(plan, np.array([[1.0, 5.0], [1.0, -5.0]]), metered=True)
    run.advance()
    assert run.finished.tolist() == [True, False]
    assert run.scores().tolist() == [[1.5], [-48.5]]
    assert plan.costs.costs.amounts(run.ledger.paid).tolist() == [3.0, 3.0]


def test_a_gate_that_could_not_be_paid_is_asked_once_there_is_money():
    plan = two_groups(stops={0: ScoreRule(LinearBlock([1], [[1.0]]))})
    run = Run(plan, np.array([[1.0, 5.0]]), metered=True)
    run.advance(budget=plan.costs.costs.ticks(1.0))
    assert (run.done.tolist(), run.finished.tolist()) == ([1], [False])
    run.advance()
    assert (run.scores().tolist(), run.finished.tolist()) == ([[1.5]], [True])


def test_a_learned_gate_can_ask_for_less_as_well_as_for_more():
    for below, expected in ((False, [True, False]), (True, [False, True])):
        run = Run(
            two_groups(stops={0: ScoreRule(LinearBlock([0], [[1.0]]), below=below)}),
            np.array([[1.0, 0], [-1.0, 0]]),
        )
        run.advance()
        assert run.finished.tolist() == expected


def test_a_flag_that_is_set_already_lets_nothing_start():
    for flag in (threading.Event(), StopFlag()):
        flag.set()
        run = Run(two_groups(), np.ones((3, 2)))
        assert not run.advance(stop=flag)
        assert run.done.tolist() == [0, 0, 0]


def test_a_budget_without_a_ledger_is_refused():
    with pytest.raises(ValueError, match="metered=True"):
        Run(two_groups(), np.ones((1, 2))).advance(budget=3)


def test_a_plan_with_a_limit_of_its_own_comes_to_an_end():
    run = Run(two_groups(limit=1.5), np.ones((2, 2)), metered=True)
    assert run.advance()
    assert run.complete.all()
    assert run.done.tolist() == [1, 1]


def slow_plan(seconds_per_row: float) -> Plan:
    def slowly(x):
        time.sleep(seconds_per_row * len(x))
        return x

    return Plan(
        blocks=[FunctionBlock([j], slowly) for j in range(4)],
        costs=FeatureCosts(np.ones(4)).bind(4),
        base=[0.0],
        link="identity",
    )


@pytest.mark.realtime
def test_a_deadline_leaves_every_row_with_a_whole_prefix():
    X = np.random.default_rng(0).normal(size=(300, 4))
    run = Run(slow_plan(2e-4), X)
    began = time.monotonic()
    assert not run.advance(deadline=began + 0.05)
    assert time.monotonic() - began < 0.2  # one chunk late at most, with room for a busy machine
    assert run.done.max() > 0
    expected = np.array([x[:t].sum() for x, t in zip(X, run.done, strict=True)])
    assert_allclose(run.scores()[:, 0], expected)
    assert run.advance()
    assert_allclose(run.scores()[:, 0], X.sum(axis=1))


def test_a_slow_function_is_begun_with_one_row():
    sizes = []
    plan = Plan(
        blocks=[FunctionBlock([0], lambda x: (sizes.append(len(x)), time.sleep(0.01 * len(x)), x)[2])],
        costs=FeatureCosts([1.0]).bind(1),
        base=[0.0],
        link="identity",
    )
    Run(plan, np.zeros((50, 1))).advance(deadline=time.monotonic() + 0.03)
    assert sizes[0] == 1
    assert max(sizes) <= 2


@pytest.mark.parametrize("make", [threading.Event, StopFlag])
def test_a_stop_flag_set_by_another_thread_interrupts(make):
    flag = make()
    X = np.zeros((2000, 4))
    run = Run(slow_plan(1e-4), X)
    timer = threading.Timer(0.05, flag.set)
    timer.start()
    assert not run.advance(stop=flag)
    timer.join()
    assert run.done.min() < 4


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"link": "probit"}, "no link 'probit'"),
        ({"combine": "max"}, "combine must be"),
        ({"base": [np.nan]}, "finite scores"),
        ({"base": [0.0, 1.0]}, "block 0 gives 1 numbers per row, but the plan has 2 outputs"),
        ({"replaces": np.array([True])}, r"replaces has shape \(1,\)"),
        ({"quality": np.zeros(2)}, r"needs \(3,\)"),
        ({"evaluation_costs": np.array([1.0, -1.0])}, "not negative"),
        ({"passes": {5: MarginRule(1.0)}}, "the plan has 2 stages"),
        ({"limit": -1.0}, "limit must be"),
        ({"base": []}, "finite scores"),
        ({"intercepts": np.zeros((2, 1))}, "intercepts belong to a refitted table"),
        ({"quality": np.array([0.0, np.nan, 1.0])}, "quality must be finite"),
        ({"weights": [[[1.0]], [[np.nan], [1.0]]]}, "table must be finite"),
        ({"blocks": [LinearBlock([7], [[1.0]])]}, "reads column 7, but there are 2"),
        ({"link": "logistic", "base": [0.0, 0.0], "blocks": [LinearBlock([0], [[1.0, 1.0]])]}, "one output"),
        ({"weights": [np.ones((1, 1))]}, "table has 1 rows"),
        ({"weights": [np.ones((1, 1)), np.ones((3, 1))]}, r"row 2 of the table has shape \(3, 1\)"),
        (
            {"weights": [np.ones((1, 1)), np.ones((2, 1))], "passes": {0: MarginRule(1.0)}},
            "refitted table needs",
        ),
    ],
)
def test_a_plan_that_could_not_run_is_refused(change, words):
    base = {"blocks": two_groups().blocks, "costs": two_groups().costs, "base": [0.0], "link": "identity"}
    with pytest.raises(ValueError, match=words):
        Plan(**{**base, **change})


def test_stages_are_numbered_from_one():
    plan = two_groups()
    assert [stage.number for stage in plan] == [1, 2]
    for number in (0, 3):
        with pytest.raises(IndexError, match="stages 1 to 2"):
            plan.stage(number)


def test_a_function_of_the_wrong_shape_is_refused():
    plan = Plan(
        blocks=[FunctionBlock([0], lambda x: np.zeros((2, len(x))), width=2)],
        costs=FeatureCosts([1.0]).bind(1),
        base=[0.0, 0.0],
        link="softmax",
    )
    with pytest.raises(ValueError, match=r"returned shape \(2, 5\), but needs \(5, 2\)"):
        Run(plan, np.zeros((5, 1))).advance()


def test_a_stage_cut_by_the_clock_is_charged_once():
    n = 40_000
    stumps = TreeArrays(
        tree_start=np.arange(0, 3 * n + 1, 3),
        stage_start=np.array([0, n]),
        feature=np.tile(np.array([0, -1, -1], dtype=np.int32), n),
        threshold=np.zeros(3 * n),
        left=np.tile(np.array([1, -1, -1], dtype=np.int32), n),
        right=np.tile(np.array([2, -1, -1], dtype=np.int32), n),
        default_left=np.zeros(3 * n, dtype=np.uint8),
        missing=np.ones(3 * n, dtype=np.uint8),
        category_set=np.full(3 * n, -1, dtype=np.int32),
        members_left=np.zeros(3 * n, dtype=np.uint8),
        category_start=np.zeros(1, dtype=np.int64),
        categories=np.zeros(0, dtype=np.int32),
        value=np.tile([[0.0], [-1.0], [1.0]], (n, 1)),
        tree_output=np.zeros(n, dtype=np.int32),
        n_outputs=1,
        n_features=1,
    )
    plan = Plan(
        blocks=[TreeBlock(stumps)],
        costs=FeatureCosts([1.0]).bind(1),
        base=[0.0],
        link="identity",
        evaluation_costs=np.array([5.0]),
    )
    run = Run(plan, np.ones((20, 1)), metered=True)
    assert not run.advance(deadline=time.monotonic() + 1e-4)
    assert plan.costs.costs.amounts(run.ledger.paid).max() <= 6.0
    assert run.advance()
    assert plan.costs.costs.amounts(run.ledger.paid).tolist() == [6.0] * 20
    assert run.scores()[:, 0].tolist() == [float(n)] * 20
