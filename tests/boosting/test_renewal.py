"""Orders of purchase, and the models that SpeedBoost renews along them."""

import copy

import numpy as np
import pytest

import anytime as at
from anytime.auto.kinds import Boosted
from anytime.boosting import probes, renewal
from anytime.boosting.learners import TrainingRows
from anytime.boosting.objective import MeanLoss
from anytime.boosting.renewal import Renewal, Renewed
from anytime.boosting.rounds import GradientRounds
from anytime.boosting.speedboost import _without_harm
from anytime.losses import training_loss
from anytime.trees.growing import TreeGrower


def friedman(n_rows, seed=0):
    """Five columns that matter, of which the first two the most, and five of noise."""
    random = np.random.default_rng(seed)
    X = random.uniform(size=(n_rows, 10))
    y = 4 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 3 * (X[:, 2] - 0.5) ** 2 + 2 * X[:, 3] + X[:, 4]
    return X, (y - y.mean()) / y.std() + random.normal(0, 0.1, n_rows)


def test_an_order_searched_on_a_sample_of_the_rows_is_that_of_a_table_of_the_samples_size(monkeypatch):
    """The ridge of a leaf counts rows, so that it may not grow in proportion when rows are drawn."""
    monkeypatch.setattr(probes, "_ROWS", 2_000)
    found = {}

    def noted(self):
        order = search(self)
        found[len(self.training.table)] = order[:5], self.probes(self.sets.closed(order[:5]))
        return order

    search = renewal.Renewal.order
    monkeypatch.setattr(renewal.Renewal, "order", noted)
    for n_rows in (2_000, 4_500):
        at.SpeedBoostRegressor(n_estimators=5, random_state=0).fit(*friedman(n_rows))
    (small_order, small_loss), (large_order, large_loss) = found[2_000], found[4_500]
    assert large_order == small_order
    assert large_loss == pytest.approx(small_loss, rel=0.25)


@pytest.mark.parametrize(
    ("folds", "stays"),
    [([0.11, 0.30, 0.30], True), ([0.10, 0.40, 0.40], True), ([0.14, 0.15, 0.15], False)],
)
def test_the_last_model_stays_unless_it_is_clearly_worse_in_every_fold(folds, stays):
    """Else an unlucky split could leave a buyer of everything with the answer of a fifth of it."""
    cheap = Renewed(frozenset([0]), None, 0.12, np.array([0.12, 0.12, 0.12]))
    last = Renewed(frozenset([0, 1]), None, float(np.mean(folds)), np.array(folds))
    kept = _without_harm([cheap, last], before=1.0, everything=frozenset([0, 1]))
    assert kept == ([cheap, last] if stays else [cheap])


@pytest.mark.parametrize(("measured", "stays"), [(0.121, True), (0.15, False), (np.nan, False)])
def test_the_last_model_stays_where_full_models_do_not_agree_that_it_is_worse(measured, stays):
    """Quick models see less than full ones in large sets."""
    cheap = Renewed(frozenset([0]), None, 0.12, np.full(3, 0.12), measured=0.12)
    last = Renewed(frozenset([0, 1]), None, 0.15, np.full(3, 0.15), measured=measured)
    kept = _without_harm([cheap, last], before=1.0, everything=frozenset([0, 1]))
    assert kept == ([cheap, last] if stays else [cheap])


@pytest.mark.parametrize(("whole", "stays"), [(0.121, True), (0.15, False)])
def test_a_model_in_between_stays_where_quick_models_alone_see_harm(whole, stays):
    cheap = Renewed(frozenset([0]), None, 0.12, np.full(2, 0.12), measured=0.12)
    middle = Renewed(frozenset([0, 1]), None, 0.13, np.full(2, 0.13))
    last = Renewed(frozenset([0, 1, 2]), None, 0.12, np.full(2, 0.12), measured=whole)
    kept = _without_harm([cheap, middle, last], before=1.0, everything=last.groups)
    assert (middle in kept) == stays


def test_a_model_in_between_goes_when_its_mean_loss_is_clearly_worse():
    cheap = Renewed(frozenset([0]), None, 0.12, np.array([0.12, 0.12]))
    middle = Renewed(frozenset([0, 1]), None, 0.13, np.array([0.11, 0.15]))
    assert _without_harm([cheap, middle], before=1.0, everything=frozenset([0, 1, 2])) == [cheap]


