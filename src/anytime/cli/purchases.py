"""The table that sums a model up: what is bought when, for how much, and what it is good for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anytime.cli.io import listing
from anytime.cli.tables import number, print_table, share, thinned

if TYPE_CHECKING:
    from anytime.curves import AnytimeCurve
    from anytime.plan import Plan

__all__ = ["Purchase", "print_purchases", "purchases"]

_MOST_ROWS = 14


@dataclass(frozen=True)
class Purchase:
    """Groups that are bought together, and the stages that live on them until the next purchase."""

    groups: tuple[str, ...]
    price: float
    first: int
    last: int
    model_cost: float  # after the last of its stages


def purchases(plan: Plan) -> list[Purchase]:
    """What a plan buys, step by step."""
    costs = plan.costs.costs
    found: list[tuple[list[str], int]] = []
    bought: set[str] = set()
    for stage in plan:
        new = [name for name in costs.closure(stage.groups) if name not in bought]
        bought.update(new)
        if new or not found:
            found.append((new, stage.number))
    ends = [first - 1 for _, first in found[1:]] + [plan.n_stages]
    return [
        Purchase(
            groups=tuple(groups),
            price=costs.amount(sum(costs.ticks(costs.prices[name]) for name in groups)),
            first=first,
            last=last,
            model_cost=float(plan.stage_costs[last - 1]),
        )
        for (groups, first), last in zip(found, ends, strict=True)
    ]


def print_purchases(model: Any, judged: AnytimeCurve | None = None, rows: str = "") -> None:
    """One line per purchase, with the quality that is reached before the next.

    Parameters
    ----------
    model : fitted model
    judged : AnytimeCurve, default=None
        Where quality is read; not given: from what the plan itself keeps of held-out data, if it does.
    rows : str
        What the curve was measured on, in words.
    """
    plan, unit = model.plan_, model.costs_.unit
    bought = purchases(plan)
    name, values = _quality(plan, judged)
    columns = ["<buys", "price", f"cost ({unit})" if unit else "cost", "stages", *name]
    lines = [["nothing", "-", "0", "-", *[share(float(v[0])) for v in values]]]
    for j in thinned(len(bought), _MOST_ROWS):
        b = bought[j]
        span = f"{b.first}-{b.last}" if b.last > b.first else str(b.first)
        words = listing(b.groups, 3) or "nothing"
        lines.append([words, number(b.price), number(b.model_cost, 6), span, *[share(float(v[b.last])) for v in values]])
    title = f"{plan.n_stages} stages" + (f"; {name[0]} on {rows}" if rows else "")
    print_table(columns, lines, title=title, left_out=len(bought) + 1 - len(lines))


def _quality(plan: Plan, judged: AnytimeCurve | None) -> tuple[list[str], list[Any]]:
    """Names and values, by stage, of what is known about quality."""
    if judged is not None:
        return [judged.metric], [judged.values]
    if plan.quality is not None:
        return ["held-out loss"], [-plan.quality]
    return [], []
