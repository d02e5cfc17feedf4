"""Data for devices that decide themselves whether to speak."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anytime.costs import FeatureCosts
from anytime.sensing.problem import SensingProblem, SensorGate, SensorWeights, device_inputs

__all__ = ["SensorData", "device_columns", "make_adaptive_sparse_regression", "make_body_sensors"]

Array = NDArray[np.float64]
Seed = int | np.random.Generator | None


def device_columns(devices: int | Sequence[ArrayLike], n_columns: int) -> list[NDArray[np.intp]]:
    """The columns of each device: equal runs of columns if a number is given, else lists of positions."""
    if isinstance(devices, int | np.integer):
        if devices < 1 or n_columns % devices:
            raise ValueError(
                f"{n_columns} columns cannot be shared evenly by {devices} devices; list the columns of each"
            )
        return list(np.arange(n_columns, dtype=np.intp).reshape(int(devices), -1))
    columns = [np.asarray(part, dtype=np.intp).ravel() for part in devices]
    for k, part in enumerate(columns):
        if not part.size or part.min() < 0 or part.max() >= n_columns:
            raise ValueError(
                f"device {k} has the columns {part.tolist()}; at least one of 0 to {n_columns - 1} is needed"
            )
    if not columns:
        raise ValueError("there is no device")
    return columns


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
    truth : SensorWeights or None
        What made ``y``.
    gate : SensorGate or None
    """

    X: Array
    y: NDArray[Any]
    devices: list[NDArray[np.intp]]
    groups: NDArray[np.intp] | None = None
    truth: SensorWeights | None = None
    gate: SensorGate | None = None

    @property
    def costs(self) -> FeatureCosts:
        """Each device as a sensor that speaks at a price of 1."""
        groups = {f"sensor {k}": part.tolist() for k, part in enumerate(self.devices)}
        return FeatureCosts(groups=groups, prices=dict.fromkeys(groups, 1.0))

    @property
    def problem(self) -> SensingProblem:
        """Regression on the columns as they are, with nothing added by the cloud."""
        inputs = device_inputs(self.X, self.devices)
        return SensingProblem(
            inputs,
            np.asarray(self.y, dtype=np.float64)[:, None],
            np.zeros(1),
            "squared",
            self.gate or SensorGate(),
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
    truth, phi = SensorWeights.drawn(n_devices, n_dims, 1, random), SensorGate(gate, slope)
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
