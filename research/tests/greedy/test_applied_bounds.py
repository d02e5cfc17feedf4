"""Every bound, applied to fitted models: what is called proved holds against all sets of groups, what is refuted fails."""

import json
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import anytime as at
from anytime.greedy import Certificate, FlatPrices, Selection, greedy
from anytime_research.greedy import bounds, measure, measured_of
from tests.linear.test_certificate import SETTINGS, best_within, certified_models, holds
from tests.reference.greedy import TableOracle, least_squares, random_costs, random_moments
from tests.reference.linear import random_problem

STATUSES = {"proved", "estimated", "unproved", "refuted"}


def of(rows, theorem, form=None):
    """The one row of a theorem in a form."""
    (found,) = (row for row in rows if row["theorem"] == theorem and form in (None, row["form"]))
    return found


def broken(row, reached, best):
    """Whether a row is false of what was reached and the best set within its ``rival_cost``."""
    if row["says"] == "at most":
        return not holds(row["bound"], best(row["rival_cost"]))
    return not holds(reached, row["share"] * best(row["rival_cost"]) - row["less"])


# ---------------------------------------------------------------------- what is proved holds


@pytest.mark.parametrize("name", SETTINGS)
def test_every_proved_row_holds_against_all_sets(name):
    """12 instances a setting, with plain prices, free groups and shared requirements; at, between and beyond purchases."""
    said = 0
    for model, paid, shares in certified_models(name, 4):
        certificate = model.certificate_
        costs = certificate.selection.costs

        def best(cost, paid=paid, shares=shares):
            return best_within(paid, shares, [cost])[0]

        budgets = np.unique(np.concatenate([costs, 0.8 * costs, 1.5 * costs[-1:]]))
        for budget in budgets[budgets > 0]:
            reached = certificate.reached(budget)
            for row in bounds(certificate, budget):
                assert row["status"] in STATUSES
                if row["bound"] is not None and row["says"] == "at least":
                    expected = row["share"] * best(row["rival_cost"]) - row["less"]
                    assert row["bound"] == pytest.approx(expected, abs=1e-9)
                if row["applies"] and row["status"] == "proved":
                    assert not broken(row, reached, best), (name, budget, row)
                    said += row["says"] == "at least" and (row["bound"] or 0.0) > 0.01
    assert said > 30  # also of orders that were not chosen by gain per cost: their greediness is measured


def test_any_order_has_a_guarantee_and_too_good_a_constant_breaks_it():
    """Theorem 4.3.3 with the alpha of the run; a negative control pretends that the dearest-first order was greedy."""
    too_good = 0
    for seed in range(20):
        random = np.random.default_rng([47, seed])
        S, v = random_moments(random, 6)
        costs, table = random_costs(random, 6), least_squares(S, v, 0.1)
        order = np.argsort(-costs)
        run = replayed(table, order, costs)
        prices = FlatPrices(costs)
        measured = measure(TableOracle(table), run, prices, table=table)
        paid = np.array([costs[[x for x in range(6) if s >> x & 1]].sum() for s in range(64)])
        certificate, hopeful = Certificate(run, 0.5, 0.01, theory=False), replace(measured, alpha=1.0)
        for budget in run.costs:

            def best(cost, paid=paid, table=table):
                return table[paid <= cost * (1 + 1e-12)].max() / 0.5

            reached = certificate.reached(budget)
            true, false = (bounds(certificate, budget, constants) for constants in (measured, hopeful))
            row = of(true, "Theorem 4.3.3", "alpha, printed")
            assert row["applies"]
            assert row["status"] == "proved"
            assert not broken(row, reached, best)
            too_good += broken(of(false, "Theorem 4.3.3", "alpha, printed"), reached, best)
            greedy_only = of(true, "Theorem 4.2.4", "product")
            assert greedy_only["applies"] == (measured.alpha > 1 - 1e-9)
    assert too_good > 3


