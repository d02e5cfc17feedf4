"""Moments gathered in chunks are those of the whole table, with gaps and weights, wherever the columns lie."""

import pickle
import warnings

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from anytime.linear import moments as room
from anytime.linear.moments import Moments, Standardised, submatrix

seeds = st.integers(0, 2**32 - 1)


def expected(X, Y, weight=None):
    """mean, covariance, correlation, power: by filling each gap with its column's mean and looking at all rows at once."""
    X, Y = np.array(X, dtype=float), np.asarray(Y, dtype=float)
    weight = np.ones(len(X)) if weight is None else weight
    mean = np.zeros(X.shape[1])
    for j, column in enumerate(X.T):
        seen = ~np.isnan(column)
        mean[j] = np.average(column[seen], weights=weight[seen]) if seen.any() else 0.0
        column[np.isnan(column)] = mean[j]
    share = weight / weight.sum()
    target_mean = share @ Y
    A, B = X - mean, Y - target_mean
    return mean, target_mean, A.T @ (share[:, None] * A), A.T @ (share[:, None] * B), share @ B**2


@st.composite
def tables(draw):
    """(X, Y, weight): any sizes, gaps or none, weights or none, columns at any distance from 0 and of any scale."""
    random = np.random.default_rng(draw(seeds))
    n, d, k = draw(st.integers(1, 30)), draw(st.integers(1, 6)), draw(st.integers(1, 3))
    X = random.normal(size=(n, d)) * 10.0 ** random.integers(-3, 4, d) + draw(st.sampled_from([0.0, 100.0]))
    Y = random.normal(size=(n, k)) + X[:, :1]
    X[random.random((n, d)) < draw(st.sampled_from([0.0, 0.2, 0.7]))] = np.nan
    return X, Y, random.choice([0.1, 0.5, 1.0, 3.0], size=n) if draw(st.booleans()) else None


def gathered(X, Y, weight=None, chunk=None):
    moments = Moments(X.shape[1], Y.shape[1])
    for i in range(0, len(X), chunk or len(X)):
        part = slice(i, i + (chunk or len(X)))
        moments.add(X[part], Y[part], None if weight is None else weight[part])
    return moments


def check(moments, X, Y, weight=None, tolerance=1e-10):
    mean, target_mean, C, V, power = expected(X, Y, weight)
    found_mean, found_target = moments.means()
    # in units of the spread, or of a millionth of the size of what hardly varies
    scale = np.maximum(np.sqrt(np.diag(C)), 1e-6 * np.abs(mean) + 1e-9)
    target_scale = np.maximum(np.sqrt(power), 1e-6 * np.abs(target_mean) + 1e-9)
    assert_allclose(found_mean, mean, rtol=1e-12, atol=1e-12 * np.abs(mean).max())
    assert_allclose(found_target, target_mean, rtol=1e-12, atol=1e-10)
    found_C, found_V, found_power = moments.centred()
    assert_allclose(found_C / np.outer(scale, scale), C / np.outer(scale, scale), atol=tolerance)
    assert_allclose(
        found_V / np.outer(scale, target_scale), V / np.outer(scale, target_scale), atol=tolerance
    )
    assert_allclose(found_power / target_scale**2, power / target_scale**2, atol=tolerance)
    assert_array_equal(found_C, found_C.T)


# ---------------------------------------------------------------------- one pass


@given(tables(), st.integers(1, 31))
def test_chunks_of_any_size_give_the_moments_of_the_table(table, chunk):
    X, Y, weight = table
    check(gathered(X, Y, weight, chunk), X, Y, weight)


@given(tables(), st.integers(1, 8), st.integers(1, 4))
def test_small_memory_and_small_tiles_change_nothing(table, rows, tile):
    X, Y, weight = table
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(room, "_CHUNK_BYTES", 8 * X.shape[1] * rows)
        patch.setattr(room, "_FEWEST_ROWS", 1)
        patch.setattr(room, "_TILE", tile)
        patch.setattr(room, "_FEW_ROWS", rows)
        check(gathered(X, Y, weight), X, Y, weight)


