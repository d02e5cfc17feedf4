"""Fits on a cluster give the files of fits in one process."""

import copy
import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.base import is_classifier as classifies
from sklearn.ensemble import RandomForestClassifier

import anytime as at
from anytime.adaptive import LadderClassifier
from anytime.distributed.checkpoints import Checkpoint
from anytime.distributed.rows import slow_worker
from anytime.distributed.sources import ArrayStretch
from anytime.distributed.worker import RoundReport
from anytime.losses import training_loss
from anytime.spreading import CLUSTER, side_by_side

pytestmark = pytest.mark.ray
COSTS = at.FeatureCosts([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])


def models(table):
    """Settings that go through different code, each with what it learns."""
    X, two, three, number = table
    weight = np.random.default_rng(5).integers(0, 3, len(X)).astype(float)
    return [
        ("two classes", at.GradientBoostingClassifier(n_estimators=12), X, two, None),
        (
            "three classes, rows held out",
            at.GradientBoostingClassifier(
                n_estimators=6, validation_fraction=0.2, n_iter_no_change=2, random_state=3
            ),
            X,
            three,
            None,
        ),
        (
            "prices",
            at.GradientBoostingRegressor(costs=COSTS, cost_penalty=30.0, n_estimators=12),
            X,
            number,
            None,
        ),
        ("weights, some of them 0", at.GradientBoostingRegressor(n_estimators=5), X, number, weight),
        (
            "counts",
            at.GradientBoostingRegressor(n_estimators=5, loss="poisson"),
            X,
            np.floor(np.exp(number / 4)),
            None,
        ),
        (
            "SpeedBoost",
            at.SpeedBoostClassifier(costs=COSTS, n_estimators=8, max_stages=3, random_state=0),
            X,
            two,
            None,
        ),
        (
            "SpeedBoost, several classes that share trees",
            at.SpeedBoostClassifier(costs=COSTS, n_estimators=8, max_stages=3, random_state=0),
            X,
            three,
            None,
        ),
        (
            "categories",
            at.GradientBoostingClassifier(n_estimators=5),
            pd.DataFrame({"word": np.array(list("abcdefg"))[np.arange(len(X)) % 7], "number": X[:, 0]}),
            two,
            None,
        ),
    ]


def in_this_process(model, *rows):
    """The model, fitted as if no cluster were open."""
    outside = CLUSTER.set(None)
    try:
        return model.fit(*rows)
    finally:
        CLUSTER.reset(outside)


@pytest.fixture(scope="module")
def alone(table, tmp_path_factory):
    """Files of the same fits in this process."""
    import hashlib

    found, path = {}, tmp_path_factory.mktemp("alone") / "model.anytime"
    for name, model, X, y, weight in models(table):
        in_this_process(model, X, y, weight).save(path)
        found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


@pytest.fixture(scope="module")
def four(running):
    """A cluster of four workers: starting a process takes longer than most tests."""
    with at.distributed.cluster(workers=4) as cluster:
        yield cluster


@pytest.fixture
def some_of(four):
    """The same cluster with only the first of its workers."""
    crew = four.crew

    def of(n_workers):
        fewer = four._crew = copy.copy(crew)
        fewer.size, fewer.workers = n_workers, crew.workers[:n_workers]
        fewer._meet()
        return four

    yield of
    four._crew = crew
    crew._meet()


@pytest.fixture
def three(some_of):
    """Three of them."""
    return some_of(3)


@pytest.mark.parametrize(("workers", "shares"), [(1, None), (2, None), (3, [1, 5, 2]), (4, None)])
def test_the_file_does_not_tell_how_many_workers_made_it(
    some_of, table, alone, digest, workers, shares, monkeypatch
):
    cluster = some_of(workers)
    monkeypatch.setattr(cluster, "shares", shares)
    for name, model, X, y, weight in models(table):
        assert digest(model.fit(X, y, weight)) == alone[name], name
        assert all(len(reports) == workers for reports in cluster.reports)


