"""``make_anytime`` of torch modules: trained in a loop of one's own, then a fitted model."""

from __future__ import annotations

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs anytime[torch]; `make test-all` installs it")

from scipy.special import log_softmax  # noqa: E402
from torch import nn  # noqa: E402

import anytime as at  # noqa: E402
from anytime.networks import TrainingRecipe, build, exit_losses, mult_adds, with_exits  # noqa: E402

torch.set_num_threads(1)
NAMES = np.array(["zebra", "ant", "cat"])  # in the order of the outputs, which is not that of the alphabet


@pytest.fixture(scope="module")
def images():
    generator = np.random.default_rng(0)
    y = generator.integers(0, 3, 240)
    X = generator.normal(0, 1, (240, 3, 8, 8)).astype(np.float32)
    X[np.arange(240), y] += 0.3
    return X, y


@pytest.fixture(scope="module")
def network(images):
    """Trained in a loop that knows nothing of estimators."""
    X, y = (torch.from_numpy(array[:160]) for array in images)
    torch.manual_seed(0)
    layers = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3, padding=1),
        nn.ReLU(),
        _Mean(),
        nn.Linear(8, 3),
    )
    network = with_exits(layers, at=["1", "3"], input_shape=(3, 8, 8)).train()
    optimizer = torch.optim.AdamW(network.parameters(), lr=2e-2)
    for _ in range(30):
        optimizer.zero_grad()
        exit_losses(network(X), y).sum().backward()
        optimizer.step()
    return network


class _Mean(nn.Module):
    def forward(self, x):
        return x.mean(dim=(2, 3))


@pytest.fixture(scope="module")
def made(network, images):
    X, y = images
    return at.make_anytime(network, X_val=X[160:], y_val=NAMES[y[160:]], classes=NAMES)


def test_a_trained_network_becomes_a_fitted_model(network, images, made):
    X, y = images
    assert isinstance(made, at.AnytimeNetworkClassifier)
    assert made.n_stages_ == 3
    assert made.stage_costs_.tolist() == mult_adds(network, (3, 8, 8)).exits()
    assert made.score(X, NAMES[y]) > 0.8
    with torch.no_grad():
        said = network.eval()(torch.from_numpy(X)).numpy()
    for stage, cost in enumerate(made.stage_costs_):
        assert (made.predict(X, budget=cost) == NAMES[said[stage].argmax(axis=1)]).all()
    temperatures = made.plan_.blocks[0].temperatures
    np.testing.assert_allclose(
        made.predict_proba(X), np.exp(log_softmax(said[-1] / temperatures[-1], axis=1)), rtol=1e-5
    )


def test_temperatures_are_the_best_on_validation_rows(network, images, made):
    """Neither warmer nor colder probabilities make the validation labels more likely."""
    X, y = images

    def loss(scale):
        probabilities = log_softmax(np.log(made.predict_proba(X[160:])) * scale, axis=1)
        return -probabilities[np.arange(80), y[160:]].mean()

    assert loss(1.0) < min(loss(0.9), loss(1.1))
    first = y[160:] == 0
    weighted = at.make_anytime(
        network, X_val=X[160:], y_val=NAMES[y[160:]], classes=NAMES, sample_weight=np.where(first, 5.0, 1.0)
    )
    assert (weighted.plan_.blocks[0].temperatures != made.plan_.blocks[0].temperatures).all()


def test_the_module_is_left_as_it_was(network, images, made):
    network.train()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    again = at.make_anytime(network, X_val=images[0][160:], y_val=images[1][160:], evaluation_cost="ms")
    assert again.costs_.unit == "ms"
    again.predict(images[0])
    assert network.training
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())


def test_a_module_without_exits_is_one_stage(images):
    torch.manual_seed(0)
    module = nn.Sequential(nn.Flatten(), nn.Linear(192, 3))
    made = at.make_anytime(module, input_shape=(3, 8, 8))
    assert made.n_stages_ == 1
    assert made.classes_.tolist() == [0, 1, 2]
    assert made.stage_costs_.tolist() == [192 * 3]
    with torch.no_grad():
        assert (made.predict(images[0]) == module(torch.from_numpy(images[0])).argmax(dim=1).numpy()).all()


def test_a_network_of_numbers_becomes_a_regressor():
    X, y, _ = at.datasets.load("diabetes")
    X, y = np.asarray(X), np.asarray(y) + 0.5
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(10, 4), nn.ReLU(), nn.Linear(4, 1)).double()
    made = at.make_anytime(with_exits(module, ["1"], input_shape=(10,)), X_val=X, y_val=y)
    assert isinstance(made, at.AnytimeNetworkRegressor)
    with torch.no_grad():
        np.testing.assert_allclose(made.predict(X), module(torch.from_numpy(X))[:, 0].numpy(), rtol=1e-6)
    np.testing.assert_allclose(made.predict(X, budget=0), y.mean())


