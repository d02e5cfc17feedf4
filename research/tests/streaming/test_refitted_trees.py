"""Trees by follow the regularised leader (streaming_boosting A.3, W3)."""

import pickle

import numpy as np
import pytest

import anytime as at
from anytime.streaming import Drift
from anytime.streaming.boosted_bank import BoostedBank
from anytime.streaming.losses import Squared
from anytime.trees.binning import BinnedData
from anytime.trees.block import TreeBlock
from anytime.trees.growing import TreeGrower
from anytime_research.streaming.refitted_trees import FtrlTree
from tests.streaming import test_banks as banks
from tests.streaming.test_banks import rows, targets_of, teach
from tests.streaming.test_drift import _turning_stream


@pytest.mark.parametrize(
    "check",
    [
        banks.test_the_first_learners_do_not_depend_on_how_many_there_are,
        banks.test_appended_learners_leave_the_others_alone_and_learn,
        banks.test_learners_appended_before_the_first_row_are_like_those_made_at_once,
        banks.test_a_block_is_a_frozen_copy_of_the_learners,
        banks.test_rows_of_weight_zero_teach_nothing,
        banks.test_learners_get_better_at_their_targets,
    ],
    ids=lambda check: check.__name__,
)
def test_they_are_learners_like_others(check):
    check(FtrlTree(max_depth=2, buffer=60, stagger=5))


@pytest.mark.parametrize("at_row", [40, 170])
def test_learning_goes_on_from_a_state_bit_for_bit(at_row):
    X = rows()
    bank = FtrlTree(max_depth=2, buffer=60, stagger=5).make(3, 4, 2, 5)
    teach(bank, X[:at_row])
    again = type(bank).from_state(bank.learner, *bank.state())
    for one in (bank, again):
        teach(one, X[at_row:])
    assert np.array_equal(again.predict(X), bank.predict(X))


def test_they_can_begin_anew():
    X, y = _turning_stream(0)
    bank = FtrlTree(buffer=300).make(6, 5, 1)
    model = BoostedBank(bank, Squared(), step=0.5, drift=Drift(action="restart", delta=0.05))
    model.learn(X, y, batch_size=4)
    assert model.n_alarms >= 1


def test_an_estimator_takes_them_as_objects():
    X = np.random.default_rng(0).normal(size=(600, 3))
    y = X[:, 0] + np.abs(X[:, 1])
    model = at.StreamingBoostRegressor(n_estimators=10, learner=FtrlTree(), random_state=0)
    said = model.predict_then_fit(X, y)
    assert np.mean((said[300:] - y[300:]) ** 2) < 0.7 * y.var()
    again = pickle.loads(pickle.dumps(model))
    for one in (model, again):
        one.partial_fit(X, y)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_refitted_trees_are_grown_when_the_rows_have_grown_by_a_factor():
    """A.3, W3: refits at t = 1.2^k or one row later, each to all rows since the tree began."""
    X = rows(200)
    bank = FtrlTree(max_depth=2, stagger=7).make(2, 4, 1)
    q = targets_of(X, 2, 1)
    changed: list[list[int]] = [[], []]
    before = bank.predict(X)
    for t in range(200):
        bank.update(X[t : t + 1], q[:, t : t + 1])
        for i in range(2):
            if not np.array_equal(bank.predict(X)[i], before[i]):
                changed[i].append(t + 1)
        before = bank.predict(X)
    assert changed[0][:8] == [1, 2, 3, 4, 5, 6, 8, 10]
    assert changed[1][:4] == [8, 9, 10, 11]  # it began after 7 rows
    data = BinnedData.fit(X[: changed[0][-1]])
    tree = TreeGrower(max_leaf_nodes=None, max_depth=2, min_samples_leaf=5, min_weight=0.0).grow(
        data, q[0, : changed[0][-1]]
    )
    np.testing.assert_allclose(
        bank.block().outputs(0, X), TreeBlock(tree.arrays).outputs(0, X), rtol=0, atol=1e-12
    )


def test_a_full_buffer_is_a_uniform_sample_of_the_rows():
    bank = FtrlTree(buffer=50, stagger=0).make(1, 1, 1, 3)
    for t in range(2000):
        bank.update(np.array([[float(t)]]), np.zeros((1, 1, 1)))
    kept = bank.state()[1]["rows"][:, 0]
    assert kept.size == len(set(kept)) == 50
    assert abs(kept.mean() - 1000) < 250  # 3 deviations of the mean of 50 draws


def test_a_growth_of_nothing_is_refused():
    with pytest.raises(ValueError, match="more than 1"):
        FtrlTree(growth=1.0)
