"""Problems of the thesis (adaptive_approximation 13)."""

import numpy as np

from anytime_research import datasets as research_datasets


def synthetic_2():
    """Section 13.2: rows, classes and clusters."""
    X, y, _ = research_datasets.make_misleading_feature()
    return X, y, np.repeat(np.arange(4), [20, 20, 15, 15])