def test_fit_goes_on_from_the_weights(network, images):
    X, y = images
    made = at.make_anytime(network, X_val=X[160:], y_val=y[160:])
    before = made.predict_proba(X)
    made.set_params(
        recipe=TrainingRecipe(epochs=1, batch_size=32, learning_rate=1e-3), validation_fraction=None
    )
    assert made.fit(X[:160], y[:160]).score(X, y) > 0.8
    assert not np.array_equal(made.predict_proba(X), before)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "give X_val and y_val, or the input_shape"),
        ({"X_val": np.zeros((4, 3, 8, 8))}, "give X_val and y_val together"),
        ({"input_shape": (3, 8, 8), "classes": ["a", "b"]}, "3 outputs, but classes has 2 classes"),
        ({"input_shape": (3, 8, 8), "classes": ["a", "b", "a"]}, "names a class twice"),
        ({"input_shape": (192,)}, "the module does not read rows of shape"),
        ({"input_shape": (3, 8)}, "input_shape is .columns,. or .channels, height, width."),
        ({"X_val": np.zeros((4, 3, 8, 8)), "y_val": ["a", "b", "c", "d"]}, "y_val has 4 classes"),
        (
            {"X_val": np.zeros((4, 3, 8, 8)), "y_val": [0.5, 1.5, 0.0, 2.0]},
            "3 numbers per row, but y_val has 1",
        ),
        ({"X_val": np.zeros((4, 3, 8, 8)), "y_val": [0, 1, 2]}, "inconsistent numbers of samples"),
    ],
)
def test_modules_that_do_not_fit_their_rows_are_refused(network, arguments, message):
    with pytest.raises(ValueError, match=message):
        at.make_anytime(network, **arguments)


def test_what_is_for_modules_is_refused_for_trees():
    from sklearn.tree import DecisionTreeClassifier

    X, y, _ = at.datasets.load("wine")
    with pytest.raises(TypeError, match="classes is for torch modules, not for DecisionTreeClassifier"):
        at.make_anytime(DecisionTreeClassifier().fit(X, y), classes=[0, 1, 2])


def test_networks_of_the_registry_are_taken_too():
    torch.manual_seed(0)
    made = at.make_anytime(
        build("resann", n=1, c=2, input_shape=(3, 8, 8), n_outputs=4), input_shape=(3, 8, 8)
    )
    assert made.predict(np.zeros((2, 3, 8, 8), dtype=np.float32)).shape == (2,)


def test_rows_leave_early_and_hard_ones_go_deeper(images, made):
    X = images[0]
    budget = float(made.stage_costs_[0] + made.stage_costs_[-1]) / 2
    answer = made.answer(X[160:], mean_budget=budget)
    assert 0.95 * budget < answer.cost.mean() <= budget < made.stage_costs_[-1]
    assert len(np.unique(answer.stage)) > 1
    bare = at.make_anytime(
        made.backbone, input_shape=(3, 8, 8), classes=NAMES
    )  # no rows to choose margins on
    assert bare.plan_.stop_table is None
    assert len(np.unique(bare.answer(X, mean_budget=budget).stage)) == 1
    together = made.predict_proba(X[160:], budget=budget).max(axis=1)  # all rows go equally far
    assert answer.probabilities.max(axis=1).mean() > together.mean()
    np.testing.assert_array_equal(
        [made.predict_one(x, mean_budget=budget) for x in X[:20]],
        made.truncate(mean_budget=budget).predict(X[:20]),
    )


def test_milliseconds_take_the_place_of_mult_adds_in_mean_budgets(images, made):
    timed = made.profile(n_repeats=1)
    first, *_, last = timed.stage_costs_
    for share in (0.4, 0.7):
        mean = first + share * (last - first)
        answer = timed.answer(images[0][160:], mean_budget=mean)
        assert answer.cost.mean() <= mean
    assert len(np.unique(answer.stage)) > 1


def test_a_network_is_calibrated_as_any_other_model_is(images, made):
    """Later rows give it the stops and sets that ``fit`` does not, and a table of their own; answers stay as they were."""
    X, y = images[0], NAMES[images[1]]
    with pytest.raises(ValueError, match=r"call calibrate\(X_val, y_val\) first$"):
        made.predict_set(X)
    other = copy.copy(made)
    assert other.calibrate(X[:160], y[:160]) is other
    assert made.plan_.calibration is None
    for cost in made.stage_costs_:
        assert (other.predict(X, budget=cost) == made.predict(X, budget=cost)).all()
    assert np.abs(other.predict_proba(X) - made.predict_proba(X)).max() > 1e-3
    assert other.plan_.stop_table.margins.tolist() != made.plan_.stop_table.margins.tolist()
    inside = other.predict_set(X[160:], 0.9)
    assert inside[np.arange(80), images[1][160:]].mean() > 0.8
    early = at.BatchSession(other, X[160:], confidence=0.6).advance().stage
    assert (early < 3).any()


def test_labels_are_those_of_the_outputs_whatever_their_order(network, images):
    X, y = images
    names = np.array(["c", "a", "b"])
    turned = at.make_anytime(network, X_val=X[160:], y_val=names[y[160:]], classes=names)
    turned.calibrate(X, names[y])
    inside = turned.predict_set(X, 0.9)
    assert inside[np.arange(len(y)), y].mean() > 0.85


def test_calibrating_says_what_is_wrong(images, made):
    X, y = images[0][:40], NAMES[images[1][:40]]
    with pytest.raises(ValueError, match="'dog' is not one of the classes"):
        made.calibrate(X, np.array(["dog"] * 40))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        made.calibrate(X, y[:39])
