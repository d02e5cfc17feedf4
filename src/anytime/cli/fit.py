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
    read_costs,
    read_table,
    target_of,
    training_features,
)
from anytime.cli.options import Trusted
from anytime.cli.tables import amount, console, counted, note, print_text, print_title, step

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from anytime.costs import FeatureCosts

__all__ = ["fit", "is_classification", "read_settings"]

_DEAR_START = 0.5  # share of all costs that a first answer should not take
_SMALL = 1_000_000  # numbers in a table
_FEWEST = 10  # rows from which some can be kept aside
_MOST_CLASSES = 20  # whole numbers with more distinct values are taken for amounts, not for labels


class Learner(StrEnum):
    """What ``--model`` may be."""

    speedboost = "speedboost"
    additive_speedboost = "additive-speedboost"
    boosting = "boosting"
    hist = "hist"
    forest = "forest"
    extra = "extra"
    lightgbm = "lightgbm"
    xgboost = "xgboost"
    linear = "linear"
    budget_forest = "budget-forest"
    adaptive = "adaptive"
    ladder = "ladder"


class Task(StrEnum):
    """What ``--task`` may be."""

    auto = "auto"
    classification = "classification"
    regression = "regression"


_CONSTRAINABLE = (Learner.hist, Learner.lightgbm, Learner.xgboost)  # these can keep a tree to some columns
_OURS = {  # models that are anytime from the start: their room and name
    Learner.speedboost: ("boosting", "SpeedBoost"),
    Learner.additive_speedboost: ("boosting", "AdditiveSpeedBoost"),
    Learner.boosting: ("boosting", "GradientBoosting"),
    Learner.linear: ("linear", "GroupPursuit"),
    Learner.budget_forest: ("forests", "BudgetForest"),
    Learner.adaptive: ("adaptive", "Adaptive"),
    Learner.ladder: ("adaptive", "Ladder"),
}
_IN_FRONT = (Learner.ladder, Learner.adaptive)  # models that send rows on to a costly one
_ROUNDS = {
    Learner.hist: "max_iter",
    Learner.budget_forest: "n_trees",
    Learner.adaptive: "n_estimators",
    Learner.ladder: "n_estimators",
}
_OPTIONS = {
    "costs": "costs",
    "costly": "costly",
    "budget": "budget",
    "random_state": "seed",
}  # parameters that --set leaves alone
_TAKES_WORDS = (
    *(Learner.speedboost, Learner.additive_speedboost, Learner.boosting, Learner.budget_forest, *_IN_FRONT),
    *_CONSTRAINABLE,
)


