"""Ensembles of models of growing cost: linear_and_networks 8.1, for members of all families."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import Ridge
from sklearn.model_selection import cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.class_weight import compute_sample_weight

import anytime as at
from anytime.blocks import FunctionBlock
from anytime.engine import Run
from anytime.estimator import AnytimeModel
from anytime.faces import ClassifierFace
from anytime.networks.ensemble import adopted_outputs
from anytime.networks.member import MemberBlock
from anytime.plan import Plan

X, Y, COSTS = at.datasets.load("breast_cancer")
LEARN, JUDGE, NEW = np.arange(0, 200), np.arange(200, 380), np.arange(380, 569)
DATA_R = at.datasets.load("diabetes")
XR, YR, COSTS_R = DATA_R


def boosted(n: int) -> at.GradientBoostingClassifier:
    return at.GradientBoostingClassifier(
        n_estimators=n, max_leaf_nodes=4, costs=COSTS, evaluation_cost=0.1, random_state=0
    ).fit(X[LEARN], Y[LEARN])


@pytest.fixture(scope="module")
def members():
    return [boosted(n) for n in (3, 9, 27)]


@pytest.fixture(scope="module")
def ensemble(members):
    return at.ExponentialEnsemble(members).fit(X[JUDGE], Y[JUDGE])


def outputs_of(model, rows):
    """(S, n, C) Probabilities after each stage of a model of ours, or the only ones of another."""
    if not isinstance(model, AnytimeModel):
        return model.predict_proba(rows)[None]
    return np.array([answer.probabilities for answer in model.stages(rows)][1:])


class Given(ClassifierFace, AnytimeModel):
    """A fitted model around a plan."""

    def __init__(self, plan, *, costs=None, budget=None, meter="model", n_jobs=None):
        self.plan, self.costs, self.budget, self.meter, self.n_jobs = plan, costs, budget, meter, n_jobs
        self.plan_, self.n_features_in_, self.classes_ = plan, plan.n_features, np.array([0, 1])


def staged(functions, evaluation=None, prices=(1.0, 1.0)):
    """A model whose stages each replace the answer by what a function says."""
    bound = at.FeatureCosts(list(prices)).bind(len(prices))
    blocks = [FunctionBlock(np.arange(len(prices)), function) for function in functions]
    return Given(
        Plan(
            blocks=blocks,
            costs=bound,
            base=np.zeros(1),
            link="logistic",
            replaces=np.ones(len(functions), dtype=bool),
            evaluation_costs=evaluation,
        )
    )


# ---------------------------------------------------------------------- the mask


def test_an_output_is_adopted_if_it_is_better_than_the_best_before(ensemble, members):
    """8.1: walk through outputs in the order of time; the obvious way, on the validation rows."""
    best, adopted, errors = np.mean(Y[JUDGE] != members[0].predict(X[JUDGE], budget=0)), [], []
    for member in members:
        for answer in list(member.stages(X[JUDGE]))[1:]:
            error = np.mean(answer.prediction != Y[JUDGE])
            errors.append(error)
            adopted.append(error < best)
            best = min(best, error)
    np.testing.assert_array_equal(np.concatenate(ensemble.adopted_), adopted)
    np.testing.assert_allclose(np.concatenate(ensemble.validation_errors_), errors)
    assert 0 < sum(adopted) < len(adopted)


def test_validation_errors_of_stages_strictly_decrease(ensemble):
    errors = [np.mean(answer.prediction != Y[JUDGE]) for answer in ensemble.stages(X[JUDGE])]
    assert (np.diff(errors) < 0).all()
    np.testing.assert_allclose(ensemble.plan_.quality, np.negative(errors))
    assert len(errors) > 3


def test_the_mask_is_the_same_for_all_rows_and_is_not_chosen_anew(ensemble, members):
    """8.1: never per sample. On other rows the same outputs follow each other, though errors do not always fall there."""
    own = np.concatenate([outputs_of(member, X[NEW]) for member in members])
    expected = own[np.concatenate(ensemble.adopted_)]
    found = np.array([answer.probabilities for answer in ensemble.stages(X[NEW])][1:])
    np.testing.assert_array_equal(found, expected)
    errors = np.mean(found.argmax(axis=2) != Y[NEW], axis=1)
    assert (np.diff(errors) >= 0).any()


def test_a_worse_member_is_never_adopted_and_costs_nothing(members):
    """Negative control: it stands last and has learned from shuffled labels."""
    shuffled = np.random.default_rng(0).permutation(Y[LEARN])
    bad = clone(members[-1]).set_params(n_estimators=60).fit(X[LEARN], shuffled)
    model = at.ExponentialEnsemble([*members, bad]).fit(X[JUDGE], Y[JUDGE])
    alone = at.ExponentialEnsemble(members).fit(X[JUDGE], Y[JUDGE])
    assert not model.adopted_[-1].any()
    np.testing.assert_array_equal(model.stage_costs_, alone.stage_costs_)
    np.testing.assert_array_equal(model.predict_proba(X[NEW]), alone.predict_proba(X[NEW]))
    # the control of the control: first in the list, where nothing better came before, it is adopted
    assert at.ExponentialEnsemble([bad, *members]).fit(X[JUDGE], Y[JUDGE]).adopted_[0].any()


def test_where_nothing_is_better_than_the_free_answer_the_best_output_is_kept():
    masks = adopted_outputs([np.array([0.5, 0.4]), np.array([0.4, np.nan])], 0.1)
    assert [mask.tolist() for mask in masks] == [[False, True], [False, False]]


def test_rows_of_more_weight_decide():
    """Two stages, right about different rows."""
    rows = np.array([[1.0, 0.0], [0.0, 1.0]])
    y = np.array([1, 1])
    model = staged([lambda X: 2 * X[:, 0] - 1, lambda X: 2 * X[:, 1] - 1])
    ensemble = at.ExponentialEnsemble([model])
    assert ensemble.fit(rows, y, sample_weight=[3, 1]).adopted_[0].tolist() == [True, False]
    assert ensemble.fit(rows, y, sample_weight=[1, 3]).adopted_[0].tolist() == [True, True]


# ---------------------------------------------------------------------- members of all kinds

FAMILIES = {
    "boosting": lambda: boosted(5),
    "a forest": lambda: at.make_anytime(
        RandomForestClassifier(7, max_depth=3, random_state=0).fit(X[LEARN], Y[LEARN]), costs=COSTS
    ),
    "a refitted table": lambda: at.AdditiveSpeedBoostClassifier(
        n_estimators=5, costs=COSTS, random_state=0
    ).fit(X[LEARN], Y[LEARN]),
    "replacing models": lambda: at.SpeedBoostClassifier(
        n_estimators=10, max_stages=3, costs=COSTS, random_state=0
    ).fit(X[LEARN], Y[LEARN]),
    "a linear pursuit": lambda: at.GroupPursuitClassifier(costs=COSTS).fit(X[LEARN], Y[LEARN]),
    "filters": lambda: at.CascadeClassifier(max_stages=4, n_estimators=10, costs=COSTS, random_state=0).fit(
        X[LEARN], Y[LEARN]
    ),
    "gates": lambda: at.AdaptiveClassifier(
        RandomForestClassifier(5, random_state=0), n_estimators=5, costly_folds=2, costs=COSTS, random_state=0
    ).fit(X[LEARN], Y[LEARN]),
    "purchases row by row": lambda: at.MarginAcquisitionClassifier(costs=COSTS, random_state=0).fit(
        X[LEARN], Y[LEARN]
    ),
    "another library": lambda: KNeighborsClassifier(3).fit(X[LEARN], Y[LEARN]),
    "an ensemble": lambda: at.ExponentialEnsemble([boosted(2), boosted(4)]).fit(X[JUDGE], Y[JUDGE]),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_an_ensemble_of_one_answers_as_its_member_does(family, tmp_path):
    """At every output, in one go or in pieces, and after a file."""
    member = FAMILIES[family]()
    model = at.ExponentialEnsemble([member], costs=COSTS).fit(X[JUDGE], Y[JUDGE])
    expected = outputs_of(member, X[NEW])[model.adopted_[0]]
    found = np.array([answer.probabilities for answer in model.stages(X[NEW])][1:])
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(model.predict_proba(X[NEW]), expected[-1])
    run = Run(model.plan_, X[NEW], metered=True)
    random = np.random.default_rng(0)
    while not run.complete.all():
        run.advance(np.minimum(run.done + random.integers(0, 2, len(NEW)), model.n_stages_))
    np.testing.assert_array_equal(run.scores(), model.answer(X[NEW]).scores)
    if family != "another library":
        model.save(tmp_path / "model.anytime")
        again = at.load(tmp_path / "model.anytime")
        np.testing.assert_array_equal(again.predict_proba(X[NEW]), expected[-1])
        np.testing.assert_array_equal(again.adopted_[0], model.adopted_[0])
        np.testing.assert_array_equal(again.validation_errors_[0], model.validation_errors_[0])


def test_members_with_other_scores_meet_as_probabilities():
    """Log-odds of boosting, means of a forest's shares, and an SVM that has labels only."""
    forest = RandomForestClassifier(9, max_depth=2, random_state=0).fit(X[LEARN], Y[LEARN])
    svm = SVC(gamma="scale", C=10.0).fit(X[LEARN], Y[LEARN])
    models = [(forest, 1.0), boosted(40), (svm, 50.0)]
    model = at.ExponentialEnsemble(models, costs=COSTS).fit(X[JUDGE], Y[JUDGE])
    assert model.plan_.link == "probability"
    shares = np.cumsum([tree.predict_proba(X[NEW]) for tree in forest.estimators_], axis=0)
    answers = [*shares / np.arange(1, 10)[:, None, None], *outputs_of(models[1], X[NEW])]
    answers.append(svm.predict(X[NEW])[:, None] == svm.classes_)
    expected = [answers[i] for i in np.flatnonzero(np.concatenate(model.adopted_))]
    found = [answer.probabilities for answer in model.stages(X[NEW])][1:]
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert [mask.any() for mask in model.adopted_][:2] == [True, True]


