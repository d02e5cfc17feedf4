"""Data for devices that decide themselves whether to speak."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from anytime.adaptive.sensing.problem import Gate, Problem, Weights, device_columns, device_inputs

__all__ = ["SensorData", "make_adaptive_sparse_regression", "make_body_sensors"]

Array = NDArray[np.float64]
Seed = int | np.random.Generator | None


@dataclass(frozen=True, eq=False)
class SensorData:
    """Examples seen by devices.

    Attributes
    ----------
    X : (n, d)
    y : (n,)
    devices : list of (d_k,) int
        The columns of each device.
    groups : (n,) int or None
        The person an example is of, to split by.
    truth : Weights or None
        What made ``y``.
    gate : Gate or None
    """

    X: Array
    y: NDArray[Any]
    devices: list[NDArray[np.intp]]
    groups: NDArray[np.intp] | None = None
    truth: Weights | None = None
    gate: Gate | None = None

    @property
    def problem(self) -> Problem:
        """Regression on the columns as they are, with nothing added by the cloud."""
        inputs = device_inputs(self.X, self.devices)
        return Problem(
            inputs, np.asarray(self.y, dtype=np.float64)[:, None], np.zeros(1), "squared", self.gate or Gate()
        )


def make_adaptive_sparse_regression(
    n_samples: int = 2000,
    n_devices: int = 2,
    n_dims: int = 2,
    *,
    gate: Literal["sigmoid", "relu"] = "sigmoid",
    slope: float = 1.0,
    noise: float = 0.0,
    random_state: Seed = None,
) -> SensorData:
    """``y = Σ_k v_k'x_k φ(w_k'x_k + b_k)``, everything normal (7.1).

    Examples
    --------
    >>> data = make_adaptive_sparse_regression(100, random_state=0)
    >>> data.X.shape, round(data.problem.direct(data.truth, 0.0), 12)
    ((100, 4), 0.0)
    """
    random = np.random.default_rng(random_state)
    X = random.standard_normal((n_samples, n_devices * n_dims))
    devices = device_columns(n_devices, n_devices * n_dims)
    truth, phi = Weights.drawn(n_devices, n_dims, 1, random), Gate(gate, slope)
    inputs = device_inputs(X, devices)
    gates = phi.value(truth.scores(inputs))
    y = np.einsum("kn,kn->n", gates, truth.messages(inputs)[:, :, 0]) + noise * random.standard_normal(
        n_samples
    )
    return SensorData(X, y, devices, truth=truth, gate=phi)


def make_body_sensors(
    n_samples: int = 2000,
    *,
    n_sensors: int = 5,
    n_activities: int = 13,
    n_people: int = 20,
    noise: float = 1.5,
    random_state: Seed = None,
) -> SensorData:
    """People at everyday activities with a motion sensor on each limb: windows of 8 steps of 5 channels per sensor.

    Made up in the shape of the Wearable Action Recognition Database, to which nothing in it is fitted. A limb has a few ways
    of moving (posture, frequency, strength), several activities share each of them, and so no sensor tells all apart.

    Parameters
    ----------
    n_samples, n_sensors, n_activities, n_people : int
    noise : float, default=1.5
        Of the channels; ways of moving are about 1 apart.
    random_state : int, Generator or None, default=None
    """
    steps, channels, ways = 8, 5, max(2, n_activities // 2)
    random = np.random.default_rng(random_state)
    posture = random.normal(size=(n_sensors, ways, channels))
    strength = np.abs(random.normal(size=(n_sensors, ways, channels)))
    frequency = random.uniform(0.1, 1.5, size=(n_sensors, ways))
    way_of = random.integers(ways, size=(n_sensors, n_activities))
    habit = 0.3 * random.normal(size=(n_people, n_sensors, channels))

    activity, person = (
        random.integers(n_activities, size=n_samples),
        random.integers(n_people, size=n_samples),
    )
    way = way_of[:, activity]  # (sensor, example)
    sensor = np.arange(n_sensors)[:, None]
    begin = random.uniform(0, 2 * np.pi, size=(n_samples, 1))  # all limbs move to one beat
    beat = np.sin(begin + frequency[sensor, way][:, :, None] * np.arange(steps))
    signal = posture[sensor, way][:, :, None, :] + strength[sensor, way][:, :, None, :] * beat[:, :, :, None]
    signal = (
        signal + habit[person].transpose(1, 0, 2)[:, :, None, :] + noise * random.normal(size=signal.shape)
    )
    X = signal.transpose(1, 0, 2, 3).reshape(n_samples, -1)
    return SensorData(X, activity, device_columns(n_sensors, X.shape[1]), groups=person)
