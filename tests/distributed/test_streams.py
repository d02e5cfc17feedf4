"""Many streams over workers: the models are those that each stream has alone."""

import os
import signal

import numpy as np
import pytest

import anytime as at
from anytime.distributed.streams import StreamWorker, _shard_of

pytestmark = pytest.mark.ray
KEYS = [f"sensor {k}" for k in range(7)]


def batches(n=12, rows=60):
    random = np.random.default_rng(0)
    for _ in range(n):
        X = random.normal(size=(rows, 4))
        which = random.integers(0, len(KEYS), rows)
        yield X, X[:, 0] * (which + 1) + np.abs(X[:, 1]), np.array(KEYS)[which]


def learner():
    return at.StreamingBoostRegressor(n_estimators=4, random_state=0)


@pytest.fixture(scope="module")
def alone():
    """The model of each stream, learned in this process, and what it said of each row before."""
    models, said = {key: learner() for key in KEYS}, []
    for X, y, keys in batches():
        answers = np.empty(len(y))
        for key in np.unique(keys):
            rows = keys == key
            answers[rows] = models[key].predict_then_fit(X[rows], y[rows])
        said.append(answers)
    return models, said


def assert_same(streams, models, tmp_path):
    assert sorted(streams.keys()) == sorted(models)
    for key, model in models.items():
        model.save(tmp_path / "alone.anytime")
        streams.model(key).save(tmp_path / "together.anytime")
        assert (tmp_path / "alone.anytime").read_bytes() == (tmp_path / "together.anytime").read_bytes(), key


@pytest.fixture
def cluster(running):
    with at.distributed.cluster(workers=3) as opened:
        yield opened


def test_models_are_those_of_each_stream_alone_even_if_a_worker_is_killed(cluster, alone, tmp_path):
    import ray

    models, said = alone
    with at.distributed.Streams(learner(), tmp_path / "streams", every=5) as streams:
        for number, (X, y, keys) in enumerate(batches()):
            if number in (3, 8, 10):
                victim = streams._crew.workers[number % 3]
                os.kill(ray.get(victim.process.remote()).pid, signal.SIGKILL)
            np.testing.assert_array_equal(streams.predict_then_fit(X, y, keys), said[number])
        assert streams._crew.n_losses >= 3
        X, _, keys = next(batches(1))
        expected = [models[key].predict(X[i : i + 1], budget=2)[0] for i, key in enumerate(keys)]
        np.testing.assert_array_equal(streams.predict(X, keys, budget=2), expected)
        assert_same(streams, models, tmp_path)


def test_a_program_that_was_ended_goes_on_from_the_folder_with_other_workers(running, alone, tmp_path):
    models, _ = alone
    with at.distributed.cluster(workers=3):
        streams = at.distributed.Streams(learner(), tmp_path / "streams", every=4)
        for X, y, keys in list(batches())[:11]:
            streams.partial_fit(X, y, keys)
        streams._crew.workers[1].save.remote(11)  # one had begun with the next checkpoint
        streams._crew.together("keys", [()] * 3)
        streams._crew.close()  # as good as kill -9: nothing is saved
    with (
        at.distributed.cluster(workers=2),
        at.distributed.Streams(learner(), tmp_path / "streams") as streams,
    ):
        assert streams.n_batches == 8
        for X, y, keys in list(batches())[streams.n_batches :]:
            streams.partial_fit(X, y, keys)
        assert_same(streams, models, tmp_path)
    assert len(list((tmp_path / "streams").rglob("*.anytime"))) == len(KEYS)  # none of an earlier checkpoint
    with at.distributed.cluster(workers=2), pytest.raises(ValueError, match="give another folder"):
        at.distributed.Streams(at.StreamingBoostRegressor(n_estimators=9), tmp_path / "streams")


def test_an_error_in_one_stream_leaves_the_others_learning(cluster, tmp_path):
    X, y, keys = next(batches(1))
    with at.distributed.Streams(learner(), tmp_path) as streams:
        streams.partial_fit(X, y, keys)
        wrong = y.copy()
        wrong[np.flatnonzero(keys == KEYS[2])[0]] = np.inf
        with pytest.raises(ValueError, match="inf") as caught:
            streams.partial_fit(X, wrong, keys)
        assert any("sensor 2" in note for note in caught.value.__notes__)
        seen = {key: streams.model(key).rows_seen_ for key in KEYS}
        assert seen == {key: (1 if key == KEYS[2] else 2) * np.sum(keys == key) for key in KEYS}
        with pytest.raises(KeyError, match="nobody"):
            streams.model("nobody")
        with pytest.raises(ValueError, match="'nobody' has no rows yet"):
            streams.predict(X[:1], ["nobody"])
        with pytest.raises(ValueError, match="one per row"):
            streams.predict(X, keys[:-1])
        with pytest.raises(TypeError, match="strings or whole numbers"):
            streams.predict(X[:1], [0.5])
        for longer in ({"y": np.append(y, 0.0)}, {"y": y, "sample_weight": np.ones(len(y) + 1)}):
            with pytest.raises(ValueError, match="inconsistent numbers of samples"):
                streams.partial_fit(X, keys=keys, **longer)


def test_a_batch_that_was_interrupted_is_not_kept_by_half(cluster, tmp_path, monkeypatch):
    X, y, keys = next(batches(1))
    streams = at.distributed.Streams(learner(), tmp_path).partial_fit(X, y, keys)
    streams.save()
    together = streams._crew.together

    def interrupted(*call):
        together(*call)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(streams._crew, "together", interrupted)
        with pytest.raises(KeyboardInterrupt):
            streams.partial_fit(X, y, keys)
    for work in (streams.save, lambda: streams.partial_fit(X[:9], y[:9], keys[:9])):
        with pytest.raises(RuntimeError, match="a batch was interrupted"):
            work()
    streams._crew.close()
    with at.distributed.Streams(learner(), tmp_path) as anew:
        assert anew.n_batches == 1
        assert all(anew.model(key).rows_seen_ == np.sum(keys == key) for key in KEYS)


def test_a_checkpoint_that_failed_is_written_again(tmp_path, monkeypatch):
    X, y, _ = next(batches(1))
    worker = StreamWorker(0, 1)
    worker.open(learner(), tmp_path, 1, 0)
    shard = _shard_of("a")
    second = next(key for key in map(str, range(10_000)) if _shard_of(key) == shard)
    worker.learn(1, [("a", X, y, {}), (second, X, y, {})], says=False)

    def full(path):
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(worker.model(second), "save", full)
        with pytest.raises(OSError, match="disk full"):
            worker.save(1)
    worker.save(1)
    restored = StreamWorker(0, 1)
    restored.open(learner(), tmp_path, 1, 1)
    assert [restored.model(key).rows_seen_ for key in ("a", second)] == [len(X)] * 2


def test_a_folder_belongs_to_one_kind_of_models_before_its_first_checkpoint(cluster, tmp_path):
    at.distributed.Streams(learner(), tmp_path)._crew.close()
    with pytest.raises(ValueError, match="give another folder"):
        at.distributed.Streams(at.StreamingBoostRegressor(n_estimators=9), tmp_path)


def test_streams_need_a_cluster(tmp_path):
    with pytest.raises(RuntimeError, match="there is no cluster"):
        at.distributed.Streams(learner(), tmp_path)
