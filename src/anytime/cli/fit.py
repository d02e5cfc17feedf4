"""``anytime fit``: from a table to an ``.anytime`` file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anytime.cli.errors import CliError, UsageError
from anytime.cli.io import (
    check_writable,
    labels_of,
    listing,
    load_estimator,
    numbers_of,
    read_costs,
    read_table,
    target_of,
    training_features,
)
from anytime.cli.options import NaValues, OutputFile, PriceList, Seed, Target, Task, TaskName, Trusted, option
from anytime.cli.tables import amount, console, counted, note, print_text, print_title, step

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from anytime.costs import FeatureCosts

_DEAR_START = 0.5  # share of all costs that a first answer should not take
_SMALL = 1_000_000  # numbers in a table
_FEWEST = 10  # rows from which some can be held out
_FEW = 30  # held-out rows below which chance decides much of their quality
_MOST_CLASSES = 20  # whole numbers with more distinct values are taken for amounts, not for labels


class ModelName(StrEnum):
    """What ``--model`` may be."""

    speedboost = "speedboost"
    auto = "auto"
    additive_speedboost = "additive-speedboost"
    boosting = "boosting"
    hist = "hist"
    forest = "forest"
    extra = "extra"
    lightgbm = "lightgbm"
    xgboost = "xgboost"
    linear = "linear"
    linear_tree = "linear-tree"
    budget_forest = "budget-forest"
    adaptive = "adaptive"
    ladder = "ladder"


# these can keep a tree to some columns
_CONSTRAINABLE = (ModelName.hist, ModelName.lightgbm, ModelName.xgboost)
_OURS = {  # models that are anytime from the start: their room and name
    ModelName.speedboost: ("boosting", "SpeedBoost"),
    ModelName.auto: ("auto", "Auto"),
    ModelName.additive_speedboost: ("boosting", "AdditiveSpeedBoost"),
    ModelName.boosting: ("boosting", "GradientBoosting"),
    ModelName.linear: ("linear", "GroupPursuit"),
    ModelName.linear_tree: ("linear", "SubmodularTree"),
    ModelName.budget_forest: ("forests", "BudgetForest"),
    ModelName.adaptive: ("adaptive", "Adaptive"),
    ModelName.ladder: ("adaptive", "Ladder"),
}
_IN_FRONT = (ModelName.ladder, ModelName.adaptive)  # models that send rows on to a costly one
_LENGTHS = ("n_estimators", "max_iter")  # names of --n-estimators: the first that is there
_OPTIONS = {
    "costs": "costs",
    "costly": "costly",
    "budget": "budget",
    "mean_budget": "mean-budget",
    "random_state": "seed",
    "time_budget": "time-budget",
}  # parameters that --set leaves alone
_NEEDS_NUMBERS = (ModelName.forest, ModelName.extra, ModelName.linear, ModelName.linear_tree)


def fit(
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help="CSV or Parquet file; - reads CSV from a pipe.")
    ],
    target: Target,
    output: OutputFile,
    costs: PriceList = None,
    model: Annotated[
        ModelName,
        option(
            "NAME",
            "The learner. speedboost: accurate at every budget. "
            "auto: the best of trees, forests, linear models and a network at each budget. "
            "additive-speedboost: the papers' rules, whose stages add up. boosting: the same trees, ignoring "
            "prices. linear: buys groups of columns by gain per price. linear-tree: a tree of linear classifiers. "
            "budget-forest: a forest that costs --mean-budget per row on average. "
            "ladder: cheap models that send uncertain rows to a --costly one, for --mean-budget per row on average. "
            "adaptive: the same with one cheap model and a learned gate. "
            "hist, forest, extra, lightgbm, xgboost: trees of scikit-learn, LightGBM or XGBoost, reordered by gain per price.",
        ),
    ] = ModelName.speedboost,
    task: Task = TaskName.auto,
    holdout: Annotated[
        float,
        option("SHARE", "Share of the rows held out to evaluate the model; 0: none.", min=0.0, max=0.9),
    ] = 0.2,
    budget: Annotated[
        float | None,
        option(
            "COST",
            "Default budget of the model: the most that a row may pay. None: unlimited.",
            min=0.0,
        ),
    ] = None,
    mean_budget: Annotated[
        float | None,
        option(
            "COST",
            "Average cost per row that a budget-forest, ladder or adaptive model is trained for. None: unlimited.",
            min=0.0,
        ),
    ] = None,
    time_budget: Annotated[
        float | None,
        option("SECONDS", "Seconds that training may take. None: as long as the model needs.", min=0.01),
    ] = None,
    one_group_per_tree: Annotated[
        bool | None,
        typer.Option(
            "--one-group-per-tree/--mixed",
            help="Restrict each tree to the columns of one group (hist, lightgbm, xgboost). A tree that mixes groups has to "
            "pay for all of them, which makes the first answer expensive. Trees of one group answer cheaply at first, but cannot "
            "learn interactions between groups. Default: on when --costs is given.",
            show_default=False,
        ),
    ] = None,
    n_estimators: Annotated[
        int | None, option("N", "Number of trees. None: the default of the library.", min=1)
    ] = None,
    settings: Annotated[
        list[str] | None,
        option(
            "NAME=VALUE",
            "Any parameter of the model, as in Python: --set l2_regularization=0.01. May be repeated.",
            "--set",
        ),
    ] = None,
    costly: Annotated[
        Path | None,
        option(
            "FILE",
            "The costly model of --model ladder or adaptive: .anytime, or with --trusted a pickle. None: boosted trees on "
            "all columns.",
        ),
    ] = None,
    trusted: Trusted = False,
    seed: Seed = 0,
    na_values: NaValues = None,
) -> None:
    """Train a model that can be interrupted.

    The rows are split into three parts: one trains the model, one chooses its order (or its regularisation), and held-out rows
    evaluate the result.

    Example: anytime fit heart.csv --target disease --costs prices.yaml -o heart.anytime
    """
    from anytime.costs import FeatureCosts

    check_writable(output)
    if costly is not None and model not in _IN_FRONT:
        raise UsageError(f"--costly goes with --model {' or '.join(_IN_FRONT)}, not with {model}")
    with step(f"reading {data}"):
        table = read_table(data, na_values=na_values)
    X, answers, classify = _training_rows(table, target, task, model, data)
    prices = FeatureCosts.coerce(read_costs(costs), X.shape[1], [str(name) for name in X.columns])
    grouped = _wants_groups(one_group_per_tree, model, priced=costs is not None)
    estimator = make_estimator(model, classify, seed, _constraints(prices, X, model) if grouped else None)
    own_settings = read_settings(estimator, settings or [])
    own_settings |= _bounds(estimator, model, budget, mean_budget, time_budget) | _length(
        estimator, model, n_estimators, own_settings
    )
    if costly is not None:
        own_settings["costly"] = load_estimator(costly, trusted)
    train, test = split_rows(answers, holdout, classify, seed)
    _announce(X, answers, classify, grouped)
    if holdout and not len(test):
        note(f"fewer than {_FEWEST} rows: none are held out, so the quality on new rows is unknown")
    elif 0 < len(test) < _FEW:
        note(f"only {len(test)} rows are held out: their quality says little about new rows")
    with step(f"training {type(estimator).__name__}"), few_threads(X.size):
        fitted = train_model(estimator, X.iloc[train], answers[train], classify, prices, own_settings, seed)
    fitted.save(output)
    _summarise(fitted, X.iloc[test], answers[test], f"the {len(test)} rows held out")
    console().print(f"wrote {output}", soft_wrap=True)
    if model in _CONSTRAINABLE and not grouped:
        _mention_groups(fitted)


def _training_rows(
    table: pd.DataFrame, target: str, task: TaskName, model: ModelName, path: Path
) -> tuple[pd.DataFrame, NDArray[Any], bool]:
    """Columns, answers, and whether these are classes."""
    y = target_of(table, target, path)
    classify = is_classification(y, task, target, path)
    if model in (*_IN_FRONT, ModelName.linear_tree) and not classify:
        raise UsageError(f"--model {model} predicts classes, but the target {target!r} is a number")
    X = training_features(table.drop(columns=[target]), path)
    _reject_words(X, model, path)
    return X, labels_of(y) if classify else numbers_of(y, target, path).to_numpy(), classify


def _bounds(
    estimator: Any,
    model: ModelName,
    budget: float | None,
    mean_budget: float | None,
    time_budget: float | None,
) -> dict[str, float]:
    """The bounds that were given, as parameters."""
    if time_budget is not None and "time_budget" not in estimator.get_params():
        raise UsageError(f"--model {model} has no --time-budget")
    if mean_budget is not None and "mean_budget" not in estimator.get_params():
        raise UsageError(
            f"--model {model} is not trained for a --mean-budget; predict --mean-budget takes one"
        )
    bounds = {"budget": budget, "mean_budget": mean_budget, "time_budget": time_budget}
    return {name: value for name, value in bounds.items() if value is not None}


def _length(estimator: Any, model: ModelName, n: int | None, settings: dict[str, Any]) -> dict[str, int]:
    """``--n-estimators`` under the estimator's name for it, unless ``--set`` has named it."""
    if n is None:
        return {}
    parameters = estimator.get_params(deep=False)
    name = next((name for name in _LENGTHS if name in parameters), None)
    if name is None or model in (ModelName.linear, ModelName.linear_tree):
        raise UsageError(f"--model {model} has no --n-estimators")
    return {} if name in settings else {name: n}


