"""Every private name of another library that the package uses, with what to do where a version lacks it.

scikit-learn and uvicorn may move these without notice. No other file imports them (``tests/test_compat.py`` looks), so a new
release that breaks one is mended here; ``make compat`` runs the tests with the oldest and the newest versions that
``pyproject.toml`` allows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sklearn.utils import _safe_indexing as rows_of
from sklearn.utils._param_validation import HasMethods, Interval, Options, StrOptions
from sklearn.utils.validation import _check_sample_weight as checked_weights
from sklearn.utils.validation import _get_feature_names as feature_names_of
from sklearn.utils.validation import _num_samples as n_rows_of

if TYPE_CHECKING:
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = [
    "HasMethods",
    "HttpToolsProtocol",
    "Interval",
    "Options",
    "StrOptions",
    "checked_weights",
    "feature_names_of",
    "hist_baseline",
    "hist_preprocessor",
    "hist_rounds",
    "initial_scores",
    "n_rows_of",
    "n_training_rows",
    "rows_of",
    "scored_function",
]


def scored_function(scorer: Any) -> Any:
    """The function of ``y`` and a prediction inside a scikit-learn scorer; None for anything else."""
    return getattr(scorer, "_score_func", None)


def scorer_of_class(scorer: Any, label: Any) -> str:
    """The call that makes the same scorer for the class ``label``."""
    response = scorer._response_method
    how = "" if response == "predict" else f", response_method={response!r}"
    how += "" if scorer._sign > 0 else ", greater_is_better=False"
    return f"make_scorer({scorer._score_func.__name__}{how}, pos_label={label!r})"


def hist_rounds(model: Any) -> Any:
    """Trees of a ``HistGradientBoosting*``, a list of lists: one tree per output in each round; None before ``fit``."""
    return getattr(model, "_predictors", None)


def hist_baseline(model: Any) -> Any:
    """Scores of a ``HistGradientBoosting*`` before its first round."""
    return model._baseline_prediction


def hist_preprocessor(model: Any) -> Any:
    """The transformer that puts categorical columns first and encodes them; None where there are none."""
    return getattr(model, "_preprocessor", None)


def initial_scores(model: Any, X: Any) -> Any:
    """(n, K) scores of a ``GradientBoosting*`` before its first round."""
    return model._raw_predict_init(X)


def n_training_rows(forest: Any) -> int:
    """How many rows a bagged forest was fitted on."""
    return int(forest._n_samples)


def __getattr__(name: str) -> Any:
    """Names of libraries that only the server needs."""
    if name != "HttpToolsProtocol":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import uvicorn

    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
    except ImportError as error:
        if error.name is not None and not error.name.startswith("uvicorn"):
            raise  # httptools itself is not installed
        raise ImportError(
            f"uvicorn {uvicorn.__version__} has no HttpToolsProtocol where anytime looks for it; install an older one: "
            "pip install 'uvicorn<=0.54'"
        ) from error
    return HttpToolsProtocol
