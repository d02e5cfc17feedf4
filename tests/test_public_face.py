"""The code that the design promises, line by line, as far as it exists."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

import anytime as at
from tests.optional import REASON


@pytest.fixture(scope="module")
def cells():
    X, y, costs = at.datasets.load("breast_cancer")
    X_train, X_test, y_train, y_test = train_test_split(np.asarray(X), y, train_size=0.3, random_state=0)
    model = at.SpeedBoostClassifier(costs=costs, n_estimators=20, max_stages=5, time_budget=60)
    return model.fit(X_train, y_train), X_train, X_test, y_train, y_test, costs


@pytest.fixture(scope="module")
def forest(cells):
    _, X_train, _, y_train, _, _ = cells
    return RandomForestClassifier(20, random_state=0).fit(X_train, y_train)


def test_predictions_under_a_budget_and_a_deadline(cells):
    model, _, X_test, _, y_test, _ = cells
    assert model.predict(X_test, budget=40).shape == y_test.shape
    assert model.predict(X_test, mean_budget=40).shape == y_test.shape
    assert model.predict(X_test, deadline=0.002).shape == y_test.shape
    assert model.predict_proba(X_test, budget=40).shape == (len(X_test), 2)
    assert (model.cost(X_test, budget=40) <= 40).all()
    assert model.cost(X_test, mean_budget=40).mean() <= 40
    for answer in model.stages(X_test):
        assert len(answer.prediction) == len(answer.cost) == len(X_test)
        assert answer.stage >= 0
    assert model.predict_one(X_test[0], budget=40) == model.predict(X_test[:1], budget=40)[0]


def test_what_to_buy_next(cells):
    model, _, X_test, _, _, costs = cells
    advice = model.next(X_test[0], bought=["outline", "texture"])  # heart's are "age" and "sex"
    assert advice.group in costs.names
    assert advice.group not in ("outline", "texture")
    assert advice.price > 0
    assert np.isfinite(advice.gain)
    assert advice.group in str(advice)


def test_truncate_save_and_load(cells, tmp_path, monkeypatch):
    model, _, X_test, _, _, _ = cells
    monkeypatch.chdir(tmp_path)
    small = model.truncate(budget=40)
    assert (small.cost(X_test) <= 40).all()
    model.save("cells.anytime")
    loaded = at.load("cells.anytime")
    assert (loaded.predict_proba(X_test) == model.predict_proba(X_test)).all()


def test_curves_and_comparison(cells, forest, tmp_path, monkeypatch):
    model, _, X_test, _, y_test, costs = cells
    monkeypatch.chdir(tmp_path)
    curve = at.curve(model, X_test, y_test)
    assert curve.at(40) == model.score(X_test, y_test, budget=40)
    assert curve.at(curve.cost_to_reach(0.85)) >= 0.85
    assert 0 < curve.timeliness(alpha=0.99) <= 1
    curve.plot()
    other = at.make_anytime(forest, costs=costs)
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
    f, g, h = group("basic", [0]), group("blood", [1, 2]), group("scan", [3])
    features = at.Features({"basic": f, "blood": g, "scan": h})
    costs = features.profile(raw_samples[:10])
    assert set(costs.names) == {"basic", "blood", "scan"}
    model = at.AnytimeClassifier(costs=costs, random_state=0).fit(features.matrix(raw_samples), y)
    session = at.Session(model, features)
    calls.clear()
    answer = session.predict(raw_samples[0], deadline=5.0)
    assert sorted(calls) == sorted(set(calls)), "a group was computed twice"
    assert answer.groups == calls
    assert answer.cost <= costs.total
    assert answer.elapsed > 0
    assert answer.stage == model.n_stages_
    assert answer.prediction == model.predict(features.matrix(raw_samples[:1]))[0]
    assert session.predict(raw_samples[1], budget=costs.total, confidence=0.6).confidence >= 0.5


def test_a_model_that_one_has_made_interruptible(cells, forest):
    _, _, X_test, _, y_test, costs = cells
    made = at.make_anytime(forest, costs=costs, X_val=X_test, y_val=y_test)
    assert (made.predict(X_test) == forest.predict(X_test)).all()


def test_training_is_anytime_too(cells):
    """The fixture's model had sixty seconds, more than it needs; what shorter ones do is tested where the clock is the point."""
    model, _, X_test, _, y_test, _ = cells
    assert model.time_budget == 60
    assert model.score(X_test, y_test) > 0.8


