"""Exits on ever more columns: margins, columns, the estimator (adaptive_approximation 10)."""

import warnings
from functools import cache
from itertools import product

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.neighbors import KNeighborsClassifier

import anytime as at
from anytime.adaptive import LadderClassifier
from anytime.adaptive.exits import Answers, best_margins, crossed_path, judged_loss
from anytime.adaptive.rungs import RungLearner, column_sets, sets_as_dear
from anytime.adaptive.stages import Chain
from anytime.boosting.learners import TrainingRows
from anytime.boosting.objective import MeanLoss
from anytime.losses import training_loss


def answers(seed, n=40, n_exits=2):
    rng = np.random.default_rng(seed)
    margin = rng.random((n, n_exits))
    right = rng.random((n, n_exits + 1)) < np.column_stack([margin, np.full(n, 0.95)])
    cost = np.cumsum(rng.random((n, n_exits + 1)), axis=1)
    return Answers(margin, right, cost, rng.uniform(0.5, 2.0, n), right[:, -1])


def worth(found, margins, price):
    return found.accuracy(margins) - price * found.mean_cost(margins)


@pytest.mark.parametrize("seed", range(5))
def test_margins_of_one_exit_are_the_best_there_are(seed):
    found = answers(seed, n_exits=1)
    every = [np.array([m]) for m in (np.inf, -np.inf, *found.margin[:, 0])]
    for price in (0.05, 0.2, 0.6):
        best = worth(found, best_margins(found, price), price)
        assert best == pytest.approx(max(worth(found, margins, price) for margins in every))


@pytest.mark.parametrize("seed", range(5))
def test_no_single_change_of_a_margin_is_better(seed):
    found = answers(seed)
    margins = best_margins(found, 0.2)
    for k, value in product(range(2), (np.inf, -np.inf, *found.margin.ravel())):
        other = margins.copy()
        other[k] = value
        assert worth(found, other, 0.2) <= worth(found, margins, 0.2) + 1e-12


def test_rows_leave_at_the_first_exit_that_is_sure():
    found = Answers(
        np.array([[0.5, 0.9], [0.2, 0.9], [0.2, 0.1]]),
        np.ones((3, 3), bool),
        np.ones((3, 3)),
        np.ones(3),
        np.ones(3, bool),
    )
    assert found.leaves(np.array([0.5, 0.5])).tolist() == [0, 1, 2]
    assert found.leaves(np.array([np.inf, -np.inf])).tolist() == [1, 1, 1]


def test_loss_against_the_last_model_and_its_standard_error():
    right = np.array([[1, 1], [0, 1], [0, 1], [1, 0]], bool)
    found = Answers(np.ones((4, 1)), right, np.ones((4, 2)), np.ones(4), right[:, -1])
    mean, error = found.loss(np.array([0.0]))
    lost = np.array([0, 1, 1, -1])
    assert (mean, error) == pytest.approx((0.25, lost.std() / 2))
    assert found.loss(np.array([np.inf])) == (0.0, 0.0)


def test_a_higher_price_buys_less():
    found = answers(0, n=400, n_exits=4)
    costs = [found.mean_cost(best_margins(found, price)) for price in (0.0, 0.05, 0.2, 1.0)]
    assert costs == sorted(costs, reverse=True)
    path, _ = crossed_path(found, np.arange(400) % 2)
    assert found.mean_cost(path[0]) > 2 * found.mean_cost(path[-1])
    costs, right = ([of(margins) for margins in path] for of in (found.mean_cost, found.accuracy))
    assert (np.diff(costs) < 0).all()  # the cheaper the less accurate: nothing is dominated
    assert (np.diff(right) < 0).all()


def test_sets_of_columns_are_nested_and_cheaper_than_all():
    costs = at.FeatureCosts([1.0, 2.0, 4.0, 8.0]).bind(4)
    order = [np.array([2]), np.array([0]), np.array([3]), np.array([1])]
    sets = column_sets(order, costs, 15.0, 3)
    assert [np.flatnonzero(mask).tolist() for mask in sets] == [[2], [0, 2], [0, 2, 3]]
    assert column_sets([], costs, 15.0, 3) == []


