"""What every bank of learners promises, whatever its learners."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import SGDRegressor

from anytime.streaming.banks import (
    HoeffdingTree,
    OnlineLinear,
    OnlineRidge,
    OwnLearner,
    SmallNet,
    Stump,
    bank_from_state,
    learner_named,
)
from anytime.streaming.boosted_bank import BoostedBank
from anytime.streaming.losses import loss_named

KINDS = {
    "hoeffding_tree": HoeffdingTree(grace=20, stagger=10, max_leaf_nodes=8),
    "stump": Stump(grace=20, stagger=0),
    "ridge": OnlineRidge(),
    "sgd": OnlineLinear(method="sgd"),
    "adagrad": OnlineLinear(learning_rate=0.1),
    "random": OnlineLinear(learning_rate=0.1, method="adam", features="random", n_components=6),
    "small_net": SmallNet(hidden=3, learning_rate=0.01),
    "leaky": SmallNet(hidden=3, activation="leaky_relu", learning_rate=0.01),
}
each_kind = pytest.mark.parametrize("learner", KINDS.values(), ids=KINDS)


def rows(n=300, d=4, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, d))
    X[::17, 1] = np.nan
    return X


def targets_of(X, n_estimators, m):
    """Other targets for every learner."""
    base = np.nan_to_num(X)
    return np.stack(
        [
            np.stack([np.sin(base[:, 0] * (i + 1)) + base[:, k % 4] for k in range(m)], 1)
            for i in range(n_estimators)
        ]
    )


def teach(bank, X, batch=1, weight=None):
    q = targets_of(X, bank.n_estimators, bank.n_outputs)
    for at in range(0, len(X), batch):
        part = slice(at, at + batch)
        bank.update(X[part], np.ascontiguousarray(q[:, part]), None if weight is None else weight[part])


@each_kind
def test_the_first_learners_do_not_depend_on_how_many_there_are(learner):
    """growth_and_streaming A-P8: learner i depends on random_state and i only."""
    X = rows()
    few, many = learner.make(3, 4, 2, 5), learner.make(6, 4, 2, 5)
    teach(few, X)
    teach(many, X)
    assert np.array_equal(few.predict(X), many.predict(X)[:3])
    assert not np.array_equal(many.predict(X)[0], many.predict(X)[4])


@each_kind
def test_appended_learners_leave_the_others_alone_and_learn(learner):
    X = rows()
    alone, grown = learner.make(2, 4, 1, 5), learner.make(2, 4, 1, 5)
    for bank in (alone, grown):
        teach(bank, X[:150])
    grown.append(2)
    assert grown.n_estimators == 4
    assert not grown.predict(X)[2:].any()  # they have seen nothing
    teach(alone, X[150:])
    teach(grown, X[150:])
    assert np.array_equal(grown.predict(X)[:2], alone.predict(X))
    assert grown.predict(X)[2].any()
    assert grown.block().n_stages == 4


@each_kind
def test_restarted_learners_begin_anew_and_the_others_go_on(learner):
    X = rows()
    bank, other = (learner.make(4, 4, 2, 3) for _ in range(2))
    for one in (bank, other):
        teach(one, X)
    bank.restart(np.array([False, True, True, False]))
    assert not bank.predict(X)[1:3].any()
    for one in (bank, other):
        teach(one, X[:100])
    same = (bank.predict(X) == other.predict(X)).all(axis=(1, 2))
    assert same.tolist() == [True, False, False, True]
    fresh = learner.make(4, 4, 2, 3)
    if not isinstance(learner, HoeffdingTree):  # trees know what the rows before looked like
        teach(fresh, X[:100])
        np.testing.assert_array_equal(bank.predict(X)[1:3], fresh.predict(X)[1:3])


@each_kind
def test_learners_appended_before_the_first_row_are_like_those_made_at_once(learner):
    X = rows()
    grown, made = learner.make(2, 4, 1, 5), learner.make(5, 4, 1, 5)
    grown.append(3)
    for bank in (grown, made):
        teach(bank, X)
    assert np.array_equal(grown.predict(X), made.predict(X))


@each_kind
@pytest.mark.parametrize("at", [40, 170])
def test_learning_goes_on_from_a_saved_state_bit_for_bit(learner, at):
    X = rows()
    bank = learner.make(3, 4, 2, 5)
    teach(bank, X[:at])
    description, arrays = bank.state()
    again = bank_from_state(description, {name: array.copy() for name, array in arrays.items()})
    assert np.array_equal(again.predict(X), bank.predict(X))
    for one in (bank, again):
        teach(one, X[at:])
    assert np.array_equal(again.predict(X), bank.predict(X))


@each_kind
def test_a_block_is_a_frozen_copy_of_the_learners(learner):
    X = rows()
    bank = learner.make(3, 4, 2, 5)
    teach(bank, X[:200])
    block, said = bank.block(), bank.predict(X)
    teach(bank, X[200:])
    assert block.n_stages == 3
    assert block.width == 2
    np.testing.assert_allclose([block.outputs(i, X) for i in range(3)], said, rtol=0, atol=1e-12)
    assert not np.array_equal(bank.predict(X), said)
    assert all(set(block.columns(i)) <= set(bank.columns(i)) for i in range(3))


@each_kind
def test_rows_of_weight_zero_teach_nothing(learner):
    X = rows()
    weight = np.tile([1.0, 0.0, 2.0], 100)
    bank, without = learner.make(2, 4, 1, 5), learner.make(2, 4, 1, 5)
    teach(bank, X, weight=weight)
    kept = weight > 0
    teach(without, X[kept], weight=weight[kept])
    assert np.array_equal(bank.predict(X), without.predict(X))


@each_kind
def test_learners_get_better_at_their_targets(learner):
    X = rows(1500)
    bank = learner.make(2, 4, 1, 5)
    teach(bank, X, batch=1)
    new = rows(300, seed=1)
    q = targets_of(new, 2, 1)
    missed = ((bank.predict(new) - q) ** 2).mean(axis=(1, 2))
    assert (missed < 0.9 * (q**2).mean(axis=(1, 2))).all()


@pytest.mark.parametrize("learner", [KINDS[kind] for kind in ("ridge", "sgd", "adagrad", "random")])
def test_the_mean_of_parameters_is_the_mean_of_linear_functions(learner):
    """A.3: exact for learners that are linear in their parameters."""
    X = rows()
    bank = learner.make(2, 4, 1, 5)
    bank.track("params")
    q = targets_of(X, 2, 1)
    total = 0.0
    for t in range(60):
        bank.update(X[t : t + 1], q[:, t : t + 1])
        total = total + bank.predict(X)
    block = bank.read("params")
    np.testing.assert_allclose([block.outputs(i, X) for i in range(2)], total / 60, rtol=0, atol=1e-10)


def test_the_mean_of_parameters_is_not_the_mean_of_nets():
    X = rows()
    bank = KINDS["small_net"].make(2, 4, 1, 5)
    bank.track("params")
    q = targets_of(X, 2, 1)
    total = 0.0
    for t in range(len(X)):
        bank.update(X[t : t + 1], q[:, t : t + 1])
        total = total + bank.predict(X)
    assert np.abs(bank.read("params").outputs(0, X) - total[0] / len(X)).max() > 1e-4


def test_hypotheses_that_a_bank_does_not_have_are_refused():
    trees = KINDS["hoeffding_tree"].make(2, 4, 1)
    with pytest.raises(ValueError, match="cannot be read by 'params', only by 'last'"):
        trees.read("params")
    with pytest.raises(ValueError, match=r"call track\('params'\) before"):
        KINDS["ridge"].make(2, 4, 1).read("params")


# ---------------------------------------------------------------------- names and settings


def test_learners_have_names_and_can_be_cloned():
    assert learner_named("stump") == Stump()
    assert learner_named(SmallNet(hidden=2)).hidden == 2
    assert clone(SmallNet(hidden=2), safe=False) == SmallNet(hidden=2)
    with pytest.raises(
        ValueError, match="there is no learner 'tree'; the learners are hoeffding_tree, stump"
    ):
        learner_named("tree")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: HoeffdingTree(max_depth=0), "max_depth is 0"),
        (lambda: HoeffdingTree(max_bins=256), "from 2 to 255"),
        (lambda: HoeffdingTree(max_features=1.5), "at most 1.0"),
        (lambda: HoeffdingTree(max_features="log"), "'sqrt'"),
        (lambda: HoeffdingTree(fade=-1), "fade is -1"),
        (lambda: HoeffdingTree(delta=1.0), "between 0 and 1"),
        (lambda: HoeffdingTree(memory=0), "at least 1 row"),
        (lambda: OnlineRidge(0.0), "positive"),
        (lambda: OnlineLinear(method="lbfgs"), "'sgd', 'adagrad' or 'adam'"),
        (lambda: OnlineLinear(features="pca"), "'raw' or 'random'"),
        (lambda: SmallNet(activation="tanh"), "'leaky_relu'"),
        (lambda: SmallNet(hidden=0), "at least 1"),
        (lambda: OnlineRidge().make(0, 3, 1), "n_estimators is 0"),
        (lambda: OnlineRidge().make(1, 3, 1, -1), "random_state is -1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("kind", ["hoeffding_tree", "ridge", "small_net"])
def test_shapes_are_checked(kind):
    bank = KINDS[kind].make(2, 4, 1)
    with pytest.raises(ValueError, match="a row of X has 3 entries, expected 4"):
        bank.predict(np.zeros((1, 3)))
    with pytest.raises(ValueError, match="targets has 3 entries, expected 2"):
        bank.update(np.zeros((1, 4)), np.zeros((3, 1, 1)))
    with pytest.raises(ValueError, match="negative"):
        bank.update(np.zeros((1, 4)), np.zeros((2, 1, 1)), np.array([-1.0]))


@pytest.mark.parametrize("kind", ["hoeffding_tree", "ridge", "small_net"])
def test_a_state_with_a_piece_missing_or_cut_is_refused(kind):
    bank = KINDS[kind].make(2, 4, 1)
    teach(bank, rows())
    description, arrays = bank.state()
    for name in arrays:
        cut = {**arrays, name: arrays[name][:-1]}
        if arrays[name].size:
            with pytest.raises(ValueError, match=r"."):
                bank_from_state(description, cut)
    with pytest.raises(ValueError, match="there is no bank of 'oak'"):
        bank_from_state({**description, "kind": "oak"}, arrays)


# ---------------------------------------------------------------------- learners of one's own


class RunningMean:
    def __init__(self):
        self.n, self.mean = 0, 0.0

    def learn(self, x, target):
        self.n += 1
        self.mean = self.mean + (target - self.mean) / self.n

    def predict(self, x):
        return self.mean


@pytest.mark.parametrize("m", [1, 3])
def test_own_learners_learn_row_by_row(m):
    X = np.nan_to_num(rows())
    bank = OwnLearner(RunningMean).make(2, 4, m)
    assert not bank.predict(X).any()
    teach(bank, X)
    expected = targets_of(X, 2, m).mean(axis=1)
    np.testing.assert_allclose(bank.predict(X[:1])[:, 0], expected, rtol=1e-12)


def test_own_learners_may_be_those_of_scikit_learn():
    X = np.nan_to_num(rows(1000))
    bank = OwnLearner(lambda: SGDRegressor(random_state=0)).make(3, 4, 1)
    model = BoostedBank(bank, loss_named("squared"))
    model.learn(X, X[:, 0] - X[:, 1], batch_size=10)
    assert ((model.predict(X)[:, 0] - X[:, 0] + X[:, 1]) ** 2).mean() < 0.05
    bank.append(1)
    assert not bank.block().outputs(3, X).any()


def test_own_learners_say_what_is_wrong_with_them():
    with pytest.raises(TypeError, match="needs predict, and learn or partial_fit"):
        OwnLearner(dict).make(1, 2, 1)
    with pytest.raises(TypeError, match="a function that makes a learner"):
        OwnLearner(3)
    bank = OwnLearner(RunningMean).make(1, 4, 2)
    bank.update(np.zeros((1, 4)), np.zeros((1, 1, 2)))
    bank.objects[0].mean = 0.0
    with pytest.raises(ValueError, match="for 1 rows and 2 outputs"):
        bank.predict(np.zeros((1, 4)))
    with pytest.raises(TypeError, match="cannot be saved"):
        bank.state()
