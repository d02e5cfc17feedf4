"""Rounds of boosting in native code against the same rounds in NumPy."""

import threading

import numpy as np
import pytest

from anytime.streaming.banks import HoeffdingTree, OnlineRidge, RoundRules, SmallNet
from anytime.streaming.losses import loss_named
from anytime.streaming.monitors import EdgeMonitor
from anytime.streaming.partial_sums import averaged, descend
from anytime.streaming.projections import Ball, Box

LEARNER = HoeffdingTree(grace=20, stagger=5, max_leaf_nodes=8)


def stream(n, classes):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 4))
    score = np.sin(2 * X[:, 0]) + X[:, 1]
    if classes == 0:
        return X, score
    return X, np.digitize(score, np.quantile(score, np.arange(1, classes) / classes)).astype(float)


def in_numpy(
    bank, X, y, *, loss, rho, steps, start, algorithm, averaging, projection, gate, warm_up, size, weight, m
):
    """What ``BoostedBank`` does, round by round."""
    monitor = EdgeMonitor(bank.n_estimators)
    model = type(loss_named(loss))(rho)
    answers = []
    for at in range(0, len(X), size):
        x, truth = X[at : at + size], y[at : at + size]
        w = None if weight is None else weight[at : at + size]
        raw = bank.predict(x)
        gated = raw * monitor.gates(gate, warm_up)[:, None, None]
        begin = np.tile(start, (len(x), 1))
        went = descend(gated, truth, model, steps, begin, algorithm=algorithm, projection=projection)
        answers.append(averaged(went.sums, averaging))
        monitor.add(went.targets, raw, w)
        bank.update(x, went.targets, w)
    return np.concatenate(answers, axis=1).transpose(1, 0, 2), monitor


def in_native(
    bank, X, y, *, loss, rho, steps, start, algorithm, averaging, projection, gate, warm_up, size, weight, m
):
    monitor = EdgeMonitor(bank.n_estimators)
    box = isinstance(projection, Box)
    rules = RoundRules(
        loss=loss,
        rho=rho,
        start=start,
        steps=steps,
        residual=algorithm == "residual",
        averaging=averaging,
        low=np.full(m, projection.low) if box else None,
        high=np.full(m, projection.high) if box else None,
        radius=projection.size if isinstance(projection, Ball) else 0.0,
        gate=gate,
        warm_up=warm_up,
    )
    answers = bank.rounds(
        X,
        y[:, None].copy(),
        weight,
        rules,
        batch_size=size,
        sums=monitor.sums,
        recent=monitor.recent,
        discount=monitor.discount,
        rows=monitor.rows,
        prefixes=True,
    )
    return answers, monitor


CASES = {
    "squared": {"loss": "squared", "rho": 0.0},
    "logistic": {"loss": "logistic", "classes": 2, "size": 4},
    "hinge": {
        "loss": "hinge",
        "classes": 2,
        "algorithm": "residual",
        "averaging": "theory",
        "projection": Box(-2.0, 2.0),
    },
    "absolute": {"loss": "absolute", "algorithm": "residual", "averaging": "post", "projection": Ball(1.5)},
    "softmax": {"loss": "softmax", "classes": 3, "m": 3, "averaging": "all", "projection": Ball(2.0)},
    "skip": {"loss": "squared", "gate": "skip", "weighted": True},
    "shrink": {
        "loss": "logistic",
        "classes": 2,
        "gate": "shrink",
        "warm_up": 15,
        "size": 3,
        "weighted": True,
    },
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize(
    "learner", [LEARNER, OnlineRidge(), SmallNet(hidden=3, learning_rate=0.01)], ids=lambda one: one.kind
)
def test_native_rounds_are_those_of_numpy(case, learner):
    """Answers of all prefixes and sums of the monitor agree to 1e-9 over 400 rows."""
    n, m = 400, case.get("m", 1)
    X, y = stream(n, case.get("classes", 0))
    settings = {
        "algorithm": "smooth",
        "averaging": "last",
        "projection": None,
        "gate": None,
        "warm_up": 0,
        "size": 1,
    }
    settings |= {
        "m": m,
        "rho": 1e-2,
        "steps": np.linspace(0.5, 0.2, 6),
        "start": np.full(m, 0.1),
        "weight": None,
    }
    settings |= {name: value for name, value in case.items() if name in settings or name == "loss"}
    if case.get("weighted"):
        settings["weight"] = np.random.default_rng(0).choice([0.0, 1.0, 2.0], n)
    ours, sums = in_native(learner.make(6, 4, m, 3), X, y, **settings)
    theirs, monitor = in_numpy(learner.make(6, 4, m, 3), X, y, **settings)
    assert ours.shape == (n, 7, m)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9)
    np.testing.assert_allclose(sums.sums, monitor.sums, rtol=1e-9)
    np.testing.assert_allclose(sums.recent, monitor.recent, rtol=1e-9)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_answers_are_what_the_next_round_would_say(case):
    n, m = 300, case.get("m", 1)
    X, y = stream(n, case.get("classes", 0))
    bank, monitor = LEARNER.make(6, 4, m, 3), EdgeMonitor(6)
    projection = case.get("projection")
    box = isinstance(projection, Box)
    rules = RoundRules(
        loss=case["loss"],
        rho=1e-2,
        start=np.full(m, 0.1),
        steps=np.linspace(0.5, 0.2, 6),
        averaging=case.get("averaging", "last"),
        low=np.full(m, projection.low) if box else None,
        high=np.full(m, projection.high) if box else None,
        radius=projection.size if isinstance(projection, Ball) else 0.0,
        gate=case.get("gate"),
        warm_up=case.get("warm_up", 0),
    )
    known = {"recent": monitor.recent, "rows": monitor.rows}
    further = {"batch_size": 1, "sums": monitor.sums, "discount": 0.99, **known}
    bank.rounds(X[:200], y[:200, None], None, rules, **further)
    monitor.rows += 200
    before = bank.state()[1]
    ours = bank.answers(X[200:], rules, **known, prefixes=True)
    assert np.array_equal(ours[:, -1], bank.answers(X[200:], rules, **known))
    assert all(np.array_equal(array, before[name]) for name, array in bank.state()[1].items())
    further["batch_size"] = 100
    assert np.array_equal(ours, bank.rounds(X[200:], y[200:, None], None, rules, **further, prefixes=True))


