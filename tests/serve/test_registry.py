"""Models are found by name, and replaced while questions come in."""

import asyncio
import gc
import logging
import os
import threading
import time
import weakref

import numpy as np
import pytest

import anytime as at
from anytime.serve.board import Board
from anytime.serve.questions import Question
from anytime.serve.registry import Registry
from anytime.serve.reloads import Reloads
from anytime.serve.settings import Settings
from tests.serve.serving import until

X = np.random.default_rng(0).normal(size=(60, 3))


def trained(n_trees):
    from sklearn.ensemble import GradientBoostingRegressor

    trees = GradientBoostingRegressor(n_estimators=n_trees, max_depth=2, random_state=0).fit(
        X, X[:, 0] * X[:, 1]
    )
    return at.make_anytime(trees)


MODELS = [trained(20), trained(30)]


@pytest.fixture
def path(tmp_path):
    MODELS[0].save(tmp_path / "m.anytime")
    return tmp_path / "m.anytime"


@pytest.fixture(autouse=True)
def quickly(monkeypatch):
    monkeypatch.setattr("anytime.serve.registry._MEASURING", 0.01)


def opened(path, **parameters):
    settings = Settings(models={"m": path}, slo=None, features=parameters.pop("features", None))
    registry = Registry(settings, **parameters)
    registry.add("m", path)
    return registry


def replace(path, model):
    """As a deployment does it: the new file takes the old one's place in one step."""
    model.save(path.with_suffix(".new"))
    os.replace(path.with_suffix(".new"), path)


def test_a_model_is_found_by_name_and_version(path):
    registry = opened(path)
    entry = registry.get("m")
    assert entry.version == entry.checksum[:12]
    assert registry.get("m", entry.version) is entry
    assert registry.names == ["m"]
    assert registry.versions("m") == [entry.version]
    for name, version in (("n", None), ("m", "other")):
        with pytest.raises(KeyError):
            registry.get(name, version)


def test_two_processes_would_call_the_same_file_the_same_version(path):
    assert opened(path).get("m").version == opened(path).get("m").version


def test_a_new_version_answers_after_a_reload(path):
    seen = []
    registry = opened(path, on_load=seen.append)

    async def main():
        old = registry.get("m")
        replace(path, MODELS[1])
        new = await registry.reload("m")
        assert registry.get("m") is new
        assert new.version != old.version
        served = await new.engine.answer(Question(X))
        np.testing.assert_array_equal(served.prediction, MODELS[1].predict(X))
        await until(lambda: registry.versions("m") == [new.version])  # the old one held nothing
        assert seen == [old, new]

    asyncio.run(main())


def test_the_old_version_answers_what_it_holds(path):
    registry = opened(path)

    async def main():
        old = registry.get("m")
        release = asyncio.Event()
        old.engine.queue += 1  # as if a question were under way

        async def under_way():
            await release.wait()
            old.engine.queue -= 1

        task = asyncio.create_task(under_way())
        replace(path, MODELS[1])
        new = await registry.reload("m")
        await asyncio.sleep(0.01)
        assert registry.versions("m") == [old.version, new.version]
        assert registry.get("m", old.version) is old
        assert registry.get("m") is new
        served = await old.engine.answer(Question(X))
        np.testing.assert_array_equal(served.prediction, MODELS[0].predict(X))
        release.set()
        await task
        await until(lambda: registry.versions("m") == [new.version])

    asyncio.run(main())


def test_reloads_under_load_lose_nothing(path):
    registry = opened(path)
    expected = {}

    async def main():
        answers, running = [], True

        async def ask(i):
            while running:
                entry = registry.get("m")
                served = await entry.engine.answer(Question(X[i : i + 1]))
                answers.append((i, entry.version, served))
                await asyncio.sleep(0)

        asking = [asyncio.create_task(ask(i)) for i in range(8)]
        for k in range(1, 9):
            expected[registry.get("m").version] = MODELS[(k - 1) % 2].predict(X)
            replace(path, MODELS[k % 2])
            await registry.reload("m")
        running = False
        await asyncio.gather(*asking)
        await registry.drain()
        return answers

    answers = asyncio.run(main())
    assert {version for _, version, _ in answers} == set(expected)
    for i, version, served in answers:
        assert served.prediction[0] == expected[version][i]
        assert served.reason == "complete"


def test_versions_that_have_answered_leave_no_memory_behind(path):
    """Models are large and few, so the collector would not come by itself for a long time."""
    registry = opened(path)

    async def main():
        old = [weakref.ref(registry.get("m").model)]
        for _ in range(2):
            await registry.reload("m")
            old.append(weakref.ref(registry.get("m").model))
        await until(lambda: old[0]() is old[1]() is None)
        return [model() is None for model in old]

    gc.disable()
    try:
        assert asyncio.run(main()) == [True, True, False]
    finally:
        gc.enable()