def test_costs_as_a_graph():
    assert at.FeatureCosts([1.0, 2.0]).total == 3.0  # one price per column
    costs = at.FeatureCosts(
        groups={
            "draw": [],
            "chol": ["chol"],
            "fbs": ["fbs"],
            "ecg": ["st", "slope"],
        },  # a step may have no column
        prices={"draw": 2.10, "chol": 5.17, "fbs": 3.10, "ecg": 15.50},
        requires={"chol": ["draw"], "fbs": ["draw"]},
        unit="CAD",
    )
    assert costs.total == 25.87


def test_the_families_are_named_as_promised(cells):
    """Constructors store, so that this is quick; what they learn is tested in their own rooms."""
    costs, svm = cells[-1], SVC()
    for family in (
        at.AutoClassifier(costs=costs, time_budget=60),
        at.AcquisitionClassifier(costs=costs),
        *(
            at.GroupPursuitRegressor(costs=costs, selection=selection, schedule=schedule)
            for selection in ("omp", "forward", "single")
            for schedule in ("greedy", "doubling")
        ),
        at.SpeedBoostRegressor(costs=costs),
        at.SpeedBoostRanker(costs=costs),
        at.AdditiveSpeedBoostClassifier(method="proj"),
        at.GradientBoostingClassifier(
            n_estimators=100, max_leaf_nodes=31, learning_rate=0.1, cost_penalty=0.0
        ),
        at.BudgetForestClassifier(costs=costs, mean_budget=20),
        at.AdaptiveClassifier(svm, costs=costs, mean_budget=20),
        at.LadderClassifier(svm, costs=costs, mean_budget=20),
        at.StreamingBoostRegressor(n_estimators=100),
    ):
        family._validate_params()
    stream = at.StreamingBoostRegressor(n_estimators=100)
    X, y, _ = at.datasets.load("diabetes")
    assert stream.partial_fit(np.asarray(X)[:50], y[:50]) is stream


def test_an_ensemble_of_models_of_growing_cost(cells, forest):
    _, X_train, X_test, y_train, y_test, costs = cells
    small, medium = (
        at.GradientBoostingClassifier(n_estimators=n, costs=costs, random_state=0).fit(X_train, y_train)
        for n in (2, 10)
    )
    model = at.ExponentialEnsemble([small, medium, forest], costs=costs).fit(X_test[::2], y_test[::2])
    assert model.cost(X_test, budget=40).max() <= 40
    assert model.score(X_test[1::2], y_test[1::2]) > 0.85


@pytest.fixture(scope="module")
def pictures():
    """Two halves of other colours, with their labels."""
    label = np.repeat([[0, 1]], 24, axis=0).repeat(16, axis=1)
    picture = np.where(label[:, :, None] == 1, [200, 40, 40], [30, 30, 190]).astype(np.uint8)
    return [picture, picture[:, ::-1]] * 2, [label, label[:, ::-1]] * 2


@pytest.fixture(scope="module")
def structured(pictures):
    """A tiny model of each kind, with its rows and labels."""
    words = [["the", "dog", "barks"], ["a", "cat", "sleeps"], ["dogs", "sleep"], ["the", "cat", "barks"]]
    sentences = [[{"word": w, "end": w[-1]} for w in sentence] for sentence in words]
    tags = [["D", "N", "V"], ["D", "N", "V"], ["N", "V"], ["D", "N", "V"]]
    rng = np.random.default_rng(0)
    ring = [(i, (i + 1) % 20) for i in range(20)]
    nodes = [np.repeat(rng.integers(0, 2, 4), 5) for _ in range(12)]
    graphs = [(labels[:, None] + 0.3 * rng.normal(size=(20, 1)), ring) for labels in nodes]
    settings = {"max_stages": 3, "folds": 2, "random_state": 0}
    return {
        "SequenceLabeler": (at.SequenceLabeler(**settings).fit(sentences, tags), sentences, tags),
        "SceneParser": (
            at.SceneParser(n_centres=4, min_samples_leaf=1, **settings).fit(*pictures),
            *pictures,
        ),
        "GraphLabeler": (at.GraphLabeler(**settings).fit(graphs, nodes), graphs, nodes),
    }


