"""The same models for river: for its pipelines, its ``evaluate`` and its checks.

``StreamingBoostRegressor`` and ``StreamingBoostClassifier`` already have ``learn_one`` and ``predict_one``, but they are not a
``river.base.Estimator``, which river's pipelines and metrics require. These two classes are, and add nothing else.
"""

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from river import base

from anytime.streaming.streaming_boost import StreamingBoostClassifier, StreamingBoostRegressor


def _seed(model: str, seed: Any, parameters: dict[str, Any]) -> Any:
    """The seed under river's name for it, or under scikit-learn's, which is taken out of ``parameters``."""
    if hasattr(seed, "get_params"):
        raise TypeError(
            f"{model} creates its own model: give it parameters, as in {model}(n_estimators=20), not a {type(seed).__name__}"
        )
    if "random_state" not in parameters:
        return seed
    if seed != 0:
        raise TypeError(f"{model} was given both seed and random_state, which mean the same; give one")
    return parameters.pop("random_state")


class _Streaming:
    """What both share: a model of their own that learns."""

    _kind: ClassVar[type[StreamingBoostRegressor | StreamingBoostClassifier]]

    def __init__(self, seed: int = 0, **parameters: Any) -> None:
        self.seed, self.parameters = _seed(type(self).__name__, seed, parameters), parameters
        self.model = self._kind(random_state=self.seed, **parameters)

    def learn_one(self, x: dict[Any, Any], y: Any, w: float = 1.0) -> None:
        """Learn from a row, of weight ``w``."""
        self.model.learn_one(x, y, w)

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"n_estimators": 5}


class RiverRegressor(_Streaming, base.Regressor):
    """A boosted regressor on a stream, for river.

    Features may come and go: an absent one is a missing value; a new one among the first 500 rows gets its own column, and later
    ones are ignored. Strings are categories.

    Parameters
    ----------
    seed : int, default=0
        Random seed; ``random_state`` is the same.
    **parameters
        Parameters of :class:`anytime.StreamingBoostRegressor`.

    Attributes
    ----------
    model : StreamingBoostRegressor
        The model itself, for budgets, stages and files.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics, preprocessing
    >>> from anytime.streaming.river import RiverRegressor
    >>> model = preprocessing.StandardScaler() | RiverRegressor(n_estimators=30)
    >>> score = evaluate.progressive_val_score(datasets.TrumpApproval().take(200), model, metrics.MAE())
    """

    _kind = StreamingBoostRegressor

    def predict_one(self, x: dict[Any, Any]) -> float:
        """The prediction for a row; 0 before the first row was learned."""
        return float(self.model.predict_one(_filled(self.model, x))) if self.model._has_begun else 0.0


class RiverClassifier(_Streaming, base.Classifier):
    """A boosted classifier on a stream, for river.

    Labels need not be known in advance: a new one restarts learning from the last 500 rows, which loses nothing during the first
    500. Features as in :class:`RiverRegressor`.

    Parameters
    ----------
    seed : int, default=0
        Random seed; ``random_state`` is the same.
    **parameters
        Parameters of :class:`anytime.StreamingBoostClassifier`.

    Attributes
    ----------
    model : StreamingBoostClassifier
        The model itself, for budgets, stages and files.
    """

    _kind = StreamingBoostClassifier

    @property
    def _multiclass(self) -> bool:
        return True

    def predict_one(self, x: dict[Any, Any], **bounds: Any) -> Any:
        """The label for a row, within an optional ``budget`` or ``deadline``; None before the first row was learned."""
        if not self.model._has_begun:
            return None
        label = self.model.predict_one(_filled(self.model, x), **bounds)
        return label.item() if isinstance(label, np.generic) else label

    def predict_proba_one(self, x: dict[Any, Any], **bounds: Any) -> dict[Any, float]:
        """Probability of each label seen so far, within an optional ``budget`` or ``deadline``; empty before the first."""
        return self.model.predict_proba_one(_filled(self.model, x), **bounds) if self.model._has_begun else {}


def _filled(model: Any, x: dict[Any, Any]) -> dict[Any, Any]:
    """A row in which a feature that is not there is a missing value, as river has it."""
    return {**dict.fromkeys(model._places), **x}