def test_other_sets_are_about_as_dear():
    costs = at.FeatureCosts([1.0, 2.0, 4.0, 8.0]).bind(4)
    sets = [np.array([0, 0, 1, 0], bool), np.array([1, 0, 1, 1], bool)]
    order = [np.array([1]), np.array([0]), np.array([3])]
    assert [np.flatnonzero(mask).tolist() for mask in sets_as_dear(order, costs, sets)] == [[0, 1], [0, 1, 3]]
    assert not np.any(sets_as_dear([], costs, sets))


@pytest.mark.parametrize("seed", range(3))
def test_the_crossed_path_judges_rows_by_margins_of_the_others(seed):
    found = answers(seed, n=60)
    part = np.arange(60) % 2
    path, leaves = crossed_path(found, part, [0.3])
    other, _ = crossed_path(
        found, np.arange(60) % 3, [0.3]
    )  # margins are chosen on all rows, whatever their parts
    assert [m.tobytes() for m in path] == [m.tobytes() for m in other]
    whole = np.average(found.cost[:, -1], weights=found.weight)
    for k in range(2):
        margins = best_margins(found.part(part != k), 0.3 / whole)
        np.testing.assert_array_equal(leaves[-1][part == k], found.part(part == k).leaves(margins))


def test_rows_are_judged_at_about_the_cost_of_the_margins_they_stand_for():
    found = answers(0, n=2000, n_exits=4)
    path, leaves = crossed_path(found, np.arange(2000) % 2)
    assert len(path) > 20
    for margins, crossed in zip(path, leaves, strict=True):
        assert found.mean(found.cost, crossed) == pytest.approx(found.mean_cost(margins), rel=0.1)


def lost(train, valid):
    """Rows of which so many, of training and of validation rows, lose by leaving at the only exit."""
    wrong = np.concatenate([np.arange(len(part)) < part.sum() for part in (train, valid)])
    n = len(wrong)
    right = np.column_stack([~wrong, np.ones(n, bool)])
    return Answers(np.ones((n, 1)), right, np.ones((n, 2)), np.ones(n), right[:, -1])


def test_training_rows_count_where_they_agree_with_validation_rows():
    few, many = np.repeat([1, 0], [5, 95]), np.repeat([1, 0], [15, 285])
    found, leaves = lost(many, few), np.zeros(400, dtype=int)
    assert judged_loss(found, leaves, 300) == pytest.approx(found.loss_of(leaves))
    assert judged_loss(found, leaves, 300)[0] == pytest.approx(20 / 400)


def test_training_rows_count_for_nothing_where_they_say_something_else():
    few, many = np.repeat([1, 0], [1, 999]), np.repeat([1, 0], [1500, 1500])
    found, leaves = lost(many, few), np.zeros(4000, dtype=int)
    own = found.part(slice(3000, None)).loss_of(leaves[3000:])
    assert judged_loss(found, leaves, 3000) == pytest.approx(own, abs=1e-3)


@pytest.mark.parametrize("n_train", [0, 40])
def test_rows_of_one_kind_are_judged_as_they_are(n_train):
    found = answers(1)
    leaves = found.leaves(np.array([0.5, 0.5]))
    assert judged_loss(found, leaves, n_train) == found.loss_of(leaves)


# ---------------------------------------------------------------------- the estimator


def rows(n_classes=2, n=600):
    X, y = make_classification(n, 8, n_informative=6, n_redundant=0, n_classes=n_classes, random_state=3)
    cut = 2 * n // 3
    return X[:cut], y[:cut], X[cut:], y[cut:]


def ladder(costly=None, **settings):
    costly = KNeighborsClassifier() if costly is None else costly
    return LadderClassifier(costly, n_estimators=10, max_stages=4, random_state=0, **settings)


@cache
def fitted(n_classes=2, **settings):
    """A ladder on the rows above, which several tests look at."""
    return ladder(**settings).fit(*rows(n_classes)[:2])


@pytest.mark.parametrize("n_classes", [2, 3])
def test_it_costs_less_and_is_about_as_accurate(n_classes):
    X, y, X_test, y_test = rows(n_classes)
    model = fitted(n_classes, tolerance=0.02)
    costly = KNeighborsClassifier().fit(X, y)
    assert model.cost(X_test).mean() < 0.9 * 8
    assert model.score(X_test, y_test) > costly.score(X_test, y_test) - 0.05
    assert model.margins_.size >= 1


