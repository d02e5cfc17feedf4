"""GrowingNetworkClassifier and GrowingNetworkRegressor (growth_and_streaming C.1): the hull is the plan, fitting goes on."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
from itertools import pairwise

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs anytime[torch]; `make test-all` installs it")

from torch import nn  # noqa: E402

import anytime as at  # noqa: E402
from anytime.growth import GrowthSearch, GrowthSettings, Phases, for_tables  # noqa: E402
from anytime.growth.galleries import increments, nested, spread_out  # noqa: E402
from anytime.networks import TrainingRecipe, with_exits  # noqa: E402

torch.set_num_threads(1)
SMALL = {
    "n_cells": 1,
    "width": 8,
    "phases": for_tables(epochs=6, batch_size=32),
    "device": "cpu",
    "random_state": 0,
}
BRIEF = TrainingRecipe(epochs=1, batch_size=40, learning_rate=0.05)


@pytest.fixture(scope="module")
def grown(rings):
    X, y = rings
    return at.GrowingNetworkClassifier(n_growths=3, **SMALL).fit(X, np.array(["in", "on", "out"])[y])


@pytest.fixture(scope="module")
def buying():
    """A regressor of two targets whose columns have prices, with its rows."""
    X = np.random.default_rng(1).normal(size=(160, 5))
    y = np.column_stack([50 + 4 * X[:, 0], np.abs(X[:, 1] - X[:, 2])])
    X[::7, 3] = np.nan
    costs = at.FeatureCosts([1.0, 2.0, 3.0, 4.0, 5.0])
    model = at.GrowingNetworkRegressor(n_growths=4, costs=costs, max_stages=4, **SMALL)
    return model.fit(X, y), X, y


def test_the_hull_is_the_plan(grown):
    """Stages are the networks of the lower hull, from cheap to good, each at the price of its own mult-adds."""
    costs, errors = (np.array([m[key] for m in grown.models_]) for key in ("cost", "error"))
    assert len(grown.models_) == 4
    assert [a.counts().mult_adds for a in grown.architectures_] == grown.stage_costs_.tolist()
    assert grown.plan_.replaces.all()
    best = np.argmin(errors)
    assert grown.stage_costs_[-1] == min(costs[errors == errors[best]])
    assert grown.stage_costs_[0] == costs.min()
    assert (np.diff(grown.plan_.quality[1:]) > 0).all()  # on validation rows the next is better


def test_a_budget_is_answered_by_the_best_network_that_it_pays_for(grown, rings):
    X, _ = rings
    costs = grown.stage_costs_
    for stage, cost in enumerate(costs):
        alone = grown.plan_.blocks[stage].outputs(0, X.astype(np.float64))
        np.testing.assert_array_equal(
            grown.predict_proba(X, budget=cost).argmax(axis=1), alone.argmax(axis=1)
        )
        assert (grown.cost(X, budget=cost) == cost).all()
    below = grown.predict(X, budget=costs[0] - 1)
    assert len(set(below)) == 1  # no network is affordable: the most frequent class
    assert grown.answer(X, deadline=60.0).stage.min() == len(costs)


def test_a_truncated_model_spends_no_more(grown, rings):
    X, _ = rings
    small = grown.truncate(budget=grown.stage_costs_[0])
    assert small.n_stages_ == 1
    np.testing.assert_array_equal(small.predict(X), grown.predict(X, budget=grown.stage_costs_[0]))


def test_the_curve_falls_with_cost(grown, rings):
    X, y = rings
    curve = at.curve(grown, X, np.array(["in", "on", "out"])[y])
    assert curve.at(grown.stage_costs_[-1]) > curve.at(0.0)


def test_columns_are_bought_as_networks_grow(buying):
    """A network pays for the groups that it reads; a later stage reads all that those before it do."""
    model, X, _ = buying
    reads = [set(a.columns()) for a in model.architectures_]
    prices = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    assert [sum(prices[list(columns)]) for columns in reads] == model.stage_costs_.tolist()
    assert all(one <= other for one, other in pairwise(reads))
    assert len(reads[0]) < len(reads[-1])
    paid = model.cost(X, budget=model.stage_costs_[0])
    assert (paid == model.stage_costs_[0]).all()
    other = X.copy()
    other[:, [c for c in range(5) if c not in reads[0]]] = 99.0  # what is not bought is not looked at
    budget = model.stage_costs_[0]
    np.testing.assert_array_equal(model.predict(other, budget=budget), model.predict(X, budget=budget))
    assert not np.allclose(model.predict(other), model.predict(X))


@pytest.mark.parametrize("which", ["grown", "buying"])
def test_a_saved_model_is_the_same(which, tmp_path, request, rings):
    """Saved equals loaded, bit for bit; growth goes on in another process from a pickle."""
    model = request.getfixturevalue(which)
    model, X = (model, rings[0]) if which == "grown" else model[:2]
    model.save(tmp_path / "model.anytime")
    read = at.load(tmp_path / "model.anytime")
    assert read.architectures_ == model.architectures_
    assert read.models_ == model.models_
    for budget in (*model.stage_costs_, None):
        np.testing.assert_array_equal(read.predict(X, budget=budget), model.predict(X, budget=budget))
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_a_file_that_asks_for_another_network_is_refused(grown, tmp_path):
    """Every architecture in a file is compared with the weights before anything is built of it."""
    import json
    import zipfile

    grown.save(tmp_path / "model.anytime")
    with zipfile.ZipFile(tmp_path / "model.anytime") as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    name = next(name for name in parts if name.endswith(".json"))
    text = parts[name].decode()
    for old, new in (
        ('"width": 8', '"width": 9'),
        ('"width":8', '"width":9'),
        ('"relu"', '"tanh2"'),
        ('["normal", "normal"]', '["normal", "nowhere"]'),
        ('["normal","normal"]', '["normal","nowhere"]'),
    ):
        if old not in text:
            continue
        with zipfile.ZipFile(tmp_path / "other.anytime", "w") as archive:
            for part, content in parts.items():
                archive.writestr(part, text.replace(old, new).encode() if part == name else content)
        with pytest.raises(at.BadFileError):
            at.load(tmp_path / "other.anytime")
    assert json.loads(text)


def test_fitting_again_goes_on(rings):
    """With warm_start, and with partial_fit, the search goes on from its pool."""
    X, y = rings
    model = at.GrowingNetworkClassifier(n_growths=1, warm_start=True, **SMALL).fit(X, y)
    first = model.models_
    model.fit(X, y)
    assert len(model.models_) == 3
    assert model.models_[:2] == first
    model.partial_fit(X, y)
    assert len(model.models_) == 4
    assert min(m["error"] for m in model.models_) <= min(m["error"] for m in first)  # C-P2
    model.warm_start = False
    assert len(model.fit(X, y).models_) == 2


def test_going_on_gives_what_one_fit_gives(rings):
    """C-P3: interrupted and resumed equals uninterrupted, on a CPU with a fixed seed."""
    X, y = rings
    once = at.GrowingNetworkClassifier(n_growths=2, **SMALL).fit(X, y)
    parts = at.GrowingNetworkClassifier(n_growths=1, **SMALL).fit(X, y)
    parts.set_params(n_growths=1, warm_start=True).fit(X, y)
    assert parts.models_ == once.models_
    np.testing.assert_array_equal(parts.predict_proba(X), once.predict_proba(X))
    other = at.GrowingNetworkClassifier(n_growths=2, **{**SMALL, "random_state": 1}).fit(X, y)
    assert other.models_ != once.models_  # negative control


def test_partial_fit_takes_classes_that_are_not_there_yet(rings):
    X, y = rings
    few = y < 2
    model = at.GrowingNetworkClassifier(n_growths=0, **SMALL)
    model.partial_fit(X[few], y[few], classes=[0, 1, 2])
    assert model.predict_proba(X).shape == (400, 3)
    with pytest.raises(ValueError, match="not those of the first call"):
        model.partial_fit(X, y, classes=[0, 1, 2, 3])
    with pytest.raises(ValueError, match="which is not among"):
        model.partial_fit(X, y + 1)


def test_other_columns_are_refused_and_nothing_is_lost(rings):
    X, y = rings
    model = at.GrowingNetworkClassifier(n_growths=0, warm_start=True, **SMALL).fit(X, y)
    with pytest.raises(ValueError, match="X has 3 features, but GrowingNetworkClassifier is expecting 6"):
        model.fit(X[:, :3], y)
    assert model.predict(X).shape == (400,)


@pytest.mark.parametrize("n_before", [0, 2], ids=["in the seed", "later"])
def test_ctrl_c_leaves_a_usable_model(rings, n_before, monkeypatch):
    """C-P1: whenever it is pressed, there is a model, and fitting ends soon."""
    X, y = rings
    run, pressing = GrowthSearch.run, []

    def run_and_press(search, *arguments, report, **options):
        def told(search):
            report(search)
            if len(search.models) == n_before and not pressing:
                pressing.append(threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)))
                pressing[0].start()

        return run(search, *arguments, report=told, **options)

    monkeypatch.setattr(GrowthSearch, "run", run_and_press)
    model = at.GrowingNetworkClassifier(
        n_cells=1,
        width=8,
        n_growths=10_000,
        phases=for_tables(epochs=2 if n_before else 4000, batch_size=32),
        device="cpu",
        random_state=0,
    )
    began = time.monotonic()
    model.fit(X, y)
    assert time.monotonic() - began < 60
    assert model.predict(X).shape == (400,)
    assert (len(model.models_) == 0) == (n_before == 0)


@pytest.mark.realtime
def test_a_fit_ends_in_time(rings):
    X, y = rings
    began = time.monotonic()
    model = at.GrowingNetworkClassifier(
        n_cells=1, width=8, phases=for_tables(epochs=1000), time_budget=2.0, device="cpu", random_state=0
    ).fit(X, y)
    assert time.monotonic() - began < 6
    assert model.models_
    assert model.score(X, y) > 0.5


def test_a_folder_keeps_the_search(rings, tmp_path):
    """A search in a folder of the user's goes on in any later fit, and can be looked at with GrowthSearch."""
    X, y = rings
    arguments = {"n_growths": 1, "folder": tmp_path / "search", **SMALL}
    at.GrowingNetworkClassifier(**arguments).fit(X, y)
    model = at.GrowingNetworkClassifier(**arguments).fit(X, y)
    assert len(model.models_) == 3
    assert (tmp_path / "search" / "journal.sqlite").exists()


