"""Serving an adaptive model whose costly model is not in its file."""

from __future__ import annotations

import os
from functools import cache

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.svm import SVC

import anytime as at
from anytime.serve.settings import Settings
from tests.cli.running import fails, run
from tests.serve.serving import COSTS, application, ask, classifier, post, running, saved, table, wait_for


@cache
def svm(power=1.0):
    X, y = table()
    return SVC(C=power).fit(X, y)


@cache
def gated(seed=0, power=1.0):
    X, y = table()
    model = at.AdaptiveClassifier(
        svm(power),
        costs=COSTS,
        cost_penalty=0.01,
        costly_fraction=0.7,
        max_iter=1,
        n_estimators=5,
        random_state=seed,
    )
    return model.fit(X, y)


class Oracle(ClassifierMixin, BaseEstimator):
    """Knows the truth, and a little about wards."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        doubt = X["ward"].map({"north": 0.1, "south": 0.2}).to_numpy(dtype=float)
        chance = np.where(X["age"] + X["iron"] - X["size"] > 0, doubt, 1 - doubt)
        return np.column_stack([1 - chance, chance])

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


@cache
def of_words():
    """An adaptive model that sends rows to such a one."""
    X, y = table()
    X = X.assign(ward=pd.Categorical(np.where(X["age"] > 0, "north", "south")))
    costly = Oracle().fit(X, y)
    model = at.AdaptiveClassifier(
        costly, costly_fraction=1.0, cost_penalty=0.0, max_iter=1, n_estimators=1, random_state=0
    )
    return model.fit(X, y), costly, X


def rows():
    return table()[0].to_numpy()[:30].tolist()


def replace(path, model):
    model.save(path.with_suffix(".new"))
    os.replace(path.with_suffix(".new"), path)


@pytest.fixture
def pickled(tmp_path):
    joblib.dump(svm(), tmp_path / "svm.joblib")
    return tmp_path / "svm.joblib"


def test_answers_are_those_of_the_whole_model(tmp_path):
    server = application(tmp_path, {"gated": gated()}, costly={"gated": svm()})
    expected = gated().answer(table()[0][:30])
    assert 0 < gated().sent(table()[0][:30]).mean() < 1
    answer = post(server, "/predict", {"rows": rows(), "probabilities": True}).json()
    assert answer["predictions"] == expected.prediction.tolist()
    assert answer["probabilities"] == expected.probabilities.tolist()
    assert answer["cost"] == expected.cost.tolist()
    assert len(set(answer["cost"])) > 1  # who is not sent on pays less


def test_a_new_version_gets_the_same_costly_model(tmp_path):
    server = application(tmp_path, {"gated": gated()}, costly={"gated": svm()})
    path = server.settings.models["gated"]
    load = ("POST", "/v2/repository/models/gated/load", {})
    replace(path, gated(seed=1))
    loaded, answer = ask(server, load, ("POST", "/predict", {"rows": rows(), "probabilities": True}))
    assert loaded.status_code == 200
    assert answer.json()["probabilities"] == gated(seed=1).predict_proba(table()[0][:30]).tolist()
    replace(path, gated(power=10.0))  # learned for another one
    loaded, answer = ask(server, load, ("POST", "/predict", {"rows": rows(), "probabilities": True}))
    assert loaded.status_code == 400
    assert "this is not the costly model 'SVC'" in loaded.json()["error"]
    assert answer.json()["probabilities"] == gated(seed=1).predict_proba(table()[0][:30]).tolist()
    replace(path, classifier())  # which needs none
    (loaded,) = ask(server, load)
    assert loaded.status_code == 200


def test_a_costly_model_that_reads_words(tmp_path):
    model, costly, X = of_words()
    assert model.sent(X[:20]).any()
    server = application(tmp_path, {"wards": model}, costly={"wards": costly})
    answer = post(server, "/predict", {"rows": X[:20].to_dict("records"), "probabilities": True}).json()
    assert answer["probabilities"] == model.predict_proba(X[:20]).tolist()


def test_without_it_no_server_starts(tmp_path, pickled):
    file = saved(tmp_path, gated=gated())["gated"]
    needed = "some rows are sent to 'SVC', which is not in the file: give it with --costly FILE (predict, curve, serve, "
    assert needed in fails("serve", file, "--port", 0)
    with pytest.raises(at.adaptive.DetachedModelError):
        application(tmp_path, {"gated": gated()})
    other = tmp_path / "other.joblib"
    joblib.dump(svm(10.0), other)
    assert "this is not the costly model 'SVC'" in fails(
        "serve", file, "--port", 0, "--costly", other, "--trusted"
    )


def test_what_makes_no_sense_is_refused(tmp_path, pickled):
    files = saved(tmp_path, gated=gated(), plain=classifier())
    both = ("serve", files["gated"], files["plain"], "--port", 0, "--trusted")
    assert "is a pickle" in fails("serve", files["gated"], "--costly", pickled, code=2)
    assert "say which one --costly is for" in fails(*both, "--costly", pickled, code=2)
    assert "no model is called 'nix'" in fails(*both, "--costly", f"nix={pickled}", code=2)
    twice = ("--costly", f"gated={pickled}") * 2
    assert "'gated' has one costly model" in fails(*both, *twice, code=2)
    missing = tmp_path / "nix.joblib"
    assert fails(*both, "--costly", f"gated={missing}") == f"{missing}: no such file"
    needless = (*both, "--costly", f"gated={pickled}", "--costly", f"plain={pickled}")
    assert "plain.anytime needs no --costly" in fails(*needless, code=2)
    with pytest.raises(ValueError, match="costly model for 'm'"):
        Settings(models=files, costly={"m": svm()})


def test_it_is_simulated_with_it(tmp_path, pickled):
    file = saved(tmp_path, gated=gated())["gated"]
    simulate = ("simulate", "--model", file, "--rate", 100, "--seconds", 1)
    assert "give it with --costly FILE" in fails(*simulate)
    assert "adaptive" in run(*simulate, "--costly", pickled, "--trusted").stdout


@pytest.mark.slow
def test_workers_have_it_too(tmp_path, pickled):
    X, body = table()[0][:30], {"model": "gated", "rows": rows(), "probabilities": True}
    models = {"gated": gated(), "plain": classifier()}
    options = ("--workers", 2, "--slo-ms", 5000, "--watch", 0.05, "--trusted", "--costly", f"gated={pickled}")
    with running(tmp_path, *options, models=models) as server:
        for _ in range(8):
            assert server.request("/predict", body)[1]["probabilities"] == gated().predict_proba(X).tolist()
        replace(tmp_path / "gated.anytime", gated(seed=1))
        expected = gated(seed=1).predict_proba(X).tolist()
        wait_for(
            lambda: all(server.request("/predict", body)[1]["probabilities"] == expected for _ in range(8))
        )
