"""Stages that read other columns of other rows, and go on from what earlier stages of a row have left."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from anytime.blocks import LinearBlock
from anytime.costs import FeatureCosts
from anytime.engine import Run
from anytime.plan import Plan
from anytime.rules import MarginRule
from anytime.runtime import BatchSession, Session
from tests.reference.wanderer import WandererBlock, wander
from tests.runtime.bench import features_of, model_of

D, STEPS = 6, 5
X = np.random.default_rng(3).normal(size=(15, D)).round(1)
COSTS = FeatureCosts(
    {f"g{j}": 1.0 + j for j in range(D)} | {"step": 0.5},
    groups={f"g{j}": [j] for j in range(D)} | {"step": []},
    requires={"g3": ["g1"], "g4": ["step"]},
)


def plan_of(first: bool = False, **more) -> Plan:
    """The wanderer, every stage replacing the answer; with ``first``, after a linear stage."""
    before = [LinearBlock([0], [[1.0]])] if first else []
    blocks = [*before, WandererBlock(STEPS, D)]
    replaces = np.ones(STEPS + len(before), dtype=bool)
    costs = COSTS.bind(D)
    return Plan(blocks=blocks, costs=costs, base=[0.0], link="identity", replaces=replaces, **more)


def bill(places: list[int]) -> float:
    """What the columns of a walk cost: each group once, with what it requires."""
    groups = {f"g{j}" for j in places}
    return COSTS.price(groups)


def steps_within(x, budget: float) -> int:
    places, _ = wander(x, STEPS)
    return max(t for t in range(STEPS + 1) if bill(places[:t]) <= budget)


def paid(run: Run) -> list[float]:
    return COSTS.amounts(run.ledger.paid).tolist()


def test_each_row_pays_for_the_columns_on_its_own_way():
    run = Run(plan_of(), X, metered=True)
    for t in range(1, STEPS + 1):
        run.advance(t)
        ways = [wander(x, t) for x in X]
        assert run.scores()[:, 0].tolist() == [sums[-1] for _, sums in ways]
        assert paid(run) == [bill(places) for places, _ in ways]
    assert len(set(paid(run))) > 3  # they do go different ways


@given(st.lists(st.floats(0, 25), min_size=len(X), max_size=len(X)))
def test_a_row_stays_where_its_own_next_column_is_too_dear(budgets):
    ticks = np.array([COSTS.budget_ticks(b) for b in budgets])
    run = Run(plan_of(), X, metered=True)
    run.advance(budget=ticks)
    assert run.done.tolist() == [steps_within(x, b) for x, b in zip(X, budgets, strict=True)]
    assert paid(run) == [bill(wander(x, t)[0]) for x, t in zip(X, run.done, strict=True)]


@pytest.mark.parametrize("first", [False, True])
def test_jumping_to_the_last_stage_gives_the_bits_of_every_stage_in_turn(first):
    plan = plan_of(first)
    slow, quick = Run(plan, X, metered=True), Run(plan, X)
    slow.advance()
    quick.advance()
    assert quick.updates.tolist() == [0] * (plan.n_stages - 1) + [len(X)]
    assert_array_equal(quick.scores(), slow.scores())
    alone = model_of(plan).predict_one(X[3])
    assert alone == slow.scores()[3, 0]


@settings(max_examples=50)
@given(st.data())
def test_a_run_in_pieces_gives_the_same_bits(data):
    """Rows at different stages, jumps from the middle, state that was pickled."""
    plan = plan_of(data.draw(st.booleans()))
    metered = data.draw(st.booleans())
    pieces, whole = Run(plan, X, metered=metered), Run(plan, X, metered=metered)
    for _ in range(4):
        steps = data.draw(st.lists(st.integers(0, 3), min_size=len(X), max_size=len(X)))
        deadline = np.inf if metered else data.draw(st.sampled_from([np.inf, 1e12]))  # a clock to look at
        pieces.advance(pieces.done + np.array(steps), deadline=deadline)
        pieces = pickle.loads(pickle.dumps(pieces))
    pieces.advance()
    whole.advance()
    assert_array_equal(pieces.scores(), whole.scores())
    if metered:
        assert_array_equal(pieces.ledger.paid, whole.ledger.paid)


def test_an_answer_depends_only_on_what_was_bought():
    for budget in (1.0, 4.0, 9.0, 12.0):
        run = Run(plan_of(), X, metered=True)
        run.advance(budget=COSTS.budget_ticks(budget))
        other = X.copy()
        other[~run.ledger.bought[:, :D]] = np.nan
        again = Run(plan_of(), other, metered=True)
        again.advance(budget=COSTS.budget_ticks(budget))
        assert_array_equal(again.scores(), run.scores())


def test_rows_that_a_filter_keeps_out_have_not_moved():
    plan = replace(plan_of(), passes={2: MarginRule(0.5)})
    run = Run(plan, X, metered=True)
    run.advance()
    for i, x in enumerate(X):
        kept_out = abs(wander(x, 2)[1][-1]) >= 0.5
        assert run.scores()[i, 0] == wander(x, STEPS - kept_out)[1][-1]


@settings(max_examples=40)
@given(st.integers(0, len(X) - 1), st.sampled_from([None, 3.0, 7.0, 10.0, 16.0]))
def test_a_session_fetches_exactly_the_column_that_the_row_wants_next(i, budget):
    plan, log = plan_of(), []
    model = model_of(plan, meter="realised")
    session = Session(model, features_of(plan, log))
    answer = session.predict(X[i], budget=budget)
    steps = steps_within(X[i], np.inf if budget is None else budget)
    places, sums = wander(X[i], steps)
    assert [name for name in log if name != "step"] == in_order(places)
    assert answer.stage == steps
    assert answer.cost == bill(places)
    assert answer.scores.tolist() == ([sums[-1]] if steps else [0.0])


def in_order(places: list[int]) -> list[str]:
    """Groups in the order in which a row meets them, requirements first, each once."""
    met = [name for j in places for name in COSTS.closure([f"g{j}"])]
    return [name for name in dict.fromkeys(met) if name != "step"]


def test_a_session_goes_on_elsewhere_and_looks_back_to_the_same_bits():
    plan = plan_of(quality=np.array([0.0, 1.0, 2.0, 5.0, 4.0, 3.0]))
    model = model_of(plan, meter="realised")
    for x in X[:5]:
        session = Session(model, features_of(plan))
        session.predict(x, max_stages=2)
        moved = Session.restore(pickle.loads(pickle.dumps(session.state())), model, features_of(plan))
        sums = wander(x, STEPS)[1]
        assert moved.resume().scores.tolist() == sums[-1:]
        assert moved.read(policy="best_validated").scores.tolist() == sums[2:3]


@settings(max_examples=40)
@given(
    st.booleans(),
    st.sampled_from([None, 4.0, 9.0]),
    st.sampled_from([1e-9, 1.0]),
    st.sampled_from([1, 4, 100]),
)
def test_a_batch_equals_the_engine(lazy, budget, slice_seconds, tile_rows):
    plan = plan_of()
    model = model_of(plan, meter="realised")
    batch = BatchSession(
        model,
        list(X) if lazy else X,
        features_of(plan) if lazy else None,
        budget=budget,
        slice_seconds=slice_seconds,
        tile_rows=tile_rows,
    )
    answer, eager = batch.advance(), model.answer(X, budget)
    assert_array_equal(answer.scores, eager.scores)
    assert_array_equal(answer.stage, eager.stage)
    assert_array_equal(answer.cost, eager.cost)


@pytest.mark.parametrize("lazy", [False, True])
def test_the_budget_of_a_batch_is_spent_on_what_rows_want_not_on_what_they_could(lazy):
    plan = plan_of()
    batch = BatchSession(model_of(plan), list(X) if lazy else X, features_of(plan) if lazy else None)
    everything = COSTS.price([f"g{j}" for j in range(D)])
    for total in (10.0, 40.0, 80.0, 120.0):
        answer = batch.advance(budget_total=total)
        assert total - everything < answer.cost.sum() <= total
