"""Models made of a plan alone, and what ONNX Runtime and a C compiler make of exported ones."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
from numpy.typing import NDArray

import anytime as at
from anytime.blocks import LinearBlock
from anytime.estimator import AnytimeModel
from anytime.faces import ClassifierFace, RegressorFace
from anytime.losses import LINKS
from anytime.plan import Plan
from anytime.rules import MarginRule, ScoreRule

Array = NDArray[np.float64]
Families = Callable[[str], tuple[Any, Array]]
STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic")
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")


class Planned(AnytimeModel):
    """A model that has nothing but a plan."""

    def __init__(self, plan: Plan, budget: float | None = None, meter: str = "model") -> None:
        self.plan, self.budget, self.meter, self.n_jobs, self.costs = plan, budget, meter, None, None

    def fit(self) -> Self:
        self.plan_, self.n_features_in_ = self.plan, self.plan.n_features
        return self


class PlannedClassifier(ClassifierFace, Planned):
    def fit(self) -> Self:
        self.classes_ = np.arange(max(2, self.plan.n_outputs))
        return super().fit()


class PlannedRegressor(RegressorFace, Planned):
    pass


def gated(doubt: float, below: bool, seed: int = 0) -> tuple[Any, np.ndarray]:
    """A cheap answer, a learned gate before a dear one, and a margin after which rows are done."""
    random = np.random.default_rng(seed)
    gate = LinearBlock([1], random.normal(size=(1, 1)))
    plan = Plan(
        blocks=[LinearBlock([0], random.normal(size=(1, 3))) for _ in range(2)]
        + [LinearBlock([2, 3], random.normal(size=(2, 3)))],
        costs=at.FeatureCosts([1.0, 1.0, 5.0, 5.0]).bind(4),
        base=np.zeros(3),
        link="softmax",
        replaces=np.array([True, False, True]),
        stops={0: MarginRule(0.3, below=False)},
        passes={2: ScoreRule(gate, 0.1, below=below, doubt=doubt)},
    )
    return PlannedClassifier(plan).fit(), random.normal(size=(200, 4))


def linked(link: str) -> tuple[Any, Array]:
    """A linear model with a link, and rows whose scores are moderate, extreme and zero."""
    random = np.random.default_rng(0)
    X = np.concatenate([random.normal(size=(50, 2)), 100 * random.normal(size=(20, 2)), np.zeros((1, 2))])
    width = 1 if LINKS[link].binary else 3
    plan = Plan(
        blocks=[LinearBlock([0, 1], random.normal(size=(2, width)))],
        costs=at.FeatureCosts([1.0, 1.0]).bind(2),
        base=np.zeros(width),
        link=link,
    )
    return (PlannedClassifier if LINKS[link].classifies else PlannedRegressor)(plan).fit(), X


# ---------------------------------------------------------------------- ONNX


def suffix(budget: float | None) -> str:
    """How names of outputs end that belong to a budget."""
    return "_all" if budget is None else "_" + repr(float(budget)).removesuffix(".0")


def agrees(model: Any, X: Array, found: dict[str, NDArray[Any]], budget: float | None, end: str) -> None:
    """What ONNX Runtime said is what the model says within a budget."""
    expected, said = model.predict(X, budget=budget), found[f"prediction{end}"]
    if hasattr(model, "classes_"):
        np.testing.assert_array_equal(said, expected)
        said, expected = found[f"probability{end}"], model.predict_proba(X, budget=budget)
    np.testing.assert_allclose(said, expected, rtol=1e-12, atol=1e-12)


def answers(proto: Any, X: Any, *outputs: str) -> dict[str, NDArray[Any]]:
    """What ONNX Runtime computes, by the names of outputs."""
    runtime = pytest.importorskip("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = list(outputs) or [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {"X": X}), strict=True))


# ---------------------------------------------------------------------- C

_WRAPPER = """
#include "model.h"

static int left_to_do;
static const double *source;
static const int *group_of;
static int *calls;
static int fails_at;

static int stop(void *arg) {
  (void)arg;
  return left_to_do-- <= 0;
}

