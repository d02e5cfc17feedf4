"""Tiny networks that several tests use, each trained once."""

from __future__ import annotations

import numpy as np
import pytest

import anytime as at


@pytest.fixture(scope="session")
def rows():
    """200 rows of 4 columns, three of which decide the class."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(200, 4)).astype(np.float32)
    return X, (X[:, 0] + X[:, 1] * X[:, 2] > 0).astype(np.int64)


@pytest.fixture(scope="session")
def pictures():
    """96 images of 3 x 8 x 8; the brightest channel tells the class."""
    generator = np.random.default_rng(0)
    y = generator.integers(0, 3, 96)
    X = generator.normal(100, 20, (96, 3, 8, 8))
    X[np.arange(96), y] += 40
    return X.clip(0, 255).astype(np.uint8), np.array(["red", "green", "blue"])[y]


@pytest.fixture(scope="session")
def seeing(pictures):
    """A residual network with exits behind 3 blocks."""
    from anytime.networks import TrainingRecipe

    return at.AnytimeNetworkClassifier(
        backbone="resann",
        backbone_arguments={"n": 1, "c": 4},
        recipe=TrainingRecipe(epochs=6, batch_size=16, learning_rate=0.05),
        random_state=0,
        device="cpu",
    ).fit(*pictures)


@pytest.fixture(scope="session")
def buying():
    """A regressor of two targets that buys the columns of a table in 3 blocks; rows and targets beside it."""
    from anytime.networks import TrainingRecipe

    X = np.random.default_rng(1).normal(size=(120, 5))
    y = np.column_stack([50 + 4 * X[:, 0], X[:, 1] - X[:, 2]])
    X[::7, 3] = np.nan
    model = at.AnytimeNetworkRegressor(
        backbone_arguments={"width": 8},
        costs=at.FeatureCosts([1.0, 2.0, 3.0, 4.0, 5.0]),
        max_stages=3,
        recipe=TrainingRecipe(epochs=5, batch_size=32, optimizer="adamw", learning_rate=5e-3),
        random_state=0,
        device="cpu",
    )
    return model.fit(X, y), X, y
