"""One record says what is known of a row after a stage, whoever is asked: the model, a session, a batch or the server."""

import asyncio
import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.ensemble import GradientBoostingClassifier, RandomForestRegressor

import anytime as at
from anytime.losses import Link
from anytime.rows import reader_of
from anytime.serve.engine import Engine
from anytime.serve.pace import StagePace
from anytime.serve.policy import Adaptive
from anytime.serve.questions import Question

X = np.random.default_rng(0).normal(size=(80, 5)).round(2)
COSTS = at.FeatureCosts([1.0, 2.0, 0.5, 3.0, 0.0])
READ = (
    "prediction",
    "scores",
    "probabilities",
    "confidence",
    "stage",
    "cost",
    "model_cost",
    "groups",
    "complete",
)


@pytest.fixture(scope="module")
def models():
    labels = np.where(X[:, 0] + X[:, 1] > 0, "yes", "no")
    forest = RandomForestRegressor(8, max_depth=3, random_state=0).fit(X, X[:, 0] - X[:, 3])
    boosted = GradientBoostingClassifier(n_estimators=8, random_state=0).fit(X, labels)
    return {
        "numbers": at.make_anytime(forest, costs=COSTS, evaluation_cost=0.1),
        "labels": at.make_anytime(boosted, costs=COSTS, evaluation_cost=0.1),
        "replacing": at.GroupPursuitClassifier(costs=COSTS, random_state=0).fit(X, labels),
    }


@pytest.fixture(scope="module")
def named_models():
    """Models of columns a and b, of which the stages add up, are refitted together, or replace each other."""
    table = pd.DataFrame(X[:, :2], columns=["a", "b"])
    labels = np.where(X[:, 0] + X[:, 1] > 0, "yes", "no")
    costs = at.FeatureCosts(groups={"a": ["a"], "b": ["b"]}, prices={"a": 1.0, "b": 1.0})
    return {
        "adding": at.GradientBoostingClassifier(n_estimators=5, costs=costs).fit(table, labels),
        "refitted": at.SpeedBoostClassifier(n_estimators=5, costs=costs).fit(table, labels),
        "replacing": at.GroupPursuitClassifier(costs=costs, random_state=0).fit(table, labels),
    }


def served(model, x, stage, **bounds):
    """The answer of the server's engine, on a question that may go so far."""

    async def ask():
        stops = np.arange(1, model.n_stages_ + 1)
        engine = Engine(model, StagePace(stops, 1e-6 * stops), Adaptive(0.0))
        async for answer in engine.stream(Question(x[None], **bounds)):
            if answer.stage[0] == stage:
                return answer
        return None

    return asyncio.run(ask())


def of_one_row(answer):
    """What a record says of its only row, in plain values; whether it has a dimension for rows or not."""
    many = np.ndim(answer.scores) == 2
    said = {name: getattr(answer, name) for name in READ}
    return {
        name: value[0].tolist() if many and isinstance(value, np.ndarray) else np.array(value).tolist()
        for name, value in said.items()
    }


@pytest.mark.parametrize("name", ["numbers", "labels", "replacing"])
def test_the_model_a_session_a_batch_and_the_server_return_the_same_record(models, name):
    model = models[name].set_params(meter="realised")
    x = np.ascontiguousarray(X[7])
    session, batch = at.Session(model).start(x), at.BatchSession(model, x[None])
    for expected in model.stages(x[None]):
        stage = expected.stage
        answers = [expected, session.resume(max_stages=stage), batch.advance(max_stages=stage)]
        answers += [served(model, x, stage)] if stage else []
        assert {type(answer) for answer in answers} == {at.Answer}
        for answer in answers:
            assert of_one_row(answer) == of_one_row(expected)
    last = [model.answer(x[None]), session.resume(), batch.advance(), served(model, x, model.n_stages_)]
    assert [answer.reason for answer in last] == ["complete"] * 4
    assert not any(np.any(answer.partial) for answer in last)
    assert model.predict_one(x) == expected.prediction[0]
    assert model.predict_one(x, budget=0.0) == model.answer(x[None], budget=0.0).prediction[0]


def test_every_one_says_why_it_ended_and_whether_there_was_more_to_do(models):
    model = models["labels"].set_params(meter="model")
    x = np.ascontiguousarray(X[3])
    for bounds, reason in (({}, "complete"), ({"budget": 1.0}, "budget"), ({"deadline": 0.0}, "deadline")):
        answers = [model.answer(x[None], **bounds), at.Session(model).predict(x, **bounds)]
        for answer in answers:
            assert (answer.reason, bool(np.all(answer.partial))) == (reason, reason == "deadline")
            assert answer.complete == (reason == "complete")


def answers_of(model, row, **bounds):
    """What the model, a session, a batch and the server's engine say of a row, given by column."""
    read = reader_of(model).one(row)

    async def ask():
        stops = np.arange(1, model.n_stages_ + 1)
        engine = Engine(model, StagePace(stops, 1e-6 * stops), Adaptive(0.0))
        return await engine.answer(Question(read.X, held=read.held, **bounds))

    return [
        model.answer(pd.DataFrame([row]), **bounds),
        at.Session(model).predict(row, **bounds),
        at.BatchSession(model, pd.DataFrame([row]), **bounds).advance(),
        asyncio.run(ask()),
    ]


