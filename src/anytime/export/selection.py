"""What of a model is exported: how many stages each budget buys, and what a reader of the file needs to know."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from anytime.adaptive.blocks import CostlyBlock
from anytime.blocks import Block, FunctionBlock
from anytime.losses import LINKS, Link
from anytime.plan import Array, Plan
from anytime.trees.importers.columns import Columns


class ExportError(ValueError):
    """The export format cannot express what a model does.

    See Also
    --------
    BadFileError : Raised for files that cannot be read.

    Examples
    --------
    >>> import anytime as at
    >>> X, y, costs = at.datasets.load("wine")
    >>> model = at.AcquisitionClassifier(costs=costs, random_state=0).fit(X, y)
    >>> at.export.to_c(model, "wine.h")
    Traceback (most recent call last):
        ...
    anytime.export.selection.ExportError: ...
    """


@dataclass(frozen=True, eq=False)
class Exported:
    """A model as exporters see it."""

    plan: Plan  # cut after the last stage that any budget reaches; then the branches that answer some of them
    link: Link
    stages: list[int]  # (B,): stages done within each budget, at least 1
    labels: list[str]  # (B,): the budgets as parts of names
    classes: NDArray[Any] | None  # (C,)
    names: list[str]  # (d,): of the columns
    columns: Columns | None  # how a model of trees reads rows
    spent: Array  # (S,): cumulative cost after each stage, as the model counts budgets
    # (B,): by which powers and floor each budget's probabilities are calibrated; None: they are not
    scaling: list[tuple[Array, float]] | None = None

    @property
    def categories(self) -> dict[str, list[str]]:
        """Columns that hold codes, each with what the codes 0, 1, ... stand for."""
        by_column = {} if self.columns is None else self.columns.categories
        return {self.names[column]: [str(value) for value in values] for column, values in by_column.items()}


def exported(
    model: Any, budgets: Sequence[float | None] | None = None, *, chain_only: bool = False
) -> Exported:
    """Look at a fitted model; ``budgets`` None is the one that its ``predict`` has.

    What can be stopped after any stage has to be ``chain_only``: branches answer budgets that are known in advance.
    """
    check_is_fitted(model, "plan_")
    wanted: list[float | None] = [None] if budgets is None else list(budgets)
    if not wanted:
        raise ValueError("budgets is empty; give at least one budget, or None for everything")
    labels = ["all" if budget is None else repr(float(budget)).removesuffix(".0") for budget in wanted]
    if len(set(labels)) < len(labels):
        raise ValueError(f"budgets names the same budget twice: {', '.join(labels)}")
    numbers = getattr(model, "_numbers", None)
    if numbers is not None and numbers.columns:
        raise ExportError(
            "a streaming model learns the encoding of its string columns, which neither format can hold; "
            "train it on numbers"
        )
    if model.plan_.cost_matrix is not None:
        raise ExportError("neither format supports a cost matrix; export the model without it")
    chosen = [_chosen(model, budget, chain_only) for budget in wanted]
    chain: Plan = model.plan_.head(max((stages for branch, stages in chosen if branch < 0), default=0))
    used = sorted({branch for branch, _ in chosen if branch >= 0})
    branches = [model.plan_.branches[number] for number in used]
    ends = np.cumsum([chain.n_stages, *(branch.n_stages for branch in branches)]).tolist()
    plan = chain.followed_by(branches) if branches else chain
    names = getattr(model, "feature_names_in_", None)
    if model.plan_.calibration is not None and (plan.passes or (plan.stops and not chain_only)):
        raise ExportError(
            "calibrated probabilities depend on the last stage that worked on each row, which the file would not record: export "
            "the model as it was before calibrate"
        )
    return Exported(
        plan=plan,
        link=LINKS[model._scores_link],
        stages=[stages if branch < 0 else ends[used.index(branch) + 1] for branch, stages in chosen],
        labels=labels,
        classes=getattr(model, "classes_", None),
        names=[f"x{column}" for column in range(plan.n_features)] if names is None else [*map(str, names)],
        columns=getattr(model, "columns_", None),
        spent=np.concatenate([part.stage_costs for part in (chain, *branches)]),
        scaling=_scaling(model.plan_, chosen),
    )


def _scaling(plan: Plan, chosen: list[tuple[int, int]]) -> list[tuple[Array, float]] | None:
    """How the probabilities of each budget are calibrated."""
    if plan.calibration is None or not LINKS[plan.link].classifies:
        return None
    parts = [(plan if branch < 0 else plan.branches[branch]).calibration for branch, _ in chosen]
    return [
        (part.power[stages], float(part.floor[stages]))
        for part, (_, stages) in zip(parts, chosen, strict=True)
        if part is not None
    ]


def _chosen(model: Any, budget: float | None, chain_only: bool) -> tuple[int, int]:
    """What a budget buys: stages of a branch, or of the chain (-1)."""
    choice = model._known_choice(None, budget, None, np.inf, None)
    if choice is not None and choice.branch >= 0:
        if not chain_only:
            return int(choice.branch), int(choice.stages)
        raise ExportError(
            "this model answers with a branch, but a header that can be stopped anywhere holds only the chain: "
            "use to_onnx, or the model before it was truncated"
        )
    reached, cap, policy = model._reach(budget)
    if choice is not None:
        reached = choice.stages
    if policy is not None:
        raise ExportError(
            "the model's mean_budget lets confident rows leave early: export truncate(mean_budget=...) instead"
        )
    if cap is not None:
        raise ExportError(
            f"meter={model.meter!r} stops each row when its own budget is spent, which needs the ledger of this library; "
            'count by stages instead: set_params(meter="model"), or truncate(mean_budget=...)'
        )
    plan, stages = model.plan_, int(reached)
    if stages == 0:
        unit = f" {model.costs_.unit}" if model.costs_.unit else ""
        if plan.n_stages == 0:
            raise ExportError(
                "the model has no stage, only a constant answer: the budget that it was truncated to buys nothing"
            )
        amount = model.budget if budget is None else budget
        named = "the model's own bound" if amount is None else f"a budget of {amount:g}{unit}"
        raise ExportError(
            f"{named} buys no stage, only a constant: the first stage costs {plan.stage_costs[0]:g}{unit}"
        )
    return -1, stages


def full_table(row: Array, n_outputs: int) -> Array:
    """(m, K) a row of a plan's ``weights``, also where it has one number per stage."""
    return np.asarray(np.kron(row[:, None], np.eye(n_outputs)), dtype=np.float64) if row.ndim == 1 else row


def named(block: Block) -> str:
    """What a block is, for messages."""
    if isinstance(block, CostlyBlock):
        return f"asks {block.name!r}, a model of another library"
    return "is a Python function" if isinstance(block, FunctionBlock) else f"is a {type(block).__name__}"


def unsupported(what: Exported, stage: int, why: str, form: str) -> ExportError:
    """The error for a stage (counted from 0) that a format cannot hold."""
    first = f"stage {stage + 1} {why}, which {form} cannot say"
    if stage == 0:
        return ExportError(f"{first}: run this model with the library itself")
    enough = float(what.spent[stage - 1])
    return ExportError(f"{first}; what comes before it can be exported: truncate(budget={enough:g})")
