"""A summary of a fitted model: its purchases in order, as data and as the card that notebooks show.

The card is HTML with an inline drawing: no script, no style sheet, nothing to download. It takes its colours from the page, so
it is readable on light and dark themes.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from anytime.plan import Array, Plan

_MOST_ROWS = 12  # of the table of purchases
_MOST_POINTS = 200  # of the drawing
_WIDTH, _HEIGHT, _MARGIN = 320, 120, 6  # pixels


@dataclass(frozen=True)
class PlanPurchase:
    """Groups that are bought together, and the stages that live on them until the next purchase."""

    groups: tuple[str, ...]
    price: float
    first: int
    last: int
    model_cost: float  # after the last of its stages


def purchases(plan: Plan) -> list[PlanPurchase]:
    """What a plan buys, step by step; the first entry is what can be had for nothing."""
    costs = plan.costs.costs
    steps: list[tuple[list[str], int]] = [([], 0)]
    bought: set[str] = set()
    for stage in plan:
        new = [name for name in costs.closure(stage.groups) if name not in bought]
        bought.update(new)
        if new:
            steps.append((new, stage.number))
    ends = [first - 1 for _, first in steps[1:]] + [plan.n_stages]
    spent = [0.0, *plan.stage_costs.tolist()]
    return [
        PlanPurchase(
            groups=tuple(groups),
            price=costs.amount(sum(costs.ticks(costs.prices[name]) for name in groups)),
            first=first,
            last=last,
            model_cost=spent[last],
        )
        for (groups, first), last in zip(steps, ends, strict=True)
    ]


def importances(plan: Plan) -> Array | None:
    """(d,) share of each column in what the stages gain; None where the plan cannot tell.

    A stage that replaces the answer owes its gain to the groups that it is the first to read, which share it equally, as the
    columns of a group do. A stage that adds to the answer owes it to what it reads; if that is several groups, nothing says how
    much it owes to each.
    """
    if plan.quality is None or any(len(stage.groups) > 1 and not stage.replaces for stage in plan):
        return None
    group_of = {name: g for g, name in enumerate(plan.costs.costs.names)}
    by_group, bought = np.zeros(len(group_of)), set[str]()
    for stage, gain in zip(plan, np.diff(np.maximum.accumulate(plan.quality)), strict=True):
        groups = set(stage.groups)
        responsible = groups - bought or groups
        by_group[[group_of[name] for name in responsible]] += gain / max(len(responsible), 1)
        bought |= groups
    group = plan.costs.column_group
    shares = (by_group / np.maximum(np.bincount(group, minlength=len(group_of)), 1))[group]
    return shares / (shares.sum() or 1.0)


def card(model: Any) -> str:
    """HTML for a notebook: the curve over the stages, and the table of purchases.

    Parameters
    ----------
    model : AnytimeModel
        A fitted model.

    Returns
    -------
    str
        One ``<div>``.
    """
    plan: Plan = model.plan_
    unit = plan.costs.costs.unit
    total = f"{float(plan.stage_costs[-1]) if plan.n_stages else 0.0:.4g}" + (f" {unit}" if unit else "")
    noun = "stage" if plan.n_stages == 1 else "stages"
    return (
        '<div style="font-size:0.9em;margin-top:0.5em">'
        f"<div>{escape(type(model).__name__)}: {plan.n_stages} {noun}, {escape(total)} in all</div>"
        f"{_drawing(plan, unit)}{_table(plan, unit)}</div>"
    )


def _drawing(plan: Plan, unit: str | None) -> str:
    """Quality on validation rows against cost where the plan keeps it, else the stage that a budget reaches."""
    costs = np.concatenate([[0.0], plan.stage_costs])
    if plan.quality is None:
        label, values = "stages", np.arange(costs.size, dtype=np.float64)
    elif (plan.quality <= 0.0).all():  # minus a loss
        label, values = "validation loss", -plan.quality
    else:
        label, values = "validation accuracy", np.asarray(plan.quality)
    if costs.size < 2 or costs[-1] <= 0.0:
        return ""
    kept = np.unique(np.linspace(0, costs.size - 1, min(costs.size, _MOST_POINTS)).round().astype(int))
    path = _steps(costs[kept], values[kept])
    text = f"{label}: {values[0]:.4g} at cost 0, {values[-1]:.4g} at {costs[-1]:.4g}" + (
        f" {unit}" if unit else ""
    )
    return (
        f'<svg role="img" aria-label="{escape(text)}" width="{_WIDTH}" height="{_HEIGHT}" '
        f'viewBox="0 0 {_WIDTH} {_HEIGHT}" style="max-width:100%;display:block;margin:0.3em 0">'
        f'<path d="M{_MARGIN} {_MARGIN}V{_HEIGHT - _MARGIN}H{_WIDTH - _MARGIN}" fill="none" '
        'stroke="currentColor" stroke-opacity="0.4"/>'
        f'<path d="{path}" fill="none" stroke="#1f77b4" stroke-width="2"/></svg>'
        f'<div style="opacity:0.75">{escape(text)}</div>'
    )


def _steps(costs: Array, values: Array) -> str:
    """A step curve as an SVG path: a value holds until the next cost is paid."""
    low, high = float(values.min()), float(values.max())
    span = high - low if high > low else 1.0
    x = _MARGIN + costs / costs[-1] * (_WIDTH - 2 * _MARGIN)
    y = _HEIGHT - _MARGIN - (values - low) / span * (_HEIGHT - 2 * _MARGIN)
    moves = "".join(f"H{a:.1f}V{b:.1f}" for a, b in zip(x[1:].tolist(), y[1:].tolist(), strict=True))
    return f"M{x[0]:.1f} {y[0]:.1f}{moves}"


def _table(plan: Plan, unit: str | None) -> str:
    bought = [step for step in purchases(plan) if step.groups]
    if not bought:
        return ""
    cost = f"cost ({unit})" if unit else "cost"
    lines = []
    for step in bought[:_MOST_ROWS]:
        stages = f"{step.first}" if step.first == step.last else f"{step.first}–{step.last}"
        lines.append((", ".join(step.groups), f"{step.price:.4g}", f"{step.model_cost:.4g}", stages))
    head = "".join(f"<th>{escape(name)}</th>" for name in ("buys", "price", cost, "stages"))
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in line) + "</tr>" for line in lines)
    more = f"<div>and {len(bought) - _MOST_ROWS} more</div>" if len(bought) > _MOST_ROWS else ""
    return (
        '<details open="open"><summary>Purchases in order</summary>'
        f"<table><tr>{head}</tr>{body}</table>{more}</details>"
    )