@pytest.mark.filterwarnings("ignore:.*:UserWarning")  # that columns are not there
@pytest.mark.parametrize("bounds", [{}, {"budget": 1.5}], ids=["whole", "budget"])
@pytest.mark.parametrize("name", ["adding", "refitted", "replacing"])
def test_a_row_that_lacks_a_group_ends_for_that_reason_whoever_is_asked(named_models, name, bounds):
    model = named_models[name]
    for row in ({"a": 0.1}, {"b": -0.3}):
        answers = answers_of(model, row, **bounds)
        for answer in answers[1:]:
            assert of_one_row(answer) == of_one_row(answers[0])
        assert [answer.reason for answer in answers] == [answers[0].reason] * 4
        assert not any(np.any(answer.partial) for answer in answers)
    assert {answer.reason for row in ({"a": 0.1}, {"b": -0.3}) for answer in answers_of(model, row)} == {
        "groups"
    }


@pytest.mark.parametrize("name", ["adding", "refitted", "replacing"])
def test_only_an_extractor_fails(named_models, name):
    """A stage was left out because the extractor of b failed: that, and not that the row lacks b, is why it ended."""

    def fail(raw):
        raise OSError("no reading")

    model = named_models[name]
    features = at.Features({"a": lambda raw: raw, "b": fail})
    session, batch = at.Session(model, features), at.BatchSession(model, [0.1], features)
    for answer in (session.predict(0.1), batch.advance()):
        assert (answer.reason, bool(np.all(answer.partial)), answer.complete) == ("failed", True, False)
        assert answer.failures["b"] == "OSError: no reading"
    session.start(0.1).give({"b": [-0.3]})
    assert (session.resume().reason, session.read().partial) == ("complete", False)


def test_a_batch_that_its_budget_ends_says_so(models):
    model = models["labels"].set_params(meter="model")
    assert at.BatchSession(model, X[:3], budget=1.0).advance().reason == "budget"
    assert at.BatchSession(model, X[:3], confidence=0.51).advance().reason == "confidence"


def test_a_session_that_works_says_nothing_of_an_end(models):
    session = at.Session(models["labels"]).start(X[0])
    assert (session.reason, session.read().reason, session.read().partial) == ("", "", True)
    session.step()
    assert (session.reason, session.read().partial) == ("stages", False)
    assert session.resume().reason == session.reason == "complete"


def test_where_payments_are_not_counted_cost_and_groups_are_those_of_the_stages(models):
    model = models["labels"].set_params(meter="model")
    answer = served(model, X[0], 3)
    assert answer.cost.tolist() == answer.model_cost.tolist() == [model.stage_costs_[2]]
    may_buy = {group for stage in list(model.plan_)[:3] for group in stage.groups}
    assert answer.groups == [group for group in model.order_ if group in may_buy]


@pytest.mark.parametrize("many", [False, True])
def test_an_answer_travels_without_its_model(models, many):
    model = models["labels"]
    answer = model.answer(X[:2]) if many else at.Session(model).predict(X[0])
    sent = pickle.dumps(answer)
    assert len(sent) < 3000 < len(pickle.dumps(model))
    for name in READ:
        assert_array_equal(getattr(pickle.loads(sent), name), getattr(answer, name))


def test_an_answer_stays_what_it_was_when_the_model_is_fitted_again():
    model = at.GroupPursuitClassifier(random_state=0).fit(X, X[:, 0] > 0)
    answer = model.answer(X[:5])
    model.fit(-X, np.where(X[:, 1] > 0, "b", "a"))
    assert answer.prediction.dtype == bool
    assert answer.probabilities.shape == (5, 2)


@pytest.mark.parametrize("name", ["numbers", "labels", "replacing"])
@pytest.mark.parametrize("rows", [np.arange(80) % 3 == 0, slice(7, 8)], ids=["mask", "slice"])
def test_rows_of_an_answer_keep_what_was_worked_out_for_all(models, name, rows, monkeypatch):
    answer = models[name].answer(X)
    alone = answer.rows(rows)
    expected = alone.prediction, alone.cost, alone.groups
    answer.work_out()
    monkeypatch.setattr(Link, "decide", None)  # asked again, it would fail
    together = answer.rows(rows)
    for found, wanted in zip((together.prediction, together.cost, together.groups), expected, strict=True):
        assert_array_equal(found, wanted)


def test_requests_that_are_answered_together_are_worked_out_together(models, monkeypatch):
    model, n_rows, decide = models["labels"], [], Link.decide
    expected = model.predict(X[:10]).tolist()
    monkeypatch.setattr(Link, "decide", lambda *given: n_rows.append(len(given[1])) or decide(*given))

    async def ask():
        stops = np.arange(1, model.n_stages_ + 1)
        engine = Engine(model, StagePace(stops, 1e-6 * stops), Adaptive(0.0))
        answers = await asyncio.gather(*(engine.answer(Question(x[None])) for x in X[:10]))
        return [answer.prediction[0] for answer in answers]

    assert asyncio.run(ask()) == expected
    assert max(n_rows) >= 9  # the first may be answered before the others come
