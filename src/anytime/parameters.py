"""Constructor parameters that several families share, declared once: meaning, constraint and usual default.

An estimator under ``@declared()`` documents and constrains only its own parameters; its docstring and its
``_parameter_constraints`` are completed from here. What a family adds to the description of a shared parameter comes after the
sentence in this file. ``shared`` returns the constraints alone.
"""

import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from functools import cache, wraps
from inspect import cleandoc, isfunction, signature
from numbers import Integral, Real
from typing import Any, NamedTuple, TypeVar

import numpy as np

from anytime._compat import Interval, StrOptions
from anytime.progress import one_fit

Model = TypeVar("Model")
Function = TypeVar("Function", bound=Callable[..., Any])

positive_integer = Interval(Integral, 1, None, closed="left")
not_negative = Interval(Real, 0, None, closed="left")
positive = Interval(Real, 0, None, closed="neither")
fraction = Interval(Real, 0, 1, closed="neither")


class Parameter(NamedTuple):
    """One shared constructor parameter."""

    doc: str  # one sentence: what it means, in every family
    constraint: Any  # what scikit-learn's parameter validation checks
    default: Any = None  # the usual default; a family may have a reason for another
    kind: str = "float"  # what it may be, in words


PARAMETERS: dict[str, Parameter] = {
    "costs": Parameter(
        "What columns cost. None: 1 per column.",
        "no_validation",
        kind="FeatureCosts, mapping, table, path or sequence",
    ),  # FeatureCosts checks them
    "budget": Parameter(
        "Budget used when ``predict`` is given no bound: the most that any row may pay. None: no limit.",
        [Interval(Real, 0, np.inf, closed="both"), None],
    ),
    "budgets": Parameter(
        "Known budgets to plan for, in the unit of ``costs``. None: up to 24, spaced evenly on the logarithm of cost.",
        ["array-like", None],
        kind="array-like of float",
    ),
    "mean_budget": Parameter(
        "Mean budget used when ``predict`` is given no bound: what rows may pay on average. None: no limit.",
        [Interval(Real, 0, np.inf, closed="both"), None],
    ),
    "meter": Parameter(
        "How a budget is counted: by what each row really pays, or by the most that a stage can cost.",
        [StrOptions({"model", "realised"})],
        "model",
        kind='{"model", "realised"}',
    ),
    "evaluation_cost": Parameter(
        "Price of evaluating one stage, without its features, in the unit of ``costs``.", [not_negative], 0.0
    ),
    "cost_penalty": Parameter(
        "Loss that one unit of cost must save to be worth spending.", [not_negative], 0.0
    ),
    "cost_aware": Parameter(
        "False: choose by gain alone, as a baseline; costs are still charged.",
        ["boolean"],
        True,
        kind="bool",
    ),
    "schedule": Parameter(
        '"doubling": never buy anything that costs more than everything so far.',
        [StrOptions({"greedy", "doubling"})],
        "greedy",
        kind='{"greedy", "doubling"}',
    ),
    "c_min": Parameter(
        'For "doubling": maximum cost of the first purchase.',
        [Interval(Real, 0, None, closed="neither")],
    ),
    "n_neighbors": Parameter("Number of neighbours.", [positive_integer], kind="int"),
    "time_budget": Parameter("Seconds that ``fit`` may take. None: no limit.", [positive, None]),
    "max_stages": Parameter("Maximum number of stages.", [positive_integer], kind="int"),
    "n_estimators": Parameter(
        "Number of trees or learners in the ensemble.", [positive_integer], 100, kind="int"
    ),
    "learning_rate": Parameter("Factor by which each learner's step is shrunk.", [positive], 0.1),
    "max_leaf_nodes": Parameter(
        "Maximum number of leaves per tree. None: no limit.",
        [Interval(Integral, 2, None, closed="left"), None],
        31,
        kind="int or None",
    ),
    "max_depth": Parameter(
        "Maximum number of splits from root to leaf. None: no limit.",
        [positive_integer, None],
        kind="int or None",
    ),
    "min_samples_leaf": Parameter(
        "Minimum number of training rows in a leaf.", [positive_integer], 20, kind="int"
    ),
    "l2_regularization": Parameter(
        "Ridge penalty: half of it times the squared weights (of trees: leaf values) is added to the loss.",
        [not_negative],
        0.0,
    ),
    "max_bins": Parameter(
        "Maximum number of bins per column; missing values have a bin of their own.",
        [Interval(Integral, 2, 255, closed="both")],
        255,
        kind="int",
    ),
    "categorical_features": Parameter(
        'Columns that hold categories. "from_dtype": the non-numeric columns of a table.',
        ["array-like", StrOptions({"from_dtype"}), None],
        "from_dtype",
        kind='"from_dtype", list of columns or None',
    ),
    "class_weight": Parameter(
        'Weights of the classes. "balanced": inversely proportional to their frequency. None: 1 each.',
        [dict, StrOptions({"balanced"}), None],
        kind='dict, "balanced" or None',
    ),
    "validation_fraction": Parameter(
        "Share of the training rows held out for decisions. None: no rows.",
        [fraction, None],
        0.2,
        kind="float or None",
    ),
    "calibration": Parameter(
        '"auto": a fifth of the training rows, at most 5,000, is held out to calibrate every stage. None: no rows.',
        [StrOptions({"auto"}), None],
        kind='"auto" or None',
    ),
    "n_iter_no_change": Parameter(
        "Training ends after this many rounds without improvement on the validation rows.",
        [positive_integer],
        20,
        kind="int",
    ),
    "warm_start": Parameter(
        "Whether ``fit`` continues from the fitted model.", ["boolean"], False, kind="bool"
    ),
    "random_state": Parameter(
        "Seed; the same seed gives the same model.", ["random_state"], kind="int, RandomState or None"
    ),
    "n_jobs": Parameter(
        "Threads. None: 1; -1: all cores. The result does not depend on it.",
        [Interval(Integral, None, -1, closed="right"), positive_integer, None],
        kind="int",
    ),
    "verbose": Parameter("Whether progress is printed.", ["verbose"], 0, kind="int"),
}


