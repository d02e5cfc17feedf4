"""Trees, forests and gradient boosting of scikit-learn, exactly.

Single trees and forests average their trees, so they become ``combine="mean"`` with one tree per stage; the answer before
the first tree is the mean of the roots (class prior, target mean). Boosted models add, one round per stage, from the score
of their initial estimator.

Fitted state that scikit-learn offers no public way to is read by ``anytime._compat``.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import get_tags

from anytime._compat import hist_baseline, hist_preprocessor, hist_rounds, initial_scores
from anytime.trees.arrays import MISSING_NAN
from anytime.trees.importers.columns import Columns, Finite
from anytime.trees.importers.imported import Imported
from anytime.trees.importers.layout import Tree, stack_trees

_LINK_OF_HIST_LOSS = {
    "squared_error": "identity",
    "absolute_error": "identity",
    "quantile": "identity",
    "gamma": "exp",
    "poisson": "exp",
}


def import_forest(model: Any, source: str) -> Imported:
    """Import a decision tree, an extra tree or a forest of them.

    Its outputs are ``K`` targets, or ``K`` class probabilities: also for two classes, because a mean of probabilities is not the
    logistic of a sum.
    """
    is_forest = hasattr(model, "n_estimators")
    members = _fitted(model, "estimators_") if is_forest else [model]
    grown = [_fitted(member, "tree_") for member in members]
    is_classifier = hasattr(model, "classes_")
    if is_classifier and model.n_outputs_ > 1:
        raise ValueError(
            f"{source} predicts {model.n_outputs_} labels at once, and only one label can be imported: "
            "fit one classifier per label"
        )
    trees = [_grown_tree(tree, is_classifier, 1.0) for tree in grown]
    roots = np.array([tree.value[0] for tree in trees])
    return Imported(
        trees=stack_trees(
            trees,
            stage_sizes=[1] * len(trees),
            tree_output=0,
            n_outputs=roots.shape[1],
            n_features=model.n_features_in_,
            float32_input=True,
        ),
        base=roots.mean(axis=0),
        combine="mean",
        link="probability" if is_classifier else "identity",
        classes=np.asarray(model.classes_) if is_classifier else None,
        feature_names=_names(model),
        columns=Columns(model.n_features_in_, ensure_all_finite=_finite(model)),
        source=source,
    )


def import_gradient_boosting(model: Any, source: str) -> Imported:
    """Import ``GradientBoostingClassifier`` or ``GradientBoostingRegressor``.

    The exponential loss has ``p = expit(2 * score)``; its factor goes into the leaves.
    """
    rounds = _fitted(model, "estimators_")  # (S, K) regression trees
    is_classifier = hasattr(model, "classes_")
    factor = 2.0 if is_classifier and model.loss == "exponential" else 1.0
    trees = [_grown_tree(member.tree_, False, factor * model.learning_rate) for member in rounds.ravel()]
    n_stages, n_outputs = rounds.shape
    return Imported(
        trees=stack_trees(
            trees,
            stage_sizes=[n_outputs] * n_stages,
            tree_output=np.tile(np.arange(n_outputs), n_stages),
            n_outputs=n_outputs,
            n_features=model.n_features_in_,
            float32_input=True,
        ),
        base=factor * _initial_score(model, source),
        combine="sum",
        link=_link_of_classes(n_outputs) if is_classifier else "identity",
        classes=np.asarray(model.classes_) if is_classifier else None,
        feature_names=_names(model),
        columns=Columns(model.n_features_in_, ensure_all_finite=_finite(model)),
        source=source,
    )


def import_hist_gradient_boosting(model: Any, source: str) -> Imported:
    """Import ``HistGradientBoostingClassifier`` or ``HistGradientBoostingRegressor``.

    With categorical features the model encodes and moves columns before its trees see them: categories first.
    Both steps are undone here: the trees test the original columns, and ``categories`` lists the original values.
    """
    rounds = hist_rounds(model)
    if rounds is None:
        raise _not_fitted(model)
    is_classifier = hasattr(model, "classes_")
    column_of, categories = _original_columns(model)
    trees = [_binned_tree(tree, column_of, categories) for members in rounds for tree in members]
    n_outputs = int(model.n_trees_per_iteration_)
    if is_classifier:
        link = _link_of_classes(n_outputs)
    elif isinstance(model.loss, str) and model.loss in _LINK_OF_HIST_LOSS:
        link = _LINK_OF_HIST_LOSS[model.loss]
    else:
        raise ValueError(
            f"{source} has loss {model.loss!r}, whose link is unknown; supported losses are {', '.join(_LINK_OF_HIST_LOSS)}"
        )
    return Imported(
        trees=stack_trees(
            trees,
            stage_sizes=[n_outputs] * len(rounds),
            tree_output=np.tile(np.arange(n_outputs), len(rounds)),
            n_outputs=n_outputs,
            n_features=model.n_features_in_,
        ),
        base=np.asarray(hist_baseline(model), dtype=np.float64).reshape(n_outputs),
        combine="sum",
        link=link,
        classes=np.asarray(model.classes_) if is_classifier else None,
        feature_names=_names(model),
        columns=Columns(model.n_features_in_, categories, arrays_hold_codes=False),
        source=source,
    )


def _fitted(model: Any, attribute: str) -> Any:
    """Give the attribute that `fit` sets."""
    if not hasattr(model, attribute):
        raise _not_fitted(model)
    return getattr(model, attribute)


def _not_fitted(model: Any) -> ValueError:
    return ValueError(f"this {type(model).__name__} is not fitted: call fit before importing it")


def _names(model: Any) -> list[str] | None:
    """Column names of the training table, if it was one."""
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def _finite(model: Any) -> Finite:
    """What forests and classic boosting refuse: infinity always, NaN unless their trees can split on it."""
    return "allow-nan" if get_tags(model).input_tags.allow_nan else True


def _link_of_classes(n_outputs: int) -> str:
    """Boosted classifiers: one log-odds for two classes, else one score per class."""
    return "logistic" if n_outputs == 1 else "softmax"


def _grown_tree(tree: Any, is_classifier: bool, factor: float) -> Tree:
    """Read a compiled ``sklearn.tree._tree.Tree``; leaf values times ``factor``."""
    value = tree.value[:, 0, :] if is_classifier else tree.value[:, :, 0]
    return Tree(
        feature=tree.feature,
        threshold=tree.threshold,
        left=tree.children_left.astype(np.int32),
        right=tree.children_right.astype(np.int32),
        default_left=tree.missing_go_to_left,
        missing=MISSING_NAN,
        value=factor * value,
    )


def _initial_score(model: Any, source: str) -> NDArray[np.float64]:
    """(K,) score before the first round, if it is the same for every row."""
    init = model.init_
    is_constant = isinstance(init, str) or (
        type(init).__name__ in ("DummyClassifier", "DummyRegressor") and init.strategy != "stratified"
    )
    if not is_constant:
        raise ValueError(
            f"{source} starts from init={init!r}, whose prediction depends on the row, so no tree can stand for it. "
            "Train with init=None or init='zero', or boost on the residual and add the two predictions yourself"
        )
    any_row = np.zeros((1, model.n_features_in_), dtype=np.float32)
    return np.asarray(initial_scores(model, any_row)[0], dtype=np.float64)


def _original_columns(model: Any) -> tuple[NDArray[np.int64], dict[int, list[Any]]]:
    """(d,) original column of each column the trees know, and the category values by original column."""
    preprocessor = hist_preprocessor(model)
    if preprocessor is None:
        return np.arange(model.n_features_in_), {}
    categorical = np.flatnonzero(model.is_categorical_)
    encoder = preprocessor.named_transformers_["encoder"]
    categories = {
        int(column): [value for value in values.tolist() if not _is_nan(value)]
        for column, values in zip(categorical, encoder.categories_, strict=True)
    }
    return np.concatenate([categorical, np.flatnonzero(~model.is_categorical_)]), categories


def _is_nan(value: Any) -> bool:
    """The encoder lists NaN last when it was there in training; to the trees it is missing, no category."""
    return isinstance(value, float) and np.isnan(value)


def _binned_tree(tree: Any, column_of: NDArray[np.int64], categories: dict[int, list[Any]]) -> Tree:
    """Read a ``TreePredictor`` of the histogram models.

    A category that the node does not know follows the missing rule. So the side that missing values do not take is
    written as the set, and everything else goes with them.
    """
    nodes = tree.nodes
    leaf = nodes["is_leaf"].astype(bool)
    feature = np.where(leaf, 0, column_of[np.where(leaf, 0, nodes["feature_idx"])])
    sets = {}
    for node in np.flatnonzero(nodes["is_categorical"].astype(bool) & ~leaf):
        words = tree.raw_left_cat_bitsets[nodes["bitset_idx"][node]]
        goes_left = np.unpackbits(np.asarray(words, dtype="<u4").view(np.uint8), bitorder="little").astype(
            bool
        )
        is_category = np.arange(goes_left.size) < len(categories[int(feature[node])])
        sets[int(node)] = np.flatnonzero(
            is_category & (~goes_left if nodes["missing_go_to_left"][node] else goes_left)
        )
    return Tree(
        feature=feature,
        threshold=nodes["num_threshold"],
        left=np.where(leaf, np.int32(-1), nodes["left"].astype(np.int32)),
        right=np.where(leaf, np.int32(-1), nodes["right"].astype(np.int32)),
        default_left=nodes["missing_go_to_left"],
        missing=MISSING_NAN,
        value=nodes["value"].astype(np.float64)[:, None],
        sets=sets,
        members_left=1 - nodes["missing_go_to_left"],
    )