def replayed(table, order, costs):
    """The books of any order."""
    values = table[np.cumsum(1 << np.asarray(order))]
    return Selection(
        order=np.asarray(order),
        prices=costs[order],
        costs=np.cumsum(costs[order]),
        values=values,
        best_rates=np.full(len(order), np.inf),
        n_elements=len(order),
    )


# ---------------------------------------------------------------------- what is printed and wrong


def test_theorem_4_3_3_as_printed_is_violated_by_its_counterexample():
    """Ten elements worth 1 and ten worth 0.1, all at 1: taking the small ones first reaches 1.0, and 5.421 is printed."""
    worth = np.repeat([1.0, 0.1], 10)
    order = np.concatenate([np.arange(10, 20), np.arange(10)])
    run = Selection(
        order=order,
        prices=np.ones(20),
        costs=np.arange(1.0, 21.0),
        values=np.cumsum(worth[order]),
        best_rates=np.ones(20),
        n_elements=20,
    )
    frontier = np.arange(21.0), np.cumsum(np.concatenate([[0.0], worth]))
    measured = measure(_Additive(worth), replace(run, values=run.values), FlatPrices(np.ones(20)))
    assert (measured.gamma, measured.beta) == pytest.approx((1.0, 0.9))
    assert measured.delta == pytest.approx(0.0, abs=1e-12)
    risk = 11.0
    rows = bounds(Certificate(run, risk, 1.0, theory=False, frontier=frontier), 10.0, measured)
    printed = of(rows, "Theorem 4.3.3", "printed")
    assert printed["status"] == "refuted"
    assert printed["bound"] * risk == pytest.approx(5.421, abs=5e-4)
    assert run.value_at(10.0) == pytest.approx(1.0)  # which is less
    corrected = of(rows, "Theorem 4.3.3", "corrected, tight")
    assert corrected["bound"] * risk == pytest.approx(0.632, abs=5e-4)
    assert corrected["status"] == "estimated"  # 20 elements are too many to try all sets


class _Additive:
    """A ``GainOracle`` of elements that add up."""

    def __init__(self, worth):
        self.worth, self.value, self.n_elements = worth, 0.0, len(worth)

    def gains(self, candidates):
        return self.worth[candidates]

    def add(self, element):
        self.value += self.worth[element]

    def restart(self):
        return _Additive(self.worth)


def test_a_suppressor_has_a_spectral_gamma_but_no_elementwise_one():
    """linear_and_networks 3.4: with the spectral gamma Theorem 3.4.3 is not proved; with the right one it is worth nothing."""
    model = at.GroupPursuitRegressor(
        costs=[1.0, 1.0], selection="forward", schedule="doubling", l2_regularization=0.0
    )
    certificate = model.fit_moments([[1.0, 0.6], [0.6, 1.0]], [0.0, 0.8]).certificate_
    rows = bounds(certificate, 2.0)
    printed, corrected = of(rows, "Theorem 3.4.3", "printed"), of(rows, "Theorem 3.4.3", form_of(rows))
    assert printed["constants"] == {"gamma": pytest.approx(0.4)}
    assert (printed["found"], printed["status"]) == ("spectral", "unproved")
    assert (corrected["constants"], corrected["share"]) == ({"elementwise": 0.0}, 0.0)
    assert (corrected["found"], corrected["status"], corrected["applies"]) == ("enumerated", "proved", True)


def form_of(rows):
    return next(
        row["form"]
        for row in rows
        if row["theorem"] == "Theorem 3.4.3" and row["form"].startswith("corrected")
    )


# ---------------------------------------------------------------------- what applies


