"""Shares of columns in the gains of stages."""

import numpy as np
import pytest
from sklearn.feature_selection import SelectFromModel

import anytime as at


@pytest.fixture(scope="module")
def rows():
    """Two groups of columns decide, in the ratio 2 to 1; the third is noise."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 5))
    return X, 2 * X[:, 0] + 2 * X[:, 1] + X[:, 2]


COSTS = at.FeatureCosts(
    groups={"much": [0, 1], "some": [2], "none": [3, 4]}, prices={"much": 1, "some": 1, "none": 1}
)


@pytest.mark.parametrize(
    "model",
    [
        at.SpeedBoostRegressor(costs=COSTS, random_state=0),
        at.GroupPursuitRegressor(costs=COSTS, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_columns_that_decide_have_the_larger_share(model, rows):
    shares = model.fit(*rows).feature_importances_
    assert shares.shape == (5,)
    assert shares.sum() == pytest.approx(1)
    assert (shares >= 0).all()
    assert shares[0] == shares[1]  # a group's columns share equally
    assert shares[0] + shares[1] > shares[2] > shares[3] + shares[4]


def test_a_share_is_the_gain_of_the_stage_that_buys_the_group(rows):
    model = at.GroupPursuitRegressor(costs=COSTS, random_state=0).fit(*rows)
    gains = np.diff(model.plan_.quality)
    assert model.order_ == ["much", "some"]
    expected = np.array([gains[0] / 2, gains[0] / 2, gains[1], 0, 0])
    np.testing.assert_allclose(model.feature_importances_, expected / expected.sum())


def test_scikit_learn_selects_columns_by_them(rows):
    X, y = rows
    chosen = SelectFromModel(at.SpeedBoostRegressor(costs=COSTS, random_state=0), threshold=0.1).fit(X, y)
    assert chosen.get_support().tolist() == [True, True, True, False, False]


def test_models_that_cannot_tell_gains_apart_name_the_way_that_works_for_all(rows):
    X, y = rows
    for model in (
        at.AcquisitionRegressor(costs=COSTS, random_state=0),
        at.GradientBoostingRegressor(
            costs=COSTS, validation_fraction=0.2, random_state=0
        ),  # trees mix groups
    ):
        model.fit(X[:100], y[:100])
        assert not hasattr(model, "feature_importances_")
        with pytest.raises(AttributeError, match=r"use at\.permutation_importances"):
            model.feature_importances_  # noqa: B018
    with pytest.raises(AttributeError, match="not fitted yet"):
        at.SpeedBoostRegressor().feature_importances_  # noqa: B018
