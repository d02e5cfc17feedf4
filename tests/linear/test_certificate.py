"""What is certified of fitted models, against all sets of groups; and certificates as objects."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import anytime as at
from anytime.greedy import greedy
from anytime.greedy.certificate import Certificate
from anytime.linear.smooth import SmoothObjective
from tests.reference.greedy import least_squares, members, random_costs
from tests.reference.linear import Rows, random_problem

SLACK = 1e-9
START = np.array([0, 2, 3, 5, 6, 8])  # five groups of eight columns


def holds(value, bound):
    return bool((value >= bound - SLACK * np.maximum(1.0, np.abs(bound))).all())


# ---------------------------------------------------------------------- certificates of models


def all_sets(model, X, y, weight=None):
    """(cost, share of the risk removed) of every set of groups with columns, by solving for each."""
    costs = model.costs_
    names = [name for name in costs.names if costs.groups[name]]
    rows = Rows(X, y, [costs.groups[name] for name in names], weight=weight)
    columns = np.concatenate([costs.groups[name] for name in names]).astype(int)
    start = np.cumsum([0, *(len(costs.groups[name]) for name in names)])
    S, V = rows.second_moment(rows.Z[:, columns]), rows.second_moment(rows.Z[:, columns], rows.T)
    penalty = "groups" if model.whiten == "data" else "identity"
    table = sum(least_squares(S, v, model.l2_regularization, start, penalty) for v in V.T)
    paid = [costs.price([names[g] for g in np.flatnonzero(s)]) for s in members(len(names))]
    return np.array(paid), table / (0.5 * np.trace(rows.second_moment(rows.T)))


def best_within(paid, shares, budgets):
    return np.array([shares[paid <= b * (1 + 1e-12)].max() for b in budgets])


def price_list(random, shape):
    """Eight columns in five groups: with prices of their own, free ones, or steps and requirements that they share."""
    columns = random.permutation(8)
    groups = {f"g{g}": columns[START[g] : START[g + 1]].tolist() for g in range(5)}
    prices = {name: float(price) for name, price in zip(groups, random_costs(random, 5), strict=True)}
    if shape == "plain":
        return at.FeatureCosts(prices, groups=groups)
    if shape == "free":
        return at.FeatureCosts({**prices, "g1": 0.0, "g4": 0.0}, groups=groups)
    requires = {"g0": ["step"], "g1": ["step", "g2"], "g3": ["other"], "g4": ["other", "step"]}
    return at.FeatureCosts(
        {**prices, "step": 5.0, "other": 2.5},
        groups={**groups, "step": [], "other": []},
        requires={name: requires.get(name, []) for name in groups},
    )


SETTINGS = {
    "omp": {},
    "omp in criterion": {"whiten": "criterion"},
    "no-whiten": {"whiten": False},
    "forward": {"selection": "forward"},
    "forward in criterion": {"selection": "forward", "whiten": "criterion"},
    "single": {"selection": "single"},
    "single in criterion": {"selection": "single", "whiten": "criterion"},
    "forward single": {"selection": "forward_single"},
    "costs ignored": {"cost_aware": False},
    "doubling": {"schedule": "doubling", "selection": "forward"},
    "doubling omp": {"schedule": "doubling"},
    "lasso": {"selection": "lasso"},
}


def certified_models(name, how_many=10):
    for k in range(how_many):
        for shape in ("plain", "free", "requirements"):
            random = np.random.default_rng([41, k])
            X, y, _ = random_problem(
                random, [1] * 8, n=60, strength=random.choice([0.3, 1.0]), k=random.integers(1, 3)
            )
            model = at.GroupPursuitRegressor(
                costs=price_list(random, shape),
                l2_regularization=float(random.choice([1e-3, 0.1, 1.0])),
                **SETTINGS[name],
            )
            yield model.fit(X, y), *all_sets(model, X, y)


@pytest.mark.parametrize("name", SETTINGS)
def test_no_set_exceeds_the_ceiling_and_the_certified_share_is_below_the_true_one(name):
    """30 instances each; at every cost of a set, just below it, and beyond all. From the run alone, and by trying all sets."""
    sharp = 0
    for model, paid, shares in certified_models(name):
        costs = np.unique(paid)
        budgets = np.unique(np.concatenate([costs, costs * (1 - 1e-12), 0.7 * costs, 2 * costs[-1:]]))
        best = best_within(paid, shares, budgets)
        exact, on_line = model.certificate_, replace(model.certificate_, frontier=None)
        for certificate in (exact, on_line):
            ceiling, reached = certificate.ceiling(budgets), certificate.reached(budgets)
            assert holds(ceiling, best)
            assert holds(best, reached)
            true_share = np.divide(reached, best, out=np.ones_like(best), where=best > 0)
            assert holds(true_share, certificate.share(budgets))
            assert (np.diff(ceiling) >= -1e-15).all()
            assert ceiling[-1] == pytest.approx(best[-1])  # with money for all, all is known
        assert_allclose(exact.ceiling(budgets), best, atol=1e-10)
        sharp += on_line.share(costs[costs.size // 2]) > 0.3
    assert sharp > 3  # what the run alone tells is worth something


def test_a_dear_requirement_that_many_share_does_not_lower_the_ceiling():
    """Five results at 1 each of a procedure that costs 10: one alone is dear, but the rival buys four."""
    names = [f"result{j}" for j in range(5)]
    costs = at.FeatureCosts(
        {**dict.fromkeys(names, 1.0), "procedure": 10.0, "other": 3.0},
        groups={**{name: [j] for j, name in enumerate(names)}, "procedure": [], "other": [5]},
        requires={name: ["procedure"] for name in names},
    )
    for selection in ("omp", "forward"):
        model = at.GroupPursuitRegressor(costs=costs, selection=selection, l2_regularization=0.0)
        model.fit_moments(np.eye(6), np.sqrt([0.15, 0.15, 0.15, 0.15, 0.15, 0.05]))
        on_line = replace(model.certificate_, frontier=None)
        assert on_line.gamma == pytest.approx(1.0)
        for n_results in range(6):
            budget = 10.0 + n_results
            for certificate in (model.certificate_, on_line):
                assert certificate.ceiling(budget) >= 0.15 * n_results - 1e-12
                assert certificate.ceiling(budget + 3.0) >= 0.15 * n_results + 0.05 - 1e-12


def test_with_too_good_a_constant_the_ceiling_is_too_low():
    """A negative control: pretending that least squares is submodular, sets exceed what would be the ceiling."""
    broken = 0
    for model, paid, shares in certified_models("forward", 10):
        hopeful = model.certificate_.selection.upper_bound(paid, 1.0) / model.certificate_.risk
        broken += not holds(hopeful, shares)
    assert broken > 0


@pytest.mark.parametrize("name", SETTINGS)
def test_what_is_promised_is_kept(name):
    """Greedy: against every set, at every prefix. Doubling: against sets of a sixth of the budget, at every budget."""
    promises = 0
    for model, paid, shares in certified_models(name, 6):
        certificate = model.certificate_
        if not certificate.theory:
            assert certificate.promised(paid.max()) == certificate.promised(paid.max(), 1.0) == 0.0
            continue
        if name.startswith("doubling"):
            assert certificate.promised(paid.max(), paid.max() / 3) == 0.0
            for budget in np.unique(paid):
                kept = best_within(paid, shares, [budget / 6])[0] * certificate.promised(budget)
                assert holds(certificate.reached(budget), kept)
                promises += kept > 0
            continue
        for prefix in model.stage_costs_:
            for rival in np.unique(paid)[1:]:
                kept = best_within(paid, shares, [rival])[0] * certificate.promised(prefix, rival)
                assert holds(certificate.reached(prefix), kept)
                promises += kept > 0
    if name == "lasso":
        assert promises == 0
    assert promises > 20 or name in ("costs ignored", "lasso")


def test_nothing_is_promised_where_theory_is_silent():
    random = np.random.default_rng(0)
    X, y, _ = random_problem(random, [1] * 4)
    plain = at.GroupPursuitRegressor(costs=[1.0, 2.0, 3.0, 4.0], l2_regularization=0.1).fit(X, y)
    assert plain.certificate_.promised(10.0) > 0.3
    blind = at.GroupPursuitRegressor(costs=[1.0, 2.0, 3.0, 4.0], l2_regularization=0.1, cost_aware=False).fit(
        X, y
    )
    assert blind.certificate_.promised(10.0) == 0.0
    even = at.GroupPursuitRegressor(costs=[2.0] * 4, l2_regularization=0.1, cost_aware=False).fit(
        X, y
    )  # then costs do not matter
    assert even.certificate_.promised(8.0) > 0.3
    groups = {"a": [0], "b": [1], "c": [2], "d": [3], "step": []}
    prices = dict(zip(groups, [1.0, 2.0, 3.0, 4.0, 1.0], strict=True))
    shared = at.FeatureCosts(prices, groups=groups, requires={"a": ["step"], "b": ["step"]})
    assert (
        at.GroupPursuitRegressor(costs=shared, l2_regularization=0.1).fit(X, y).certificate_.promised(11.0)
        == 0.0
    )
    alone = at.FeatureCosts(prices, groups=groups, requires={"a": ["step"]})  # its own price, in two parts
    assert (
        at.GroupPursuitRegressor(costs=alone, l2_regularization=0.1).fit(X, y).certificate_.promised(11.0)
        > 0.3
    )
    stuck = at.GroupPursuitRegressor(
        costs=[0.1, 2.0, 8.0, 20.0], schedule="doubling", c_min=0.1, l2_regularization=0.1
    )
    certificate = stuck.fit(X, y).certificate_
    assert certificate.selection.stuck_at == 2
    assert certificate.promised(30.0) == 0.0
    assert "got stuck at step 2" in str(certificate)


LOGISTIC = {name: SETTINGS[name] for name in ("omp", "omp in criterion", "no-whiten", "single", "forward")}


def all_logistic_sets(model, X, label, groups):
    """(cost, share of the risk removed) of every set of groups."""
    names = list(model.costs_.names)
    single = model.selection == "single"  # by columns as they are, then
    rows = Rows(X, label, groups, whiten="criterion" if single else model.whiten)
    start = np.cumsum([0, *(table.shape[1] for table in rows.maps)])
    columns = rows.fitted_columns(range(len(groups)))
    objective = SmoothObjective(
        columns, label.astype(int), "logistic", l2_regularization=model.l2_regularization, tol=1e-10
    )
    values, paid = [], []
    for chosen in members(len(groups)):
        parts = [np.arange(*start[g : g + 2]) for g in np.flatnonzero(chosen)]
        own = np.concatenate([np.empty(0, dtype=np.intp), *parts])
        values.append(objective.extended(objective.empty(), own).value)
        paid.append(model.costs_.price([names[g] for g in np.flatnonzero(chosen)]))
    return np.array(paid), np.array(values) / model.certificate_.risk


@pytest.mark.parametrize("name", LOGISTIC)
@pytest.mark.parametrize("l2_regularization", [0.02, 0.3])
def test_no_set_exceeds_the_ceiling_of_a_classifier(name, l2_regularization):
    for seed in range(3):
        random = np.random.default_rng([43, seed])
        X, y, groups = random_problem(random, [2, 1, 3, 1], n=40)
        label = y > np.median(y)
        priced = at.FeatureCosts(
            dict(zip("abcd", random_costs(random, 4), strict=True)),
            groups=dict(zip("abcd", groups, strict=True)),
        )
        model = at.GroupPursuitClassifier(
            costs=priced, l2_regularization=l2_regularization, **LOGISTIC[name]
        ).fit(X, label)
        paid, shares = all_logistic_sets(model, X, label, groups)
        assert holds(model.certificate_.ceiling(paid), shares)
        assert_allclose(model.certificate_.reached(paid.max()), shares[-1], rtol=1e-6)


@pytest.mark.parametrize("name", LOGISTIC)
def test_no_set_exceeds_the_ceiling_where_a_class_is_rare(name):
    """The loss is then nearly flat: scores in units of the largest curvature and scores in none need their own constants."""
    random = np.random.default_rng(0)
    label = np.arange(600) < 6
    X = random.normal(size=(600, 5)) + 0.4 * label[:, None]
    model = at.GroupPursuitClassifier(l2_regularization=0.05, **LOGISTIC[name]).fit(X, label)
    paid, shares = all_logistic_sets(model, X, label, [[j] for j in range(5)])
    assert holds(model.certificate_.ceiling(paid), shares)


def test_a_certificate_is_about_the_rows_the_order_was_learned_from():
    """With held-out rows its risk and its values are those of the others; it ends where the model ends."""
    X, y, _ = at.datasets.load("diabetes")
    for model in (
        at.GroupPursuitRegressor(random_state=0).fit(X, y),
        at.GroupPursuitRegressor(random_state=0, loss="huber").fit(X, y > y.mean()),
        at.GroupPursuitClassifier(random_state=0).fit(X, y > y.mean()),
    ):
        certificate = model.certificate_
        assert certificate.selection.order.size == model.n_stages_
        total = certificate.selection.costs[-1]
        assert total == pytest.approx(model.stage_costs_[-1])
        assert 0 < certificate.reached(total) <= certificate.ceiling(total) < 1


# ---------------------------------------------------------------------- as an object


@pytest.fixture(scope="module")
def model():
    X, y, costs = at.datasets.load("diabetes")
    return at.GroupPursuitRegressor(costs=costs, l2_regularization=0.1).fit(X, y)


def assert_same(left, right):
    assert (left.gamma, left.risk, left.unit, left.theory) == (
        right.gamma,
        right.risk,
        right.unit,
        right.theory,
    )
    for name in ("order", "prices", "costs", "values", "best_rates"):
        assert_array_equal(getattr(left.selection, name), getattr(right.selection, name))
    for name in ("n_elements", "schedule", "c_min", "stuck_at"):
        assert getattr(left.selection, name) == getattr(right.selection, name)
    budgets = np.linspace(0, 1.2 * left.selection.costs[-1], 50)
    assert_array_equal(left.ceiling(budgets), right.ceiling(budgets))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"schedule": "doubling"},
        {"schedule": "doubling", "c_min": 1.0},
        {"costs": [0.0] * 10},
    ],
    ids=str,
)
def test_a_certificate_survives_files_and_pickles(settings, tmp_path):
    X, y, costs = at.datasets.load("diabetes")
    fitted = at.GroupPursuitRegressor(**{"costs": costs, "l2_regularization": 0.1, **settings}).fit(X, y)
    certificate = fitted.certificate_
    assert_same(certificate, Certificate.from_dict(certificate.to_dict()))
    assert_same(certificate, pickle.loads(pickle.dumps(certificate)))
    fitted.save(tmp_path / "model.anytime")
    assert_same(certificate, at.load(tmp_path / "model.anytime").certificate_)


def test_gamma_is_found_when_asked_for_and_only_once():
    asked = []

    def gamma():
        asked.append(1)
        return 0.25

    selection = greedy(lambda s: float(len(s)), [1.0, 2.0])
    certificate = Certificate(selection, 4.0, gamma)
    assert_allclose(certificate.reached([0.5, 1.0, 3.0]), [0.0, 0.25, 0.5])
    assert not asked
    assert certificate.gamma == certificate.gamma == 0.25
    certificate.summary()
    assert asked == [1]


def test_budgets_of_any_shape(model):
    certificate = model.certificate_
    budgets = np.array([[0.0, 5.0], [20.0, np.inf]])
    for of in (certificate.reached, certificate.ceiling, certificate.share):
        assert of(budgets).shape == (2, 2)
        assert_array_equal(of(budgets)[1, 0], of(20.0))
    assert certificate.reached(0.0) == 0.0
    with pytest.raises(ValueError, match="budget is NaN"):
        certificate.ceiling(np.nan)
    for of in (certificate.reached, certificate.ceiling):
        with pytest.raises(ValueError, match="budget"):
            of(-1.0)


def test_a_summary_has_what_the_functions_say_and_reads_as_a_sentence(model):
    certificate = model.certificate_
    total = model.stage_costs_[-1]
    entries = certificate.summary()
    assert [entry["budget"] for entry in entries] == pytest.approx(
        [0.1 * total, 0.25 * total, 0.5 * total, 0.75 * total, total]
    )
    for entry in [*entries, *certificate.summary([3.0])]:
        b = entry["budget"]
        assert entry["reached"] == certificate.reached(b)
        assert entry["ceiling"] == certificate.ceiling(b)
        assert entry["certified"] == certificate.share(b)
        assert entry["promised"] == certificate.promised(b)
    assert f"100% with {total:.4g} {certificate.unit}" in str(certificate)
    assert f"gamma {certificate.gamma:.3g}" in str(certificate)


def test_where_there_is_nothing_to_explain_everything_is_explained():
    X = np.random.default_rng(0).normal(size=(30, 3))
    flat = at.GroupPursuitRegressor(l2_regularization=0.1).fit(X, np.full(30, 7.0)).certificate_
    assert flat.risk == 0.0
    assert (flat.reached(2.0), flat.ceiling(2.0), flat.share(2.0)) == (0.0, 0.0, 1.0)
    assert "100% with" in str(flat)


NONSENSE = [
    np.nan,
    np.inf,
    -1.0,
    None,
    "x",
    [],
    [1.0],
    [[1.0]] * 3,
    [np.nan] * 3,
    [-1.0] * 3,
    {"a": 1},
    [[], []],
]


def small_state():
    selection = greedy(lambda s: float(len(s)), [1.0, 2.0, 3.0])
    frontier = np.array([0.0, 1.0, 3.0, 6.0]), np.array([0.0, 1.0, 2.0, 3.0])
    return Certificate(selection, 4.0, 0.5, "ms", frontier=frontier).to_dict()


@pytest.mark.parametrize("name", small_state())
def test_a_dictionary_that_is_no_certificate_is_refused_or_read(name):
    """Never anything but the errors that a file's reader expects."""
    assert Certificate.from_dict(small_state()).share(3.0) == 1.0
    for value in [*NONSENSE, NONSENSE]:
        try:
            read = Certificate.from_dict(small_state() | {name: value})
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError):
            continue
        for certificate in (read, replace(read, frontier=None)):
            assert np.isfinite(certificate.share([0.0, 1.0, 6.0])).all()
            str(certificate)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prices": np.ones(2)}, "same length"),
        ({"order": np.zeros((3, 1), int)}, "same length"),
        ({"values": np.array([0.0, np.nan, 1.0])}, "not finite"),
        ({"prices": np.array([1.0, -1.0, 1.0])}, "negative price"),
        ({"costs": np.array([1.0, 0.5, 6.0])}, "costs must not decrease"),
        ({"gamma": 1.5}, "out of range"),
        ({"gamma": np.nan}, "out of range"),
        ({"risk": -1.0}, "out of range"),
        ({"schedule": "lucky"}, "out of range"),
        ({"rooms": np.ones((2, 4))}, "one row per element and one column per budget"),
        ({"room_budgets": np.ones(0)}, "one row per element and one column per budget"),
        ({"rooms": np.full((3, 65), np.nan)}, "rooms must not be NaN"),
        ({"frontier": [np.zeros(2), np.zeros(3)]}, "costs that do not decrease"),
        ({"frontier": [np.array([1.0, 2.0]), np.zeros(2)]}, "must start at cost 0"),
        ({"frontier": [np.array([0.0, 2.0, 1.0]), np.zeros(3)]}, "costs that do not decrease"),
    ],
)
def test_a_malformed_certificate_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        Certificate.from_dict(small_state() | change)
