"""A small problem of sensors, its weights as one vector, and gradients by finite differences: what tests of sensing share."""

from dataclasses import replace

import numpy as np

from anytime.sensing.problem import SensingProblem, SensorGate, SensorWeights


def sensing_problem(loss, kind="sigmoid", slope=1.0, n=20, seed=0):
    rng = np.random.default_rng(seed)
    targets = np.eye(4)[rng.integers(4, size=n)] if loss == "cross_entropy" else rng.normal(size=(n, 1))
    inputs = rng.normal(size=(3, n, 2))
    problem = SensingProblem(
        inputs, targets, rng.normal(size=targets.shape[1]), loss, SensorGate(kind, slope)
    )
    weights = SensorWeights.drawn(3, 2, targets.shape[1], rng)
    if loss == "cross_entropy":
        weights = replace(weights, a=rng.normal(size=weights.a.shape))
    return problem, weights, rng.uniform(0.05, 0.95, size=(3, n))


def flattened(weights):
    return np.concatenate([array.ravel() for array in weights.arrays])


def shaped(flat, like):
    parts = np.split(flat, np.cumsum([array.size for array in like.arrays])[:-1])
    return SensorWeights(*(part.reshape(array.shape) for part, array in zip(parts, like.arrays, strict=True)))


def by_differences(function, at):
    step = 1e-5
    unit = np.eye(at.size)
    return np.array([(function(at + step * e) - function(at - step * e)) / (2 * step) for e in unit])