@given(tables(), st.integers(1, 31), seeds)
def test_rows_shared_out_among_two_sums_and_merged_are_all_rows(table, chunk, seed):
    X, Y, weight = table
    random = np.random.default_rng(seed)
    one = Moments(X.shape[1], Y.shape[1])
    other = one.beside()
    for i in range(0, len(X), chunk):
        part = slice(i, i + chunk)
        one.locate(X[part], Y[part])
        first = random.random(len(X[part])) < 0.5
        for moments, rows in ((one, first), (other, ~first)):
            moments.add(X[part], Y[part], None if weight is None else weight[part], rows=np.flatnonzero(rows))
    check(one.merged(other), X, Y, weight)
    check(other.merged(one), X, Y, weight)


@given(tables(), st.sampled_from(["C", "F"]), seeds)
def test_some_rows_and_some_columns_are_a_smaller_table(table, order, seed):
    X, Y, weight = table
    random = np.random.default_rng(seed)
    rows = np.flatnonzero(random.random(len(X)) < 0.7)
    columns = np.flatnonzero(random.random(X.shape[1]) < 0.6)
    rows, columns = rows if rows.size else np.array([0]), columns if columns.size else np.array([0])
    # where a column lies is known from all rows: of what these do not have, and to rounding where they have one value
    assume(((~np.isnan(X[rows])).sum(axis=0)[columns] > 1).all())
    moments = Moments(X.shape[1], Y.shape[1])
    moments.add(np.array(X, order=order), Y, weight, rows)
    check(moments.only(columns), X[np.ix_(rows, columns)], Y[rows], None if weight is None else weight[rows])