def test_regressors():
    """Squared errors decide; a model with a logarithmic link stands beside linear ones."""
    half = np.arange(0, len(YR), 2)
    linear = at.GroupPursuitRegressor(costs=COSTS_R, random_state=0).fit(XR[half], YR[half])
    trees = at.GradientBoostingRegressor(n_estimators=30, costs=COSTS_R, random_state=0).fit(
        XR[half], YR[half]
    )
    rest = np.arange(1, len(YR), 2)
    model = at.ExponentialEnsemble([linear, (Ridge().fit(XR[half], YR[half]), 3.0), trees])
    assert type(model).__name__ == "ExponentialEnsembleRegressor"
    model.fit(XR[rest], YR[rest])
    values = [answer.prediction for answer in linear.stages(XR[rest])][1:]
    np.testing.assert_allclose(
        model.validation_errors_[0], [np.mean((value - YR[rest]) ** 2) for value in values]
    )
    assert model.score(XR[rest], YR[rest]) > 0.3
    assert not hasattr(model, "predict_proba")


def test_categories_are_read_as_members_read_them():
    import pandas as pd

    random = np.random.default_rng(0)
    colours = random.choice(["red", "green", "blue"], size=300)
    table = pd.DataFrame({"colour": pd.Categorical(colours), "size": random.normal(size=300)})
    y = np.where(colours == "red", table["size"] > 0, table["size"] < 0)
    small, large = (
        at.GradientBoostingClassifier(n_estimators=n, random_state=0).fit(table[:150], y[:150])
        for n in (2, 30)
    )
    model = at.ExponentialEnsemble([small, large]).fit(table[150:], y[150:])
    assert model.score(table[150:], y[150:]) > 0.9
    assert model.predict_one({"colour": "red", "size": 1.0})
    numbers = at.GroupPursuitClassifier().fit(table.assign(colour=table["colour"].cat.codes)[:150], y[:150])
    with pytest.raises(ValueError, match="read columns differently"):
        at.ExponentialEnsemble([numbers, large]).fit(table[150:], y[150:])


