"""The table that sums a model up: what is bought when, for how much, and what it is good for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anytime.cli.io import listing
from anytime.cli.tables import console, number, print_table, share, thinned

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
    """Print one line per purchase; with the quality that is reached before the next one where a curve is given."""
    plan, unit = model.plan_, model.costs_.unit
    bought = purchases(plan)
    costs = f"cost ({unit})" if unit else "cost"
    columns = ["<buys", "price", costs, "stages", *([judged.metric] if judged is not None else [])]
    nothing = ["nothing", "-", "0", "-", *([share(float(judged.values[0]))] if judged is not None else [])]
    lines = [nothing]
    for j in thinned(len(bought), _MOST_ROWS):
        purchase = bought[j]
        span = f"{purchase.first}-{purchase.last}" if purchase.last > purchase.first else str(purchase.first)
        line = [
            listing(purchase.groups, 3) or "nothing",
            number(purchase.price),
            number(purchase.model_cost, 6),
            span,
        ]
        if judged is not None:
            line.append(share(float(judged.values[purchase.last])))
        lines.append(line)
    left_out = len(bought) - (len(lines) - 1)
    print_table(columns, lines, title=f"{plan.n_stages} stages; quality on {rows}" if rows and judged else None)
    if left_out:
        console().print(f"({left_out} more purchases between these)\n", style="dim")
