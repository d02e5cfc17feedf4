"""XGBoost models, read from their own document (JSON or UBJSON), exactly.

The document needs no XGBoost to be read. What the library does and how it is written here:

- It compares float32 values, ``x < t``: the same as ``x <= t'`` with ``t'`` the float32 just below ``t``.
- The initial score ``base_score`` is kept in the units of the answer; ``base`` is that on the scale of the scores.
- A category in a node's set goes right, every other value left, also a wrong one (negative, or 2**24 and more).
- DART weights are multiplied into the leaves.
- A random forest (one round of many parallel trees) is the initial score plus a sum of trees, each divided by their number. It
  is imported as the mean of whole trees, ``base_score`` included in each: the same answer at the end, better ones before.
"""

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anytime.trees.arrays import LEAF, MISSING_NAN
from anytime.trees.importers.columns import Columns
from anytime.trees.importers.imported import Imported, unknown_link
from anytime.trees.importers.layout import Tree, reachable_order, root_mean, stack_trees
from anytime.trees.importers.ubjson import read_ubjson

Document = dict[str, Any]

_LINKS = {
    "reg:squarederror": "identity",
    "reg:linear": "identity",
    "reg:squaredlogerror": "identity",
    "reg:pseudohubererror": "identity",
    "reg:absoluteerror": "identity",
    "reg:quantileerror": "identity",
    "rank:ndcg": "identity",
    "rank:map": "identity",
    "rank:pairwise": "identity",
    "reg:logistic": "regression_logistic",
    "binary:logistic": "logistic",
    "multi:softprob": "softmax",
    "multi:softmax": "softmax",
    "count:poisson": "exp",
    "reg:gamma": "exp",
    "reg:tweedie": "exp",
    "survival:cox": "exp",
    "survival:aft": "exp",
}
_MOST_OUTPUTS = 2**20  # keeps a damaged file from asking for all memory
_CLASSIFIES = ("binary:logistic", "multi:softprob", "multi:softmax")


def import_booster(booster: Any, source: str, link: str | None = None) -> Imported:
    """Import a ``xgboost.Booster`` with all its rounds: its ``predict`` uses them all, best iteration or not."""
    return import_document(read_ubjson(booster.save_raw(raw_format="ubj")), source, link)


def import_estimator(model: Any, source: str, link: str | None = None) -> Imported:
    """Import ``XGBClassifier``, ``XGBRegressor``, ``XGBRanker`` or a random forest ``XGBRF*``.

    Rounds after the best iteration are left out when the model stopped early, and the estimator's ``missing`` is kept.
    """
    if not model.__sklearn_is_fitted__():
        raise ValueError(f"this {type(model).__name__} is not fitted: call fit before importing it")
    if callable(model.objective) and link is None:
        raise ValueError(unknown_link(source, "a custom objective"))
    try:
        n_rounds = int(model.best_iteration) + 1
    except AttributeError:  # XGBoost's way to say that training did not stop early
        n_rounds = None
    is_classifier = hasattr(model, "n_classes_")
    document = read_ubjson(model.get_booster().save_raw(raw_format="ubj"))
    imported = import_document(document, source, link, n_rounds=n_rounds, is_classifier=is_classifier)
    missing = float("nan") if model.missing is None else float(model.missing)
    return replace(imported, columns=replace(imported.columns, missing_value=missing))


