"""Fitted models of other libraries as :class:`~anytime.trees.arrays.TreeArrays`, with identical predictions.

    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from anytime.trees.importers import import_trees
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(n_estimators=5, random_state=0).fit(X, y)
    >>> imported = import_trees(forest)
    >>> imported.trees.n_stages, imported.combine, imported.link
    (5, 'mean', 'probability')

The library of a model is recognised by the name of its class, so nothing heavy is loaded before it is needed.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from anytime.trees.importers.columns import Columns
from anytime.trees.importers.imported import LINK_NAMES, Imported

__all__ = ["Columns", "Imported", "import_file", "import_trees"]

_FORESTS = (
    "DecisionTreeClassifier",
    "DecisionTreeRegressor",
    "RandomForestClassifier",
    "RandomForestRegressor",
    "ExtraTreesClassifier",
    "ExtraTreesRegressor",
)
_BOOSTED = ("GradientBoostingClassifier", "GradientBoostingRegressor")
_HISTOGRAM = ("HistGradientBoostingClassifier", "HistGradientBoostingRegressor")
_SUPPORTED = (
    "scikit-learn's DecisionTree*, ExtraTree*, RandomForest*, ExtraTrees*, GradientBoosting* and HistGradientBoosting*, "
    "LightGBM's Booster and LGBM*, XGBoost's Booster, XGB* and XGBRF*"
)
_PICKLES = (".pkl", ".pickle", ".joblib", ".skops")


def import_trees(model: Any, *, link: str | None = None) -> Imported:
    """Turn a fitted tree ensemble into arrays with identical predictions.

    Parameters
    ----------
    model : fitted estimator or booster
        A model of scikit-learn, LightGBM or XGBoost. A subclass counts as its parent.
    link : str, optional
        Only for LightGBM and XGBoost models with a custom objective, whose meaning is not stored: the link from scores to
        answers, named as in `Imported`.

    Raises
    ------
    TypeError
        If the kind of model is not supported.
    ValueError
        If something in the model cannot be represented exactly, or it is not fitted.
    """
    if link is not None and link not in LINK_NAMES:
        raise ValueError(f"link={link!r} is unknown; the links are {', '.join(LINK_NAMES)}")
    library, names = _library(model)
    if library:
        source = f"{library}.{names[0]} {getattr(sys.modules.get(library), '__version__', '?')}"
        imported = _IMPORT[library](model, names, source, link)
        if imported is not None:
            return imported
    if "Pipeline" in names:
        raise TypeError(
            "a Pipeline changes its input before the trees see it: import its last step, import_trees(pipeline[-1]), and "
            "give the result transformed data, pipeline[:-1].transform(X)"
        )
    raise TypeError(
        f"cannot import trees from {type(model).__module__}.{type(model).__name__}. Supported: {_SUPPORTED}. "
        "If it is wrapped, for instance in a search, pass the fitted model inside the wrapper"
    )


def import_file(path: str | Path, *, trusted: bool = False) -> Imported:
    """Import a model file: LightGBM's text, XGBoost's ``.json`` or ``.ubj``.

    The format is recognised by the content. Neither library has to be installed, and neither format runs code. These files do
    not store labels, so classes are 0, 1, …

    Parameters
    ----------
    path : path
    trusted : bool
        Allow pickles (``.pkl``, ``.joblib``: saved scikit-learn models). Loading a pickle can run any code, so this is never
        the default.

    Raises
    ------
    ValueError
        If the format is unknown, or the file is damaged or cannot be imported exactly.
    """
    path = Path(path)
    data = path.read_bytes()
    if path.suffix.lower() in _PICKLES or data[:1] == b"\x80":
        return _import_pickle(path, trusted)
    try:
        if data.startswith((b"tree\n", b"tree\r\n")):
            from anytime.trees.importers.lightgbm import import_text

            return import_text(data.decode(), f"LightGBM file {path.name}")
        if data.startswith(b"{"):
            from anytime.trees.importers.xgboost import import_document

            return import_document(_read_document(data), f"XGBoost file {path.name}")
    except (LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        # What a field of the wrong kind leads to, wherever it is met.
        raise ValueError(f"{path} is damaged: {error!r}") from error
    raise ValueError(
        f"{path} is not a model file that anytime can read. Supported: LightGBM's text (Booster.save_model), "
        "XGBoost's .json and .ubj (save_model; its old binary format has to be saved again with a current XGBoost), "
        "and, if trusted, pickles of "
        "scikit-learn's and these libraries' models (.pkl, .joblib)"
    )


def _library(model: Any) -> tuple[str, list[str]]:
    """Library that a model's class or its nearest known ancestor belongs to, and the names it has there."""
    packages = [
        (ancestor.__module__.partition(".")[0], ancestor.__name__) for ancestor in type(model).__mro__
    ]
    library = next((package for package, _ in packages if package in _IMPORT), "")
    return library, [name for package, name in packages if package == library]


def _import_sklearn(model: Any, names: list[str], source: str, link: str | None) -> Imported | None:
    from anytime.trees.importers import sklearn

    if link is not None:
        raise ValueError(
            f"link={link!r} is for custom objectives of LightGBM and XGBoost; {source} states its own"
        )
    if not {*names}.isdisjoint(_HISTOGRAM):
        return sklearn.import_hist_gradient_boosting(model, source)
    if not {*names}.isdisjoint(_BOOSTED):
        return sklearn.import_gradient_boosting(model, source)
    if not {*names}.isdisjoint(_FORESTS):
        return sklearn.import_forest(model, source)
    return None


def _import_lightgbm(model: Any, names: list[str], source: str, link: str | None) -> Imported | None:
    from anytime.trees.importers import lightgbm

    if "Booster" in names:
        return lightgbm.import_booster(model, source, link)
    return lightgbm.import_estimator(model, source, link) if "LGBMModel" in names else None


def _import_xgboost(model: Any, names: list[str], source: str, link: str | None) -> Imported | None:
    from anytime.trees.importers import xgboost

    if "Booster" in names:
        return xgboost.import_booster(model, source, link)
    return xgboost.import_estimator(model, source, link) if "XGBModel" in names else None


_IMPORT: dict[str, Callable[[Any, list[str], str, str | None], Imported | None]] = {
    "sklearn": _import_sklearn,
    "lightgbm": _import_lightgbm,
    "xgboost": _import_xgboost,
}


def _import_pickle(path: Path, trusted: bool) -> Imported:
    if path.suffix.lower() == ".skops":
        raise ValueError(
            f"{path}: open a skops file with skops.io.load, which asks you what to trust, and pass the model to import_trees"
        )
    if not trusted:
        raise ValueError(
            f"{path} is a pickle, and loading a pickle can run any code. If you trust the file, "
            "say so: import_file(path, trusted=True)"
        )
    import joblib

    return import_trees(joblib.load(path))


def _read_document(data: bytes) -> dict[str, Any]:
    """JSON, or UBJSON: there an object's first key is preceded by the type of its length."""
    from anytime.trees.importers.ubjson import read_ubjson

    is_json = data[1:].lstrip()[:1] in (b'"', b"}")
    document = json.loads(data) if is_json else read_ubjson(data)
    if "learner" not in document:
        raise ValueError(
            "this is not an XGBoost model: it has no 'learner' (a dump is not a model; use save_model)"
        )
    return dict(document)