def test_images_grow(stripes):
    X, y = stripes
    model = at.GrowingNetworkClassifier(
        n_cells=1,
        width=4,
        resolutions=1,
        n_growths=1,
        phases=Phases(BRIEF, BRIEF, BRIEF),
        settings=GrowthSettings(share=0.5),
        device="cpu",
        random_state=0,
    ).fit(X, y)
    assert model.input_shape_ == (2, 9, 9)
    assert model.architectures_[0].space == "images"
    assert model.predict_one(X[0]) in y
    np.testing.assert_array_equal(model.predict(X.transpose(0, 2, 3, 1)), model.predict(X))  # channels last
    with pytest.raises(ValueError, match="reads images of 2 channels"):
        model.predict(X[:, :, :5])


def test_a_network_of_ones_own_is_where_growth_begins(rings):
    """C-P4."""
    X, y = rings
    module = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))
    network = with_exits(module, at=["1", "3"], input_shape=(6,))
    arguments = {key: value for key, value in SMALL.items() if key not in ("n_cells", "width")}
    model = at.GrowingNetworkClassifier(network=network, n_growths=1, **arguments).fit(X, y)
    assert model.architectures_[0].space == "module"
    assert model.stage_costs_[0] == 6 * 8 + 8 * 8 + 8 * 3
    with pytest.raises(TypeError, match="network of your own cannot be saved"):
        model.save("never.anytime")
    with pytest.raises(ValueError, match="3 outputs, but 2 are needed"):
        at.GrowingNetworkClassifier(network=network, **arguments).fit(X, y > 1)


