"""Buying by margins: the paper's example, the obvious implementation, and what has to hold whatever the data."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from anytime.acquisition import margin_block
from anytime.acquisition.additive import LinearTerms
from anytime.acquisition.margin_block import MarginBlock
from anytime.acquisition.margin_classifier import _followed
from anytime.costs import FeatureCosts
from tests.reference.margins import Problem

TOY = np.array([[1, -1, -1]] * 2 + [[-1, 1, 1]] * 2 + [[-1, 1, -1]] + [[1, 1, 1]] * 3, dtype=float)
TOY_POSITIVE = np.array([False] * 4 + [True] * 4)
PRINTED = (-0.9997, [0.9995, 1.4998, -0.5002])


def toy(offset=PRINTED[0], weights=PRINTED[1], prices=(1.0, 1.0, 1.0), **settings) -> MarginBlock:
    settings = {"neighbourhood": "exact", **settings}
    return MarginBlock(
        LinearTerms(offset, weights), TOY, TOY_POSITIVE, FeatureCosts(prices).bind(3), **settings
    )


def worth(block_of, x, owned: list[int]) -> list[float]:
    """p_i of every group when a row has ``owned``: each in turn is made so cheap that it is bought next."""
    found = []
    for wanted in range(3):
        steps = [*owned, wanted]
        prices = np.full(3, 100.0)
        prices[steps] = np.arange(len(steps)) + 1.0
        block = block_of(prices=prices, cost_penalty=1.0)
        memory = block.remember(1)
        for t in range(len(owned)):
            block.proceed(t, t, x, memory)
        block.choose(x, memory)
        assert memory["order"][0, : len(owned)].tolist() == owned
        found.append(memory["promise"][0] if memory["next"][0] == wanted else np.nan)
    return found


class TestTheToyOfSection81:
    """budgeted_trees 8.1; Nan 2018, figure 2.1."""

    low, high = np.array([[1.0, -1.0, -1.0]]), np.array([[1.0, 1.0, 1.0]])

    def test_the_first_columns_are_right_for_4_6_and_4_points(self):
        assert worth(toy, self.low, []) == [4 / 8, 6 / 8, 4 / 8]
        assert toy().columns(0).tolist() == [1]

    def test_where_x2_is_low_two_neighbours_are_right_and_it_stops(self):
        block = toy(confidence=0.99)
        memory = block.remember(1)
        score = block.proceed(0, 0, self.low, memory)
        block.choose(self.low, memory)
        assert memory["estimate"].tolist() == [1.0]
        assert memory["next"].tolist() == [-1]
        assert score[0, 0] < 0
        assert not block.reads(1, self.low, memory).any()

    def test_where_x2_is_high_x1_is_right_for_5_of_6_and_x3_for_3_of_6(self):
        assert worth(toy, self.high, [1])[::2] == [5 / 6, 3 / 6]
        block = toy()
        memory = block.remember(1)
        block.proceed(0, 0, self.high, memory)
        assert block.reads(1, self.high, memory).tolist() == [[True, False, False]]

    def test_without_the_offset_the_conclusion_is_lost(self):
        """The negative control: 5, 6, 3, then a draw of 4/6."""

        def free(**more):
            return toy(offset=0.0, **more)

        assert worth(free, self.low, []) == [5 / 8, 6 / 8, 3 / 8]
        assert worth(free, self.high, [1])[::2] == [4 / 6, 4 / 6]

    def test_the_exact_limit_has_margins_of_zero_which_are_mistakes(self):
        def limit(**more):
            return toy(offset=-1.0, weights=[1.0, 1.5, -0.5], **more)

        assert worth(limit, self.low, []) == [2 / 8, 6 / 8, 4 / 8]
        assert worth(limit, self.high, [1])[::2] == [5 / 6, 1 / 6]


# ---------------------------------------------------------------------- the obvious implementation

COSTS = FeatureCosts(
    {"a": 1.0, "b": 3.0, "c": 2.0, "d": 2.0, "step": 1.0, "e": 0.0},
    groups={"a": [0], "b": [1, 4], "c": [2], "d": [3], "step": [], "e": [5]},
    requires={"d": ["a", "step"], "b": ["step"]},
)


@st.composite
def problems(draw):
    """Small whole numbers, so that every sum is exact, with many ties."""
    n = draw(st.integers(2, 12))
    rows = st.lists(st.integers(-2, 2), min_size=6, max_size=6)
    reference = np.array(draw(st.lists(rows, min_size=n, max_size=n)), dtype=float)
    labels = np.array(draw(st.lists(st.sampled_from([-1, 1]), min_size=n, max_size=n)))
    return Problem(
        reference,
        labels,
        draw(st.integers(-2, 2)) / 2,
        np.array(draw(st.lists(st.integers(-2, 2), min_size=6, max_size=6)), dtype=float),
        COSTS,
        cost_penalty=draw(st.sampled_from([0.0, 0.125, 1.0])),
        neighbourhood=draw(st.sampled_from(["nearest", "radius", "exact"])),
        n_neighbors=draw(st.integers(1, 14)),
        radius=draw(st.sampled_from([0.0, 1.0, 2.5])),
        refresh=draw(st.booleans()),
        confidence=draw(st.sampled_from([np.inf, 0.5, 0.8, 1.0])),
    )


def block_of(problem: Problem, **more) -> MarginBlock:
    names = ("cost_penalty", "neighbourhood", "n_neighbors", "radius", "refresh")
    confidence = None if problem.confidence == np.inf else problem.confidence
    return MarginBlock(
        LinearTerms(problem.offset, problem.slopes),
        problem.reference,
        problem.labels > 0,
        problem.costs.bind(problem.reference.shape[1]),
        confidence=confidence,
        distance="raw",
        **{name: getattr(problem, name) for name in names},
        **more,
    )


@given(
    problems(),
    st.lists(st.lists(st.integers(-2, 2), min_size=6, max_size=6), min_size=1, max_size=4),
    st.data(),
)
def test_native_purchases_are_those_of_the_obvious_implementation(problem, rows, data):
    X = np.array(rows, dtype=float)
    gaps = (
        data.draw(st.lists(st.booleans(), min_size=X.size, max_size=X.size))
        if data.draw(st.booleans())
        else []
    )
    if gaps:
        X[np.array(gaps).reshape(X.shape)] = np.nan
    block = block_of(problem)
    groups, paid, estimate, scores = _followed(block, X)
    known = np.where(np.isnan(X), 0.0, X)
    for i in range(len(X)):
        ideal = problem.follow(X[i])
        names = [COSTS.names[g] for g in groups[i] if g >= 0]
        assert names == [step[0] for step in ideal]
        m = len(names)
        assert estimate[i, :m].tolist() == [step[2] for step in ideal]
        expected = [problem.score(known[i], COSTS.closure(names[: t + 1])) for t in range(m)]
        assert scores[i, :m].tolist() == [score or block.undecided for score in expected]
        assert paid[i, :m].tolist() == [COSTS.ticks(COSTS.price(names[: t + 1])) for t in range(m)]
        assert m == 0 or (scores[i, m:] == scores[i, m - 1]).all()  # who stopped keeps the answer


def continuous(n=60, rows=25, d=7, seed=0):
    random = np.random.default_rng(seed)
    X, reference = random.normal(size=(rows, d)), random.normal(size=(n, d))
    slopes = random.normal(size=d)
    positive = reference @ slopes + random.normal(size=n) > 0.3
    return X, reference, positive, slopes


def settings_of(**more):
    return {"n_neighbors": 9, **more}


@pytest.mark.parametrize("more", [{}, {"refresh": False}, {"acquisition": "random"}, {"confidence": 0.8}])
def test_sums_that_are_carried_on_equal_sums_from_scratch(more, monkeypatch):
    X, reference, positive, slopes = continuous()
    costs = FeatureCosts(np.ones(7)).bind(7)
    block = MarginBlock(LinearTerms(0.2, slopes), reference, positive, costs, **settings_of(**more))
    carried = _followed(block, X)
    assert "margins" in block.remember(3)
    monkeypatch.setattr(margin_block, "_MOST_RUNNING", 0)
    assert "margins" not in block.remember(3)
    for a, b in zip(carried, _followed(block, X), strict=True):
        assert_array_equal(a, b)


@pytest.mark.parametrize("purchases", [1, 3, 6, 7])
def test_many_purchases_at_once_and_two_threads_change_nothing(purchases):
    X, reference, positive, slopes = continuous()
    costs = FeatureCosts(np.ones(7)).bind(7)
    given = LinearTerms(0.2, slopes), reference, positive, costs
    one, two = MarginBlock(*given, n_neighbors=9), MarginBlock(*given, n_neighbors=9, n_threads=2)
    steps = one.remember(len(X))
    for t in range(purchases):
        scores = one.proceed(t, t, X, steps)
    assert_array_equal(two.outputs(purchases - 1, X), scores)
    together = two.remember(len(X))
    two.proceed(0, purchases - 1, X, together)
    if purchases < 7:  # who buys all at once need not know in which order
        assert_array_equal(together["order"], steps["order"])


@given(problems(), st.integers(0, 2**31))
def test_estimates_are_shares_of_the_neighbours(problem, seed):
    """budgeted_trees 2.7: in [0, 1] and multiples of 1 / |N|."""
    problem.neighbourhood, problem.confidence = "nearest", np.inf
    X = np.random.default_rng(seed).integers(-2, 3, size=(3, 6)).astype(float)
    _, _, estimate, _ = _followed(block_of(problem), X)
    size = min(problem.n_neighbors, len(problem.reference))
    if not problem.refresh:
        estimate = estimate[:, 1:]  # the first purchase is judged by all points
    assert ((estimate >= 0) & (estimate <= 1)).all()
    assert_allclose(estimate * size, np.round(estimate * size), atol=1e-9)


@given(problems())
def test_without_new_neighbours_a_promise_is_kept_to_the_bit(problem):
    """budgeted_trees 2.7: the new p^O is the old p_i*."""
    problem.refresh = False
    block = block_of(problem)
    X = problem.reference[:2].copy()
    memory = block.remember(len(X))
    for t in range(block.n_stages):
        block.choose(X, memory)
        buying = memory["next"] >= 0
        promised = memory["promise"].copy()
        block.proceed(t, t, X, memory)
        assert_array_equal(memory["estimate"][buying], promised[buying])
    block.choose(X, memory)


@given(problems(), st.integers(0, 2**31))
def test_the_full_run_is_the_classifier(problem, seed):
    """budgeted_trees 2.7: exactly the full classifier's label, here its score."""
    problem.confidence = np.inf
    X = np.random.default_rng(seed).normal(size=(5, 6))
    block = block_of(problem)
    if block.n_stages:
        full = block.classifier.decision_function(X)
        slow = _followed(block, X)[3][:, -1]
        quick = block.outputs(block.n_stages - 1, X)[:, 0]
        expected = np.where(full == 0, block.undecided, full)
        assert_array_equal(quick, expected)
        assert_array_equal(slow, expected)


