"""Networks with exits as members of an ensemble, for images and beside models of tables."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs anytime[torch]; `make test-all` installs it")

from sklearn.ensemble import RandomForestClassifier  # noqa: E402

import anytime as at  # noqa: E402
from anytime.engine import Run  # noqa: E402
from anytime.networks import TrainingRecipe, with_exits  # noqa: E402
from anytime.networks.member import MemberBlock  # noqa: E402

torch.set_num_threads(1)
RECIPE = TrainingRecipe(epochs=6, batch_size=16, learning_rate=0.05)


@pytest.fixture(scope="module")
def new_pictures(pictures):
    """Harder images than those of training, so that outputs differ."""
    X, y = pictures
    noise = np.random.default_rng(3).normal(0, 60, X.shape)
    return (X + noise).clip(0, 255).astype(np.uint8), y


@pytest.fixture(scope="module")
def members(pictures, seeing):
    deeper = at.AnytimeNetworkClassifier(
        backbone="resann", backbone_arguments={"n": 2, "c": 8}, recipe=RECIPE, random_state=0, device="cpu"
    )
    return [seeing, deeper.fit(*pictures)]


@pytest.fixture(scope="module")
def ensemble(members, new_pictures):
    return at.ExponentialEnsemble(members).fit(*new_pictures)


def test_outputs_are_the_exits_of_the_members_at_the_sum_of_their_costs(ensemble, members, new_pictures):
    """8.1: output (k, i) arrives at the cost of the members before, up to their last adopted exit, plus cost_k(i)."""
    X, y = new_pictures
    exits = [list(member.stages(X))[1:] for member in members]
    spent, expected, costs = 0.0, [], []
    for member, answers, adopted in zip(members, exits, ensemble.adopted_, strict=True):
        used = np.flatnonzero(adopted)
        expected += [answers[i].probabilities for i in used]
        costs += [spent + member.stage_costs_[i] for i in used]
        spent += member.stage_costs_[used[-1]] if used.size else 0.0
    found = list(ensemble.stages(X))[1:]
    np.testing.assert_allclose([answer.probabilities for answer in found], expected, atol=1e-5)
    np.testing.assert_allclose(ensemble.stage_costs_, costs)
    errors = [np.mean(answer.prediction != y) for answer in found]
    assert (np.diff(errors) < 0).all()
    assert ensemble.costs_.unit == "mult-adds"


def test_no_block_of_a_network_runs_twice(ensemble, members, new_pictures):
    """A row that goes on exit by exit keeps its activations: each block sees each row once."""
    seen: dict[tuple[int, int], int] = {}
    blocks = [block.plan.blocks[0].network.blocks for block in ensemble.plan_.blocks]

    def counting(key):
        def count(module, inputs, output):
            seen[key] = seen.get(key, 0) + len(inputs[0])

        return count

    hooks = [
        b.register_forward_hook(counting((k, i))) for k, own in enumerate(blocks) for i, b in enumerate(own)
    ]
    rows = ensemble._read_in(new_pictures[0]).X[:8]
    run = Run(ensemble.plan_, rows, metered=True)
    for stage in range(1, ensemble.n_stages_ + 1):
        run.advance(stage)
    for hook in hooks:
        hook.remove()
    assert max(mask.sum() for mask in ensemble.adopted_) > 1  # else there is nothing to go on from
    assert set(seen.values()) == {8}


def test_what_an_output_takes_is_known_from_the_exits_on_the_way(members):
    """A deadline that is too near for the way to the next output is not spent on half of it."""
    plan = members[1].plan_
    taken = plan.blocks[0].measure()
    block = MemberBlock(plan, [2, 6])
    assert block.batch_rows == plan.blocks[0].batch_rows
    np.testing.assert_allclose([block.seconds(s, 1) for s in (0, 1)], [taken[:2].sum(), taken[2:6].sum()])


def test_images_in_any_order_one_by_one_and_after_a_file(ensemble, new_pictures, tmp_path):
    X, _ = new_pictures
    expected = ensemble.predict(X)
    np.testing.assert_array_equal(ensemble.predict(X.transpose(0, 2, 3, 1)), expected)
    assert ensemble.predict_one(X[0]) == expected[0]
    ensemble.save(tmp_path / "model.anytime")
    again = at.load(tmp_path / "model.anytime")
    np.testing.assert_array_equal(again.predict_proba(X), ensemble.predict_proba(X))
    np.testing.assert_array_equal(again.predict(X.transpose(0, 2, 3, 1)), expected)
    small = ensemble.truncate(float(ensemble.stage_costs_[0]))
    np.testing.assert_array_equal(small.predict(X), ensemble.predict(X, budget=ensemble.stage_costs_[0]))


def test_a_forest_of_pixels_before_a_network(pictures, members, new_pictures):
    X, y = pictures
    forest = RandomForestClassifier(3, max_depth=3, random_state=0).fit(X.reshape(len(X), -1), y)
    model = at.ExponentialEnsemble([(forest, 100.0), members[1]]).fit(*new_pictures)
    rows = new_pictures[0].reshape(len(X), -1)
    used = np.flatnonzero(model.adopted_[0])
    votes = np.mean([tree.predict_proba(rows) for tree in forest.estimators_[: used[0] + 1]], axis=0)
    np.testing.assert_allclose(list(model.stages(new_pictures[0]))[1].probabilities, votes, atol=1e-12)


def test_members_that_are_not_fitted_are_fitted_on_images(pictures):
    X, y = pictures
    fresh = [
        at.AnytimeNetworkClassifier(
            backbone="resann",
            backbone_arguments={"n": 1, "c": c},
            recipe=TrainingRecipe(epochs=1, batch_size=32),
            random_state=0,
            device="cpu",
        )
        for c in (2, 4)
    ]
    model = at.ExponentialEnsemble(fresh, random_state=0).fit(X, y)
    assert model.predict(X).shape == y.shape
    assert not hasattr(fresh[0], "plan_")


def test_networks_that_read_other_images_do_not_go_together(pictures, seeing):
    X, y = pictures
    wide = at.AnytimeNetworkClassifier(
        backbone="resann",
        backbone_arguments={"n": 1, "c": 2},
        recipe=TrainingRecipe(epochs=1, batch_size=32),
        random_state=0,
        device="cpu",
    ).fit(X.reshape(len(X), 3, 4, 16), y)
    with pytest.raises(ValueError, match="read images of different shapes"):
        at.ExponentialEnsemble([seeing, wide]).fit(X, y)


def test_a_network_of_ones_own_is_no_part_of_a_file(pictures, tmp_path):
    X, y = pictures
    own = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(4, 3),
    )
    cut = with_exits(own, at=["1"], input_shape=(3, 8, 8))
    member = at.AnytimeNetworkClassifier(
        backbone=cut, recipe=TrainingRecipe(epochs=1, batch_size=32), random_state=0, device="cpu"
    ).fit(X, y)
    model = at.ExponentialEnsemble([member]).fit(X, y)
    with pytest.raises(TypeError, match="a network of one's own, cannot be saved"):
        model.save(tmp_path / "model.anytime")


def test_a_network_that_buys_columns_after_a_linear_model(buying):
    network, X, y = buying
    X, y = np.nan_to_num(X), y[:, :1].ravel()
    costs = at.FeatureCosts([1.0, 2.0, 3.0, 4.0, 5.0])
    network = at.AnytimeNetworkRegressor(
        backbone_arguments={"width": 8},
        costs=costs,
        max_stages=3,
        recipe=RECIPE,
        random_state=0,
        device="cpu",
    ).fit(X, y)
    linear = at.GroupPursuitRegressor(costs=costs, random_state=0).fit(X, y)
    model = at.ExponentialEnsemble([linear, network]).fit(X, y)
    for member, adopted, errors in zip(
        [linear, network], model.adopted_, model.validation_errors_, strict=True
    ):
        expected = [np.mean((answer.prediction - y) ** 2) for answer in member.stages(X)][1:]
        np.testing.assert_allclose(errors, expected)
        assert adopted.size == member.n_stages_
    assert model.stage_costs_[-1] <= costs.total
