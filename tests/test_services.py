"""Cascades of services: recording, learning, asking, time-outs, further attempts and the bill."""

import asyncio
import time

import numpy as np
import pandas as pd
import pytest

import anytime as at

NUMBERS = list(range(400))
TRUTH = [n % 3 == 0 for n in NUMBERS]


def small(n):
    """Knows even numbers, and says so."""
    return (n % 3 == 0, 0.9) if n % 2 == 0 else (False, 0.5)


def large(n):
    return n % 3 == 0


def made(services=None, prices=None, **settings):
    services = services or {"small": small, "large": large}
    settings = {"n_estimators": 12, "random_state": 0, "cost_penalty": 0.005, **settings}
    return at.cascade(services, prices=prices or {"small": 1.0, "large": 20.0}, **settings)


@pytest.fixture(scope="module")
def recorded():
    return made().record(NUMBERS)


def test_only_requests_in_doubt_reach_the_large_service(recorded):
    cascade = made().fit(recorded, TRUTH)
    assert cascade.predict(10).services == ["small"]
    answer = cascade.predict(9)
    assert answer.services == ["small", "large"]
    assert answer.cost == 21.0
    assert answer.prediction


def test_a_budget_is_kept_also_by_further_attempts(recorded):
    calls = []

    def failing(n):
        calls.append(n)
        raise ConnectionError("nobody there")

    cascade = made({"small": small, "large": failing}, retries=5, timeout=5.0).fit(recorded, TRUTH)
    answer = cascade.predict(9, budget=45.0)
    assert len(calls) == 2
    assert answer.attempts == {"small": 1, "large": 2}
    assert answer.cost == 41.0
    assert "nobody there" in answer.failures["large"]
    calls.clear()
    assert cascade.predict(9, budget=19.0).services == ["small"]
    assert not calls


def test_an_attempt_that_succeeds_after_others_is_taken_and_all_are_paid(recorded):
    tries = []

    def flaky(n):
        tries.append(n)
        if len(tries) < 3:
            raise TimeoutError("busy")
        return n % 3 == 0

    answer = made({"small": small, "large": flaky}, retries=2).fit(recorded, TRUTH).predict(9)
    assert answer.prediction
    assert answer.cost == 61.0
    assert not answer.failures


def test_a_service_that_hangs_is_left_behind(recorded):
    async def slow(n):
        await asyncio.sleep(30)

    def blocked(n):
        time.sleep(30)

    for service in (slow, blocked):
        cascade = made({"small": small, "large": service}, timeout=0.05).fit(recorded, TRUTH)
        answer = cascade.predict(9)
        assert "large" in answer.failures
        assert answer.cost == 21.0
        assert answer.prediction is not None


def test_a_coroutine_is_asked_like_a_function(recorded):
    async def asked(n):
        return n % 3 == 0

    assert made({"small": small, "large": asked}).fit(recorded, TRUTH).predict(9).prediction


def test_a_price_by_request_is_on_the_bill(recorded):
    prices = {"small": 1.0, "large": lambda n, said: 10.0 + n % 20}
    table = made(prices=prices).record(NUMBERS)
    cascade = made(prices=prices).fit(table, TRUTH)
    assert cascade.model.costs_.prices["large"] == pytest.approx(np.mean([10.0 + n % 20 for n in NUMBERS]))
    assert cascade.predict(9).cost == 20.0
    with pytest.raises(ValueError, match="column 'large price'"):
        made(prices=prices).fit(recorded.drop(columns=["large price"]), TRUTH)


def test_recorded_answers_alone_are_enough_to_learn_and_to_predict_tables(recorded):
    cascade = made({"small": None, "large": None}).fit(recorded, TRUTH)
    assert cascade.model.score(recorded, TRUTH, mean_budget=12) > 0.95
    with pytest.raises(ValueError, match="only recorded answers"):
        cascade.predict(9)


def test_answers_that_cannot_be_compared_are_chosen_by_how_good_they_are():
    """The negative control is in the second line: a request that the small model can do is answered by it."""
    texts = ["easy " * 3, "hard " * 30] * 150
    graded = pd.DataFrame({"small": [1.0, 0.0] * 150, "large": 1.0})
    services = {"small": lambda text: ("short answer", 0.5), "large": lambda text: ("long answer", 0.5)}
    cascade = made(services, inputs=lambda text: {"length": len(text)}, cost_penalty=0.01)
    cascade.fit(cascade.record(texts), graded)
    assert cascade.predict("hard " * 30).prediction == "long answer"
    easy = cascade.predict("easy " * 3)
    assert easy.prediction == "short answer"
    assert easy.cost == 1.0


def test_graded_services_without_scores_are_asked_too():
    texts = ["easy", "hard " * 30] * 150
    graded = pd.DataFrame({"small": [1.0, 0.0] * 150, "large": 1.0})
    services = {"small": lambda text: "short answer", "large": lambda text: "long answer"}
    cascade = made(services, inputs=lambda text: {"length": len(text)}, cost_penalty=0.01)
    table = cascade.record(texts)
    for answers in (table, table.drop(columns=["small answered", "large answered"])):
        cascade.fit(answers, graded)
        easy, hard = cascade.predict("easy"), cascade.predict("hard " * 30)
        assert (easy.prediction, easy.services, easy.cost) == ("short answer", ["small"], 1.0)
        assert (hard.prediction, hard.cost) == ("long answer", 20.0)


