"""An answer that has already been computed, in the clothes of a scikit-learn estimator.

A scorer asks an estimator for ``predict``, ``predict_proba`` or ``decision_function``. Here these hand out what a stage has
given, so that any scorer can judge any stage without running the model again; and what a scorer asked for is noted, so that
stages that did not change it need not be judged again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils import ClassifierTags, RegressorTags, Tags, TargetTags

from anytime.curves.elements import Elements


class FrozenAnswer:
    """What each response method returns for fixed rows after one stage; methods that have no response do not exist."""

    def __init__(self, responses: Mapping[str, NDArray[Any]], classes: NDArray[Any] | None = None) -> None:
        self._responses = dict(responses)
        self.used: set[str] = set()
        if classes is not None:
            self.classes_ = classes

    @classmethod
    def of_stage(
        cls, answer: Any, classes: NDArray[Any] | None, elements: Elements | None = None
    ) -> FrozenAnswer:
        """Freeze one ``Answer`` of ``model.stages(X)``; for structures, its predictions of their labelled ``elements``."""
        if elements is not None:
            parts = {
                "predict": answer.prediction,
                "predict_proba": answer.probabilities,
                "decision_function": answer.scores.parts(),
            }
            return cls({name: elements.flat(part) for name, part in parts.items()}, classes)
        responses = {"predict": np.asarray(answer.prediction)}
        if classes is not None:
            if answer.probabilities is not None:
                responses["predict_proba"] = np.asarray(answer.probabilities)
            if answer.scores is not None:
                responses["decision_function"] = _decision(np.asarray(answer.scores), len(classes))
        return cls(responses, classes)

    @classmethod
    def of_estimator(cls, model: Any, X: Any, classes: NDArray[Any] | None) -> FrozenAnswer:
        """Freeze what an estimator without stages answers for ``X``."""
        names = ["predict"] if classes is None else ["predict", "predict_proba", "decision_function"]
        return cls(
            {name: np.asarray(getattr(model, name)(X)) for name in names if hasattr(model, name)}, classes
        )

    def __getattr__(self, name: str) -> Callable[..., NDArray[Any]]:
        responses: dict[str, NDArray[Any]] = self.__dict__.get("_responses", {})
        if name not in responses:
            raise AttributeError(f"this answer has no {name}; it has {', '.join(responses)}")

        def respond(X: object = None) -> NDArray[Any]:
            self.used.add(name)
            return responses[name]

        respond.__name__ = name
        return respond

    def __sklearn_tags__(self) -> Tags:
        classifier = hasattr(self, "classes_")
        return Tags(
            estimator_type="classifier" if classifier else "regressor",
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags() if classifier else None,
            regressor_tags=None if classifier else RegressorTags(),
        )

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def fit(self, X: object, y: object = None) -> FrozenAnswer:
        """Do nothing: it is there because scikit-learn takes what cannot be fitted for no estimator."""
        return self

    def __len__(self) -> int:
        return len(self._responses["predict"])

    def take(self, rows: NDArray[np.intp]) -> FrozenAnswer:
        """The answer for some of the rows."""
        classes = self.__dict__.get("classes_")
        return FrozenAnswer({name: responses[rows] for name, responses in self._responses.items()}, classes)

    def same(self, other: FrozenAnswer, names: Iterable[str]) -> bool:
        """Whether both give the same for each of these responses; never for no response at all."""
        names = tuple(names)
        return bool(names) and all(np.array_equal(self._responses[n], other._responses[n]) for n in names)

    def ranking(self) -> NDArray[np.float64]:
        """(n,) the number that rows are ranked by: the binary decision value, else the prediction."""
        decision = self._responses.get("decision_function")
        binary = decision is not None and decision.ndim == 1
        return np.asarray(self.decision_function() if binary else self.predict(), dtype=np.float64)


def is_classification(model: Any) -> bool:
    """Whether the model predicts labels; where the model does not say, ``classes_`` decides."""
    try:
        return bool(is_classifier(model)) or (
            not hasattr(model, "__sklearn_tags__") and hasattr(model, "classes_")
        )
    except (AttributeError, TypeError):  # scikit-learn refuses to judge what is not its own
        return hasattr(model, "classes_")


def _decision(scores: NDArray[Any], n_classes: int) -> NDArray[Any]:
    """Raw scores as ``decision_function`` gives them: one number per row for two classes."""
    if n_classes != 2 or scores.ndim == 1:
        return scores
    return np.asarray(scores[:, 0] if scores.shape[1] == 1 else scores[:, 1] - scores[:, 0])
