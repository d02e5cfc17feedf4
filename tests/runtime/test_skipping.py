"""Jumps over closed filters lead where asking every filter leads."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from anytime.rules import MarginRule
from anytime.runtime.skipping import MarginSkips
from tests.reference.next_stage import next_stage
from tests.runtime.bench import linear_plan

levels = st.sampled_from([0.0, 0.5, 1.0, 1.5, 2.0, np.inf])
thresholds = st.lists(st.one_of(levels, st.just(np.nan), st.just(-1.0)), min_size=1, max_size=40)
margins = st.lists(st.one_of(levels, st.floats(0, 3), st.just(np.nan)), min_size=1, max_size=10)


@settings(max_examples=300)
@given(thresholds, margins, st.data())
def test_jump_equals_asking_every_filter(thresholds, margins, data):
    """P19: the queue's next stage is the naive one, for every margin and start."""
    theta = np.array(thresholds)
    skips = MarginSkips(theta)
    stages = [data.draw(st.integers(0, theta.size)) for _ in margins]
    naive = [next_stage(theta, m, s) for m, s in zip(margins, stages, strict=True)]
    assert skips.next_stage(np.array(margins), stages).tolist() == naive
    assert [skips.next_for(m, s) for m, s in zip(margins, stages, strict=True)] == naive


def test_jump_asks_few_filters():
    """A jump over S closed filters looks at about log2 S entries, not at S."""
    skips = MarginSkips(np.append(np.full(1023, 0.5), 2.0))
    assert len(skips.levels) == 11
    assert skips.next_for(1.0, 0) == 1023


def test_plan_with_one_filter_needs_no_jumps():
    assert MarginSkips.of(linear_plan()) is None
    assert MarginSkips.of(linear_plan(passes={1: MarginRule(1.0)}, link="logistic")) is None
    two = linear_plan(passes={0: MarginRule(1.0), 2: MarginRule(1.0)}, link="logistic")
    skips = MarginSkips.of(two)
    assert skips is not None
    assert skips.next_for(5.0, 0) == 1


def test_rule_that_keeps_certain_rows_has_to_be_visited():
    """A filter that passes large margins cannot be jumped over by maxima."""
    rules = {0: MarginRule(1.0), 1: MarginRule(1.0, below=False), 2: MarginRule(1.0)}
    skips = MarginSkips.of(linear_plan(passes=rules, link="logistic"))
    assert skips is not None
    assert skips.next_for(5.0, 0) == 1
