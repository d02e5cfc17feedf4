"""A learned policy: trees say by how much each group lowers the loss. Every way of asking agrees, and no bound is exceeded."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import anytime as at
from anytime.acquisition import AcquisitionClassifier, AcquisitionRegressor
from anytime.acquisition.masked_networks import Masks, Targets
from anytime.acquisition.neighbour_block import FLOOR
from anytime.acquisition.value_trees import train_values, what_trees_see
from anytime.runtime import Session
from anytime.trees.clock import Clock
from tests.acquisition.test_acquisition_models import COSTS, PLANTED, planted, table
from tests.runtime.bench import features_of

SMALL = {"hidden_layer_sizes": (32, 16), "folds": 2, "n_neighbors": 8, "policy": "value", "random_state": 0}


@pytest.fixture(scope="module")
def model():
    fitted = AcquisitionClassifier(costs=COSTS, **SMALL).fit(*table(400))
    assert fitted.plan_.blocks[0].values is not None
    return fitted


def values_of(model):
    """Trained anew from a model's networks: of all rows, and without the first fold; and what they learned from."""
    block, data = model.plan_.blocks[0], {}
    reference = block.reference
    classes = reference.labels is not None
    data = {
        "targets": Targets(
            reference.labels.astype(np.intp) if classes else reference.values, block.width, None
        ),
        "fold": reference.fold,
        "masks": Masks(block.costs),
    }
    return train_values(
        *(block._points, block._input_group, data["targets"], data["fold"], data["masks"]),
        n_read=block.inputs.column.size,
        networks=block.networks,
        candidates=block.candidates,
        required=block.required,
        floor=FLOOR,
        clock=Clock(None, 0),
        seed=3,
        n_threads=1,
    )


def test_a_planted_tree_of_tests_is_found_by_what_was_learned():
    """R5: two purchases tell all, and the second depends on the first."""
    model = AcquisitionClassifier(costs=PLANTED, **SMALL).fit(*planted(800, 0))
    assert model.plan_.blocks[0].values is not None
    X, y = planted(400, 1)
    assert model.score(X, y, budget=2) > 0.99
    for kind in range(4):
        assert set(model.answer(X[X[:, kind] == 1][:1], budget=2).groups) == {"kind", f"b{kind}"}
    assert model.score(X, y, mean_budget=2) > 0.99


def test_what_was_learned_is_the_loss_that_the_network_saves():
    """Over rows that the trees have not seen, with nothing bought, the mean of what they say is the mean of what happens."""
    model = AcquisitionClassifier(costs=PLANTED, **SMALL).fit(*planted(800, 0))
    block, honest = model.plan_.blocks[0], values_of(model).honest
    own = np.flatnonzero(block.reference.fold == 0)
    kind, nothing = np.zeros((own.size, 5), dtype=bool), np.zeros((own.size, 5), dtype=bool)
    kind[:, 0] = True
    labels = block.reference.labels[own]

    def losses(owned):
        said = block.networks.scores(0, block._points[own], owned, block._input_group)
        odds = np.exp(said - said.max(axis=1, keepdims=True))
        return -np.log(odds[np.arange(own.size), labels] / odds.sum(axis=1) + FLOOR)

    m = block.inputs.column.size
    seen = what_trees_see(
        block._points[own][:, :m],
        nothing,
        block._input_group[:m],
        block.networks.scores(0, block._points[own], nothing, block._input_group),
        True,
    )
    expected = (losses(nothing) - losses(kind)).mean()
    assert expected > 0.5
    assert_allclose(honest.outputs(0, seen)[:, 0].mean(), expected, rtol=0.1)


def test_no_cap_is_exceeded_nothing_is_bought_twice_and_requirements_come_along(model):
    """R1."""
    X, _ = table(60, 1)
    for budget in np.arange(0.0, 8.5, 0.5):
        answer = model.answer(X, budget=budget)
        assert (answer.cost <= budget).all()
        assert (
            answer.cost > budget - 3.0
        ).all() or budget == 8.0  # no group that it could still pay for is left
    assert (model.cost(X) == COSTS.total).all()
    assert (model.cost(X, budget=0.9) == 0).all()
    for mean in (0.7, 2.0, 6.0):
        assert model.cost(X, mean_budget=mean).mean() <= mean