def test_where_money_would_be_left_a_stage_is_made_although_quick_models_see_no_gain():
    """Five columns matter and five are noise, at one price: the noise is bought in steps, not all at once."""
    X, y = friedman(1_500)
    y = y + np.random.default_rng(1).normal(0, 0.5, len(y))
    costs = at.SpeedBoostRegressor(random_state=0).fit(X, y).stage_costs_
    assert costs[-1] == 10
    late = costs[costs >= 5]
    assert (late[1:] <= 1.3 * late[:-1] + 1).all()


def test_a_stage_that_spends_much_more_is_made_unless_quick_models_are_much_worse():
    """Quick models were a tenth worse on large sets of which full models were better: most of a budget was left unspent."""
    X, y = friedman(300)
    training = at.SpeedBoostRegressor(random_state=0)._training(X, y, None, None)
    search = Renewal(training, renewal.Booster(TreeGrower(), 0.3, 5, 5))
    prefixes = [frozenset(range(n)) for n in (2, 3, 6, 10)]

    def made(loss_of_six):
        losses = dict(zip([frozenset(), *prefixes], (2.0, 1.0, 0.99, loss_of_six, 0.9), strict=True))
        search.probes = losses.__getitem__
        return search._worth_a_model(prefixes)

    assert made(1.09) == [prefixes[0], prefixes[1], prefixes[2], prefixes[3]]
    assert made(1.3) == [prefixes[0], prefixes[1], prefixes[3]]


def test_quick_models_judge_one_held_out_part_in_fifths():
    X, y = friedman(5_000)
    model = at.SpeedBoostRegressor(n_estimators=5, random_state=0)
    training = model._training(X, y, None, None)
    booster = renewal.Booster(renewal.TreeGrower(), 0.3, 5, 5)
    search = renewal.Renewal(training, booster)
    found = search.renewed(frozenset(range(10)))
    assert found.by_fold.shape == (5,)
    assert found.by_fold.mean() == pytest.approx(search.probes(found.groups), rel=1e-6)


# ---------------------------------------------------------------------- going on


def trees_per_stage(model):
    return [len(block.forest.arrays()["tree_start"]) - 1 for block in model.plan_.blocks]


@pytest.fixture(scope="module")
def begun():
    """A short model, and the table that it has learned from."""
    X, y = friedman(400)
    settings = {"max_stages": 2, "n_estimators": 8, "warm_start": True, "random_state": 0}
    return at.SpeedBoostRegressor(**settings).fit(X[:, :5], y), X[:, :5], y


@pytest.mark.parametrize("loaded", [False, True])
def test_speedboost_goes_on_with_more_stages_and_more_trees(begun, loaded, tmp_path):
    model, X, y = begun
    model.save(tmp_path / "begun.anytime")
    longer = at.load(tmp_path / "begun.anytime") if loaded else copy.deepcopy(model)
    longer.set_params(max_stages=4, n_estimators=16).fit(X, y)
    assert model.n_stages_ == 2 < longer.n_stages_ <= 4
    assert set(model.stage_costs_) <= set(longer.stage_costs_)
    assert max(trees_per_stage(longer)) > max(trees_per_stage(model))
    assert longer.score(X, y) > model.score(X, y)


def test_going_on_with_nothing_left_to_do_changes_nothing(begun):
    model, X, y = begun
    again = copy.deepcopy(model).fit(X, y)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_going_on_with_another_table_or_other_prices_is_refused(begun):
    model, X, y = begun
    with pytest.raises(ValueError, match="same columns"):
        model.fit(X[:, :4], y)
    with pytest.raises(ValueError, match="same costs"):
        model.set_params(costs=[1.0, 2.0, 3.0, 4.0, 5.0]).fit(X, y)
    model.set_params(costs=None)


