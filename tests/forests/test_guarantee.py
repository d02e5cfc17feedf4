"""budgeted_trees 3.7: the dearest path of a greedy tree beside the best possible."""

import time

import numpy as np
import pytest

from anytime.costs import FeatureCosts
from anytime.forests.growing import ClassTreeGrower
from anytime.forests.guarantee import (
    TreeGuarantee,
    least_impurity,
)
from anytime.forests.impurity import (
    ClassPairs,
    CustomImpurity,
    Entropy,
    Gini,
    Powers,
    SquaredPairs,
)
from anytime.trees.binning import BinnedData
from anytime_research.forests.impurities import Polynomial

IMPURITIES = [ClassPairs(), ClassPairs(1), ClassPairs(2), Powers(2), Powers(3), Powers(4)]
NEARLY = 1 + 1e-12


def instances(n, seed=0):
    """Up to 15 distinct rows, 3-5 columns with 2-3 values, 2-3 classes, prices 1 or 1-9."""
    random = np.random.default_rng(seed)
    while n:
        d, values, classes = random.integers(3, 6), random.integers(2, 4), random.integers(2, 4)
        X = np.unique(random.integers(0, values, (random.integers(2, 16), d)), axis=0)
        y = random.integers(0, classes, len(X))
        prices = np.ones(d) if random.random() < 0.5 else random.integers(1, 10, d).astype(float)
        if len(np.unique(y)) > 1:
            yield X, y, prices
            n -= 1


@pytest.mark.parametrize(
    "impurity",
    [
        *IMPURITIES,
        Powers(5),
        ClassPairs(0.5),
        ClassPairs(1.5),
        ClassPairs(2.7),
        Polynomial([(0.5, [1, 2, 0]), (2, [0, 1, 1])]),
    ],
    ids=repr,
)
def test_least_impurity_is_that_of_all_subsets(impurity):
    counts = [9, 7, 5]
    grid = np.array(np.meshgrid(*[np.arange(n + 1) for n in counts])).reshape(3, -1).T
    values = impurity(grid)
    assert np.isclose(least_impurity(impurity, counts), values[values > 0].min())
    own = CustomImpurity(impurity)
    assert np.isclose(least_impurity(own, counts), values[values > 0].min())


@pytest.mark.parametrize("alpha", [0.1, 0.5, 1 / 3, 2.7, 6.999, 7.001])
def test_least_impurity_of_a_broken_threshold_is_that_of_all_counts(alpha):
    impurity = ClassPairs(alpha)
    for counts in ([40, 31, 5], [3, 60], [14, 15], [1, 1]):
        few, many = np.sort(counts)[::-1][:2]
        grid = np.array(np.meshgrid(np.arange(few + 1), np.arange(many + 1))).reshape(2, -1).T
        values = impurity(grid)
        assert least_impurity(impurity, counts) == values[values > 0].min(initial=np.inf)


def test_least_impurity_of_a_million_rows_takes_no_time():
    began = time.process_time()
    assert np.isclose(
        least_impurity(ClassPairs(2.7), [500_000, 400_000]), 0.3
    )  # 28 and 3 rows: 25.3 * 0.3 - 2.7**2
    assert time.process_time() - began < 5


def test_least_impurity_is_unknown_for_broken_weights():
    assert least_impurity(ClassPairs(), [1.5, 2]) is None


# ---------------------------------------------------------------------- grown trees


def grown(X, y, prices, impurity, **settings):
    grower = ClassTreeGrower(impurity, **{"tests": "multiway", **settings})
    costs = FeatureCosts(prices).bind(X.shape[1])
    data = BinnedData.fit(X.astype(float), exact=True)
    return grower.grow(data, y, n_classes=int(y.max()) + 1, costs=costs), grower, costs


@pytest.mark.parametrize("tests", ["multiway", "stumps"])
def test_grown_trees_keep_the_bound_and_say_so(tests):
    for X, y, prices in instances(15, seed=3):
        for impurity in (ClassPairs(), ClassPairs(1), Powers(3)):
            guarantee = TreeGuarantee.of(*grown(X, y, prices, impurity, tests=tests))
            assert guarantee.separates
            assert guarantee.ratio <= guarantee.bound * NEARLY, "the run is never worse than the theorem"
            if tests == "multiway":  # nothing is tested twice on a path, so that nothing is saved by it
                assert guarantee.charged == guarantee.max_cost


def test_nothing_is_proved_of_other_searches():
    X, y, prices = next(instances(1, seed=4))
    for impurity, settings in (
        (Gini(), {}),
        (Entropy(), {"split": "expected"}),
        (ClassPairs(), {"split": "expected"}),
        (ClassPairs(), {"max_features": 1}),
        (ClassPairs(), {"min_samples_leaf": 2}),
        (ClassPairs(), {"discount_reused": True}),
        (ClassPairs(), {"tests": "stumps", "search": "random"}),
        (CustomImpurity(ClassPairs()), {}),
    ):
        assert TreeGuarantee.of(*grown(X, y, prices, impurity, **settings)) is None


def test_nothing_is_proved_of_sets_that_were_not_all_tried():
    """Four categories: the set of least risk does not stand together in the order by the share of a class."""
    counts = np.array([[1, 4], [3, 5], [3, 3], [5, 4]])
    X = np.repeat(np.arange(4.0), counts.sum(axis=1))[:, None]
    y = np.concatenate([np.repeat([0, 1], n) for n in counts])
    grower, costs = ClassTreeGrower(ClassPairs()), FeatureCosts([1.0]).bind(1)
    data = BinnedData.fit(X, categorical=[0])
    tree = grower.grow(data, y, n_classes=2, costs=costs)
    sets = [[b for b in range(4) if bits >> b & 1] for bits in range(1, 15)]
    worst = [
        max(ClassPairs()([counts[s].sum(axis=0), np.delete(counts, s, axis=0).sum(axis=0)])) for s in sets
    ]
    least_risk = 1 / (ClassPairs()([counts.sum(axis=0)])[0] - min(worst))
    assert tree.risk[0] > least_risk
    assert TreeGuarantee.of(tree, grower, costs, many_categories=True) is None
    every = ClassTreeGrower(ClassPairs(), tests="multiway")
    tree = every.grow(data, y, n_classes=2, costs=costs)
    assert TreeGuarantee.of(tree, every, costs, many_categories=True) is not None


def test_the_run_speaks_for_numbers_too():
    X, _, prices = next(instances(1, seed=6))
    grower = ClassTreeGrower(SquaredPairs(), tests="multiway")
    costs = FeatureCosts(prices).bind(X.shape[1])
    target = np.random.default_rng(0).normal(size=len(X))
    tree = grower.grow(BinnedData.fit(X.astype(float), exact=True), target, n_classes=None, costs=costs)
    guarantee = TreeGuarantee.of(tree, grower, costs)
    assert guarantee.bound is None
    assert 0 < guarantee.optimum_at_least <= guarantee.max_cost * NEARLY
