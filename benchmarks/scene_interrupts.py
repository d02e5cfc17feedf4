"""Interrupted parses of pictures: how late answers come after a deadline or a stop flag, and that they are whole labellings.

    python benchmarks/scene_interrupts.py                                   # results/scene_interrupts.json
    python benchmarks/scene_interrupts.py --model model.anytime             # a parser of one's own
    python benchmarks/scene_interrupts.py --model model.anytime --camvid    # with the test images in ANYTIME_DATA/camvid
    python benchmarks/scene_interrupts.py --model model.anytime --camvid --stages 30 --name scene_interrupts_camvid

Pictures have 480 x 360 pixels, made up where no data are named. A third of the parses has a deadline at a random moment of a
whole parse, a third is interrupted by a flag that another thread sets, and a third are calls of ``answer(deadline=)`` with one to
four pictures. *Late* is the time from deadline or flag to the return of the call. Objects of imports are frozen first, as the
server does: Python's collector, which nothing can interrupt, takes 60 ms to look at them.
"""

from __future__ import annotations

import argparse
import gc
import os
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import anytime as at
from common import write

HEIGHT, WIDTH = 360, 480
COLOURS = np.array([[120, 160, 220], [95, 95, 100], [130, 95, 80], [60, 110, 50], [150, 30, 40]])
BAR_MS = 5.0