static int fetch(int group, double *x, void *arg) {
  int j;
  (void)arg;
  if (group == fails_at) return 1;
  ++calls[group];
  for (j = 0; j < MODEL_N_COLUMNS; ++j) {
    if (group_of[j] == group) x[j] = source[j];
  }
  return 0;
}

int n_values(void) { return MODEL_N_VALUES; }
int n_stages(void) { return MODEL_N_STAGES; }
double stage_cost(int stage) { return model_stage_cost(stage); }
const char *column_name(int column) { return model_column_name(column); }
const char *group_name(int group) { return model_group_name(group); }

void interrupted(const double *X, int n, int until, double *out, int *done) {
  int i;
  for (i = 0; i < n; ++i) {
    left_to_do = until;
    done[i] = model_predict(X + i * MODEL_N_COLUMNS, out + i * MODEL_N_VALUES, stop, NULL);
  }
}

void bought(const double *X, int n, double budget, double *out, int *done) {
  int i;
  for (i = 0; i < n; ++i) done[i] = model_predict_budget(X + i * MODEL_N_COLUMNS, budget, out + i * MODEL_N_VALUES);
}

int fetched(const double *x, double *row, double budget, int failing, const int *groups, int *counts, double *out) {
  source = x;
  group_of = groups;
  calls = counts;
  fails_at = failing;
  return model_predict_fetching(row, budget, out, fetch, NULL, NULL);
}
"""


class Compiled:
    """The header of a model, compiled with every warning an error."""

    def __init__(self, text: str, folder: Path, *flags: str) -> None:
        (folder / "model.h").write_text(text)
        (folder / "wrapper.c").write_text(_WRAPPER)
        library = folder / "wrapper.so"
        subprocess.run(
            [
                "cc",
                *STRICT,
                *(flags or ("-O1",)),
                "-shared",
                "-fPIC",
                folder / "wrapper.c",
                "-o",
                library,
                "-lm",
            ],
            check=True,
        )
        self.library = ctypes.CDLL(str(library))
        self.library.stage_cost.restype = ctypes.c_double
        for name in ("column_name", "group_name"):
            getattr(self.library, name).restype = ctypes.c_char_p
        self.n_values = self.library.n_values()
        self.n_stages = self.library.n_stages()

    def interrupted(self, X: Array, until: int) -> tuple[Array, NDArray[np.int32]]:
        """(n, V) answers of a run that is told to stop after ``until`` stages, and stages done."""
        X, out, done = self._places(X)
        self.library.interrupted(_at(X), len(X), until, _at(out), _at(done))
        return out, done

    def bought(self, X: Array, budget: float) -> tuple[Array, NDArray[np.int32]]:
        X, out, done = self._places(X)
        self.library.bought(_at(X), len(X), ctypes.c_double(budget), _at(out), _at(done))
        return out, done

    def fetched(
        self, x: Array, plan: Plan, budget: float = np.inf, failing: int = -1
    ) -> tuple[Array, int, NDArray[np.int32]]:
        """The answer of a row whose columns are NaN until they are fetched, stages done, and calls per group."""
        row, out = np.full(plan.n_features, np.nan), np.empty(self.n_values)
        counts = np.zeros(plan.costs.n_groups, dtype=np.int32)
        groups = plan.costs.column_group.astype(np.int32)
        done = self.library.fetched(
            _at(x), _at(row), ctypes.c_double(budget), failing, _at(groups), _at(counts), _at(out)
        )
        return out, done, counts

    def _places(self, X: Array) -> tuple[Array, Array, NDArray[np.int32]]:
        X = np.ascontiguousarray(X, dtype=np.float64)
        return X, np.empty((len(X), self.n_values)), np.empty(len(X), dtype=np.int32)


def _at(array: NDArray[Any]) -> ctypes.c_void_p:
    assert array.flags.c_contiguous
    return array.ctypes.data_as(ctypes.c_void_p)


def written(model: Any, folder: Path, *flags: str) -> Compiled:
    """The compiled header of a model."""
    return Compiled(model.to_c(name="model"), folder, *flags)


def values_of(model: Any, answer: Any) -> Array:
    """(n, V) an answer as a header gives it."""
    if answer.probabilities is not None:
        return np.asarray(answer.probabilities)
    return np.asarray(answer.prediction, dtype=np.float64).reshape(len(answer.scores), -1)
