"""A learned sequence of stages on several workers: list scheduling, the plain way to run weak predictors side by side.

Grubb, *Anytime Prediction*, 2014, section 8.1.2 names parallel predictors as future work. A stage reads the scores of the stage
before, so stages follow each other; what can be done ahead are the features of later stages. Workers that have nothing to do
take the first task of the sequence whose needs are met. The order of stages, and so every answer, stays as it was learned.

Branching predictors, a tree of stages in place of a sequence, need nothing new in their plain form: a stage whose selector looks
at whole structures (``EntropySelector(measured_at=WHOLE)``) is taken by the uncertain ones only, and the others go past it
without paying. Branches that are learned apart, each from the structures that come to it, are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from anytime.plan import Plan

__all__ = ["Schedule", "StageTasks", "list_schedule", "stage_tasks"]


@dataclass(frozen=True, eq=False)
class Schedule:
    """Who does what, and when.

    Attributes
    ----------
    start, finish : (n,) float
        Of each task.
    worker : (n,) int
        Who does it.
    """

    start: NDArray[np.float64]
    finish: NDArray[np.float64]
    worker: NDArray[np.intp]

    @property
    def makespan(self) -> float:
        """When the last task is finished."""
        return float(self.finish.max(initial=0.0))


def list_schedule(costs: Sequence[float], needs: Sequence[Sequence[int]], workers: int) -> Schedule:
    """Whenever a worker is free, it takes the first task whose needs are met (Graham 1966).

    Parameters
    ----------
    costs : (n,) float
        How long each task takes.
    needs : sequence of sequence of int
        The tasks that have to be finished before each.
    workers : int

    Raises
    ------
    ValueError
        If tasks need each other in a circle.
    """
    n = len(costs)
    left = [len(set(need)) for need in needs]
    follows: list[list[int]] = [[] for _ in range(n)]
    for task, need in enumerate(needs):
        for other in set(need):
            follows[other].append(task)
    ready = [task for task in range(n) if not left[task]]  # sorted, hence a heap
    free = list(range(workers))
    running: list[tuple[float, int]] = []
    start, finish, worker, now = np.zeros(n), np.zeros(n), np.zeros(n, dtype=np.intp), 0.0
    done = 0
    while ready or running:
        while ready and free:
            task, who = heappop(ready), heappop(free)
            start[task], finish[task], worker[task] = now, now + costs[task], who
            heappush(running, (float(finish[task]), task))
        now = running[0][0]
        while running and running[0][0] == now:
            task = heappop(running)[1]
            heappush(free, int(worker[task]))
            done += 1
            for other in follows[task]:
                left[other] -= 1
                if not left[other]:
                    heappush(ready, other)
    if done < n:
        raise ValueError("tasks need each other in a circle")
    return Schedule(start, finish, worker)


@dataclass(frozen=True, eq=False)
class StageTasks:
    """The stages of a plan and the features that they need, in the order of the plan.

    Attributes
    ----------
    costs, needs
        As ``list_schedule`` takes them.
    stages : (S,) int
        The task of each stage.
    """

    costs: list[float]
    needs: list[list[int]]
    stages: NDArray[np.intp]


def stage_tasks(plan: Plan) -> StageTasks:
    """Tasks of a plan: each group once, after what it requires; each stage after its groups and the stage before."""
    prices, requires = plan.costs.costs.prices, plan.costs.costs.requires
    costs: list[float] = []
    needs: list[list[int]] = []
    place: dict[str, int] = {}
    stages: list[int] = []
    for stage in plan:
        for name in plan.costs.costs.closure(stage.groups):
            if name not in place:
                needs.append([place[other] for other in requires.get(name, ())])
                place[name] = len(costs)
                costs.append(prices[name])
        needs.append([place[name] for name in stage.groups] + stages[-1:])
        stages.append(len(costs))
        costs.append(stage.cost)
    return StageTasks(costs, needs, np.array(stages, dtype=np.intp))
