"""Algorithm selection, on a scenario small enough to check by eye."""

from __future__ import annotations

import numpy as np
import pytest

from anytime_research.datasets import DataFormatError, load
from anytime_research.datasets.aslib import best_solver, one_step_per_feature

DESCRIPTION = """
scenario_id: tiny
algorithm_cutoff_time: 100
default_steps: [base]
feature_steps:
  late: {provides: [f3, f4], requires: [base, mid]}
  base: {provides: [f1]}
  mid: {provides: [f2, f3], requires: [base]}
"""
VALUES = """@relation v
@attribute instance_id string
@attribute repetition numeric
@attribute f1 numeric
@attribute f2 numeric
@attribute f3 numeric
@attribute f4 numeric
@data
a/1.cnf,1,1,2,3,4
'b,2.cnf',1,5,6,?,?
c,1,7,8,9,10
d,1,11,?,?,?
"""
COSTS = """@relation c
@attribute instance_id string
@attribute repetition numeric
@attribute late numeric
@attribute base numeric
@attribute mid numeric
@data
'b,2.cnf',1,?,20,30
a/1.cnf,1,100,10,30
c,1,300,30,0
d,1,?,40,?
"""
CV = """@relation f
@attribute instance_id string
@attribute repetition numeric
@attribute fold numeric
@data
a/1.cnf,1,1
'b,2.cnf',1,2
d,1,1
c,1,2
"""
RUNS = """@relation r
@attribute instance_id string
@attribute repetition numeric
@attribute algorithm string
@attribute runtime numeric
@attribute runstatus {ok,timeout,crash}
@data
a/1.cnf,1,zeta,10,ok
a/1.cnf,1,alpha,20,ok
a/1.cnf,1,beta,5,crash
'b,2.cnf',1,zeta,7,ok
'b,2.cnf',1,alpha,100.9,timeout
'b,2.cnf',1,beta,7,ok
c,1,zeta,100,timeout
c,1,alpha,100,timeout
c,1,beta,100,timeout
d,1,zeta,100,ok
d,1,alpha,99,ok
d,1,beta,100,timeout
"""


@pytest.fixture
def scenario(put, sized):
    """GRAPHS-2015 counts in milliseconds, so all times below come out divided by 1000."""
    files = {
        "feature_values.arff": VALUES,
        "feature_costs.arff": COSTS,
        "cv.arff": CV,
        "algorithm_runs.arff": RUNS,
    }
    for file, text in {**files, "description.txt": DESCRIPTION}.items():
        put(f"aslib/GRAPHS-2015/{file}", text)
    sized("GRAPHS-2015", rows=4, columns=4, groups=3)
    return put


def test_steps_are_groups_with_requirements_in_an_order_that_can_be_run(scenario):
    costs = load("GRAPHS-2015").costs
    assert costs.names == ("base", "mid", "late")
    assert costs.requires == {"mid": ("base",), "late": ("base", "mid")}
    assert costs.unit == "s"


def test_a_feature_of_two_steps_belongs_to_the_later(scenario):
    costs = load("GRAPHS-2015").costs
    assert costs.groups == {"base": (0,), "mid": (1,), "late": (2, 3)}


def test_later_means_after_what_it_requires_and_not_further_down_the_file():
    assert one_step_per_feature({"a": ["x"], "b": ["y", "x"], "c": []}) == {"a": [], "b": ["y", "x"], "c": []}


def test_prices_are_means_over_the_instances_that_were_measured(scenario):
    data = load("GRAPHS-2015")
    assert data.costs.prices == pytest.approx({"base": 0.025, "mid": 0.02, "late": 0.2})
    expected = [[0.01, 0.03, 0.1], [0.02, 0.03, np.nan], [0.03, 0, 0.3], [0.04, np.nan, np.nan]]
    np.testing.assert_allclose(data.row_costs, expected)


def test_no_time_on_record_only_where_the_features_are_missing(scenario):
    data = load("GRAPHS-2015")
    for g, columns in enumerate(data.costs.groups.values()):
        assert np.isnan(data.X[np.isnan(data.row_costs[:, g])][:, list(columns)]).all()


def test_best_solver_ties_failures_and_time_outs(scenario):
    data = load("GRAPHS-2015")
    assert data.target_names == ("alpha", "beta", "zeta")
    assert data.solved.tolist() == [
        [True, False, True],
        [False, True, True],
        [False] * 3,
        [True, False, False],
    ]
    # a: beta crashed early, so zeta; b: beta and zeta tie, so the first; c: nobody, so the best overall; d: alpha,
    # as a run at the cut-off does not count.
    assert data.y.tolist() == [2, 1, int(np.argmin(par10(data))), 0]
    np.testing.assert_allclose(data.runtimes[0], [0.02, 0.1, 0.01])
    assert data.runtimes.max() == 0.1


def par10(data):
    return np.where(data.solved, data.runtimes, 10 * 0.1).mean(axis=0)


def test_no_other_label_is_faster(scenario):
    data = load("GRAPHS-2015")
    seconds = np.where(data.solved, data.runtimes, np.inf)
    assert (seconds[np.arange(4), data.y] == seconds.min(axis=1)).all()


def test_official_folds(scenario):
    data = load("GRAPHS-2015")
    assert data.folds.tolist() == [1, 2, 2, 1]
    assert data.train is None
    second = load("GRAPHS-2015", fold=2)
    assert second.test.tolist() == [1, 2]
    assert second.train.tolist() == [0, 3]
    with pytest.raises(ValueError, match="fold must be from 1 to 2, not 3"):
        load("GRAPHS-2015", fold=3)


def test_unsolved_instances_can_be_dropped(scenario):
    data = load("GRAPHS-2015", unsolved="drop")
    assert len(data.X) == len(data.y) == len(data.folds) == len(data.row_costs) == len(data.runtimes) == 3
    assert data.solved.any(axis=1).all()
    with pytest.raises(ValueError, match="unsolved must be 'keep' or 'drop', not 'hide'"):
        load("GRAPHS-2015", unsolved="hide")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not valid YAML"),
        (
            "feature_steps: {a: {provides: [f1], requires: [a]}}\nalgorithm_cutoff_time: 1",
            "require each other in a circle",
        ),
        ("algorithm_cutoff_time: 1", "feature_steps"),
        ("just words", "does not have the expected contents"),
    ],
)
def test_a_description_that_makes_no_sense(scenario, text, message):
    scenario("aslib/GRAPHS-2015/description.txt", text)
    with pytest.raises(DataFormatError, match=message):
        load("GRAPHS-2015")


def test_costs_without_one_of_the_steps(scenario):
    scenario(
        "aslib/GRAPHS-2015/feature_costs.arff",
        COSTS.replace("@attribute mid numeric", "@attribute other numeric"),
    )
    with pytest.raises(
        DataFormatError, match=r"feature_costs.arff.gz does not have the expected contents.*mid"
    ):
        load("GRAPHS-2015")


def test_best_solver_prefers_finishing_late_to_not_finishing():
    runtimes, solved = np.array([[5.0, 99.0]]), np.array([[False, True]])
    assert best_solver(runtimes, solved, 100.0).tolist() == [1]