@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize("more", [{}, {"validation_fraction": 0.3}, {"cost_penalty": 0.5}])
def test_gradient_boosting_goes_on_as_if_it_had_not_stopped(more, loaded, tmp_path):
    X, y = friedman(300)
    settings = {"random_state": 0, "learning_rate": 0.3, **more}
    at_once = at.GradientBoostingRegressor(n_estimators=12, **settings).fit(X, y)
    model = at.GradientBoostingRegressor(n_estimators=5, warm_start=True, **settings).fit(X, y)
    if loaded:
        model.save(tmp_path / "five.anytime")
        model = at.load(tmp_path / "five.anytime")
    model.set_params(n_estimators=12).fit(X, y)
    assert model.n_stages_ == at_once.n_stages_ > 5
    np.testing.assert_allclose(model.predict(X), at_once.predict(X), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(model.stage_costs_, at_once.stage_costs_)
    with pytest.raises(ValueError, match="the fitted model already has"):
        model.set_params(n_estimators=3).fit(X, y)


def test_classes_may_weigh_differently():
    X, y = friedman(400)
    rare = y > np.quantile(y, 0.85)
    for kind in (at.SpeedBoostClassifier, at.AdditiveSpeedBoostClassifier, at.GradientBoostingClassifier):
        plain, balanced = (
            kind(n_estimators=10, random_state=0, class_weight=weight).fit(X, rare)
            for weight in (None, "balanced")
        )
        assert balanced.predict(X).sum() > plain.predict(X).sum()


def test_each_round_learns_from_a_share_of_the_rows():
    """Values of its leaves are those of the rows drawn: the first tree differs from that of all rows, the next from the first."""
    X, y = friedman(400)
    table = TrainingRows(X)
    objective = MeanLoss(training_loss("squared"), y, np.ones(len(y)))

    def leaves(share, seed=0):
        rounds = GradientRounds(
            table.binned, objective, TreeGrower(), np.zeros(1), row_share=share, seed=seed
        )
        rounds.run(2)
        return rounds.scores

    np.testing.assert_array_equal(leaves(0.5), leaves(0.5))
    assert not np.allclose(leaves(0.5), leaves(1.0))
    assert not np.allclose(leaves(0.5), leaves(0.5, seed=1))
    drawn = GradientRounds(
        table.binned, objective, TreeGrower(), np.zeros(1), row_share=0.5, rows=np.arange(300)
    )
    assert set(drawn._drawn_rows()) < set(range(300))
    assert 100 < len(drawn._drawn_rows()) < 200


def clouds(n_classes, n_rows, seed=0):
    centres = 2.0 * np.random.default_rng(0).normal(size=(n_classes, 6))
    y = np.arange(n_rows) % n_classes
    return centres[y] + np.random.default_rng([1, seed]).normal(size=(n_rows, 6)), y


def test_few_estimators_are_few_trees_per_class_and_not_in_all():
    """With 3 trees for 8 classes, everything was worse than boosting as usual with 3 rounds."""
    X, y = clouds(8, 480)
    model = at.SpeedBoostClassifier(n_estimators=3, learning_rate=0.5, max_stages=2, random_state=0).fit(X, y)
    trees = model.plan_.blocks[-1].forest
    assert 3 < trees.n_trees <= 3 * 8
    usual = at.GradientBoostingClassifier(n_estimators=3, learning_rate=0.5, l2_regularization=1.0).fit(X, y)
    X_new, y_new = clouds(8, 4_800, seed=1)
    assert model.score(X_new, y_new) > usual.score(X_new, y_new) - 0.01


def test_the_rows_of_a_round_do_not_tell_its_mixture_of_outputs():
    X, y = clouds(2, 40)
    table = TrainingRows(X)
    objective = MeanLoss(training_loss("multinomial"), y)
    seen = []

    class Watching(TreeGrower):
        def grow_newton(self, data, gradient, hessian, *, rows, **others):
            seen.append((gradient, rows))
            return super().grow_newton(data, gradient, hessian, rows=rows, **others)

    for seed in range(200):
        rounds = GradientRounds(
            table.binned, objective, Watching(), np.zeros(2), shared=True, row_share=0.5, seed=seed
        )
        rounds.round()
    first_is_larger = [gradient[0, 0] < gradient[1, 0] for gradient, _ in seen]
    agreeing = [
        np.mean([(place in rows) == sign for (_, rows), sign in zip(seen, first_is_larger, strict=True)])
        for place in range(4)
    ]
    assert np.abs(np.array(agreeing) - 0.5).max() < 0.15


def test_auto_tries_trees_with_as_many_rounds_as_held_out_rows_were_asked_about():
    """Also where rounds end by n_estimators."""
    X, y = friedman(600)
    asked = []
    with pytest.MonkeyPatch.context() as patch:
        judged = Renewal._judged

        def noted(self, booster, groups, until, start):
            found = judged(self, booster, groups, until, start)
            asked.append((groups, found[1]))
            return found

        patch.setattr(Renewal, "_judged", noted)
        model = at.SpeedBoostRegressor(n_estimators=10, max_stages=1, random_state=0).fit(X, y)
    (block,) = model.plan_.blocks
    assert block.forest.n_trees == 10  # it would like more
    training = model._training(X, y, None, None)
    assert Boosted(training, model._booster, block).booster.n_estimators == asked[-1][1]
