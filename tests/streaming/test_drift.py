"""Detectors of change: false alarms, delays, memory; and what a boosted model does about it."""

import numpy as np
import pytest
from sklearn.linear_model import SGDRegressor

from anytime.streaming.banks import HoeffdingTree, OnlineLinear, OnlineRidge, OwnLearner, SmallNet
from anytime.streaming.boosted_bank import BoostedBank
from anytime.streaming.drift import Adwin, Drift, TwoWindows, Watch
from anytime.streaming.losses import Squared
from tests.reference.plain_banks import PlainRidge


def _coins(chance, n, seed):
    return (np.random.default_rng(seed).random(n) < chance).astype(float)


@pytest.mark.parametrize("make", [Adwin, TwoWindows])
@pytest.mark.parametrize("chance", [0.05, 0.3])
def test_false_alarms_are_as_rare_as_delta_says(make, chance):
    """At delta = 0.002 per look: 2,000 rows are 62 looks, so that 20 streams may have 2.5 alarms on average."""
    alarms = sum(
        sum(map(detector.update, _coins(chance, 2000, seed))) for seed in range(20) for detector in [make()]
    )
    assert alarms <= 3


def _delays(make, before, after, n_before=2000, n_after=1000):
    delays = []
    for seed in range(10):
        detector = make()
        for value in _coins(before, n_before, seed):
            detector.update(value)
        hits = (t + 1 for t, value in enumerate(_coins(after, n_after, 100 + seed)) if detector.update(value))
        delays.append(next(hits, n_after + 1))
    return np.array(delays)


@pytest.mark.parametrize(
    ("make", "after", "longest"), [(Adwin, 0.5, 160), (Adwin, 0.8, 64), (TwoWindows, 0.8, 160)]
)
def test_change_is_seen_soon(make, after, longest):
    delays = _delays(make, 0.2, after)
    assert delays.max() <= longest
    assert delays.mean() >= 5  # not before there is evidence


def test_larger_changes_are_seen_sooner():
    assert (
        _delays(Adwin, 0.2, 0.8).mean() < _delays(Adwin, 0.2, 0.5).mean() < _delays(Adwin, 0.2, 0.35).mean()
    )


def test_slow_change_is_seen_by_adaptive_windows_only():
    """The fixed windows' blind spot: from 0.2 to 0.5 over 5,000 values."""
    values = (np.random.default_rng(0).random(6000) < np.linspace(0.2, 0.5, 6000)).astype(float)
    assert sum(map(Adwin().update, values)) > 0
    assert sum(map(TwoWindows().update, values)) == 0


def test_a_fall_raises_no_alarm_but_is_forgotten():
    detector = Adwin()
    alarms = sum(map(detector.update, np.concatenate([_coins(0.8, 1000, 0), _coins(0.2, 300, 1)])))
    assert alarms == 0
    assert detector.n_values <= 400
    assert detector.mean < 0.35


def test_buckets_hold_the_window():
    """Mean, variance and length are those of the last values, whatever was merged and dropped."""
    rng = np.random.default_rng(3)
    values = np.concatenate([rng.beta(2, 5, 700), rng.beta(5, 2, 400), rng.beta(2, 5, 400)])
    detector, shortened = Adwin(0.05), 0
    for t, value in enumerate(values):
        before = detector.n_values
        detector.update(float(value))
        shortened += detector.n_values <= before
        window = values[t + 1 - detector.n_values : t + 1]
        assert detector.mean == pytest.approx(window.mean())
        assert detector.variance == pytest.approx(window.var(), abs=1e-12)
    assert shortened > 0


def test_cuts_of_buckets_are_cuts_of_the_window():
    """Where the buckets see a change, so does the test of all cuts of the stored window, which is the paper's first algorithm."""

    def has_cut(window, delta):
        n = len(window)
        sizes, log_term = np.arange(1, n), np.log(2 * np.log(n) / delta)
        old = np.cumsum(window)[:-1]
        apart = np.abs(old / sizes - (window.sum() - old) / (n - sizes))
        per = 1 / sizes + 1 / (n - sizes)
        cut = np.sqrt(2 * per * window.var() * log_term) + 2 / 3 * per * log_term
        inside = (sizes >= 5) & (n - sizes >= 5)
        return bool((apart > cut)[inside].any())

    values = np.concatenate([_coins(0.2, 400, 0), _coins(0.7, 200, 1)])
    detector = Adwin(every=1)
    seen = 0
    for t, value in enumerate(values):
        window = np.append(values[t - detector.n_values : t], value)
        if detector.update(value):
            seen += 1
            assert has_cut(window, detector.delta)
        if len(window) > 10:
            assert not has_cut(window[:0:-1], 1e-9) or t > 400
    assert seen > 0


@pytest.mark.parametrize("make", [Adwin, TwoWindows])
def test_memory_is_constant_and_states_go_on(make):
    detector, copy = make(), make()
    size = sum(array.nbytes for array in detector.state()[1].values())
    values = np.concatenate([_coins(0.2, 1500, 0), _coins(0.6, 500, 1)])
    for value in values[:1600]:
        detector.update(value)
    assert sum(array.nbytes for array in detector.state()[1].values()) == size
    copy.restore(*detector.state())
    assert [detector.update(v) for v in values[1600:]] == [copy.update(v) for v in values[1600:]]
    assert detector.n_values == copy.n_values