def test_a_member_that_makes_numbers_of_its_own_of_categories_is_refused():
    import pandas as pd

    random = np.random.default_rng(0)
    table = pd.DataFrame(
        {"colour": random.choice(["red", "green"], size=200), "size": random.normal(size=200)}
    )
    y = (table["size"] > 0).to_numpy()
    stream = at.StreamingBoostClassifier(n_estimators=2, random_state=0).fit(table, y)
    with pytest.raises(ValueError, match="member 1 encodes categories by itself"):
        at.ExponentialEnsemble([stream]).fit(table, y)
    plain = at.StreamingBoostClassifier(n_estimators=2, random_state=0).fit(table[["size"]], y)
    model = at.ExponentialEnsemble([plain]).fit(table[["size"]], y)
    np.testing.assert_array_equal(model.predict(table[["size"]]), plain.predict(table[["size"]]))


def test_labels_that_no_member_knows_are_refused(members):
    with pytest.raises(
        ValueError, match=r"no label of the validation rows, such as .*ill.*among the classes"
    ):
        at.ExponentialEnsemble(members).fit(X[JUDGE], np.where(Y[JUDGE], "ill", "well"))


# ---------------------------------------------------------------------- costs


def test_evaluation_adds_up_and_a_group_is_paid_once(ensemble, members):
    """8.1: every member restarts from the input, so that what it computes is paid again; what was bought is there."""
    spent, bought, expected = 0, set(), []
    for member, adopted in zip(members, ensemble.adopted_, strict=True):
        last = np.flatnonzero(adopted)
        for s, stage in enumerate(member.plan_):
            if not last.size or s > last[-1]:
                break  # what comes behind the last adopted output is never run
            spent += stage.cost
            bought |= set(stage.groups)
            if adopted[s]:
                expected.append(spent + COSTS.price(bought))
    np.testing.assert_allclose(ensemble.stage_costs_, expected)
    np.testing.assert_array_equal(ensemble.cost(X[NEW]), ensemble.stage_costs_[-1])