def test_a_dear_group_waits_when_cost_counts():
    X, reference, positive, slopes = continuous()
    prices = np.ones(7)
    favourite = int(
        MarginBlock(LinearTerms(0.0, slopes), reference, positive, FeatureCosts(prices).bind(7)).columns(0)[0]
    )
    prices[favourite] = 50.0
    for cost_penalty, last in ((0.0, False), (1.0, True)):
        block = MarginBlock(
            LinearTerms(0.0, slopes),
            reference,
            positive,
            FeatureCosts(prices).bind(7),
            cost_penalty=cost_penalty,
        )
        groups, _, _, _ = _followed(block, X)
        assert (groups[:, -1] == favourite).all() == last
        assert (groups[:, 0] == favourite).all() != last


def test_a_single_purchase_is_estimated_too():
    block = toy(weights=[0.0, 2.0, 0.0])
    groups, _, estimate, _ = _followed(block, TOY)
    assert groups.tolist() == [[1]] * 8
    assert estimate[:, 0].tolist() == [1.0] * 2 + [4 / 6] * 6


def test_columns_that_the_classifier_does_not_use_are_never_bought():
    X, reference, positive, slopes = continuous()
    slopes[[1, 4]] = 0.0
    block = MarginBlock(LinearTerms(0.0, slopes), reference, positive, FeatureCosts(np.ones(7)).bind(7))
    groups, _, _, _ = _followed(block, X)
    assert block.n_stages == 5
    assert set(groups.ravel()) == {0, 2, 3, 5, 6}


