"""``make_anytime``: a fitted model of another library, or a ladder of them, as one interruptible model."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from importlib import import_module
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.validation import check_consistent_length

from anytime.losses import LINKS
from anytime.trees.block import TreeBlock
from anytime.trees.imported_models import (
    AnytimeClassifier,
    AnytimeRegressor,
    ImportedModel,
    NothingToFit,
    Rows,
)
from anytime.trees.importers import Columns, Imported, import_trees
from anytime.trees.importers.columns import Finite
from anytime.trees.judging import judged
from anytime.trees.ladder import as_replacing_stage
from anytime.trees.names import check_names, column_names
from anytime.trees.rows import checked_weights

_DEAR = 0.5  # share of the price of everything that a first answer may cost without a word


def make_anytime(
    model: Any,
    *,
    costs: Any = None,
    X_val: Any = None,
    y_val: Any = None,
    sample_weight: ArrayLike | None = None,
    budget: float | None = None,
    meter: str | None = None,
    evaluation_cost: float | str | None = None,
    n_jobs: int | None = None,
    **of_modules: Any,
) -> Any:
    """Make a fitted model interruptible.

    Parameters
    ----------
    model : fitted model, or list of models
        A forest, extra-trees or (hist) gradient boosting model of scikit-learn, LightGBM or XGBoost, or the
        result of ``anytime.trees.importers.import_file``. A list of models, from cheap to costly, becomes a plan whose stages
        *replace* the answer; an entry may be a pair (model, columns) if the model was trained on some columns only. A pair by
        itself is a list of one. Or a torch module that reads a table or images: every exit of an
        ``anytime.networks.ExitNetwork`` is a stage, any other module is one stage.
    costs : FeatureCosts, mapping, table, path or sequence, default=None
        What columns cost. None: 1 per column.
    X_val, y_val : (n, d) and (n,), default=None
        Validation rows, not used in training, with the training columns in the same order. With them, stages are ordered by
        their reduction of the loss per cost; without them, the trained order stays. The exits of a network keep their order; a
        temperature per exit calibrates their probabilities.
    sample_weight : (n,), default=None
        Weights of the validation rows.
    budget : float or (n,), default=None
        As in :class:`AnytimeClassifier`.
    meter, evaluation_cost : default=None
        As in :class:`AnytimeClassifier`, or in :class:`AnytimeNetworkClassifier` for a torch module. None: their defaults.
    n_jobs : int, default=None
        Threads. None: 1; -1: all cores. The result does not depend on it.
    **of_modules
        For torch modules only. ``classes``, (K,): the classes of the outputs; by default those of ``y_val``, in order, or 0 to
        K - 1. ``input_shape``: the shape of one row, if there is no ``X_val``. ``device``: where the network runs; by default
        where it is.

    Returns
    -------
    AnytimeClassifier, AnytimeRegressor, AnytimeNetworkClassifier or AnytimeNetworkRegressor
        Its full prediction equals that of ``model``, and it rejects NaN and infinity where ``model`` does. Its ``estimator`` is
        a clone of ``model``, so ``fit`` and cross-validation train the same kind again: on all rows or, if ``X_val`` was passed,
        on a part of them, with the rest to choose the order. A booster, a file or a list cannot be refitted. A torch module is
        copied; ``fit`` continues from its weights.

    Raises
    ------
    ValueError
        If the model cannot be imported, or the validation rows do not fit it.

    See Also
    --------
    AnytimeClassifier : Trains and orders the trees in one fit.
    prune_forest : Prunes a forest until it fits a budget.
    LadderClassifier : For a model of any other kind.

    Examples
    --------
    >>> import anytime as at
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y, costs = at.datasets.load("wine")
    >>> forest = RandomForestClassifier(20, random_state=0).fit(X[::2], y[::2])
    >>> model = at.make_anytime(forest, costs=costs, X_val=X[1::2], y_val=y[1::2])
    >>> bool((model.predict(X) == forest.predict(X)).all())
    True
    """
    if isinstance(model, (AnytimeClassifier, AnytimeRegressor)):
        raise TypeError("this model is already an anytime model")
    chosen: dict[str, Any] = {"meter": meter, "evaluation_cost": evaluation_cost}
    parameters = {name: value for name, value in chosen.items() if value is not None}
    if any(kind.__module__.startswith("torch.nn.") for kind in type(model).__mro__):
        # networks stand above trees, and without torch there are none: they are met only here, at run time
        return import_module("anytime.networks.making").make_network(
            model,
            X_val=X_val,
            y_val=y_val,
            sample_weight=sample_weight,
            costs=costs,
            budget=budget,
            n_jobs=n_jobs,
            **parameters,
            **of_modules,
        )
    if of_modules:
        raise TypeError(f"{next(iter(of_modules))} is for torch modules, not for {type(model).__name__}")
    rungs = _rungs(model)
    first, columns = rungs[0]
    face = AnytimeClassifier if LINKS[first.link].classifies else AnytimeRegressor
    made = face(
        to_fit_again(model, rungs),
        costs=costs,
        budget=budget,
        validation_fraction=None if X_val is None else 0.2,
        n_jobs=n_jobs,
        **parameters,
    )
    made._validate_params()
    made._check_kind(first)
    take_names(made, rungs, X_val)
    held = _held_out(X_val, y_val, sample_weight)
    if len(rungs) == 1 and columns is None:
        check_columns(made, first)
        made._adopt(first, made._bound_costs(), held)
        if costs is not None:
            _warn_of_a_dear_first_answer(made)
    else:
        _adopt_ladder(made, rungs, held)
    return made


def _warn_of_a_dear_first_answer(made: ImportedModel) -> None:
    """Say so where there is next to nothing between no answer and the last, and what to do about it."""
    spent = made.stage_costs_
    if spent.size < 2 or spent[0] <= _DEAR * spent[-1]:
        return
    bought = made.plan_.purchases.groups
    kind = "Classifier" if isinstance(made, AnytimeClassifier) else "Regressor"
    warnings.warn(
        f"the first answer may cost {spent[0]:.4g} of {spent[-1]:.4g}, because its trees read {bought[1]} of {bought[-1]} groups "
        "of columns: with a smaller budget, a row may pay for some of them and get no prediction from them. Train "
        f"at.SpeedBoost{kind}(costs=costs), put a cheap model in front of this one, make_anytime([cheap, model]), or train "
        "trees that keep to one group each (interaction_cst=groups, or interaction_constraints), which lose the interactions "
        "between groups",
        stacklevel=3,
    )


Rung = tuple[Imported, Sequence[str | int] | None]


def _rungs(model: Any) -> list[Rung]:
    if isinstance(model, tuple) and len(model) == 2 and _are_columns(model[1]):
        model = [model]
    listed = model if isinstance(model, (list, tuple)) else [model]
    if not listed:
        raise ValueError("the list of models is empty")
    return [_rung(entry) for entry in listed]


def _rung(entry: Any) -> Rung:
    fitted, columns = entry, None
    if isinstance(entry, tuple):
        if len(entry) != 2 or not _are_columns(entry[1]):
            raise ValueError(f"an entry of a list is a model or a pair (model, columns), not {entry!r}")
        fitted, columns = entry[0], [entry[1]] if isinstance(entry[1], str) else list(entry[1])
    return fitted if isinstance(fitted, Imported) else import_trees(fitted), columns


def _are_columns(entry: Any) -> bool:
    """Whether this names columns: a sequence of names and positions, which no model is."""
    if isinstance(entry, str):
        return True
    if hasattr(entry, "predict") or not isinstance(entry, Iterable):
        return False
    return all(isinstance(column, (str, Integral)) for column in entry)


def to_fit_again(model: Any, rungs: list[Rung]) -> Any:
    """The estimator that ``fit`` of the made model, or of a clone, has to train."""
    if hasattr(model, "fit") and hasattr(model, "get_params"):
        return clone(model)
    return NothingToFit(_sources(rungs))


def _sources(rungs: list[Rung]) -> str:
    return " < ".join(imported.source for imported, _ in rungs)


# ---------------------------------------------------------------------- columns and held-out rows


def take_names(made: ImportedModel, rungs: list[Rung], X: Any) -> None:
    """Set how many columns a row has, and their names where they are known."""
    names = _names(rungs, X)
    if names is not None:
        made.feature_names_in_ = np.array(names, dtype=object)
    if X is None:
        widths = [_width(imported, columns) for imported, columns in rungs]
        made.n_features_in_ = max(widths) if names is None else len(names)
        return
    shape = np.shape(X)
    if len(shape) != 2:
        raise ValueError(f"X must have rows and columns, (n, d), but its shape is {shape}")
    made.n_features_in_ = int(shape[1])


def _names(rungs: list[Rung], X: Any) -> list[str] | None:
    """Names of the columns: those of the table, or else those that a model of all columns was trained on."""
    trained_names = next(
        (m.feature_names for m, columns in reversed(rungs) if columns is None and m.feature_names), None
    )
    names = None if X is None else column_names(X)
    if names is not None or trained_names is None:
        return names
    numbered = [str(name) for name in getattr(X, "columns", ())]
    # a table with numbers for names, which the libraries write as text
    return None if numbered == trained_names else trained_names


def _width(imported: Imported, columns: Sequence[str | int] | None) -> int:
    """The fewest columns that a row must have for this model."""
    if columns is None:
        return imported.trees.n_features
    return 1 + max((int(column) for column in columns if not isinstance(column, str)), default=0)


def check_columns(made: ImportedModel, imported: Imported) -> None:
    """Raise unless rows have the columns that the model was trained on."""
    if made.n_features_in_ != imported.trees.n_features:
        raise ValueError(
            f"{imported.source} was trained on {imported.trees.n_features} columns, but X has {made.n_features_in_}"
        )
    if hasattr(made, "feature_names_in_"):
        check_names(list(made.feature_names_in_), imported)


def _held_out(X: Any, y: Any, sample_weight: ArrayLike | None) -> Rows | None:
    if (X is None) != (y is None):
        raise ValueError("give X_val and y_val together: validation rows and their labels")
    if X is None:
        if sample_weight is not None:
            raise ValueError("sample_weight is for validation rows: give X_val and y_val with it")
        return None
    check_consistent_length(X, y)
    return X, y, None if sample_weight is None else checked_weights(sample_weight, X)


# ---------------------------------------------------------------------- ladders


def _adopt_ladder(made: ImportedModel, rungs: list[Rung], held: Rows | None) -> None:
    first, d = rungs[0][0], made.n_features_in_
    for imported, _ in rungs:
        _check_rung(imported, first)
    names = list(made.feature_names_in_) if hasattr(made, "feature_names_in_") else None
    costs = made._bound_costs()
    blocks = [TreeBlock(as_replacing_stage(imported, columns, d, names)) for imported, columns in rungs]
    demands = [imported.columns.ensure_all_finite for imported, _ in rungs]
    strictest: Finite = True if True in demands else "allow-nan" if "allow-nan" in demands else False
    made._take(
        replace(first, columns=Columns(d, ensure_all_finite=strictest), source=_sources(rungs)),
        costs,
        blocks,
        np.array([imported.trees.n_trees for imported, _ in rungs]),
        replaces=np.ones(len(rungs), dtype=bool),
    )
    if held is not None:
        made.plan_ = judged(made.plan_, *made._held_out(*held))


def _check_rung(imported: Imported, first: Imported) -> None:
    """Raise unless the model can stand in a list that begins with ``first``."""
    same = imported.link == first.link and imported.base.shape == first.base.shape
    if not same or not np.array_equal(imported.classes, first.classes):  # type: ignore[arg-type]
        raise ValueError(
            f"the models of a list must answer the same question: {first.source} and {imported.source} differ"
        )
    if imported.columns.categories or not imported.columns.are_plain:
        raise ValueError(
            "a model with categories of its own cannot stand in a list; encode the categories first"
        )