# What fitted models have: what it is, and what it means.
_ATTRIBUTES = {
    "plan_": "Plan\n    The stages, with what they cost.",
    "classes_": "(C,) array\n    The labels.",
    "n_features_in_": "int",
    "feature_names_in_": "(d,) array of str\n    Only if the columns have names, all of them strings.",
    "stage_costs_": "(S,) array\n    Cumulative model cost after each stage.",
    "order_": "list of str\n    Groups in the order in which they are first bought.",
    "categories_": "dict of int to list\n    Columns whose values are categories, each with its categories.",
}
# those that not every class has, and what shows that one has them
_OF_SOME = {"classes_": "predict_proba", **{name: name for name in ("stage_costs_", "order_", "categories_")}}

MEANT = {  # what other libraries and papers call a parameter
    **dict.fromkeys(
        ("n_trees", "n_rounds", "n_learners", "num_boost_round", "iterations", "max_iter"), "n_estimators"
    ),
    **dict.fromkeys(("n_stages", "n_exits", "n_layers"), "max_stages"),
    **dict.fromkeys(("max_leaves", "num_leaves"), "max_leaf_nodes"),
    **dict.fromkeys(("min_rows", "min_data_in_leaf", "min_child_samples"), "min_samples_leaf"),
    **dict.fromkeys(("l2", "ridge", "alpha", "reg_lambda", "lambda_l2"), "l2_regularization"),
    **dict.fromkeys(("patience", "early_stopping_rounds"), "n_iter_no_change"),
    **dict.fromkeys(("tree_cost", "learner_cost", "computation"), "evaluation_cost"),
    **dict.fromkeys(("penalty", "gamma", "lam", "trade_off"), "cost_penalty"),
    **dict.fromkeys(("eta", "shrinkage", "step", "rate", "lr"), "learning_rate"),
    **dict.fromkeys(("prices", "feature_costs"), "costs"),
    **dict.fromkeys(("cross_fit", "n_folds", "cv"), "folds"),
    **dict.fromkeys(("l1", "reg_alpha", "lambda_l1"), "l1_regularization"),
    "n_passes": "epochs",
    "scoring": "metric",
    "metric": "scoring",
    "n_neighbours": "n_neighbors",
    "seed": "random_state",
    "n_threads": "n_jobs",
}


