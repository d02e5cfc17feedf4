"""A table of one row: every regressor answers its value, or says in one sentence what it needs."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestRegressor

import anytime as at

REGRESSORS = {
    "GroupPursuitRegressor": at.GroupPursuitRegressor(),
    "GroupPursuitRegressor, huber": at.GroupPursuitRegressor(loss="huber"),
    "GroupPursuitRegressor, poisson": at.GroupPursuitRegressor(loss="poisson"),
    "GradientBoostingRegressor": at.GradientBoostingRegressor(n_estimators=5),
    "SpeedBoostRegressor": at.SpeedBoostRegressor(),
    "AdditiveSpeedBoostRegressor": at.AdditiveSpeedBoostRegressor(),
    "BudgetForestRegressor": at.BudgetForestRegressor(),
    "BudgetTreeRegressor": at.BudgetTreeRegressor(),
    "PrunedForestRegressor": at.PrunedForestRegressor(RandomForestRegressor(5, random_state=0)),
    "StreamingBoostRegressor": at.StreamingBoostRegressor(n_estimators=3),
}


REFUSE = {
    "GradientBoostingRegressor",
    "SpeedBoostRegressor",
    "AdditiveSpeedBoostRegressor",
    "BudgetForestRegressor",
    "BudgetTreeRegressor",
}  # these need two rows


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", REGRESSORS)
def test_one_row_is_answered_with_its_value_or_refused_in_one_sentence(name):
    X, y = np.array([[1.0, 2.0, 3.0]]), np.array([7.0])
    model = REGRESSORS[name]
    if name in REFUSE:
        with pytest.raises(ValueError, match=r"1 sample\(s\) .* while a minimum of 2 is required"):
            model.fit(X, y)
        return
    model.fit(X, y)
    assert model.predict(X) == pytest.approx(y, abs=0.01)
    assert model.predict(X, budget=0) == pytest.approx(y, abs=0.01)
    assert model.predict(X + 1).shape == (1,)


@pytest.mark.parametrize("name", sorted(REFUSE))
def test_one_row_with_a_word_is_refused_in_the_same_sentence(name):
    X = pd.DataFrame({"age": [1.0], "city": ["oslo"]})
    with pytest.raises(ValueError, match=r"1 sample\(s\) .* while a minimum of 2 is required"):
        REGRESSORS[name].fit(X, [7.0])
