"""What to buy next for one row, and its expected gain: the result of ``model.next``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anytime.blocks import Block
from anytime.engine import Run
from anytime.losses import LINKS
from anytime.plan import Plan
from anytime.rows import Rows, listed, shown
from anytime.rules import Rule

__all__ = [
    "NextPurchase",
    "Offer",
    "PurchasePath",
    "chain_offers",
    "follow",
    "offer_of",
    "owned_groups",
    "usable_groups",
]


@dataclass(frozen=True)
class Offer:
    """A group that could be bought next."""

    group: str
    buys: tuple[str, ...]  # the group and its requirements not bought yet, in the order of purchase
    price: float  # of all of these
    gain: float | None = None  # expected reduction of the loss, or rise of the quality; None: unknown
    change: float | None = None  # probability of another class, or mean change of a number; None: unknown

    @property
    def required(self) -> str:
        """What is bought with the group because it requires it, in words; empty if nothing."""
        others = ", ".join(repr(name) for name in self.buys if name != self.group)
        return f" (with {others})" if others else ""


@dataclass(frozen=True)
class NextPurchase:
    """The recommendation of a model for one row.

    Attributes
    ----------
    prediction : object
        The answer based on what was bought.
    probability : float or None
        Probability of that answer; None for numbers.
    offers : tuple of Offer
        What could be bought, best first; empty if nothing could change the answer.
    unit : str or None
        Unit of the prices.
    budget : float or None
        The most that the row may pay in total; None: no limit.
    """

    prediction: Any
    probability: float | None
    offers: tuple[Offer, ...]
    unit: str | None = None
    budget: float | None = None

    @property
    def group(self) -> str | None:
        """The group to buy next; None: nothing."""
        return self.offers[0].group if self.offers else None

    @property
    def price(self) -> float:
        """Its price, including requirements that were not bought yet."""
        return self.offers[0].price if self.offers else 0.0

    @property
    def gain(self) -> float | None:
        """Its expected gain."""
        return self.offers[0].gain if self.offers else None

    @property
    def change(self) -> float | None:
        """The probability that it changes the answer; for numbers, the mean change."""
        return self.offers[0].change if self.offers else None

    @property
    def alternatives(self) -> tuple[Offer, ...]:
        """The other offers, best first."""
        return self.offers[1:]

    def table(self) -> list[dict[str, Any]]:
        """One dict per offer, best first; ``pandas.DataFrame(advice.table())`` shows them."""
        return [
            {
                "group": o.group,
                "buys": ", ".join(o.buys),
                "price": o.price,
                "gain": o.gain,
                "change": o.change,
            }
            for o in self.offers
        ]

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON values, with the text as ``advice``."""
        return {
            "prediction": _in_json(self.prediction),
            "probability": self.probability,
            "group": self.group,
            "unit": self.unit,
            "budget": self.budget,
            "advice": str(self),
            "offers": [
                {**line, "buys": list(o.buys)} for line, o in zip(self.table(), self.offers, strict=True)
            ],
        }

    def __str__(self) -> str:
        sure = "" if self.probability is None else f" with probability {self.probability:.2f}"
        now = f"Now {_in_words(self.prediction)}{sure}."
        if not self.offers:
            within = "" if self.budget is None else f" within {self._amount(self.budget)}"
            return f"{now} Nothing is left to buy that could change it{within}."
        best = self.offers[0]
        advice = f"{now} Buy {best.group!r} next{best.required} for {self._amount(best.price)}."
        if best.change is not None and self.probability is not None:
            advice += f" It changes the answer with probability {best.change:.2f}."
        elif best.change is not None:
            advice += f" It changes the answer by {best.change:.4g} on average."
        if self.alternatives:
            advice += f" Alternatives: {', '.join(repr(offer.group) for offer in self.alternatives[:3])}."
        return advice

    def _amount(self, price: float) -> str:
        unit = "column" if price == 1 and self.unit == "columns" else self.unit
        return f"{price:g} {unit}" if unit else f"{price:g}"