def test_random_purchases_depend_on_the_row_alone_and_favour_none():
    random = np.random.default_rng(1)
    _, reference, positive, slopes = continuous()
    X = random.normal(size=(3000, 7))
    costs = FeatureCosts(np.ones(7)).bind(7)
    block = MarginBlock(LinearTerms(0.0, slopes), reference, positive, costs, acquisition="random", seed=5)
    groups, _, _, _ = _followed(block, X)
    alone, _, _, _ = _followed(block, X[17:18])
    assert_array_equal(alone[0], groups[17])
    assert len(np.unique(groups[:, 0])) == 1  # nothing is known before the first purchase
    shares = np.bincount(groups[:, 2], minlength=7) / len(X)
    assert_allclose(np.delete(shares, groups[0, 0]), 1 / 6, atol=0.03)
    other = MarginBlock(LinearTerms(0.0, slopes), reference, positive, costs, acquisition="random", seed=6)
    assert (_followed(other, X[:50])[0] != groups[:50]).any()


def test_distances_can_be_raw_standardised_or_between_contributions():
    _, reference, positive, slopes = continuous()
    scales = np.array([1.0, 10.0, 100.0, 1.0, 1.0, 1.0, 0.01])
    costs = FeatureCosts(np.ones(7)).bind(7)
    rows = reference[:3] * scales
    made = {
        kind: MarginBlock(LinearTerms(0.0, slopes), reference * scales, positive, costs, distance=kind)
        for kind in ("raw", "standardised", "contributions")
    }
    assert_array_equal(made["raw"].coordinates(rows), rows)
    assert_allclose(made["standardised"].coordinates(reference * scales).std(axis=0), 1.0)
    assert_allclose(made["contributions"].coordinates(rows), rows * slopes)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"neighbourhood": "far"}, "neighbourhood must be one of nearest, radius, exact"),
        ({"distance": "long"}, "distance must be one of"),
        ({"acquisition": "greedy"}, "acquisition must be one of"),
        ({"n_neighbors": 0}, "n_neighbors at least 1"),
        ({"cost_penalty": -1.0}, "must not be negative"),
        ({"confidence": 2.0}, "confidence must be a share"),
        ({"n_stages": 4}, "4 purchases, but there are 3 groups"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        toy(**settings)


def test_the_native_door_refuses_states_that_are_none():
    block = toy()
    x = TOY[:1]
    for spoil, message in (
        (lambda m: m["order"].__setitem__((0, slice(0, 2)), 1), "twice"),
        (lambda m: m["order"].__setitem__((0, 0), 9), "does not exist"),
        (lambda m: m["next"].__setitem__(0, 7), "none to choose from"),
        (lambda m: m["owned"].__setitem__(0, 4), "more groups than there are"),
    ):
        memory = block.remember(1)
        memory["owned"][0] = 2
        memory["order"][0, :2] = 0, 1
        spoil(memory)
        with pytest.raises(ValueError, match=message):
            block.choose(x, memory)
