"""Orders of purchase, and the models that SpeedBoost renews along them."""

import numpy as np
import pytest

import anytime as at
from anytime.boosting import renewal


def friedman(n_rows, seed=0):
    """Five columns that matter, of which the first two the most, and five of noise."""
    random = np.random.default_rng(seed)
    X = random.uniform(size=(n_rows, 10))
    y = 4 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 3 * (X[:, 2] - 0.5) ** 2 + 2 * X[:, 3] + X[:, 4]
    return X, (y - y.mean()) / y.std() + random.normal(0, 0.1, n_rows)


def test_an_order_searched_on_a_sample_of_the_rows_is_that_of_a_table_of_the_samples_size(monkeypatch):
    """The ridge of a leaf counts rows, so that it may not grow in proportion when rows are drawn."""
    monkeypatch.setattr(renewal, "_SEARCH_ROWS", 2_000)
    found = {}

    def noted(self):
        order = search(self)
        found[len(self.training.table)] = order[:5], min(self._known.values())
        return order

    search = renewal.Renewal.order
    monkeypatch.setattr(renewal.Renewal, "order", noted)
    for n_rows in (2_000, 4_500):
        at.SpeedBoostRegressor(n_estimators=5, random_state=0).fit(*friedman(n_rows))
    (small_order, small_loss), (large_order, large_loss) = found[2_000], found[4_500]
    assert large_order == small_order
    assert large_loss == pytest.approx(small_loss, rel=0.25)