def fit(
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help="CSV or Parquet file; - reads CSV from a pipe.")
    ],
    target: Annotated[str, typer.Option("--target", "-t", metavar="COLUMN", help="The column to predict.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The .anytime file to write.")
    ],
    costs: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Price list in YAML or CSV: what groups of columns cost. None: 1 per column."
        ),
    ] = None,
    model: Annotated[
        Learner,
        typer.Option(
            help="What is trained. speedboost: as good as possible at every budget. "
            "additive-speedboost: the papers' rules, whose stages add up. boosting: the same trees, blind to "
            "prices. linear: groups of columns by gain per price. budget-forest: a forest whose rows pay --budget on average. "
            "ladder: cheap models that send rows in doubt to a --costly one; they pay --budget on average. adaptive: the same "
            "with one cheap model and a learned gate. "
            "hist, forest, extra, lightgbm, xgboost: trees of scikit-learn, LightGBM or XGBoost, put into a good order.",
            metavar="NAME",
        ),
    ] = Learner.speedboost,
    task: Annotated[Task, typer.Option(help="auto: words and few whole numbers are classes.")] = Task.auto,
    holdout: Annotated[
        float,
        typer.Option(
            min=0.0,
            max=0.9,
            metavar="SHARE",
            help="Share of the rows that is kept aside to judge the model; 0: none.",
        ),
    ] = 0.2,
    budget: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            metavar="COST",
            help="Budget of a prediction that names none; of a budget-forest, ladder or adaptive model, what rows pay on "
            "average. None: unlimited.",
        ),
    ] = None,
    one_group_per_tree: Annotated[
        bool | None,
        typer.Option(
            "--one-group-per-tree/--mixed",
            help="Let each tree use the columns of one group only (hist, lightgbm, xgboost). A tree that mixes groups has to "
            "pay for all of them, so the first answer is costly; trees of one group make cheap first answers possible, at the "
            "price of effects that need two groups at once. Default: on when --costs is given.",
            show_default=False,
        ),
    ] = None,
    trees: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Trees of a forest, or rounds of boosting. None: the library's own."
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Any parameter of the model, as in Python: --set selection=forward --set ridge=0.01. May be repeated.",
        ),
    ] = None,
    costly: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The costly model of --model ladder or adaptive: .anytime, or with --trusted a pickle. None: boosted trees on "
            "all columns.",
        ),
    ] = None,
    trusted: Trusted = False,
    seed: Annotated[int, typer.Option(metavar="N", help="The same seed gives the same model.")] = 0,
) -> None:
    """Train a model that can be interrupted.

    One part of the rows trains the model, one decides in which order it answers (or how much it is regularised), and one that
    neither has seen judges the result.

    Example: anytime fit heart.csv --target disease --costs prices.yaml -o heart.anytime
    """
    from anytime.costs import FeatureCosts

    check_writable(output)
    if costly is not None and model not in _IN_FRONT:
        raise UsageError(f"--costly goes with --model {' or '.join(_IN_FRONT)}, not with {model}")
    with step(f"reading {data}"):
        table = read_table(data)
    y = target_of(table, target, data)
    classify = is_classification(y, task, target, data)
    X = training_features(table.drop(columns=[target]), data)
    _reject_words(X, model, data)
    if model in _IN_FRONT and not classify:
        raise UsageError(f"--model {model} predicts classes, but the target {target!r} is a number")
    prices = FeatureCosts.coerce(read_costs(costs), X.shape[1], [str(name) for name in X.columns])
    grouped = _wants_groups(one_group_per_tree, model, priced=costs is not None)
    if model is Learner.linear and trees is not None:
        raise UsageError("--trees does not go with --model linear, which has none")
    estimator = make_estimator(model, classify, seed, _constraints(prices, X, model) if grouped else None)
    asked = read_settings(estimator, settings or [])
    if costly is not None:
        asked["costly"] = load_estimator(costly, trusted)
    if trees is not None:
        asked.setdefault(_ROUNDS.get(model, "n_estimators"), trees)
    estimator.set_params(**asked)
    train, test = split_rows(y, holdout, classify, seed)
    answers = labels_of(y) if classify else y.to_numpy(dtype=float)
    _announce(X, answers, classify, grouped)
    if holdout and not len(test):
        note(f"fewer than {_FEWEST} rows: none are kept aside, and nothing is known of new ones")
    with step(f"training {type(estimator).__name__}"), few_threads(X.size):
        fitted = train_model(estimator, X.iloc[train], answers[train], classify, prices, budget, seed)
    fitted.save(output)
    _summarise(fitted, X.iloc[test], answers[test], f"the {len(test)} rows kept aside")
    console().print(f"wrote {output}", soft_wrap=True)
    if model in _CONSTRAINABLE and not grouped:
        _mention_groups(fitted)


# ---------------------------------------------------------------------- training


