"""The table that sums a model up: what is bought when, for how much, and what it is good for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anytime.cli.io import listing
from anytime.cli.tables import counted, number, print_table, share, thinned

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from anytime.curves import AnytimeCurve
    from anytime.plan import Plan
    from anytime.summary import PlanPurchase

_MOST_ROWS = 14


def print_purchases(model: Any, judged: AnytimeCurve | None = None, rows: str = "") -> None:
    """One line per purchase, with the quality that is reached before the next; per stage where rows pay differently.

    Quality is read from a curve, measured on ``rows``, or without one from what the plan itself keeps of held-out data.
    """
    from anytime.summary import purchases

    plan, unit = model.plan_, model.costs_.unit
    title = counted(plan.n_stages, "stage")
    if model.meter == "realised" and _rows_pay_differently(plan):
        _print_means(model, judged, title, rows, f" ({unit})" if unit else "")
        return
    title += f"; {judged.metric} on {rows}" if judged is not None else ""
    bought = purchases(plan)
    columns = ["<buys", "price", f"cost ({unit})" if unit else "cost", "stages"]
    if judged is not None:
        columns.append(judged.metric)
    elif (means := held_out(model)) is not None:
        columns += [f"held-out {means[0]}", "gain per cost"]
    shown = thinned(len(bought), _MOST_ROWS)
    lines = [_line(bought[j]) + _quality(model, judged, bought[j]) for j in shown]
    print_table(columns, lines, title=title, left_out=len(bought) - len(shown))


def _rows_pay_differently(plan: Plan) -> bool:
    """Whether rows paid less on average than the most that stages can cost."""
    import numpy as np

    return plan.expected_costs is not None and not np.allclose(plan.expected_costs, plan.stage_costs)


def _print_means(model: Any, judged: AnytimeCurve | None, title: str, rows: str, unit: str) -> None:
    """One line per stage: rows buy different groups, so that there is no order of purchases.

    A mean budget buys a stage by what rows paid in training; those of the curve may pay a little more or less.
    """
    plan = model.plan_
    budgets = [number(cost, 6) for cost in (0.0, *plan.expected_costs.tolist())]
    if judged is not None:
        title += f"; mean cost and {judged.metric} on {rows}"
        columns = {
            f"mean budget{unit}": budgets,
            f"mean cost{unit}": [number(cost, 6) for cost in judged.costs.tolist()],
            judged.metric: [share(value) for value in judged.values.tolist()],
        }
    else:
        columns = {f"mean cost{unit}": budgets}
        if (means := held_out(model)) is not None:
            columns[f"held-out {means[0]}"] = [share(value) for value in means[1].tolist()]
    shown = thinned(plan.n_stages + 1, _MOST_ROWS)
    lines = [[str(stage), *(column[stage] for column in columns.values())] for stage in shown]
    print_table(["stage", *columns], lines, title=title, left_out=plan.n_stages + 1 - len(shown))


def _line(purchase: PlanPurchase) -> list[str]:
    words = listing(purchase.groups, 3) or "nothing"
    first = max(purchase.first, 1)
    span = f"{first}-{purchase.last}" if purchase.last > first else str(purchase.last or "-")
    return [words, number(purchase.price), number(purchase.model_cost, 6), span]


def _quality(model: Any, judged: AnytimeCurve | None, purchase: PlanPurchase) -> list[str]:
    """What is known about the quality after the last stage of a purchase."""
    if judged is not None:
        return [share(float(judged.values[purchase.last]))]
    scores = held_out(model)
    if scores is None:
        return []
    quality = model.plan_.quality
    gained = quality[purchase.last] - quality[max(purchase.first - 1, 0)]
    rate = number(float(gained / purchase.price)) if purchase.price else "-"
    return [share(float(scores[1][purchase.last])), rate]


def held_out(model: Any) -> tuple[str, NDArray[np.float64]] | None:
    """What held-out rows are judged by, and its value before the first stage and after each; quality below 0 is minus a loss."""
    from anytime.auto import AutoClassifier
    from anytime.boosting import GradientBoostingClassifier, SpeedBoostClassifier, SpeedBoostRanker
    from anytime.boosting.boosted import BoostedRanker
    from anytime.losses import loss_for

    quality = model.plan_.quality
    if quality is None:
        return None
    if not (quality <= 0).all():
        return "accuracy", quality
    if hasattr(model, "validation_errors_"):  # an ensemble counts wrong answers
        return "error" if hasattr(model, "classes_") else "squared loss", -quality
    if isinstance(model, (AutoClassifier, GradientBoostingClassifier, SpeedBoostClassifier)):
        return "Brier score", -quality
    if isinstance(model, SpeedBoostRanker):
        return "1 - NDCG", -quality
    loss = getattr(model, "loss", "auto")
    if isinstance(loss, str) and loss == "auto":
        loss = "lambdarank" if isinstance(model, BoostedRanker) else loss_for(model.plan_.link)
    return f"{getattr(loss, 'name', loss)} loss".replace("_", " "), -quality