def test_costs_are_those_of_the_schedule():
    """8.1: output (k, i) is there at the sum of the costs of the members before, plus cost_k(i)."""
    rows, y = np.arange(16.0)[:, None], np.array([0, 1] * 8)

    def right_about(n):
        return lambda X: np.where(X[:, 0] < n, 2 * (X[:, 0] % 2) - 1, 1 - 2 * (X[:, 0] % 2))

    counts = [[9, 10], [11, 10, 13], [13, 12, 16]]
    models = [
        staged([right_about(n) for n in listed], np.array([1.0, 1, 2])[-len(listed) :] * 3**k, prices=[0.0])
        for k, listed in enumerate(counts)
    ]
    model = at.ExponentialEnsemble([(models[0], 3), models[1], models[2]]).fit(rows, y)
    schedule = at.networks.output_schedule([[1.0, 3.0], [3.0, 6.0, 12.0], [9.0, 18.0, 36.0]])
    adopted = np.array([True, True, True, False, True, False, False, True])
    np.testing.assert_array_equal(np.concatenate(model.adopted_), adopted)
    np.testing.assert_allclose(model.stage_costs_, np.array([output.time for output in schedule])[adopted])


def test_a_price_is_spread_over_the_stages(members):
    priced = at.ExponentialEnsemble([(members[1], 2.7)]).fit(X[JUDGE], Y[JUDGE])
    last = np.flatnonzero(priced.adopted_[0])[-1]
    assert priced.plan_.evaluation_costs.sum() == pytest.approx(2.7 * (last + 1) / 9)
    forest = RandomForestClassifier(3, random_state=0).fit(X[LEARN], Y[LEARN])
    whole = at.ExponentialEnsemble([(forest, 1.0)], exits="last", costs=COSTS).fit(X[JUDGE], Y[JUDGE])
    assert whole.plan_.evaluation_costs.tolist() == [1.0]


