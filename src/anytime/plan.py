"""The one contract: an ordered plan of stages that can be stopped after any of them.

Every learner produces a ``Plan``. A plan is made of **blocks**, runs of consecutive stages that share an evaluator (a
native forest is one block of many stages; a linear step or a network exit is a block of one). After stage ``t`` there
is one valid answer:

- ``combine="sum"``: the base plus the outputs of the stages since the last replacing stage;
- ``combine="mean"``: the mean of those stages (a forest), the base before the first;
- ``weights`` (a refitted table): the base plus all stages' outputs weighted by row ``t``, usable only when stages 1..t are done.

A stage may *replace* the answer instead of adding to it, work only on rows that *pass* a rule, and *stop* rows for which a rule
holds. Beside this chain, a plan may have *branches*, plans of their own that answer a budget known in advance: a run that may be
interrupted needs one nested order, a known budget does not.

Anytime framework: Grubb, *Anytime Prediction*, chapter 6; prefixes with their own weights: Hu, *Anytime Linear Prediction*,
Algorithm 1; interruptible and contract algorithms: Russell and Zilberstein, *Composing real-time systems*, 1991.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anytime._native import Forest
from anytime.blocks import Block
from anytime.calibration import Calibration
from anytime.costs import UNLIMITED, BoundCosts
from anytime.losses import LINKS, least_cost
from anytime.plan_checks import check_plan
from anytime.plan_choices import Choice, offers_of, ticks_after
from anytime.rules import MarginRule, Rule, StopTable

Array = NDArray[np.float64]

__all__ = ["Plan", "Stage"]


_MOST_HELD = 256  # sets of groups that rows have, for which choices are kept
# Times as long as a stage took before, or by the pace of another: it will hardly take longer
_OWN_CAUTION, _CAUTION = 1.5, 2.0


@dataclass(frozen=True, eq=False)
class Stage:
    """A read-only view of one stage of a plan.

    Attributes
    ----------
    number : int
        1 for the first; 0 is the answer before anything is done.
    groups : tuple of str
        Groups that it may use, without those that they require.
    cost : float
        Cost of evaluating it, without features.
    model_cost : float
        The most that all stages up to it can cost, features included.
    replaces : bool
        Whether its output replaces the answer so far, instead of adding to it.
    passes, stops : Rule or None
        Rows that it works on; rows that are finished after it. None: all; none.

    See Also
    --------
    Plan : All stages and their costs.

    Examples
    --------
    >>> import anytime as at
    >>> X, y, costs = at.datasets.load("wine")
    >>> model = at.GroupPursuitClassifier(costs=costs, random_state=0).fit(X, y)
    >>> first = model.plan_.stage(1)
    >>> first.number, first.groups, first.model_cost
    (1, ('colour',), 8.0)
    """

    number: int
    groups: tuple[str, ...]
    cost: float
    model_cost: float
    replaces: bool
    passes: Rule | None
    stops: Rule | None


class Purchases(NamedTuple):
    """Purchases of the stages of a plan, each group once."""

    ticks: NDArray[np.int64]  # (S,) cumulative model cost after each stage
    order: list[int]  # groups as they are first bought
    groups: list[int]  # how many of them before the first stage and after each


@dataclass(frozen=True, eq=False, kw_only=True)
class Plan:
    """An ordered plan of stages: what every learner produces and the engine runs.

    Parameters
    ----------
    blocks : sequence of Block
        Stages are numbered through them.
    costs : BoundCosts
        Prices, bound to the columns: ``FeatureCosts.bind``.
    base : (K,) float
        Scores before the first stage.
    link : str
        A name of ``anytime.losses.LINKS``.
    combine : {"sum", "mean"}
    weights : sequence of arrays, default=None
        A refitted table. Entry ``t`` belongs to the answer after stage ``t + 1`` and has shape (m, K), with ``m`` the summed
        width of the first ``t + 1`` stages; or (t + 1,) numbers that scale whole stage outputs of width K.
    intercepts : (S, K), default=None
        The base of each entry of ``weights``. None: the plan's base.
    evaluation_costs : (S,) float, default=None
        Cost of evaluating each stage, without features. None: 0.
    replaces : (S,) bool, default=None
        Stages that replace the answer so far.
    passes, stops : mapping from stage position (0-based) to Rule
        Rows a stage works on; rows that are finished after it.
    quality : (S + 1,) float, default=None
        Quality of every prefix on held-out data, higher is better; entry 0 is before the first stage.
    expected_costs : (S,) float, default=None
        Mean cost of validation rows at the end of each stage, for comparison with a mean budget.
    stop_table : StopTable, default=None
        For mean budgets: which rows leave early, so that others go further. None: all rows go equally far.
    limit : float, default=inf
        A spending cap that no budget lifts.
    branches : sequence of Plan, default=()
        Plans that answer a known budget after their last stage. Their first stage replaces the base; they have the same costs and
        outputs as the chain, a ``quality`` on the same scale, and no branches of their own. Neither they nor the chain may then
        have rules.
    calibration : Calibration, default=None
        Calibration of the probabilities, or the errors, of every stage on held-out rows. Each branch has its own.
    cost_matrix : (C, C), default=None
        The cost of answering the second class if the first is true: the answer is the class with the lowest expected cost. None:
        the most likely class. Scores and probabilities do not depend on it.

    See Also
    --------
    Stage : One stage of a plan.
    Answer : The answer after some stages.

    Examples
    --------
    A linear stage for each of two columns, the cheap one first:

    >>> import anytime as at
    >>> from anytime.blocks import LinearBlock
    >>> costs = at.FeatureCosts([1.0, 5.0]).bind(2)
    >>> blocks = [LinearBlock([0], [[2.0]]), LinearBlock([1], [[1.0]])]
    >>> plan = at.Plan(blocks=blocks, costs=costs, base=[0.0], link="identity")
    >>> [(stage.groups, stage.model_cost) for stage in plan]
    [(('x0',), 1.0), (('x1',), 6.0)]
    """

    blocks: Sequence[Block]
    costs: BoundCosts
    base: Array
    link: str
    combine: Literal["sum", "mean"] = "sum"
    weights: Sequence[Array] | None = None
    intercepts: Array | None = None
    evaluation_costs: Array | None = None
    replaces: NDArray[np.bool_] | None = None
    passes: Mapping[int, Rule] = field(default_factory=dict)
    stops: Mapping[int, Rule] = field(default_factory=dict)
    quality: Array | None = None
    expected_costs: Array | None = None
    stop_table: StopTable | None = None
    limit: float = np.inf
    branches: Sequence[Plan] = ()
    calibration: Calibration | None = None
    cost_matrix: Array | None = None

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        set_(self, "blocks", tuple(self.blocks))
        set_(self, "branches", tuple(self.branches))
        set_(self, "base", np.atleast_1d(np.asarray(self.base, dtype=np.float64)))
        if self.weights is not None:
            set_(self, "weights", tuple(np.asarray(row, dtype=np.float64) for row in self.weights))
        check_plan(self)

    def __getstate__(self) -> dict[str, Any]:
        """What the plan is, without what was derived or learned of this machine's pace."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    # ------------------------------------------------------------------ shape

    @property
    def n_stages(self) -> int:
        """Number of stages."""
        return sum(block.n_stages for block in self.blocks)

    @property
    def n_outputs(self) -> int:
        """Number of scores per row."""
        return self.base.size

    @property
    def n_features(self) -> int:
        """Number of columns that the plan expects."""
        return self.costs.column_group.size

    @cached_property
    def block_start(self) -> list[int]:
        """(B + 1,) the first stage of each block, and the end."""
        return [0, *np.cumsum([block.n_stages for block in self.blocks]).tolist()]

    def locate(self, stage: int) -> tuple[int, int]:
        """The block of a stage, and the stage's number within it."""
        b = bisect_right(self.block_start, stage) - 1
        return b, stage - self.block_start[b]

    @cached_property
    def output_start(self) -> NDArray[np.int64]:
        """(S + 1,) where each stage's outputs begin when all are kept side by side."""
        widths = np.concatenate([[0], *[np.full(b.n_stages, b.width) for b in self.blocks]])
        return np.cumsum(widths).astype(np.int64)

    @cached_property
    def fresh_start(self) -> NDArray[np.int32]:
        """(S + 1,) for the answer after ``t`` stages, the number of stages whose work it does not contain."""
        start = np.zeros(self.n_stages + 1, dtype=np.int32)
        if self.replaces is not None and not self.passes and not self.stops and not self._uses_answers:
            replacing = np.where(self.replaces, np.arange(self.n_stages), 0)
            start[1:] = np.maximum.accumulate(replacing)
        return start

    @cached_property
    def plain_forest(self) -> Forest | None:
        """The trees of a plan that is one forest, without rules, replacing stages and weights of its own."""
        special = self.weights is not None or self.replaces is not None or self.passes or self.stops
        return self.blocks[0].forest if len(self.blocks) == 1 and not special else None

    @cached_property
    def always_replaces(self) -> bool:
        """Whether every stage replaces the answer before it, without rules, and can be evaluated by itself."""
        if (
            self.replaces is None
            or self.passes
            or self.stops
            or not self.replaces.all()
            or self._uses_answers
        ):
            return False
        return all(block.forest is None or block.n_stages == 1 for block in self.blocks)

    @cached_property
    def stages_stand_alone(self) -> bool:
        """Whether every stage gives its answer without the work of those before it, so that any of them can be left out."""
        return self.always_replaces and all(type(block).remember is Block.remember for block in self.blocks)

    def seconds(self, stage: int, n_rows: int) -> float:
        """Upper estimate of the seconds that a stage takes for this many rows; 0 if unknown."""
        b, within = self.locate(stage)
        return self.blocks[b].seconds(within, n_rows)

    @cached_property
    def _paces(self) -> dict[int, dict[int, float]]:
        """By power of two of the rows, and by stage: seconds that it took, as a share of the upper estimate."""
        return {}

    def note_pace(self, stage: int, n_rows: int, seconds: float) -> None:
        """Learn how long a stage takes here: a slower time is believed at once, a quicker one by half."""
        if upper := self.seconds(stage, n_rows):
            paces, pace = self._paces.setdefault(n_rows.bit_length(), {}), seconds / upper
            paces[stage] = max(pace, (paces.get(stage, pace) + pace) / 2)

    def likely_seconds(self, stage: int, n_rows: int) -> float:
        """Estimate seconds that a stage rarely exceeds, by earlier runs of it or of the nearest one; else the upper estimate."""
        upper, paces = self.seconds(stage, n_rows), self._paces.get(n_rows.bit_length())
        if not paces:
            return upper
        if stage in paces:
            return _OWN_CAUTION * paces[stage] * upper
        nearest = min(list(paces), key=lambda met: abs(met - stage))
        return _CAUTION * paces[nearest] * upper

    def last_in_time(self, first: int, end: int, n_rows: int, seconds: float) -> int:
        """The last stage from ``first`` to ``end`` that likely fits; ``first`` if none does."""
        in_time = (s for s in range(end - 1, first, -1) if 0.0 < self.likely_seconds(s, n_rows) <= seconds)
        return next(in_time, first)

    @cached_property
    def bounded_blocks(self) -> list[int]:
        """Blocks whose stages depend on what rows may spend."""
        return [b for b, block in enumerate(self.blocks) if type(block).bound is not Block.bound]

    @cached_property
    def _uses_answers(self) -> bool:
        """Whether a stage continues from the scores before it, so that none of those can be left out."""
        return any(block.uses_answer for block in self.blocks)

    def stage_after_leaving_out(self, s: int) -> int:
        """Where a row continues that cannot have stage ``s``; ``s`` itself where it has to end there.

        What later stages add belongs to a stage that replaces the answer, and a refitted table needs all stages.
        """
        if self.weights is not None:
            return s
        if self.replaces is None or not self.replaces[s]:
            return s + 1
        later = np.flatnonzero(self.replaces[s + 1 :])
        return s + 1 + int(later[0]) if later.size else s

    def has_rules(self, b: int) -> bool:
        """Whether a stage of block ``b`` has a rule."""
        first, last = self.block_start[b : b + 2]
        return any(first <= s < last for rules in (self.passes, self.stops) for s in rules)

    @cached_property
    def margin_filters(self) -> list[tuple[Array, NDArray[np.bool_]] | None]:
        """For each block thresholds (NaN: all pass) and whether margins below them pass; None where rules ask anything else."""
        out: list[tuple[Array, NDArray[np.bool_]] | None] = []
        for first, last in pairwise(self.block_start):
            rules = {s - first: rule for s, rule in self.passes.items() if first <= s < last}
            margins = {s: rule for s, rule in rules.items() if isinstance(rule, MarginRule)}
            if len(margins) < len(rules) or any(first <= s < last for s in self.stops):
                out.append(None)
                continue
            thresholds, below = np.full(last - first, np.nan), np.ones(last - first, dtype=bool)
            for s, rule in margins.items():
                thresholds[s], below[s] = rule.threshold, rule.below
            out.append((thresholds, below))
        return out

    # ------------------------------------------------------------------ cost

    @cached_property
    def block_groups(self) -> list[NDArray[np.int32]]:
        """Groups that each stage's own outputs may use, rules apart, requirements not included."""
        places = (self.locate(s) for s in range(self.n_stages))
        return [self.costs.groups_of(self.blocks[b].columns(within)) for b, within in places]

    @cached_property
    def stage_groups(self) -> list[NDArray[np.int32]]:
        """Groups that each stage may use, rules included, requirements not."""
        out = []
        for s, own in enumerate(self.block_groups):
            read = [
                self.costs.groups_of(rules[s].columns()) for rules in (self.passes, self.stops) if s in rules
            ]
            out.append(np.unique(np.concatenate([own, *read])) if read else own)
        return out

    @cached_property
    def read_columns(self) -> NDArray[np.bool_]:
        """(d,) columns that some stage or rule may read."""
        read = np.zeros(self.n_features, dtype=bool)
        for block in self.blocks:
            for within in range(block.n_stages):
                read[block.columns(within)] = True
        for rule in (*self.passes.values(), *self.stops.values()):
            read[rule.columns()] = True
        for branch in self.branches:
            read |= branch.read_columns
        return read

    @cached_property
    def read_groups(self) -> NDArray[np.bool_]:
        """(G,) groups of which some stage or rule may read a column."""
        return np.bincount(self.costs.column_group[self.read_columns], minlength=self.costs.n_groups) > 0

    @cached_property
    def evaluation_ticks(self) -> NDArray[np.int64]:
        """(S,) evaluation cost of each stage."""
        if self.evaluation_costs is None:
            return np.zeros(self.n_stages, dtype=np.int64)
        return np.array([self.costs.costs.ticks(cost) for cost in self.evaluation_costs], dtype=np.int64)

    @cached_property
    def purchases(self) -> Purchases:
        """Purchases of the stages, one after the other."""
        closures = [np.array(self.costs.table.closure(g), dtype=np.intp) for g in range(self.costs.n_groups)]
        depth = np.array([c.size for c in closures])  # a group requires more than what it requires does
        bought = np.zeros(self.costs.n_groups, dtype=bool)
        order: list[int] = []
        groups = [0]
        spent = 0
        ticks = np.empty(self.n_stages, dtype=np.int64)
        for s, used in enumerate(self.stage_groups):
            new = np.unique(np.concatenate([closures[g] for g in used])) if used.size else used
            new = new[~bought[new]]
            bought[new] = True
            order.extend(new[np.argsort(depth[new], kind="stable")].tolist())
            spent += int(self.costs.prices[new].sum()) + int(self.evaluation_ticks[s])
            ticks[s] = spent
            groups.append(len(order))
        return Purchases(ticks, order, groups)

    @cached_property
    def stage_ticks(self) -> NDArray[np.int64]:
        """(S,) cumulative model cost after each stage, in ticks."""
        return self.purchases.ticks

    @cached_property
    def stage_costs(self) -> Array:
        """(S,) cumulative model cost after each stage: everything its rows could have to pay for."""
        return self.costs.costs.amounts(self.stage_ticks)

    @cached_property
    def prefix_costs(self) -> Array:
        """(S + 1,) model cost before the first stage and after each, never more than the plan's limit."""
        return np.asarray(np.minimum(np.concatenate([[0.0], self.stage_costs]), self.limit))

    @cached_property
    def order(self) -> list[str]:
        """Groups in the order in which the plan first buys them."""
        return [self.costs.costs.names[g] for g in self.purchases.order]

    @cached_property
    def mean_ticks(self) -> NDArray[np.int64]:
        """(S,) what rows pay on average by the end of each stage, in ticks: as measured, else the most that they could pay."""
        if self.expected_costs is None:
            return self.stage_ticks
        return self.costs.costs.budgets_ticks(np.asarray(self.expected_costs, dtype=np.float64))

    def affordable(
        self, ticks: NDArray[np.int64] | int, owned: NDArray[np.bool_] | None = None
    ) -> NDArray[np.int64] | int:
        """The most stages that cost any row at most ``ticks``, with groups it ``owned`` before, and no more than the limit."""
        if owned is None and isinstance(ticks, int):
            return bisect_right(self._stage_ticks_list, min(ticks, self.limit_ticks))
        paid = self.stage_ticks if owned is None else ticks_after(self, owned)[1:]
        return paid.searchsorted(np.minimum(ticks, self.limit_ticks), side="right")

    @cached_property
    def _stage_ticks_list(self) -> list[int]:
        """``stage_ticks`` as a list, which bisection searches in a fifth of the time that an array takes for one number."""
        return self.stage_ticks.tolist()  # type: ignore[no-any-return]

    @property
    def choices(self) -> tuple[NDArray[np.int64], Choice]:
        """(m,) budgets, in ticks, from which on something else answers a known budget, and what it is.

        The first is the answer before the first stage. A stage of the chain that held-out rows liked less than one before it
        counts as that one, because nothing tells how much of its higher loss is noise.
        """
        return self._choices_of(None, None)

    @cached_property
    def _known_choices(self) -> dict[tuple[bytes | None, ...], tuple[NDArray[np.int64], Choice]]:
        return {}

    def _choices_of(
        self, held: NDArray[np.bool_] | None, owned: NDArray[np.bool_] | None
    ) -> tuple[NDArray[np.int64], Choice]:
        """``choices`` for rows that have the groups ``held``, None: all, and ``owned`` some before, None: none."""
        key = tuple(None if groups is None else groups.tobytes() for groups in (held, owned))
        if key not in self._known_choices:
            if len(self._known_choices) >= _MOST_HELD:
                self._known_choices.clear()
            self._known_choices[key] = offers_of(self, held, owned)
        return self._known_choices[key]

    def choice(
        self,
        ticks: NDArray[np.int64] | int,
        held: NDArray[np.bool_] | None = None,
        owned: NDArray[np.bool_] | None = None,
    ) -> Choice:
        """The choice that answers a budget known in advance, or one per row, if rows have the groups ``held``.

        The longest affordable prefix of the chain, unless an affordable branch is better on held-out rows; of these the best, and
        of equals the cheapest. The budget pays for what rows ``owned`` before, too.
        """
        if not self.branches:
            stages = self.affordable(ticks, owned)
            return Choice(np.full_like(stages, -1), stages)
        budgets, best = self._choices_of(None if held is None or held.all() else held, owned)
        at = budgets.searchsorted(np.minimum(ticks, self.limit_ticks), side="right") - 1
        if owned is not None:  # which may have cost more than the budget
            at = np.maximum(at, 0)
        return Choice(best.branch[at], best.stages[at])

    @property
    def all_blocks(self) -> list[Block]:
        """The blocks of the chain and of all branches."""
        return [block for part in (self, *self.branches) for block in part.blocks]

    @cached_property
    def policy_ticks(self) -> NDArray[np.int64]:
        """(m,) what rows pay on average under each policy of the table of stops, in ticks; none without a table."""
        if self.stop_table is None:
            return np.empty(0, dtype=np.int64)
        return np.rint(self.stop_table.leaving @ self.stage_ticks).astype(np.int64)

    def policy_within(self, ticks: int) -> int | None:
        """The most expensive policy with a mean cost of at most ``ticks``; None: there is none, or all stages are affordable."""
        if self.stop_table is None or ticks >= self.stage_ticks[-1]:
            return None
        within = np.flatnonzero(self.policy_ticks <= ticks)
        return int(within[self.policy_ticks[within].argmax()]) if within.size else None

    def affordable_on_average(self, ticks: int) -> int:
        """The most stages that any row goes through where rows pay at most ``ticks`` on average."""
        if self.bounded_blocks:  # what a row buys depends on its budget, not on its stages alone
            return self.n_stages
        policy = self.policy_within(ticks)
        if policy is not None and self.stop_table is not None:
            return self.stop_table.last_stage(policy)
        return int(np.searchsorted(self.mean_ticks, ticks, side="right"))

    @cached_property
    def least_mean_cost(self) -> float:
        """The least mean budget that buys anything."""
        if not self.n_stages:
            return 0.0
        least = self.costs.prices.min(initial=UNLIMITED) if self.bounded_blocks else self.mean_ticks[0]
        return self.costs.costs.amount(int(least))

    @cached_property
    def limit_ticks(self) -> int:
        """The spending cap in ticks."""
        return self.costs.costs.budget_ticks(self.limit)

    # ------------------------------------------------------------------ reading

    def __len__(self) -> int:
        return self.n_stages

    def __iter__(self) -> Iterator[Stage]:
        return (self.stage(number) for number in range(1, self.n_stages + 1))

    def stage(self, number: int) -> Stage:
        """Stage ``number``, counted from 1."""
        if not 1 <= number <= self.n_stages:
            raise IndexError(f"no stage {number}; the plan has stages 1 to {self.n_stages}")
        s = number - 1
        names = self.costs.costs.names
        return Stage(
            number=number,
            groups=tuple(names[g] for g in self.stage_groups[s]),
            cost=self.costs.costs.amount(int(self.evaluation_ticks[s])),
            model_cost=float(self.stage_costs[s]),
            replaces=self.replaces is not None and bool(self.replaces[s]),
            passes=self.passes.get(s),
            stops=self.stops.get(s),
        )

    def probabilities(self, scores: Array, stages: Any) -> Array:
        """(n, C) probabilities after these stages, one number or (n,), from scores: the one place where they are calibrated."""
        raw = LINKS[self.link].transform(scores)
        return raw if self.calibration is None else self.calibration.probabilities(raw, stages)

    def decide(self, scores: Array, classes: NDArray[Any] | None, stages: Any) -> NDArray[Any]:
        """One of ``classes`` for each row of scores, (n, K), after these stages, or values where there are no classes."""
        if self.cost_matrix is None or classes is None:
            return LINKS[self.link].decide(scores, classes)
        return np.asarray(classes[least_cost(self.probabilities(scores, stages), self.cost_matrix)])

    # ------------------------------------------------------------------ derived plans

    def head(self, n_stages: int) -> Plan:
        """The plan that ends after ``n_stages`` stages, without branches."""
        kept: list[Block] = []
        for block, start in zip(self.blocks, self.block_start, strict=False):
            if start < n_stages:
                kept.append(block.head(min(block.n_stages, n_stages - start)))
        return replace(
            self,
            blocks=kept,
            weights=None if self.weights is None else self.weights[:n_stages],
            intercepts=None if self.intercepts is None else self.intercepts[:n_stages],
            evaluation_costs=None if self.evaluation_costs is None else self.evaluation_costs[:n_stages],
            replaces=None if self.replaces is None else self.replaces[:n_stages],
            passes={s: rule for s, rule in self.passes.items() if s < n_stages},
            stops={s: rule for s, rule in self.stops.items() if s < n_stages},
            quality=None if self.quality is None else self.quality[: n_stages + 1],
            expected_costs=None if self.expected_costs is None else self.expected_costs[:n_stages],
            stop_table=None if self.stop_table is None else self.stop_table.head(n_stages),
            calibration=None if self.calibration is None else self.calibration.head(n_stages),
            branches=(),
        )

    def within(self, ticks: int) -> Plan:
        """The plan without what no budget up to ``ticks`` can use: later stages, and branches that are never the best."""
        branches = np.unique(self.choices[1].branch[self.choices[0] <= ticks]) if self.branches else ()
        kept = [self.branches[number] for number in branches if number >= 0]
        return replace(self.head(int(self.affordable(ticks))), branches=kept)

    def followed_by(self, branches: Sequence[Plan]) -> Plan:
        """One chain of this plan's stages and then those of ``branches``, each of which starts over."""
        parts = [replace(self, branches=()), *branches]
        replaces = [np.zeros(p.n_stages, dtype=bool) if p.replaces is None else p.replaces for p in parts]
        evaluation = [
            np.zeros(p.n_stages) if p.evaluation_costs is None else p.evaluation_costs for p in parts
        ]
        return Plan(
            blocks=[block for part in parts for block in part.blocks],
            costs=self.costs,
            base=self.base,
            link=self.link,
            combine=self.combine,
            evaluation_costs=np.concatenate(evaluation) if any(map(np.any, evaluation)) else None,
            replaces=np.concatenate(replaces),
            cost_matrix=self.cost_matrix,
        )

    def stages_before(self, branch: int) -> int:
        """Count the stages of the chain that can be done on the way to a branch, as they buy only what it needs."""
        if self.evaluation_ticks.any():
            return 0
        needed = set(self.branches[branch].purchases.order)
        fit = [needed.issuperset(self.purchases.order[:n_bought]) for n_bought in self.purchases.groups[1:]]
        return fit.index(False) if False in fit else len(fit)

    def by_way_of(self, branch: int, before: int) -> Plan:
        """``before`` stages of the chain and then a branch: what is interrupted on the way has the answer of the chain."""
        return self.head(before).followed_by([self.branches[branch]])

    @cached_property
    def for_means(self) -> Plan:
        """The same stages for rows that stop by a mean budget: sets were measured on rows that all go equally far."""
        calibration = None if self.calibration is None else self.calibration.without_sets()
        return replace(self, calibration=calibration, stop_table=None)

    def with_policy(self, policy: int) -> Plan:
        """The plan in which rows leave as a policy of the table of stops says, whatever the budget."""
        if policy not in self._plans_of_policies:
            table = self.stop_table
            assert table is not None
            n_stages, leaving = table.last_stage(policy), table.leaving[policy]
            gone = np.cumsum(leaving) - leaving  # before each stage
            paid = np.cumsum(leaving * self.stage_costs) - leaving * self.stage_costs
            self._plans_of_policies[policy] = replace(
                self.for_means.head(n_stages),
                stops=table.rules(policy),
                expected_costs=np.maximum.accumulate(paid + (1.0 - gone) * self.stage_costs)[:n_stages],
            )
        return self._plans_of_policies[policy]

    @cached_property
    def _plans_of_policies(self) -> dict[int, Plan]:
        return {}
