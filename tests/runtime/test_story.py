"""The way from raw examples to answers under a deadline, as the README tells it."""

import numpy as np
from numpy.testing import assert_array_equal
from sklearn.ensemble import RandomForestClassifier

import anytime as at


def spectrum(signal):
    return np.abs(np.fft.rfft(signal))[1:6]


def moments(signal):
    return {"mean": signal.mean(), "spread": signal.std()}


def test_raw_examples_to_answers_under_any_bound(tmp_path):
    random = np.random.default_rng(0)
    t = np.linspace(0, 1, 64)
    y = random.integers(0, 2, 150)
    raws = [np.sin(2 * np.pi * (2 + k) * t) + random.normal(size=64) for k in y]
    features = at.Features({"peak": np.max, "moments": moments, "spectrum": spectrum})
    X, groups = features.matrix(raws), features.groups(raws[0])
    assert groups["moments"] == ["mean", "spread"]
    costs = features.profile(raws[:20], path=tmp_path / "costs.yaml")
    model = at.make_anytime(
        RandomForestClassifier(30, random_state=0).fit(X, y), costs=tmp_path / "costs.yaml"
    )
    assert model.costs_ == costs

    session = at.Session(model, features)
    answers = [session.predict(raw) for raw in raws]
    assert_array_equal([answer.prediction for answer in answers], model.predict(X))
    assert_array_equal([answer.cost for answer in answers], model.cost(X))
    assert all(answer.complete for answer in answers)

    budget = float(np.median(model.stage_costs_))
    cheap = [session.predict(raw, budget=budget) for raw in raws]
    assert_array_equal([answer.prediction for answer in cheap], model.predict(X, budget=budget))
    assert max(answer.cost for answer in cheap) <= budget

    sure = session.predict(raws[0], deadline=5.0, confidence=0.7)
    assert sure.confidence >= 0.7 or sure.complete
    assert sure.elapsed < 5.0

    batch = at.BatchSession(model, raws, features)
    assert_array_equal(batch.advance().prediction, model.predict(X))
