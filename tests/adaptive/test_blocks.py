"""The costly model as a stage, and in files."""

import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.ensemble import RandomForestClassifier
from sklearn.neighbors import KNeighborsClassifier

import anytime as at
from anytime.adaptive import AdaptiveClassifier, CostlyBlock, DetachedModelError
from anytime.adaptive.blocks import TableReader, scores_of_probabilities
from anytime.losses import LINKS
from tests.adaptive.test_adaptive_classifier import SMALL, problem


@pytest.mark.parametrize(("n_classes", "link"), [(2, "logistic"), (3, "softmax")])
def test_scores_give_the_chances_back(n_classes, link):
    probabilities = np.random.default_rng(0).dirichlet(np.ones(n_classes), 50)
    assert_allclose(LINKS[link].transform(scores_of_probabilities(probabilities)), probabilities)
    certain = np.eye(n_classes)[[0, 1]]
    assert np.isfinite(scores_of_probabilities(certain)).all()
    assert_allclose(LINKS[link].transform(scores_of_probabilities(certain)), certain, atol=1e-11)


def chances_of(X):
    first = 1 / (1 + np.exp(-X[:, 1]))
    return np.column_stack([1 - first, first])


def block(**settings):
    return CostlyBlock("sigmoid", [1, 2], chances_of, 2, **settings)


def test_a_file_keeps_the_name_and_what_the_model_said_of_probe_rows():
    X = np.random.default_rng(0).normal(size=(20, 4))
    known = block(probe=X[:5])
    found = CostlyBlock.from_state(*known.state())
    assert found.name == "sigmoid"
    assert_array_equal(found.columns(0), [1, 2])
    assert_array_equal(found.probe_answers, chances_of(X[:5]))
    with pytest.raises(DetachedModelError, match="'sigmoid' is not attached") as caught:
        found.outputs(0, X)
    assert pickle.loads(pickle.dumps(caught.value)).name == "sigmoid"
    assert_array_equal(found.attached(chances_of).outputs(0, X), known.outputs(0, X))
    with pytest.raises(ValueError, match="on 5 of 5 probe rows"):
        found.attached(lambda rows: chances_of(rows)[:, ::-1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"said": np.zeros((3, 2))}, "do not match"),
        ({"said": np.full((5, 2), np.nan)}, "must be finite"),
        ({"probe": None}, "do not match"),
        ({"calibration": np.zeros((3, 1))}, "all but the first need a calibration"),
        ({"columns": np.array([-1], dtype=np.int32)}, "columns from 0 on"),
    ],
)
def test_a_state_that_does_not_fit_is_refused(change, message):
    description, arrays = block(probe=np.zeros((5, 4))).state()
    arrays = {name: array for name, array in (arrays | change).items() if array is not None}
    with pytest.raises(ValueError, match=message):
        CostlyBlock.from_state(description, arrays)


def test_a_model_that_gives_something_else_is_told_so():
    with pytest.raises(
        ValueError, match=r"returned an array of shape \(3,\) instead of probabilities of shape \(3, 3\)"
    ):
        CostlyBlock("flat", [0], lambda X: X[:, 0], 3).outputs(0, np.zeros((3, 1)))


def test_a_table_reaches_the_model_with_its_categories():
    table = pd.DataFrame({"a": [1.0, 2.0, 3.0], "kind": pd.Categorical(["low", None, "high"])})
    codes = np.column_stack([table["a"], [1.0, np.nan, 0.0]])
    seen = TableReader(lambda rows: rows, ["a", "kind"], {1: ["high", "low"]}).table(codes)
    assert seen["kind"].isna().tolist() == [False, True, False]
    assert seen["kind"].dropna().tolist() == ["low", "high"]
    assert seen["a"].tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("gate", ["learned", "margin"])
def test_a_composite_with_a_forest_is_saved_whole(tmp_path, gate):
    X, y, costs = problem()
    forest = RandomForestClassifier(20, max_depth=8, random_state=0).fit(X, y)
    model = AdaptiveClassifier(
        forest, costs=costs, cost_penalty=0.02, proba_source="insample", gate=gate, **SMALL
    ).fit(X, y)
    assert 0 < model.sent(X).mean() < 1
    assert (model.doubt_ == 0) == (gate == "learned")
    model.save(tmp_path / "model.anytime")
    loaded = at.load(tmp_path / "model.anytime")
    assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert_array_equal(loaded.cost(X), model.cost(X))
    assert_array_equal(loaded.gate_score(X), model.gate_score(X))
    assert (loaded.cost_penalty_, loaded.threshold_, loaded.sent_) == (
        model.cost_penalty_,
        model.threshold_,
        model.sent_,
    )
    assert loaded.expected_cost_ == model.expected_cost_


def test_ctrl_c_leaves_a_model(monkeypatch):
    from anytime.adaptive.boosted import BoostedPairLearner

    X, y, costs = problem()
    honest, turns = BoostedPairLearner.learn, []

    def impatient(self, probabilities, before):
        turns.append(1)
        if len(turns) == 3:
            raise KeyboardInterrupt
        return honest(self, probabilities, before)

    monkeypatch.setattr(BoostedPairLearner, "learn", impatient)
    with pytest.warns(UserWarning, match="interrupted: 1 of 1 settings"):
        model = AdaptiveClassifier(
            KNeighborsClassifier(),
            costs=costs,
            cost_penalty=0.02,
            n_estimators=5,
            max_iter=6,
            tol=0.0,
            random_state=0,
        ).fit(X, y)
    assert model.n_iter_ == 2
    model.predict(X)
