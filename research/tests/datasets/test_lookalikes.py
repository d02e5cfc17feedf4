"""Look-alikes of data that cannot be passed on: linear_and_networks 5.1, functional_gradient_and_greedy 9 (figure 5.8)."""

import numpy as np
import pytest

from anytime.costs import FeatureCosts
from anytime_research.datasets import (
    make_agricultural,
    make_grouped_synthetic,
    make_ranking,
    random_groups,
    ranking_chunks,
    write_ranking,
)

PUBLISHED = np.repeat([1.0, 5.0, 20.0, 50.0, 100.0, 150.0, 200.0], [123, 31, 191, 125, 16, 32, 1])  # 519


@pytest.fixture(scope="module")
def fields():
    return make_agricultural(20_000)


@pytest.fixture(scope="module")
def documents():
    return make_ranking(20_000)


def groups_of(data):
    return [list(columns) for columns in data.costs.groups.values()]


def standardised(data):
    X = (data.X - data.X.mean(axis=0)) / data.X.std(axis=0)
    y = (data.y - data.y.mean()) / data.y.std()
    return X.T @ X / len(X), X.T @ y / len(X)


def explained(C, v, columns):
    return float(
        v[columns] @ np.linalg.solve(C[np.ix_(columns, columns)] + 1e-8 * np.eye(len(columns)), v[columns])
    )


def area(data, moments, score, cost_aware=True, stop=0.5):
    """Mean explained variance up to a share of the total cost, buying by ``score(C, rest, b, group)`` per price.

    ``rest`` and ``b`` are what is left of C and v after what is bought.
    """
    C, v = moments
    groups, prices = groups_of(data), np.array([*data.costs.prices.values()])
    bought, left, spent, worth, total = [], list(range(len(groups))), 0.0, 0.0, 0.0
    limit = stop * prices.sum()
    while left and spent < limit:
        known = C[np.ix_(bought, bought)] + 1e-8 * np.eye(len(bought))
        solved = np.linalg.solve(known, np.column_stack([C[bought], v[bought]]))
        rest, b = C - C[:, bought] @ solved[:, :-1], v - C[:, bought] @ solved[:, -1]
        rates = [score(C, rest, b, groups[g]) / (prices[g] if cost_aware else 1.0) for g in left]
        g = left.pop(int(np.argmax(rates)))
        total += worth * (min(spent + prices[g], limit) - spent)
        bought, spent = bought + groups[g], spent + prices[g]
        worth = explained(C, v, bought)
    return total / limit


def whitened(C, rest, b, group):
    return explained(C, b, group)


def norm(C, rest, b, group):
    return (b[group] ** 2).sum()


def single(C, rest, b, group):
    return (b[group] ** 2).max()


def gain(C, rest, b, group):
    """What the group would really add."""
    return explained(rest, b, group)


# ---------------------------------------------------------------------- agricultural


def test_agricultural_has_the_published_groups(fields):
    """5.1: 328 features in 57 groups, 6 of 32, the others 1-6; so 51 groups share 136 columns."""
    sizes = np.array([len(columns) for columns in groups_of(fields)])
    assert sizes.size == 57
    assert (sizes == 32).sum() == 6
    others = sizes[sizes != 32]
    assert others.size == 51
    assert others.sum() == 136
    assert set(others) == {1, 2, 3, 4, 5, 6}
    assert sorted(j for columns in groups_of(fields) for j in columns) == list(range(328))


def test_agricultural_has_the_published_prices(fields):
    """5.1: seconds, 0.0005-0.0088 per group; total 0.111."""
    prices = [*fields.costs.prices.values()]
    assert min(prices) == 0.0005
    assert max(prices) == 0.0088
    assert fields.costs.total == 0.111
    assert fields.costs.unit == "s"


def test_agricultural_has_the_published_classes(fields):
    """5.1: labels {1, 2} whose half variance is R(∅) = 0.091, that of a class share of 0.24."""
    assert set(fields.y.tolist()) == {1, 2}
    assert np.mean(fields.y == 2) == pytest.approx(0.24, abs=0.01)
    assert fields.y.var() / 2 == pytest.approx(0.091, abs=0.002)


def test_agricultural_folds_are_five_of_100_in_510_and_the_rest(fields):
    """5.1: five sets of 100k, and the remaining 10k of 510k for validation."""
    counts = np.bincount(make_agricultural(5100).folds, minlength=7)
    assert counts.tolist() == [0, 1000, 1000, 1000, 1000, 1000, 100]
    assert (fields.folds[fields.valid] == 6).all()
    assert len(fields.valid) == (fields.folds == 6).sum()


