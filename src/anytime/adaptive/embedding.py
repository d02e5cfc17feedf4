"""Costly models that are made of trees: they go into the plan themselves, so that rows pay for their own paths."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from anytime.adaptive.blocks import scores_of_probabilities
from anytime.adaptive.questions import Costly, CostlyQuestion
from anytime.losses import training_loss
from anytime.plan import Array
from anytime.trees.arrays import TreeArrays
from anytime.trees.block import TreeBlock
from anytime.trees.growing import join
from anytime.trees.importers import Columns, Imported, import_trees
from anytime.trees.ladder import as_replacing_stage

_VOTES = ("probability", "least_squares")  # links of forests, whose leaves have a number for each class


def as_trees(model: Any, question: CostlyQuestion) -> Imported | None:
    """The model's trees where it has some that read the plan's numbers as they are."""
    imported = _own_trees(model, question)
    if imported is None:
        if question.columns.categories:
            return None
        try:
            imported = import_trees(model)
        except (TypeError, ValueError):
            return None
    labels = imported.classes
    if labels is None or not np.array_equal(labels, question.classes) or not imported.columns.are_plain:
        return None
    if imported.link in _VOTES:
        return imported if imported.trees.value.shape[1] == question.classes.size else None
    return imported if imported.link == ("logistic" if question.classes.size == 2 else "softmax") else None


def _own_trees(model: Any, question: CostlyQuestion) -> Imported | None:
    """The trees that give the last answer of one of this library's own models, where its plan has nothing but trees."""
    plan = getattr(model, "plan_", None)
    if plan is None or not plan.n_stages or not all(isinstance(block, TreeBlock) for block in plan.blocks):
        return None
    if (
        plan.weights is not None
        or plan.passes
        or plan.stops
        or plan.limit < np.inf
        or not _within_budget(model)
    ):
        return None
    if not _reads_alike(getattr(model, "columns_", Columns(plan.n_features)), question):
        return None
    replaced = np.flatnonzero(plan.replaces) if plan.replaces is not None else np.empty(0, dtype=np.intp)
    first = int(replaced[-1]) if replaced.size else 0
    parts = []
    for block, start in zip(plan.blocks, plan.block_start, strict=False):
        if start + block.n_stages > first:
            parts.append(tree_arrays(block.select(np.arange(max(first - start, 0), block.n_stages))))
    if len({(part.value.shape[1], part.float32_input) for part in parts}) > 1:
        return None
    trees = join(parts, np.concatenate([np.diff(part.stage_start) for part in parts]))
    base = np.zeros_like(plan.base) if replaced.size else plan.base
    classes = np.asarray(model.classes_)
    return Imported(
        trees, base, plan.combine, plan.link, classes, None, Columns(plan.n_features), type(model).__name__
    )


def tree_arrays(block: Any) -> TreeArrays:
    """The trees of a ``TreeBlock`` as arrays that can be changed."""
    fields: dict[str, Any] = dict(block.forest.arrays())
    del fields["shift"]
    return TreeArrays(**fields)


def _within_budget(model: Any) -> bool:
    """Whether the model answers with its whole plan."""
    stages, cap, policy = model._reach(None)
    return bool(cap is None and policy is None and stages == model.plan_.n_stages)


def _reads_alike(columns: Columns, question: CostlyQuestion) -> bool:
    """Whether a model takes rows as numbers that are those of the plan, codes of categories included."""
    read = question.read_columns
    own_words = {int(read[j]): words for j, words in columns.categories.items()}
    here = {j: words for j, words in question.columns.categories.items() if j in read}
    return own_words == here and np.isnan(columns.missing_value) and not columns.rounded_down


def embedded(trees: Imported, values: Array, model: Any, question: CostlyQuestion) -> Costly:
    """Trees as a stage: a row then pays for its own paths, and a file holds the costly model too.

    Boosted scores are log-odds already. Mean votes of a forest are scaled to log-odds by the factor that suits the rows best,
    which leaves every prediction as it is. Those of a refitted forest may leave the range of probabilities, and stay as they are.
    """
    columns: Sequence[int] | None = None if question.read is None else question.read.tolist()
    stage = as_replacing_stage(trees, columns, question.numbers.shape[1], None)
    if trees.link not in _VOTES:
        return Costly(TreeBlock(stage), scores_of_probabilities(values), model)
    votes = values[:, 1:] - values[:, :1] if values.shape[1] == 2 else values
    slope = best_slope(votes, question.class_numbers, question.weight)
    value = stage.value
    if values.shape[1] == 2:
        value = value[:, 1:] - value[:, :1]
        stage = replace(stage, n_outputs=1)
    return Costly(TreeBlock(replace(stage, value=np.ascontiguousarray(slope * value))), slope * votes, model)


def best_slope(votes: Array, y: NDArray[np.intp], weight: Array | None) -> float:
    """The factor of votes (n, K) with the least log-loss."""
    loss = training_loss("logistic" if votes.shape[1] == 1 else "multinomial")
    optimum = minimize_scalar(
        lambda log: loss(np.exp(log) * votes, y, weight), bounds=(-3.0, 6.0), method="bounded"
    )
    return float(np.exp(optimum.x))
