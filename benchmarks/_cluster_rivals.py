"""Other libraries on two workers: LightGBM's socket mode and XGBoost's collective, in processes of this machine."""

from __future__ import annotations

import multiprocessing
import socket
import time

import numpy as np

COLUMNS, LEAVES = 50, 31


def made_up(n, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, COLUMNS))
    y = (X[:, 0] * X[:, 1] + X[:, 2] + 0.5 * np.sin(3 * X[:, 3]) + random.normal(size=n) > 0).astype(int)
    return X, y


def log_loss(probability, truth):
    return float(-np.mean(np.log(np.where(truth == 1, probability, 1 - probability))))


def race(worker, X, y, n_trees, ports):
    """Seconds per tree, and the loss on new rows after each, of a library whose two workers have half of the rows each."""
    context, half = multiprocessing.get_context("spawn"), len(X) // 2
    results = context.Queue()
    jobs = [
        context.Process(target=worker, args=(rank, ports, X[rows], y[rows], n_trees, results))
        for rank, rows in enumerate((slice(None, half), slice(half, None)))
    ]
    for job in jobs:
        job.start()
    found = [results.get(timeout=600) for _ in jobs]
    for job in jobs:
        job.join()
    slowest = {kind: max(seconds[kind] for seconds, _ in found) for kind in ("clock", "processor")}
    return slowest, found[0][1]


def _per_tree(times):
    """Seconds per tree on the clock and of the processor, without the first two trees."""
    clock, processor = (np.array(times[-1]) - times[1]) / (len(times) - 2)
    return {"clock": float(clock), "processor": float(processor)}


def free_port():
    with socket.socket() as some:
        some.bind(("127.0.0.1", 0))
        return some.getsockname()[1]


def lightgbm_worker(rank, ports, X, y, n_trees, results):
    import lightgbm as lgb

    parameters = {
        "objective": "binary", "tree_learner": "data", "num_machines": 2, "local_listen_port": ports[rank], "num_threads": 1,
        "machines": ",".join(f"127.0.0.1:{port}" for port in ports), "pre_partition": True, "num_leaves": LEAVES, "max_bin": 255,
        "min_data_in_leaf": 20, "learning_rate": 0.1, "verbose": -1,
    }  # fmt: skip
    times = []
    model = lgb.train(
        parameters,
        lgb.Dataset(X, y, params=parameters),
        num_boost_round=2 + n_trees,
        callbacks=[lambda _: times.append((time.perf_counter(), time.process_time()))],
    )
    fresh, truth = made_up(50_000, seed=9)
    losses = [
        log_loss(model.predict(fresh, num_iteration=number + 1), truth) for number in range(2 + n_trees)
    ]
    results.put((_per_tree(times), losses))


def xgboost_worker(rank, port, X, y, n_trees, results):
    import xgboost
    from xgboost import collective
    from xgboost.tracker import RabitTracker

    times = []

    class Clock(xgboost.callback.TrainingCallback):
        def after_iteration(self, *_):
            times.append((time.perf_counter(), time.process_time()))

    parameters = {
        "objective": "binary:logistic", "tree_method": "hist", "grow_policy": "lossguide", "max_leaves": LEAVES, "max_depth": 0,
        "max_bin": 255, "min_child_weight": 5, "lambda": 0, "eta": 0.1, "nthread": 1,
    }  # fmt: skip
    address = {"dmlc_tracker_uri": "127.0.0.1", "dmlc_tracker_port": port, "dmlc_task_id": str(rank)}
    if rank == 0:
        tracker = RabitTracker(2, host_ip="127.0.0.1", port=port)
        tracker.start()
    with collective.CommunicatorContext(**address, dmlc_retry=10):
        data = xgboost.QuantileDMatrix(X, y, max_bin=255, nthread=1)
        model = xgboost.train(parameters, data, 2 + n_trees, callbacks=[Clock()])
    fresh, truth = made_up(50_000, seed=9)
    rows = xgboost.DMatrix(fresh)
    losses = [
        log_loss(model.predict(rows, iteration_range=(0, number + 1)), truth) for number in range(2 + n_trees)
    ]
    results.put((_per_tree(times), losses))