@pytest.mark.parametrize("name", ["SequenceLabeler", "SceneParser", "GraphLabeler"])
def test_labels_of_the_elements_of_structures(structured, name):
    model, X, y = structured[name]
    assert model.score(X, y) > 0.8
    assert [len(answer.prediction) for answer in model.stages(X)] == [len(X)] * (model.n_stages_ + 1)
    budget = model.stage_costs_[0]
    assert model.cost(X, budget=budget).max() <= budget


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("SequenceLabeler", r"labels whole sentences: use model\.stages\(X\)"),
        ("SceneParser", r"labels whole pictures: use at\.structured\.SceneSession\(model\)"),
        ("GraphLabeler", r"labels whole graphs: use model\.stages\(X\)"),
    ],
)
def test_sessions_of_rows_say_what_takes_structures(structured, name, instead):
    model, X, _ = structured[name]
    with pytest.raises(TypeError, match=instead):
        at.Session(model)
    with pytest.raises(TypeError, match=instead):
        at.BatchSession(model, X)


def test_networks_with_exits():
    torch = pytest.importorskip("torch", reason=REASON)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(16, 3, 8, 8)).astype(np.float32), np.arange(16) % 2
    X[y == 1] += 1.0
    model = at.AnytimeNetworkClassifier(
        backbone="resann",
        loss_weights="adaloss",
        backbone_arguments={"n": 1, "c": 2},
        recipe=at.networks.TrainingRecipe(epochs=2, batch_size=8),
        random_state=0,
        device="cpu",
    ).fit(X, y)
    assert model.predict_proba(X, budget=model.stage_costs_[0]).shape == (16, 2)
    layers = {name: torch.nn.Linear(4, 4) for name in ("layer1", "layer2", "layer3")}
    torch_module = torch.nn.Sequential()
    for name, layer in (*layers.items(), ("end", torch.nn.Linear(4, 3))):
        torch_module.add_module(name, layer)
    network = at.networks.with_exits(torch_module, at=["layer2", "layer3"], input_shape=(4,))
    assert network(torch.zeros(5, 4)).shape == (3, 5, 3)


def test_networks_that_grow_for_a_while():
    pytest.importorskip("torch", reason=REASON)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(64, 3)), np.arange(64) % 2
    X[y == 1] += 1.0
    model = at.GrowingNetworkClassifier(time_budget=0.5, random_state=0, device="cpu").fit(X, y)
    assert model.predict_proba(X, budget=model.stage_costs_[0]).shape == (64, 2)


def test_a_pruned_forest(cells, forest):
    _, _, X_test, _, y_test, costs = cells
    X_val, y_val = X_test[::2], y_test[::2]
    pruned = at.prune_forest(forest, X_val, y_val, costs=costs, mean_budget=40)
    assert 20 < pruned.cost(X_val).mean() <= 40


def test_fitted_attributes(cells, forest):
    model, *_, costs = cells
    for fitted in (model, at.make_anytime(forest, costs=costs)):
        assert len(fitted.plan_) == len(fitted.stage_costs_)
        assert set(fitted.order_) <= set(fitted.costs_.names)


def test_a_budget_is_a_cap_by_either_meter(cells, forest):
    """Realised where stages add up tree by tree, model where they replace each other."""
    model, _, X_test, _, _, costs = cells
    assert model.meter == at.GroupPursuitClassifier().meter == "model"
    grown = (at.BudgetForestClassifier(), at.PrunedForestClassifier(), at.AnytimeRegressor())
    made = at.make_anytime(forest, costs=costs)
    assert {m.meter for m in (*grown, at.AdaptiveClassifier(), at.LadderClassifier(), made)} == {"realised"}
    for meter in ("model", "realised"):
        for fitted in (model, made):
            assert fitted.set_params(meter=meter).cost(X_test, budget=25).max() <= 25
    model.set_params(meter="model")
