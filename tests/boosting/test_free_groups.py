"""Groups that cost nothing."""

import numpy as np
import pytest

import anytime as at


@pytest.mark.filterwarnings("error")
def test_free_groups_come_first_and_no_rate_overflows():
    X = np.random.default_rng(0).normal(size=(500, 3))
    model = at.SpeedBoostRegressor(costs=[1.0, 0.0, 2.0], random_state=0).fit(X, 1e5 * X.sum(axis=1))
    assert model.order_[0] == "x1"
    assert model.stage_costs_[0] == 0
