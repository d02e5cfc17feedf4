import asyncio
import gc
import threading
import time

import numpy as np
import pytest

import anytime as at
from anytime._native import StopFlag
from anytime.features import ExtractionError
from anytime.serve import extraction
from anytime.serve.engine import Engine
from anytime.serve.extraction import Extraction, Extractors
from anytime.serve.pace import StagePace
from anytime.serve.policy import Adaptive
from anytime.serve.questions import Question

GROUPS = {"cheap": [0, 1], "dear": [2]}


@pytest.fixture(scope="module")
def model():
    from sklearn.ensemble import GradientBoostingClassifier

    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = (X[:, 0] + X[:, 2] > 0).astype(int)
    trees = GradientBoostingClassifier(n_estimators=30, max_depth=2, random_state=0).fit(X, y)
    return at.make_anytime(trees, costs=at.FeatureCosts({"cheap": 1.0, "dear": 5.0}, groups=GROUPS))


RAWS = [{"a": 0.3, "b": -1.0, "c": 0.8}, {"a": -0.5, "b": 0.1, "c": -0.2}]
X = np.array([[raw["a"], raw["b"], raw["c"]] for raw in RAWS])


def nothing_sent(raws, **bounds):
    return Question(np.full((len(raws), 3), np.nan), held=np.zeros(2, dtype=bool), raws=raws, **bounds)


def features(dear=lambda raw: raw["c"], cheap=lambda raw: [raw["a"], raw["b"]]):
    return at.Features({"cheap": cheap, "dear": dear})


def asked(model, question, extractors, slo=None):
    async def main():
        engine = Engine(
            model,
            StagePace.measure(model, seconds=0.01),
            Adaptive(1e-3),
            slo=slo,
            extraction=Extraction(model, extractors),
        )
        return await engine.answer(question)

    return asyncio.run(main())


def test_raw_examples_get_the_answers_of_their_columns(model):
    served = asked(model, nothing_sent(RAWS), Extractors(features()))
    expected = model.answer(X)
    np.testing.assert_array_equal(served.probabilities, expected.probabilities)
    np.testing.assert_array_equal(served.prediction, expected.prediction)
    np.testing.assert_array_equal(served.cost, expected.cost)
    assert served.reason == "complete"
    assert not served.partial.any()


def test_raw_examples_keep_to_a_mean_budget_over_all_questions(model):
    """The first stage buys both groups, for 6: what one example saves, the next spends."""

    async def main():
        engine = Engine(
            model,
            StagePace.measure(model, seconds=0.01),
            Adaptive(1e-3),
            extraction=Extraction(model, Extractors(features())),
        )
        return [await engine.answer(nothing_sent(RAWS[:1], mean_budget=3.0)) for _ in range(200)]

    costs = np.concatenate([answer.cost for answer in asyncio.run(main())])
    assert set(costs) == {0.0, 6.0}
    assert costs.mean() == pytest.approx(3.0, rel=0.02)


def test_asynchronous_extractors_answer_too(model):
    async def dear(raw):
        await asyncio.sleep(0.001)
        return raw["c"]

    served = asked(model, nothing_sent(RAWS), Extractors(features(dear), limits={"dear": 1}))
    np.testing.assert_array_equal(served.probabilities, model.answer(X).probabilities)


def test_groups_that_were_sent_are_not_computed_again(model):
    calls = []
    given = features(
        dear=lambda raw: calls.append("dear") or 0.0, cheap=lambda raw: calls.append("cheap") or [9, 9]
    )
    for held in (np.array([True, True]), None):  # None: all
        served = asked(model, Question(X.copy(), held=held, raws=RAWS), Extractors(given))
        assert calls == []
        np.testing.assert_array_equal(served.probabilities, model.answer(X).probabilities)
    sent = X.copy()
    sent[:, 2] = np.nan
    given = features(
        dear=lambda raw: calls.append("dear") or raw["c"], cheap=lambda raw: calls.append("cheap")
    )
    served = asked(model, Question(sent, held=np.array([True, False]), raws=RAWS), Extractors(given))
    assert calls == ["dear", "dear"]
    np.testing.assert_array_equal(served.probabilities, model.answer(X).probabilities)


def test_a_group_without_an_extractor_has_to_be_sent(model):
    only = Extractors(at.Features({"dear": lambda raw: raw["c"]}))
    served = asked(model, nothing_sent(RAWS[:1]), only)
    assert "was not sent" in served.failures["cheap"]
    assert served.reason == "failed"
    question = Question(X[:1].copy(), held=np.array([True, False]), raws=RAWS[:1])
    np.testing.assert_array_equal(
        asked(model, question, only).probabilities, model.answer(X[:1]).probabilities
    )