def test_a_sampled_constant_proves_nothing():
    random = np.random.default_rng(0)
    X, y, _ = random_problem(random, [1] * 18, n=80)
    certificate = at.GroupPursuitRegressor(l2_regularization=0.1, selection="forward").fit(X, y).certificate_
    assert certificate.exact is None  # 18 groups have too many sets
    assert measured_of(certificate).found == "sampled"
    rows = bounds(certificate, 6.0)
    sampled = [row for row in rows if row["found"] == "sampled"]
    assert len(sampled) > 10
    assert not any(row["status"] == "proved" for row in sampled)
    assert of(rows, "Theorem 3.3.2", "printed")["status"] == "proved"
    assert all(row["bound"] is None for row in rows if row["says"] == "at least")  # the best is not known


@pytest.mark.parametrize("seed", range(3))
def test_a_sample_is_optimistic_and_an_enumeration_exact(seed):
    random = np.random.default_rng([53, seed])
    S, v = random_moments(random, 6)
    table, costs = least_squares(S, v, 0.05), random_costs(random, 6)
    run = greedy(TableOracle(table), costs)
    exact = measure(TableOracle(table), run, FlatPrices(costs), table=table)
    some = measure(TableOracle(table), run, FlatPrices(costs), n_orders=3)
    many = measure(TableOracle(table), run, FlatPrices(costs), n_orders=1500)
    for name in ("gamma", "elementwise"):
        assert getattr(exact, name) <= getattr(many, name) + 1e-12 <= getattr(some, name) + 2e-12
        assert getattr(many, name) == pytest.approx(getattr(exact, name), rel=1e-6, abs=1e-9)
    assert some.delta <= many.delta + 1e-12
    assert many.delta == pytest.approx(exact.delta, abs=1e-9)  # 720 orders: all pairs of sets are seen
    assert (exact.alpha, exact.beta, exact.rate_slack) == pytest.approx((1.0, 0.0, 0.0), abs=1e-12)
    assert_array_equal(exact.prices, np.sort(costs))


def test_rows_say_why_they_do_not_apply():
    random = np.random.default_rng(0)
    X, y, _ = random_problem(random, [1] * 4)
    costs = [1.0, 2.0, 3.0, 4.0]

    def why(theorem, budget=10.0, **settings):
        model = at.GroupPursuitRegressor(**{"costs": costs, "l2_regularization": 0.1, **settings}).fit(X, y)
        reasons = {r["why_not"] for r in bounds(model.certificate_, budget) if r["theorem"] == theorem}
        assert len(reasons) == 1
        return reasons.pop()

    groups = {"a": [0], "b": [1], "c": [2], "d": [3], "step": []}
    shared = at.FeatureCosts(
        dict(zip(groups, [1.0, 2.0, 3.0, 4.0, 1.0], strict=True)),
        groups=groups,
        requires={"a": ["step"], "b": ["step"]},
    )
    assert why("Theorem 3.3.2") is None
    assert why("Theorem 3.3.2", costs=shared) == "groups share requirements"
    assert why("Theorem 4.3.3", costs=shared) == "groups share requirements"
    assert why("Theorem 3.3.2", cost_aware=False) == "steps were not chosen by gain per cost"
    assert "of the best rate" in why("Theorem 4.2.4", cost_aware=False)
    assert why("Theorem 3.3.2", schedule="doubling") == "of greedy runs; this one is doubling"
    assert why("section 4.4") == "of doubling runs; this one is greedy"
    stuck = {"costs": [0.1, 2.0, 8.0, 20.0], "schedule": "doubling", "c_min": 0.1}
    assert why("Theorem 4.4.4", 30.0, **stuck) == "doubling got stuck at step 2"
    even = {"costs": [1.0, 1.0, 2.0, 4.0], "schedule": "doubling"}
    assert why("section 4.4", **even) is None
    assert "must exceed c_min" in why("section 4.4", 0.5, **even)
    assert why("section 4.1") == "of a choice for one budget, not of a sequence for all"


def test_a_loss_that_is_not_squared_has_the_spectral_bounds_only():
    X, y, _ = at.datasets.load("breast_cancer")
    certificate = at.GroupPursuitClassifier(l2_regularization=0.5).fit(X[:, :5], y).certificate_
    assert measured_of(certificate) is None
    rows = bounds(certificate)
    row = of(rows, "Theorem 3.3.2", "printed")
    assert row["applies"]
    assert row["share"] == pytest.approx(1 - np.exp(-certificate.gamma))
    assert of(rows, "Theorem 4.2.4")["why_not"] == "its constants were not measured"


