"""What to buy next for one row, and what is expected of it: the answer of ``model.next``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anytime.engine import Run
from anytime.losses import LINKS
from anytime.plan import Plan
from anytime.rules import Rule

__all__ = ["NextPurchase", "Offer", "chain_offers", "follow", "offer_of", "owned_groups"]


@dataclass(frozen=True)
class Offer:
    """One thing that could be bought next."""

    group: str
    buys: tuple[str, ...]  # the group, and what it requires and is not there yet, in the order of purchase
    price: float  # of all of these
    gain: float | None = (
        None  # expected fall of the loss, or rise of the quality; None: the model does not know
    )
    change: float | None = None  # probability of another class, or mean change of a number; None: not known


@dataclass(frozen=True)
class NextPurchase:
    """What a model advises for one row.

    Attributes
    ----------
    prediction : object
        The answer by what was bought.
    probability : float or None
        Of that answer, where it is a class.
    offers : tuple of Offer
        What could be bought, best first; empty: nothing is left that could change the answer.
    unit : str or None
        Of the prices.
    budget : float or None
        The most that the row may pay in all; None: no limit.
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
        """What it costs, with what it requires and is not there yet."""
        return self.offers[0].price if self.offers else 0.0

    @property
    def gain(self) -> float | None:
        """What is expected of it."""
        return self.offers[0].gain if self.offers else None

    @property
    def change(self) -> float | None:
        """The probability that it changes the answer; of a number, the mean change."""
        return self.offers[0].change if self.offers else None

    @property
    def alternatives(self) -> tuple[Offer, ...]:
        """What could be bought instead, best first."""
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
        """All of it in the terms of JSON, with the words as ``advice``."""
        return {
            "prediction": np.asarray(self.prediction).tolist(),
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
        now, unit = f"Now {self.prediction}{sure}.", f" {self.unit}" if self.unit else ""
        if not self.offers:
            within = "" if self.budget is None else f" within {self.budget:g}{unit}"
            return f"{now} Nothing is left to buy that could change it{within}."
        best = self.offers[0]
        others = [name for name in best.buys if name != best.group]
        said = f"{now} Buy {best.group!r} next"
        said += f" (with {', '.join(map(repr, others))})" if others else ""
        said += f" for {best.price:g}{unit}."
        if best.change is not None and self.probability is not None:
            said += f" It changes the answer with probability {best.change:.2f}."
        elif best.change is not None:
            said += f" It changes the answer by {best.change:.4g} on average."
        if self.alternatives:
            said += f" Else: {', '.join(repr(offer.group) for offer in self.alternatives[:3])}."
        return said


def owned_groups(
    plan: Plan, held: NDArray[np.bool_] | None, bought: Iterable[str] | None
) -> NDArray[np.bool_]:
    """(G,) groups that a row has, with what they require: those named, else those that it came with."""
    costs, owned = plan.costs.costs, np.zeros(plan.costs.n_groups, dtype=bool)
    if bought is None:
        given = np.zeros(0, dtype=np.intp) if held is None else np.flatnonzero(held & _has_columns(plan))
    else:
        number = {name: g for g, name in enumerate(costs.names)}
        names = [bought] if isinstance(bought, str) else list(bought)
        unknown = [name for name in names if name not in number]
        if unknown:
            raise ValueError(
                f"bought names {unknown[0]!r}, but the groups are {', '.join(map(repr, costs.names))}"
            )
        given = np.array([number[name] for name in names], dtype=np.intp)
    for g in given:
        owned[list(plan.costs.table.closure(int(g)))] = True
    if bought is None and held is not None:  # a group that is there needs no other that is not
        owned &= held | ~_has_columns(plan)
    elif held is not None and (owned & ~held & _has_columns(plan)).any():
        lacking = costs.names[int(np.flatnonzero(owned & ~held & _has_columns(plan))[0])]
        raise ValueError(f"the group {lacking!r} is said to be bought, but the row does not have it")
    return owned


def _has_columns(plan: Plan) -> NDArray[np.bool_]:
    return np.isin(np.arange(plan.costs.n_groups), plan.costs.column_group)


def offer_of(plan: Plan, group: int, owned: NDArray[np.bool_], **expected: Any) -> Offer:
    """A group with what it requires and a row does not have; ``expected``: gain and change."""
    table, costs = plan.costs.table, plan.costs.costs
    missing = [g for g in table.closure(group) if not owned[g]]
    missing.sort(key=lambda g: len(table.closure(g)))  # what is required comes first
    price = costs.amount(int(plan.costs.prices[missing].sum()))
    return Offer(costs.names[group], tuple(costs.names[g] for g in missing), price, **expected)


def chain_offers(plan: Plan, X: Any, owned: NDArray[np.bool_], cap: int) -> tuple[Any, Sequence[Offer]]:
    """Scores of one row by the stages that it can do, and what the first stage that it cannot do lacks, then what later ones do.

    Only columns of owned groups are read. ``cap``: the most ticks that the row may pay in all.
    """
    run, first = follow(plan, X, owned, cap)
    assert run.ledger is not None
    prices = plan.costs.prices
    evaluation = int(run.ledger.paid[0] - run.ledger.bought[0] @ prices)
    left = cap - int(owned @ prices) - evaluation

    def is_affordable(group: int) -> bool:
        missing = [g for g in plan.costs.table.closure(group) if not owned[g]]
        return int(prices[missing].sum()) + int(plan.evaluation_ticks[run.done[0]]) <= left

    if first < 0 or not is_affordable(first):
        return run.scores(), ()
    readable = _has_columns(plan)
    later = [g for g in plan.purchases.order if g != first and not owned[g] and readable[g]]
    order = [first, *filter(is_affordable, later)]
    return run.scores(), [offer_of(plan, g, owned, gain=_gain(plan, run, g)) for g in order]


def follow(plan: Plan, X: Any, owned: NDArray[np.bool_], cap: int) -> tuple[Run, int]:
    """A row led through all stages for which it has what they read, and a group that it then lacks; -1: it has ended."""
    known = np.where(owned[plan.costs.column_group], X, np.nan)
    run, row = Run(plan, np.ascontiguousarray(known), metered=True), np.zeros(1, dtype=np.intp)
    run.bound(np.array([cap], dtype=np.int64), None)
    for s in range(plan.n_stages):
        lacking = -1 if run.finished[0] else _lacking(run, s, row, owned)
        if run.finished[0] or lacking >= 0:
            return run, lacking
        run.advance(s + 1, budget=cap)
        if run.done[0] == s:  # it has cost more than it may
            break
    return run, -1


def _lacking(run: Run, s: int, row: NDArray[np.intp], owned: NDArray[np.bool_]) -> int:
    """A group that stage ``s`` reads of the row and that it does not have, -1: none, or its filter keeps the row out."""
    plan = run.plan
    b, within = plan.locate(s)
    forest = plan.blocks[b].forest
    if s in plan.passes and _is_kept_out(run, plan.passes[s], owned):
        return -1
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
    readable = [g for g in missing if (plan.costs.column_group == g).any()]
    return (readable or missing or [-1])[0]


def _is_kept_out(run: Run, rule: Rule, owned: NDArray[np.bool_]) -> bool:
    """Whether a filter, whose columns the row has, says no."""
    can_be_asked = bool(owned[run.plan.costs.groups_of(rule.columns())].all())
    return can_be_asked and not rule.holds(run.X, run.scores(), LINKS[run.plan.link])[0]


def _gain(plan: Plan, run: Run, group: int) -> float | None:
    """By how much held-out quality rises from now to the first stage that may use a group; None: it was not measured."""
    if plan.quality is None:
        return None
    using = [s for s, groups in enumerate(plan.stage_groups) if group in groups and s >= run.done[0]]
    return float(plan.quality[using[0] + 1] - plan.quality[int(run.answered[0])]) if using else None