@dataclass(frozen=True)
class PurchasePath:
    """What a model buys for one row, purchase by purchase, and the answer after each.

    Attributes
    ----------
    steps : tuple of NextPurchase
        The recommendation before each purchase, and after the last one.
    """

    steps: tuple[NextPurchase, ...]

    @property
    def groups(self) -> list[str]:
        """The groups bought, in order."""
        return [group for step in self.steps[:-1] for group in step.offers[0].buys]

    @property
    def costs(self) -> list[float]:
        """The cumulative cost at each step."""
        paid = [0.0]
        for step in self.steps[:-1]:
            paid.append(paid[-1] + step.price)
        return paid

    def table(self) -> list[dict[str, Any]]:
        """One dict per answer: the group bought for it, the cumulative cost, and the answer."""
        bought = [None, *(step.group for step in self.steps[:-1])]
        return [
            {"bought": group, "cost": cost, "prediction": step.prediction, "probability": step.probability}
            for group, cost, step in zip(bought, self.costs, self.steps, strict=True)
        ]

    def plot(self, ax: Any = None) -> Any:
        """Plot the probability of the answer, or the predicted number, against cost, with the purchase at each step.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            None: a new figure.

        Returns
        -------
        matplotlib Axes
        """
        if ax is None:
            from matplotlib.pyplot import subplots

            _, ax = subplots()
        lines = self.table()
        classes = lines[0]["probability"] is not None
        heights = [line["probability"] if classes else float(line["prediction"]) for line in lines]
        ax.step(self.costs, heights, where="post", color="#0072B2")
        ax.plot(self.costs, heights, "o", color="#0072B2")
        for line, height in zip(lines, heights, strict=True):
            annotation = [f"{line['bought']}"] if line["bought"] is not None else []
            annotation += [_in_words(line["prediction"])] if classes else []
            ax.annotate(
                "\n".join(annotation), (line["cost"], height), textcoords="offset points", xytext=(4, 6)
            )
        unit = self.steps[0].unit
        ax.set_xlabel("paid" if unit is None else f"paid ({unit})")
        ax.set_ylabel("probability of the answer" if classes else "prediction")
        return ax

    def __str__(self) -> str:
        lines = []
        purchases = ["nothing", *(f"{step.group!r}{step.offers[0].required}" for step in self.steps[:-1])]
        for bought, line, step in zip(purchases, self.table(), self.steps, strict=True):
            sure = "" if line["probability"] is None else f" with probability {line['probability']:.2f}"
            lines.append(f"{bought}, {step._amount(line['cost'])}: {_in_words(line['prediction'])}{sure}")
        return "\n".join(lines)


def _in_json(prediction: Any) -> Any:
    """Numbers and words as they are, dates and the like as words."""
    values = np.asarray(prediction)
    plain = (values.astype(str) if values.dtype.kind in "mM" else values).tolist()
    return plain if isinstance(plain, (bool, int, float, str, list)) else str(plain)


def _in_words(prediction: Any) -> str:
    """A class, or numbers to four digits."""
    if np.asarray(prediction).dtype.kind != "f":
        return str(prediction)
    return ", ".join(f"{value:.4g}" for value in np.ravel(prediction))


def owned_groups(plan: Plan, rows: Rows, named: bool, bought: Iterable[str] | None) -> NDArray[np.bool_]:
    """(G,) groups that a row has, with what they require: those ``bought``, else those that a row by name has values of."""
    table, owned = plan.costs.table, np.zeros(plan.costs.n_groups, dtype=bool)
    if bought is None:
        there = _complete_groups(plan, rows.there) if named else owned
        # a group that is there needs no other group with columns, only the steps without columns before it
        for g in np.flatnonzero(there):
            owned[list(table.closure(int(g)))] = True
        return owned & (there | ~plan.costs.has_columns)
    names = list(plan.costs.costs.names)
    wanted = [bought] if isinstance(bought, str) else list(bought)
    number = {name: g for g, name in enumerate(names)}
    if unknown := [name for name in wanted if name not in number]:
        raise ValueError(
            f"bought contains {shown(unknown[0])}, which is not a group; the groups are {listed(names)}"
        )
    for name in wanted:
        owned[list(table.closure(number[name]))] = True
    lacking = np.zeros_like(owned) if rows.held is None else owned & ~rows.held
    if lacking.any():
        raise ValueError(
            f"the group {names[int(lacking.argmax())]!r} is listed as bought, but the row has no value for it"
        )
    return owned


def _complete_groups(plan: Plan, there: NDArray[np.bool_] | None) -> NDArray[np.bool_]:
    """(G,) groups of which a row has all columns that the plan reads; where it reads none of them, all."""
    usable = plan.costs.has_columns.copy()
    if there is None:
        return usable
    needed = plan.read_columns | ~plan.read_groups[plan.costs.column_group]
    usable[plan.costs.column_group[needed & ~there]] = False
    return usable