def test_the_plan_does_what_was_judged():
    X, y, X_val, y_val = rows()
    model = ladder(FrozenEstimator(KNeighborsClassifier().fit(X, y)), mean_budget=5.0).fit(
        X, y, X_val=X_val, y_val=y_val
    )
    assert model.expected_cost_ == pytest.approx(model.cost(X_val).mean())
    assert model.plan_.quality[-1] == pytest.approx(model.score(X_val, y_val))
    for stage, answer in enumerate(model.stages(X_val)):
        if stage:
            assert model.plan_.expected_costs[stage - 1] == pytest.approx(np.mean(answer.cost))
    assert model.expected_cost_ <= 5.0
    best = max(point.accuracy for point in model.points_ if point.cost <= 5.0)
    assert any(p.accuracy == best and p.cost == pytest.approx(model.expected_cost_) for p in model.points_)


def test_labels_of_noise_cannot_be_foretold():
    """Columns and margins chosen by the labels of a row must not judge it."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 50)), rng.integers(0, 2, 300)
    model = ladder(lambda some: np.tile([0.4, 0.6], (len(some), 1)), mean_budget=25.0).fit(X, y)
    standard_error = 0.5 / np.sqrt(300)
    assert max(point.accuracy for point in model.points_) < 0.5 + 2 * standard_error
    assert np.mean(model.honest_proba_.argmax(axis=1) == y) < 0.5 + 4 * standard_error


def test_points_go_from_dear_to_cheap_and_name_the_first_exit_in_use():
    model = fitted(2, mean_budget=6.0)
    costs = [point.cost for point in model.points_]
    assert costs == sorted(costs, reverse=True)
    assert [point.sent for point in model.points_ if point.threshold == -np.inf] == [1.0]
    assert all(point.sent == 0 for point in model.points_ if point.threshold is None)


def test_few_validation_rows_do_not_say_who_is_sent():
    X, y, X_val, y_val = rows()
    asked = []
    near = KNeighborsClassifier().fit(X, y)

    def costly(some):
        asked.append(len(some))
        return near.predict_proba(some)

    model = ladder(costly, tolerance=0.1).fit(X, y, X_val=X_val[:2], y_val=y_val[:2])
    asked.clear()
    model.predict(X_val)
    assert sum(asked) == model.sent(X_val).sum()


def test_the_scale_of_weights_does_not_matter_beside_validation_rows():
    X, y, X_val, y_val = rows()
    near = FrozenEstimator(KNeighborsClassifier().fit(X, y))
    few, many = (
        ladder(near, mean_budget=5.0).fit(X, y, np.full(len(y), scale), X_val=X_val, y_val=y_val)
        for scale in (2.0**-9, 2.0**9)
    )
    np.testing.assert_allclose(few.margins_, many.margins_)


@pytest.mark.parametrize("budget", [4.0, 6.0])
def test_rows_that_are_sent_are_those_the_costly_model_is_asked_about(budget):
    X, y, X_val, y_val = rows()
    asked = []
    near = KNeighborsClassifier().fit(X, y)

    def costly(some):
        asked.append(len(some))
        return near.predict_proba(some)

    model = ladder(costly, mean_budget=budget).fit(X, y, X_val=X_val, y_val=y_val)
    assert model.sent(X_val).mean() == pytest.approx(model.sent_)
    asked.clear()
    model.predict(X_val)
    assert sum(asked) == model.sent(X_val).sum()


def test_the_tolerance_is_kept_on_validation_rows():
    X, y, X_val, y_val = rows()
    costly = FrozenEstimator(KNeighborsClassifier().fit(X, y))
    costs = []
    for tolerance in (0.0, 0.1):
        model = ladder(costly, tolerance=tolerance).fit(X, y, X_val=X_val, y_val=y_val)
        assert model.score(X_val, y_val) >= costly.score(X_val, y_val) - tolerance - 1e-9
        costs.append(model.expected_cost_)
        careful = ladder(costly, tolerance=tolerance, caution=3.0).fit(X, y, X_val=X_val, y_val=y_val)
        assert careful.expected_cost_ >= model.expected_cost_
    assert costs == sorted(costs, reverse=True)
    assert costs[0] > costs[-1]


def test_too_small_a_budget_buys_nothing():
    X, y, X_test, _ = rows()
    with pytest.warns(UserWarning, match="always gives the same answer"):
        model = ladder(mean_budget=0.5).fit(X, y)
    assert model.cost(X_test).max() == 0
    assert len(set(model.predict(X_test))) == 1


def test_rows_pay_for_the_columns_on_their_way_once():
    X_test = rows()[2]
    model = fitted(2, tolerance=0.02)
    chain = Chain.of(model.plan_)
    first = {int(j) for j in chain.exits[0].cheap.columns(0)}
    left = model.gate_score(X_test) <= 0
    assert left.any()
    assert model.cost(X_test)[left].max() <= len(first)
    assert model.cost(X_test).max() <= 8


def test_an_adaptive_model_may_be_the_costly_one():
    X, y, X_test, y_test = rows()
    inner = fitted(2, mean_budget=6.0)
    outer = LadderClassifier(inner, n_estimators=10, max_stages=3, mean_budget=4.5, random_state=0).fit(X, y)
    assert outer.margins_.size == outer.plan_.n_stages - inner.plan_.n_stages
    assert outer.sent(X_test).mean() == pytest.approx(outer.sent_, abs=0.1)
    assert outer.plan_.expected_costs.size == outer.plan_.n_stages
    assert outer.score(X_test, y_test) > inner.score(X_test, y_test) - 0.05


def test_it_is_the_same_on_any_number_of_threads():
    X, y, X_test, _ = rows()
    one, two = (ladder(n_jobs=n).fit(X, y) for n in (1, 2))
    np.testing.assert_array_equal(one.predict_proba(X_test), two.predict_proba(X_test))
    assert clone(one).get_params(deep=False).keys() == one.get_params(deep=False).keys()


def test_forests_go_into_the_file(tmp_path):
    X, y, X_test, _ = rows()
    model = ladder(RandomForestClassifier(40, oob_score=True, random_state=0), tolerance=0.0).fit(X, y)
    model.save(tmp_path / "ladder.any")
    again = at.load(tmp_path / "ladder.any")
    np.testing.assert_array_equal(model.predict_proba(X_test), again.predict_proba(X_test))
    np.testing.assert_array_equal(model.margins_, again.margins_)


# ---------------------------------------------------------------------- free columns, and models that answer alone


def test_a_ladder_begins_with_what_is_free():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 4))
    y = (X.sum(axis=1) + 0.5 * rng.normal(size=1200) > 0).astype(int)
    model = LadderClassifier(
        FrozenEstimator(RandomForestClassifier(20, random_state=0).fit(X[:400], y[:400])),
        costs=[0, 0, 10, 10], mean_budget=1, n_estimators=20, random_state=0,
    ).fit(X[400:800], y[400:800])  # fmt: skip
    assert model.cost(X[800:]).mean() <= 1.5
    assert model.score(X[800:], y[800:]) > 0.65


def test_columns_within_the_budget_come_before_dear_ones_that_are_better():
    rng = np.random.default_rng(1)
    y = rng.integers(0, 2, 600)
    X = np.column_stack([y + rng.normal(size=600), y + 0.01 * rng.normal(size=600)])
    costly = FrozenEstimator(RandomForestClassifier(20, random_state=0).fit(X, y))
    model = LadderClassifier(costly, costs=[1.0, 1.5], mean_budget=1, n_estimators=10, random_state=0).fit(
        X, y
    )
    assert model.cost(X).max() == 1
    assert model.score(X, y) > 0.6


def test_rows_that_need_different_columns_are_answered_by_trees_alone():
    """Column 0 names the one column that matters to a row: prefixes of one order are dear, a pruned forest is not."""
    rng = np.random.default_rng(2)
    which, signs = rng.integers(0, 4, 2400), rng.normal(size=(2400, 4))
    cuts = np.array([-1.5, -0.5, 0.5, 1.5])
    X = np.column_stack([which, signs])
    y = (signs[np.arange(2400), which] > cuts[which]).astype(int)
    costly = RandomForestClassifier(60, max_features=None, oob_score=True, random_state=0)
    costly.fit(X[:1600], y[:1600])
    model = LadderClassifier(costly, costs=[0.1, *[1.0] * 4], tolerance=0.02, n_estimators=20, random_state=0)
    model.fit(X[:1600], y[:1600])
    assert model.cost(X[1600:]).mean() < 1.7
    assert model.score(X[1600:], y[1600:]) > costly.score(X[1600:], y[1600:]) - 0.03
    assert not model.sent(X[1600:]).any()


def test_forests_pruned_on_their_training_rows_are_not_refitted(monkeypatch):
    """Rows that trees were grown from cannot say whether other answers at their leaves are better."""
    made = []

    def kept(*args, **options):
        made.append(at.prune_forest(*args, **options))
        return made[-1]

    monkeypatch.setattr("anytime.adaptive.singles.prune_forest", kept)
    X, y = make_classification(200, 6, flip_y=0.2, random_state=0)
    LadderClassifier(max_stages=3, n_estimators=5, random_state=0).fit(X, y)
    assert made
    assert not any(model.refit_ for model in made)


@pytest.mark.parametrize("kind", [at.AdaptiveClassifier, at.LadderClassifier])
def test_too_little_time_for_the_default_costly_model_is_told_once_with_the_time_that_was_given(kind):
    X = np.random.default_rng(0).normal(size=(60, 3))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kind(time_budget=1e-3, random_state=0).fit(X, X[:, 0] > 0)
    told = [str(w.message) for w in caught if "ended training" in str(w.message)]
    assert len(told) == 1
    assert told[0].startswith("time_budget=0.001 ended training of the costly model early: it has")


def priced_rows(n=400, seed=0):
    """Rows whose class depends on all of four columns, the dearer the more; the last two need a step without columns."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    costs = at.FeatureCosts(
        groups={"a": [0], "b": [1], "draw": [], "c": [2], "d": [3]},
        prices={"a": 1.0, "b": 2.0, "draw": 3.0, "c": 4.0, "d": 5.0},
        requires={"c": ["draw"], "d": ["draw"]},
    )
    return X, (X @ [0.5, 1.0, 1.5, 2.0] + rng.normal(size=n) > 0).astype(int), costs