def test_one_by_one_in_a_batch_in_a_session_from_a_file_and_on_threads_rows_buy_the_same(model, tmp_path):
    """R2."""
    X, _ = table(24, 1)
    model.save(tmp_path / "m.anytime")
    loaded = at.load(tmp_path / "m.anytime")
    threaded = AcquisitionClassifier(costs=COSTS, n_jobs=2, **SMALL).fit(*table(400))
    for budget in (0.0, 2.5, 4.0, None):
        together = model.answer(X, budget=budget)
        for other in (loaded, threaded):
            assert_array_equal(other.answer(X, budget=budget).scores, together.scores)
            assert_array_equal(other.cost(X, budget=budget), together.cost)
        for i in range(0, 24, 5):
            assert_array_equal(model.answer(X[i : i + 1], budget=budget).scores[0], together.scores[i])
            assert model.predict_one(np.ascontiguousarray(X[i]), budget=budget) == together.prediction[i]
            of_session = Session(model, features_of(model.plan_)).predict(X[i], budget=budget)
            assert_array_equal(of_session.scores, together.scores[i])
            assert of_session.cost == together.cost[i]
    assert_array_equal(loaded.cost(X, mean_budget=3), model.cost(X, mean_budget=3))


def test_advice_names_what_is_bought(model):
    """R8."""
    for row in table(12, 1)[0]:
        path = model.path(row, budget=5.0)
        assert set(path.groups) == set(model.answer(row[None], budget=5.0).groups)
        first = model.next(row, bought=[])
        assert first.gain == max(offer.gain for offer in first.offers if offer.price == first.price)


def test_a_price_of_money_ends_purchases_that_are_not_worth_it():
    X, y = table(400)
    thrifty = AcquisitionClassifier(costs=COSTS, cost_penalty=0.03, **SMALL).fit(X, y)
    nothing = AcquisitionClassifier(costs=COSTS, cost_penalty=1e6, **SMALL).fit(X, y)
    rows = table(80, 1)[0]
    assert 0 < thrifty.cost(rows).mean() < COSTS.total
    assert (nothing.cost(rows) == 0).all()


def test_a_group_that_is_not_there_is_done_without(model):
    def broken(raw):
        raise OSError("no connection")

    row = table(1, 1)[0][0]
    wanted = Session(model, features_of(model.plan_)).predict(row).groups[0]
    answer = Session(model, features_of(model.plan_, **{wanted: broken})).predict(row)
    assert wanted in answer.failures
    assert len([name for name in answer.groups if name not in (wanted, "step")]) >= 2


def test_numbers_are_bought_for_by_what_was_learned():
    random = np.random.default_rng(0)
    X = random.normal(size=(500, 4))
    X[:, 0] = random.integers(2, size=500)
    y = np.where(X[:, 0] == 1, 10 * X[:, 1], 10 * X[:, 2]) + 100
    model = AcquisitionRegressor(**SMALL).fit(X, y)
    assert model.plan_.blocks[0].values is not None
    assert model.score(X, y, budget=2) > 0.6
    assert model.cost(X, budget=2).max() == 2


def test_held_out_rows_choose_the_policy(monkeypatch):
    """Neighbours that know nothing lose against trees, and trees that know nothing against neighbours."""
    settings = {**SMALL, "policy": "auto", "look_ahead": 0}
    rows = planted(800, 0)
    blind = AcquisitionClassifier(costs=PLANTED, **{**settings, "n_neighbors": 800}).fit(*rows)
    assert blind.plan_.blocks[0].values is not None
    from anytime.acquisition import value_trees

    monkeypatch.setattr(value_trees, "_ROUNDS", 1)
    monkeypatch.setattr(value_trees, "_LEAVES", 2)
    sighted = AcquisitionClassifier(costs=PLANTED, **settings).fit(*rows)
    assert sighted.plan_.blocks[0].values is None
    assert sighted.score(*planted(400, 1), budget=2) > 0.99


def test_few_rows_are_left_to_neighbours():
    assert AcquisitionClassifier(**SMALL).fit(*table(12)).plan_.blocks[0].values is None
    plain = AcquisitionClassifier(**{**SMALL, "policy": "neighbours"}).fit(*table(400))
    assert plain.plan_.blocks[0].values is None


def test_values_of_other_columns_are_refused(model):
    block = model.plan_.blocks[0]
    other = at.GradientBoostingClassifier(n_estimators=2).fit(*table(100)).plan_.blocks[0]
    with pytest.raises(ValueError, match="must be learned from"):
        block.changed(values=other)
