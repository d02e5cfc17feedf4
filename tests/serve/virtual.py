"""An engine on a clock that only its own work moves: what it does can be said exactly."""

import asyncio
import copy
from functools import cache

import numpy as np

from anytime import make_anytime
from anytime.serve.engine import Engine
from anytime.serve.policy import Adaptive, Outlook
from anytime.serve.questions import Question
from tests.runtime.bench import Clock


class Fixed(Adaptive):
    """Every question gets the same stages, however long it waits for them: a control that has to be late."""

    def __init__(self, stage):
        super().__init__(reserve=0.0)
        self.stage = stage

    def needs_no_plan(self, done, finish):
        return False

    def outlook(self, waiting, pace, now):
        return Outlook(self.stage, waiting.due.size)


class VirtualEngine(Engine):
    """Work takes what the pace said at first, times ``slowness()``; nothing else takes any time."""

    def __init__(self, model, pace, policy, *, slowness=lambda: 1.0, **parameters):
        super().__init__(model, pace, policy, clock=Clock(), **parameters)
        self.slowness, self.slices = slowness, []
        self.truth = copy.deepcopy(pace)

    def _compute(self, cohort, stage):
        seconds = self.truth.seconds(cohort.stage, stage, cohort.rows) * self.slowness()
        self.slices.append((cohort.stage, stage, cohort.rows, seconds))
        super()._compute(cohort, stage)
        self.clock.now += seconds


def replay(engine, arrivals):
    """Answers to questions that come at times of the virtual clock, each ``(seconds, rows, bounds)``; in that order.

    Whoever comes during a slice joins after it, before the next: as requests do, which are read then.
    """

    async def main():
        began, asked = engine.clock.now, []
        coming = [(began + seconds, X, bounds) for seconds, X, bounds in arrivals]

        def join():
            while len(asked) < len(coming) and coming[len(asked)][0] <= engine.clock.now:
                at, X, bounds = coming[len(asked)]
                ticket = engine._admit(Question(X, arrived=at, **bounds))
                ticket.future = asyncio.get_running_loop().create_future()
                asked.append(ticket.future)
                if engine._is_done_at_once(ticket):
                    ticket.future.set_result(engine._answer_at_once(ticket))
                else:
                    engine._join(ticket)

        while len(asked) < len(coming):
            join()
            if len(asked) < len(coming) and not engine.queue:
                await rest()
                engine.clock.now = max(engine.clock.now, coming[len(asked)][0])
            await asyncio.sleep(0)
        return await asyncio.gather(*asked)

    return asyncio.run(main())


async def rest():
    """Let a scheduler see that nobody has come."""
    for _ in range(3):
        await asyncio.sleep(0)


def single_rows(rng, n, n_features=4):
    return rng.normal(size=(n, 1, n_features)).round(1)


def poisson(rng, rate, seconds):
    """Times of arrivals at a rate per second."""
    gaps = rng.exponential(1 / rate, size=int(2 * rate * seconds) + 10)
    times = np.cumsum(gaps)
    return times[times < seconds]


@cache
def stumps(n_stages):
    """A model of so many small trees, quick to run."""
    from sklearn.ensemble import GradientBoostingRegressor

    X = np.random.default_rng(0).normal(size=(60, 4))
    return make_anytime(
        GradientBoostingRegressor(n_estimators=n_stages, max_depth=1).fit(X, X[:, 0] * X[:, 1])
    )
