"""The code that the design promises, line by line, with imported models where a learner of our own does not exist yet."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.model_selection import train_test_split

import anytime as at


@pytest.fixture(scope="module")
def cells():
    X, y, costs = at.datasets.load("breast_cancer")
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    narrow = HistGradientBoostingClassifier(
        interaction_cst=[list(c) for c in costs.groups.values()], random_state=0
    )
    model = at.AnytimeClassifier(narrow, costs=costs, meter="model", random_state=0).fit(X_train, y_train)
    forest = RandomForestClassifier(30, random_state=0).fit(X_train, y_train)
    other = at.make_anytime(forest, costs=costs, X_val=X_test, y_val=y_test)
    return model, other, X_test, y_test


def test_predictions_under_a_budget_and_a_deadline(cells):
    model, _, X_test, y_test = cells
    assert model.predict(X_test, budget=40).shape == y_test.shape
    assert model.predict(X_test, deadline=0.002).shape == y_test.shape
    assert model.predict_proba(X_test, budget=40).shape == (len(X_test), 2)
    assert (model.cost(X_test, budget=40) <= 40).all()
    for answer in model.stages(X_test):
        assert len(answer.prediction) == len(answer.cost) == len(X_test)
        assert answer.stage >= 0
    assert model.predict_one(X_test[0], budget=40) in model.classes_


def test_truncate_save_and_load(cells, tmp_path, monkeypatch):
    model, _, X_test, _ = cells
    monkeypatch.chdir(tmp_path)
    small = model.truncate(budget=40)
    assert (small.cost(X_test) <= 40).all()
    model.save("cells.anytime")
    loaded = at.load("cells.anytime")
    assert (loaded.predict_proba(X_test) == model.predict_proba(X_test)).all()


def test_curves_and_comparison(cells, tmp_path, monkeypatch):
    model, other, X_test, y_test = cells
    monkeypatch.chdir(tmp_path)
    curve = at.curve(model, X_test, y_test)
    assert curve.at(40) == model.score(X_test, y_test, budget=40)
    reached = curve.cost_to_reach(0.85)
    assert curve.at(reached) >= 0.85
    assert 0 < curve.timeliness(alpha=0.99) <= 1
    curve.plot()
    at.compare({"speedboost": model, "forest": other}, X_test, y_test).report("report.html")
    assert "<html" in (tmp_path / "report.html").read_text()


def test_features_and_a_session():
    calls = []

    def group(name, columns):
        def compute(raw):
            calls.append(name)
            return raw[columns]

        return compute

    rng = np.random.default_rng(0)
    raw_samples = rng.normal(size=(200, 4))
    y = (raw_samples[:, 0] + raw_samples[:, 3] > 0).astype(int)
    features = at.Features(
        {"basic": group("basic", [0]), "blood": group("blood", [1, 2]), "scan": group("scan", [3])}
    )
    costs = features.profile(raw_samples[:10])
    assert set(costs.names) == {"basic", "blood", "scan"}
    model = at.AnytimeClassifier(costs=costs, random_state=0).fit(features.matrix(raw_samples), y)
    session = at.Session(model, features)
    calls.clear()
    answer = session.predict(raw_samples[0], deadline=5.0)
    assert answer.prediction == model.predict(raw_samples[:1])[0]
    assert sorted(calls) == sorted(set(calls)), "a group was computed twice"
    assert answer.groups == calls
    assert answer.cost <= costs.total
    assert answer.elapsed > 0
    assert answer.stage == model.n_stages_


def test_costs_as_a_graph():
    costs = at.FeatureCosts(
        groups={"draw": [], "chol": ["chol"], "fbs": ["fbs"], "ecg": ["st", "slope"]},
        prices={"draw": 2.10, "chol": 5.17, "fbs": 3.10, "ecg": 15.50},
        requires={"chol": ["draw"], "fbs": ["draw"]},
        unit="CAD",
    )
    assert costs.total == 25.87
    assert at.FeatureCosts([1.0, 2.0]).total == 3.0


def test_fitted_attributes(cells):
    model, other, _, _ = cells
    for fitted in (model, other):
        assert len(fitted.plan_) == len(fitted.stage_costs_)
        assert set(fitted.order_) <= set(fitted.costs_.names)
