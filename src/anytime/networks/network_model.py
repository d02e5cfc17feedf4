"""Base of the network estimators: from rows to a trained network, and to a plan whose stages are its exits."""

from __future__ import annotations

import copy
import math
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from anytime._compat import StrOptions
from anytime.costs import FeatureCosts
from anytime.estimator import AnytimeModel
from anytime.losses import LINKS
from anytime.networks.backbones import BACKBONES, build
from anytime.networks.block import NetworkBlock
from anytime.networks.counting import mult_adds
from anytime.networks.devices import chosen_device, default_device, is_here
from anytime.networks.exits import ExitNetwork
from anytime.networks.images import ImageRows
from anytime.networks.inputs import as_array, count_axes, image_shape, moments, read_dataset
from anytime.networks.recipe import TrainingRecipe, auto_weights
from anytime.networks.stored import StoredNetworkBlock
from anytime.networks.training import NetworkTrainer
from anytime.networks.weights import SCHEMES, LossWeights, loss_weights
from anytime.parameters import not_negative, shared, store
from anytime.plan import Array, Plan
from anytime.progress import is_followed, report
from anytime.rows import Rows
from anytime.stopping import stop_table, temperature
from anytime.trees.rows import checked_weights, split_rows
from anytime.validation import validated

__all__ = ["NetworkModel", "calibrated"]

_FOR_TABLES = TrainingRecipe(
    epochs=100, batch_size=64, optimizer="adamw", learning_rate=2e-3, weight_decay=1e-2
)
_FOR_IMAGES = TrainingRecipe(epochs=60, batch_size=128, augment="crop_flip")
_LEAST_BLOCKS = 2
_FEWEST_ROWS = 32  # that say from which margin on rows may leave early
_DEVICES = re.compile(r"(cpu|cuda|mps|xpu)(:\d{1,3})?")  # that a file may name