def test_budgets_of_bounds():
    model = at.GroupPursuitRegressor(costs=[0.0, 0.0], l2_regularization=0.1).fit_moments(
        np.eye(2), [0.5, 0.5]
    )
    assert bounds(model.certificate_) == []  # what costs nothing has no rival
    for budget in (0.0, -1.0, np.nan):
        with pytest.raises(ValueError, match="budget"):
            bounds(model.certificate_, budget)
    model = at.GroupPursuitRegressor(costs=[1.0, 2.0], l2_regularization=0.1).fit_moments(
        np.eye(2), [0.5, 0.5]
    )
    everything = bounds(model.certificate_)
    assert everything == bounds(model.certificate_, 3.0)
    assert json.loads(json.dumps(everything)) == everything
    assert of(bounds(model.certificate_, 0.5), "Theorem 3.3.2", "product")["share"] == 0.0  # buys nothing
    assert of(bounds(model.certificate_, np.inf), "Theorem 3.3.2", "printed")["share"] == 0.0


def test_product_and_corollary_have_their_printed_numbers():
    model = at.GroupPursuitRegressor(costs=[1.0, 2.0, 1.0], l2_regularization=0.5, selection="forward")
    model.fit_moments([[1, 0.5, 0], [0.5, 1, 0], [0, 0, 1]], [0.6, 0.5, 0.3])
    certificate = model.certificate_
    gamma = certificate.gamma
    assert gamma == pytest.approx(1.0 / 1.5)  # (0.5 + 0.5) / (1 + 0.5)
    prices = certificate.selection.prices[:2]
    budget = prices.sum()
    rows = bounds(certificate, budget)
    assert of(rows, "Theorem 3.3.2", "product")["share"] == pytest.approx(
        1 - np.prod(1 - gamma * prices / budget)
    )
    assert of(rows, "Corollary 5.2.7")["share"] == pytest.approx(1 - np.exp(-(gamma**2)))


# ---------------------------------------------------------------------- what is known of a run


def test_constants_are_measured_once():
    model = at.GroupPursuitRegressor(costs=[1.0, 2.0], l2_regularization=0.1).fit_moments(
        np.eye(2), [0.5, 0.5]
    )
    assert measured_of(model.certificate_) is measured_of(model.certificate_)


def test_a_file_keeps_no_constants_of_the_run(tmp_path):
    X, y, costs = at.datasets.load("diabetes")
    for settings in ({}, {"schedule": "doubling"}, {"costs": np.ones(10)}):
        model = at.GroupPursuitRegressor(**{"costs": costs, "l2_regularization": 0.1, **settings}).fit(X, y)
        model.save(tmp_path / "model.anytime")
        assert bounds(model.truncate(9.0).certificate_, 9.0)
        rows = bounds(at.load(tmp_path / "model.anytime").certificate_, 9.0)
        assert of(rows, "Theorem 4.2.4")["why_not"] == "its constants were not measured"
        assert_allclose(
            of(rows, "Theorem 3.3.2", "printed")["share"],
            of(bounds(model.certificate_, 9.0), "Theorem 3.3.2", "printed")["share"],
        )


def test_a_free_group_that_was_passed_over_has_no_rate_to_fall_short_of():
    model = at.GroupPursuitRegressor(costs=[1.0, 0.0], l2_regularization=0.1, cost_aware=False)
    certificate = model.fit_moments(np.eye(2), [0.6, 0.5]).certificate_
    assert measured_of(certificate).rate_slack == np.inf
    row = of(bounds(certificate, 1.0), "Theorem 4.3.3", "corrected, rate")
    assert row["why_not"] == "a group that costs nothing was passed over"