def import_document(
    document: Document,  # what ``Booster.save_model`` writes
    source: str,
    # needed for a custom objective only: the document does not say what its scores mean
    link: str | None = None,
    *,
    n_rounds: int | None = None,  # use the first rounds only
    is_classifier: bool | None = None,  # None: as the objective says
) -> Imported:
    """Import a model from XGBoost's document."""
    try:
        learner = document["learner"]
        objective = str(learner["objective"]["name"])
        if learner["gradient_booster"]["name"] == "gblinear":
            raise ValueError(f"{source} is a linear model (booster='gblinear'): it has no trees to import")
        n_features = int(learner["learner_model_param"]["num_feature"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"this is not an XGBoost model: {error!r} is missing") from error
    base = _base_margin(learner, objective)
    is_classifier = objective in _CLASSIFIES if is_classifier is None else is_classifier
    link = _link(objective, link, is_classifier, base.size, source)
    trees, rows, tree_output, stage_sizes = _read_rounds(learner["gradient_booster"], base.size, n_rounds)
    imported = Imported(
        trees=stack_trees(
            trees,
            stage_sizes=stage_sizes,
            tree_output=tree_output,
            n_outputs=base.size,
            n_features=n_features,
            float32_input=True,
        ),
        base=base,
        combine="sum",
        link=link,
        classes=np.arange(max(base.size, 2)) if is_classifier else None,
        feature_names=[str(name) for name in learner.get("feature_names", [])] or None,
        columns=Columns(
            n_features,
            _table_categories(learner["gradient_booster"]) or {},
            rounded_down=tuple(
                sorted({int(np.asarray(tree.feature)[node]) for tree in trees for node in tree.sets})
            ),
        ),
        source=source,
    )
    is_forest = len(stage_sizes) == 1 and len(trees) > np.unique(tree_output).size
    return _averaged(imported, trees, rows, tree_output) if is_forest else imported


def _averaged(
    imported: Imported, trees: list[Tree], rows: list[NDArray[np.float64]], tree_output: NDArray[np.int64]
) -> Imported:
    """One round of parallel trees as a mean: ``base + sum of v_t = mean of (base + T v_t)``, one tree per stage.

    With ``K`` classes a stage is the next tree of each class.
    """
    groups = np.unique(tree_output).size
    n_stages = len(trees) // groups
    order = np.argsort(tree_output, kind="stable").reshape(groups, n_stages).T.ravel()
    whole = [
        replace(
            trees[t],
            value=n_stages * trees[t].value
            + (imported.base if trees[t].value.shape[1] > 1 else imported.base[tree_output[t]]),
        )
        for t in order
    ]
    means = root_mean(whole, [rows[t] for t in order])
    return replace(
        imported,
        trees=stack_trees(
            whole,
            stage_sizes=[groups] * n_stages,
            tree_output=tree_output[order],
            n_outputs=imported.trees.n_outputs,
            n_features=imported.trees.n_features,
            float32_input=True,
        ),
        base=means.reshape(n_stages, -1).mean(axis=0),
        combine="mean",
    )


def _link(objective: str, link: str | None, is_classifier: bool, n_outputs: int, source: str) -> str:
    """Check the objective and name its link."""
    if link is None and objective in ("binary:hinge", "binary:logitraw"):
        raise ValueError(
            f"{source} has objective {objective!r}, which gives no probabilities: train with 'binary:logistic'"
        )
    if link is None and objective not in _LINKS:
        raise ValueError(unknown_link(source, f"objective {objective!r}"))
    link = link or _LINKS[objective]
    if link.endswith("logistic"):
        link = "logistic" if is_classifier else "regression_logistic"
    if is_classifier and link == "logistic" and n_outputs > 1:
        raise ValueError(
            f"{source} predicts {n_outputs} labels at once, and only one label can be imported: "
            "fit one classifier per label"
        )
    if is_classifier and link not in ("logistic", "softmax"):
        raise ValueError(
            f"{source} is a classifier with objective {objective!r}, which gives no class probabilities: "
            "import its get_booster() to have the scores"
        )
    return link


def _base_margin(learner: Document, objective: str) -> NDArray[np.float64]:
    """(K,) initial score; saved as one number, or since XGBoost 3.1 as one per output."""
    param = learner["learner_model_param"]
    n_outputs = max(int(param["num_class"]), 1) * max(int(param.get("num_target", 1)), 1)
    saved = np.atleast_1d(np.array(json.loads(str(param["base_score"])), dtype=np.float32)).astype(np.float64)
    link = _LINKS.get(objective, "identity")
    if link.endswith("logistic"):
        saved = np.log(saved) - np.log1p(-saved)
    elif link == "exp":
        saved = np.log(saved)
    if n_outputs > _MOST_OUTPUTS:
        raise ValueError(f"the XGBoost model is damaged: {n_outputs} outputs")
    return np.broadcast_to(saved, (n_outputs,)).copy()


def _read_rounds(
    booster: Document, n_outputs: int, n_rounds: int | None
) -> tuple[list[Tree], list[NDArray[np.float64]], NDArray[np.int64], list[int]]:
    """Trees, training weight at their nodes, output of each, and trees per round."""
    weights = booster.get("weight_drop")  # DART
    model = booster["gbtree"]["model"] if weights is not None else booster["model"]
    documents = model["trees"]
    tree_output = np.asarray(model["tree_info"], dtype=np.int64)
    starts = model.get("iteration_indptr")
    if starts is None:  # before XGBoost 2.0
        per_round = n_outputs * int(model["gbtree_model_param"].get("num_parallel_tree", 1))
        starts = range(0, len(documents) + 1, per_round)
    starts = np.asarray(starts, dtype=np.int64)[: None if n_rounds is None else n_rounds + 1]
    trees, rows = [], []
    for number in range(int(starts[-1])):
        factor = 1.0 if weights is None else float(np.float32(weights[number]))
        try:
            tree, tree_rows = _read_tree(documents[number], factor)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise ValueError(
                f"the XGBoost model is damaged: tree {number} cannot be read ({error!r})"
            ) from error
        trees.append(tree)
        rows.append(tree_rows)
    return trees, rows, tree_output[: len(trees)], np.diff(starts).tolist()


def _read_tree(document: Document, factor: float) -> tuple[Tree, NDArray[np.float64]]:
    """One tree, leaf values times ``factor``, and the training weight at each of its nodes."""
    left = np.asarray(document["left_children"], dtype=np.int32)
    right = np.asarray(document["right_children"], dtype=np.int32)
    # Pruned trees keep their dead nodes, and may reuse them for later ones.
    order = reachable_order(left, right)
    number_of = np.full(left.size, LEAF)
    number_of[order] = np.arange(order.size)
    leaf = left[order] == LEAF
    conditions = np.asarray(document["split_conditions"], dtype=np.float32)[order]
    sets = _read_sets(document)
    tree = Tree(
        feature=np.asarray(document["split_indices"])[order],
        threshold=np.nextafter(conditions, np.float32(-np.inf)).astype(np.float64),
        left=np.where(leaf, LEAF, number_of[left[order]]).astype(np.int32),
        right=np.where(leaf, LEAF, number_of[np.where(leaf, 0, right[order])]).astype(np.int32),
        default_left=np.asarray(document["default_left"], dtype=np.uint8)[order],
        missing=MISSING_NAN,
        value=factor * _leaf_values(document, order, leaf),
        sets={int(number_of[node]): members for node, members in sets.items() if number_of[node] != LEAF},
        members_left=False,
    )
    return tree, np.asarray(document["sum_hessian"], dtype=np.float64)[order]


def _leaf_values(
    document: Document, order: NDArray[np.int64], leaf: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """(m, W) values; rows of inner nodes hold anything.

    With one value per leaf it stands where an inner node has its condition. A tree with ``W`` values per leaf lists them
    apart and has the leaf's place in that list as its right child (XGBoost 3.1), or beside the node (before).
    """
    width = int(document["tree_param"].get("size_leaf_vector", 1))
    if width <= 1:
        return _float32(document["split_conditions"])[order][:, None]
    if "leaf_weights" in document:
        listed = _float32(document["leaf_weights"]).reshape(-1, width)
        return listed[np.where(leaf, np.asarray(document["right_children"])[order], 0)]
    return _float32(document["base_weights"]).reshape(-1, width)[order]


def _float32(numbers: Any) -> NDArray[np.float64]:
    """JSON writes as many digits as float32 needs: only after rounding to it is the number the library's own."""
    return np.asarray(numbers, dtype=np.float32).astype(np.float64)


def _read_sets(document: Document) -> dict[int, NDArray[np.int64]]:
    """Members of each categorical node."""
    members = np.asarray(document["categories"], dtype=np.int64)
    pieces = zip(
        document["categories_nodes"],
        document["categories_segments"],
        document["categories_sizes"],
        strict=True,
    )
    return {int(node): members[int(start) : int(start) + int(size)] for node, start, size in pieces}


def _table_categories(booster: Document) -> dict[int, list[Any]] | None:
    """Values of the categorical columns of the training table, by column (kept since XGBoost 3.1)."""
    model = booster.get("gbtree", booster)["model"]
    by_column = {}
    for column, entry in enumerate(model.get("cats", {}).get("enc", [])):
        values = np.asarray(entry["values"])
        if "offsets" not in entry:
            by_column[column] = values.tolist()
        elif len(entry["offsets"]) > 1:
            text = values.astype(np.uint8).tobytes()
            bounds = [int(bound) for bound in entry["offsets"]]
            by_column[column] = [text[a:b].decode() for a, b in pairwise(bounds)]
    return {column: values for column, values in by_column.items() if values} or None
