"""Answers for one raw example at a time, within any bounds, readable at any moment.

A session is the state machine ``start -> step* -> read`` of an anytime predictor (Grubb, *Anytime Prediction*, section 6.1): it
asks extractors only for the groups on the example's own path, keeps a ledger of what was paid, and publishes a new snapshot
after every unit of work, so that ``read`` never waits for one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from anytime.answer import Answer
from anytime.engine import Stop
from anytime.estimator import AnytimeModel
from anytime.features import Features
from anytime.runtime.account import Account
from anytime.runtime.bounds import Bounds
from anytime.runtime.example import Example
from anytime.runtime.layout import Layout
from anytime.runtime.steps import Steps
from anytime.runtime.timing import Timings
from anytime.runtime.trace import Trace
from anytime.runtime.walk import Walk


class Session:
    """A model, its extractors, and the current example.

    One thread computes at a time (others that try wait for it); any thread may ``read`` meanwhile.

    Parameters
    ----------
    model : fitted AnytimeModel
        Any model of this package that has a plan.
    features : Features, default=None
        Extractors for the groups that the model uses. None: examples are rows, in any form that ``anytime.rows`` reads, and may
        lack some groups.
    skip : bool, default=False
        Whether to skip a stage that does not fit the budget or the deadline and try the next one, instead of ending the run.
        This departs from the trained order; refitted models never skip.
    mean_budget : float, default=None
        Mean cost of the examples of ``predict`` calls without a budget, over this session and its siblings. An ``Account`` of
        what they have cost adjusts how far the next ones go.
    clock : callable, default=time.monotonic
        Seconds. For tests; forests check a custom clock only between native calls.

    Attributes
    ----------
    account : Account or None
        What examples have cost so far, if there is a mean budget.

    See Also
    --------
    BatchSession : Many examples at once.
    Features : Extractors that a session calls.

    Notes
    -----
    With ``deadline`` or ``stop``, and for groups with a timeout, extractors run in background threads, so that a session can stop
    waiting for them; a late extractor continues, and ``resume`` uses its result. Otherwise they run in the calling thread. Before
    a deadline, a group or a stage starts only if its rarely exceeded time is left: at first the tail in the price list (if its
    unit is a time), after some runs the 99th percentile of the measured times.

    A group that is started is paid for, whether it arrives or not. If the features of a stage failed, it is skipped, and so are
    all later stages that need them; a refitted plan ends at its last complete stage. ``give`` makes them available again.

    Examples
    --------
    >>> import anytime as at
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = [[0, 1], [1, 0], [2, 5], [3, 3]], [0, 0, 1, 1]
    >>> forest = RandomForestClassifier(n_estimators=5, random_state=0).fit(X, y)
    >>> model = at.make_anytime(forest, costs=at.FeatureCosts([1.0, 10.0]))
    >>> features = at.Features({"x0": lambda raw: raw["cheap"], "x1": lambda raw: raw["dear"]})
    >>> session = at.Session(model, features)
    >>> answer = session.predict({"cheap": 0.0, "dear": 4.0}, budget=20)
    >>> answer.cost <= 20, answer.complete
    (True, True)
    """

    account: Account | None = None

    def __init__(
        self,
        model: AnytimeModel,
        features: Features | None = None,
        *,
        skip: bool = False,
        mean_budget: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._open(Layout(model, features), skip, clock, Timings(model._plan))
        self.account = None if mean_budget is None else Account(mean_budget)

    def _open(self, layout: Layout, skip: bool, clock: Callable[[], float], timings: Timings) -> None:
        self.model, self.features = layout.model, layout.features
        self.skip, self._clock = skip, clock
        self._layout, self._timings = layout, timings
        self._writer = threading.RLock()
        self._steps: Steps | None = None
        self._best: tuple[Answer, Answer] | None = None
        self._of_branch: Answer | None = None  # what a branch has said of the current example

    def sibling(self) -> Session:
        """A session for another example, which shares the account and the measured times of this one."""
        other = Session.__new__(type(self))
        other._open(self._layout, self.skip, self._clock, self._timings)
        other.account = self.account
        return other

    # ------------------------------------------------------------------ the state machine

    def start(self, raw: Any) -> Session:
        """Start an example without computing anything; ``read`` returns the answer before the first stage."""
        with self._writer:
            self._begin(raw)
        return self

    def give(self, values: Mapping[str, Any]) -> Session:
        """Provide features of the current example, by group, so that no extractor is called for them.

        Nothing is computed yet. They are paid for when a stage reads them; stages that were skipped because they were missing run
        when the example continues.

        Parameters
        ----------
        values : mapping from str to vector or mapping
            The value that the extractor of each group would return.
        """
        with self._writer:
            steps, layout = self._started(), self._layout
            for name in values:
                if name not in layout.number:
                    raise ValueError(f"the model has no group {name!r}{layout.reader.group_hint(name)}")
            steps.give({layout.number[name]: value for name, value in values.items()})
        return self

    def step(self) -> bool:
        """Run one stage, whatever it costs (within the plan's limit); return whether any stage is left."""
        with self._writer:
            steps = self._on_the_chain()
            bounds = Bounds(steps.walk.done + 1, "stages", cap=self._layout.plan.limit_ticks)
            more = steps.run(bounds) == "stages"
            self._keep_the_better()
            return more

    def resume(
        self,
        *,
        budget: float | None = None,
        deadline: float | None = None,
        confidence: float | None = None,
        stop: Stop | None = None,
        max_stages: int | None = None,
        mean_budget: float | None = None,
    ) -> Answer:
        """Continue the current example within new bounds.

        Parameters
        ----------
        budget : float, default=None
            What the example may have cost in total at the end. None, without ``mean_budget``: the bounds of the model.
        deadline : float, default=None
            Seconds from now.
        confidence : float, default=None
            Stop as soon as the leading class has this probability.
        stop : StopFlag, threading.Event or similar, default=None
            Set from another thread to interrupt.
        max_stages : int, default=None
            Total number of stages done at the end.
        mean_budget : float, default=None
            What examples may cost on average, as in ``model.predict``.
        """
        called = self._clock()
        with self._writer:
            bounds = Bounds.of(
                self.model, called, budget, deadline, confidence, stop, max_stages, mean_budget
            )
            self._on_the_chain()
            if self._of_branch is not None and budget is not None:  # it has bought what the chain has not
                bounds = replace(bounds, cap=min(bounds.cap, self.model.costs_.budget_ticks(budget)))
            return self._within(bounds)

    def predict(
        self,
        raw: Any,
        *,
        budget: float | None = None,
        deadline: float | None = None,
        confidence: float | None = None,
        stop: Stop | None = None,
        max_stages: int | None = None,
        mean_budget: float | None = None,
    ) -> Answer:
        """Start an example and answer within the bounds, all of which hold together. See ``resume`` for them.

        If only a budget or a mean budget is passed, a branch of the plan may answer; before it, the session runs the stages of
        the chain that buy only what the branch needs. ``resume`` continues along the chain, and the answer of the branch stays
        until that of the chain is better on held-out rows. With ``skip=True`` the chain always answers.
        """
        called = self._clock()
        with self._writer:
            account = self.account if budget is None and mean_budget is None else None
            if account is not None:
                mean_budget = account.allowance(self._layout.plan.least_mean_cost)
            bounds = Bounds.of(
                self.model, called, budget, deadline, confidence, stop, max_stages, mean_budget
            )
            self._begin(raw)
            uncertain = any(bound is not None for bound in (deadline, confidence, stop, max_stages))
            answer = self._within(bounds) if uncertain else self._within_known(bounds, budget, mean_budget)
            if account is not None:
                account.note(answer.cost)
            return answer

    def read(self, policy: str = "latest") -> Answer:
        """The current answer. Any thread may call this; it never waits for work in progress.

        Parameters
        ----------
        policy : {"latest", "best_validated"}, default="latest"
            "best_validated": the prediction of the completed stage that did best on held-out data (``plan.quality``); cost and
            time still include all stages done.
        """
        steps = self._started()
        snapshot = steps.snapshot
        if policy == "best_validated":
            snapshot = self._best_validated(steps, snapshot)
        elif policy != "latest":
            raise ValueError(f"policy must be 'latest' or 'best_validated', not {policy!r}")
        return snapshot

    @property
    def reason(self) -> str:
        """Why the last run ended; empty during a run, or before the first.

        "complete", "budget", "deadline", "stages", "confidence", "stop" or, if a stage was skipped because a group is missing,
        "groups" (the example lacks it) or "failed" (its extractor did).
        """
        return "" if self._steps is None else self._steps.snapshot.reason

    @property
    def trace(self) -> Trace:
        """The events of the current example so far."""
        return self._started().trace

    def values(self) -> dict[str, Any]:
        """The values of every group that has arrived, by group."""
        with self._writer:
            return self._started().walk.example.values()

    def statistics(self) -> dict[str, Any]:
        """Summarise all examples and siblings: times per group and stage, overruns, errors of estimates."""
        return self._timings.summary()

    # ------------------------------------------------------------------ state

    def state(self) -> dict[str, Any]:
        """Everything needed to continue this example elsewhere with identical results. Can be pickled if the raw example can."""
        with self._writer:
            steps = self._started()
            return {
                "plan": _fingerprint(self._layout),
                "branch": steps.layout.branch,
                "walk": steps.walk.state(),
                "seconds": steps.seconds,
                "blocked": steps.blocked,
                "trace": steps.trace.to_json(),
            }

    @classmethod
    def restore(
        cls,
        state: dict[str, Any],
        model: AnytimeModel,
        features: Features | None = None,
        *,
        skip: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> Session:
        """A session that continues where ``state`` was taken. The other parameters are those of the constructor."""
        session = cls(model, features, skip=skip, clock=clock)
        if state["plan"] != _fingerprint(session._layout):
            raise ValueError(
                f"the state belongs to another model: {state['plan']}, not {_fingerprint(session._layout)}"
            )
        steps = session._take(Walk.from_state(session._layout.way(state["branch"]), state["walk"]))
        steps.continue_from(Trace.from_json(state["trace"]), state["seconds"], state["blocked"])
        return session

    # ------------------------------------------------------------------ within

    def _begin(self, raw: Any) -> None:
        self._take(Walk(self._layout, Example(self._layout, raw)))

    def _take(self, walk: Walk) -> Steps:
        self._steps = Steps(walk.layout, walk, self._timings, self.skip, self._clock)
        self._of_branch = None
        return self._steps

    def _within(self, bounds: Bounds) -> Answer:
        self._started().run(bounds)
        self._keep_the_better()
        if bounds.due < np.inf:
            self._timings.finish(self._clock() - bounds.due)
        return self.read()

    def _within_known(self, bounds: Bounds, budget: float | None, mean_budget: float | None) -> Answer:
        """The answer within a budget or a mean budget, and nothing else; of what is known in advance, as ``predict``."""
        steps = self._started()
        held = steps.walk.example.available if self.features is None else None
        bounds_of_choice = (budget, mean_budget, np.inf, None)
        choice = None if self.skip else self.model._known_choice(held, *bounds_of_choice)
        if choice is None or choice.branch < 0:
            return self._within(bounds)
        cap = int(self.model._known_ticks(*bounds_of_choice))
        steps.turn_to(int(choice.branch))
        steps.run(Bounds(steps.layout.n_stages, "complete", cap=cap))
        if steps.walk.complete:
            self._of_branch = steps.snapshot
        else:  # an extractor has failed: what the chain can do without it
            steps.turn_to(-1)
            steps.run(replace(bounds, cap=cap))
            steps.snapshot = steps.snapshot.changed(reason="failed", finished=False, partial=True)
        return self.read()

    def _keep_the_better(self) -> None:
        """Let readers see what a branch has said until the chain is better on held-out rows."""
        steps, own = self._started(), self._of_branch
        if own is None or steps.snapshot.branch >= 0:
            return
        now, plan = steps.snapshot, own.plan
        of_branch, of_chain = plan.branches[own.branch].quality, plan.quality
        assert of_branch is not None
        assert of_chain is not None
        if of_branch[-1] > of_chain[now.stage]:
            steps.snapshot = own.changed(
                paid=now.paid, bought=now.bought, elapsed=now.elapsed, reason=now.reason, partial=now.partial
            )
            for name in ("cost", "groups"):
                steps.snapshot.__dict__.pop(name, None)

    def _on_the_chain(self) -> Steps:
        """The example, on the way along the chain again if it was on that to a branch."""
        steps = self._started()
        if steps.layout.branch >= 0:
            steps.turn_to(-1)
        return steps

    def _started(self) -> Steps:
        if self._steps is None:
            raise RuntimeError("there is no example yet; call start first")
        return self._steps

    def _best_validated(self, steps: Steps, snapshot: Answer) -> Answer:
        quality = self._layout.plan.quality
        if snapshot.branch >= 0:  # chosen for that
            return snapshot
        if quality is None:
            raise ValueError(
                "policy='best_validated' needs the quality of each stage on validation rows, which this model does not have"
            )
        stage = int(np.argmax(quality[: snapshot.stage + 1]))  # the first, hence cheapest, of equals
        if stage == snapshot.stage:
            return snapshot
        best = self._best
        if best is None or best[0] is not snapshot:
            scores = steps.walk.prefix_scores(stage, steps.skipped)[0]
            best = self._best = snapshot, replace(snapshot, scores=scores, stage=stage)
        return best[1]


def _fingerprint(layout: Layout) -> dict[str, Any]:
    plan = layout.plan
    return {
        "stages": plan.n_stages,
        "outputs": plan.n_outputs,
        "columns": plan.n_features,
        "groups": layout.names,
    }