def test_measured_prices_rise_from_stage_to_stage(grown):
    """Prices in milliseconds, as measured here."""
    profiled = grown.profile(n_repeats=2)
    assert profiled.costs_.unit == "ms"
    assert (np.diff(profiled.stage_costs_, prepend=0) >= 0).all()


def test_a_gallery_is_thinned_on_the_scale_of_costs():
    costs = [1.0, 2.0, 3.0, 4.0, 100.0]
    assert spread_out(costs, 5) == [0, 1, 2, 3, 4]
    assert spread_out(costs, 3) == [0, 3, 4]
    assert spread_out(costs, 1) == [4]
    assert increments([5.0, 7.0, 6.0]).tolist() == [5.0, 2.0, 0.0]
    assert nested([[0], [1], [0, 2], [0, 2, 3]]) == [0, 2, 3]


def test_a_server_answers_with_it(grown, rings, tmp_path):
    """Over HTTP, with a budget, as any other model."""
    pytest.importorskip("fastapi")
    from tests.serve.serving import application, post

    X = rings[0][:3]
    server = application(tmp_path, {"rings": grown})
    budget = float(grown.stage_costs_[0])
    reply = post(server, "/predict", {"model": "rings", "rows": X.tolist(), "budget": budget})
    assert reply.status_code == 200, reply.text
    assert reply.json()["predictions"] == grown.predict(X, budget=budget).tolist()
