"""The two estimators as users meet them: answers in their units, copies and files, and the choice of the ridge."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state

import anytime as at
from anytime.linear.tuning import RIDGES, order_ridge
from anytime.losses import training_loss
from tests.reference.linear import Rows, plain_answers, priced_problem

Regressor, Classifier = at.GroupPursuitRegressor, at.GroupPursuitClassifier
seeds = st.integers(0, 2**32 - 1)


X, Y, COSTS = priced_problem()
LABELS = np.array(["no", "yes"])[(np.median(Y) < Y).astype(int)]


def columns_of(model, n_stages):
    """Positions of the columns that the first stages read."""
    return [j for name in model.order_[:n_stages] for j in sorted(model.costs_.groups[name])]


# ---------------------------------------------------------------------- answers


@given(seeds, st.sampled_from(["omp", "forward", "single"]), st.sampled_from(["data", "criterion", False]))
def test_without_ridge_every_stage_is_least_squares_on_the_raw_columns(seed, selection, whiten):
    X, y, costs = priced_problem(seed, k=1)
    model = Regressor(costs=costs, selection=selection, whiten=whiten, l2_regularization=0.0).fit(X, y)
    new = 3.0 * np.random.default_rng(seed).normal(size=(5, 8))
    for t, answer in enumerate(model.stages(new)):
        expected = plain_answers(X, y, columns_of(model, t), new)
        assert_allclose(answer.prediction, expected, rtol=1e-7, atol=1e-7 * np.abs(y).max())


def test_with_ridge_on_standardised_columns_the_last_stage_is_ridge_regression():
    for l2_regularization in (1e-3, 0.1, 2.0):
        model = Regressor(costs=COSTS, whiten="criterion", l2_regularization=l2_regularization).fit(X, Y)
        peer = make_pipeline(StandardScaler(), Ridge(alpha=l2_regularization * len(X))).fit(X, Y)
        assert_allclose(model.predict(X), peer.predict(X), rtol=1e-10)


def test_l11_a_budget_buys_its_prefix_and_nothing_buys_the_mean():
    model = Regressor(costs=COSTS, l2_regularization=0.01).fit(X, Y)
    first = model.stage_costs_[0]
    assert_array_equal(model.predict(X, budget=0.0), np.full(len(X), Y.mean()))
    assert_array_equal(model.predict(X, budget=first * (1 - 1e-12)), np.full(len(X), Y.mean()))
    rows = Rows(X, Y, list(COSTS.groups.values()), l2_regularization=0.01)
    order = [COSTS.names.index(name) for name in model.order_]
    for t, cost in enumerate(model.stage_costs_):
        later = model.stage_costs_[t + 1] if t + 1 < len(order) else np.inf
        expected = rows.answers(order[: t + 1], X)[:, 0]
        for budget in (cost, later * (1 - 1e-12)):
            assert_allclose(model.predict(X, budget=budget), expected, rtol=1e-9)
            assert (model.cost(X, budget=budget) == cost).all()


@given(
    seed=seeds,
    selection=st.sampled_from(["omp", "forward", "single", "forward_single"]),
    l2_regularization=st.sampled_from([0.0, 0.1]),
    n_targets=st.integers(1, 2),
)
def test_l12_squared_loss_by_refits_on_the_data_is_the_linear_code(
    seed, selection, l2_regularization, n_targets
):
    """A Loss object goes the way of all smooth losses; its name goes through moments. Targets have variance 1."""
    X, y, costs = priced_problem(seed, k=n_targets)
    y = 5.0 + (y - y.mean(axis=0)) / y.std(axis=0)
    settings = {"costs": costs, "selection": selection, "l2_regularization": l2_regularization}
    if (
        selection.endswith("single") and l2_regularization
    ):  # by columns as they are; their ridge is on those too
        settings["whiten"] = "criterion"
    fast = Regressor(**settings).fit(X, y)
    slow = Regressor(**settings, loss=training_loss("squared")).fit(X, y)
    assert slow.order_ == fast.order_
    for a, b in zip(slow.stages(X), fast.stages(X), strict=True):
        assert_allclose(a.scores, b.scores, rtol=1e-6)
    books, expected = slow.certificate_.selection, fast.certificate_.selection
    assert_allclose(books.values, expected.values, rtol=1e-7)
    assert_allclose(books.best_rates, expected.best_rates, rtol=1e-6)
    assert slow.certificate_.risk == pytest.approx(fast.certificate_.risk)


def test_without_intercept_the_answer_before_the_first_purchase_is_zero():
    model = Regressor(costs=COSTS, fit_intercept=False, l2_regularization=0.01).fit(X, Y)
    assert_array_equal(model.predict(X, budget=0.0), 0.0)
    assert model.plan_.base == [0.0]


def test_several_targets_are_answered_together():
    X, Y, costs = priced_problem(3, k=3)
    model = Regressor(costs=costs, l2_regularization=0.0).fit(X, Y)
    assert model.predict(X).shape == (40, 3)
    assert_allclose(model.predict(X), LinearRegression().fit(X, Y).predict(X), rtol=1e-8)
    assert_allclose(model.predict(X, budget=0.0), np.tile(Y.mean(axis=0), (40, 1)))
    assert model.predict_one(X[0]).shape == (3,)
    one = Regressor(costs=costs, l2_regularization=0.0).fit(X, Y[:, :1])
    assert_array_equal(
        one.predict(X), Regressor(costs=costs, l2_regularization=0.0).fit(X, Y[:, 0]).predict(X)
    )


def test_a_classifier_by_least_squares_fits_the_indicators():
    indicators = (LABELS[:, None] == np.array(["no", "yes"])).astype(float)
    model = Classifier(costs=COSTS, loss="squared", l2_regularization=0.0).fit(X, LABELS)
    peer = LinearRegression().fit(X, indicators)
    assert_allclose(model.answer(X).scores, peer.predict(X), atol=1e-10)
    assert_array_equal(model.predict(X), np.array(["no", "yes"])[peer.predict(X).argmax(axis=1)])
    assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    assert_allclose(model.predict_proba(X, budget=0.0)[0], indicators.mean(axis=0))


@pytest.mark.parametrize("loss", ["log", "squared", "one_vs_all"])
@pytest.mark.parametrize(
    "labels", [["a", "b"], [False, True], [-1, 1], [1.0, 2.0, 7.0], ["x", "y", "z", "w"]], ids=str
)
def test_labels_of_any_kind_come_back(loss, labels):
    random = np.random.default_rng(0)
    at_class = random.integers(len(labels), size=80)
    X = random.normal(size=(80, 3)) + 2.0 * np.eye(max(3, len(labels)))[at_class][:, :3]
    y = np.array(labels)[at_class]
    model = Classifier(loss=loss, l2_regularization=0.01).fit(X, y)
    assert_array_equal(model.classes_, np.unique(y))
    assert model.predict(X).dtype == y.dtype
    assert model.score(X, y) > 0.55
    chances = model.predict_proba(X)
    assert chances.shape == (80, len(labels))
    assert_allclose(chances.sum(axis=1), 1.0)
    assert_array_equal(model.predict(X), model.classes_[chances.argmax(axis=1)])


def test_one_row_at_a_time_and_lazily():
    """Groups are asked for in the learned order, and only as far as the budget goes."""
    model = Regressor(costs=COSTS, l2_regularization=0.01).fit(X, Y)
    asked = []

    def extractor(name):
        def extract(raw):
            asked.append(name)
            return raw[list(COSTS.groups[name])]

        return extract

    session = at.Session(model, at.Features({name: extractor(name) for name in COSTS.names}))
    budget = model.stage_costs_[1]
    answer = session.predict(X[0], budget=budget)
    assert asked == model.order_[:2]
    assert answer.prediction == model.predict(X[:1], budget=budget)[0] == model.predict_one(X[0], budget)
    assert session.resume().prediction == model.predict(X[:1])[0]
    assert asked == model.order_


# ---------------------------------------------------------------------- copies, files, scikit-learn


@pytest.mark.parametrize(
    "model",
    [
        Regressor(costs=COSTS, random_state=0),
        Regressor(costs=COSTS, loss="huber", l2_regularization=0.1),
        Classifier(costs=COSTS, l2_regularization=0.1),
        Classifier(costs=COSTS, loss="squared", l2_regularization=0.1, schedule="doubling"),
        Regressor(costs=COSTS, selection="lasso", l2_regularization=0.1),
    ],
    ids=["auto", "huber", "log", "squared", "lasso"],
)
def test_pickled_copied_cloned_saved(model, tmp_path):
    y = LABELS if isinstance(model, Classifier) else Y
    model = clone(model).fit(X, y)
    path = tmp_path / "model.anytime"
    model.save(path)
    for other in (pickle.loads(pickle.dumps(model)), copy.copy(model), copy.deepcopy(model), at.load(path)):
        assert type(other) is type(model)
        for a, b in zip(other.stages(X), model.stages(X), strict=True):
            assert a.scores.tobytes() == b.scores.tobytes()
        assert other.order_ == model.order_
        assert_array_equal(other.l2_regularization_, model.l2_regularization_)
        assert other.costs_ == model.costs_
        assert other.certificate_.summary() == model.certificate_.summary()
        assert_array_equal(other.plan_.quality, model.plan_.quality)
        assert str(other.get_params()) == str(model.get_params())
    again = clone(model)
    assert not hasattr(again, "plan_")
    assert_array_equal(again.fit(X, y).predict(X), model.predict(X))


def test_a_loss_of_ones_own_is_kept_as_text_in_a_file(tmp_path):
    model = Regressor(costs=COSTS, loss=at.losses.huber(0.5), l2_regularization=0.1).fit(X, Y)
    model.save(tmp_path / "model.anytime")
    again = at.load(tmp_path / "model.anytime")
    assert_array_equal(again.predict(X), model.predict(X))


def test_truncated_models_and_searches():
    model = Regressor(costs=COSTS, l2_regularization=0.1).fit(X, Y)
    small = model.truncate(model.stage_costs_[1])
    assert small.n_stages_ == 2
    assert_array_equal(small.predict(X), model.predict(X, budget=model.stage_costs_[1]))
    nothing = model.truncate(0.0)
    assert_array_equal(nothing.predict(X), np.full(40, Y.mean()))
    search = GridSearchCV(
        Regressor(costs=COSTS),
        {"l2_regularization": [1e-3, 10.0], "selection": ["omp", "forward"]},
        scoring=at.budget_scorer(3.0),
    )
    assert search.fit(X, Y).best_params_["l2_regularization"] == 1e-3


def test_fitting_again_forgets_what_was():
    model = Regressor(selection="forward", l2_regularization=0.1).fit(X, Y)
    model.set_params(selection="omp").fit(X[:, :3], Y)
    assert model.n_features_in_ == 3
    assert model.fit(pd.DataFrame(X, columns=list("abcdefgh")), Y).feature_names_in_[0] == "a"
    assert not hasattr(model.fit(X, Y), "feature_names_in_")


# ---------------------------------------------------------------------- the ridge


def held_out_rows(random_state, n, fraction=0.2):
    random = np.random.default_rng(check_random_state(random_state).randint(2**31))
    return random.random(n) < fraction


@pytest.mark.parametrize("whiten", ["data", "criterion"])
@pytest.mark.parametrize("seed", [3, 4, 5])
def test_each_prefix_has_the_ridge_of_least_held_out_loss_and_the_best_prefix_is_the_last(whiten, seed):
    """By fitting each prefix on the other rows with each ridge; then with that ridge on all rows."""
    X, y, costs = priced_problem(seed, n=150, noise=3.0)
    model = Regressor(costs=costs, whiten=whiten, random_state=seed).fit(X, y)
    held = held_out_rows(seed, 150)
    assert held.sum() >= 10
    groups = list(costs.groups.values())
    first = Regressor(costs=costs, whiten=whiten, l2_regularization=order_ridge(8, (~held).sum())).fit(
        X[~held], y[~held]
    )
    order = [costs.names.index(name) for name in first.order_]
    ridges = np.array(sorted([*RIDGES, order_ridge(8, (~held).sum())]))
    losses = np.empty((ridges.size, 4))
    for r, l2_regularization in enumerate(ridges):
        rows = Rows(X[~held], y[~held], groups, l2_regularization=l2_regularization, whiten=whiten)
        answers = [rows.answers(order[: t + 1], X[held])[:, 0] for t in range(4)]
        losses[r] = [0.5 * np.mean((answer - y[held]) ** 2) for answer in answers]
    n_stages = int(losses.min(axis=0).argmin()) + 1
    assert model.order_ == first.order_[:n_stages]
    assert_array_equal(model.l2_regularization_, ridges[losses.argmin(axis=0)[:n_stages]])
    before = 0.5 * np.mean((y[~held].mean() - y[held]) ** 2)
    assert_allclose(-model.plan_.quality, [before, *losses.min(axis=0)[:n_stages]], rtol=1e-8)
    for t, answer in enumerate(model.stages(X)):
        rows = Rows(
            X, y, groups, l2_regularization=model.l2_regularization_[t - 1] if t else 0.0, whiten=whiten
        )
        assert_allclose(answer.scores, rows.answers(order[:t], X), rtol=1e-7)
    assert_array_equal(model.certificate_.selection.order, order[:n_stages])  # it ends with the model


def test_noise_ends_a_sequence_early_and_many_columns_for_few_rows_ask_for_more_ridge():
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 30))
    clean, noisy = X @ random.normal(size=30), X[:, 0] + 30 * random.normal(size=300)
    assert Regressor(random_state=0).fit(X, clean).n_stages_ == 30
    assert np.mean([Regressor(random_state=seed).fit(X, noisy).n_stages_ for seed in range(8)]) < 15
    weights, last = random.normal(size=120), {}
    for n in (150, 3000):
        ridges = []
        for seed in range(8):
            wide = random.normal(size=(n, 120))
            model = Regressor(random_state=seed).fit(wide, wide @ weights + 10 * random.normal(size=n))
            ridges.append(model.l2_regularization_[-1])
        last[n] = np.exp(np.mean(np.log(ridges)))
    assert last[150] > 3 * last[3000]


def test_a_number_is_the_ridge_of_every_prefix():
    assert_array_equal(
        Regressor(costs=COSTS, l2_regularization=0.25).fit(X, Y).l2_regularization_, np.full(4, 0.25)
    )
    assert_array_equal(
        Classifier(costs=COSTS, l2_regularization=0.25).fit(X, LABELS).l2_regularization_, np.full(4, 0.25)
    )


def test_with_too_few_rows_to_hold_out_a_plain_ridge_is_taken():
    assert_array_equal(Regressor(random_state=0).fit(X[:30], Y[:30]).l2_regularization_, 1e-3)
    assert_array_equal(Classifier(random_state=0).fit(X[:30], LABELS[:30]).l2_regularization_, 1e-3)
    assert Regressor(random_state=0).fit(X[:30], Y[:30]).plan_.quality is None


def test_a_classifier_ends_where_it_does_best_on_held_out_rows():
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 12))
    model = Classifier(random_state=0).fit(X, X[:, 0] + 0.5 * random.normal(size=300) > 0)
    quality = model.plan_.quality
    assert quality.argmax() == model.n_stages_ == len(model.order_) < 12
    assert model.order_[0] == "x0"


# ---------------------------------------------------------------------- a long fit


def test_progress_is_told_and_an_interrupt_keeps_what_was_bought(capsys, monkeypatch):
    from anytime.linear import smooth

    model = Regressor(costs=COSTS, loss="huber", l2_regularization=0.1, verbose=1).fit(X, Y)
    told = capsys.readouterr().err
    assert told.count("\n") == 4
    assert f"group 1 of 4: {model.order_[0]!r}, risk lower by" in told
    bought = []
    add = smooth._Pursuit.add

    def interrupted(self, element):
        if len(bought) == 2:
            raise KeyboardInterrupt
        bought.append(element)
        add(self, element)

    monkeypatch.setattr(smooth._Pursuit, "add", interrupted)
    with pytest.warns(UserWarning, match="interrupted: the model has the first 2 of 4 groups"):
        short = Regressor(costs=COSTS, loss="huber", l2_regularization=0.1).fit(X, Y)
    assert short.order_ == model.order_[:2]
    assert short.certificate_ is None
    assert_array_equal(short.predict(X), model.predict(X, budget=model.stage_costs_[1]))
    monkeypatch.setattr(
        smooth._Pursuit, "add", lambda self, element: (_ for _ in ()).throw(KeyboardInterrupt)
    )
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    assert model.n_stages_ == 4


def test_bounded_weights_stay_within_their_ball_and_have_no_certificate():
    """The ball is that of the weights of standardised columns, for targets in units of their deviation."""
    model = Regressor(costs=COSTS, norm_bound=0.2, l2_regularization=0.0, whiten="criterion").fit(X, Y)
    assert model.certificate_ is None
    for t, table in enumerate(model.plan_.blocks[0].coefficients):
        own = X[:, columns_of(model, t + 1)].std(axis=0)
        assert np.linalg.norm(table[:, 0] * own) == pytest.approx(0.2 * Y.std())
    loose = Regressor(costs=COSTS, norm_bound=1e6, l2_regularization=0.0).fit(X, Y)
    assert_allclose(loose.predict(X), LinearRegression().fit(X, Y).predict(X), rtol=1e-6)


@pytest.mark.parametrize(
    "options", [{"norm_bound": 0.5, "l2_regularization": 0.0}, {"loss": "huber", "l2_regularization": 0.01}]
)
def test_the_unit_of_the_target_changes_nothing(options):
    """L7 on the paths that go by refits."""
    model = Regressor(costs=COSTS, **options).fit(X, Y)
    other = Regressor(costs=COSTS, **options).fit(X, 1000.0 * Y + 7.0)
    assert other.order_ == model.order_
    assert_allclose(other.predict(X, budget=4.0), 1000.0 * model.predict(X, budget=4.0) + 7.0, rtol=1e-6)


def test_a_truncated_model_has_the_certificate_of_what_is_left():
    model = Regressor(l2_regularization=0.01).fit(X, Y)
    budget = float(model.stage_costs_[1])
    smaller = model.truncate(budget)
    assert smaller.l2_regularization_.size == smaller.n_stages_ == 2
    certificate = smaller.certificate_
    assert_allclose(certificate.reached(np.inf), model.certificate_.reached(budget))
    assert certificate.ceiling(budget) >= certificate.reached(budget)


def test_infinite_values_are_refused_by_predictions_too():
    model = Regressor(costs=COSTS, l2_regularization=0.01).fit(X, Y)
    strange = X[:3].copy()
    strange[1, 2] = np.inf
    with pytest.raises(ValueError, match="is infinite"):
        model.predict(strange)


def test_missing_labels_are_named():
    labels = np.array(["a", "b"] * (len(X) // 2), dtype=object)
    labels[5] = None
    with pytest.raises(ValueError, match="y is missing in 1 rows, first in row 5"):
        Classifier(l2_regularization=0.1).fit(X, labels)


def test_a_session_ends_where_a_group_cannot_be_had():
    """Every later refit needs the group too: the answer is that of the stage before, and says so."""
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    model = Regressor(l2_regularization=0.01).fit(frame, Y)
    broken = model.order_[2]

    def extractor(name):
        def value(row):
            if name == broken:
                raise RuntimeError("down")
            return row[name]

        return value

    features = at.Features({name: extractor(name) for name in frame.columns})
    session = at.Session(model, features)
    answer = session.predict(frame.iloc[0].to_dict())
    assert answer.stage == 2
    assert not answer.complete
    assert broken in answer.failures
    assert session.reason == "failed"
    assert answer.prediction == pytest.approx(model.predict(frame[:1], budget=2.0)[0])
