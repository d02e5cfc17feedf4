"""Stages on several workers (speedboost_and_structured 4.10)."""

import numpy as np
import pytest

from anytime_research.structured import list_schedule, stage_tasks
from tests.structured.streets import CHEAP_CODES, parser, streets


def random_tasks(rng, n=30):
    costs = rng.integers(1, 9, n).astype(float)
    needs = [[j for j in range(i) if rng.random() < 0.1] for i in range(n)]
    longest = np.zeros(n)
    for i in range(n):
        longest[i] = costs[i] + max((longest[j] for j in needs[i]), default=0.0)
    return costs, needs, longest.max()


def test_schedules_keep_needs_workers_and_the_bound_of_graham():
    """At most total / W + (1 - 1 / W) longest chain; one worker: the total; as many as tasks: the longest chain."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        costs, needs, longest = random_tasks(rng)
        for workers in (1, 2, 3, 30):
            plan = list_schedule(costs, needs, workers)
            assert all(plan.start[i] >= plan.finish[j] for i, need in enumerate(needs) for j in need)
            for who in range(workers):
                own = np.flatnonzero(plan.worker == who)
                own = own[np.argsort(plan.start[own])]
                assert (plan.start[own][1:] >= plan.finish[own][:-1]).all()
            bound = costs.sum() / workers + (1 - 1 / workers) * longest
            assert max(longest, costs.sum() / workers) - 1e-9 <= plan.makespan <= bound + 1e-9
        assert plan.makespan == longest
        assert list_schedule(costs, needs, 1).makespan == costs.sum()


def test_a_worker_more_can_take_longer():
    """Graham 1969, figure 3: 12 with three workers, 15 with four; list scheduling is no optimum."""
    costs = [3, 2, 2, 2, 4, 4, 4, 4, 9]
    needs = [[], [], [], [], [3], [3], [3], [3], [0]]
    assert list_schedule(costs, needs, 3).makespan == 12
    assert list_schedule(costs, needs, 4).makespan == 15


def test_circles_are_refused():
    with pytest.raises(ValueError, match="in a circle"):
        list_schedule([1.0, 1.0], [[1], [0]], 2)


def test_stages_follow_each_other_and_features_come_ahead():
    model = parser(costs=CHEAP_CODES, cost_penalties=(0.0,), n_centres=12).fit(*streets(8))
    tasks = stage_tasks(model.plan_)
    alone = list_schedule(tasks.costs, tasks.needs, 1)
    np.testing.assert_allclose(
        alone.finish[tasks.stages], model.stage_costs_
    )  # one worker: the cost of each prefix
    several = list_schedule(tasks.costs, tasks.needs, 4)
    finish = several.finish[tasks.stages]
    assert (np.diff(finish) >= 0).all()
    assert several.makespan < alone.makespan
    chain = model.costs_.prices["segments"] + sum(stage.cost for stage in model.plan_)
    assert finish[-1] >= chain  # stages themselves do not get faster