def train_model(
    estimator: Any,
    X: pd.DataFrame,
    y: NDArray[Any],
    classify: bool,
    costs: FeatureCosts,
    budget: float | None,
    seed: int,
) -> Any:
    """Fit an anytime model around ``estimator``."""
    import numpy as np

    from anytime.estimator import AnytimeModel
    from anytime.trees import AnytimeClassifier, AnytimeRegressor

    if isinstance(estimator, AnytimeModel):  # one of our own: it needs no wrapping
        return estimator.set_params(costs=costs, budget=budget, random_state=seed).fit(X, y)
    face = AnytimeClassifier if classify else AnytimeRegressor
    wrapped = face(estimator, costs=costs, budget=budget, random_state=seed)
    if not classify or type(estimator).__name__ != "XGBClassifier":
        return wrapped.fit(X, y)
    labels, numbers = np.unique(y, return_inverse=True)  # XGBoost knows no labels but 0, 1, 2, …
    wrapped.fit(X, numbers)
    wrapped.classes_ = labels[wrapped.classes_]
    return wrapped


def make_estimator(
    model: Learner, classify: bool, seed: int, constraints: list[list[int]] | None = None
) -> Any:
    """The estimator that ``--model`` names, with the library's own defaults.

    Parameters
    ----------
    model : Learner
    classify : bool
    seed : int
    constraints : list of lists of int or None
        Columns that may stand in one tree together.
    """
    kind = "Classifier" if classify else "Regressor"
    parameters: dict[str, Any] = {"random_state": seed}
    if model in _OURS:
        room, name = _OURS[model]
        return getattr(import_module(f"anytime.{room}"), name + kind)(**parameters)
    if model is Learner.lightgbm:
        import lightgbm

        parameters |= {"verbosity": -1, "deterministic": True, "force_row_wise": True}
        if constraints is not None:
            parameters["interaction_constraints"] = constraints
        return getattr(lightgbm, f"LGBM{kind}")(**parameters)
    if model is Learner.xgboost:
        import xgboost

        parameters["enable_categorical"] = True
        if constraints is not None:
            parameters["interaction_constraints"] = str(constraints)
        return getattr(xgboost, f"XGB{kind}")(**parameters)
    import sklearn.ensemble

    if model is Learner.hist:
        parameters["categorical_features"] = "from_dtype"
        if constraints is not None:
            parameters["interaction_cst"] = [set(columns) for columns in constraints]
    names = {
        Learner.hist: "HistGradientBoosting",
        Learner.forest: "RandomForest",
        Learner.extra: "ExtraTrees",
    }
    return getattr(sklearn.ensemble, names[model] + kind)(**parameters)


@contextmanager
def few_threads(size: int) -> Iterator[None]:
    """One thread for a small table: there, waiting for each other costs threads more time than they save."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # scikit-learn brings it

    with threadpool_limits(1 if size < _SMALL else None, user_api="openmp"):
        yield


def split_rows(
    y: pd.Series[Any], holdout: float, classify: bool, seed: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Rows to train on and rows to judge on; every class is on both sides where it has rows enough."""
    import numpy as np
    from sklearn.model_selection import train_test_split

    rows = np.arange(len(y))
    if holdout == 0 or len(y) < _FEWEST:
        return rows, rows[:0]
    counts = y.value_counts()
    kept = int(np.ceil(holdout * len(y)))
    stratify = y if classify and counts.min() >= 2 and len(counts) <= min(kept, len(y) - kept) else None
    train, test = train_test_split(rows, test_size=holdout, random_state=seed, stratify=stratify)
    return np.sort(train), np.sort(test)


# ---------------------------------------------------------------------- what was asked for


def _reject_words(X: pd.DataFrame, model: Learner, path: Path) -> None:
    words = _words(X)
    if words and model not in _TAKES_WORDS:
        takers = ", ".join(_TAKES_WORDS)
        raise UsageError(
            f"{path}: --model {model} needs numbers, but {listing(words)} "
            f"{'holds' if len(words) == 1 else 'hold'} words; use one of {takers}, or encode them"
        )


def _words(X: pd.DataFrame) -> list[str]:
    """Columns that are taken as words."""
    return [str(name) for name in X.columns if X[name].dtype == "category"]