def test_a_budget_is_a_cap_and_buys_the_last_output_that_fits(ensemble):
    for meter in ("model", "realised"):
        model = clone(ensemble).set_params(meter=meter)
        model.__dict__ |= {name: value for name, value in vars(ensemble).items() if name.endswith("_")}
        for s, cost in enumerate(ensemble.stage_costs_):
            answer = model.answer(X[NEW], budget=cost)
            assert (answer.cost <= cost).all()
            assert (answer.stage == s + 1).all()
            assert (model.answer(X[NEW], budget=cost - 0.05).stage <= s).all()


def test_going_on_computes_nothing_twice():
    """Rows go on by different steps; each stage of each member is computed once for each row."""
    seen: dict[int, int] = {}

    def counting(number, quality):
        def function(X):
            seen[number] = seen.get(number, 0) + len(X)
            return np.where(X[:, 0] < quality, 1.0, -1.0)

        return function

    rows = np.linspace(0, 1, 40)[:, None] * np.ones((1, 2))
    y = (rows[:, 0] < 0.8).astype(int)
    first = staged([counting(n, q) for n, q in enumerate([0.1, 0.3, 0.2, 0.5])])
    second = staged([counting(n, q) for n, q in enumerate([0.3, 0.6, 0.8], 4)])
    # stages of a member add up, so that one that is not adopted is still on the way
    first.plan_ = replace(first.plan_, replaces=None)
    second.plan_ = replace(second.plan_, replaces=None)
    model = at.ExponentialEnsemble([first, second]).fit(rows, y)
    used = [int(np.flatnonzero(mask)[-1]) + 1 for mask in model.adopted_]
    seen.clear()
    run = Run(model.plan_, rows, metered=True)
    random = np.random.default_rng(1)
    while not run.complete.all():
        run.advance(np.minimum(run.done + random.integers(0, 2, len(rows)), model.n_stages_))
    assert model.n_stages_ < 7
    assert seen == dict.fromkeys([*range(used[0]), *range(4, 4 + used[1])], 40)


# ---------------------------------------------------------------------- reference constructions


def test_plain_members_answer_at_their_ends_only(members):
    """8.1: the exponential ensemble of ordinary networks is the same class."""
    model = at.ExponentialEnsemble(members, exits="last").fit(X[JUDGE], Y[JUDGE])
    for mask, errors in zip(model.adopted_, model.validation_errors_, strict=True):
        assert not mask[:-1].any()
        assert np.isnan(errors[:-1]).all()
    assert model.n_stages_ == sum(mask.any() for mask in model.adopted_)


def test_a_linear_ensemble_is_another_list_of_members():
    """8.1: sizes that grow linearly; what is spent before the last member begins is far more than with doubling."""
    linear, doubling = (
        at.ExponentialEnsemble(
            [at.GroupPursuitClassifier(costs=COSTS), *[boosted(n) for n in sizes]],
            exits="last",
            random_state=0,
        ).fit(X[JUDGE], Y[JUDGE])
        for sizes in ([4, 8, 12, 16, 20, 24, 28, 32], [4, 8, 16, 32])
    )
    assert isinstance(linear, at.ExponentialEnsemble)
    assert len(linear.members_) == 9
    last = np.flatnonzero([mask.any() for mask in linear.adopted_])[-1]
    assert linear.stage_costs_[-1] >= COSTS.price(linear.order_) + 0.1 * 4 * last / 2
    sup = at.networks.cost_inflation(2, "ordinary").sup
    budgets = np.linspace(4, 2000, 5000)
    ends = [[[n] for n in sizes] for sizes in (range(4, 400, 4), [4 * 2**k for k in range(9)])]
    by_line, by_doubling = (at.networks.inflation_at(budgets, listed, b=2) for listed in ends)
    assert by_doubling.max() <= sup < by_line.max()
    assert doubling.n_stages_ <= 5


