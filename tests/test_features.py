"""Features: matrices and prices from the same extractors that will answer."""

import asyncio
import threading
import time

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from anytime.costs import FeatureCosts
from anytime.features import ExtractionError, Extractor, Features, seconds_per_unit

TEXTS = ["anytime", "budget", "cost"]


def vowels(text):
    return [text.count(c) for c in "aei"]


def test_columns_are_named_after_their_group():
    features = Features({"size": len, "vowels": vowels})
    X, groups = features.matrix(TEXTS), features.groups(TEXTS[0])
    assert groups == {"size": ["size"], "vowels": ["vowels[0]", "vowels[1]", "vowels[2]"]}
    assert X.columns.tolist() == ["size", "vowels[0]", "vowels[1]", "vowels[2]"]
    assert_array_equal(X.to_numpy(), [[7, 1, 1, 1], [6, 0, 1, 0], [4, 0, 0, 0]])


def test_columns_can_be_given_or_returned():
    features = Features(
        {"vowels": vowels, "ends": lambda text: {"first": ord(text[0]), "last": ord(text[-1])}},
        columns={"vowels": ["a", "e", "i"]},
    )
    X, groups = features.matrix(TEXTS), features.groups(TEXTS[0])
    assert groups == {"vowels": ["a", "e", "i"], "ends": ["first", "last"]}
    assert X.loc[1, "last"] == ord("t")


def test_groups_are_ready_for_a_price_list():
    features = Features({"size": len, "vowels": vowels}, requires={"vowels": ["size"]})
    X, groups = features.matrix(TEXTS), features.groups(TEXTS[0])
    costs = FeatureCosts({"size": 1.0, "vowels": 2.0}, groups=groups, requires=features.requires)
    assert costs.bind(4, list(X.columns)).column_group.tolist() == [0, 1, 1, 1]


def test_step_without_columns_is_built_on_by_others():
    features = Features(
        {
            "parse": lambda text: set(text),
            "kinds": Extractor(len, requires=["parse"], takes="required"),
            "repeats": Extractor(lambda text, kinds: len(text) - len(kinds), requires="parse", takes="both"),
        },
        columns={"parse": []},
    )
    X, groups = features.matrix(TEXTS), features.groups(TEXTS[0])
    assert groups == {"parse": [], "kinds": ["kinds"], "repeats": ["repeats"]}
    assert_array_equal(X.to_numpy(), [[7, 0], [6, 0], [4, 0]])


def test_function_that_returns_nothing_is_a_step():
    groups = Features({"start": lambda raw: None, "size": len}).groups(TEXTS[0])
    assert groups["start"] == []


def test_what_is_no_vector_is_explained():
    with pytest.raises(ExtractionError, match=r"group 'parse': returned a set.*columns=\{'parse': \[\]\}"):
        Features({"parse": set}).matrix(TEXTS)


def test_ragged_vectors_name_the_example():
    with pytest.raises(
        ExtractionError, match=r"'codes': raw example 1: returned 6 numbers, but .* 7 columns"
    ):
        Features({"codes": lambda text: [ord(c) for c in text]}).matrix(TEXTS)


def test_failing_example_is_named():
    def second_letter(text):
        if text == "cost":
            raise ValueError("bad")
        return 1.0

    with pytest.raises(ExtractionError, match="'x': raw example 2: ValueError: bad"):
        Features({"x": second_letter}).matrix(TEXTS)
    with pytest.raises(ValueError, match="at least one raw example is needed"):
        Features({"size": len}).matrix([])


# ---------------------------------------------------------------------- batch and asynchronous extractors


@pytest.mark.parametrize(
    "together",
    [
        lambda texts: [len(text) for text in texts],
        lambda texts: np.array([[len(text)] for text in texts]),
        lambda texts: {"size": [len(text) for text in texts]},
    ],
)
def test_batch_extractor_sees_all_examples_at_once(together):
    calls = []

    def size(texts):
        calls.append(len(texts))
        return together(texts)

    for features in (
        Features({"size": size}, batch=True, columns={"size": ["size"]}),
        Features({"size": Extractor(size, batch=True)}, columns={"size": ["size"]}),
        Features({"size": size}, batch=["size"], columns={"size": ["size"]}),
    ):
        X = features.matrix(TEXTS)
        assert X["size"].tolist() == [7, 6, 4]
    assert calls == [3, 3, 3]


def test_batch_extractor_may_return_a_table():
    import pandas as pd

    def table(texts):
        return pd.DataFrame({"size": [len(text) for text in texts], "a": [text.count("a") for text in texts]})

    X = Features({"both": table}, batch=True, columns={"both": ["size", "a"]}).matrix(TEXTS)
    assert_array_equal(X.to_numpy(), [[7, 1], [6, 0], [4, 0]])


def test_batch_of_the_wrong_length_is_refused():
    with pytest.raises(ExtractionError, match="returned 1 results for a batch of 3 examples"):
        Features({"size": lambda texts: [1]}, batch=True).matrix(TEXTS)


def test_derived_batch_extractor_gets_lists():
    features = Features(
        {
            "size": lambda texts: [len(text) for text in texts],
            "twice": Extractor(
                lambda texts, sizes: [2 * s for s in sizes], batch=True, requires=["size"], takes="both"
            ),
        },
        batch=["size"],
    )
    assert features.matrix(TEXTS)["twice"].tolist() == [14, 12, 8]


