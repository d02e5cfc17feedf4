"""The interface of all models of structures: ``predict`` returns a list with one array per structure."""

from __future__ import annotations

import sys
import warnings
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from anytime.bounded_runs import Amount, Budget
from anytime.costs import BoundCosts
from anytime.estimator import AnytimeModel
from anytime.faces import ClassifierFace
from anytime.losses import LINKS
from anytime.plan import Plan
from anytime.ragged import Ragged
from anytime.rows import Rows
from anytime.structured.block import EntropySelector, StructuredBlock
from anytime.structured.learners import UpdateLearner
from anytime.structured.rules import StructuredRules, StructuredStep
from anytime.structured.structures import Array, Structures
from anytime.structured.trainer import StructuredSpeedBoost
from anytime.trees.clock import Clock

__all__ = ["ElementLabels", "StructuredModel", "class_weights", "read_labels", "train_structured"]


class StructuredModel(ClassifierFace, AnytimeModel):
    """A model whose examples are structures. Not used by itself: ``_structures`` reads the user's data.

    A budget is a cap on what any structure pays, a deadline is one for the whole list.
    """

    labels_elements = True  # curves then judge the elements of structures
    _what, _element = "structure", "element"  # what is labelled, and what of it has a label, in messages

    @property
    def _reads_rows_as_they_are(self) -> bool:
        return False

    @abstractmethod
    def _structures(self, X: Any) -> Structures:
        """A batch of structures out of what a user gives."""

    def _read_in(self, X: Any) -> Rows:
        if not hasattr(self, "plan_"):
            check_is_fitted(self, "plan_")
        structures = self._structures(X)
        absent: tuple[str, ...] = ()
        if structures.held is not None:
            lacking = ~structures.held.all(axis=0) & self.plan_.read_columns
            absent = tuple(str(self.feature_names_in_[j]) for j in np.flatnonzero(lacking))
        return Rows(structures, absent=absent)  # type: ignore[arg-type]

    def _check_stages(self, structures: Structures) -> None:
        """Raise ``ValueError`` where stages, from a file, ask for levels or context that such structures do not have."""
        n_context = structures.context_categories(len(self.classes_)).size
        for block in self.plan_.blocks:
            if not isinstance(block, StructuredBlock):
                raise ValueError(f"a {block.kind!r} block is no stage of structures")
            for s, update in enumerate(block.updates):
                selector, context = update.selector, update.predictor.context
                if max(selector.level, selector.measured_at or 0) >= structures.n_levels:
                    raise ValueError(f"stage {s + 1} works at a level that does not exist")
                if context.size and context[-1] >= n_context:
                    raise ValueError(f"stage {s + 1} reads context that does not exist")
                if update.replaces != (self.plan_.replaces is not None and bool(self.plan_.replaces[s])):
                    raise ValueError(
                        f"stage {s + 1} of the plan replaces the scores, or does not, unlike its update"
                    )

    def predict(  # type: ignore[override]  # many labels: there is no matrix of costs
        self, X: Any, budget: Budget = None, deadline: Amount = None, *, mean_budget: Amount = None
    ) -> list[NDArray[Any]]:
        """Labels of the elements of each structure. See ``answer`` for the parameters."""
        link = LINKS[self.plan_.link]
        return self._of_each(X, budget, deadline, mean_budget, lambda s: link.decide(s, self.classes_))

    def predict_proba(
        self, X: Any, budget: Budget = None, deadline: Amount = None, *, mean_budget: Amount = None
    ) -> list[Array]:
        """(L, C) class probabilities of the elements of each structure, in the order of ``classes_``."""
        return self._of_each(X, budget, deadline, mean_budget, LINKS[self.plan_.link].transform)

    def predict_log_proba(
        self, X: Any, budget: Budget = None, deadline: Amount = None, *, mean_budget: Amount = None
    ) -> list[Array]:
        """Logarithms of ``predict_proba``."""
        with np.errstate(divide="ignore"):
            return [np.log(p) for p in self.predict_proba(X, budget, deadline, mean_budget=mean_budget)]

    def decision_function(
        self, X: Any, budget: Budget = None, deadline: Amount = None, *, mean_budget: Amount = None
    ) -> list[Array]:
        """(L, C) scores of the elements of each structure, whose largest decides."""
        return self._of_each(X, budget, deadline, mean_budget, lambda scores: scores)

    def predict_one(
        self, x: Any, budget: Amount = None, deadline: Amount = None, *, mean_budget: Amount = None
    ) -> NDArray[Any]:
        """Labels of the elements of one structure."""
        return self.predict([x], budget, deadline, mean_budget=mean_budget)[0]

    def score(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        budget: Budget = None,
        deadline: Amount = None,
        *,
        mean_budget: Amount = None,
    ) -> float:
        """Share of correct labels among the labelled elements; ``sample_weight`` is one number per structure."""
        predicted = self.predict(X, budget, deadline, mean_budget=mean_budget)
        right, labelled = self._right(predicted, y)
        weight = (
            np.ones(len(predicted)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        )
        total = float(weight @ labelled)
        if not total:
            raise ValueError(f"no {self._element} has a label: there is nothing to score")
        return float(weight @ right) / total

    def _right(self, predicted: list[NDArray[Any]], y: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        """Of each structure: how many elements with a label are labelled rightly, and how many have one."""
        if not hasattr(y, "__len__"):
            raise ValueError(f"y must be a list with the labels of each structure, not {type(y).__name__}")
        truth = [np.asarray(labels, dtype=object) for labels in y]
        if [len(a) for a in predicted] != [len(a) for a in truth]:
            raise ValueError("y needs one label for every element of every structure of X")
        there = [np.array([label is not None for label in labels], dtype=bool) for labels in truth]
        right = [np.sum((a == b)[t]) for a, b, t in zip(predicted, truth, there, strict=True)]
        return np.array(right), np.array([np.sum(t) for t in there])

    def _of_each(
        self, X: Any, budget: Budget, deadline: Amount, mean_budget: Amount, of_scores: Any
    ) -> list[Any]:
        scores = self._scores(X, budget, deadline, mean_budget)
        assert isinstance(scores, Ragged)
        return scores.like(of_scores(scores.values)).parts()


# ---------------------------------------------------------------------- labels


class ElementLabels(NamedTuple):
    """Labels as a trainer needs them."""

    classes: NDArray[Any]
    truth: Array  # (E, K)
    weight: Array  # (E,), 0 where there is no label

    def take(self, elements: NDArray[np.integer[Any]]) -> ElementLabels:
        """Those of some elements."""
        return ElementLabels(self.classes, self.truth[elements], self.weight[elements])


def read_labels(y: Any, offsets: NDArray[np.int64], class_weight: Any, name: str) -> ElementLabels:
    """Labels of all elements; None stands for an element without one. Raises where they do not fit ``offsets``."""
    lengths = np.diff(offsets)
    if isinstance(y, (str, bytes, Mapping)) or not hasattr(y, "__len__"):
        raise ValueError(f"y must be a list with the labels of each {name}, not {type(y).__name__}")
    if len(y) != lengths.size:
        raise ValueError(f"X has {lengths.size} {name}s but y has {len(y)}")
    flat: list[Any] = []
    for i, (labels, length) in enumerate(zip(y, lengths.tolist(), strict=True)):
        listed = labels.tolist() if isinstance(labels, np.ndarray) else labels
        if isinstance(listed, (str, bytes)) or not hasattr(listed, "__len__") or len(listed) != length:
            count = f"{len(listed)} of them" if isinstance(listed, (list, tuple)) else type(labels).__name__
            raise ValueError(
                f"{name} {i} has {length} elements, but its labels are {count}: give one label each"
            )
        flat.extend(listed)
    there = np.array([label is not None for label in flat], dtype=bool)
    labelled = [label for label in flat if label is not None]
    if not labelled:
        raise ValueError("no element has a label: there is nothing to learn from")
    texts = sum(isinstance(label, (str, bytes)) for label in labelled)
    if 0 < texts < len(labelled):
        other = next(label for label in labelled if not isinstance(label, (str, bytes)))
        raise ValueError(
            f"some labels are strings, but one is {other!r}: labels are all strings or all whole numbers, None for none"
        )
    if not texts and not all(isinstance(label, (Integral, np.bool_)) for label in labelled):
        other = next(label for label in labelled if not isinstance(label, (Integral, np.bool_)))
        raise ValueError(f"labels must be strings or whole numbers, None for none; one is {other!r}")
    classes, code = np.unique(np.array(labelled), return_inverse=True)
    if classes.size < 2:
        raise ValueError(f"all labels are {classes.tolist()[0]!r}; a model needs at least two classes")
    truth = np.full((len(flat), classes.size), 1.0 / classes.size)
    truth[there] = 0.0
    truth[np.flatnonzero(there), code] = 1.0
    weight = there.astype(np.float64)
    weight[there] = class_weights(class_weight, classes, np.bincount(code, minlength=classes.size))[code]
    return ElementLabels(classes, truth, weight)


def class_weights(class_weight: Any, classes: NDArray[Any], counts: NDArray[Any]) -> Array:
    """(K,) the weight of each class, given how often each stands in the labels."""
    if class_weight is None:
        return np.ones(classes.size)
    if isinstance(class_weight, str):  # "balanced"
        return np.asarray(counts.sum() / (classes.size * np.maximum(counts, 1)))
    unknown = [label for label in class_weight if label not in classes.tolist()]
    if unknown:
        raise ValueError(
            f"class_weight names {unknown[0]!r}, which is not a class; the classes are {classes.tolist()[:10]}"
        )
    return np.array([float(class_weight.get(label, 1.0)) for label in classes.tolist()])


# ---------------------------------------------------------------------- training


def warn_of_time(clock: Clock, stages: str, drawn: str) -> None:
    """Say what there was no time for: stages, data, or nothing."""
    causes = ", and ".join(part for part in (stages, drawn) if part)
    if not causes:
        return
    frame, level = sys._getframe(1), 2  # of whoever called the library
    while (
        frame.f_back is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] == "anytime"
    ):
        frame, level = frame.f_back, level + 1
    warnings.warn(f"time_budget={clock.seconds:g} {causes}", stacklevel=level)


def train_structured(
    structures: Structures,
    labels: ElementLabels,
    costs: BoundCosts,
    selectors: Sequence[EntropySelector],
    learners: Sequence[UpdateLearner],
    rules: StructuredRules,
    *,
    max_stages: int,
    n_iter_no_change: int,
    clock: Clock,
    seed: int,
    n_threads: int,
    groups: NDArray[np.intp] | None = None,
    before: StructuredSpeedBoost | None = None,
    drawn: str = "",
) -> tuple[Plan, StructuredSpeedBoost]:
    """Train, and make a plan of the stages up to the one with the least held-out loss (without copies: of all).

    Training ends after ``max_stages``, when nothing gains, when the held-out loss has not fallen for ``n_iter_no_change`` stages
    that buy nothing, when time is up, or by Ctrl-C after the first stage. ``before``: a trainer of the same data, to continue
    from. ``drawn``: what of the data there was no time for, for the warning.
    """
    prior = np.log((labels.weight @ labels.truth + 1.0) / (labels.weight.sum() + labels.classes.size))
    trainer = before or StructuredSpeedBoost(
        structures, labels.truth, labels.weight, costs, selectors, learners, rules,
        base=prior, groups=groups, seed=seed, n_threads=n_threads,
    )  # fmt: skip
    falls = [step.held_out for step in trainer.steps]
    time_is_up, late = clock.ends(clock.seconds), [False]

    def go_on(step: StructuredStep) -> bool:
        clock.tell(
            f"stage {len(trainer.steps)}: loss {step.value:.5f}, held out {step.held_out:.5f}, cost {step.cost:.4g}",
            stage=len(trainer.steps),
            loss=step.value,
            held_out_loss=step.held_out,
            cost=step.cost,
        )
        ends_late = time_is_up()  # the first stage takes longer than others: features are computed for it
        late.append(clock.over if len(trainer.steps) == 1 else ends_late)
        bought = step.cost > rules.evaluation_cost
        falls.append(step.held_out)
        since = len(falls) - 1 - int(np.argmin(falls)) if np.isfinite(step.held_out) else 0
        return not late[-1] and (bought or since < n_iter_no_change)

    trainer.time_is_up = lambda: clock.over
    try:
        trainer.run(max_stages - len(trainer.steps), go_on)
    except KeyboardInterrupt:
        if not trainer.steps:
            raise
    n_stages = len(trainer.steps)
    if n_stages and rules.folds:
        n_stages = 1 + int(np.argmin([step.held_out for step in trainer.steps]))
    done = ""
    if len(trainer.steps) < max_stages and (late[-1] or clock.over):
        done = f"ended training: the model has {n_stages} of {max_stages} stages"
    warn_of_time(clock, done, drawn)
    plan = Plan(
        blocks=[trainer.block(n_stages)] if n_stages else [],
        costs=costs,
        base=prior,
        link="softmax",
        replaces=np.array([step.update.replaces for step in trainer.steps[:n_stages]], dtype=bool),
        evaluation_costs=np.full(n_stages, rules.evaluation_cost),
        expected_costs=np.maximum.accumulate(np.array(trainer.expected_costs[:n_stages])),
    )
    return plan, trainer