def is_classification(y: pd.Series[Any], task: Task, target: str, path: Path) -> bool:
    """Whether a target holds classes: as ``--task`` says, or words and few whole numbers."""
    import pandas as pd

    numeric = pd.api.types.is_numeric_dtype(y) and not pd.api.types.is_bool_dtype(y)
    if task is Task.regression and not numeric:
        raise UsageError(f"{path}: regression needs numbers, but the target {target!r} holds {y.iloc[0]}")
    distinct = int(y.nunique())
    few_numbers = numeric and distinct <= _MOST_CLASSES and bool((y == y.round()).all())
    classify = task is Task.classification or (task is Task.auto and (not numeric or few_numbers))
    if distinct < 2:
        raise CliError(
            f"{path}: the target {target!r} has one value only, {y.iloc[0]}; there is nothing to learn"
        )
    if classify and not numeric and distinct > len(y) / 2:
        raise CliError(
            f"{path}: the target {target!r} has {distinct} classes in {len(y)} rows; is it the right column?"
        )
    return classify


def _wants_groups(asked: bool | None, model: Learner, priced: bool) -> bool:
    if asked and model not in _CONSTRAINABLE:
        raise UsageError(
            f"--one-group-per-tree works with --model {', '.join(_CONSTRAINABLE)}, not with {model}"
        )
    if asked is None:
        return priced and model in _CONSTRAINABLE
    return asked


def read_settings(estimator: Any, given: list[str]) -> dict[str, Any]:
    """What ``--set`` says, as parameters of the estimator; values are YAML."""
    import yaml

    known = {name: value for name, value in estimator.get_params(deep=False).items() if name not in _OPTIONS}
    settings: dict[str, Any] = {}
    for text in given:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not name:
            raise UsageError(f"--set {text!r} is not of the form NAME=VALUE, as in --set max_depth=3")
        if name in _OPTIONS:
            raise UsageError(f"--set {name}: there is an option for that, --{_OPTIONS[name]}")
        if name not in known:
            near = get_close_matches(name, known, n=3) or sorted(known)
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


def _constraints(costs: FeatureCosts, X: pd.DataFrame, model: Learner) -> list[list[int]]:
    """Columns that may stand in one tree: those of a group and of what it requires, which is paid for anyway."""
    import numpy as np

    if model is Learner.hist:  # scikit-learn counts columns after it has moved categories to the front
        X = X[sorted(X.columns, key=lambda name: str(X[name].dtype) != "category")]
    names = [str(name) for name in X.columns]
    bound = costs.bind(len(names), names)
    allowed = []
    for group in range(bound.n_groups):
        if (bound.column_group == group).any():
            closure = bound.closure(np.array([group], dtype=np.int32))
            allowed.append(np.flatnonzero(closure[bound.column_group]).tolist())
    return allowed


# ---------------------------------------------------------------------- what is said


def _announce(X: pd.DataFrame, y: NDArray[Any], classify: bool, grouped: bool) -> None:
    import numpy as np

    what = f"classification, {len(np.unique(y))} classes" if classify else "regression"
    trees = ", one group per tree" if grouped else ""
    print_title(f"{counted(len(X), 'row')}, {counted(X.shape[1], 'column')}: {what}{trees}")
    if words := _words(X):
        print_text(f"taken as words: {listing(words)}")


def _summarise(model: Any, X: pd.DataFrame, y: NDArray[Any], rows: str) -> None:
    from anytime.cli.purchases import print_purchases
    from anytime.curves import curve

    judged = curve(model, X, y) if len(X) else None
    print_purchases(model, judged, rows)
    if judged is not None:
        enough = amount(judged.stopping_cost(0.95), judged.unit)
        print_text(f"95% of the gain costs {enough}; everything, {amount(judged.total_cost, judged.unit)}")


def _mention_groups(model: Any) -> None:
    """Say so when the first answer that costs anything costs nearly everything."""
    paid = model.stage_costs_[model.stage_costs_ > 0]
    if paid.size and paid[0] > _DEAR_START * paid[-1]:
        note(
            "the first answer costs most of what there is to pay; --one-group-per-tree makes cheaper ones possible"
        )