def test_asynchronous_extractors_run_at_once():
    running, most = 0, 0

    async def size(text):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1
        return len(text)

    X = Features({"size": size}).matrix(TEXTS)
    assert X["size"].tolist() == [7, 6, 4]
    assert most == 3


def test_asynchronous_extractor_times_out():
    async def hang(text):
        await asyncio.sleep(60)

    with pytest.raises(ExtractionError, match=r"timed out after 0\.01 s"):
        Features({"size": hang}, timeout=0.01).matrix(TEXTS)


def test_workers_are_used_again():
    features = Features({"size": len})
    features.submit("size", ["a"], [{}]).result()
    before = threading.active_count()
    for _ in range(100):
        assert features.submit("size", ["abc"], [{}]).result(5) == [3]
    assert threading.active_count() <= before + 1


def test_hanging_worker_does_not_hold_up_the_others():
    release = threading.Event()
    features = Features({"hang": lambda raw: release.wait(10), "size": len})
    hanging = features.submit("hang", ["x"], [{}])
    assert features.submit("size", ["abc"], [{}]).result(5) == [3]
    release.set()
    assert hanging.result(5) == [True]


def test_cancelled_job_leaves_its_worker_in_order():
    release = threading.Event()
    features = Features({"hang": lambda raw: release.wait(10), "size": len})
    for _ in range(3):
        waiting = features.submit("hang", ["x"], [{}])
        waiting.cancel()
    release.set()
    for _ in range(5):
        assert features.submit("size", ["abc"], [{}]).result(5) == [3]


# ---------------------------------------------------------------------- profile


class Watch:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def takes(self, seconds, result):
        def extract(*arguments):
            self.now += next(seconds) if hasattr(seconds, "__next__") else seconds
            return result

        return extract


def test_profile_measures_median_and_tail_of_each_group_by_itself(tmp_path):
    watch = Watch()
    varied = iter([9.0, *np.linspace(0.001, 0.1, 100)])  # the first call is a warm-up and does not count
    features = Features(
        {
            "start": watch.takes(0.020, None),
            "hog": Extractor(watch.takes(varied, [1.0, 2.0]), requires=["start"]),
        },
        clock=watch,
    )
    path = tmp_path / "costs.yaml"
    costs = features.profile([0] * 50, n_repeats=2, path=path)
    assert costs.unit == "ms"
    assert costs.prices == {"start": 20.0, "hog": 50.5}
    assert costs.tails == {"start": 20.0, "hog": 100.0}
    assert costs.groups == {"start": (), "hog": ("hog[0]", "hog[1]")}
    assert costs.requires == {"hog": ("start",)}
    assert FeatureCosts.read(path) == costs
    assert FeatureCosts.read(path).tails == costs.tails


def test_profile_in_other_units():
    watch = Watch()
    features = Features({"size": watch.takes(0.5, 1.0)}, clock=watch)
    assert features.profile(TEXTS, unit="s").prices == {"size": 0.5}
    assert features.profile(TEXTS, unit="us").prices == {"size": 5e5}
    with pytest.raises(ValueError, match="unit must be"):
        features.profile(TEXTS, unit="CAD")
    with pytest.raises(ValueError, match="n_repeats"):
        features.profile(TEXTS, n_repeats=0)
    with pytest.raises(ValueError, match="no raw example"):
        features.profile([])


def test_profile_of_real_extractors_is_plausible():
    def slow(text):
        time.sleep(0.003)
        return 1.0

    costs = Features({"slow": slow, "fast": len}).profile(TEXTS, n_repeats=2)
    assert costs.prices["slow"] >= 3.0
    assert costs.prices["fast"] < costs.prices["slow"]
    assert costs.tails["slow"] >= costs.prices["slow"]


def test_units_of_time():
    assert seconds_per_unit("ms") == 1e-3
    assert seconds_per_unit("CAD") is None
    assert seconds_per_unit(None) is None


# ---------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"extractors": {"a": 1}}, "function of the raw example"),
        ({"extractors": {"a": len}, "columns": {"b": ["b"]}}, "columns names 'b'"),
        ({"extractors": {"a": len}, "batch": ["b"]}, "batch names 'b'"),
        ({"extractors": {"a": len}, "requires": {"b": ["a"]}}, "requires names 'b'"),
        ({"extractors": {"a": len}, "requires": {"a": ["b"]}}, "requires names 'b'"),
        ({"extractors": {"a": len, "b": len}, "requires": {"a": ["b"], "b": ["a"]}}, "in a cycle"),
    ],
)
def test_bad_description_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Features(**arguments)


@pytest.mark.parametrize(
    ("options", "message"), [({"takes": "all"}, "takes must be"), ({"timeout": 0.0}, "timeout must be")]
)
def test_bad_extractor_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Extractor(len, **options)


def test_features_of_a_child_process_have_threads_of_their_own():
    """Threads do not survive a fork; the first call after it starts new ones."""
    import multiprocessing

    features = Features({"size": len})
    features.submit("size", ["abc"], [{}]).result(5)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply_async(_in_child).get(20) == [4]


def _in_child():
    return Features({"size": len}).submit("size", ["abcd"], [{}]).result(5)