def test_columns_of_a_natural_group_are_strongly_correlated_and_groups_less(fields):
    C, _ = standardised(fields)
    group = np.empty(328, dtype=int)
    for g, columns in enumerate(groups_of(fields)):
        group[columns] = g
    same = (group[:, None] == group) & ~np.eye(328, dtype=bool)
    assert np.abs(C[same]).mean() > 0.7
    assert 0.2 < np.abs(C[group[:, None] != group]).mean() < 0.5


def test_some_groups_repeat_a_good_column_and_some_have_no_good_column(fields):
    """The reasons for which No-Whiten over-rates and Single under-rates a group."""
    C, v = standardised(fields)
    worth = np.array([explained(C, v, columns) for columns in groups_of(fields)])
    added = np.array([norm(C, C, v, columns) for columns in groups_of(fields)])
    best = np.array([single(C, C, v, columns) for columns in groups_of(fields)])
    assert (added > 5 * worth)[worth > 0.02].any()
    assert (best < 0.3 * worth)[worth > 0.1].any()


def test_prices_are_unrelated_to_value():
    ranks = []
    for state in range(12):
        data = make_agricultural(3000, random_state=state)
        C, v = standardised(data)
        worth = [explained(C, v, columns) for columns in groups_of(data)]
        ranks.append(np.corrcoef(worth, [*data.costs.prices.values()])[0, 1])
    assert abs(np.mean(ranks)) < 2.5 / np.sqrt(12 * 57)


def test_agricultural_separates_the_methods_as_published(fields):
    """5.2, table 3.1: CS-G-FR > CS-G-OMP > No-Whiten, Single > G-OMP, here by area up to 20 % of the cost."""
    data = fields, standardised(fields)
    omp = area(*data, whitened, stop=0.2)
    assert area(*data, gain, stop=0.2) > omp
    others = [area(*data, norm, stop=0.2), area(*data, single, stop=0.2)]
    assert max(others) < omp
    assert min(others) > area(*data, whitened, cost_aware=False, stop=0.2)


# ---------------------------------------------------------------------- ranking


def test_ranking_has_the_published_features_and_prices(documents):
    """5.1: 501 features of seven prices, total about 17K."""
    assert documents.X.shape == (20_000, 501)
    assert documents.costs.total == pytest.approx(17_000, rel=0.01)
    alone = make_ranking(10, group_size=1)
    assert len(alone.costs.names) == 501
    assert set(alone.costs.prices.values()) == {1, 5, 20, 50, 100, 150, 200}


def test_ranking_grades_documents_of_queries(documents):
    assert np.bincount(documents.y, minlength=5).argmax() == 1
    assert set(documents.y.tolist()) == {0, 1, 2, 3, 4}
    assert (np.diff(documents.qid) >= 0).all()
    sizes = np.bincount(documents.qid)
    assert 20 < sizes.mean() < 28
    assert 1 <= sizes.min() < 10 < 50 < sizes.max() <= 139
    means = np.bincount(documents.qid, documents.y) / sizes  # queries differ by more than their documents do
    assert means[sizes > 20].var() > 1.5 * documents.y.var() / sizes[sizes > 20].mean()


def test_ranking_features_are_nearly_uncorrelated(documents):
    C, v = standardised(documents)
    assert np.abs(C - np.eye(501)).mean() < 0.12
    assert np.abs(C - np.eye(501)).max() > 0.7  # but families of a price are
    assert 0.25 < explained(C, v, list(range(501))) < 0.45


def test_groups_are_of_equal_prices_and_cost_their_sum():
    data = make_ranking(5, group_size=10)
    one = make_ranking(5, group_size=1).costs
    price = {columns[0]: one.prices[name] for name, columns in one.groups.items()}
    counts = []
    for name, columns in data.costs.groups.items():
        levels = {price[j] for j in columns}
        assert len(levels) == 1
        assert data.costs.prices[name] == len(columns) * levels.pop()
        counts.append(len(columns))
    assert max(counts) == 10
    assert sum(count < 10 for count in counts) <= 7  # what is left over of each price


def test_another_grouping_is_of_the_same_rows(documents):
    other = make_ranking(100, grouping=1)
    np.testing.assert_array_equal(other.X, documents.X[:100])
    assert other.costs.groups != documents.costs.groups
    assert other.costs.total == documents.costs.total


@pytest.mark.parametrize("given", [PUBLISHED, FeatureCosts(PUBLISHED)])
def test_published_prices_of_519_features(given):
    data = make_ranking(50, prices=given)
    assert data.X.shape == (50, 519)
    assert data.costs.total == 16_948
    assert make_ranking(50, group_size=1, prices=given).costs.prices["group 518"] == 200


def test_ranking_separates_the_methods_as_published(documents):
    """5.2, table 3.2: CS-G-FR > CS-G-OMP > No-Whiten > G-OMP; Single comes close where groups are random."""
    data = documents, standardised(documents)
    omp, unwhitened = area(*data, whitened, stop=0.3), area(*data, norm, stop=0.3)
    assert area(*data, gain, stop=0.3) > omp > unwhitened
    assert unwhitened > area(*data, whitened, cost_aware=False, stop=0.3)
    assert area(*data, single, stop=0.3) == pytest.approx(omp, rel=0.03)


