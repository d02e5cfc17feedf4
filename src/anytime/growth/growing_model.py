"""The common part of the estimators of growing networks: from rows to a search, and from its hull to a plan."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from anytime._compat import StrOptions
from anytime.costs import FeatureCosts
from anytime.growth.architecture import Architecture
from anytime.growth.galleries import ColumnPrices, Gallery, increments, nested, spread_out
from anytime.growth.journal import Model
from anytime.growth.network_growth import UNFINISHED_SEED, NetworkGrowth, Scaling, module_seed
from anytime.growth.phases import PRESETS, GrowthSettings, Phases, for_tables
from anytime.growth.sampling import SAMPLING_RULES
from anytime.growth.search import GrowthSearch
from anytime.growth.skeletons import image_seed, table_seed
from anytime.losses import LINKS
from anytime.networks.block import NetworkBlock
from anytime.networks.devices import chosen_device
from anytime.networks.exits import ExitNetwork
from anytime.networks.inputs import count_axes, moments
from anytime.networks.network_model import NetworkModel
from anytime.parameters import not_negative, positive_integer, shared, store
from anytime.plan import Array, Plan
from anytime.progress import report
from anytime.stopping import temperature

__all__ = ["GrowingModel"]

_GROWTHS = 8  # of a fit that nothing else ends
_IMAGE_TURNS = 7  # of the seven ops: all of them at every step take five times as long
_SMALLEST = 8  # side of the smallest images within a network
_JOBS_AT_LEAST = 6  # trainings for which the time of a fit is enough
_FEWEST_TO_FIT = 2  # of one row nothing can be normalised
_FEWEST_ROWS = 32  # that say how sure a network may be


class GrowingModel(NetworkModel):
    """The common part of both estimators."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **shared("costs", "budget", "meter", "max_stages", "validation_fraction", "time_budget"),
        **shared("warm_start", "class_weight", "random_state", "n_jobs", "verbose"),
        "network": [ExitNetwork, None],
        "n_cells": [positive_integer, None],
        "width": [positive_integer, None],
        "resolutions": [positive_integer, None],
        "tying": [StrOptions({"cell", "macro"})],
        "phases": [Phases, None],
        "settings": [GrowthSettings, None],
        "sampling": [StrOptions(set(SAMPLING_RULES))],
        "cost_limit": [not_negative, None],
        "n_growths": [not_negative, None],
        "workers": [positive_integer, StrOptions({"ray"})],
        "folder": [str, Path, None],
        "device": [str, None],
    }

    # what the networks with exits have as parameters
    backbone: Any = None
    order: Any = "pursuit"
    warm_start: bool
    models_: list[dict[str, Any]]

    def __init__(
        self,
        *,
        network: ExitNetwork | None = None,
        n_cells: int | None = None,
        width: int | None = None,
        resolutions: int | None = None,
        tying: str = "cell",
        costs: Any = None,
        max_stages: int = 16,
        budget: float | None = None,
        meter: str = "model",
        phases: Phases | None = None,
        settings: GrowthSettings | None = None,
        sampling: str = "hull",
        cost_limit: float | None = None,
        n_growths: int | None = None,
        workers: int | str = 1,
        folder: str | Path | None = None,
        validation_fraction: float | None = 0.2,
        time_budget: float | None = None,
        warm_start: bool = False,
        device: str | None = None,
        class_weight: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        store(self, locals())

    @property
    def architectures_(self) -> list[Architecture]:
        """Of the network of each stage."""
        return [block.network.grown for block in self._plan.blocks if isinstance(block, NetworkBlock)]

    def partial_fit(
        self, X: Any, y: Any, classes: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Go on growing, on these rows; the first call begins.

        Parameters
        ----------
        X, y, sample_weight
            As in ``fit``.
        classes : (C,), default=None
            All classes that there are, in the first call. None: those of ``y``.
        """
        classes_before = getattr(self, "classes_", None) if hasattr(self, "plan_") else None
        if (
            classes_before is not None
            and classes is not None
            and not np.array_equal(classes_before, np.unique(classes))
        ):
            raise ValueError(
                f"classes={list(np.unique(classes))} are not those of the first call, {list(classes_before)}"
            )
        self._named_classes = (
            np.unique(classes) if classes_before is None and classes is not None else classes_before
        )
        asked, self.warm_start = self.warm_start, True
        try:
            return self.fit(X, y, sample_weight)
        finally:
            self.warm_start = asked
            del self._named_classes

    # ------------------------------------------------------------------ fit

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        X_val: Any = None,
        y_val: Any = None,
    ) -> Self:
        """Grow networks.

        Parameters
        ----------
        X : (n, d) table, (n, channels, height, width) or (n, height, width, channels) images, or torch Dataset
            A data set gives pairs of an input and its label.
        y : (n,)
            None for a data set.
        sample_weight : (n,), default=None
        X_val, y_val : default=None
            Rows on which networks are judged. None: ``validation_fraction`` of the rows.
        """
        if self.warm_start and hasattr(self, "plan_") and self._is_table and count_axes(X) == 2:
            self._as_numbers(X)  # other columns are refused before anything is forgotten
        return super().fit(X, y, sample_weight, X_val=X_val, y_val=y_val)

    def _train(
        self,
        rows: NDArray[Any],
        targets: NDArray[Any],
        weight: Array | None,
        rows_val: NDArray[Any] | None,
        targets_val: NDArray[Any] | None,
        weight_val: Array | None,
        seed: int,
        began: float,
        previous: Any,
    ) -> None:
        if len(rows) < _FEWEST_TO_FIT:
            raise ValueError(f"training a network needs at least {_FEWEST_TO_FIT} rows, but X has 1 sample")
        self._check_previous(previous)
        bound = self._prices()
        offset, unit = self._units(targets) if previous is None else (previous.offset, previous.unit)
        if rows_val is None or targets_val is None or not len(rows_val):
            rows_val, targets_val, weight_val = rows, targets, weight
        scaling = self._scaling(rows, previous)
        problem = NetworkGrowth(
            self._seed(rows, targets, bound),
            rows.reshape(len(rows), *self.input_shape_),
            self._scaled_targets(targets, offset, unit),
            rows_val.reshape(len(rows_val), *self.input_shape_),
            self._scaled_targets(targets_val, offset, unit),
            phases=self.phases or (for_tables(n_rows=len(rows)) if self._is_table else PRESETS["short"]),
            settings=self.settings or GrowthSettings(turns=1 if self._is_table else _IMAGE_TURNS),
            sample_weight=weight,
            weight_val=weight_val,
            scaling=scaling,
            prices=None if self.costs is None else ColumnPrices(bound),
            module=self.network,
            device=self.device,
            job_seconds=None if self.time_budget is None else self.time_budget / _JOBS_AT_LEAST,
        )
        gallery = Gallery(
            self.input_shape_,
            scaling,
            offset,
            unit,
            chosen_device(self.device),
            torch.float64 if self._is_table else torch.float32,
        )
        codes = targets_val if self._link == "softmax" else None
        with self._folder(previous is not None) as folder:
            search_seed = seed if previous is None else previous.search_seed
            if self.folder is not None and self.random_state is None:
                search_seed = 0  # the same in every fit that continues there
            search = self._searched(problem, folder, search_seed, began)
            stages, models = self._stages(search, problem, gallery, rows_val, codes)
            kept = None if self.folder is not None else {p.name: p.read_bytes() for p in folder.iterdir()}
        self.models_ = models
        self._memory = _SearchMemory(kept, search_seed, scaling, offset, unit)
        self._adopt(stages, bound, self._base(targets, weight, offset), rows_val, targets_val)

    def _check_previous(self, previous: Any) -> None:
        if previous is None:
            return
        plan = self.plan_
        if plan.n_features != self.n_features_in_ or plan.n_outputs != self._n_outputs:
            raise ValueError(
                f"the fitted model reads {plan.n_features} columns and has {plan.n_outputs} outputs, but now there are "
                f"{self.n_features_in_} and {self._n_outputs}: fit with warm_start=False to begin anew"
            )

    def _previous(self) -> Any:
        return self.__dict__.get("_memory") if hasattr(self, "plan_") else None

    def _searched(self, problem: NetworkGrowth, folder: Path, seed: int, began: float) -> GrowthSearch:
        """The search, as far as time and number allow; a seed is trained however short the time is."""
        search = GrowthSearch(
            problem,
            folder,
            cost_limit=self.cost_limit,
            sampling=self.sampling,
            workers=self.workers,
            random_state=seed,
        )
        tell = _NetworkLines(began, self.verbose)
        had = len(search.models)
        if not had:
            search.run(max_models=1, report=tell, stop=lambda: tell.is_ended)
        if search.ended_by in (None, "models"):
            growths = self.n_growths
            if growths is None and self.time_budget is None:
                growths = _GROWTHS
            left = None if self.time_budget is None else self.time_budget - (time.monotonic() - began)
            if left is None or left > 0:
                search.run(
                    left,
                    None if growths is None else max(had, 1) + int(growths),
                    report=tell,
                    stop=lambda: tell.is_ended,
                )
        return search

    @contextmanager
    def _folder(self, goes_on: bool) -> Iterator[Path]:
        """Where the search works: the user's own folder, or one with what an earlier search has left in memory."""
        if self.folder is not None:
            yield Path(self.folder)
            return
        with TemporaryDirectory(prefix="anytime-growth-") as name:
            for file, content in (self._memory.files or {}).items() if goes_on else ():
                (Path(name) / file).write_bytes(content)
            yield Path(name)

    def _seed(self, rows: NDArray[Any], targets: NDArray[Any], bound: Any) -> Architecture:
        """Where growth begins."""
        if self.network is not None:
            seed = module_seed(self.network, self.input_shape_)
            if seed.n_outputs != self._n_outputs:
                raise ValueError(
                    f"the network has {seed.n_outputs} outputs, but {self._n_outputs} are needed"
                )
            return seed
        if self._is_table:
            parts = (
                None
                if self.costs is None
                else [list(map(int, g)) for g in self._groups(rows, targets, bound)]
            )
            parts = None if parts is None else [part for part in parts if part]
            return table_seed(
                self.n_features_in_,
                self._n_outputs,
                n=self.n_cells or 1,
                width=self.width or 32,
                parts=parts,
                tying=self.tying,
            )
        side, halvings = min(max(self.input_shape_[1:]), 32), 0
        while halvings < 2 and side // 2 ** (halvings + 1) >= _SMALLEST:
            halvings += 1
        return image_seed(
            self.input_shape_,
            self._n_outputs,
            n=self.n_cells or 3,
            width=self.width or 16,
            resolutions=self.resolutions or halvings + 1,
            tying=self.tying,
        )

    def _scaling(self, rows: NDArray[Any], previous: Any) -> Scaling:
        if previous is not None:
            scaling: Scaling = previous.scaling
            return scaling
        return Scaling(*moments(rows, self.input_shape_))

    # ------------------------------------------------------------------ from the hull to the plan

    def _stages(
        self,
        search: GrowthSearch,
        problem: NetworkGrowth,
        gallery: Gallery,
        rows_val: NDArray[Any],
        codes: NDArray[Any] | None,
    ) -> tuple[list[tuple[NetworkBlock, float, float]], list[dict[str, Any]]]:
        """(stage, cost, error) of the networks of the hull, and all networks in a few numbers."""
        chosen = self._chosen(search.hull())
        entries = [(model.architecture, model.checkpoint, model.cost, model.error) for model in chosen]
        if not entries:  # Ctrl-C before the seed was ready
            unfinished = search.folder / UNFINISHED_SEED
            if not unfinished.exists():
                raise KeyboardInterrupt
            entries = [(problem.first(), UNFINISHED_SEED, problem.cost(problem.seed), 1.0)]
        stages = []
        for architecture, checkpoint, cost, error in entries:
            network = problem.load(architecture, search.folder / str(checkpoint))
            block = gallery.stage(network)
            if codes is not None and len(codes) >= _FEWEST_ROWS:
                block = gallery.stage(network, temperature(block.outputs(0, rows_val), codes))
            stages.append((block, float(cost), float(error)))
        descriptions = [
            {
                "number": model.number,
                "parent": model.parent,
                "cost": float(model.cost),
                "error": float(model.error),
                "parameters": int(model.notes.get("parameters", 0)),
            }
            for model in search.models
        ]
        return stages, descriptions

    def _chosen(self, hull: Sequence[Model]) -> list[Model]:
        """Networks that become stages: where columns have prices, each reads all that those before it read."""
        models = list(hull)
        if models and self.costs is not None:
            columns = [Architecture.from_json(model.architecture).columns() for model in models]
            models = [models[i] for i in nested(columns)]
        return [models[i] for i in spread_out([model.cost for model in models], self.max_stages)]

    def _adopt(
        self,
        stages: Sequence[tuple[NetworkBlock, float, float]],
        bound: Any,
        base: Array,
        rows_val: NDArray[Any],
        targets_val: NDArray[Any],
    ) -> None:
        blocks = [block for block, _, _ in stages]
        scores_by_stage = [
            np.tile(base, (len(rows_val), 1)),
            *(block.outputs(0, rows_val) for block in blocks),
        ]
        self.plan_ = Plan(
            blocks=blocks,
            costs=bound,
            base=base,
            link=self._link,
            replaces=np.ones(len(blocks), dtype=bool),
            evaluation_costs=increments([cost for _, cost, _ in stages]) if self.costs is None else None,
            quality=np.array([_quality(scores, targets_val, self._link) for scores in scores_by_stage]),
        )

    # ------------------------------------------------------------------ prices

    def _prices(self) -> Any:
        if self.costs is not None:
            return super()._prices()
        d = self.n_features_in_
        name = "columns" if self._is_table else "image"
        names = getattr(self, "feature_names_in_", None)
        listed = None if names is None else list(map(str, names))
        columns = list(range(d)) if listed is None else listed
        return FeatureCosts(groups={name: columns}, prices={name: 0.0}, unit="mult-adds").bind(d, listed)

    def profile(self, batch_size: int = 1, n_repeats: int = 9) -> Self:
        """The same model with prices in milliseconds per row, as measured on this machine for batches of this size.

        Parameters
        ----------
        batch_size : int, default=1
        n_repeats : int, default=9
            Runs of which the median counts.
        """
        blocks = [block for block in self._plan.blocks if isinstance(block, NetworkBlock)]
        taken = [float(1e3 * block.measure(batch_size, n_repeats)[0] / batch_size) for block in blocks]
        d = self.n_features_in_
        costs = FeatureCosts(groups={"input": list(range(d))}, prices={"input": 0.0}, unit="ms")
        measured = copy.copy(self)
        measured.plan_ = replace(
            self.plan_,
            costs=costs.bind(d),
            evaluation_costs=np.round(increments(taken), 6),
            expected_costs=None,
        )
        return measured

    # ------------------------------------------------------------------ files

    def _file_state(self) -> dict[str, Any]:
        if self.network is not None:
            raise TypeError(
                "what has grown on a network of your own cannot be saved to a file: a file holds no code. Pickle it"
            )
        return {
            "input_shape": list(self.input_shape_),
            "largest_seen": float(self._largest_seen),
            "models": self.models_,
        }

    def _restore_file_state(self, state: Mapping[str, Any]) -> None:
        shape, blocks = self._checked_shape(state["input_shape"]), self.plan_.blocks
        if any(not isinstance(b, NetworkBlock) or b.input_shape != shape or b.n_stages > 1 for b in blocks):
            raise ValueError(
                f"the stages of a {type(self).__name__} are networks of one exit for inputs of one shape"
            )
        if type(state["largest_seen"]) is not float:
            raise ValueError("largest_seen is a number")
        self._check_device()
        self.input_shape_, self._largest_seen = shape, state["largest_seen"]
        self.models_ = [_read_model(entry) for entry in state["models"]]
        device = self._available_device()
        moved = [block.to(device) for block in blocks if isinstance(block, NetworkBlock)]
        self.plan_ = replace(self.plan_, blocks=moved)


class _SearchMemory:
    """What a fitted model keeps to continue growing."""

    def __init__(
        self,
        files: dict[str, bytes] | None,  # all of the search's folder; None: the folder is the user's own
        search_seed: int,
        # of the rows and targets of the first fit, which all networks have been trained on
        scaling: Scaling,
        offset: Array | None,
        unit: Array | None,
    ) -> None:
        self.files, self.search_seed, self.scaling = files, search_seed, scaling
        self.offset, self.unit = offset, unit


def _read_model(entry: Mapping[str, Any]) -> dict[str, Any]:
    kinds = {"number": int, "cost": float, "error": float, "parameters": int}
    if any(type(entry[name]) is not kind for name, kind in kinds.items()):
        raise ValueError("a model of a search has a number, a cost, an error and a number of parameters")
    if entry["parent"] is not None and type(entry["parent"]) is not int:
        raise ValueError("the parent of a model is a number")
    return {"parent": entry["parent"], **{name: entry[name] for name in kinds}}


def _quality(scores: Array, targets: NDArray[Any], link: str) -> float:
    """Accuracy, or the mean squared error below zero."""
    if link == "softmax":
        return float(np.mean(LINKS[link].transform(scores).argmax(axis=1) == targets))
    return -float(np.mean(np.square(scores - targets)))


class _NetworkLines:
    """Tells of each new network, and notes when a callback wants the search to end."""

    def __init__(self, began: float, verbose: object) -> None:
        self.began, self.verbose, self.is_ended = began, verbose, False
        self._reported: set[int] = set()

    def __call__(self, search: GrowthSearch) -> None:
        models = search.models
        for model in models:
            if model.number not in self._reported:
                self._reported.add(model.number)
                best = min(models, key=lambda other: other.error)
                message = (
                    f"network {len(self._reported)}: error {model.error:.4f} at cost {model.cost:.4g}; the best so far: "
                    f"{best.error:.4f} at {best.cost:.4g}"
                )
                metrics = {"error": model.error, "cost": model.cost, "best_error": best.error}
                try:
                    elapsed = time.monotonic() - self.began
                    report(elapsed, message, self.verbose, n_networks=len(self._reported), **metrics)
                except KeyboardInterrupt:
                    self.is_ended = True
