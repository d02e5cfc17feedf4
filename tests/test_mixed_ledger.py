"""MixedLedger: each row pays as it would alone, whatever the other rows lack."""

import numpy as np
import pytest

import anytime as at
from anytime.mixed_ledger import MixedLedger


@pytest.mark.parametrize("seed", range(20))
def test_each_row_pays_as_it_would_alone(seed):
    random = np.random.default_rng(seed)
    names = [f"g{i}" for i in range(6)]
    requires = {
        name: [str(r) for r in random.choice(names[:i], random.integers(1, i + 1), replace=False)]
        for i, name in enumerate(names)
        if i and random.random() < 0.6
    }
    prices = {name: float(p) for name, p in zip(names, random.integers(0, 5, 6), strict=True)}
    costs = at.FeatureCosts(prices, requires=requires).bind(6, names)
    absent = random.random((9, 6)) < 0.3
    together, alone = MixedLedger(costs, absent), [costs.ledger(1, lacks) for lacks in absent]
    for _ in range(8):
        rows = np.sort(random.choice(9, random.integers(0, 10), replace=False))
        chosen = None if random.random() < 0.2 else rows
        groups = random.choice(6, random.integers(0, 4), replace=False).astype(np.int32)
        picked = range(9) if chosen is None else rows
        assert together.quote(groups, chosen).tolist() == [int(alone[i].quote(groups)[0]) for i in picked]
        together.buy(groups, chosen)
        together.charge(3, chosen)
        for i in picked:
            alone[i].buy(groups)
            alone[i].charge(3)
        assert together.paid.tolist() == [int(ledger.paid[0]) for ledger in alone]
        np.testing.assert_array_equal(together.bought, [ledger.bought[0] for ledger in alone])
    assert together.n_rows == 9
    before, other = together.paid, together.copy()
    other.charge(1)
    np.testing.assert_array_equal(together.paid, before)
    np.testing.assert_array_equal(other.paid, before + 1)