def test_stages_without_their_features_are_not_done(model):
    def fails(raw):
        raise OSError("no connection")

    served = asked(model, nothing_sent(RAWS), Extractors(features(dear=fails, cheap=fails)))
    assert served.stage.tolist() == [0, 0]
    assert served.partial.tolist() == [True, True]
    assert served.reason == "failed"
    assert "OSError" in served.failures["cheap"]
    # of two rows one has all that it needs
    served = asked(model, nothing_sent(RAWS), Extractors(features(dear=lambda raw: {0.8: 0.8}[raw["c"]])))
    assert served.stage[0] == 30
    assert served.partial.tolist() == [False, True]
    np.testing.assert_array_equal(served.probabilities[0], model.answer(X[:1]).probabilities[0])


def test_many_raw_examples_do_not_hold_up_the_loop(model):
    """Sessions are begun in their own threads, when there is a place for them."""
    started = []

    async def main():
        made = Extraction(model, Extractors(features()))
        make = made._session.sibling
        made._session.sibling = lambda: started.append(threading.current_thread()) or make()
        engine = Engine(model, StagePace.measure(model, seconds=0.01), Adaptive(0.0), extraction=made)
        return await engine.answer(nothing_sent(RAWS * 1000, deadline=0.05))

    served = asyncio.run(main())
    assert len(served.stage) == 2000
    assert threading.main_thread() not in started
    assert len(started) < 2000  # the others are not even begun when the answer is due
    assert served.partial.any()


@pytest.mark.realtime
def test_an_extractor_that_hangs_does_not_make_the_answer_late(model, caplog):
    release = threading.Event()
    began = time.monotonic()
    served = asked(
        model,
        nothing_sent(RAWS[:1], deadline=0.1),
        Extractors(features(dear=lambda raw: release.wait(120))),
        slo=5.0,
    )
    release.set()
    assert time.monotonic() - began < 5.0
    assert served.partial.all()
    assert served.reason == "deadline"
    gc.collect()
    assert not caplog.records  # asyncio complains of errors that nobody looked at


def test_a_timeout_fails_the_group_and_the_rest_answers(model):
    async def dear(raw):
        await asyncio.sleep(20)

    served = asked(model, nothing_sent(RAWS[:1]), Extractors(features(dear), timeouts={"dear": 0.02}))
    assert "timed out" in served.failures["dear"]
    assert served.reason == "failed"


def test_no_more_calls_run_at_once_than_the_limit_says(model):
    lock, running, most = threading.Lock(), 0, 0

    def waiting_for(others):
        """An extractor whose calls end in groups: each waits until so many have begun."""
        begun = threading.Barrier(others, timeout=60)

        def dear(raw):
            nonlocal running, most
            with lock:
                running += 1
                most = max(most, running)
            begun.wait()
            with lock:
                running -= 1
            return raw["c"]

        return features(dear)

    served = asked(model, nothing_sent(RAWS * 6), Extractors(waiting_for(2), limits={"dear": 2}))
    assert most == 2
    np.testing.assert_array_equal(served.probabilities, model.answer(np.tile(X, (6, 1))).probabilities)
    asked(model, nothing_sent(RAWS * 6), Extractors(waiting_for(3)))
    assert most > 2  # without a limit more do


@pytest.mark.realtime
@pytest.mark.parametrize("is_async", [False, True])
def test_calls_of_an_extractor_that_hangs_do_not_pile_up(model, monkeypatch, is_async):
    monkeypatch.setattr(extraction, "_CALLS", 3)
    calls, release = [], threading.Event()

    def hangs(raw):
        calls.append(raw)
        release.wait(120)

    async def hangs_on_a_loop(raw):
        calls.append(raw)
        while not release.is_set():
            await asyncio.sleep(0.01)

    async def main():
        made = Extraction(model, Extractors(features(cheap=hangs_on_a_loop if is_async else hangs)))
        engine = Engine(model, StagePace.measure(model, seconds=0.01), Adaptive(0.0), extraction=made)
        await asyncio.gather(*(engine.answer(nothing_sent(RAWS[:1], deadline=0.05)) for _ in range(3)))
        began = time.monotonic()
        served = await engine.answer(nothing_sent(RAWS[:1], deadline=20.0))
        return served, time.monotonic() - began

    served, seconds = asyncio.run(main())
    release.set()
    assert len(calls) == 3
    assert "too many calls" in served.failures["cheap"]
    assert served.reason == "failed"
    assert seconds < 10.0  # it has not waited