# ---------------------------------------------------------------------- as every model


def test_deadline_and_stop_flag_leave_an_adopted_answer():
    seconds = 0.0

    def slow(quality):
        def function(X):
            time.sleep(seconds)
            return np.where(X[:, 0] < quality, 1.0, -1.0)

        return function

    rows = np.linspace(0, 1, 20)[:, None] * np.ones((1, 2))
    y = (rows[:, 0] < 0.8).astype(int)
    model = at.ExponentialEnsemble([staged([slow(0.2)]), staged([slow(0.4), slow(0.8)])]).fit(rows, y)
    assert model.n_stages_ == 3
    one = rows[:1]
    assert model.answer(one, deadline=60.0).stage[0] == 3
    assert model.answer(one, deadline=0.0).stage[0] == 0
    seconds = 0.5
    assert model.answer(one, deadline=0.4).stage[0] == 1  # what was begun is done
    stop = threading.Event()
    stop.set()
    assert model.answer(one, stop=stop).stage[0] == 0


def test_session_buys_features_when_a_member_asks(ensemble):
    names = COSTS.names
    columns = ensemble.plan_.costs.column_group
    asked = []

    def extractor(g):
        def extract(row):
            asked.append(names[g])
            return row[columns == g]

        return extract

    session = at.Session(ensemble, at.Features({name: extractor(g) for g, name in enumerate(names)}))
    cheap = session.predict(X[0], budget=float(ensemble.stage_costs_[0]))
    assert cheap.stage == 1
    assert sorted(asked) == sorted(cheap.groups)
    asked.clear()
    answer = session.predict(X[0])
    assert answer.prediction == ensemble.predict(X[:1])[0]
    assert answer.cost == pytest.approx(ensemble.stage_costs_[-1])
    assert len(asked) == len(set(asked))


