"""A table, and short names for models, that the tests of this room share."""

import hashlib

import numpy as np
import pytest


@pytest.fixture(scope="session")
def table():
    """A table with gaps, two kinds of labels and a number to predict."""
    random = np.random.default_rng(0)
    X = random.normal(size=(3000, 6))
    X[:, 1] = np.round(X[:, 1] * 3)
    signal = np.column_stack([X[:, 0], X[:, 1] / 2, X[:, 2] * X[:, 3]]) + random.normal(size=(3000, 3))
    X[random.random(X.shape) < 0.1] = np.nan
    return X, (signal[:, 0] > 0).astype(int), np.argmax(signal, axis=1), signal.sum(axis=1)


@pytest.fixture
def digest(tmp_path):
    """The bytes of a model's file, as a short name for them."""

    def of(model):
        model.save(tmp_path / "model.anytime")
        return hashlib.sha256((tmp_path / "model.anytime").read_bytes()).hexdigest()

    return of
