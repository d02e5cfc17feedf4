"""Calls that know nothing of each other, as tasks of the cluster: trees of a forest, folds, prunings for several prices.

What such a call gives depends on its arguments alone: any process may do it, and a task whose process dies is done again.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

from anytime.distributed.crew import WorkersLostError, said_of_loss

__all__ = ["run_side_by_side", "run_tasks"]

_MOST_LOSSES = 100  # of a task, by the death of its process
_MOST_OF_MEMORY = 3  # of them for want of memory, which the next one will hardly have
_AHEAD = 2  # tasks per processor that are under way or waiting: more would fill the object store
_SENT: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()  # what the object store has already


def run_side_by_side(
    function: Callable[..., Any], shared: tuple[Any, ...], items: Iterable[Any]
) -> list[Any]:
    """See ``anytime.spreading.side_by_side``; what is shared is sent to each machine once, and read by each process once."""
    references, items = [_reference(thing) for thing in shared], list(items)
    return run_tasks(_called, [(function, references, item) for item in items])


def run_tasks(function: Callable[..., Any], calls: list[tuple[Any, ...]]) -> list[Any]:
    """Results of calls. After an error no further call begins; those under way end by themselves.

    They are not cancelled: Ray (2.60) may abort the driver if a task ends while it is being cancelled.
    """
    import ray

    most = _AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1)))
    # Ray itself would do a task again for ever that runs out of memory
    task = ray.remote(num_cpus=1, max_retries=0, scheduling_strategy="SPREAD")(function)
    waiting, running, results = deque(range(len(calls))), dict[Any, int](), [None] * len(calls)
    losses, of_memory = Counter[int](), Counter[int]()
    while waiting or running:
        while waiting and len(running) < most:
            number = waiting.popleft()
            running[task.remote(*calls[number])] = number
        (ready,), _ = ray.wait(list(running), num_returns=1)
        number = running.pop(ready)
        try:
            results[number] = ray.get(ready)
        except ray.exceptions.RayTaskError as error:
            cause = error.cause or error
            lost = isinstance(cause, ray.exceptions.RayError)
            raise WorkersLostError(said_of_loss(cause)) if lost else cause from None
        except ray.exceptions.RayError as error:
            losses[number] += 1
            of_memory[number] += isinstance(error, ray.exceptions.OutOfMemoryError)
            if losses[number] > _MOST_LOSSES or of_memory[number] > _MOST_OF_MEMORY:
                raise WorkersLostError(
                    f"a task was lost {losses[number]} times; the last: {said_of_loss(error)}"
                ) from None
            waiting.append(number)
    return results


def _reference(thing: Any) -> Any:
    import ray

    try:
        if thing not in _SENT:
            _SENT[thing] = ray.put(thing)
        return _SENT[thing]
    except TypeError:  # of a kind that cannot be looked up
        return ray.put(thing)


def _called(function: Callable[..., Any], references: list[Any], item: Any) -> Any:
    return function(*map(_read, references), item)


@lru_cache(maxsize=8)
def _read(reference: Any) -> Any:
    import ray

    return ray.get(reference)