class NetworkModel(AnytimeModel):
    """Base of both estimators."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **shared("costs", "budget", "meter", "max_stages", "validation_fraction", "time_budget"),
        **shared("warm_start", "class_weight", "random_state", "n_jobs", "verbose"),
        "backbone": [StrOptions(set(BACKBONES)), ExitNetwork],
        "backbone_arguments": [Mapping, None],
        "loss_weights": [StrOptions({"auto", *SCHEMES}), LossWeights],
        "order": [StrOptions({"pursuit"}), "array-like", AnytimeModel],
        "evaluation_cost": [StrOptions({"mult_adds", "ms"}), not_negative, None],
        "recipe": [TrainingRecipe, None],
        "device": [str, None],
        "checkpoint": [str, Path, None],
    }

    _link: ClassVar[str]
    _attaches: ClassVar[str] = "module"  # by which ``load`` takes what a file does not hold
    _largest_seen: float = np.inf
    input_shape_: tuple[int, ...]

    def __init__(
        self,
        *,
        backbone: str | ExitNetwork = "mlp",
        backbone_arguments: Mapping[str, Any] | None = None,
        costs: Any = None,
        order: Any = "pursuit",
        max_stages: int = 16,
        budget: float | None = None,
        meter: str = "model",
        evaluation_cost: float | Literal["mult_adds", "ms"] | None = None,
        loss_weights: str | LossWeights = "auto",
        recipe: TrainingRecipe | None = None,
        validation_fraction: float | None = 0.1,
        time_budget: float | None = None,
        checkpoint: str | Path | None = None,
        warm_start: bool = False,
        device: str | None = None,
        class_weight: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        store(self, locals())

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
        """Train the network.

        Parameters
        ----------
        X : (n, d) table, (n, channels, height, width) or (n, height, width, channels) images, or torch Dataset
            A torch Dataset yields pairs of an input and its label.
        y : (n,)
            None for a torch Dataset.
        sample_weight : (n,), default=None
        X_val, y_val : default=None
            Rows that evaluate exits and calibrate their confidence. None: ``validation_fraction`` of the rows.
        """
        began = time.monotonic()
        self._validate_params()
        chosen_device(self.device)  # one that is not here is refused before anything is computed
        if y is None:
            X, y = read_dataset(X, type(self).__name__)
        if y_val is None and X_val is not None and not hasattr(X_val, "shape"):
            X_val, y_val = read_dataset(X_val, type(self).__name__)
        previous = self._previous() if self.warm_start else None
        rows, y = self._read_training(X, y)
        weight = None if sample_weight is None else checked_weights(sample_weight, rows)
        targets, weight = self._encode(y, weight)
        random = check_random_state(self.random_state)
        seed = int(random.randint(2**31 - 1))
        held = self._held_out(rows, targets, weight, X_val, y_val, random)
        rows, targets, weight, rows_val, targets_val, weight_val = held
        self._train(rows, targets, weight, rows_val, targets_val, weight_val, seed, began, previous)
        return self

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
        previous: NetworkBlock | None,
    ) -> None:
        recipe, scheme = self._settings()
        bound = self._prices()
        start = self._untrained(rows, targets, bound, recipe, seed) if previous is None else previous
        network = copy.deepcopy(start.network).to(dtype=torch.float32)
        offset, unit = self._units(targets)
        is_told = self.verbose or is_followed()
        trainer = NetworkTrainer(
            network,
            recipe,
            scheme,
            device=start.device,
            seed=seed,
            prepare=lambda x: start.prepared(x).float(),
            checkpoint=self.checkpoint,
            report=self._progress(recipe, began) if is_told else None,
        )
        left = None if self.time_budget is None else max(self.time_budget - (time.monotonic() - began), 1e-3)
        images = rows.reshape(len(rows), *self.input_shape_)
        images_val = scaled_val = None
        if rows_val is not None and targets_val is not None and len(rows_val):
            images_val = rows_val.reshape(len(rows_val), *self.input_shape_)
            scaled_val = self._scaled_targets(targets_val, offset, unit)
        trainer.fit(
            images,
            self._scaled_targets(targets, offset, unit),
            sample_weight=None if weight is None else weight.astype(np.float32),
            X_val=images_val if is_told else None,
            y_val=scaled_val if is_told else None,
            time_budget=left,
        )
        if not trainer.step:
            raise KeyboardInterrupt
        block = start.changed(
            trainer.network,
            temperatures=None,
            offset=offset,
            unit=unit,
            dtype=torch.float64 if self._is_table else torch.float32,
        )
        self.history_ = trainer.history
        self.n_epochs_ = trainer.epoch
        self.plan_ = Plan(
            blocks=[block],
            costs=bound,
            base=self._base(targets, weight, offset),
            link=self._link,
            replaces=np.ones(block.n_stages, dtype=bool),
            evaluation_costs=self._evaluation_costs(block),
        )
        if self._link == "softmax" and rows_val is not None and scaled_val is not None:
            self.plan_ = calibrated(self.plan_, rows_val, scaled_val, weight_val)

    def _untrained(
        self, rows: NDArray[Any], targets: NDArray[Any], bound: Any, recipe: TrainingRecipe, seed: int
    ) -> NetworkBlock:
        """The network that training begins with, and how it reads rows."""
        groups = self._groups(rows, targets, bound) if self._is_table else []
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = self._build(groups)
        centre, spread = moments(rows, self.input_shape_)
        return NetworkBlock(
            network,
            self._columns_of_exits(network, groups),
            self.input_shape_,
            centre=centre,
            spread=spread,
            device=chosen_device(self.device),
            batch_rows=min(recipe.batch_size * 4, 1024),
        )

    def _settings(self) -> tuple[TrainingRecipe, LossWeights]:
        recipe = self.recipe or (_FOR_TABLES if self._is_table else _FOR_IMAGES)
        if isinstance(self.loss_weights, str) and self.loss_weights == "auto":
            return auto_weights(recipe)
        return recipe, copy.deepcopy(loss_weights(self.loss_weights))

    def _previous(self) -> NetworkBlock | None:
        plan = getattr(self, "plan_", None)
        if plan is None:
            return None
        block = plan.blocks[0]
        return block if isinstance(block, NetworkBlock) else None

    def _build(self, groups: Sequence[NDArray[np.intp]]) -> ExitNetwork:
        arguments = dict(self.backbone_arguments or {})
        if isinstance(self.backbone, ExitNetwork):
            if arguments:
                raise ValueError("backbone_arguments needs a backbone given by name, not a module")
            return copy.deepcopy(self.backbone)
        arguments = {"input_shape": list(self.input_shape_), "n_outputs": self._n_outputs, **arguments}
        if self.backbone == "mlp":
            arguments["groups"] = [list(map(int, columns)) for columns in groups]
        elif self.backbone == "resann" and self.loss_weights == "auto":
            arguments.setdefault("side", 4)
        return build(self.backbone, **arguments)

    def _progress(self, recipe: TrainingRecipe, began: float) -> Any:
        def tell(entry: Mapping[str, Any]) -> None:
            errors = entry.get("errors", entry["losses"])
            chosen = [errors[round(share * (len(errors) - 1))] for share in (0.0, 0.25, 0.5, 0.75, 1.0)]
            what = "validation error" if "errors" in entry else "training loss"
            report(
                time.monotonic() - began,
                f"epoch {entry['epoch']:>3}/{recipe.epochs}  {what} of exits at 0, 1/4, 1/2, 3/4, 1: "
                f"{'  '.join(f'{value:.4f}' for value in chosen)}",
                self.verbose,
                epoch=entry["epoch"],
                **{what.replace(" ", "_"): errors[-1]},
            )

        return tell

    # ------------------------------------------------------------------ rows

    @property
    def _is_table(self) -> bool:
        return len(self.input_shape_) == 1

    def _read_training(self, X: Any, y: Any) -> tuple[NDArray[Any], Any]:
        """(n, d) rows as the plan reads them."""
        needs_images = isinstance(self.backbone, str) and self.backbone != "mlp"
        if count_axes(X) > 2 or isinstance(X, torch.Tensor):
            images = as_array(X)
            if images.ndim > 2:
                if self.backbone == "mlp":
                    raise ValueError(
                        f"the backbone 'mlp' reads tables, (n, columns), and X has shape {images.shape}; "
                        "for images use backbone='resann', 'denseann' or 'msdnet'"
                    )
                self.input_shape_ = image_shape(images)
                self.n_features_in_ = int(np.prod(self.input_shape_))
                rows = ImageRows(self.input_shape_)(images)
                if len(rows) != len(y):
                    raise ValueError(f"{len(rows)} images but {len(y)} labels")
                self._largest_seen = float(np.abs(rows).max(initial=0))
                return rows, np.asarray(y)
            X = images
        if needs_images:
            raise ValueError(
                f"the backbone {self.backbone!r} reads images, (n, channels, height, width) or (n, height, width, "
                f"channels), and X has shape {np.shape(X)}; for tables use backbone='mlp'"
            )
        rows, y = validated(
            self, X, y, dtype=np.float64, order="C", ensure_all_finite="allow-nan", multi_output=True
        )
        self.input_shape_ = (rows.shape[1],)
        return rows, y

    @property
    def _flattened(self) -> ImageRows | None:
        """What makes rows of images; None for tables."""
        return None if self._is_table else ImageRows(self.input_shape_, self._largest_seen)

    @property
    def _takes_missing(self) -> bool:
        return self._is_table and super()._takes_missing

    def _read_in(self, X: Any) -> Rows:
        if not hasattr(self, "plan_"):  # check_is_fitted takes several times as long to ask
            check_is_fitted(self, "plan_")
        if self._is_table:
            return super()._read_in(as_array(X) if isinstance(X, torch.Tensor) else X)
        if hasattr(X, "__getitem__") and not hasattr(X, "shape") and not isinstance(X, (list, tuple)):
            X = read_dataset(X, type(self).__name__)[0]
        images = as_array(X)
        if images.ndim == 3 and images.shape == self.input_shape_ and self.input_shape_[0] != 1:
            raise ValueError(
                f"expected several images, not one of shape {images.shape}: use predict_one, or X[None]"
            )
        return Rows(ImageRows(self.input_shape_, self._largest_seen)(images))

    def predict_one(
        self,
        x: Any,
        budget: float | None = None,
        deadline: float | None = None,
        *,
        mean_budget: float | None = None,
    ) -> Any:
        """The prediction for one row or one image. See ``answer`` for the bounds."""
        if getattr(self, "plan_", None) is None or self._is_table:
            return super().predict_one(x, budget, deadline, mean_budget=mean_budget)
        due = self._due(time.monotonic(), deadline)
        rows = self._read_in(as_array(x)[None])
        return self._decided_one(self._run_plan(rows, budget, mean_budget, due))

    def _held_out(
        self,
        rows: NDArray[Any],
        targets: NDArray[Any],
        weight: Array | None,
        X_val: Any,
        y_val: Any,
        random: np.random.RandomState,
    ) -> tuple[NDArray[Any], NDArray[Any], Array | None, Any, Any, Array | None]:
        """Rows, targets and weights to fit on, and the same to judge on; None where there are none."""
        if X_val is not None:
            images = count_axes(X_val) > 2 or not self._is_table
            rows_val = ImageRows(self.input_shape_)(as_array(X_val)) if images else self._as_numbers(X_val)
            return rows, targets, weight, rows_val, self._encode_more(y_val), None
        if self.validation_fraction is None or len(rows) < 20:
            return rows, targets, weight, None, None, None
        strata = targets if self._link == "softmax" else np.zeros(len(rows), dtype=np.intp)
        if self._is_table:
            fit, held = split_rows(rows, strata.astype(np.intp), self.validation_fraction, random)
        else:
            order = random.permutation(len(rows))
            cut = int(self.validation_fraction * len(rows))
            held, fit = np.sort(order[:cut]), np.sort(order[cut:])
        kept, judging = (None if weight is None else weight[part] for part in (fit, held))
        return rows[fit], targets[fit], kept, rows[held], targets[held], judging

    # ------------------------------------------------------------------ prices

    def _prices(self) -> Any:
        if self.costs is None and not self._is_table:
            d = self.n_features_in_
            unit = "ms" if self.evaluation_cost == "ms" else "mult-adds"
            return FeatureCosts(groups={"image": list(range(d))}, prices={"image": 0.0}, unit=unit).bind(d)
        return self._bound_costs()

    def _evaluation_costs(self, block: NetworkBlock) -> Array | None:
        how = self.evaluation_cost
        if how is None:
            if self._is_table or self.costs is not None:
                return None
            how = "mult_adds"
        if how == "mult_adds":
            return np.array(mult_adds(block.network, self.input_shape_).stages(), dtype=np.float64)
        if how == "ms":
            return np.round(1e3 * block.measure(), 6)
        return np.full(block.n_stages, float(how))

    def profile(self, batch_size: int = 1, n_repeats: int = 9) -> Self:
        """The same model with prices in milliseconds per row, as measured on this machine for batches of this size.

        Parameters
        ----------
        batch_size : int, default=1
        n_repeats : int, default=9
            Number of runs; the median counts.
        """
        block = self.plan_.blocks[0]
        assert isinstance(block, NetworkBlock)
        taken = np.round(1e3 * block.measure(batch_size, n_repeats) / batch_size, 6)
        d = self.n_features_in_
        costs = FeatureCosts(groups={"input": list(range(d))}, prices={"input": 0.0}, unit="ms")
        measured = copy.copy(self)
        measured.plan_ = replace(self.plan_, costs=costs.bind(d), evaluation_costs=taken, expected_costs=None)
        return measured

    def to_onnx_blocks(self, folder: str | Path, *, dtype: str = "float32") -> list[Path]:
        """One ONNX model per block, for runtimes that want to stop in between; needs ``anytime[onnx]``.

        The first file reads ``X``, (rows, ...) in the shape of ``input_shape_``. Each returns ``prediction`` and, for a
        classifier, ``probability``. All but the last also return ``next_0``, ``next_1`` and so on, the inputs ``state_0``,
        ``state_1`` and so on of the file after, as far as it has them. The number of rows is free.

        Parameters
        ----------
        folder : str or Path
            Created if it does not exist.
        dtype : {"float32", "float64"}, default="float32"
            Type of ``X``.

        Returns
        -------
        list of Path
            ``block_1.onnx`` and so on, one for each stage within the model's budget.

        Raises
        ------
        ExportError
            If torch cannot export the network, or rows leave it one by one.
        """
        from importlib import import_module

        # export stands above the models, so it is met only here, at run time
        paths: list[Path] = import_module("anytime.export").to_onnx_blocks(self, folder, dtype=dtype)
        return paths

    def _groups(self, rows: Array, targets: NDArray[Any], bound: Any) -> list[NDArray[np.intp]]:
        """Columns that enter with each block, in the order of purchase."""
        names = list(bound.costs.names)
        columns = {name: np.flatnonzero(bound.column_group == g) for g, name in enumerate(names)}
        ordered = [name for name in self._ordered(rows, targets, bound) if columns[name].size]
        rest = [name for name in names if name not in ordered and columns[name].size]
        ordered += sorted(rest, key=lambda name: bound.costs.price([name]))
        parts = np.array_split(np.arange(len(ordered)), min(self.max_stages, max(len(ordered), 1)))
        groups = [np.concatenate([columns[ordered[i]] for i in part]) for part in parts if part.size]
        while len(groups) < min(_LEAST_BLOCKS, self.max_stages):
            groups.append(np.zeros(0, dtype=np.intp))
        return groups

    def _ordered(self, rows: Array, targets: NDArray[Any], bound: Any) -> list[str]:
        order = self.order
        if isinstance(order, AnytimeModel):
            order = order.order_
        if not isinstance(order, str):
            wrong = [name for name in order if name not in bound.costs.names]
            if wrong:
                raise ValueError(f"order names the group {wrong[0]!r}, which costs does not have")
            return list(order)
        filled = np.where(np.isnan(rows), np.nan_to_num(np.nanmean(rows, axis=0)), rows)
        some = slice(None, None, max(len(rows) // 20_000, 1))
        loss = "auto" if self.time_budget is None else "squared"  # which is many times quicker
        pursuit = self._pursuit()(costs=bound.costs, loss=loss, l2_regularization=1e-3)
        if bound.n_groups < 2:
            return list(bound.costs.names)
        names = getattr(self, "feature_names_in_", None)
        table: Any = filled[some]
        if names is not None:
            import pandas as pd

            table = pd.DataFrame(table, columns=names)
        return list(pursuit.fit(table, targets[some]).order_)

    def _columns_of_exits(
        self, network: ExitNetwork, groups: Sequence[NDArray[np.intp]]
    ) -> list[NDArray[np.intp]]:
        if not groups or not (isinstance(self.backbone, str) and self.backbone == "mlp"):
            return [np.arange(self.n_features_in_)] * network.n_exits
        return [np.concatenate(groups[: i + 1]) for i in range(network.n_exits)]

    # ------------------------------------------------------------------ files

    def attach(self, module: ExitNetwork) -> Self:
        """Attach the module of a model that was loaded without it; a copy gets the weights of the file.

        Parameters
        ----------
        module : ExitNetwork
            With the same blocks and heads as the one that was trained, whatever its weights.

        Raises
        ------
        ValueError
            If names, shapes or types of weights differ, or nothing is missing.
        """
        check_is_fitted(self, "plan_")
        if self.detached_ is None:
            raise ValueError("this model already has its network; there is nothing to attach")
        blocks = [
            block.attached(module).to(self._available_device())
            if isinstance(block, StoredNetworkBlock)
            else block
            for block in self.plan_.blocks
        ]
        self.plan_ = replace(self.plan_, blocks=blocks)
        self.backbone = module
        return self

    @property
    def detached_(self) -> str | None:
        """The name of the module if it has to be attached; None if it is present."""
        lost = [block.detached.name for block in self._plan.blocks if block.detached is not None]
        return lost[0] if lost else None

    def _available_device(self) -> torch.device:
        """Where the network is computed: the device of the constructor, if this machine has it."""
        if self.device is None or not is_here(self.device):
            return default_device()
        return torch.device(self.device)

    def _file_state(self) -> dict[str, Any]:
        return {
            "input_shape": list(self.input_shape_),
            "largest_seen": float(self._largest_seen),
            "n_epochs": int(self.n_epochs_),
            "history": _plain(self.history_),
        }

    def _restore_file_state(self, state: Mapping[str, Any]) -> None:
        shape, blocks = self._checked_shape(state["input_shape"]), self.plan_.blocks
        networks = [block for block in blocks if isinstance(block, (NetworkBlock, StoredNetworkBlock))]
        if len(blocks) > 1 or len(networks) < len(blocks):
            raise ValueError(f"the stages of a {type(self).__name__} are the exits of one network")
        if any(block.input_shape != shape for block in networks):
            raise ValueError(f"the network reads inputs of another shape than {shape}")
        if type(state["largest_seen"]) is not float or type(state["n_epochs"]) is not int:
            raise ValueError("largest_seen and n_epochs must be numbers")
        self._check_device()
        self.input_shape_, self._largest_seen = shape, state["largest_seen"]
        self.n_epochs_, self.history_ = state["n_epochs"], state["history"]
        moved = [
            block.to(self._available_device()) if isinstance(block, NetworkBlock) else block
            for block in blocks
        ]
        self.plan_ = replace(self.plan_, blocks=moved)

    def _checked_shape(self, sizes: Sequence[Any]) -> tuple[int, ...]:
        """The shape of one input as a file names it; ``ValueError`` where it is none, or not that of the columns."""
        shape = tuple(sizes)
        if (
            not 1 <= len(shape) <= 3
            or any(type(size) is not int or size < 1 for size in shape)
            or len(shape) == 2
        ):
            raise ValueError(f"a network reads tables or images, not inputs of shape {shape}")
        if math.prod(shape) != self.n_features_in_:
            raise ValueError(f"inputs of shape {shape} are not {self.n_features_in_} columns")
        return shape

    def _check_device(self) -> None:
        """Refuse the name of a device in a file that is none."""
        device = self.device
        if device is not None and (type(device) is not str or not _DEVICES.fullmatch(device)):
            raise ValueError(f"no device is called {device!r:.60}")

    # ------------------------------------------------------------------ what a classifier and a regressor do differently

    @property
    def _n_outputs(self) -> int:
        raise NotImplementedError

    def _pursuit(self) -> type[AnytimeModel]:
        raise NotImplementedError

    def _encode(self, y: Any, weight: Array | None) -> tuple[NDArray[Any], Array | None]:
        raise NotImplementedError

    def _encode_more(self, y: Any) -> NDArray[Any]:
        raise NotImplementedError

    def _units(self, targets: NDArray[Any]) -> tuple[Array | None, Array | None]:
        return None, None

    def _scaled_targets(
        self, targets: NDArray[Any], offset: Array | None, unit: Array | None
    ) -> NDArray[Any]:
        return targets

    def _base(self, targets: NDArray[Any], weight: Array | None, offset: Array | None) -> Array:
        raise NotImplementedError


def calibrated(
    plan: Plan, rows: NDArray[Any], codes: NDArray[Any], sample_weight: Array | None = None
) -> Plan:
    """The plan of a network that classifies, with temperatures and a table of stops chosen on validation rows.

    Parameters
    ----------
    plan : Plan
    rows : (n, d)
        As the plan reads them.
    codes : (n,) int
        Classes.
    sample_weight : (n,), default=None
        For temperatures.
    """
    block, link = plan.blocks[0], LINKS[plan.link]
    assert isinstance(block, NetworkBlock)
    scores = np.empty((block.n_stages, len(rows), block.width))
    for start in range(0, len(rows), block.batch_rows):
        some = rows[start : start + block.batch_rows]
        memory = block.remember(len(some))
        for stage in range(block.n_stages):
            scores[stage, start : start + len(some)] = block.proceed(stage, stage, some, memory)
    factors = np.array([temperature(exit, codes, sample_weight) for exit in scores])
    scores /= factors[:, None, None]
    table, costs = None, plan.stage_costs
    if len(rows) >= _FEWEST_ROWS and costs[0] < costs[-1]:
        confidence = np.array([link.transform(exit).max(axis=1) for exit in scores])
        table = stop_table(confidence, np.array([link.margin(exit) for exit in scores]), costs)
    block = block.changed(block.network, temperatures=block.temperatures * factors)
    return replace(plan, blocks=[block], stop_table=table)


def _plain(value: Any) -> Any:
    """Numbers, lists and dicts as a file holds them."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value.tolist() if hasattr(value, "tolist") else value
