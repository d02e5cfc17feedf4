r"""LightGBM models, read from their own text format, exactly.

The text needs no LightGBM to be read. Three habits of the library are kept:

- It adds the initial score (``boost_from_average``) to the leaves of the first round. Here the mean of that round's leaves
  over the training rows is moved to ``base``, so that the answer before any tree is a sensible one; the sum is the same.
- While it predicts, a value with :math:`|x| \le` float32(1e-35) is zero. Thresholds inside that interval, such as
  the -1e-35 with which it separates negative numbers from zero, are moved to its end.
- At a categorical split, NaN and every value outside the set go right.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anytime.trees.arrays import MISSING_NAN, MISSING_NAN_OR_ZERO, MISSING_NEVER
from anytime.trees.importers.columns import Columns
from anytime.trees.importers.imported import Combine, Imported, unknown_link
from anytime.trees.importers.layout import Tree, root_mean, stack_trees

_IDENTITY = ("regression", "regression_l1", "huber", "fair", "quantile", "mape", "lambdarank", "rank_xendcg")
_LINKS = {
    "binary": "logistic",
    "multiclass": "softmax",
    "multiclassova": "ova",
    "cross_entropy": "regression_logistic",
    "cross_entropy_lambda": "softplus",
    "poisson": "exp",
    "gamma": "exp",
    "tweedie": "exp",
    **dict.fromkeys(_IDENTITY, "identity"),
}
_CLASSIFIES = ("binary", "multiclass", "multiclassova")

# Bits of decision_type: 1 categorical, 2 default left, 4 and 8 the kind of missing value.
_CATEGORICAL, _DEFAULT_LEFT = 1, 2
_MISSING = np.array([MISSING_NEVER, MISSING_NAN_OR_ZERO, MISSING_NAN, MISSING_NAN], dtype=np.uint8)
_ZERO = float(np.float32(1e-35))


def import_booster(booster: Any, source: str, link: str | None = None) -> Imported:
    """Import a ``lightgbm.Booster``, up to its best iteration when it stopped early (as its ``predict`` does)."""
    return import_text(booster.model_to_string(), source, link)


def import_estimator(model: Any, source: str, link: str | None = None) -> Imported:
    """Import ``LGBMClassifier``, ``LGBMRegressor`` or ``LGBMRanker``."""
    if not model.__sklearn_is_fitted__():
        raise ValueError(f"this {type(model).__name__} is not fitted: call fit before importing it")
    classes = getattr(model, "classes_", None)
    return import_text(
        model.booster_.model_to_string(), source, link, classes=classes, guess_classes=classes is not None
    )


def import_text(
    text: str,  # what ``Booster.save_model`` writes
    source: str,
    link: str | None = None,  # needed for a custom objective only: the text does not say what its scores mean
    *,
    classes: NDArray[Any] | None = None,  # (C,): labels; the text has none
    guess_classes: bool = True,  # without ``classes``: label the classes of a classification objective 0, 1, …
) -> Imported:
    """Import a model from LightGBM's text format."""
    header, blocks, footer = _sections(text)
    objective = _Objective.parse(header.get("objective", ""), link, source)
    if objective.link == "logistic" and classes is None and not guess_classes:
        # a regressor that answers with the probability itself
        objective = replace(objective, link="regression_logistic")
    n_outputs = int(header["num_tree_per_iteration"])
    if n_outputs < 1 or len(blocks) % n_outputs:
        raise ValueError(
            f"the LightGBM model is damaged: {len(blocks)} trees do not make rounds of {n_outputs}"
        )
    read = [_read_tree(block, objective.scale, number) for number, block in enumerate(blocks)]
    trees = [tree for tree, _ in read]
    averages = "average_output" in header
    base, trees = _move_bias(trees, [rows for _, rows in read], n_outputs, averages)
    names = header["feature_names"].split(" ")
    n_features = int(header["max_feature_idx"]) + 1
    combine: Combine = "mean" if averages else "sum"
    if classes is None and guess_classes and objective.name in _CLASSIFIES:
        classes = np.arange(max(n_outputs, 2))
    _check_classes(classes, objective, n_outputs, source)
    return Imported(
        trees=stack_trees(
            trees,
            stage_sizes=[n_outputs] * (len(trees) // n_outputs),
            tree_output=np.arange(len(trees)) % n_outputs,
            n_outputs=n_outputs,
            n_features=n_features,
        ),
        base=base,
        combine=combine,
        link=objective.link,
        classes=classes,
        feature_names=None if names == [f"Column_{i}" for i in range(len(names))] else names,
        columns=Columns(n_features, _table_categories(header, footer) or {}),
        source=source,
    )


@dataclass(frozen=True)
class _Objective:
    """The line ``objective=binary sigmoid:1``: what the scores mean."""

    name: str
    link: str
    scale: float  # goes into the leaves: p = expit(sigmoid * score)

    @classmethod
    def parse(cls, line: str, link: str | None, source: str) -> _Objective:
        name, *words = line.split() or [""]
        if link is not None:
            return cls(name, link, 1.0)
        if name not in _LINKS:
            raise ValueError(unknown_link(source, f"objective {name!r}" if name else "a custom objective"))
        options = dict(word.partition(":")[::2] for word in words)
        return cls(
            name,
            "signed_square" if "sqrt" in options else _LINKS[name],
            float(options.get("sigmoid", 1.0)) if name in _CLASSIFIES else 1.0,
        )


def _check_classes(classes: NDArray[Any] | None, objective: _Objective, n_outputs: int, source: str) -> None:
    """Raise unless there is one probability per label."""
    if classes is None:
        return
    if objective.link not in ("logistic", "softmax", "ova"):
        raise ValueError(
            f"{source} is a classifier with objective {objective.name!r}, which gives no class probabilities: "
            "import its booster_ to have the scores"
        )
    if len(classes) != max(n_outputs, 2):
        raise ValueError(
            f"{source} has seen {len(classes)} classes but has {n_outputs} scores: train it on two classes or more"
        )


def _sections(text: str) -> tuple[dict[str, str], list[dict[str, str]], str]:
    """Header, one dictionary per tree, and what follows the trees."""
    head, *parts = text.replace("\r\n", "\n").split("\nTree=")
    if not head.startswith("tree\n"):
        raise ValueError("this is not a LightGBM model: its text begins with 'tree'")
    body, separator, footer = (parts[-1] if parts else head).partition("\nend of trees")
    if not separator:
        raise ValueError("the LightGBM model is cut short: 'end of trees' is missing")
    return _lines(head), [_lines(part) for part in [*parts[:-1], body] if parts], footer


def _lines(block: str) -> dict[str, str]:
    """``key=value`` lines; a line without ``=`` is a key with an empty value."""
    return {key: value for key, _, value in (line.partition("=") for line in block.split("\n"))}


def _read_tree(block: dict[str, str], scale: float, number: int) -> tuple[Tree, NDArray[np.float64]]:
    """One tree, inner nodes first, and the training rows at each of its nodes."""
    if block.get("is_linear", "0") != "0":
        raise ValueError(
            f"tree {number} has linear models in its leaves (linear_tree=True), which this layout cannot hold: "
            "train with linear_tree=False"
        )
    try:
        return _parse_tree(block, scale)
    except (KeyError, ValueError, IndexError) as error:
        raise ValueError(
            f"the LightGBM model is damaged: tree {number} cannot be read ({error!r})"
        ) from error


def _parse_tree(block: dict[str, str], scale: float) -> tuple[Tree, NDArray[np.float64]]:
    leaf_value = scale * _floats(block["leaf_value"])
    n_inner = leaf_value.size - 1
    value = np.zeros((2 * n_inner + 1, 1))
    value[n_inner:, 0] = leaf_value
    rows = np.zeros(2 * n_inner + 1)
    if block.get("leaf_count"):
        rows[n_inner:] = _floats(block["leaf_count"])

    def inner(key: str) -> NDArray[np.int64]:
        return _ints(block[key]) if n_inner else np.empty(0, dtype=np.int64)

    def with_leaves(array: NDArray[Any], at_leaf: int = 0) -> NDArray[Any]:
        if array.size != n_inner:
            raise ValueError(f"{array.size} entries for {n_inner} splits")
        return np.concatenate([array, np.full(n_inner + 1, at_leaf, dtype=array.dtype)])

    def children(key: str) -> NDArray[np.int32]:
        child = inner(key)  # -1 is leaf 0, -2 leaf 1, …
        return with_leaves(np.where(child < 0, n_inner + ~child, child), -1).astype(np.int32)

    threshold = _floats(block["threshold"]) if n_inner else np.empty(0)
    decision = inner("decision_type")
    categorical = (decision & _CATEGORICAL).astype(bool)
    tree = Tree(
        feature=with_leaves(inner("split_feature")),
        threshold=with_leaves(_outside_zero(threshold)),
        left=children("left_child"),
        right=children("right_child"),
        default_left=with_leaves(np.where(categorical, 0, decision & _DEFAULT_LEFT) != 0),
        missing=with_leaves(_MISSING[(decision >> 2) & 3]),
        value=value,
        sets=_read_sets(block, np.flatnonzero(categorical), threshold) if categorical.any() else {},
        members_left=True,
    )
    return tree, rows


def _outside_zero(threshold: NDArray[np.float64]) -> NDArray[np.float64]:
    """Move thresholds between -1e-35 and 1e-35, as if every value there were exactly zero."""
    threshold = np.where((threshold >= -_ZERO) & (threshold < 0), np.nextafter(-_ZERO, -1.0), threshold)
    return np.where((threshold >= 0) & (threshold < _ZERO), _ZERO, threshold)


def _read_sets(
    block: dict[str, str], nodes: NDArray[np.int64], threshold: NDArray[np.float64]
) -> dict[int, NDArray[np.int64]]:
    """Members of each categorical node; its threshold is the number of its bit set."""
    bounds = _ints(block["cat_boundaries"])
    words = _ints(block["cat_threshold"]).astype("<u4")
    sets = {}
    for node in nodes:
        number = int(threshold[node])
        bits = words[bounds[number] : bounds[number + 1]].view(np.uint8)
        sets[int(node)] = np.flatnonzero(np.unpackbits(bits, bitorder="little"))
    return sets


def _move_bias(
    trees: list[Tree], rows: list[NDArray[np.float64]], n_outputs: int, averages: bool
) -> tuple[NDArray[np.float64], list[Tree]]:
    """(K,) score before any tree, and the trees without it.

    Random forests (``average_output``) keep their trees: each carries the initial score, and so does their mean.
    """
    if not trees:
        return np.zeros(n_outputs), trees
    if averages:
        return root_mean(trees, rows)[:, 0].reshape(-1, n_outputs).mean(axis=0), trees
    first = trees[:n_outputs]
    base = root_mean(first, rows[:n_outputs])[:, 0]
    shifted = [replace(tree, value=tree.value - bias) for tree, bias in zip(first, base, strict=True)]
    return base, shifted + trees[n_outputs:]


def _table_categories(header: dict[str, str], footer: str) -> dict[int, list[Any]] | None:
    """Values of the categorical columns of the training table, by column.

    The text lists the values of the table's categorical columns in order, but not which columns these are. They are
    the ones it treats as categories, unless some were ordered (LightGBM takes those as numbers) or the user
    named others; then the two do not fit together and nothing is guessed.
    """
    listed = _after(footer, "\npandas_categorical:")
    values = json.loads(listed) if listed else None
    if not values:
        return None
    named = _after(footer, "\n[categorical_feature:").rstrip("]").strip()
    infos = header["feature_infos"].split(" ")
    # Numbers are shown as [min:max], categories as 0:2:1, a column of no use as none.
    shown = [i for i, info in enumerate(infos) if not info.startswith("[") and info != "none"]
    words = named.split(",")
    columns = sorted(map(int, words)) if all(word.isdigit() for word in words) else shown
    if len(columns) != len(values) or any(
        max(int(code) for code in infos[column].split(":")) >= len(table)
        for column, table in zip(columns, values, strict=True)
        if column in shown
    ):
        raise ValueError(
            f"the training table had {len(values)} categorical columns, but the model treats {len(columns)} columns as "
            "categories, and LightGBM does not record which are which (an ordered categorical is used as a number). "
            "Train on a table whose ordered columns are codes already, without categorical_feature"
        )
    return dict(zip(columns, values, strict=True))


def _after(text: str, key: str) -> str:
    """What stands after ``key`` on its line, or nothing."""
    return text.partition(key)[2].partition("\n")[0]


def _floats(text: str) -> NDArray[np.float64]:
    return np.array(text.split(), dtype=np.float64)


def _ints(text: str) -> NDArray[np.int64]:
    return np.array(text.split(), dtype=np.int64)