@given(seeds, st.integers(1, 5))
def test_a_submatrix_has_the_rows_and_columns_asked_for(seed, tile):
    random = np.random.default_rng(seed)
    S, columns = random.normal(size=(7, 7)), random.permutation(7)[: random.integers(8)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(room, "_TILE", tile)
        assert_array_equal(submatrix(S, columns), S[np.ix_(columns, columns)])


@given(tables())
def test_float32_rows_are_gathered_in_float64(table):
    X, Y, weight = table
    X = X.astype(np.float32)
    check(gathered(X, Y, weight, 7), X, Y, weight)


def test_sums_can_be_put_away_and_go_on():
    random = np.random.default_rng(0)
    X, Y = random.normal(size=(20, 3)), random.normal(size=(20, 2))
    moments = pickle.loads(pickle.dumps(gathered(X[:9], Y[:9])))
    moments.add(X[9:], Y[9:])
    check(moments, X, Y)


def test_rows_are_left_as_they_were():
    X, Y, weight = np.array([[1.0, np.nan], [2.0, 5.0]]), np.ones((2, 1)), np.array([1.0, 2.0])
    before = X.copy(), Y.copy(), weight.copy()
    moments = gathered(X, Y, weight)
    moments.standardised()
    for array, was in zip((X, Y, weight), before, strict=True):
        assert_array_equal(array, was)
    check(moments, X, Y, weight)  # reading changes nothing either


# ---------------------------------------------------------------------- precision


@pytest.mark.parametrize("chunk", [1, 3, 50, None])
@pytest.mark.parametrize("gap_at_first", [False, True])
def test_columns_far_from_zero_keep_their_variance(chunk, gap_at_first):
    """A column that is missing in the first rows is located when it first appears."""
    random = np.random.default_rng(0)
    X = random.normal(size=(200, 3)) + np.array([0.0, 1e7, -1e9])
    if gap_at_first:
        X[:60, 1] = np.nan
        X[0] = np.nan
    Y = random.normal(size=(200, 1)) + 1e8
    check(gathered(X, Y, None, chunk), X, Y, tolerance=1e-7)


def test_a_column_that_drifts_keeps_its_variance():
    X = np.linspace(1e5, 1e5 + 1, 5000)[:, None] + np.random.default_rng(0).normal(size=(5000, 2)) * 1e-2
    check(gathered(X, X[:, :1], None, 100), X, X[:, :1], tolerance=1e-7)


# ---------------------------------------------------------------------- standardised


@given(tables(), st.integers(1, 31))
def test_standardised_moments_are_those_of_standardised_rows(table, chunk):
    X, Y, weight = table
    found = gathered(X, Y, weight, chunk).standardised()
    mean, target_mean, C, V, power = expected(X, Y, weight)
    varies = np.sqrt(np.diag(C)) > 1e-12 * np.abs(mean)
    assert_allclose(np.diag(found.covariance), varies, atol=1e-12)
    scale = np.where(varies, np.sqrt(np.diag(C)), 1.0)
    assert_allclose(found.scale, scale, rtol=1e-9)
    assert_allclose(found.covariance, np.where(varies, C / np.outer(scale, scale), 0.0), atol=1e-9)
    flat = np.sqrt(power) <= 1e-12 * np.abs(target_mean)
    target_scale = np.where(flat, 1.0, np.sqrt(power))
    assert_array_equal(found.power == 0, flat)
    assert_allclose(found.target_scale, target_scale, rtol=1e-9)
    assert_allclose(
        found.correlation, np.where(flat, 0.0, V / np.outer(scale, target_scale)) * varies[:, None], atol=1e-9
    )
    assert found.n_samples == len(X)


@given(tables(), tables())
def test_other_rows_in_the_units_of_these(table, other):
    """Held-out rows: mean and scale are those of the training rows, and a gap counts as their mean."""
    (X, Y, weight), (X2, _, _) = table, other
    d = min(X.shape[1], X2.shape[1])
    X, X2 = X[:, :d], X2[:, :d]
    Y2 = np.random.default_rng(0).normal(size=(len(X2), Y.shape[1]))
    train = gathered(X, Y, weight)
    units = train.standardised()
    held = train.beside()
    held.add(X2, Y2)
    found = held.standardised(like=units)
    varies = np.diag(units.covariance) > 0
    Z = np.where(varies & ~np.isnan(X2), (X2 - units.mean) / units.scale, 0.0)
    T = (Y2 - units.target_mean) / units.target_scale * (units.power > 0)
    size = 1.0 + np.abs(Z).max() ** 2 + np.abs(T).max() ** 2
    assert_allclose(found.covariance, Z.T @ Z / len(Z), atol=1e-9 * size)
    assert_allclose(found.correlation, Z.T @ T / len(Z), atol=1e-9 * size)
    assert_allclose(found.power, (T**2).mean(axis=0), atol=1e-9 * size)


def test_columns_without_any_spread_are_zero_and_keep_their_place():
    """Constant, constant up to rounding, never there, there once, and a real one."""
    random = np.random.default_rng(0)
    X = np.column_stack(
        [
            np.full(50, 0.1),
            0.1 + 1e-17 * random.normal(size=50),
            np.full(50, np.nan),
            np.where(np.arange(50) == 7, 3.0, np.nan),
            random.normal(size=50),
        ]
    )
    found = gathered(X, np.full((50, 1), 1e8), None, 11).standardised()
    assert_array_equal(np.diag(found.covariance)[:4], 0.0)
    assert_array_equal(found.covariance[:4], 0.0)
    assert found.covariance[4, 4] == pytest.approx(1.0)
    assert_array_equal(found.scale[:4], 1.0)
    assert_allclose(found.mean[:4], [0.1, 0.1, 0.0, 3.0])
    assert (found.power, found.target_scale, found.target_mean) == (0.0, 1.0, 1e8)
    assert_array_equal(found.correlation, 0.0)


def test_one_row_has_means_and_nothing_else():
    found = gathered(np.array([[3.0, np.nan]]), np.array([[5.0]])).standardised()
    assert_array_equal(found.mean, [3.0, 0.0])
    assert_array_equal(found.covariance, 0.0)
    assert found.target_mean == [5.0]


@pytest.mark.parametrize("scale", [1e-130, 1e-30, 1e30, 1e150])
def test_any_unit_gives_the_same_standardised_moments(scale):
    random = np.random.default_rng(0)
    X, Y = random.normal(size=(60, 3)) + 2, random.normal(size=(60, 1))
    one, other = gathered(X, Y).standardised(), gathered(scale * X, scale * Y).standardised()
    assert_allclose(other.covariance, one.covariance, atol=1e-12)
    assert_allclose(other.correlation, one.correlation, atol=1e-12)
    assert_allclose(other.scale, scale * one.scale)


def test_numbers_too_large_to_be_squared_are_refused():
    X, Y = np.random.default_rng(0).normal(size=(9, 3)), np.ones((9, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match="column 1 holds numbers too large"):
            gathered(X * [1.0, 1e200, 1.0], Y).standardised()
        with pytest.raises(ValueError, match="target 0 holds numbers too large"):
            gathered(X, X[:, :1] * 1e200).standardised()


def test_moments_of_no_rows_are_refused():
    with pytest.raises(ValueError, match="no moments of no rows"):
        Moments(2, 1).standardised()
    with pytest.raises(ValueError, match="no moments of no rows"):
        gathered(np.empty((0, 2)), np.empty((0, 1)), chunk=1).standardised()


def test_sums_gathered_apart_are_not_merged():
    random = np.random.default_rng(0)
    one, other = (gathered(random.normal(size=(5, 2)), np.ones((5, 1))) for _ in range(2))
    with pytest.raises(ValueError, match="share a centre"):
        one.merged(other)


# ---------------------------------------------------------------------- as a user gives them


def test_given_moments_are_brought_to_unit_variance():
    found = Standardised.of([[4.0, 1.0], [1.0, 9.0]], [3.0, 2.0], [1.0, 2.0], 5.0, 25.0)
    assert_allclose(found.covariance, [[1.0, 1 / 6], [1 / 6, 1.0]])
    assert_allclose(found.correlation, [[0.3], [2 / 15]])
    assert_allclose(found.mean, [1.0, 2.0])
    assert (found.target_mean, found.target_scale, found.power) == ([5.0], [5.0], [1.0])
    assert_array_equal(Standardised.of(np.zeros((1, 1)), 0.0).covariance, [[0.0]])


@given(tables())
def test_given_moments_of_a_table_are_the_moments_of_the_table(table):
    X, Y, weight = table
    here = gathered(X, Y, weight)
    units = here.standardised()
    mean, target_mean = here.means()
    C, V, power = here.centred()
    if (units.power == 0).any() or (np.diag(units.covariance) == 0).any():
        return  # what is constant but for rounding is told apart on the way
    found = Standardised.of(C, V, mean, target_mean, power)
    assert_allclose(found.covariance, units.covariance, atol=1e-12)
    assert_allclose(found.correlation, units.correlation, atol=1e-12)
    assert_allclose(found.scale, units.scale)


@pytest.mark.parametrize(
    ("given_moments", "message"),
    [
        (([[1.0, 0.5], [0.4, 1.0]], [0.1, 0.1]), "symmetric with a row per column"),
        (([[1.0, 0.5], [0.5, 1.0]], [0.1]), "symmetric with a row per column"),
        (([[1.0, 0.5]], [0.1]), "symmetric with a row per column"),
        (([[1.0, np.nan], [np.nan, 1.0]], [0.1, 0.1]), "covariance contains NaN"),
        (([[1.0]], [np.inf]), "correlation contains infinity"),
        (([[-1.0]], [0.1]), "variance is negative"),
        (([[1.0]], [0.1], None, None, 0.0), "target_variance is not positive"),
        (([[1.0]], [0.1], None, None, [1.0, 2.0]), "target_variance must be a finite number or 1"),
        (([[1.0]], [0.1], None, None, np.nan), "target_variance must be a finite number"),
        (([[1.0]], [0.1], [1.0, 2.0]), "mean must be a finite number or 1 of them"),
        (([[1.0]], [0.1], np.inf), "mean must be a finite number"),
        (([[1.0]], [0.1], None, [0.0, 0.0]), "target_mean must be a finite number or 1"),
        (([[1.0, 2.0], [2.0, 1.0]], [0.1, 0.1]), r"covariance\[0, 1\] is 2 times what the variances allow"),
        (([[0.0, 0.1], [0.1, 1.0]], [0.0, 0.1]), "no data has such moments"),
        (([[1.0]], [3.0]), r"correlation\[0, 0\] is 3 times .* is target_variance right"),
    ],
)
def test_moments_that_no_data_has_are_refused(given_moments, message):
    with pytest.raises(ValueError, match=message):
        Standardised.of(*given_moments)