def usable_groups(plan: Plan, owned: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """(G,) groups that stages can work with: those that a row owns, and those of which nothing is read."""
    return owned | ~plan.read_groups


def offer_of(plan: Plan, group: int, owned: NDArray[np.bool_], **expected: Any) -> Offer:
    """A group with what it requires and a row does not have; ``expected``: gain and change."""
    table, costs = plan.costs.table, plan.costs.costs
    missing = [g for g in table.closure(group) if not owned[g]]
    missing.sort(key=lambda g: len(table.closure(g)))  # what is required comes first
    price = costs.amount(int(plan.costs.prices[missing].sum()))
    return Offer(costs.names[group], tuple(costs.names[g] for g in missing), price, **expected)


def chain_offers(plan: Plan, X: Any, owned: NDArray[np.bool_], cap: int) -> Sequence[Offer]:
    """What the first stage lacks that a row cannot do with what it owns, then what later ones do.

    Only columns of owned groups are read. ``cap``: the most ticks that the row may pay in all. Nothing is offered for a stage of
    which the row could not pay all that it lacks; of a tree that is the group that its path asks for next.
    """
    run, lacking = follow(plan, X, owned, cap)
    assert run.ledger is not None
    prices = plan.costs.prices
    evaluation = int(run.ledger.paid[0] - run.ledger.bought[0] @ prices)
    left = cap - int(owned @ prices) - evaluation

    def is_affordable(groups: Sequence[int], s: int) -> bool:
        missing = plan.costs.closure(np.array(groups, dtype=np.int32)) & ~owned
        return int(missing @ prices) + int(plan.evaluation_ticks[s]) <= left

    if not lacking or not is_affordable(lacking, int(run.done[0])):
        return ()
    readable, order = plan.costs.has_columns, [lacking[0]]
    for g in plan.purchases.order:
        if g != lacking[0] and not owned[g] and readable[g]:
            s = _first_use(plan, run, g)
            together = [g, *plan.block_groups[s]] if _reads_alike(plan, s) else [g]
            order += [g] if is_affordable(together, s) else []
    return [offer_of(plan, g, owned, gain=_gain(plan, run, g, owned)) for g in order]


def _reads_alike(plan: Plan, s: int) -> bool:
    """Whether a stage reads the same groups of every row."""
    block = plan.blocks[plan.locate(s)[0]]
    return block.forest is None and type(block).reads is Block.reads


def _first_use(plan: Plan, run: Run, group: int) -> int:
    """The first stage from where a row stands that may use a group, or what requires it."""
    done, table = int(run.done[0]), plan.costs.table
    for s in range(done, plan.n_stages):
        if any(group in table.closure(int(g)) for g in plan.stage_groups[s]):
            return s
    return done


def follow(plan: Plan, X: Any, owned: NDArray[np.bool_], cap: int) -> tuple[Run, list[int]]:
    """A row led through all stages for which it has what they read, and the groups that it then lacks; none: it has ended."""
    values = np.where(owned[plan.costs.column_group], X, np.nan)
    run, row = Run(plan, np.ascontiguousarray(values), metered=True), np.zeros(1, dtype=np.intp)
    run.bound(np.array([cap], dtype=np.int64), None)
    for s in range(plan.n_stages):
        lacking = [] if run.finished[0] else _lacking(run, s, row, owned)
        if run.finished[0] or lacking:
            return run, lacking
        run.advance(s + 1, budget=cap)
        if run.done[0] == s:  # it has cost more than it may
            break
    return run, []


def _lacking(run: Run, s: int, row: NDArray[np.intp], owned: NDArray[np.bool_]) -> list[int]:
    """Groups that stage ``s`` reads of the row and that it does not have; none where its filter keeps the row out."""
    plan = run.plan
    b, within = plan.locate(s)
    forest = plan.blocks[b].forest
    if s in plan.passes and _is_kept_out(run, plan.passes[s], owned):
        return []
    rules = [rules[s] for rules in (plan.passes, plan.stops) if s in rules]
    groups = [g for rule in rules for g in plan.costs.groups_of(rule.columns()).tolist()]
    if forest is not None:
        needed = int(forest.need(run.X[0], within, owned, plan.costs.table))
        groups += [needed] if needed >= 0 else []
    else:
        wanted = run.wanted(s, row)
        own = plan.block_groups[s] if wanted is None else np.flatnonzero(wanted[0])
        groups += own.tolist()
    missing = [g for g in plan.purchases.order if g in groups and not owned[g]]
    readable = [g for g in missing if plan.costs.has_columns[g]]
    return readable or missing


def _is_kept_out(run: Run, rule: Rule, owned: NDArray[np.bool_]) -> bool:
    """Whether a filter, whose columns the row has, says no."""
    can_be_asked = bool(owned[run.plan.costs.groups_of(rule.columns())].all())
    return can_be_asked and not rule.holds(run.X, run.scores(), LINKS[run.plan.link])[0]


def _gain(plan: Plan, run: Run, group: int, owned: NDArray[np.bool_]) -> float | None:
    """The part of one group in the rise of held-out quality by the next stage, divided evenly among those the row lacks for it.

    None: the stage does not use the group, or was not measured. Later stages are known only with all that is bought before them,
    so that their gain says nothing of one group.
    """
    done = int(run.done[0])
    if plan.quality is None or done == plan.n_stages or group not in plan.stage_groups[done]:
        return None
    used = plan.stage_groups[done]
    n_lacking = max(int((~owned[used] & plan.costs.has_columns[used]).sum()), 1)
    return float(plan.quality[done + 1] - plan.quality[int(run.answered[0])]) / n_lacking