def test_losses_of_any_scale_are_watched_alike():
    losses = np.abs(np.random.default_rng(0).normal(size=1000))
    losses[600:] *= 5
    alarms = []
    for scale in (1e-3, 1.0, 1e6):
        watch = Watch(Drift())
        alarms.append([watch.see(np.array([scale * loss]))[1] for loss in losses])
    assert alarms[0] == alarms[1] == alarms[2]
    assert not any(alarms[0][:600])
    assert any(alarms[0][600:])


def _turning_stream(seed, n=1200, at=600):
    """The target changes sign."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    score = 2 * np.tanh(X @ rng.normal(size=5))
    score[at:] *= -1
    return X, score + 0.1 * rng.normal(size=n)


def _turning_loss(drift, seeds=2):
    losses, alarms = [], []
    for seed in range(seeds):
        X, y = _turning_stream(seed)
        model = BoostedBank(PlainRidge().make(6, 5, 1), Squared(), step=0.5, drift=drift)
        losses.append(Squared().value(model.learn(X, y), y)[600:].mean())
        alarms.append(model.n_alarms)
    return np.mean(losses), alarms


def test_change_is_met_sooner_than_by_learning_on():
    """Ridge regressions weigh all rows alike and wait long: fading helps, beginning anew helps more."""
    waiting, _ = _turning_loss(None)
    for detector in ("adwin", "windows"):
        faded, alarms = _turning_loss(Drift(detector=detector, size=100))
        restarted, others = _turning_loss(Drift(detector=detector, size=100, action="restart"))
        assert min(alarms + others) >= 1
        assert restarted < faded < 0.95 * waiting


def test_faded_learners_come_back_and_prefixes_stay_valid():
    X, y = _turning_stream(0, at=300)
    model = BoostedBank(PlainRidge().make(6, 5, 1), Squared(), step=0.5, drift=Drift())
    shut = 0
    for at in range(len(X)):
        model.round(X[at : at + 1], y[at : at + 1])
        gates = model.gates
        if (gates == 0).any():
            shut += 1
            sums = model.predict_rounds(X[:5])
            for i in np.flatnonzero(gates == 0):
                np.testing.assert_array_equal(sums[i + 1], sums[i])
    assert shut > 0
    assert model.gates.tolist() == [1.0] * 6  # back, once they fit the new target
    assert model.bank.n_estimators == 6


def test_restarted_trees_follow_other_columns():
    """Where other columns matter than before, the shapes of old trees are of no use."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 5))
    y = 2 * np.tanh(X[:, 0] - X[:, 1])
    y[3000:] = 2 * np.tanh(2 * np.sin(2 * X[3000:, 3]) - X[3000:, 4] ** 2 + 1)
    paid = {}
    for action in ("fade", "restart"):
        drift = Drift(action=action)
        model = BoostedBank(HoeffdingTree().make(20, 5, 1, 0), Squared(), step=0.3, drift=drift)
        paid[action] = Squared().value(model.learn(X, y), y)[-1000:].mean()
        assert model.n_alarms >= 1
    assert paid["restart"] < 0.8 * paid["fade"]


def test_restarted_learners_begin_a_few_at_a_time():
    """Fresh learners are given the same gradient: together no more than a whole step of them may begin."""
    X, y = _turning_stream(0)
    bank, began = PlainRidge().make(6, 5, 1), []
    bank.restart = lambda learners, restart=bank.restart: (
        began.append(int(learners.sum())),
        restart(learners),
    )
    BoostedBank(bank, Squared(), step=0.5, drift=Drift(action="restart")).learn(X, y)
    assert 0 < max(began) <= 2


@pytest.mark.parametrize(
    "learner",
    [
        OnlineRidge(),
        OnlineLinear(learning_rate=0.1),
        SmallNet(learning_rate=0.02),
        OwnLearner(lambda: SGDRegressor(random_state=0)),
    ],
    ids=lambda learner: learner.kind,
)
def test_every_kind_of_learner_can_begin_anew(learner):
    X, y = _turning_stream(0)
    model = BoostedBank(learner.make(6, 5, 1), Squared(), step=0.5, drift=Drift(action="restart", delta=0.05))
    began = []
    restart = model.bank.restart
    model.bank.restart = lambda learners: (began.append(learners.copy()), restart(learners))
    model.learn(X, y, batch_size=4)
    assert model.n_alarms >= 1
    assert np.any(began)


def test_detectors_have_names():
    with pytest.raises(ValueError, match="'adwin' or 'windows'"):
        Drift(detector="ddm")


@pytest.mark.parametrize("after", [0.4, 0.8])
def test_adaptive_windows_are_as_quick_as_rivers(after):
    river = pytest.importorskip("river.drift")

    class Theirs:
        def __init__(self):
            self.detector = river.ADWIN()

        def update(self, value):
            self.detector.update(value)
            return self.detector.drift_detected

    assert np.median(_delays(Adwin, 0.2, after)) <= np.median(_delays(Theirs, 0.2, after))