def test_files_and_data_sets_are_fitted_like_tables(three, table, digest, tmp_path):
    pytest.importorskip("pyarrow", reason="needs pyarrow")
    import pyarrow as pa
    import ray.data

    X, two, _, _ = table
    frame = pd.DataFrame(X, columns=list("abcdef")).assign(label=two)
    for number, rows in enumerate(np.array_split(np.arange(len(X)), [700, 701, 2000])):
        frame.iloc[rows].to_parquet(tmp_path / f"{number}.parquet", row_group_size=500)
    model = at.GradientBoostingClassifier(n_estimators=8)
    files = sorted(tmp_path.glob("*.parquet"))
    assert len(files) == 4
    expected = digest(in_this_process(clone(model), frame.drop(columns="label"), two))
    for data in (
        str(tmp_path),
        files,
        ray.data.read_parquet([str(path) for path in files], override_num_blocks=3),
    ):
        fitted = at.GradientBoostingClassifier(n_estimators=8).fit(data, "label")
        assert digest(fitted) == expected
    assert list(fitted.feature_names_in_) == list("abcdef")
    indexed = ray.data.from_arrow(pa.Table.from_pandas(frame.set_index(np.arange(len(X))[::-1])))
    again = at.GradientBoostingClassifier(n_estimators=8).fit(indexed, "label")
    assert list(again.feature_names_in_) == list("abcdef")
    with pytest.raises(ValueError, match="no column 'class'"):
        model.fit(files, "class")
    with pytest.raises(TypeError, match="name of the column"):
        model.fit(files, two)


