"""Networks as estimators: exits are stages of the one plan, for tables and for images."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs anytime[torch]; `make test-all` installs it")

import anytime as at  # noqa: E402
from anytime.engine import Run  # noqa: E402
from anytime.networks import TrainingRecipe, mult_adds, with_exits  # noqa: E402

torch.set_num_threads(1)
SHORT = TrainingRecipe(epochs=8, batch_size=64, optimizer="adamw", learning_rate=5e-3)
PICTURES = TrainingRecipe(epochs=2, batch_size=32, augment="crop_flip")


@pytest.fixture(scope="module")
def table():
    X, y, costs = at.datasets.load("breast_cancer")
    return X, y, costs


@pytest.fixture(scope="module")
def bought(table):
    X, y, costs = table
    return at.AnytimeNetworkClassifier(costs=costs, max_stages=4, recipe=SHORT, random_state=0).fit(X, y)


@pytest.fixture(scope="module")
def images():
    generator = np.random.default_rng(0)
    y = generator.integers(0, 3, 96)
    X = generator.normal(100, 20, (96, 3, 16, 16))
    X[np.arange(96), y] += 60  # the brightest channel tells the class
    return X.clip(0, 255).astype(np.uint8), y


@pytest.fixture(scope="module")
def pictured(images):
    model = at.AnytimeNetworkClassifier(
        backbone="resann", backbone_arguments={"n": 1, "c": 4}, recipe=PICTURES, random_state=0, device="cpu"
    )
    return model.fit(*images)


def test_a_network_buys_features_stage_by_stage(table, bought):
    X, y, costs = table
    assert bought.n_stages_ == 4
    assert (np.diff(bought.stage_costs_) > 0).all()
    assert bought.stage_costs_[-1] == pytest.approx(costs.total)
    assert (bought.cost(X, budget=bought.stage_costs_[1]) <= bought.stage_costs_[1]).all()
    assert bought.score(X, y) > 0.9
    spoiled = X.copy()
    late = bought.plan_.blocks[0].columns(3)
    early = bought.plan_.blocks[0].columns(1)
    spoiled[:, np.setdiff1d(late, early)] = 1e3  # what a budget does not buy is not read
    np.testing.assert_array_equal(
        bought.predict_proba(X, budget=bought.stage_costs_[1]),
        bought.predict_proba(spoiled, budget=bought.stage_costs_[1]),
    )


def test_the_order_is_given_or_taken_from_a_model(table):
    X, y, _ = table
    costs = at.FeatureCosts(np.arange(1.0, 31.0))
    listed = list(reversed(costs.names))
    recipe = TrainingRecipe(epochs=1, batch_size=128, optimizer="adamw", learning_rate=1e-3)
    model = at.AnytimeNetworkClassifier(costs=costs, order=listed, max_stages=30, recipe=recipe).fit(X, y)
    assert model.order_ == listed
    pursuit = at.GroupPursuitClassifier(costs=costs, l2_regularization=1e-3, random_state=0).fit(X, y)
    taken = at.AnytimeNetworkClassifier(costs=costs, order=pursuit, max_stages=30, recipe=recipe).fit(X, y)
    assert taken.order_[: len(pursuit.order_)] == pursuit.order_
    with pytest.raises(ValueError, match="order names the group 'x', which costs does not have"):
        at.AnytimeNetworkClassifier(costs=costs, order=["x"], recipe=recipe).fit(X, y)


@pytest.mark.parametrize("which", ["bought", "pictured"])
def test_stopping_and_going_on_gives_the_same_bits(which, request, table, images):
    model = request.getfixturevalue(which)
    rows = (table[0] if which == "bought" else images[0].reshape(96, -1))[:20]
    whole, parts = Run(model.plan_, rows), Run(model.plan_, rows)
    whole.advance()
    for stage in range(1, model.n_stages_ + 1):
        parts.advance(stage)
    np.testing.assert_array_equal(whole.scores(), parts.scores())
    apart = Run(model.plan_, rows)  # rows that part on the way, and meet again
    apart.advance(np.arange(20) % (model.n_stages_ + 1))
    apart.advance()
    np.testing.assert_allclose(apart.scores(), whole.scores(), rtol=1e-4, atol=1e-5)


def test_every_block_runs_once_whatever_the_number_of_stops(pictured, images):
    calls = []
    blocks = pictured.plan_.blocks[0].network.blocks
    hooks = [b.register_forward_hook(lambda *_, i=i: calls.append(i)) for i, b in enumerate(blocks)]
    for _ in pictured.stages(images[0][:5]):
        pass
    for hook in hooks:
        hook.remove()
    assert calls == list(range(len(blocks)))


def test_images_cost_their_mult_adds(pictured):
    counted = mult_adds(pictured.plan_.blocks[0].network, (3, 16, 16)).exits()
    np.testing.assert_array_equal(pictured.stage_costs_, counted)
    assert pictured.costs_.unit == "mult-adds"


def test_images_are_read_in_any_order_of_channels(pictured, images):
    X = images[0][:7]
    expected = pictured.predict_proba(X)
    np.testing.assert_array_equal(pictured.predict_proba(X.transpose(0, 2, 3, 1)), expected)
    np.testing.assert_array_equal(pictured.predict_proba(torch.from_numpy(X)), expected)
    np.testing.assert_array_equal(pictured.predict_proba(X.reshape(7, -1)), expected)
    assert pictured.predict_one(X[0]) == pictured.predict(X[:1])[0]


def test_data_sets_of_torch_are_taken(images):
    X, y = (torch.from_numpy(part) for part in images)
    model = at.AnytimeNetworkClassifier(
        backbone="resann", backbone_arguments={"n": 1, "c": 2}, recipe=PICTURES, random_state=0, device="cpu"
    )
    by_rows = model.fit(images[0], images[1]).predict_proba(images[0][:4])
    by_pairs = model.fit(torch.utils.data.TensorDataset(X, y)).predict_proba(images[0][:4])
    np.testing.assert_array_equal(by_rows, by_pairs)


def test_any_module_with_exits_is_a_backbone(images):
    torch.manual_seed(0)
    module = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3),
        torch.nn.ReLU(),
        torch.nn.Conv2d(4, 4, 3),
        torch.nn.Flatten(),
        torch.nn.LazyLinear(3),
    )
    module(torch.zeros(1, 3, 16, 16))
    before = module[0].weight.clone()
    network = with_exits(module, at=["1"], input_shape=(3, 16, 16))
    model = at.AnytimeNetworkClassifier(backbone=network, recipe=PICTURES, random_state=0).fit(*images)
    assert model.n_stages_ == 2
    assert torch.equal(module[0].weight, before)  # fit trains a copy


def test_regression_of_several_targets():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(300, 3))
    y = np.column_stack([100 + 5 * X[:, 0], X[:, 1] - X[:, 2]])
    model = at.AnytimeNetworkRegressor(
        recipe=TrainingRecipe(epochs=60, batch_size=32, optimizer="adamw", learning_rate=5e-3), random_state=0
    ).fit(X, y)
    assert model.predict(X).shape == (300, 2)
    assert model.score(X, y) > 0.9
    np.testing.assert_allclose(model.predict(X, budget=0)[0], y.mean(axis=0), rtol=0.01, atol=0.1)


def test_the_same_seed_gives_the_same_network(images):
    def train(seed):
        return at.AnytimeNetworkClassifier(
            backbone="resann",
            backbone_arguments={"n": 1, "c": 2},
            recipe=PICTURES,
            random_state=seed,
            device="cpu",
        ).fit(*images)

    first, again, other = (train(seed).decision_function(images[0][:5]) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_temperatures_are_calibrated_on_held_out_rows(images):
    X, y = images
    noisy = np.random.default_rng(1).permutation(y)  # nothing to learn: sure answers would be wrong
    model = at.AnytimeNetworkClassifier(
        backbone="resann",
        backbone_arguments={"n": 1, "c": 4},
        recipe=TrainingRecipe(epochs=12, batch_size=32, learning_rate=0.05),
        random_state=0,
    ).fit(X[:60], noisy[:60], X_val=X[60:], y_val=noisy[60:])
    block = model.plan_.blocks[0]
    from sklearn.metrics import log_loss

    calibrated = log_loss(noisy[60:], model.predict_proba(X[60:]))
    block.temperatures = np.ones_like(block.temperatures)
    assert calibrated < log_loss(noisy[60:], model.predict_proba(X[60:]))


def test_continuing_a_fit_lowers_the_loss(table):
    X, y, _ = table
    model = at.AnytimeNetworkClassifier(
        max_stages=2,
        recipe=TrainingRecipe(epochs=2, batch_size=64, optimizer="adamw", learning_rate=1e-3),
        random_state=0,
    ).fit(X, y)
    first = model.history_[-1]["losses"][-1]
    model.set_params(warm_start=True).fit(X, y)
    assert model.history_[0]["losses"][-1] < first


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, y: (X[:, :2], y), "reads images of 3 channels, 16 x 16; X has shape"),
        (lambda X, y: (X / 1.0 * np.nan, y), "NaN or infinity"),
        (lambda X, y: (X.astype(str), y), "images are numbers"),
        (lambda X, y: (X[0], y), "expected several images"),
    ],
)
def test_wrong_images_are_named(pictured, images, change, message):
    with pytest.raises(ValueError, match=message):
        pictured.predict(change(*images)[0])


def test_whole_numbers_without_scaling_are_refused(images):
    X, y = images
    model = at.AnytimeNetworkClassifier(
        backbone="resann", backbone_arguments={"n": 1, "c": 2}, recipe=PICTURES, random_state=0
    ).fit(X / 255, y)
    model.predict(X[:2] / 255)
    with pytest.raises(ValueError, match=r"trained on numbers up to 0.93.*X / 255"):
        model.predict(X[:2])


def test_wrong_training_rows_are_named(images, table):
    X, y = images
    network = at.AnytimeNetworkClassifier(backbone="resann", recipe=PICTURES)
    with pytest.raises(ValueError, match=r"'resann' reads images.*use backbone='mlp'"):
        network.fit(table[0], table[1])
    with pytest.raises(ValueError, match=r"'mlp' reads tables.*use backbone='resann'"):
        at.AnytimeNetworkClassifier().fit(X, y)
    with pytest.raises(ValueError, match="96 images but 95 labels"):
        network.fit(X, y[:-1])
    with pytest.raises(ValueError, match="y_val holds the label 9"):
        network.fit(X, y, X_val=X, y_val=np.full(96, 9))
    with pytest.raises(ValueError, match=r"requires y to be passed, .* only a torch Dataset"):
        network.fit(X)