# ---------------------------------------------------------------------- training


def train_model(
    estimator: Any,
    X: pd.DataFrame,
    y: NDArray[Any],
    classify: bool,
    costs: FeatureCosts,
    settings: dict[str, Any],
    seed: int,
) -> Any:
    """Fit an anytime model around ``estimator`` with these settings; a budget is the anytime model's."""
    import numpy as np

    from anytime.estimator import AnytimeModel
    from anytime.trees import AnytimeClassifier, AnytimeRegressor

    if isinstance(estimator, AnytimeModel):  # one of our own: it needs no wrapping
        return estimator.set_params(costs=costs, **settings).fit(X, y)
    face = AnytimeClassifier if classify else AnytimeRegressor
    budget = settings.pop("budget", None)
    wrapped = face(estimator.set_params(**settings), costs=costs, budget=budget, random_state=seed)
    if not classify or type(estimator).__name__ != "XGBClassifier":
        return wrapped.fit(X, y)
    labels, numbers = np.unique(y, return_inverse=True)  # XGBoost knows no labels but 0, 1, 2, …
    wrapped.fit(X, numbers)
    wrapped.classes_ = labels[wrapped.classes_]
    return wrapped


def make_estimator(
    model: ModelName, classify: bool, seed: int, constraints: list[list[int]] | None = None
) -> Any:
    """The estimator that ``--model`` names, with the library's own defaults; ``constraints``: columns that may share a tree."""
    kind = "Classifier" if classify else "Regressor"
    parameters: dict[str, Any] = {"random_state": seed}
    if model in _OURS:
        room, name = _OURS[model]
        estimator = getattr(import_module(f"anytime.{room}"), name + kind)()
        return estimator.set_params(**parameters) if "random_state" in estimator.get_params() else estimator
    if model is ModelName.lightgbm:
        import lightgbm

        parameters |= {"verbosity": -1, "deterministic": True, "force_row_wise": True}
        if constraints is not None:
            parameters["interaction_constraints"] = constraints
        return getattr(lightgbm, f"LGBM{kind}")(**parameters)
    if model is ModelName.xgboost:
        import xgboost

        parameters["enable_categorical"] = True
        if constraints is not None:
            parameters["interaction_constraints"] = str(constraints)
        return getattr(xgboost, f"XGB{kind}")(**parameters)
    import sklearn.ensemble

    if model is ModelName.hist:
        parameters["categorical_features"] = "from_dtype"
        if constraints is not None:
            parameters["interaction_cst"] = [set(columns) for columns in constraints]
    names = {
        ModelName.hist: "HistGradientBoosting",
        ModelName.forest: "RandomForest",
        ModelName.extra: "ExtraTrees",
    }
    return getattr(sklearn.ensemble, names[model] + kind)(**parameters)


