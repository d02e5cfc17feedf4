"""Edges and losses of prefixes measured on a run (growth_and_streaming A.2)."""

import numpy as np
import pytest

from anytime.streaming.monitors import EdgeMonitor, PrefixLosses


def _rounds(n_estimators=3, n=500, m=2, seed=0):
    rng = np.random.default_rng(seed)
    targets = rng.normal(size=(n_estimators, n, m))
    quality = np.linspace(0.8, -0.2, n_estimators)[:, None, None]
    return targets, quality * targets + 0.3 * rng.normal(size=targets.shape)


def _edge(targets, outputs, weights=1.0):
    missed, asked = ((targets - outputs) ** 2).sum(axis=2), (targets**2).sum(axis=2)
    return 1 - (missed * weights).sum(axis=1) / (asked * weights).sum(axis=1)


def _feed(monitor, targets, outputs, batch=1):
    for at in range(0, targets.shape[1], batch):
        monitor.add(targets[:, at : at + batch], outputs[:, at : at + batch])


def test_edges_are_those_of_the_definition():
    targets, outputs = _rounds()
    monitor = EdgeMonitor(3, discount=0.99, window=100, panes=10)
    _feed(monitor, targets, outputs)
    np.testing.assert_allclose(monitor.edge(), _edge(targets, outputs))
    fading = 0.99 ** np.arange(500)[::-1]
    np.testing.assert_allclose(monitor.edge("discounted"), _edge(targets, outputs, fading))
    # 500 rows end with a pane just begun: the window holds the 90 rows before it
    np.testing.assert_allclose(monitor.edge("windowed"), _edge(targets[:, -90:], outputs[:, -90:]))
    assert monitor.edge()[-1] < 0 < monitor.edge()[0]  # harm is a negative edge


def test_window_covers_what_it_says():
    targets, outputs = _rounds()
    monitor = EdgeMonitor(3, window=100, panes=10)
    for t in range(300):
        monitor.add(targets[:, t : t + 1], outputs[:, t : t + 1])
        past = [
            _edge(targets[:, t + 1 - n : t + 1], outputs[:, t + 1 - n : t + 1])
            for n in range(90, 101)
            if n <= t + 1
        ]
        if t >= 100:
            assert any(np.allclose(monitor.edge("windowed"), edge) for edge in past)


def test_whole_stream_is_the_window_at_first():
    targets, outputs = _rounds(n=50)
    monitor = EdgeMonitor(3, window=100, panes=10)
    _feed(monitor, targets, outputs)
    np.testing.assert_allclose(monitor.edge("windowed"), monitor.edge())


def test_rounds_of_many_rows_count_like_single_ones():
    targets, outputs = _rounds()
    one, many = EdgeMonitor(3, discount=1.0, window=100), EdgeMonitor(3, discount=1.0, window=100)
    _feed(one, targets, outputs)
    _feed(many, targets, outputs, batch=10)
    np.testing.assert_allclose(one.sums, many.sums)
    np.testing.assert_allclose(one.edge("windowed"), many.edge("windowed"))


def test_weights_are_repetitions():
    targets, outputs = _rounds(n=4)
    weighted, repeated = EdgeMonitor(3, discount=1.0), EdgeMonitor(3, discount=1.0)
    weighted.add(targets, outputs, np.array([2.0, 0.0, 1.0, 1.0]))
    rows = [0, 0, 2, 3]
    repeated.add(targets[:, rows], outputs[:, rows])
    np.testing.assert_allclose(weighted.sums, repeated.sums)


def test_memory_does_not_grow():
    monitor = EdgeMonitor(5)
    size = sum(array.nbytes for array in monitor.state()[1].values())
    rng = np.random.default_rng(0)
    for _ in range(2000):
        g = rng.normal(size=(5, 1, 1))
        monitor.add(g, 0.5 * g)
    assert sum(array.nbytes for array in monitor.state()[1].values()) == size


def test_state_goes_on_bit_for_bit():
    targets, outputs = _rounds()
    monitor = EdgeMonitor(3, window=70, panes=7)
    _feed(monitor, targets[:, :123], outputs[:, :123])
    copy = EdgeMonitor.from_state(*monitor.state())
    for each in (monitor, copy):
        _feed(each, targets[:, 123:], outputs[:, 123:])
    for kind in ("running", "discounted", "windowed"):
        np.testing.assert_array_equal(monitor.read(kind), copy.read(kind))


def test_sums_of_a_learner_do_not_depend_on_those_behind_it():
    targets, outputs = _rounds(n_estimators=7, m=3)
    short, long = EdgeMonitor(2), EdgeMonitor(7)
    _feed(short, targets[:2], outputs[:2], batch=16)
    _feed(long, targets, outputs, batch=16)
    np.testing.assert_array_equal(short.sums, long.sums[:, :2])
    np.testing.assert_array_equal(short.recent, long.recent[:, :2])


def test_gates():
    g = np.ones((4, 1, 1))
    h = np.array([0.5, -1.0, 0.0, 4.0]).reshape(4, 1, 1)
    monitor = EdgeMonitor(4)
    assert monitor.gates("skip").tolist() == [0, 0, 0, 0]  # no evidence yet
    monitor.add(g, h)
    assert monitor.gates(None).tolist() == [1, 1, 1, 1]
    assert monitor.gates("skip").tolist() == [1, 0, 0, 0]  # 4 is further from 1 than 0 is
    assert monitor.gates("shrink").tolist() == [1, 0, 0, 0.25]  # and a quarter of it is not
    assert monitor.gates(None, warm_up=1).tolist() == [1, 0, 0, 0]
    monitor.add(g, h)
    assert monitor.gates(None, warm_up=1).tolist() == [1, 1, 0, 0]
    with pytest.raises(ValueError, match="'skip' or 'shrink'"):
        monitor.gates("open")


def test_appended_learners_begin_with_nothing():
    targets, outputs = _rounds(n_estimators=5)
    monitor = EdgeMonitor(2)
    _feed(monitor, targets[:2, :100], outputs[:2, :100])
    monitor.append(3)
    _feed(monitor, targets[:, 100:], outputs[:, 100:])
    assert monitor.rows.tolist() == [500, 500, 400, 400, 400]
    np.testing.assert_allclose(monitor.edge()[2:], _edge(targets[2:, 100:], outputs[2:, 100:]))


def test_prefix_losses_fade():
    losses = PrefixLosses(1, discount=0.5)
    assert losses.best() == 0
    losses.add(np.array([[1.0], [3.0]]))
    losses.add(np.array([[1.0], [0.0]]))
    np.testing.assert_allclose(losses.means(), [1.0, 1.5 / 1.5])
    losses.append(1)
    losses.add(np.array([[1.0], [0.5], [0.9]]))
    assert losses.best() == 1
    assert losses.means()[2] == 0.9
