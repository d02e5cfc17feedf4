"""Constructor parameters that several families share, declared once: what they mean, what they may be, what they usually are.

A family writes ``_parameter_constraints = shared("n_estimators", "budget", ...) | {...}`` with what is its own, and begins the
docstring of each shared parameter with the sentence that stands here. A test holds every estimator to both.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

__all__ = ["PARAMETERS", "Parameter", "shared", "store"]

positive_integer = Interval(Integral, 1, None, closed="left")
not_negative = Interval(Real, 0, None, closed="left")
positive = Interval(Real, 0, None, closed="neither")
fraction = Interval(Real, 0, 1, closed="neither")


class Parameter(NamedTuple):
    """One shared constructor parameter.

    Attributes
    ----------
    doc : str
        One sentence: what it means, in every family.
    constraint : list or str
        What scikit-learn's parameter validation checks.
    default : object
        The usual default; a family may have a reason for another.
    """

    doc: str
    constraint: Any
    default: Any = None


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
    "l2_regularization": Parameter("Added to the curvature of a leaf's loss.", [not_negative], 0.0),
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