def shared(*names: str) -> dict[str, Any]:
    """Constraints of shared parameters, for a class's ``_parameter_constraints``.

    Examples
    --------
    >>> sorted(shared("verbose", "warm_start"))
    ['verbose', 'warm_start']
    """
    return {name: PARAMETERS[name].constraint for name in names}


def declared(*, like: type | None = None) -> Callable[[type[Model]], type[Model]]:
    """Class decorator: completes the docstring and the constraints of an estimator with the shared parameters.

    A constructor parameter without a description gets that of the sister class ``like``, or the one in ``PARAMETERS``, which is
    put before the family's own. The attributes of all fitted models are added, too. Entries are in the order of the constructor.

    Examples
    --------
    >>> @declared()
    ... class Model:
    ...     def __init__(self, *, budget=None): ...
    >>> "budget : float, default=None" in Model.__doc__
    True
    """

    def completed(model: type[Model]) -> type[Model]:
        parameters = {**signature(model.__init__).parameters}
        constraints = getattr(model, "_parameter_constraints", None)
        if constraints is not None:
            missing = [name for name in parameters if name in PARAMETERS and name not in constraints]
            model._parameter_constraints = {**constraints, **shared(*missing)}  # type: ignore[attr-defined]
        own, sister = _sections(model), _entries(_sections(like)["Parameters"])
        entries = {
            name: f"{name} : {p.kind}, default=None\n    {p.doc}" for name, p in PARAMETERS.items()
        } | sister
        for name in entries.keys() & parameters.keys():
            default = f"default={_written(parameters[name].default)}"
            entries[name] = re.sub("default=.*", default, entries[name], count=1)
        for name, entry in _entries(own["Parameters"]).items():
            head, *text = entry.split("\n")
            meaning = [f"    {PARAMETERS[name].doc}"] if name in PARAMETERS else []
            entries[name] = "\n".join([head, *meaning, *text])
        usual = {
            name: f"{name} : {text}"
            for name, text in _ATTRIBUTES.items()
            if name not in _OF_SOME or hasattr(model, _OF_SOME[name])
        }
        sections = own | {
            "Parameters": _joined(entries[name] for name in parameters if name in entries),
            "Attributes": _joined((usual | _entries(own["Attributes"])).values()),
        }
        parts = [
            f"{title}\n{'-' * len(title)}\n{body}" if title else body for title, body in sections.items()
        ]
        model.__doc__ = "\n\n".join(part.strip("\n") for part in parts)
        return model

    return completed


def _sections(model: type | None) -> dict[str, str]:
    """The parts of a numpydoc docstring by title; what stands before the first has none."""
    doc = cleandoc(getattr(model, "__doc__", None) or "")
    first, *parts = re.split(r"^(\w[\w ]*)\n-{3,}\n", doc, flags=re.MULTILINE)
    return {"": first, "Parameters": "", "Attributes": "", **dict(zip(parts[::2], parts[1::2], strict=True))}


def _entries(body: str) -> dict[str, str]:
    """The entries of a section by the names that they are of, of which one entry may have several."""
    entries = re.split(r"\n(?=\w)", body.strip("\n")) if body.strip() else []
    return {name: entry for entry in entries for name in re.split(r" : |\n", entry)[0].split(", ")}


def _joined(entries: Iterable[str]) -> str:
    return "\n".join(dict.fromkeys(entry.rstrip("\n") for entry in entries))


def _written(default: Any) -> str:
    return f'"{default}"' if isinstance(default, str) else repr(default)