def test_what_a_call_costs_more_than_its_mean_is_missing_for_the_next():
    """The negative control: at its usual price the small service leaves enough for the large one."""
    prices = {"small": lambda n, said: 40.0 if n == 401 else 1.0, "large": 20.0}
    cascade = made(prices=prices)
    cascade.fit(cascade.record(NUMBERS), TRUTH)
    assert cascade.predict(401, budget=22.0).services == ["small"]
    assert cascade.predict(401, budget=22.0).cost == 40.0
    assert cascade.predict(9, budget=22.0).services == ["small", "large"]


def test_sums_of_decimal_prices_do_not_break_a_budget_that_they_meet(recorded):
    calls = []

    def failing(n):
        calls.append(n)
        raise ConnectionError("nobody there")

    table = recorded.assign(**{"small price": 0.1, "large price": 0.1})
    cascade = made({"small": small, "large": failing}, {"small": 0.1, "large": 0.1}, retries=5)
    answer = cascade.fit(table, TRUTH).predict(9, budget=0.3)
    assert (
        cascade.model.costs_.prices["large"] == 0.1
    )  # and not the mean of 400 of them, which is a little more
    assert answer.attempts == {"large": 3}
    assert len(calls) == 3


def test_clients_bound_to_an_event_loop_serve_more_than_one_call(recorded):
    loops = set()

    async def asked(n):
        loops.add(asyncio.get_running_loop())
        return n % 3 == 0

    for service in (asked, lambda n: asked(n)):
        for timeout in (None, 5.0):
            cascade = made({"small": small, "large": service}, timeout=timeout).fit(recorded, TRUTH)
            assert cascade.predict(9).prediction
            assert cascade.predict(15).prediction
    assert len(loops) == 1


def test_a_coroutine_that_blocks_times_out(recorded):
    async def blocked(n):
        time.sleep(0.3)

    cascade = made({"small": small, "large": blocked}, timeout=0.05).fit(recorded, TRUTH)
    assert "timed out after 0.05 s" in cascade.predict(9).failures["large"]


def test_extractors_that_know_no_budget_ask_once(recorded):
    calls = []

    def failing(n):
        calls.append(n)
        raise ConnectionError("nobody there")

    cascade = made({"small": small, "large": failing}, retries=5).fit(recorded, TRUTH)
    at.Session(cascade.model, cascade.features).predict(9, budget=21)
    assert len(calls) == 1


def test_a_service_that_always_failed_is_not_asked(recorded):
    def failing(n):
        raise ConnectionError("nobody there")

    cascade = made({"small": small, "large": failing})
    cascade.fit(cascade.record(NUMBERS), TRUTH)
    assert cascade.predict(9).services == ["small"]
    prices = {"small": 1.0, "large": lambda n, said: 20.0}
    cascade = made({"small": small, "large": failing}, prices)
    with pytest.raises(ValueError, match="price of 'large' is unknown"):
        cascade.fit(cascade.record(NUMBERS[:20]), TRUTH[:20])


def test_scores_alone_are_enough_to_learn_from(recorded):
    cascade = made().fit(recorded.drop(columns=["large label"]), TRUTH)
    assert cascade.model.score(recorded, TRUTH) > 0.6


def test_a_call_whose_price_is_unknown_is_recorded_without_and_billed_at_the_mean():
    def price(n, said):
        if n % 10 == 0:
            raise ZeroDivisionError("no tokens")
        return 20.0

    def failing_at_times(n):
        if n % 10 == 5:
            raise ConnectionError("nobody there")
        return n % 3 == 0

    cascade = made({"small": small, "large": failing_at_times}, {"small": 1.0, "large": price})
    table = cascade.record(NUMBERS)
    assert np.isnan(table["large price"][[0, 5]]).all()
    cascade.fit(table, TRUTH)
    assert cascade.model.costs_.prices["large"] == 20.0
    cascade.services["small"] = lambda n: (False, 0.5)
    assert cascade.predict(30).cost == 21.0


@pytest.mark.parametrize("said", [None, (None, 0.9), "perhaps", (True, 0.9, "more")])
def test_what_is_no_label_is_a_failure(recorded, said):
    cascade = made({"small": small, "large": lambda n: said}).fit(recorded, TRUTH)
    answer = cascade.predict(9)
    assert "large" in answer.failures
    assert answer.cost == 21.0
    if not isinstance(said, tuple) or said[0] is None:
        assert "not among the recorded labels" in answer.failures["large"]


def test_a_score_that_is_missing_is_no_failure(recorded):
    answer = made({"small": small, "large": lambda n: (n % 3 == 0, None)}).fit(recorded, TRUTH).predict(9)
    assert answer.prediction
    assert not answer.failures


def test_an_empty_table_is_refused(recorded):
    with pytest.raises(ValueError, match="answers has no rows"):
        made().fit(recorded[:0], [])


def test_a_misspelt_setting_is_refused_before_anything_is_recorded():
    with pytest.raises(TypeError, match="mean_bugdet"):
        made(mean_bugdet=3)


def test_the_services_are_extractors_for_sessions(recorded):
    cascade = made().fit(recorded, TRUTH)
    session = at.Session(cascade.model, cascade.features)
    assert session.predict(10).groups == ["small"]
    assert session.predict(9).prediction


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"prices": {"small": 1.0}}, "need the same names"),
        (
            {"services": {"input": small}, "prices": {"input": 1.0}},
            "'input' is reserved for the inputs of a request",
        ),
        ({"retries": -1}, "retries"),
        ({"timeout": -1.0}, "timeout"),
        ({"mean_budget": 3.0, "accuracy": 0.9}, "mean_budget or accuracy"),
    ],
)
def test_wrong_cascades_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        made(**given)


def test_a_cascade_that_has_learned_nothing_says_so():
    with pytest.raises(AttributeError, match="not fitted"):
        made().predict(3)
