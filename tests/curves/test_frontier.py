import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anytime.curves import pareto_frontier


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), min_size=1, max_size=20), st.booleans())
def test_frontier_is_what_nothing_dominates(points, greater):
    costs, values = np.array(points, dtype=float).T
    kept = pareto_frontier(costs, values, greater_is_better=greater)
    quality = values if greater else -values

    def dominated(i):
        return any(
            costs[j] <= costs[i]
            and quality[j] >= quality[i]
            and (costs[j] < costs[i] or quality[j] > quality[i] or j < i)
            for j in range(len(points))
            if j != i
        )

    assert sorted(kept) == [i for i in range(len(points)) if not dominated(i)]
    assert (np.diff(costs[kept]) > 0).all()
    assert (np.diff(quality[kept]) > 0).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pareto_frontier([1, 2], [1]), "vectors of one length"),
        (lambda: pareto_frontier([1, np.nan], [1, 2]), "NaN"),
    ],
)
def test_malformed_input_says_what_is_wrong(call, message):
    with pytest.raises(ValueError, match=message):
        call()
