"""Rows that stay together are taken a short way, which leads to the same place as the general one."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import GradientBoostingClassifier

from anytime import make_anytime
from anytime.forest_run import ForestRun
from anytime.serve.cohort import Cohort, Piece
from anytime.serve.engine import Engine
from anytime.serve.pace import StagePace
from anytime.serve.policy import Adaptive
from anytime.serve.questions import Question
from tests.runtime.bench import ROWS, model_of
from tests.serve.virtual import stumps
from tests.strategies import plans


def cohort_of(engine, sizes, budget):
    """Pieces of so many rows each."""
    tickets = [engine._admit(Question(np.ascontiguousarray(ROWS[:size]), budget=budget)) for size in sizes]
    return Cohort(engine.model, [Piece(ticket, 0, len(ticket.question.X)) for ticket in tickets])


def told(cohort):
    """All that the scheduler and the answers are made of."""
    pieces = [(piece.stage, piece.rows, piece.until, piece.ticket.reason) for piece in cohort.pieces]
    answers = [
        [getattr(cohort.read(piece), name).tolist() for name in ("scores", "stage", "cost", "partial")]
        for piece in cohort.pieces
    ]
    return cohort.rows, cohort.until.tolist(), cohort.progress.done.tolist(), pieces, answers


@given(plans(), st.data(), st.sampled_from(["model", "realised"]))
def test_the_short_way_leads_where_the_general_one_does(plan, data, meter):
    model, last = model_of(plan, meter=meter), max(plan.n_stages, 1)
    engine = Engine(model, StagePace([last], [1e-6]), Adaptive(0.001))
    budget = data.draw(st.sampled_from([None, *plan.stage_costs.tolist()]))
    sizes = data.draw(st.lists(st.integers(1, 8), min_size=1, max_size=3))
    short, general = (cohort_of(engine, sizes, budget) for _ in range(2))
    general._common = None
    assert told(short) == told(general)
    while short.pieces and short.rows:
        stage = data.draw(st.integers(min(short.stage + 1, last), last))
        for cohort in (short, general):
            cohort.advance(stage)
        assert told(short) == told(general)
        done = [i for i, piece in enumerate(short.pieces) if piece.stage >= piece.until]
        gone = {*done, *data.draw(st.sets(st.integers(0, len(short.pieces) - 1), max_size=1))}
        for cohort in (short, general) if gone else ():
            cohort.release({cohort.pieces[i] for i in gone})
        assert told(short) == told(general)
        assert not short.rows or short.stage == general.stage


def test_who_wants_the_same_is_taken_the_short_way():
    model = stumps(5)
    engine = Engine(model, StagePace([5], [1e-6]), Adaptive(0.001))
    tickets = [engine._admit(Question(np.zeros((1, 4)), budget=budget)) for budget in (None, 0.0)]
    everything, nothing = (Piece(ticket, 0, 1) for ticket in tickets)
    assert Cohort(model, [everything])._common == 5
    assert Cohort(model, [everything, nothing])._common is None


def test_nobody_looks_ahead_beyond_the_stage_that_rows_may_reach(monkeypatch):
    X = np.random.default_rng(0).normal(size=(60, 4))
    model = make_anytime(GradientBoostingClassifier(n_estimators=50, max_depth=1).fit(X, X[:, 0] > X[:, 1]))
    engine = Engine(model, StagePace([50], [1e-6]), Adaptive(0.001))
    ticket = engine._admit(Question(np.zeros((1, 4)), confidence=0.999999))
    ticket.until = 3
    cohort = Cohort(model, [Piece(ticket, 0, 1)])
    ends, ahead = [], ForestRun.scores_ahead
    monkeypatch.setattr(
        ForestRun,
        "scores_ahead",
        lambda run, rows, first, end: ends.append(end) or ahead(run, rows, first, end),
    )
    assert cohort.next_question() <= 3
    assert ends == [3]
