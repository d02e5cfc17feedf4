"""Ridges and the end of a sequence, chosen on held-out rows: refits of a given order against refits on the rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from anytime.linear import tuning
from anytime.linear.moments import Moments
from anytime.linear.pursuit import Path
from anytime.linear.tuning import RIDGES, OrderedRefits, order_ridge, tuned
from tests.reference.linear import Rows, random_problem

seeds = st.integers(0, 2**32 - 1)
whitening = st.sampled_from(["data", "criterion"])


def instance(seed, sizes, *, repeats=0, n=60, k=1, **settings):
    """Rows to fit and rows to judge on, the moments of both group by group, where groups begin, and an order."""
    random = np.random.default_rng(seed)
    X, y, groups = random_problem(random, sizes, n=2 * n, k=k)
    for _ in range(repeats):
        to, one, other = random.integers(X.shape[1], size=3)
        X[:, to] = X[:, one] + random.integers(2) * X[:, other]
    columns = np.concatenate(groups)
    X, y = X[:, columns], np.reshape(y, (2 * n, -1))
    start = np.cumsum([0, *sizes])
    rows = Rows(X[:n], y[:n], [range(*start[g : g + 2]) for g in range(len(sizes))], **settings)
    train = Moments(X.shape[1], k)
    train.add(X[:n], y[:n])
    held = train.beside()
    held.add(X[n:], y[n:])
    units = train.standardised()
    order = random.permutation(len(sizes))
    return rows, units, held.standardised(like=units), start, order, (X[n:], y[n:])


@given(
    seed=seeds,
    sizes=st.lists(st.integers(1, 3), min_size=1, max_size=6),
    l2_regularization=st.sampled_from([0.0, 1e-3, 0.5]),
    whiten=whitening,
    repeats=st.sampled_from([0, 0, 2]),
    n_targets=st.integers(1, 2),
)
def test_tables_of_any_prefixes_are_refits_and_their_losses_those_of_answers(
    seed, sizes, l2_regularization, whiten, repeats, n_targets
):
    """Also where columns repeat each other, and only some prefixes are asked for."""
    rows, units, held, start, order, (X, y) = instance(
        seed, sizes, repeats=repeats, k=n_targets, l2_regularization=l2_regularization, whiten=whiten
    )
    refits, judges = (OrderedRefits(of, start, order, whiten == "data") for of in (units, held))
    stages = np.flatnonzero(np.random.default_rng(seed).random(len(sizes)) < 0.7)
    stages = stages if stages.size else np.array([len(sizes) - 1])
    tables = refits.tables(l2_regularization, stages)
    losses = judges.losses(tables)
    for stage, table, loss in zip(stages, tables, losses, strict=True):
        chosen = order[: stage + 1].tolist()
        own = refits.columns[: refits.ends[stage]]
        assert table.shape == (own.size, n_targets)
        fitted = rows.T - rows.residual(chosen)
        assert_allclose(rows.Z[:, own] @ table, fitted, rtol=1e-6, atol=1e-7)
        if not repeats or l2_regularization:
            away = (rows.answers(chosen, X) - y) / rows.target_scale
            assert_allclose(loss, 0.5 * np.mean(away**2, axis=0), rtol=1e-6)


@given(seed=seeds, whiten=whitening, looks=st.sampled_from([1, 2, 3, 40]), beyond=st.sampled_from([0, 2, 40]))
def test_prefixes_between_looks_take_the_ridge_of_the_next_look(seed, whiten, looks, beyond):
    """And the sequence ends with the best prefix among those up to the look after the best look."""
    _, units, held, start, order, _ = instance(seed, [1, 2, 1, 3, 1, 2], n=25, whiten=whiten)
    refits, judges = (OrderedRefits(of, start, order, whiten == "data") for of in (units, held))
    path = Path(refits.columns, refits.ends, refits.tables(0.03, np.arange(6)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tuning, "_MOST_LOOKS", looks)
        patch.setattr(tuning, "_BEYOND", beyond)
        found = tuned(units, held, start, order, whiten == "data", 0.03, path)
    ridges = np.array(sorted([*RIDGES, 0.03]))
    every = np.array(
        [judges.losses(refits.tables(l2_regularization, np.arange(6)))[:, 0] for l2_regularization in ridges]
    )
    at = np.unique(np.linspace(0, 5, min(6, looks)).round().astype(int))
    own = every[ridges == 0.03, at]
    at = at[at <= 1.5 * at[own.argmin()] + beyond]  # far beyond the best of the given ridge nobody looks
    most = at[min(every[:, at].min(axis=0).argmin() + 1, at.size - 1)]
    chosen = [every[:, at[at >= t].min()].argmin() for t in range(most + 1)]
    losses = every[chosen, np.arange(most + 1)]
    last = losses.argmin()
    assert_array_equal(found.ridges, ridges[chosen[: last + 1]])
    assert_allclose(found.losses[:, 0], [0.5 * held.power[0], *losses[: last + 1]])


def test_the_ridge_of_an_order_grows_with_the_columns_and_falls_with_the_rows():
    assert order_ridge(10, 10_000) == pytest.approx(1e-4)
    assert order_ridge(10, 1e9) == 1e-5
    assert order_ridge(500, 50) == 0.3
    sizes = [order_ridge(d, 1000.0) for d in (1, 10, 100, 1000)]
    assert_array_equal(sizes, np.sort(sizes))