def test_a_call_before_a_gate_ends_when_its_client_has_left(model, monkeypatch):
    monkeypatch.setattr(extraction, "_LOOK", 0.02)
    gate = extraction._Gate("dear", 1, time.monotonic)
    stop = StopFlag()
    call = extraction._Call(None, np.inf, stop)
    threading.Timer(0.05, stop.set).start()
    running = gate.thread(extraction._Call(None, np.inf, StopFlag()))
    with running, pytest.raises(ExtractionError, match="no request waits"), gate.thread(call):
        pass


def test_calls_that_nobody_waits_for_are_not_made(model):
    calls = []

    def dear(raw):
        calls.append(raw)
        time.sleep(0.15)
        return raw["c"]

    served = asked(
        model, nothing_sent(RAWS * 8, deadline=0.1), Extractors(features(dear), limits={"dear": 1})
    )
    time.sleep(0.4)
    assert len(calls) <= 2
    assert served.partial.any()


def test_calls_of_one_who_has_left_are_not_made(model):
    calls, began, release = [], threading.Event(), threading.Event()

    def dear(raw):
        calls.append(raw)
        began.set()
        release.wait(120)
        return raw["c"]

    async def main():
        extraction = Extraction(model, Extractors(features(dear), limits={"dear": 1}))
        engine = Engine(model, StagePace.measure(model, seconds=0.01), Adaptive(0.0), extraction=extraction)
        asking = asyncio.create_task(engine.answer(nothing_sent(RAWS * 3)))
        await asyncio.to_thread(began.wait)
        await asyncio.sleep(0.05)  # the other rows stand before the gate
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert engine.queue == 0
        release.set()
        await asyncio.sleep(0.1)

    asyncio.run(main())
    assert len(calls) == 1


def test_a_stream_of_raw_examples_improves():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 3))
    costs = at.FeatureCosts({"cheap": 1.0, "dear": 5.0}, groups=GROUPS)
    model = at.GroupPursuitClassifier(costs=costs).fit(rows, rows[:, 0] + rows[:, 2] > 0)
    assert model.order_ == ["cheap", "dear"]
    gate = threading.Event()

    def dear(raw):
        assert gate.wait(20)
        return raw["c"]

    async def main():
        extraction = Extraction(model, Extractors(features(dear)))
        engine = Engine(model, StagePace.measure(model, seconds=0.01), Adaptive(0.0), extraction=extraction)
        question = nothing_sent(RAWS[:1])
        answers = []
        async for served in engine.stream(question):
            answers.append(served)
            gate.set()  # once the first has come, the second may
        return answers

    answers = asyncio.run(main())
    assert answers[-1].reason == "complete"
    assert [(int(served.stage[0]), served.reason) for served in answers] in (
        [(1, ""), (2, "complete")],
        [(1, ""), (2, ""), (2, "complete")],
    )


def test_bounds_are_checked_before_anything_runs(model):
    calls = []
    with pytest.raises(ValueError, match="confidence must be"):
        asked(model, nothing_sent(RAWS, confidence=2.0), Extractors(features(dear=calls.append)))
    assert calls == []


def test_a_file_of_extractors_is_read(tmp_path, model):
    path = tmp_path / "features.py"
    path.write_text(
        "features = {'cheap': lambda raw: [raw['a'], raw['b']], 'dear': lambda raw: raw['c']}\n"
        "limits = {'dear': 3}\ntimeouts = {'cheap': 2.0}\n"
    )
    extractors = Extractors.read(path)
    assert extractors.limits == {"dear": 3}
    np.testing.assert_array_equal(
        asked(model, nothing_sent(RAWS), extractors).probabilities, model.answer(X).probabilities
    )


def test_a_file_of_extractors_may_have_dataclasses(tmp_path, model):
    path = tmp_path / "features.py"
    path.write_text(
        "from __future__ import annotations\nfrom dataclasses import dataclass\n"
        "@dataclass\nclass Person:\n    a: float\n    b: float\n    c: float\n"
        "def cheap(raw):\n    person = Person(**raw)\n    return [person.a, person.b]\n"
        "features = {'cheap': cheap, 'dear': lambda raw: Person(**raw).c}\n"
    )
    served = asked(model, nothing_sent(RAWS), Extractors.read(path))
    np.testing.assert_array_equal(served.probabilities, model.answer(X).probabilities)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "has to set features"),
        ("features = {'a': len}\nlimits = {'b': 1}", "limits names 'b'"),
        ("features = {'a': len}\nlimits = {'a': 0}", "must be positive"),
    ],
)
def test_a_file_of_extractors_that_is_none_says_why(tmp_path, text, message):
    path = tmp_path / "features.py"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        Extractors.read(path)