def test_a_version_that_is_replaced_is_freed_without_the_garbage_collector(path):
    """A server that seldom collects garbage, so as not to be late, must not keep old models."""
    registry = opened(path)

    async def main():
        entry = registry.get("m")
        await entry.engine.answer(Question(X, budget=1.0))
        assert [answer.reason async for answer in entry.engine.stream(Question(X[:2], deadline=5.0))][-1]
        gone = [weakref.ref(thing) for thing in (entry, entry.engine, entry.model, entry.model.plan_)]
        await registry.reload("m")
        del entry
        await until(lambda: not any(ref() for ref in gone))
        return [ref() for ref in gone]

    gc.collect()
    gc.disable()
    try:
        assert asyncio.run(main()) == [None] * 4
    finally:
        gc.enable()


def test_who_asks_for_a_file_that_is_loaded_gets_it_at_once(path):
    """However many ask: it is loaded once."""
    loads = []

    def counted(source):
        loads.append(source)
        return at.load(source)

    registry = opened(path, loader=counted)

    async def main():
        first = registry.get("m")
        assert await registry.reload("m", unchanged=False) is first
        replace(path, MODELS[1])
        entries = await asyncio.gather(*(registry.reload("m", unchanged=False) for _ in range(5)))
        assert len(set(entries)) == 1
        assert entries[0] is not first
        await registry.reload("m")  # a signal has it loaded in any case
        return len(loads)

    assert asyncio.run(main()) == 3


def watch(registry):
    board = Board(1, ["m"])
    return Reloads(registry, board, board.slot(0)).watch(0.01)


def test_a_replaced_file_is_noticed(path):
    registry = opened(path)

    async def main():
        watching = asyncio.create_task(watch(registry))
        old = registry.get("m").version
        replace(path, MODELS[1])
        while registry.get("m").version == old:
            await asyncio.sleep(0.01)
        watching.cancel()
        served = await registry.get("m").engine.answer(Question(X))
        np.testing.assert_array_equal(served.prediction, MODELS[1].predict(X))

    asyncio.run(asyncio.wait_for(main(), 120))


def test_a_broken_file_leaves_the_old_model_and_a_line_in_the_log(path, caplog):
    registry = opened(path)

    async def main():
        entry = registry.get("m")
        watching = asyncio.create_task(watch(registry))
        path.write_bytes(b"no model")
        with caplog.at_level(logging.ERROR, "anytime.serve"):
            while not caplog.records:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)
        assert len(caplog.records) == 1  # not again and again
        assert "BadFileError" in caplog.records[0].fields["error"]
        assert registry.get("m") is entry
        path.unlink()
        await until(lambda: len(caplog.records) > 1)
        await asyncio.sleep(0.05)
        assert len(caplog.records) == 2  # once that it is gone
        replace(path, MODELS[1])
        while registry.get("m") is entry:  # and a good one is taken
            await asyncio.sleep(0.01)
        watching.cancel()
        path.write_bytes(b"no model")
        with pytest.raises(at.BadFileError):
            await registry.reload("m")
        assert registry.get("m") is not entry

    asyncio.run(asyncio.wait_for(main(), 120))


def test_loading_does_not_hold_up_the_loop(path):
    gate = threading.Event()
    first = True

    def slow(source):
        nonlocal first
        if not first:
            assert gate.wait(120)
        first = False
        return at.load(source)

    registry = opened(path, loader=slow)

    async def main():
        reloading = asyncio.create_task(registry.reload("m"))
        await asyncio.sleep(0.01)
        served = await registry.get("m").engine.answer(Question(X[:1]))
        assert served.reason == "complete"
        assert not reloading.done()
        gate.set()
        await reloading

    asyncio.run(main())


def test_a_file_that_is_replaced_while_it_is_read_is_read_again(path):
    reads = []

    def meanwhile(source):
        model = at.load(source)
        if not reads:
            time.sleep(0.01)
            replace(path, MODELS[1])
        reads.append(model.n_stages_)
        return model

    entry = opened(path, loader=meanwhile).get("m")
    assert reads == [20, 30]
    assert entry.model.n_stages_ == 30


def test_extractors_come_from_a_file(path, tmp_path, caplog):
    file = tmp_path / "features.py"
    file.write_text("features = {f'x{j}': (lambda raw, j=j: raw[j]) for j in range(3)}\n")
    registry = opened(path, features=file)

    async def main():
        entry = registry.get("m")
        nothing = Question(np.full((2, 3), np.nan), held=np.zeros(3, dtype=bool), raws=X[:2].tolist())
        served = await entry.engine.answer(nothing)
        np.testing.assert_array_equal(served.prediction, MODELS[0].predict(X[:2]))

    asyncio.run(main())


def test_extractors_are_those_of_the_process_that_uses_them(path, tmp_path):
    """What a file of extractors opens when it is read, such as a connection, is not shared by workers."""
    file, reads = tmp_path / "features.py", tmp_path / "reads"
    file.write_text(
        f"import os\nopen({str(reads)!r}, 'a').write(f'{{os.getpid()}} ')\n"
        "features = {f'x{j}': (lambda raw, j=j: raw[j]) for j in range(3)}\n"
    )
    registry = opened(path, features=file)
    registry.settle()
    child = os.fork()
    if not child:
        before = registry.get("m").engine.extraction
        registry.settle()
        os._exit(0 if registry.get("m").engine.extraction not in (None, before) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert reads.read_text().split() == [str(os.getpid()), str(child)]
