"""Problems of the thesis (adaptive_approximation 13)."""

import numpy as np


def synthetic_2(seed=0, spread=0.01):
    """Section 13.2: four clusters labelled (+, -, +, -) of 20, 20, 15 and 15 rows; rows, classes and clusters."""
    centres, sizes = np.array([(1, 1), (-1, 1), (-1, -1), (-1, -3)]), [20, 20, 15, 15]
    cluster = np.repeat(np.arange(4), sizes)
    X = centres[cluster] + spread * np.random.default_rng(seed).standard_normal((70, 2))
    return X, np.array([1, 0, 1, 0])[cluster], cluster