def store(estimator: object, arguments: dict[str, Any]) -> None:
    """Store each argument of a constructor under its own name, as scikit-learn requires: ``store(self, locals())``.

    Examples
    --------
    >>> class Model:
    ...     def __init__(self, *, budget=None, verbose=0):
    ...         store(self, locals())
    >>> vars(Model(budget=3))
    {'budget': 3, 'verbose': 0}
    """
    for name, value in arguments.items():
        if name != "self":
            setattr(estimator, name, value)


def without(*names: str, **defaults: Any) -> Callable[[type[Model]], type[Model]]:
    """Class decorator: the inherited constructor, without some of its parameters and with other ``defaults``.

    Examples
    --------
    >>> class Classifier:
    ...     def __init__(self, *, budget=None, class_weight=None):
    ...         store(self, locals())
    >>> @without("class_weight")
    ... class Regressor(Classifier):
    ...     pass
    >>> vars(Regressor(budget=3)), signature(Regressor)
    ({'budget': 3}, <Signature (*, budget=None)>)
    """

    def narrowed(model: type[Model]) -> type[Model]:
        inherited: Any = model.__init__

        @wraps(inherited)
        def construct(self: Model, *wrapped: Any, **parameters: Any) -> None:
            inherited(self, *wrapped, **{**defaults, **parameters})
            for name in names:
                delattr(self, name)

        whole = signature(inherited)
        kept = [
            parameter.replace(default=defaults.get(name, parameter.default))
            for name, parameter in whole.parameters.items()
            if name not in names
        ]
        construct.__signature__ = whole.replace(parameters=kept)  # type: ignore[attr-defined]
        model.__init__ = construct  # type: ignore[method-assign,assignment]
        constraints: dict[str, Any] = getattr(model, "_parameter_constraints", {})
        model._parameter_constraints = {  # type: ignore[attr-defined]
            name: constraint for name, constraint in constraints.items() if name not in names
        }
        return model

    return narrowed


def check_names(estimator: type, names: Iterable[str]) -> None:
    """Reject constructor parameters that an estimator does not have, and suggest the one that may be meant.

    Examples
    --------
    >>> class Model:
    ...     def __init__(self, *, n_estimators=100): ...
    >>> check_names(Model, ["n_trees"])
    Traceback (most recent call last):
    TypeError: Model has no parameter 'n_trees'; did you mean 'n_estimators'?
    """
    _refuse_unknown(estimator.__name__, estimator.__init__, names)  # type: ignore[misc]


class KeywordsChecked:
    """A class whose public methods suggest the parameter that may be meant by an unknown keyword, and whose fits are followed."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, method in list(vars(cls).items()):
            if isfunction(method) and not name.startswith("_") and "." in method.__qualname__:
                setattr(cls, name, keywords_checked(one_fit(method) if name == "fit" else method))


def keywords_checked(function: Function) -> Function:
    """Decorator of a function or a method: suggests the parameter that may be meant by an unknown keyword."""

    @wraps(function)
    def called(*args: Any, **keywords: Any) -> Any:
        try:
            return function(*args, **keywords)
        except TypeError:
            owner = f"{type(args[0]).__name__}." if "self" in signature(function).parameters else ""
            _refuse_unknown(owner + function.__name__, function, keywords)
            raise

    return called  # type: ignore[return-value]


def _refuse_unknown(called: str, function: Callable[..., Any], names: Iterable[str]) -> None:
    accepted, takes_any = _parameters(function)
    for name in () if takes_any else names:
        if name not in accepted:
            near = [MEANT[name]] if MEANT.get(name) in accepted else get_close_matches(name, accepted, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(accepted)}"
            raise TypeError(f"{called} has no parameter {name!r}; {hint}") from None


@cache  # every construction, clone and copy asks
def _parameters(function: Callable[..., Any]) -> tuple[list[str], bool]:
    """Names of the parameters of a function or a method, and whether it takes any others."""
    accepted = [p for p in signature(function).parameters.values() if p.name != "self"]
    return [parameter.name for parameter in accepted], any(p.kind is p.VAR_KEYWORD for p in accepted)
