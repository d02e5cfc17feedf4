"""river's conventions, by river's own checks."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("river")

from river import checks, compose, datasets, dummy, evaluate, metrics, preprocessing, stats

from anytime.streaming.river import RiverClassifier, RiverRegressor


def small_checks(model):
    for check in checks.yield_checks(model):
        yield pytest.param(model, check, id=f"{type(model).__name__}:{check.__name__}")


@pytest.mark.parametrize(
    ("model", "check"),
    [
        *small_checks(RiverRegressor(n_estimators=2)),
        *small_checks(RiverClassifier(n_estimators=2, learner="linear")),
    ],
)
def test_river_takes_it_for_one_of_its_own(model, check):
    check(model.clone())


def test_check_estimator_of_river_passes_with_trees():
    checks.check_estimator(RiverClassifier(n_estimators=2))


def test_a_pipeline_learns_a_stream_of_numbers():
    model = preprocessing.StandardScaler() | RiverRegressor(n_estimators=30)
    mine = evaluate.progressive_val_score(datasets.TrumpApproval(), model, metrics.MAE())
    mean = evaluate.progressive_val_score(
        datasets.TrumpApproval(), dummy.StatisticRegressor(stats.Mean()), metrics.MAE()
    )
    assert mine.get() < 0.5 * mean.get()


def test_a_pipeline_learns_a_stream_of_classes():
    scaled = compose.Pipeline(
        preprocessing.StandardScaler(), RiverClassifier(n_estimators=8, learner="ridge")
    )
    assert evaluate.progressive_val_score(datasets.Phishing(), scaled, metrics.Accuracy()).get() > 0.85


def test_words_and_weights_are_taken_and_the_model_within_is_any_other():
    rng = np.random.default_rng(0)
    model = RiverClassifier(n_estimators=8)
    for _ in range(400):
        colour = str(rng.choice(["red", "blue"]))
        model.learn_one({"colour": colour, "noise": rng.normal()}, colour == "red", w=2.0)
    assert model.predict_one({"colour": "red", "noise": 0.0}) == True  # noqa: E712  # a label, of NumPy or not
    assert model.predict_proba_one({"colour": "red"}, budget=0.0) == {False: 0.5, True: 0.5}
    assert len(model.model.plan_) == 8


def test_a_label_is_the_likeliest():
    model, said = RiverClassifier(n_estimators=5), []
    assert model.predict_one({"a": 1.0}) is None
    for x, y in datasets.Phishing().take(300):
        model.learn_one(x, y)
        chances = model.predict_proba_one(x)
        said.append(model.predict_one(x))
        assert type(said[-1]) is bool
        assert said[-1] == max(chances, key=chances.get)
    assert len(set(said)) == 2


@pytest.mark.parametrize("kind", [RiverClassifier, RiverRegressor])
def test_a_seed_may_have_either_name_and_a_model_is_none(kind):
    model = kind(n_estimators=2, random_state=7)
    assert model.clone().model.get_params() == kind(7, n_estimators=2).model.get_params()
    with pytest.raises(TypeError, match="give one"):
        kind(seed=1, random_state=7)
    with pytest.raises(TypeError, match="creates its own model"):
        kind(model.model)