@pytest.mark.parametrize("seed", [0, 1, 2, 6])
def test_a_worker_that_is_killed_leaves_no_trace_in_the_model(four, table, alone, digest, seed):
    name, model, X, y, weight = models(table)[seed]
    random = np.random.default_rng(seed)
    victim = four.crew.workers[random.integers(4)]
    lost = four.crew.n_losses

    def kill():
        pid = running_process(victim)
        time.sleep(random.uniform(0.0, 0.15))
        os.kill(pid, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    assert digest(model.fit(X, y, weight)) == alone[name]
    killer.join()
    assert digest(model.fit(X, y, weight)) == alone[name]  # a death after the fit is noticed by the next
    assert four.crew.n_losses > lost


def running_process(worker):
    import ray

    return ray.get(worker.process.remote()).pid


def test_a_worker_killed_between_rounds_catches_up_bit_by_bit(four, table, alone, digest, monkeypatch):
    from anytime.distributed.rows import ClusterRounds

    name, model, X, y, weight = models(table)[2]
    finished = ClusterRounds.round

    def round_and_kill(rounds):
        if len(rounds.rounds) in (3, 7):
            os.kill(running_process(four.crew.workers[len(rounds.rounds) % 3]), signal.SIGKILL)
        return finished(rounds)

    lost = four.crew.n_losses
    monkeypatch.setattr(ClusterRounds, "round", round_and_kill)
    assert digest(model.fit(X, y, weight)) == alone[name]
    assert four.crew.n_losses >= lost + 2


def test_a_fit_goes_on_from_the_checkpoint_of_the_same_fit(
    three, table, alone, digest, tmp_path, monkeypatch
):
    name, model, X, y, weight = models(table)[0]
    monkeypatch.setattr("anytime.distributed.checkpoints._SECONDS_BETWEEN", 0.0)
    monkeypatch.setattr(three, "checkpoint", tmp_path)
    kept = Checkpoint.keep

    def die(self, rounds, losses, **options):
        kept(self, rounds, losses, **options)
        if len(rounds) == 5:
            raise MemoryError  # as good as kill -9: nothing is tidied up

    monkeypatch.setattr(Checkpoint, "keep", die)
    with pytest.raises(MemoryError):
        model.fit(X, y, weight)
    assert len(list(tmp_path.glob("*.npz"))) == 1
    monkeypatch.setattr(Checkpoint, "keep", kept)
    other = at.GradientBoostingClassifier(n_estimators=2, learning_rate=0.2).fit(X, y)  # not its checkpoint
    assert len(other.plan_) == 2
    changed = X.copy()
    changed[17, 0] = np.nextafter(changed[17, 0], 9)  # falls into the same bin
    assert len(model.fit(changed, y, weight).plan_) == 12
    assert len(three.reports) == 12
    assert digest(model.fit(X, y, weight)) == alone[name]
    assert len(three.reports) == 12 - 5
    assert not list(tmp_path.glob("*.npz"))


def test_group_pursuit_from_moments_of_several_workers(three, table):
    X, _, classes, number = table
    for model, y in (
        (at.GroupPursuitRegressor(costs=COSTS, random_state=0), number),
        (at.GroupPursuitClassifier(costs=COSTS, loss="squared", random_state=0), classes),
    ):
        X_gaps = X.copy()
        X_gaps[:1200, 4] = np.nan  # the first worker has no value of this column
        together = clone(model).fit(X_gaps, y)
        alone = in_this_process(clone(model), X_gaps, y)
        answer = "predict_proba" if classifies(model) else "predict"
        scores, expected = (getattr(fitted, answer)(X) for fitted in (together, alone))
        assert together.order_ == alone.order_
        np.testing.assert_allclose(scores, expected, rtol=1e-10, atol=1e-10 * np.abs(expected).max())


def test_a_worker_that_keeps_the_others_waiting_is_named():
    def rounds(*busy):
        return [[RoundReport(None, True, None, None, 0.0, seconds, 0.0, 0) for seconds in busy]] * 10

    assert "worker 1 took 3.0 times" in slow_worker(rounds(1.0, 3.0, 1.0))
    assert slow_worker(rounds(1.0, 1.2, 1.0)) is None
    assert slow_worker(rounds(0.01, 0.03, 0.01)) is None
    assert slow_worker(rounds(9.0)) is None
    assert "worker 0 took 3.0 times" in slow_worker(
        rounds(3.0, 1.0)
    )  # one of two is no part of its own measure


def test_a_model_that_is_not_spread_says_so(three, table):
    X, two, _, _ = table
    with pytest.warns(UserWarning, match="SubmodularTreeClassifier is not spread over the cluster"):
        at.SubmodularTreeClassifier().fit(np.nan_to_num(X[:200]), two[:200])


@pytest.mark.parametrize("bins", [255, 8])
def test_a_forest_grown_side_by_side_is_that_of_one_process(three, table, digest, bins):
    X, two, _, number = table
    X = np.column_stack(
        [X[:800], np.random.default_rng(0).integers(0, 3, (800, 12)) == 0]
    )  # sparse columns share slots
    for model, y in (
        (at.BudgetForestClassifier(n_estimators=7, max_bins=bins, random_state=1), two[:800]),
        (at.BudgetForestRegressor(n_estimators=5, max_bins=bins, random_state=1), number[:800]),
    ):
        together = digest(clone(model).fit(X, y))
        alone = digest(in_this_process(clone(model), X, y))
        assert together == alone


def test_rows_that_only_a_cluster_reads_are_refused_elsewhere(three, tmp_path):
    for X in (tmp_path, [str(tmp_path)]):
        with pytest.raises(TypeError, match="LadderClassifier is fitted to tables in memory"):
            LadderClassifier().fit(X, "label")
        outside = CLUSTER.set(None)
        with pytest.raises(TypeError, match="reads files and data sets only within a cluster"):
            at.GradientBoostingClassifier().fit(X, "label")
        CLUSTER.reset(outside)


def shared_memory():
    """Bytes of shared memory that this process has mapped and touched; 0 where the system does not say."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith("RssShmem"))


@pytest.mark.parametrize("n_rows", [1_000, 200_000])
def test_rows_in_the_object_store_are_read_again_and_do_not_stay_mapped(three, n_rows):
    import ray

    X = np.random.default_rng(0).normal(size=(n_rows, 6))
    before = shared_memory()
    part = ArrayStretch(n_rows, ray.put(X))  # the smaller one is not in shared memory
    for _ in range(2):
        np.testing.assert_array_equal(np.concatenate([chunk.copy() for chunk in part.chunks()]), X)
    assert shared_memory() - before < X.nbytes / 2 or n_rows == 1_000


def test_a_ladder_fits_its_folds_side_by_side(three, table, digest):
    X, two, _, _ = table
    X = np.nan_to_num(X[:400])
    model = LadderClassifier(
        costs=COSTS, mean_budget=10, n_estimators=3, max_stages=3, folds=2, random_state=0
    )
    together = digest(clone(model).fit(X, two[:400]))
    assert together == digest(in_this_process(clone(model), X, two[:400]))


@pytest.mark.parametrize("method", ["min_cut", "primal_dual"])
def test_a_forest_pruned_on_a_cluster_is_that_of_one_process(three, table, digest, method):
    X, two, _, _ = table
    X = np.nan_to_num(X[:900])
    forest = RandomForestClassifier(12, max_depth=6, random_state=0).fit(X[:600], two[:600])
    settings = {"costs": COSTS, "mean_budget": 8.0, "method": method}

    def pruned():
        return at.prune_forest(forest, X[600:], two[600:900], **settings)

    together = pruned()
    outside = CLUSTER.set(None)
    alone = pruned()
    CLUSTER.reset(outside)
    assert len(alone.path_.cost) > 5
    assert digest(together) == digest(alone)


def test_an_error_in_one_of_many_tasks_is_that_of_one_process(three):
    with pytest.raises(ZeroDivisionError):
        side_by_side(divmod, (1,), [3, 0, 2])
    assert side_by_side(divmod, (7,), [3, 2]) == [(2, 1), (3, 1)]


def test_a_loss_that_goes_by_means_over_all_rows_is_refused(three, table):
    X, _, _, number = table
    with pytest.raises(ValueError, match=r"absolute.*outside of the cluster"):
        at.GradientBoostingRegressor(loss="absolute").fit(X, number)


def test_a_checkpoint_of_a_loss_of_ones_own_is_refused(three, table, tmp_path, monkeypatch):
    X, _, _, number = table
    monkeypatch.setattr(three, "checkpoint", tmp_path)
    own = replace(training_loss("squared"), name="own", hessian=lambda scores, y: np.ones_like(scores))
    with pytest.raises(ValueError, match="checkpoint= is for losses of this library"):
        at.GradientBoostingRegressor(loss=own, n_estimators=2).fit(X, number)


def test_more_workers_than_the_cluster_has_processors_for_are_refused(running):
    message = r"9 workers of 1 threads reserve 4\.5 processors.* has 4"
    with at.distributed.cluster(workers=9) as cluster, pytest.raises(ValueError, match=message):
        cluster.crew  # noqa: B018


def test_errors_of_workers_are_those_of_one_process(three, table, tmp_path):
    X, two, _, _ = table
    frame = pd.DataFrame(X, columns=list("abcdef")).assign(label=two, word="yes")
    frame.to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match="column 'word' holds"):
        at.GradientBoostingClassifier(n_estimators=2).fit(tmp_path, "label")


def test_without_ray_a_cluster_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(ImportError, match=r"anytime\[ray\]"), at.distributed.cluster(workers=2):
        pass


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": 0}, "workers is 0"),
        ({"workers": 2, "shares": [1.0]}, "2 positive"),
        ({"shares": [1.0, 0.0]}, "positive"),
    ],
)
def test_clusters_that_cannot_be_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        at.distributed.cluster(**options)