@contextmanager
def few_threads(size: int) -> Iterator[None]:
    """One thread for a small table: there, waiting for each other costs threads more time than they save."""
    from threadpoolctl import threadpool_limits  # scikit-learn brings it

    with threadpool_limits(1 if size < _SMALL else None, user_api="openmp"):
        yield


def split_rows(
    y: NDArray[Any], holdout: float, classify: bool, seed: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Rows to train on and rows to judge on; every class has a row to train on, and one to judge on where it has enough."""
    import numpy as np
    from sklearn.model_selection import train_test_split

    rows = np.arange(len(y))
    if holdout == 0 or len(y) < _FEWEST:
        return rows, rows[:0]
    if not classify:
        train, test = train_test_split(rows, test_size=holdout, random_state=seed)
        return np.sort(train), np.sort(test)
    _, numbers, counts = np.unique(y, return_inverse=True, return_counts=True)
    held_out = int(np.ceil(holdout * len(y)))
    enough = counts.min() >= 2 and len(counts) <= min(held_out, len(y) - held_out)
    train, test = train_test_split(
        rows, test_size=holdout, random_state=seed, stratify=numbers if enough else None
    )
    untrained, first = np.unique(numbers[test], return_index=True)
    back = test[first[~np.isin(untrained, numbers[train])]]  # a class without training rows cannot be learned
    return np.sort(np.append(train, back)), np.setdiff1d(test, back)


# ---------------------------------------------------------------------- what was asked for


def _reject_words(X: pd.DataFrame, model: ModelName, path: Path) -> None:
    words = _words(X)
    if words and model in _NEEDS_NUMBERS:
        takers = ", ".join(name for name in ModelName if name not in _NEEDS_NUMBERS)
        raise UsageError(
            f"{path}: --model {model} needs numbers, but {listing(words)} "
            f"{'holds' if len(words) == 1 else 'hold'} strings; use one of {takers}, or encode them"
        )


def _words(X: pd.DataFrame) -> list[str]:
    """Columns that are read as categories."""
    return [str(name) for name in X.columns if X[name].dtype == "category"]


def is_classification(y: pd.Series[Any], task: TaskName, target: str, path: Path) -> bool:
    """Whether a target holds classes: as ``--task`` says, or words and few whole numbers."""
    import pandas as pd

    numeric = pd.api.types.is_numeric_dtype(y) and not pd.api.types.is_bool_dtype(y)
    if task is TaskName.regression and not numeric:
        raise UsageError(f"{path}: regression needs numbers, but the target {target!r} holds {y.iloc[0]}")
    distinct = int(y.nunique())
    few_numbers = numeric and distinct <= _MOST_CLASSES and bool((y == y.round()).all())
    classify = task is TaskName.classification or (task is TaskName.auto and (not numeric or few_numbers))
    if distinct < 2:
        raise CliError(
            f"{path}: the target {target!r} has only one value, {y.iloc[0]}; there is nothing to learn"
        )
    if classify and not numeric and distinct > len(y) / 2:
        raise CliError(
            f"{path}: the target {target!r} has {distinct} classes in {len(y)} rows; is it the right column?"
        )
    return classify


def _wants_groups(asked: bool | None, model: ModelName, priced: bool) -> bool:
    if asked and model not in _CONSTRAINABLE:
        raise UsageError(
            f"--one-group-per-tree works with --model {', '.join(_CONSTRAINABLE)}, not with {model}"
        )
    if asked is None:
        return priced and model in _CONSTRAINABLE
    return asked


def read_settings(estimator: Any, texts: list[str]) -> dict[str, Any]:
    """What ``--set`` says, as parameters of the estimator; values are YAML."""
    import yaml

    parameters = {
        name: value for name, value in estimator.get_params(deep=False).items() if name not in _OPTIONS
    }
    settings: dict[str, Any] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not name:
            raise UsageError(f"--set {text!r} is not of the form NAME=VALUE, as in --set max_depth=3")
        if name in _OPTIONS:
            raise UsageError(f"--set {name}: there is an option for that, --{_OPTIONS[name]}")
        if name not in parameters:
            near = get_close_matches(name, parameters, n=3) or sorted(parameters)
            raise UsageError(
                f"--set {name}: {type(estimator).__name__} has no such parameter; it has {', '.join(near)}"
            )
        try:
            settings[name] = _number(yaml.safe_load(value))
        except yaml.YAMLError:
            raise UsageError(f"--set {name}: {value!r} cannot be read as a value (YAML)") from None
    return settings


def _number(value: Any) -> Any:
    """``value``, or the number that YAML takes for a word: 1e-3."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _constraints(costs: FeatureCosts, X: pd.DataFrame, model: ModelName) -> list[list[int]]:
    """Columns that may stand in one tree: those of a group and of what it requires, which is paid for anyway."""
    import numpy as np

    if model is ModelName.hist:  # scikit-learn counts columns after it has moved categories to the front
        X = X[sorted(X.columns, key=lambda name: str(X[name].dtype) != "category")]
    names = [str(name) for name in X.columns]
    bound = costs.bind(len(names), names)
    allowed = []
    for group in range(bound.n_groups):
        if bound.has_columns[group]:
            closure = bound.closure(np.array([group], dtype=np.int32))
            allowed.append(np.flatnonzero(closure[bound.column_group]).tolist())
    return allowed


# ---------------------------------------------------------------------- output


def _announce(X: pd.DataFrame, y: NDArray[Any], classify: bool, grouped: bool) -> None:
    import numpy as np

    what = f"classification, {len(np.unique(y))} classes" if classify else "regression"
    trees = ", one group per tree" if grouped else ""
    print_title(f"{counted(len(X), 'row')}, {counted(X.shape[1], 'column')}: {what}{trees}")
    if words := _words(X):
        print_text(f"read as categories: {listing(words)}")


def _summarise(model: Any, X: pd.DataFrame, y: NDArray[Any], rows: str) -> None:
    from anytime.cli.purchases import print_purchases
    from anytime.curves import curve

    judged = curve(model, X, y, meter=model.meter) if len(X) else None
    print_purchases(model, judged, rows)
    if judged is not None:
        if model.plan_.branches:  # a known budget may buy a better answer than the chain's
            judged = curve(model, X, y)
        enough = amount(judged.stopping_cost(0.95), judged.unit)
        print_text(f"95% of the gain costs {enough}; everything, {amount(judged.total_cost, judged.unit)}")


def _mention_groups(model: Any) -> None:
    """Say so when the first answer that costs anything costs nearly everything."""
    paid = model.stage_costs_[model.stage_costs_ > 0]
    if paid.size and paid[0] > _DEAR_START * paid[-1]:
        note("the first answer costs most of the total price; --one-group-per-tree allows cheaper ones")