def test_truncate_curve_and_compare(ensemble, members):
    middle = float(ensemble.stage_costs_[len(ensemble.stage_costs_) // 2])
    small = ensemble.truncate(middle)
    np.testing.assert_array_equal(small.predict_proba(X[NEW]), ensemble.predict_proba(X[NEW], budget=middle))
    assert small.stage_costs_[-1] <= middle
    curve = at.curve(ensemble, X[NEW], Y[NEW])
    assert curve.at(middle) == pytest.approx(np.mean(small.predict(X[NEW]) == Y[NEW]))
    comparison = at.compare({"ensemble": ensemble, "largest": members[-1]}, X[NEW], Y[NEW])
    assert set(comparison.curves) == {"ensemble", "largest"}


def test_one_row_is_answered_without_the_members_that_are_replaced(ensemble):
    row = np.ascontiguousarray(X[NEW[0]])
    for budget in [None, *ensemble.stage_costs_.tolist()]:
        assert ensemble.predict_one(row, budget=budget) == ensemble.predict(row[None], budget=budget)[0]


def test_a_file_holds_no_estimator(ensemble, members, tmp_path):
    ensemble.save(tmp_path / "model.anytime")
    again = at.load(tmp_path / "model.anytime")
    assert again.members is None
    assert type(again) is type(ensemble)
    for before, after in zip(ensemble.stages(X[NEW]), again.stages(X[NEW]), strict=True):
        np.testing.assert_array_equal(after.scores, before.scores)
        np.testing.assert_array_equal(after.cost, before.cost)
    with pytest.raises(ValueError, match="there are no members"):
        again.fit(X[JUDGE], Y[JUDGE])
    plain = at.ExponentialEnsemble([GaussianNB().fit(X[LEARN], Y[LEARN])], costs=COSTS).fit(
        X[JUDGE], Y[JUDGE]
    )
    with pytest.raises(TypeError, match="holds a Python function and cannot be saved"):
        plain.save(tmp_path / "plain.anytime")


# ---------------------------------------------------------------------- fitting members


def test_members_that_are_not_fitted_are_fitted_on_rows_that_do_not_judge_them():
    fresh = [at.GradientBoostingClassifier(n_estimators=n, random_state=0) for n in (2, 20)]
    model = at.ExponentialEnsemble(fresh, random_state=0).fit(X[LEARN], Y[LEARN])
    assert not hasattr(fresh[0], "plan_")
    full = [clone(member).fit(X[LEARN], Y[LEARN]) for member in fresh]
    assert not np.array_equal(model.members_[1].predict_proba(X), full[1].predict_proba(X))
    given = at.ExponentialEnsemble(fresh).fit(X[LEARN], Y[LEARN], X_val=X[JUDGE], y_val=Y[JUDGE])
    fitted = at.ExponentialEnsemble(full).fit(X[JUDGE], Y[JUDGE])
    np.testing.assert_array_equal(given.predict_proba(X), fitted.predict_proba(X))
    with pytest.raises(ValueError, match="unfitted members need validation rows"):
        at.ExponentialEnsemble(fresh, validation_fraction=None).fit(X[LEARN], Y[LEARN])


def test_fitted_members_are_taken_as_they_are(ensemble, members):
    assert all(kept is member for kept, member in zip(ensemble.members_, members, strict=True))
    assert cross_val_score(ensemble, X[LEARN], Y[LEARN], cv=3).mean() > 0.8  # clones are fitted anew


def test_a_fit_that_fails_leaves_the_model_as_it_was(members):
    model = at.ExponentialEnsemble(members).fit(X[JUDGE], Y[JUDGE])
    before = model.predict_proba(X[NEW])
    with pytest.raises(ValueError, match="fitted on 30 columns, but X has 4"):
        model.fit(X[JUDGE][:, :4], Y[JUDGE])
    np.testing.assert_array_equal(model.predict_proba(X[NEW]), before)


def fitted(model, columns=slice(None), y=Y):
    return model.fit(X[LEARN][:, columns], y[LEARN])


@pytest.mark.parametrize(
    ("models", "error", "message"),
    [
        (list, ValueError, "there are no members"),
        (lambda: [GaussianNB], TypeError, "member 1 must be a model"),
        (lambda: [(GaussianNB(), -1.0)], ValueError, "price of member 1"),
        (lambda: [(GaussianNB(), np.inf)], ValueError, "price of member 1"),
        (lambda: [GaussianNB(), Ridge()], TypeError, "member 2, a Ridge, is not a classifier"),
        (lambda: [Ridge(), GaussianNB()], TypeError, "member 2, a GaussianNB, is not a regressor"),
        (
            lambda: [fitted(GaussianNB()), fitted(DecisionTreeClassifier(), y=np.where(Y, "ill", "well"))],
            ValueError,
            "members 1 and 2 have different classes",
        ),
        (
            lambda: [boosted(2), fitted(at.GradientBoostingClassifier(n_estimators=2))],
            ValueError,
            "members 1 and 2 have different prices: give costs",
        ),
        (
            lambda: [fitted(GaussianNB()), fitted(DecisionTreeClassifier(), slice(5))],
            ValueError,
            "member 2 was fitted on 5 columns, but X has 30",
        ),
        (
            lambda: [boosted(5).set_params(meter="realised").truncate(20)],
            ValueError,
            "member 1 was truncated by realised cost",
        ),
        (lambda: [boosted(5).truncate(0)], ValueError, "member 1 has no stage"),
    ],
)
def test_members_that_do_not_go_together_are_refused(models, error, message):
    with pytest.raises(error, match=message):
        at.ExponentialEnsemble(models()).fit(X[JUDGE], Y[JUDGE])


def test_prices_that_are_given_count_for_all():
    other = fitted(at.GradientBoostingClassifier(n_estimators=2, max_leaf_nodes=4, random_state=0))
    model = at.ExponentialEnsemble([boosted(2), other], costs=COSTS).fit(X[JUDGE], Y[JUDGE])
    assert model.costs_ == COSTS


def test_a_model_of_another_library_has_the_prices_of_the_others():
    forest = fitted(DecisionTreeClassifier(random_state=0))
    model = at.ExponentialEnsemble([forest, boosted(2), fitted(GaussianNB())]).fit(X[JUDGE], Y[JUDGE])
    assert model.costs_ == COSTS
    assert at.ExponentialEnsemble([forest]).fit(X[JUDGE], Y[JUDGE]).costs_.total == X.shape[1]


def test_half_of_the_validation_rows_is_refused(members):
    with pytest.raises(ValueError, match="give X_val and y_val together"):
        at.ExponentialEnsemble(members).fit(X[JUDGE], Y[JUDGE], X_val=X[NEW])


def test_a_dummy_is_adopted_at_most_before_anything_better(members):
    dummy = DummyClassifier().fit(X[LEARN], Y[LEARN])
    model = at.ExponentialEnsemble([*members, (dummy, 1.0)], costs=COSTS).fit(X[JUDGE], Y[JUDGE])
    assert not model.adopted_[-1].any()


@pytest.mark.parametrize("ends", [[], [0, 1], [2, 2], [1, 99]])
def test_outputs_of_a_member_grow(members, ends):
    with pytest.raises(ValueError, match="outputs of a member grow from stage 1 to 3"):
        MemberBlock(members[0].plan_, ends)


@pytest.mark.parametrize("class_weight", ["balanced", {0: 1.0, 1: 7.0}])
def test_class_weights_multiply_those_of_rows(class_weight):
    """Where members are fitted and where their outputs are judged, on rows held out or given."""
    rows = np.random.default_rng(0).integers(1, 4, size=LEARN.size).astype(float)
    by_class = compute_sample_weight(class_weight, Y[LEARN])
    fresh = [DecisionTreeClassifier(max_depth=depth, random_state=0) for depth in (1, 3)]
    for held_out in ({}, {"X_val": X[JUDGE], "y_val": Y[JUDGE]}):
        weighed = at.ExponentialEnsemble(fresh, class_weight=class_weight, random_state=0)
        weighed.fit(X[LEARN], Y[LEARN], rows, **held_out)
        plain = at.ExponentialEnsemble(fresh, random_state=0).fit(
            X[LEARN], Y[LEARN], rows * by_class, **held_out
        )
        for one, other in zip(weighed.members_, plain.members_, strict=True):
            assert np.array_equal(one.predict_proba(X[NEW]), other.predict_proba(X[NEW]))
        if not held_out:
            assert np.array_equal(
                np.concatenate(weighed.validation_errors_), np.concatenate(plain.validation_errors_)
            )
    wrong = weighed.members_[-1].predict(X[JUDGE]) != Y[JUDGE]
    judged = np.average(wrong, weights=compute_sample_weight(class_weight, Y[JUDGE]))
    assert weighed.validation_errors_[-1][-1] == pytest.approx(judged)
    assert judged != pytest.approx(wrong.mean())


def test_regressors_and_members_that_take_no_weights_say_so():
    with pytest.raises(TypeError, match="ExponentialEnsembleRegressor has no parameter 'class_weight'"):
        at.ExponentialEnsemble([Ridge()], class_weight="balanced")
    with pytest.raises(ValueError, match="KNeighborsClassifier takes no sample_weight: fit it beforehand"):
        at.ExponentialEnsemble([KNeighborsClassifier()], class_weight="balanced").fit(X[LEARN], Y[LEARN])