def test_what_a_chain_costs_is_read_off_what_its_models_buy():
    """Every model is run once; a run of the whole chain says the same."""
    X, y, costs = priced_rows()
    seen = []

    class Watched(LadderClassifier):
        def _path(self, models, n_rungs, task, train, judge):
            chains = [[0], [len(models)], [0, len(models)], [0, 1, len(models) - 1], [1, len(models)]]
            for which in chains:
                chain = self._chain_of_exits(np.full(len(which) - 1, np.inf), which, models, task)
                seen.append((which, judge.paid(which), judge.bench.bill(chain)))
            return super()._path(models, n_rungs, task, train, judge)

    inner = at.AdaptiveClassifier(
        KNeighborsClassifier(), costs=costs, n_estimators=5, evaluation_cost=0.5, random_state=0
    )
    for costly in (KNeighborsClassifier(), inner):
        Watched(costly, costs=costs, mean_budget=8.0, n_estimators=5, max_stages=4, evaluation_cost=0.25).fit(
            X, y
        )
    assert len(seen) == 10
    for _, paid, run in seen:
        np.testing.assert_allclose(paid, run)
    assert any(len(paid) > len(which) for which, paid, _ in seen)  # the costly model has stages of its own


def test_a_single_model_has_a_first_answer_before_it_where_money_allows():
    X, y, costs = priced_rows()
    model = LadderClassifier(
        FrozenEstimator(KNeighborsClassifier().fit(X, y)), costs=costs, tolerance=0.0, caution=0.0, n_estimators=5,
        random_state=0,
    ).fit(X, y)  # fmt: skip
    single = len(set(model.margins_)) == 1 and model.margins_[0] > 1e20
    assert single  # nobody leaves before the last model ...
    assert model.plan_.n_stages == 2
    assert model.stage_costs_[0] < 0.5 * model.stage_costs_[1]
    assert model.score(X, y, budget=model.stage_costs_[0]) > 0.55  # ... but who may pay little has an answer
    assert model.sent(X).all() == (model.sent_ == 1.0)


def test_scores_of_a_rare_class_do_not_run_away():
    """Trees that answer for all classes have leaves without a row of the rare one: its curvature there is next to nothing."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    y = (X[:, 0] + 0.3 * rng.normal(size=600) > 0).astype(np.intp)
    y[X[:, 1] > 2.0] = 2
    loss, half, others = training_loss("multinomial"), np.arange(0, 600, 2), np.arange(1, 600, 2)
    learner = RungLearner(
        TrainingRows(X), MeanLoss(loss, y, None), loss.base(y, 3), 3, n_estimators=100, learning_rate=0.2, max_leaf_nodes=31,
        min_samples_leaf=20, folds=[half, others], seed=0,
    )  # fmt: skip
    scores = learner._boosted(np.ones(3, bool), half).scores
    assert np.abs(scores).max() < 10
    assert loss(scores[others], y[others]) < 0.5
