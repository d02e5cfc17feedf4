"""Anytime linear prediction: groups of columns bought one after the other, with weights refitted for every prefix.

At every budget the answer is provably near the best linear answer that the budget can buy: CS-G-OMP and CS-G-FR of Hu et al.,
*Efficient Feature Group Sequencing for Anytime Linear Prediction* (2016; Hu 2019, chapter 3), grouped and simultaneous
forward regression and orthogonal matching pursuit of Grubb, *Anytime Prediction*, 2014, chapter 5.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import fields
from numbers import Real
from pathlib import Path as FilePath
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_classifier
from sklearn.utils import Tags, check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_consistent_length, validate_data

from anytime._compat import Interval, Options, StrOptions, checked_weights
from anytime.calibrated import holding_out
from anytime.estimator import AnytimeModel
from anytime.greedy.certificate import Certificate
from anytime.linear.chunks import Chunk, parquet_chunks
from anytime.linear.learning_from_moments import LearnedSequence, learn_from_moments
from anytime.linear.learning_from_rows import learn_from_rows
from anytime.linear.moments import Moments, Standardised
from anytime.linear.sequencing import Arrangement, LassoOrder, Recipe
from anytime.linear.sparse_rows import SparseRows
from anytime.losses import Loss
from anytime.parameters import PARAMETERS, store
from anytime.plan import Plan
from anytime.rows import Rows
from anytime.spreading import SpreadRows, read_rows
from anytime.validation import validated, warn_caller

Array = NDArray[np.float64]

_FEWEST_HELD = 10  # rows; with fewer held out, no ridge can be chosen
_PLAIN_RIDGE = 1e-3  # what is taken then
_WORKED_OUT = ("plan_", "certificate_", "l2_regularization_")  # from moments


def keeps_moments(model: GroupPursuit) -> bool:
    """Whether second moments are all that the model learns from."""
    squared = model._loss_given in ("squared", "least_squares")
    return squared and model.norm_bound is None and model.fit_intercept


def _refuse_to_do_without_rows(model: GroupPursuit, error: type[Exception] = ValueError) -> None:
    if not keeps_moments(model):
        raise error(
            "second moments suffice only for squared loss with an intercept and no norm_bound; here "
            f"loss={model._loss_given!r}, norm_bound={model.norm_bound}, fit_intercept={model.fit_intercept}: "
            "use fit, or set loss='squared'"
        )


class GroupPursuit(AnytimeModel):
    """Base of the classifier and the regressor."""

    _default_loss = "squared"

    certificate_: Certificate | None
    l2_regularization_: Array

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "selection": [StrOptions({"omp", "forward", "single", "forward_single", "lasso"})],
        "whiten": [StrOptions({"data", "criterion"}), Options(bool, {False})],
        "c_min": [*PARAMETERS["c_min"].constraint, StrOptions({"auto"})],
        "loss": [str, Loss],
        "l2_regularization": [*PARAMETERS["l2_regularization"].constraint, StrOptions({"auto"})],
        "norm_bound": [Interval(Real, 0, None, closed="neither"), None],
        "fit_intercept": ["boolean"],
        "tol": [Interval(Real, 0, 1, closed="neither")],
    }

    def __init__(
        self,
        *,
        costs: Any = None,
        selection: str = "omp",
        whiten: str | bool = "data",
        cost_aware: bool = True,
        schedule: str = "greedy",
        c_min: float | str = "auto",
        loss: str | Loss = "auto",
        class_weight: Mapping[Any, float] | str | None = None,
        l2_regularization: float | str = "auto",
        norm_bound: float | None = None,
        fit_intercept: bool = True,
        validation_fraction: float | None = 0.2,
        tol: float = 1e-8,
        budget: float | None = None,
        meter: str = "model",
        calibration: str | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int | bool = 0,
    ) -> None:
        store(self, locals())

    def __getattr__(self, name: str) -> Any:
        """Attributes that ``partial_fit`` has made out of date are computed when they are next read."""
        if name in _WORKED_OUT and "_stream" in self.__dict__ and "plan_" not in self.__dict__:
            self._settle()
            return getattr(self, name)
        if name == "partial_fit":
            _refuse_to_do_without_rows(self, AttributeError)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    # ------------------------------------------------------------------ learning

    @property
    def _spreads(self) -> str | None:
        return "rows" if keeps_moments(self) else None

    @holding_out
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Choose the order of the groups and fit weights for every prefix. If the fit fails, the model stays as it was.

        Parameters
        ----------
        X : (n, d)
            NaN for a missing value, which counts as the mean of its column. With squared loss also a sparse matrix, without
            missing values: only products of its non-zero entries are formed. Predictions write out its zeros.
        y : (n,) or (n, k)
        sample_weight : (n,), default=None
            Rows of weight 0 are ignored.
        """
        self._validate_params()
        fresh = self._unfitted()
        X, y, sample_weight = read_rows(
            fresh, lambda X, y: fresh._rows(X, y, reset=True), X, y, sample_weight
        )
        X, y, weight = _weighing(X, y, sample_weight)
        if not len(X):
            raise ValueError("all sample weights are zero")
        weight = fresh._weighed_by_class(y, weight)
        targets = fresh._targets(y, reset=True)
        loss = fresh._loss()
        arrangement = fresh._arranged()
        if keeps_moments(fresh):
            stream = _MomentStream(fresh, targets.shape[1])
            stream.add(X, targets, weight)
            fresh._set_learned(stream.learned(fresh, arrangement), arrangement, loss)
        else:
            random = check_random_state(self.random_state)
            held = None
            if self.l2_regularization == "auto":
                held = random.random_sample(len(X)) < (self.validation_fraction or 0.0)
            centre, spread = fresh._target_units(targets, weight, loss)
            learned = learn_from_rows(
                X,
                targets if spread is None else (targets - centre) / spread,
                weight,
                arrangement,
                fresh._recipe(),
                loss,
                l2_regularization=self.l2_regularization
                if held is None or held.sum() >= _FEWEST_HELD
                else _PLAIN_RIDGE,
                held=held if held is not None and held.sum() >= _FEWEST_HELD else None,
                bound=self.norm_bound,
                fit_intercept=self.fit_intercept,
                tol=self.tol,
                n_outputs=fresh._n_outputs(targets),
                verbose=int(self.verbose),
            )
            if spread is not None:
                learned = learned.with_targets_in(centre, spread)
            fresh._set_learned(learned, arrangement, loss)
        self.__dict__ = fresh.__dict__
        return self

    @available_if(keeps_moments)  # type: ignore[untyped-decorator]
    def partial_fit(
        self, X: Any, y: Any, classes: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Add rows to those of earlier calls, keeping only their second moments: memory O(d²), whatever the number of rows.

        The sequence is computed when the model is next used, so a long stream costs one pass and one sequence. After ``fit``, and
        in a model that was loaded from a file, a new stream starts, with a warning: only a pickle keeps the moments of a stream.
        Squared loss only (for a classifier: ``loss="squared"``), without ``norm_bound``.

        Parameters
        ----------
        X : (n, d)
        y : (n,) or (n, k)
        classes : (C,), default=None
            For a classifier: all labels; required in the first call.
        sample_weight : (n,), default=None
        """
        self._validate_params()
        stream = self.__dict__.get("_stream")
        fresh = copy.copy(self) if stream is not None else self._unfitted()
        if stream is None and is_classifier(self) and classes is None:
            if not hasattr(self, "classes_"):
                raise ValueError("the first call of partial_fit needs classes, the list of all labels")
            classes = self.classes_  # of an earlier fit, whose rows are forgotten
        X, y = fresh._rows(X, y, reset=stream is None)
        targets = fresh._targets(y, reset=stream is None, classes=classes)
        y = _weighing(X, y, sample_weight)[1]
        X, targets, weight = _weighing(X, targets, sample_weight)
        weight = fresh._weighed_by_class(y, weight, streaming=True)
        if stream is None and "plan_" in self.__dict__:
            warn_caller(
                "partial_fit: the model was fitted by fit or loaded from a file, and keeps no moments of its rows; a new stream "
                "starts"
            )
        if stream is None:
            fresh._arranged()  # prices that do not fit raise now, not when the stream has ended
            fresh._stream = _MomentStream(fresh, targets.shape[1])
        fresh._stream.add(X, targets, weight)
        for outdated in _WORKED_OUT:
            fresh.__dict__.pop(outdated, None)
        self.__dict__ = fresh.__dict__
        return self

    def fit_chunks(
        self,
        chunks: str | FilePath | Iterable[Chunk],
        *,
        target: str | list[str] | None = None,
        sample_weight: str | None = None,
        classes: ArrayLike | None = None,
    ) -> Self:
        """Fit on more rows than fit in memory.

        Parameters
        ----------
        chunks : path or iterable
            A Parquet file or a folder of them; or an iterable of (X, y) or (X, y, sample_weight).
        target : str or list of str, default=None
            The column(s) to predict, in a Parquet file.
        sample_weight : str, default=None
            The column of sample weights in a Parquet file.
        classes : (C,), default=None
            For a classifier: all labels. None: for a Parquet file, they are collected in a first pass over the target.
        """
        self._validate_params()
        _refuse_to_do_without_rows(self)
        trained = self._unfitted()
        if not isinstance(chunks, (str, FilePath)) and (target is not None or sample_weight is not None):
            raise ValueError(
                "target and sample_weight are for Parquet files; leave them out for other chunks"
            )
        if isinstance(chunks, (str, FilePath)):
            chunks, types = parquet_chunks(
                chunks, target, sample_weight, labels=is_classifier(self) and classes is None
            )
            classes = classes if types is None else types
        any_rows = False
        for chunk in chunks:
            if not isinstance(chunk, (tuple, list)) or len(chunk) not in (2, 3):
                raise TypeError("each chunk must be a pair (X, y), or (X, y, sample_weight)")
            X, y, *rest = chunk
            trained.partial_fit(X, y, classes, *rest)
            any_rows = True
        if not any_rows:
            raise ValueError("there are no rows: the iterable of chunks is empty")
        trained.plan_  # noqa: B018  # worked out now
        del trained._stream
        self.__dict__ = trained.__dict__
        return self

    def fit_moments(
        self,
        covariance: ArrayLike,
        correlation: ArrayLike,
        *,
        mean: ArrayLike | None = None,
        target_mean: ArrayLike | None = None,
        target_variance: ArrayLike | None = None,
        feature_names: list[str] | None = None,
    ) -> Self:
        """Fit from second moments alone, such as moments computed elsewhere.

        Parameters
        ----------
        covariance : (d, d)
            Covariance of the columns (divisor n).
        correlation : (d,) or (d, k)
            Covariance of the columns with the targets.
        mean : (d,), default=None
            Mean of the columns. None: 0.
        target_mean, target_variance : float or (k,), default=None
            None: 0 and 1.
        feature_names : list of str, default=None

        Examples
        --------
        >>> import anytime as at
        >>> model = at.GroupPursuitRegressor(selection="forward", l2_regularization=0.0)
        >>> model.fit_moments([[1, 0.9, 0], [0.9, 1, 0], [0, 0, 1]], [0.6, 0.5, 0.08]).order_
        ['x0', 'x1', 'x2']
        """
        self._validate_params()
        _refuse_to_do_without_rows(self)
        if self.l2_regularization == "auto":
            raise ValueError("l2_regularization cannot be chosen on moments; set it to a number")
        fresh = self._unfitted()
        standardised = Standardised.of(covariance, correlation, mean, target_mean, target_variance)
        n_columns, n_targets = standardised.correlation.shape
        fresh._start_from_moments(n_targets)
        fresh.n_features_in_ = n_columns
        if feature_names is not None:
            if len(feature_names) != n_columns:
                raise ValueError(
                    f"{len(feature_names)} feature names, but covariance has {n_columns} columns"
                )
            fresh.feature_names_in_ = np.array([str(name) for name in feature_names], dtype=object)
        arrangement = fresh._arranged()
        learned = learn_from_moments(standardised, arrangement, fresh._recipe(), fresh.l2_regularization)
        fresh._set_learned(learned, arrangement, fresh._loss())
        self.__dict__ = fresh.__dict__
        return self

    # ------------------------------------------------------------------ steps of it

    def _unfitted(self) -> Self:
        """A twin with the same parameters and nothing learned."""
        twin = copy.copy(self)
        twin.__dict__ = {
            name: value
            for name, value in self.__dict__.items()
            if not name.endswith("_") and name not in ("_stream", "_one_row")
        }
        return twin

    def _rows(self, X: Any, y: Any, reset: bool) -> tuple[Any, Any]:
        kinds = [np.float64, np.float32]  # moments are gathered in float64 whatever comes
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        if hasattr(X, "tocsr") and keeps_moments(self):
            sparse = SparseRows(validate_data(self, X, reset=reset, dtype=np.float64, accept_sparse="csr"))
            check_consistent_length(sparse, y)
            return sparse, y
        read = validated(self, X, reset=reset, dtype=kinds, ensure_all_finite="allow-nan")
        check_consistent_length(read, y)
        return np.asarray(read), y

    def _read_in(self, X: Any) -> Rows:
        return super()._read_in(X.toarray() if hasattr(X, "tocsr") and keeps_moments(self) else X)

    def _arranged(self) -> Arrangement:
        return Arrangement.of(self._bound_costs())

    def _recipe(self) -> Recipe:
        settings = {field.name: getattr(self, field.name) for field in fields(Recipe)}
        if self.selection != "lasso":
            return Recipe(**settings)
        if self.schedule == "doubling":
            raise ValueError(
                "selection='lasso' has its own order and cannot be combined with schedule='doubling'"
            )
        return LassoOrder(**settings | {"selection": "omp"})  # whose criterion records the gains

    def _settle(self) -> None:
        """Work out the sequence of what ``partial_fit`` has gathered."""
        arrangement = self._arranged()
        self._set_learned(self._stream.learned(self, arrangement), arrangement, self._loss())

    def _set_learned(self, learned: LearnedSequence, arrangement: Arrangement, loss: Loss) -> None:
        block, n_stages = learned.block, learned.block.n_stages
        self.plan_ = Plan(
            blocks=[block] if n_stages else [],
            costs=arrangement.costs,
            base=learned.base,
            link=loss.link,
            replaces=np.ones(n_stages, dtype=bool),
            quality=learned.quality,
        )
        self.l2_regularization_ = learned.ridges
        # What is proved ends where the model ends.
        self.certificate_ = None if learned.certificate is None else learned.certificate.head(n_stages)

    def _target_units(self, targets: NDArray[Any], weight: Array | None, loss: Loss) -> tuple[Any, Any]:
        """Mean and deviation of the targets, in which a loss of ours is measured; (0, None) where they stay as they are."""
        if loss.link != "identity" or not isinstance(self.loss, str):
            return 0.0, None
        centre = np.average(targets, axis=0, weights=weight)
        spread = np.sqrt(np.average((targets - centre) ** 2, axis=0, weights=weight))
        return (centre if self.fit_intercept else 0.0 * centre), np.where(spread > 0, spread, 1.0)

    @property
    def _loss_given(self) -> str | Loss:
        return self._default_loss if isinstance(self.loss, str) and self.loss == "auto" else self.loss

    def _loss(self) -> Loss:
        raise NotImplementedError

    def _targets(self, y: Any, reset: bool, classes: ArrayLike | None = None) -> NDArray[Any]:
        raise NotImplementedError

    def _weighed_by_class(self, y: Any, weight: Array | None, streaming: bool = False) -> Array | None:
        """Weights of rows, times those of their classes where there are any."""
        return weight

    def _n_outputs(self, targets: NDArray[Any]) -> int:
        raise NotImplementedError

    def _start_from_moments(self, n_targets: int) -> None:
        raise NotImplementedError

    def truncate(self, budget: float | None = None, *, mean_budget: float | None = None) -> Self:
        """A separate model within smaller bounds, with a certificate that ends there too."""
        smaller: Self = super().truncate(budget, mean_budget=mean_budget)
        n_stages = smaller.plan_.n_stages
        smaller.l2_regularization_ = self.l2_regularization_[:n_stages]
        smaller.certificate_ = None if self.certificate_ is None else self.certificate_.head(n_stages)
        return smaller

    # ------------------------------------------------------------------ files

    def _file_state(self) -> dict[str, Any]:
        certificate = None if self.certificate_ is None else self.certificate_.to_dict()
        return {"l2_regularization": self.l2_regularization_, "certificate": certificate}

    def _restore_file_state(self, state: dict[str, Any]) -> None:
        self.l2_regularization_ = np.asarray(state["l2_regularization"], dtype=np.float64)
        if (
            self.l2_regularization_.shape != (self.plan_.n_stages,)
            or not np.isfinite(self.l2_regularization_).all()
        ):
            raise ValueError("l2_regularization_ must hold one finite number per stage")
        stored = state["certificate"]
        self.certificate_ = None if stored is None else Certificate.from_dict(stored)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = keeps_moments(self)
        return tags


class _MomentStream:
    """Second moments of the rows seen so far: those to learn from, and those held out to choose the ridge on."""

    def __init__(self, model: GroupPursuit, n_targets: int) -> None:
        self.train = Moments(model.n_features_in_, n_targets)
        self.held = self.train.beside()
        self.n_held = 0
        self.fraction = _held_share(model)
        self.random = np.random.default_rng(check_random_state(model.random_state).randint(2**31))

    def add(self, X: NDArray[np.floating], Y: Array, weight: Array | None) -> None:
        if not np.isfinite(Y).all():
            raise ValueError("y holds NaN or infinity")
        if isinstance(X, SpreadRows):
            held = self.random.random(len(X)) < self.fraction
            X.add_to_moments([self.train, self.held], Y, weight, held.astype(np.intp))
            self.n_held += int(held.sum())
            return
        if not self.fraction:
            self.train.add(X, Y, weight)
            return
        held = self.random.random(len(X)) < self.fraction
        self.train.locate(X, Y)
        self.held.shift, self.held.target_shift = self.train.shift, self.train.target_shift
        self.train.add(X, Y, weight, np.flatnonzero(~held))
        self.held.add(X, Y, weight, np.flatnonzero(held))
        self.n_held += int(held.sum())

    def learned(self, model: GroupPursuit, arrangement: Arrangement) -> LearnedSequence:
        """The sequence of what has been gathered."""
        if (_held_share(model) > 0) != (self.fraction > 0):
            raise ValueError(
                f"l2_regularization is {model.l2_regularization!r} now, but the stream began with another kind: held-out "
                "rows are drawn as they come, so set it before the first partial_fit"
            )
        recipe = model._recipe()
        choosing = (
            self.fraction > 0
            and self.n_held >= _FEWEST_HELD
            and self.train.weight > 0
            and self.held.weight > 0
        )
        if not choosing:
            everything = self.train.merged(self.held).standardised()
            l2_regularization: Any = (
                _PLAIN_RIDGE if model.l2_regularization == "auto" else model.l2_regularization
            )
            return learn_from_moments(everything, arrangement, recipe, l2_regularization)

        def of_all_rows(columns: NDArray[np.intp]) -> Standardised:
            return self.train.only(columns).merged(self.held.only(columns)).standardised()

        train = self.train.standardised()
        held = self.held.standardised(like=train)
        return learn_from_moments(train, arrangement, recipe, model.l2_regularization, held, of_all_rows)


def _held_share(model: GroupPursuit) -> float:
    """Share of the rows that are held out to choose the ridge on."""
    return (model.validation_fraction or 0.0) if model.l2_regularization == "auto" else 0.0


def _weighing(
    X: NDArray[np.floating], y: Any, sample_weight: ArrayLike | None
) -> tuple[NDArray[np.floating], Any, Array | None]:
    """The rows that weigh anything, and what they weigh."""
    if sample_weight is None:
        return X, y, None
    weight = np.asarray(sample_weight)
    # scikit-learn refuses zeros alone; a chunk may have no more
    if weight.shape != (len(X),) or weight.any():
        weight = checked_weights(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    some = weight > 0
    return (X, y, weight) if some.all() else (X[some], np.asarray(y)[some], weight[some])