# ---------------------------------------------------------------------- large


@pytest.mark.parametrize("rows", [1, 700, 4096, 5000])
def test_chunks_are_the_rows_whatever_their_size(documents, rows):
    n = min(9000, 12 * rows)
    chunks = list(ranking_chunks(n, rows=rows))
    assert all(len(chunk.y) <= rows for chunk in chunks)
    np.testing.assert_array_equal(np.vstack([chunk.X for chunk in chunks]), documents.X[:n])
    np.testing.assert_array_equal(np.concatenate([chunk.y for chunk in chunks]), documents.y[:n])
    np.testing.assert_array_equal(np.concatenate([chunk.qid for chunk in chunks]), documents.qid[:n])


@pytest.mark.parametrize("make", [make_agricultural, make_ranking])
def test_float32_holds_the_same_numbers_rounded(make):
    narrow, wide = make(300, dtype=np.float32), make(300)
    assert narrow.X.dtype == np.float32
    np.testing.assert_array_equal(narrow.X, wide.X.astype(np.float32))
    np.testing.assert_array_equal(narrow.y, wide.y)


def test_a_parquet_file_holds_the_rows(tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    write_ranking(tmp_path / "ranking.parquet", 5000, prices=PUBLISHED, random_state=3)
    table = pandas.read_parquet(tmp_path / "ranking.parquet")
    expected = make_ranking(5000, prices=PUBLISHED, random_state=3, dtype=np.float32)
    assert list(table) == [*expected.feature_names, "relevance"]
    np.testing.assert_array_equal(table.drop(columns="relevance").to_numpy(), expected.X)
    np.testing.assert_array_equal(table["relevance"].to_numpy(), expected.y)


# ---------------------------------------------------------------------- figure 5.8


def test_grouped_synthetic_has_the_published_shape():
    """9, figure 5.8: 100 examples, 160 features with pairwise correlation 0.6, 16 random groups of 10, noise 0.1."""
    data = make_grouped_synthetic()
    assert data.X.shape == (100, 160)
    assert [len(columns) for columns in groups_of(data)] == [10] * 16
    assert set(data.costs.prices.values()) == {1.0}
    C, _ = standardised(make_grouped_synthetic(20_000))
    assert C[~np.eye(160, dtype=bool)].mean() == pytest.approx(0.6, abs=0.02)
    np.testing.assert_allclose(data.X.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(data.X.std(axis=0), 1)


def test_half_of_the_groups_make_up_the_grouped_synthetic_target():
    data = make_grouped_synthetic(5000)
    weights = np.linalg.lstsq(data.X, data.y, rcond=None)[0]
    by_group = np.array([weights[columns].mean() for columns in groups_of(data)])
    useful = by_group > by_group.max() / 2
    assert useful.sum() == 8
    assert (data.y - data.X @ weights).std() == pytest.approx(0.1, rel=0.05)
    used = [j for g in np.flatnonzero(useful) for j in groups_of(data)[g]]
    np.testing.assert_allclose(weights[used], by_group.max(), rtol=0.8)
    assert by_group[~useful].max() < by_group.max() / 20


# ---------------------------------------------------------------------- all


@pytest.mark.parametrize("make", [make_agricultural, make_ranking, make_grouped_synthetic])
def test_equal_states_give_equal_data_and_others_do_not(make):
    first, again, other = make(50, random_state=7), make(50, random_state=7), make(50, random_state=8)
    np.testing.assert_array_equal(first.X, again.X)
    np.testing.assert_array_equal(first.y, again.y)
    assert first.costs.to_dict() == again.costs.to_dict()
    assert not np.array_equal(first.X, other.X)


@pytest.mark.parametrize("make", [make_agricultural, make_ranking])
def test_rows_begin_alike_whatever_their_number(make):
    few, many = make(100), make(5000)
    np.testing.assert_array_equal(few.X, many.X[:100])
    np.testing.assert_array_equal(few.y, many.y[:100])
    assert few.costs.to_dict() == many.costs.to_dict()


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="group_size at least 1"):
        random_groups([1.0, 2.0], 0)
    with pytest.raises(ValueError, match="one finite number per feature"):
        make_ranking(5, prices=[1.0, -2.0])
    with pytest.raises(ValueError, match="groups of columns"):
        make_ranking(5, prices=FeatureCosts({"a": 1.0}, groups={"a": [0, 1]}))
    with pytest.raises(ValueError, match="rows must be at least 1"):
        ranking_chunks(5, rows=0)
    with pytest.raises(ValueError, match="correlation"):
        make_grouped_synthetic(correlation=1.0)
