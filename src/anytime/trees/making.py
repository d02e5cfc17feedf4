"""``make_anytime``: a fitted model of another library, or a ladder of them, as one interruptible model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_array, column_or_1d

from anytime.costs import FeatureCosts
from anytime.losses import LINKS
from anytime.plan import Array, Plan
from anytime.trees.block import TreeBlock
from anytime.trees.importers import Columns, Imported, import_trees
from anytime.trees.ladder import as_replacing_stage
from anytime.trees.models import AnytimeClassifier, AnytimeRegressor, ImportedModel, held_out_quality

__all__ = ["make_anytime"]


def make_anytime(
    model: Any,
    *,
    costs: Any = None,
    X: Any = None,
    y: Any = None,
    sample_weight: ArrayLike | None = None,
    budget: float | None = None,
    meter: str = "model",
    evaluation_cost: float = 0.0,
    n_jobs: int | None = None,
) -> AnytimeClassifier | AnytimeRegressor:
    """Make a fitted model interruptible.

    Parameters
    ----------
    model : fitted model, or list of models
        A forest, extra-trees or (hist) gradient boosting model of scikit-learn, LightGBM or XGBoost, or what
        ``anytime.trees.importers.import_file`` read. A list of models, from cheap to costly, becomes a plan whose
        stages *replace* the answer so far; an entry may be a pair (model, columns) when the model was trained on some
        columns only.
    costs : FeatureCosts, mapping, table, path or sequence, default=None
        What columns cost. None: 1 per column.
    X, y : (n, d) and (n,), default=None
        Held-out data, not seen in training. With them, stages are ordered by held-out loss drop per cost. Without,
        the trained order stays.
    sample_weight : (n,), default=None
    budget, meter, evaluation_cost, n_jobs
        As in :class:`AnytimeClassifier`.

    Returns
    -------
    AnytimeClassifier or AnytimeRegressor
        Its full prediction equals that of ``model``.

    Examples
    --------
    >>> import anytime as at
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y, costs = at.datasets.load("wine")
    >>> forest = RandomForestClassifier(20, random_state=0).fit(X[::2], y[::2])
    >>> model = at.make_anytime(forest, costs=costs, X=X[1::2], y=y[1::2])
    >>> bool((model.predict(X) == forest.predict(X)).all())
    True
    """
    if (X is None) != (y is None):
        raise ValueError("give X and y together: held-out rows and their truth")
    if isinstance(model, (AnytimeClassifier, AnytimeRegressor)):
        raise TypeError("this model is an anytime model already")
    rungs = _rungs(model)
    first = rungs[0][0]
    face = AnytimeClassifier if LINKS[first.link].classifies else AnytimeRegressor
    made = face(
        costs=costs,
        budget=budget,
        meter=meter,
        evaluation_cost=evaluation_cost,
        validation_fraction=None,
        n_jobs=n_jobs,
    )
    weight = None if sample_weight is None else column_or_1d(sample_weight, dtype=np.float64)
    _take_names(made, rungs, X)
    if len(rungs) == 1 and rungs[0][1] is None:
        made._adopt(first, None if X is None else (X, y, weight))
    else:
        _adopt_ladder(made, rungs, None if X is None else (X, y, weight))
    return made


Rung = tuple[Imported, Sequence[str | int] | None]


def _rungs(model: Any) -> list[Rung]:
    listed = model if isinstance(model, (list, tuple)) else [model]
    if not listed:
        raise ValueError("the list of models is empty")
    rungs: list[Rung] = []
    for entry in listed:
        fitted, columns = entry if isinstance(entry, tuple) else (entry, None)
        imported = fitted if isinstance(fitted, Imported) else import_trees(fitted)
        rungs.append((imported, columns))
    return rungs


def _take_names(made: ImportedModel, rungs: list[Rung], X: Any) -> None:
    names = None
    if hasattr(X, "columns"):
        names = [str(name) for name in X.columns]
    elif all(columns is None for _, columns in rungs):
        names = rungs[-1][0].feature_names
    if names is not None:
        made.feature_names_in_ = np.array(names, dtype=object)
    width = len(names) if names is not None else rungs[-1][0].trees.n_features
    if X is not None:
        width = np.shape(X)[1]
    made.n_features_in_ = width


def _adopt_ladder(made: ImportedModel, rungs: list[Rung], held: tuple[Any, Any, Array | None] | None) -> None:
    first = rungs[0][0]
    for imported, _ in rungs:
        same = imported.link == first.link and imported.base.shape == first.base.shape
        if not same or not np.array_equal(imported.classes, first.classes):  # type: ignore[arg-type]
            raise ValueError(
                f"the models of a list must answer the same question: {first.source} and {imported.source} differ"
            )
        if imported.categories or not imported.columns.are_plain:
            raise ValueError(
                "a model with categories of its own cannot stand in a list; encode the categories first"
            )
    names = list(made.feature_names_in_) if hasattr(made, "feature_names_in_") else None
    made.columns_, made.ordering_ = Columns(made.n_features_in_), None
    made.source_ = " < ".join(imported.source for imported, _ in rungs)
    if first.classes is not None:
        made.classes_ = first.classes
    d = made.n_features_in_
    bound = FeatureCosts.coerce(made.costs, d, names).bind(d, names)
    blocks = [TreeBlock(as_replacing_stage(imported, columns, d, names)) for imported, columns in rungs]
    plan = Plan(
        blocks=blocks,
        costs=bound,
        base=first.base,
        link=first.link,
        evaluation_costs=made._evaluation_costs(np.array([imported.trees.n_trees for imported, _ in rungs])),
        replaces=np.ones(len(rungs), dtype=bool),
    )
    if held is not None:
        X, y, weight = held
        X = check_array(X, dtype=np.float64, order="C", ensure_all_finite=False)
        plan = replace(plan, quality=held_out_quality(plan, X, made._target(y), weight))
    made.plan_ = plan
