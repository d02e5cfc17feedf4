"""Cascade-Correlation (Fahlman and Lebiere 1990): a network that grows unit by unit, each trained once and then frozen.

A new hidden unit reads the inputs and all earlier units. Its weights maximise the covariance of its activation V with what the
network still gets wrong, ``S = Σ_o |Σ_p (V_p - mean V) (E_po - mean E_o)|``. Then only the outputs are fitted again, here
exactly, by least squares. Every prefix of units is a model, so that the result is a family over cost.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize

__all__ = ["CascadeCorrelation", "covariance_with_errors"]

Array = NDArray[np.float64]


def covariance_with_errors(weights: Array, Z: Array, errors: Array) -> tuple[float, Array]:
    """S of a unit ``tanh(Z w)``, divided by the number of rows, and its gradient.

    Parameters
    ----------
    weights : (m,)
    Z : (n, m)
        What the unit reads.
    errors : (n, k)
        Residuals of the outputs, each with mean zero.
    """
    activation = np.tanh(Z @ weights)
    covariances = (activation - activation.mean()) @ errors / len(Z)
    slope = (errors @ np.sign(covariances)) * (
        1 - activation**2
    )  # errors are centred: the mean of V drops out
    return float(np.abs(covariances).sum()), Z.T @ slope / len(Z)


@dataclass
class CascadeCorrelation:
    """A network grown by Cascade-Correlation, with linear outputs.

    Parameters
    ----------
    n_units : int
        Hidden units to add.
    n_candidates : int
        Units that are trained at each growth, from random weights; the one with the largest S stays.
    max_iter : int
        Steps of L-BFGS on S. 0: the best of random units.
    l2_regularization : float
        Of the output weights.
    random_state : int

    Attributes
    ----------
    units_ : list of arrays
        Input weights of each unit: of inputs, of the bias, and of earlier units.
    outputs_ : list of arrays
        Output weights of each prefix of units, beginning with none.
    """

    n_units: int = 10
    n_candidates: int = 8
    max_iter: int = 100
    l2_regularization: float = 1e-6
    random_state: int = 0
    units_: list[Array] = field(default_factory=list, init=False)
    outputs_: list[Array] = field(default_factory=list, init=False)

    def fit(self, X: ArrayLike, Y: ArrayLike) -> CascadeCorrelation:
        """Grow on rows X, (n, d), with targets Y, (n, k): numbers, or classes as columns of 0 and 1."""
        generator = np.random.default_rng(self.random_state)
        Z, Y = _with_bias(X), np.asarray(Y, dtype=np.float64)
        self.units_, self.outputs_ = [], [self._fitted(Z, Y)]
        for _ in range(self.n_units):
            errors = Y - Z @ self.outputs_[-1]
            unit = self._best_candidate(Z, errors - errors.mean(axis=0), generator)
            self.units_.append(unit)
            Z = np.column_stack([Z, np.tanh(Z @ unit)])
            self.outputs_.append(self._fitted(Z, Y))
        return self

    def _best_candidate(self, Z: Array, errors: Array, generator: np.random.Generator) -> Array:
        starts = generator.normal(size=(self.n_candidates, Z.shape[1])) / np.sqrt(Z.shape[1])
        trained = [self._trained(start, Z, errors) for start in starts]
        return max(trained, key=lambda weights: covariance_with_errors(weights, Z, errors)[0])

    def _trained(self, start: Array, Z: Array, errors: Array) -> Array:
        if not self.max_iter:
            return start

        def negative(weights: Array) -> tuple[float, Array]:
            value, gradient = covariance_with_errors(weights, Z, errors)
            return -value, -gradient

        found: Array = minimize(
            negative, start, jac=True, method="L-BFGS-B", options={"maxiter": self.max_iter}
        ).x
        return found

    def _fitted(self, Z: Array, Y: Array) -> Array:
        penalty = self.l2_regularization * len(Z) * np.eye(Z.shape[1])
        return np.linalg.solve(Z.T @ Z + penalty, Z.T @ Y).astype(np.float64)

    def staged_predict(self, X: ArrayLike) -> list[Array]:
        """(n, k) outputs with no unit, with the first, and so on."""
        Z = _with_bias(X)
        for unit in self.units_:
            Z = np.column_stack([Z, np.tanh(Z @ unit)])
        return [Z[:, : len(weights)] @ weights for weights in self.outputs_]

    def mult_adds(self) -> list[int]:
        """What a prediction of each prefix costs."""
        inside = np.cumsum([0, *(unit.size for unit in self.units_)])
        return [int(cost + weights.size) for cost, weights in zip(inside, self.outputs_, strict=True)]


def _with_bias(X: ArrayLike) -> Array:
    X = np.asarray(X, dtype=np.float64)
    return np.column_stack([X, np.ones(len(X))])