def run(bank, X, y, cuts=(), size=1, gate="skip"):
    """The same stream in pieces."""
    monitor = EdgeMonitor(bank.n_estimators)
    start, steps = np.zeros(bank.n_outputs), np.full(bank.n_estimators, 0.3)
    rules = RoundRules(loss="squared", rho=0.0, start=start, steps=steps, gate=gate)
    answers = []
    for part in np.split(np.arange(len(X)), list(cuts)):
        answers.append(
            bank.rounds(
                X[part],
                y[part, None],
                None,
                rules,
                batch_size=size,
                sums=monitor.sums,
                recent=monitor.recent,
                discount=0.99,
                rows=monitor.rows,
            )
        )
        monitor.rows += len(part)
    return np.concatenate(answers)


@pytest.mark.parametrize("learner", [LEARNER, OnlineRidge(), SmallNet(hidden=3)], ids=lambda one: one.kind)
def test_answers_do_not_depend_on_how_rows_are_cut(learner):
    X, y = stream(500, 0)
    whole, pieces = learner.make(8, 4, 1), learner.make(8, 4, 1)
    assert np.array_equal(run(whole, X, y), run(pieces, X, y, cuts=(1, 2, 50, 99, 300)))
    assert np.array_equal(whole.predict(X), pieces.predict(X))


@pytest.mark.parametrize("learner", [LEARNER, SmallNet(hidden=10)], ids=lambda one: one.kind)
def test_answers_do_not_depend_on_threads(learner):
    X, y = stream(640, 0)
    one, two = learner.make(40, 4, 1), learner.make(40, 4, 1)
    two.n_threads = 2
    assert np.array_equal(run(one, X, y, size=64), run(two, X, y, size=64))
    assert np.array_equal(one.predict(X), two.predict(X))


def test_a_bank_is_read_on_one_thread_while_it_learns_on_another():
    X, y = stream(3000, 0)
    bank = LEARNER.make(20, 4, 1)
    alone = LEARNER.make(20, 4, 1)
    learner = threading.Thread(target=run, args=(bank, X, y, range(50, 3000, 50)))
    learner.start()
    reads = 0
    while learner.is_alive() or not reads:
        assert np.isfinite(bank.predict(X[:5])).all()
        assert bank.block().n_stages == 20
        reads += 1
    learner.join()
    run(alone, X, y)
    assert np.array_equal(bank.predict(X), alone.predict(X))


def test_a_round_answers_for_all_its_rows_before_it_learns_from_any():
    X, y = stream(64, 0)
    bank = OnlineRidge().make(3, 4, 1)
    assert not run(bank, X, y, size=64, gate=None).any()
    assert run(bank, X, y, size=64, gate=None).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"loss": "cubic"}, "there is no loss 'cubic'"),
        ({"averaging": "median"}, "there is no averaging 'median'"),
        ({"gate": "close"}, "there is no gate 'close'"),
        ({"steps": np.zeros(2)}, "steps has 2 entries, expected 3"),
        ({"low": np.zeros(1)}, "a box has low and high"),
    ],
)
def test_rules_are_checked(change, message):
    bank = OnlineRidge().make(3, 4, 1)
    X, y = stream(5, 0)
    rules = RoundRules(
        **{"loss": "squared", "rho": 0.0, "start": np.zeros(1), "steps": np.zeros(3), **change}
    )
    sums = np.zeros((4, 3))
    with pytest.raises(ValueError, match=message):
        bank.rounds(
            X,
            y[:, None],
            None,
            rules,
            batch_size=1,
            sums=sums,
            recent=sums,
            discount=1.0,
            rows=np.zeros(3, np.int64),
        )


def test_classes_are_checked():
    bank = OnlineRidge().make(3, 4, 3)
    rules = RoundRules(loss="softmax", rho=0.0, start=np.zeros(3), steps=np.zeros(3))
    sums, rows = np.zeros((4, 3)), np.zeros(3, np.int64)
    with pytest.raises(ValueError, match="row 1 of y is of no class below 3"):
        bank.rounds(
            np.zeros((2, 4)),
            np.array([[0.0], [3.0]]),
            None,
            rules,
            batch_size=1,
            sums=sums,
            recent=sums,
            discount=1.0,
            rows=rows,
        )
