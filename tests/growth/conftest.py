"""Rows and tiny networks that tests of growth share."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture(scope="session")
def rings():
    """400 rows of 6 columns; the class is told by the distance from the origin in three of them, in three rings."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(400, 6)).astype(np.float32)
    radius = np.square(X[:, :3]).sum(axis=1)
    return X, np.digitize(radius, np.quantile(radius, [1 / 3, 2 / 3])).astype(np.int64)


@pytest.fixture(scope="session")
def stripes():
    """120 images of 2 x 9 x 9: stripes along or across, in one of the channels."""
    generator = np.random.default_rng(1)
    y = generator.integers(0, 3, 120)
    X = generator.normal(0, 0.5, (120, 2, 9, 9)).astype(np.float32)
    wave = np.sin(np.arange(9))
    X[y == 0, 0] += wave[:, None]
    X[y == 1, 0] += wave[None, :]
    X[y == 2, 1] += wave[:, None]
    return X, y.astype(np.int64)
