"""Many settings of an adaptive classifier side by side: parallel, told as they come, taken up again after an interruption.

The costly model is asked once; each setting gives a gate and a cheap model, which validation rows judge at various thresholds.
What a setting came to is written down at once, so that a sweep that was killed goes on where it was. Points are chosen on
validation rows alone, test rows only say what they are worth (Nan, *Learning to predict under a budget*, 2018, appendix A).
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from anytime.adaptive.adaptive_training import AdaptiveModel, GateTask
from anytime.adaptive.choosing import HeldOutRows, Point, Quality
from anytime.adaptive.costly import read_costly
from anytime.adaptive.routing import Learned
from anytime.plan import Array
from anytime.trees.clock import Clock

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["PRESETS", "LinearPreset", "Preset", "Sweep", "sweep"]

Setting = Mapping[str, Any]

_STARTS = 16  # beginnings that are remembered
_AFTER_THE_START = ("costly_fraction", "max_iter", "tol", "n_init")  # what they do not depend on


@dataclass(frozen=True)
class Preset:
    """Settings that the thesis tried on a data set (section 6's table).

    Attributes
    ----------
    n_estimators, max_depth, max_iter : int
    cost_penalties : (low, high, number)
        On a logarithmic scale, for sums over rows: this library's cost_penalty, for means, is that divided by the number of rows.
    fractions, learning_rates : (low, high, number)
        The first linear, the second logarithmic.
    """

    n_estimators: int
    max_depth: int
    max_iter: int
    cost_penalties: tuple[float, float, int]
    learning_rates: tuple[float, float, int]
    fractions: tuple[float, float, int] = (0.1, 0.9, 9)

    def settings(self, n_rows: int) -> list[dict[str, Any]]:
        """All combinations, for so many training rows."""
        low, high, number = self.learning_rates
        return [
            {
                "n_estimators": self.n_estimators,
                "max_depth": self.max_depth,
                "max_iter": self.max_iter,
                "cost_penalty": float(cost_penalty) / n_rows,
                "costly_fraction": float(fraction),
                "learning_rate": float(rate),
            }
            for cost_penalty in np.geomspace(*self.cost_penalties)
            for fraction in np.linspace(*self.fractions)
            for rate in np.geomspace(low, high, number)
        ]


@dataclass(frozen=True)
class LinearPreset:
    """The same for linear gates and cheap models (section 5).

    Attributes
    ----------
    max_iter : int
    cost_penalties : (low, high, number)
        On a logarithmic scale, for means over rows, as this library has them.
    fractions : (low, high, number)
    """

    max_iter: int
    cost_penalties: tuple[float, float, int]
    fractions: tuple[float, float, int] = (0.1, 0.9, 9)

    def settings(self, n_rows: int) -> list[dict[str, Any]]:
        """All combinations, for any number of training rows."""
        return [
            {
                "cheap": "linear",
                "max_iter": self.max_iter,
                "cost_penalty": float(cost_penalty),
                "costly_fraction": float(fraction),
            }
            for cost_penalty in np.geomspace(*self.cost_penalties)
            for fraction in np.linspace(*self.fractions)
        ]


PRESETS: dict[str, Preset | LinearPreset] = {
    "letters, linear": LinearPreset(50, (1e-4, 1.0, 20)),
    "letters": Preset(500, 4, 30, (1e-1, 1e2, 10), (0.1, 1.0, 9)),
    "miniboone": Preset(100, 4, 50, (1e-1, 1e2, 20), (0.1, 1.0, 9)),
    "forest": Preset(500, 4, 50, (1e-1, 1e2, 20), (0.1, 1.0, 9)),
    "yahoo": Preset(100, 4, 20, (1e-1, 1e3, 30), (0.1, 1.0, 9)),
    "cifar10": Preset(200, 5, 50, (1e-4, 1e1, 15), (0.01, 1.0, 10)),
}


@dataclass(frozen=True)
class SweepOutcome:
    """What a setting came to.

    Attributes
    ----------
    setting : mapping
    objective : float
        On the training rows.
    validation, test : list of Point
        At the same thresholds; ``test`` is empty where there were no test rows.
    """

    setting: dict[str, Any]
    objective: float
    validation: list[Point]
    test: list[Point]

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SweepOutcome:
        """What ``to_json`` gave."""
        points = [[Point(**point) for point in data[name]] for name in ("validation", "test")]
        return cls(dict(data["setting"]), float(data["objective"]), *points)


Found = tuple[Setting, Point, Point | None]  # a setting, what it came to on validation rows, and on test rows


@dataclass(frozen=True, eq=False)
class Sweep:
    """The outcomes of all settings.

    Attributes
    ----------
    outcomes : list of SweepOutcome
    costly : dict of str to Point
        What the costly model alone comes to on the rows called "validation" and "test".
    """

    outcomes: list[SweepOutcome]
    costly: dict[str, Point]

    def _pairs(self) -> Iterator[Found]:
        for outcome in self.outcomes:
            tests: Sequence[Point | None] = outcome.test or [None] * len(outcome.validation)
            for chosen, worth in zip(outcome.validation, tests, strict=True):
                yield outcome.setting, chosen, worth

    def frontier(self, *, hull: bool = False) -> list[Found]:
        """Points that no other is as cheap and as accurate as on validation rows, by cost, each with what test rows say.

        ``hull``: only those that no mixture of two others beats, which one has by choosing between them at random.
        """
        kept: list[Found] = []
        for found in sorted(self._pairs(), key=lambda pair: (pair[1].cost, -pair[1].accuracy)):
            if kept and found[1].accuracy <= kept[-1][1].accuracy:
                continue
            while hull and len(kept) > 1 and _below(kept[-2][1], kept[-1][1], found[1]):
                kept.pop()
            kept.append(found)
        return kept

    def best(self, budget: float) -> Found | None:
        """The most accurate point on validation rows that costs at most ``budget`` there; None where there is none."""
        within = [found for found in self.frontier() if found[1].cost <= budget * (1 + 1e-12)]
        return within[-1] if within else None

    def cost_reduction(self, tolerance: float = 0.01) -> float:
        """Share of the costly model's cost that is saved at an accuracy within ``tolerance`` of its own.

        The cheapest point of the frontier that is so accurate on validation rows; its cost is that on test rows where there are
        some.
        """
        rows = "test" if "test" in self.costly else "validation"
        for _, chosen, worth in self.frontier():
            if chosen.accuracy >= self.costly["validation"].accuracy - tolerance:
                return 1.0 - (chosen if worth is None else worth).cost / self.costly[rows].cost
        return 0.0

    def area(self) -> float:
        """Mean accuracy over all costs from 0 to that of the costly model, holding the frontier's last accuracy."""
        end = self.costly["validation"].cost
        points = [(chosen.cost, (worth or chosen).accuracy) for _, chosen, worth in self.frontier()]
        points = [(0.0, points[0][1]), *((c, a) for c, a in points if c < end), (end, 0.0)]
        return sum(a * (after - c) for (c, a), (after, _) in pairwise(points)) / end

    def plot(self, ax: Any = None, *, name: str | None = None) -> Any:
        """Draw the frontier, as test rows see it where there are some, all points behind it, and the costly model as a star.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new figure when not given.
        name : str, default=None
            In the legend.

        Returns
        -------
        matplotlib Axes
        """
        import matplotlib.pyplot as plt

        ax = plt.subplots()[1] if ax is None else ax
        points = [worth or chosen for _, chosen, worth in self._pairs()]
        frontier = [worth or chosen for _, chosen, worth in self.frontier()]
        (line,) = ax.plot([p.cost for p in frontier], [p.accuracy for p in frontier], marker=".", label=name)
        colour = line.get_color()
        ax.scatter([p.cost for p in points], [p.accuracy for p in points], s=4, alpha=0.2, color=colour)
        costly = self.costly.get("test", self.costly["validation"])
        ax.scatter([costly.cost], [costly.accuracy], marker="*", color="black", zorder=3)
        ax.set(xlabel="Mean cost", ylabel="Accuracy")
        return ax

    def to_frame(self) -> pd.DataFrame:
        """One row per setting and threshold."""
        import pandas as pd

        rows = []
        for setting, chosen, worth in self._pairs():
            row = {**setting, **asdict(chosen)}
            if worth is not None:
                row |= {"test_accuracy": worth.accuracy, "test_cost": worth.cost, "test_sent": worth.sent}
            rows.append(row)
        return pd.DataFrame(rows)


def sweep(
    model: Any,
    settings: Iterable[Setting],
    X: Any,
    y: Any,
    X_val: Any,
    y_val: Any,
    X_test: Any = None,
    y_test: Any = None,
    *,
    quality: tuple[Quality, Quality] | Quality | None = None,
    path: str | Path | None = None,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> Sweep:
    """Try settings of an ``AdaptiveClassifier``, each on all rows of ``X``, judged on validation and test rows.

    Parameters
    ----------
    model : AdaptiveClassifier
        Its parameters are those that a setting does not name. Its costly model is fitted, or asked by folds, once.
    settings : iterable of mapping
        Each with ``cost_penalty`` and ``costly_fraction`` and any other parameters of learning.
    X, y, X_val, y_val, X_test, y_test
        Rows; those for validation and test have not been seen by the costly model.
    quality : callable or pair of callables, default=None
        From classes (m,), numbered in their order, and probabilities (m, C) to what takes the place of accuracy in all
        points, for validation rows, or for validation and test rows. Rankings: ``lambda y, probabilities:
        prefix_precision(y, probabilities[:, 1], queries, relevant=1)`` with the queries of those rows.
    path : str or path, default=None
        A file to which each outcome is written as soon as it is there, one line of JSON each. Outcomes that stand in it already
        are taken from it: a sweep that was killed has lost the settings that were being tried, and no other.
    n_jobs : int, default=None
        Settings tried at a time, in threads.
    verbose : int, default=0
        1: tell of every setting. Ctrl-C ends the sweep with the outcomes so far.

    Returns
    -------
    Sweep
    """
    wanted = [_plain(setting) for setting in settings]
    if "validation_fraction" not in model.get_params(deep=False):
        raise TypeError(
            f"sweep tries settings of an AdaptiveClassifier, and {type(model).__name__} has no gate to be learned: fit it, and "
            "see its points_"
        )
    ready = copy.copy(model)
    ready.set_params(mean_budget=None, validation_fraction=None)
    ready._validate_params()
    question, _ = ready._question(X, y, None, None)
    costly = read_costly(question, ready.proba_source)
    task = ready._task(question, costly, X_val, y_val)
    assert task.bench is not None
    benches = {"validation": task.bench}
    if X_test is not None:
        test = ready._task(question, costly, X_test, y_test).bench
        assert test is not None
        benches["test"] = test
    if quality is not None:
        both = quality if isinstance(quality, tuple) else (quality,)
        if len(both) != len(benches):
            raise ValueError(f"quality: give one function for {' and one for '.join(benches)} rows")
        benches = {
            name: replace(bench, quality=of) for (name, bench), of in zip(benches.items(), both, strict=True)
        }
    book = _Book(None if path is None else Path(path), _fingerprint(ready, task, benches))
    clock = Clock(None, verbose)
    todo = [setting for setting in wanted if _key(setting) not in book.outcomes]
    clock.tell(f"{len(todo)} of {len(wanted)} settings to try")

    @lru_cache(maxsize=_STARTS)
    def start(key: str) -> Learned:
        """Settings that differ only in how long and for whom they learn begin at the same place, found once."""
        trying = copy.copy(ready)
        trying.set_params(**json.loads(key))
        begun: Learned = trying._learner(trying._settings(task)[0][0], task).start(None)
        return begun

    def attempt(setting: dict[str, Any]) -> None:
        beginning = {name: value for name, value in setting.items() if name not in _AFTER_THE_START}
        book.add(_outcome(ready, setting, task, benches, start(_key(beginning))))
        clock.tell(f"{len(book.outcomes)} of {len(wanted)} settings tried")

    try:
        Parallel(n_jobs=n_jobs, prefer="threads")(delayed(attempt)(setting) for setting in todo)
    except KeyboardInterrupt:
        warnings.warn(f"interrupted: {len(book.outcomes)} of {len(wanted)} settings were tried", stacklevel=2)
    found = [book.outcomes[_key(setting)] for setting in wanted if _key(setting) in book.outcomes]
    alone = {name: bench.costly_alone(ready._chain_of(None, task)) for name, bench in benches.items()}
    return Sweep(found, alone)


def _outcome(
    ready: AdaptiveModel,
    setting: dict[str, Any],
    task: GateTask,
    benches: Mapping[str, HeldOutRows],
    start: Learned,
) -> SweepOutcome:
    trying = copy.copy(ready)
    trying.set_params(**setting)
    trying._validate_params()
    cost_penalty, fraction = trying._settings(task)[0]
    seed = int(
        hashlib.sha256(_key(setting).encode()).hexdigest()[:8], 16
    )  # the order of trials does not matter
    own = replace(task, random=np.random.RandomState(seed), clock=Clock(None, 0))
    done = trying._alternate(trying._learner(cost_penalty, own), start, fraction, trying._turns, own)
    chain = trying._chain_of(done, own)
    points = benches["validation"].points(chain, trying._doubts)
    cuts = [(point.threshold, point.doubt) for point in points]
    test = benches["test"].at(chain, cuts) if "test" in benches else []
    return SweepOutcome(dict(setting), done.terms.total, points, test)


def _below(left: Point, middle: Point, right: Point) -> bool:
    """Whether the middle point is not above the line between the other two."""
    rise = (right.accuracy - left.accuracy) * (middle.cost - left.cost)
    return (middle.accuracy - left.accuracy) * (right.cost - left.cost) <= rise


def _plain(setting: Setting) -> dict[str, Any]:
    """Values that JSON knows."""
    return {str(k): v.item() if isinstance(v, np.generic) else v for k, v in setting.items()}


def _key(setting: Setting) -> str:
    return json.dumps(setting, sort_keys=True)


def _fingerprint(ready: AdaptiveModel, task: GateTask, benches: Mapping[str, HeldOutRows]) -> str:
    """What outcomes depend on besides their settings."""
    state = hashlib.sha256()
    arrays: list[Array | NDArray[np.intp]] = [task.table.X, task.y, task.costly_loss]
    for bench in benches.values():
        arrays += [bench.X, bench.y, bench.costly_scores]
        arrays.append(np.array([bench.accuracy(bench.costly_scores)]))  # by which measure
    for array in arrays:
        state.update(np.ascontiguousarray(array).tobytes())
    state.update(json.dumps(task.costs.costs.to_dict(), sort_keys=True, default=str).encode())
    fixed = {
        k: v
        for k, v in ready.get_params(deep=False).items()
        if k not in ("costly", "costs", "n_jobs", "verbose")
    }
    state.update(repr(sorted(fixed.items())).encode())
    return state.hexdigest()


class _Book:
    """Outcomes, and the file that they are written to: a line that says what they depend on, then one for each."""

    def __init__(self, path: Path | None, fingerprint: str) -> None:
        self.path, self.outcomes = path, dict[str, SweepOutcome]()
        self._lock = threading.Lock()
        if path is None:
            return
        if path.exists():
            self._read(path, fingerprint)
        else:
            self._write({"sweep": fingerprint})

    def _read(self, path: Path, fingerprint: str) -> None:
        whole = path.read_bytes()
        end = whole.rfind(b"\n") + 1  # a line that was being written when the sweep was killed has no end
        lines = whole[:end].splitlines()
        try:
            first, *others = [json.loads(line) for line in lines]
            known = [SweepOutcome.from_json(entry) for entry in others]
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path} is no file of a sweep: {error}; move it away or name another") from None
        if first != {"sweep": fingerprint}:
            raise ValueError(
                f"{path} belongs to a sweep with other rows, prices or parameters; move it away or name another"
            )
        self.outcomes = {_key(outcome.setting): outcome for outcome in known}
        if end < len(whole):
            os.truncate(path, end)

    def add(self, outcome: SweepOutcome) -> None:
        """Write an outcome down."""
        with self._lock:
            if self.path is not None:
                self._write(outcome.to_json())
            self.outcomes[_key(outcome.setting)] = outcome

    def _write(self, entry: Mapping[str, Any]) -> None:
        assert self.path is not None
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
            file.flush()
            os.fsync(file.fileno())
