"""Constructor parameters that several families share, declared once: what they mean, what they may be, what they usually are.

A family writes ``_parameter_constraints = shared("n_estimators", "budget", ...) | {...}`` with what is its own, and begins the
docstring of each shared parameter with the sentence that stands here. A test holds every estimator to both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from functools import wraps
from inspect import signature
from numbers import Integral, Real
from typing import Any, NamedTuple, TypeVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

Model = TypeVar("Model")

positive_integer = Interval(Integral, 1, None, closed="left")
not_negative = Interval(Real, 0, None, closed="left")
positive = Interval(Real, 0, None, closed="neither")
fraction = Interval(Real, 0, 1, closed="neither")


class Parameter(NamedTuple):
    """One shared constructor parameter."""

    doc: str  # one sentence: what it means, in every family
    constraint: Any  # what scikit-learn's parameter validation checks
    default: Any = None  # the usual default; a family may have a reason for another


PARAMETERS: dict[str, Parameter] = {
    "costs": Parameter("What columns cost. None: 1 per column.", "no_validation"),  # FeatureCosts checks them
    "budget": Parameter(
        "The most that any row may pay in a prediction that names no bound. None: no limit.",
        [Interval(Real, 0, np.inf, closed="both"), None],
    ),
    "mean_budget": Parameter(
        "What rows may pay on average in a prediction that names no bound. None: no limit.",
        [Interval(Real, 0, np.inf, closed="both"), None],
    ),
    "meter": Parameter(
        "How a budget is counted: by what each row really pays, or by the most that a stage can cost.",
        [StrOptions({"model", "realised"})],
        "model",
    ),
    "evaluation_cost": Parameter(
        "Price of evaluating one stage, features apart, in the unit of ``costs``.", [not_negative], 0.0
    ),
    "cost_penalty": Parameter("Loss that one unit of cost must save to be spent.", [not_negative], 0.0),
    "time_budget": Parameter("Seconds that ``fit`` may take. None: no limit.", [positive, None]),
    "max_stages": Parameter("The most stages that the plan may have.", [positive_integer]),
    "n_estimators": Parameter("Number of trees or learners in the ensemble.", [positive_integer], 100),
    "learning_rate": Parameter("Factor by which each learner's step is shrunk.", [positive], 0.1),
    "max_leaf_nodes": Parameter(
        "The most leaves of a tree. None: no limit.", [Interval(Integral, 2, None, closed="left"), None], 31
    ),
    "max_depth": Parameter("The most splits from root to leaf. None: no limit.", [positive_integer, None]),
    "min_samples_leaf": Parameter("The fewest training rows in a leaf.", [positive_integer], 20),
    "l2_regularization": Parameter(
        "Half of it times the squared weights, or values of leaves, is added to the loss.",
        [not_negative],
        0.0,
    ),
    "max_bins": Parameter(
        "The most bins per column; missing values have one of their own.",
        [Interval(Integral, 2, 255, closed="both")],
        255,
    ),
    "categorical_features": Parameter(
        'Columns that hold categories. "from_dtype": those of a table that are no numbers.',
        ["array-like", StrOptions({"from_dtype"}), None],
        "from_dtype",
    ),
    "class_weight": Parameter(
        'Weights of the classes. "balanced": inversely proportional to how often they occur. None: 1 each.',
        [dict, StrOptions({"balanced"}), None],
    ),
    "validation_fraction": Parameter(
        "Share of the training rows held out to decide on. None: none are.", [fraction, None], 0.2
    ),
    "n_iter_no_change": Parameter(
        "Rounds without gain on the validation rows after which training ends.", [positive_integer], 20
    ),
    "warm_start": Parameter("Whether ``fit`` goes on from the fitted model.", ["boolean"], False),
    "random_state": Parameter("Seed; the same seed gives the same model.", ["random_state"]),
    "n_jobs": Parameter(
        "Threads. None: 1; -1: all cores. The result does not depend on it.",
        [Interval(Integral, None, -1, closed="right"), positive_integer, None],
    ),
    "verbose": Parameter("Whether progress is printed.", ["verbose"], 0),
}


_MEANT = {  # what other libraries and papers call a parameter
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
    "n_passes": "epochs",
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


def store(estimator: object, arguments: dict[str, Any]) -> None:
    """Keep each argument of a constructor under its own name, as scikit-learn wants it: ``store(self, locals())``.

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


def check_names(estimator: type, given: Iterable[str]) -> None:
    """Refuse constructor parameters that an estimator does not have, and say which one may have been meant.

    Examples
    --------
    >>> class Model:
    ...     def __init__(self, *, n_estimators=100): ...
    >>> check_names(Model, ["n_trees"])
    Traceback (most recent call last):
    TypeError: Model has no parameter 'n_trees'; did you mean 'n_estimators'?
    """
    known = {**signature(estimator.__init__).parameters}  # type: ignore[misc]
    known.pop("self")
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values()):
        return
    for name in given:
        if name not in known:
            near = [_MEANT[name]] if _MEANT.get(name) in known else get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(known)}"
            raise TypeError(f"{estimator.__name__} has no parameter {name!r}; {hint}")
