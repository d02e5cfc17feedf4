"""Look-alikes drawn from a sample, and prices made from weights: budgeted_trees 4.13 and 7."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from anytime.costs import FeatureCosts
from anytime.datasets import Dataset, load
from anytime_research.datasets import enlarge, make_miniboone, weight_prices


@pytest.fixture(scope="module")
def sample():
    """Skewed, correlated columns of two classes, ten rows of one class without measurements."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [400, 600])
    hidden = rng.normal(size=(1000, 3)) @ np.array([[1, 0.8, 0], [0, 0.6, 0.5], [0, 0, 0.9]]) + y[:, None]
    X = np.exp(hidden)
    X[:10] = -999.0
    return Dataset(X, y, FeatureCosts(np.ones(3)), name="sample")


@pytest.mark.parametrize("likeness", [0.0, 0.5, 0.9])
def test_marginals_and_rank_correlations_of_each_class_are_kept(sample, likeness):
    large = enlarge(sample, [20_000, 10_000], likeness=likeness, placeholder=-999.0)
    assert np.bincount(large.y).tolist() == [20_000, 10_000]
    empty = (large.X == -999.0).all(axis=1)
    assert ((large.X == -999.0).any(axis=1) == empty).all()
    assert not empty[large.y == 1].any()
    assert empty[large.y == 0].mean() == pytest.approx(10 / 400, abs=0.005)
    for c in (0, 1):
        ours = large.X[(large.y == c) & ~empty]
        theirs = sample.X[(sample.y == c) & (sample.X[:, 0] > 0)]
        middle = np.quantile(ours, [0.25, 0.5, 0.75], axis=0) / np.quantile(theirs, [0.25, 0.5, 0.75], axis=0)
        assert np.abs(middle - 1).max() < 0.15
        assert np.abs(spearmanr(ours).statistic - spearmanr(theirs).statistic).max() < 0.05


def test_likeness_one_repeats_the_rows_of_the_sample(sample):
    large = enlarge(sample, [50, 50], likeness=1.0, placeholder=-999.0)
    distance = np.abs(large.X[:, None, :] - sample.X[None]).max(axis=2)
    nearest = distance.argmin(axis=1)
    assert distance.min(axis=1).max() < 1e-9
    assert (sample.y[nearest] == large.y).all()


def test_rows_depend_on_the_random_state_alone(sample):
    one, again, other = (enlarge(sample, [30, 30], placeholder=-999.0, random_state=s).X for s in (1, 1, 2))
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)


def test_enlarge_says_what_is_wrong(sample):
    with pytest.raises(ValueError, match="likeness must be between 0 and 1, not 2"):
        enlarge(sample, [1, 1], likeness=2)
    with pytest.raises(ValueError, match="one number per class that the sample has, not \\[1, 1, 1\\]"):
        enlarge(sample, [1, 1, 1])
    with pytest.raises(ValueError, match="without missing values"):
        enlarge(sample.with_attributes(X=np.full((1000, 3), np.nan)), [1, 1])


def test_miniboone_has_the_sizes_of_the_thesis(sample):
    """budgeted_trees 3.10 and 7: 130,064 rows, of which 45,523, 19,510 and 65,031 to learn, to choose and to judge."""
    data = make_miniboone(sample)
    assert len(data.y) == 130_064
    assert np.bincount(data.y).tolist() == [93_565, 36_499]
    assert (len(data.train), len(data.valid), len(data.test)) == (45_523, 19_510, 65_031)
    assert np.array_equal(np.concatenate([data.train, data.valid, data.test]), np.arange(130_064))
    small = make_miniboone(sample, 1000)
    assert (len(small.train), len(small.valid), len(small.test)) == (350, 150, 500)


def test_weight_prices_rise_with_weights_and_sum_to_fifty():
    """budgeted_trees 4.13 and C11: largest weight 40, rounded, at least 1, then scaled to a sum of 50."""
    X, y, _ = load("breast_cancer")
    prices = np.array([*weight_prices(X, y).prices.values()])
    assert prices.sum() == pytest.approx(50)
    whole = prices / prices.min()
    assert whole.max() == pytest.approx(40)
    assert whole == pytest.approx(np.round(whole))
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 4)) * [1, 1, 1, 100]
    y = (X[:, 0] + 0.3 * X[:, 1] > 0).astype(int)
    first = [*weight_prices(X, y).prices.values()]
    assert first[0] > first[1] > first[2]
    scaled = [*weight_prices(X * [1, 7, 1, 0.01], y).prices.values()]
    assert scaled == pytest.approx(first)
    with pytest.raises(ValueError, match="no column has a weight"):
        weight_prices(np.zeros((10, 2)), np.arange(10) % 2)
