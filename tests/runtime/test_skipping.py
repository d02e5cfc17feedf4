"""Jumps over closed filters lead where asking every filter leads."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from anytime.blocks import LinearBlock
from anytime.costs import FeatureCosts
from anytime.losses import LINKS
from anytime.plan import Plan
from anytime.rules import EntropyRule, FunctionRule, MarginRule, OutsideRule, ScoreRule
from anytime.runtime.skipping import Jumps, Skips
from tests.reference.next_stage import next_stage
from tests.runtime.bench import linear_plan

levels = st.sampled_from([0.0, 0.5, 1.0, 1.5, 2.0, np.inf, -np.inf])
thresholds = st.lists(st.one_of(levels, st.just(np.nan), st.just(-1.0)), min_size=1, max_size=40)
numbers = st.lists(st.one_of(levels, st.floats(0, 3), st.just(np.nan)), min_size=1, max_size=10)
AT_SCORE = ScoreRule(LinearBlock([0], [[1.0]]))


def first_score(scores):
    return scores[:, 0]


def is_even(scores):
    return np.floor(scores[:, 0]) % 2 == 0


@settings(max_examples=300)
@given(thresholds, numbers, st.booleans(), st.data())
def test_jump_equals_asking_every_filter(thresholds, numbers, below, data):
    """speedboost_and_structured P19: the queue's next stage is the naive one, for every number and start."""
    theta = np.array(thresholds)
    jumps = Jumps(theta, below)
    stages = np.array([data.draw(st.integers(0, theta.size)) for _ in numbers])
    naive = [next_stage(theta, m, s, below) for m, s in zip(numbers, stages, strict=True)]
    assert jumps.next_stage(np.array(numbers), stages).tolist() == naive


rules = st.one_of(
    st.none(),
    st.just(AT_SCORE),
    st.builds(MarginRule, st.floats(0, 2), st.booleans()),
    st.builds(EntropyRule, st.floats(0, 0.8), st.booleans()),
    st.builds(
        FunctionRule,
        function=st.sampled_from([first_score, is_even]),
        threshold=st.floats(-1, 1),
        below=st.booleans(),
    ),
    st.sampled_from([OutsideRule(-1.0), OutsideRule(-0.5, 0.5)]),
)


@settings(max_examples=200)
@given(st.lists(rules, min_size=1, max_size=30), st.lists(st.floats(-3, 3), min_size=1, max_size=5))
def test_rules_of_every_kind_are_jumped_over_together(rules, scores):
    """A stage is skipped only if its rule, which reads nothing but scores, says no; and then every such stage of a family is."""
    plan = Plan(
        blocks=[LinearBlock([0], [[1.0]]) for _ in rules],
        costs=FeatureCosts([1.0]).bind(1),
        base=[0.0],
        link="logistic",
        passes={s: rule for s, rule in enumerate(rules) if rule is not None},
    )
    skips = Skips(plan)
    F, empty = np.array(scores)[:, None], np.empty((1, 0))
    for i, score in enumerate(F):
        open_ = [
            rule is None
            or rule is AT_SCORE
            or skips.next_visit[s] == s  # it stands alone, so it is asked when the row gets there
            or bool(rule.holds(empty, score[None], LINKS["logistic"])[0])
            for s, rule in enumerate(rules)
        ]
        for start in range(len(rules) + 1):
            naive = next((s for s in range(start, len(rules)) if open_[s]), len(rules))
            assert skips.next_stage(F, np.full(len(F), start))[i] == naive


def test_jump_asks_few_filters():
    """A jump over S closed filters looks at about log2 S entries, not at S."""
    jumps = Jumps(np.append(np.full(1023, 0.5), 2.0))
    assert len(jumps.levels) == 11
    assert jumps.next_stage(np.array([1.0]), np.array([0])) == 1023


def test_plan_with_one_filter_needs_no_jumps():
    assert Skips.of(linear_plan()) is None
    assert Skips.of(linear_plan(passes={1: MarginRule(1.0)}, link="logistic")) is None
    assert Skips.of(linear_plan(passes={0: AT_SCORE, 1: AT_SCORE}, link="logistic")) is None
    two = linear_plan(passes={0: MarginRule(1.0), 2: MarginRule(1.0)}, link="logistic")
    skips = Skips.of(two)
    assert skips is not None
    assert skips.next_stage(np.array([[5.0]]), [0]) == 1


def test_rule_that_stands_alone_has_to_be_visited():
    rules = {0: MarginRule(1.0), 1: MarginRule(1.0, below=False), 2: MarginRule(1.0)}
    skips = Skips.of(linear_plan(passes=rules, link="logistic"))
    assert skips is not None
    assert skips.next_stage(np.array([[5.0]]), [0]) == 1