def street(seed: int) -> tuple[NDArray[np.uint8], NDArray[np.intp]]:
    """A picture of sky, road, houses, trees and cars, and its label map."""
    random = np.random.default_rng(seed)
    labels = np.zeros((HEIGHT, WIDTH), dtype=np.intp)
    horizon = int(random.integers(150, 220))
    labels[horizon:] = 1
    left = 0
    while left < WIDTH:
        width, height = int(random.integers(40, 120)), int(random.integers(30, horizon))
        labels[horizon - height : horizon, left : left + width] = random.integers(2, 4)
        left += width
    for _ in range(int(random.integers(2, 6))):
        y, x = int(random.integers(horizon, HEIGHT - 40)), int(random.integers(0, WIDTH - 70))
        labels[y : y + 35, x : x + 70] = 4
    light = 25 * np.sin(np.arange(WIDTH) / random.uniform(15, 40))[None, :, None]
    patches = random.integers(-25, 26, (HEIGHT // 12, WIDTH // 12, 3)).repeat(12, axis=0).repeat(12, axis=1)
    noise = random.normal(0, 6, (HEIGHT, WIDTH, 3))
    return np.clip(COLOURS[labels] + light + patches + noise, 0, 255).astype(np.uint8), labels


def camvid() -> list[NDArray[np.uint8]]:
    """Twenty test images."""
    from PIL import Image

    files = sorted((Path(os.environ["ANYTIME_DATA"]) / "camvid" / "test").glob("*.jpg"))
    return [np.asarray(Image.open(file).convert("RGB")) for file in files[:: len(files) // 20][:20]]


def whole_seconds(session: Any, pictures: list[NDArray[np.uint8]]) -> float:
    """The median time of an uninterrupted parse."""
    times = []
    for picture in pictures[:5]:
        began = time.monotonic()
        session.predict(picture)
        times.append(time.monotonic() - began)
    return float(np.median(times))


def late_after_deadline(session: Any, picture: NDArray[np.uint8], moment: float) -> tuple[float, Any]:
    """Seconds from the deadline to the answer, and the answer."""
    began = time.monotonic()
    answer = session.predict(picture, deadline=moment)
    return time.monotonic() - began - moment, answer


def late_after_stop(session: Any, picture: NDArray[np.uint8], moment: float) -> tuple[float, Any]:
    """Seconds from a flag, set by another thread, to the answer, and the answer."""
    stop, set_at = threading.Event(), []

    def interrupt() -> None:
        set_at.append(time.monotonic())
        stop.set()

    timer = threading.Timer(moment, interrupt)
    timer.start()
    answer = session.predict(picture, stop=stop)
    ended = time.monotonic()
    timer.join()
    return ended - set_at[0], answer


def late_in_predict(model: Any, some: list[NDArray[np.uint8]], moment: float) -> tuple[float, Any]:
    """Seconds from the deadline of a list of pictures to the answer, and the answer."""
    began = time.monotonic()
    answer = model.answer(some, deadline=moment)
    return time.monotonic() - began - moment, answer


def summary(late: list[float]) -> dict[str, Any]:
    """Shares and quantiles in milliseconds; an answer before its deadline is not late."""
    ms = 1e3 * np.maximum(late, 0.0)
    return {
        "parses": len(late),
        "share_within_5_ms": round(float(np.mean(ms <= BAR_MS)), 4),
        "p50_ms": round(float(np.quantile(ms, 0.5)), 3),
        "p99_ms": round(float(np.quantile(ms, 0.99)), 3),
        "max_ms": round(float(ms.max()), 3),
    }


def main() -> None:
    """Interrupt, measure, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, default=None)
    parser.add_argument("--camvid", action="store_true")
    parser.add_argument("--stages", type=int, default=None, help="the first stages of the model only")
    parser.add_argument("--parses", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--name", default="scene_interrupts")
    options = parser.parse_args()
    if options.model is None:
        made = [street(seed) for seed in range(6)]
        model = at.SceneParser(
            n_centres=60, max_stages=40, folds=0, holdout=None, max_samples=4000, random_state=0
        )
        model.fit([picture for picture, _ in made], [labels for _, labels in made])
    else:
        model = at.load(options.model)
        if options.stages is not None:
            model = model.truncate(float(model.stage_costs_[options.stages - 1]))
    model.set_params(n_jobs=options.threads)
    pictures = camvid() if options.camvid else [street(100 + seed)[0] for seed in range(20)]
    gc.collect()
    gc.freeze()
    session, random = at.structured.SceneSession(model), np.random.default_rng(0)
    seconds = whole_seconds(session, pictures)
    prefixes: dict[int, list[Any]] = {}
    late: dict[str, list[float]] = {"deadline": [], "stop": [], "predict": []}
    stages, wrong = [], 0
    for i in range(options.parses):
        kind, picture = tuple(late)[i % 3], int(random.integers(len(pictures)))
        moment = float(random.uniform(0.0, 1.1 * seconds))
        if kind == "deadline":
            lateness, answer = late_after_deadline(session, pictures[picture], moment)
        elif kind == "stop":
            lateness, answer = late_after_stop(session, pictures[picture], moment)
            if answer.complete:  # it had come to its end before
                lateness = 0.0
        else:
            some = pictures[picture : picture + int(random.integers(1, 5))]
            lateness, answer = late_in_predict(model, some, moment * len(some))
        late[kind].append(lateness)
        stages.append(int(np.max(answer.stage)))
        if i % 10 == 0:  # the labels are those of the prefix that the answer names
            if picture not in prefixes:
                prefixes[picture] = [a.prediction[0] for a in model.stages([pictures[picture]])]
            stage = int(np.atleast_1d(answer.stage)[0])
            wrong += not np.array_equal(answer.prediction[0], prefixes[picture][stage])
    everything = [seconds for kind in late.values() for seconds in kind]
    write(
        options.name,
        {
            "pictures": "CamVid test images" if options.camvid else "made up",
            "pixels": [HEIGHT, WIDTH],
            "stages": model.n_stages_,
            "whole_parse_ms": round(1e3 * seconds, 1),
            "threads": options.threads,
            "all": summary(everything),
            **{kind: summary(values) for kind, values in late.items()},
            "before_the_first_stage": round(float(np.mean(np.array(stages) == 0)), 3),
            "answers_checked": -(-options.parses // 10),
            "answers_that_are_no_prefix": wrong,
        },
    )


if __name__ == "__main__":
    main()
