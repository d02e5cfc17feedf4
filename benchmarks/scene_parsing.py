"""Scene parsing on CamVid: pixel accuracy and class recall at every stage, against time.

    python benchmarks/scene_parsing.py train --folder /tmp/camvid              # the model
    python benchmarks/scene_parsing.py time --images 20 --folder /tmp/camvid   # how long stages take: with nothing beside it,
                                                                               # or with --processor
    python benchmarks/scene_parsing.py test --folder /tmp/camvid               # results/scene_parsing.json
    python benchmarks/scene_parsing.py develop --held-out 0006R0 --stages 12 --early-balance 0 0.3 0.5   # how settings are chosen
    python benchmarks/scene_parsing.py train --short --stages 225 --images 100 --folder /tmp/short   # for scene_pictures.py

Set ``ANYTIME_DATA`` to the folder that holds ``camvid`` (480 x 360 pixels, 11 classes; the images are JPEG copies of quality 90,
so that figures are not exactly those of the original PNG files). Parts that are done are not done again: remove their files in
the folder to repeat them. ``--images 20 --stages 10`` is a rehearsal of some minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

import anytime as at
from anytime.engine import Run
from anytime.structured.scene_parser import _balanced
from common import RESULTS, write

CLASSES = (
    "sky", "building", "pole", "road", "pavement", "tree", "sign", "fence", "car", "pedestrian", "bicyclist",
)  # fmt: skip
UNLABELLED = 11
SHORT: dict[str, Any] = {
    "trees_per_stage": 4,
    "tried_candidates": 2,
    "max_samples": 5000,
}  # many stages in a short training
PRINTED = {
    "SIM": {"pixel": 81.5, "class": 54.8},
    "HIM": {"pixel": 84.9, "class": 59.4},
}  # speedboost_and_structured 6.6


def chosen_files(split: str, n_images: int | None) -> list[Path]:
    """Image files of a split, evenly over its videos."""
    files = sorted((Path(os.environ["ANYTIME_DATA"]) / "camvid" / split).glob("*.jpg"))
    if n_images is not None and n_images < len(files):
        files = [files[i] for i in np.linspace(0, len(files) - 1, n_images).astype(int)]
    return files


def videos(split: str, n_images: int | None) -> list[str]:
    """The video of each image that ``load`` gives."""
    return [file.stem.split("_")[0] for file in chosen_files(split, n_images)]


def load(split: str, n_images: int | None) -> tuple[list[NDArray[np.uint8]], list[NDArray[np.uint8]]]:
    """Images of a split, and their label maps."""
    files = chosen_files(split, n_images)
    images = [np.asarray(Image.open(file).convert("RGB")) for file in files]
    annotated = [file.parent.with_name(f"{split}annot") / f"{file.stem}.png" for file in files]
    return images, [np.asarray(Image.open(file)) for file in annotated]


def some_of_videos(
    video: str, inside: bool, n_images: int
) -> tuple[list[NDArray[np.uint8]], list[NDArray[np.uint8]]]:
    """Training images of a video, or of all others, evenly over them."""
    images, maps = load("train", None)
    among = np.flatnonzero((np.array(videos("train", None)) == video) == inside)
    chosen = among[np.linspace(0, among.size - 1, n_images).astype(int)]
    return [images[i] for i in chosen], [maps[i] for i in chosen]


def stretches(split: str, n_images: int | None, n_frames: int = 20) -> list[str]:
    """A name per image: frames of a video that follow each other, about ``n_frames``, are one group."""
    every = [file.stem.split("_")[0] for file in chosen_files(split, None)]
    first = {video: every.index(video) for video in every}
    names = {}
    for i, file in enumerate(chosen_files(split, None)):
        video = every[i]
        n = every.count(video)
        names[file] = f"{video} {(i - first[video]) * max(1, round(n / n_frames)) // n}"
    return [names[file] for file in chosen_files(split, n_images)]


def softened(maps: list[NDArray[np.uint8]], power: float) -> dict[int, float]:
    """Weights of classes: frequency to the power of -``power``, one on average over pixels."""
    counts = np.sum([np.bincount(labels.ravel(), minlength=UNLABELLED + 1) for labels in maps], axis=0)[
        :UNLABELLED
    ]
    weight = np.maximum(counts, 1.0) ** -power
    weight /= (weight * counts).sum() / counts.sum()
    return {k: float(w) for k, w in enumerate(weight)}


def scores(confusion: NDArray[np.float64]) -> dict[str, Any]:
    """Pixel accuracy, class recall and its mean, in %, from (true, predicted) counts."""
    recall = np.diag(confusion) / np.maximum(confusion.sum(axis=1), 1)
    return {
        "pixel": round(100 * float(np.diag(confusion).sum() / confusion.sum()), 2),
        "class": round(100 * float(recall.mean()), 2),
        "recall": {name: round(100 * float(r), 1) for name, r in zip(CLASSES, recall, strict=True)},
    }


def settings(options: argparse.Namespace) -> dict[str, Any]:
    """What ``--set`` names, values read as JSON."""
    return {name: json.loads(value) for name, value in (pair.split("=", 1) for pair in options.set)}


def train(options: argparse.Namespace) -> None:
    """Fit a parser and save it, with what its training took."""
    path = options.folder / "model.anytime"
    if path.exists():
        print(f"{path} is there: nothing to train")
        return
    images, maps = load("train", options.images)
    began, used = time.perf_counter(), time.process_time()
    model = at.SceneParser(
        costs=known_prices() if options.known_prices else None,
        ignore_label=UNLABELLED,
        class_weight=softened(maps, options.balance),
        **(SHORT if options.short else {}),
        max_stages=options.stages,
        time_budget=options.time_budget,
        folds=options.folds,
        random_state=0,
        n_jobs=options.threads,
        verbose=1,
    )
    model.set_params(**settings(options)).fit(images, maps, groups=stretches("train", options.images))
    training = {
        "train_images": len(images),
        "train_seconds": round(time.perf_counter() - began, 1),
        "train_processor_seconds": round(time.process_time() - used, 1),
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "objective": [round(step.value, 5) for step in model.steps_],
        "stages": [
            {
                "level": s.update.selector.level,
                "threshold": s.update.selector.threshold,
                "selected": round(s.selected, 3),
            }
            for s in model.steps_
        ],
    }
    (options.folder / "training.json").write_text(json.dumps(training))
    model.save(path)


def work(scene: Any, prices: dict[str, float]) -> NDArray[np.float64]:
    """Milliseconds of descriptors and codes that were computed of an image, and of all that there are, by the price list."""
    features, done, every = scene.features, 0.0, 0.0
    for name, dictionary in features.codes.items():
        first = features.first[name]
        share = scene.computed[first : first + len(dictionary)].mean(axis=1)
        code = prices[features.names[features.first_code + first]]
        done += code * share.sum() + prices[name] * bool(share.any())
        every += code * len(dictionary) + prices[name]
    return np.array([done, every])


def clock(options: argparse.Namespace) -> None:
    """Time the stages on some test images, one image at a time; the median counts. May be repeated after ``test``."""
    model = at.load(options.folder / "model.anytime")
    threads, now = (1, time.process_time) if options.processor else (options.threads, time.perf_counter)
    model.set_params(n_jobs=threads)
    images, _ = load("test", options.images)
    seconds = np.zeros((len(images), model.plan_.n_stages + 1))
    model.predict(images[:1])
    for i, image in enumerate(images):
        began = now()
        run = Run(model.plan_, model._structures([image]), threads=threads)
        for stage in range(model.plan_.n_stages + 1):
            run.advance(stage)
            seconds[i, stage] = now() - began
    middle = np.median(seconds, axis=0)
    print(f"first labelling {1e3 * middle[1]:.0f} ms, all {1e3 * middle[-1]:.0f} ms")
    times = {
        "timed_images": len(images),
        "clock": "processor" if options.processor else "wall",
        "threads": threads,
        "ms": (1e3 * middle).round(1).tolist(),
    }
    (options.folder / "times.json").write_text(json.dumps(times))
    record(options)


def parsed(
    model: Any, images: list[NDArray[np.uint8]], maps: list[NDArray[np.uint8]]
) -> tuple[Any, Any, Any]:
    """After each stage: (true, predicted) counts of pixels, work on descriptors done and possible, median processor ms."""
    n_stages = model.plan_.n_stages
    confusion = np.zeros((n_stages + 1, UNLABELLED, UNLABELLED))
    worked, spent = np.zeros((n_stages + 1, 2)), np.zeros((len(images), n_stages + 1))
    for i, (image, labels) in enumerate(zip(images, maps, strict=True)):
        there, began = labels < UNLABELLED, time.process_time()
        scenes = model._structures([image])
        run = Run(model.plan_, scenes)
        for stage in range(n_stages + 1):
            run.advance(stage)
            ended = time.process_time()
            spent[i, stage:] += 1e3 * (ended - began)
            said = run.scores().values.argmax(axis=1)[scenes.scenes[0].hierarchy.atom]
            cells = labels[there].astype(np.intp) * UNLABELLED + said[there]
            confusion[stage] += np.bincount(cells, minlength=UNLABELLED**2).reshape(UNLABELLED, -1)
            worked[stage] += work(scenes.scenes[0], model.plan_.costs.costs.prices)
            began = time.process_time()
    return confusion, worked, np.median(spent, axis=0)


def known_prices() -> dict[str, float]:
    """Prices of the results, as ``SceneParser`` takes them."""
    prices = json.loads((RESULTS / "scene_parsing.json").read_text(encoding="utf-8"))["prices_ms"]
    return {(f"{name[:-2]} code" if name.endswith(" 0") else name): price for name, price in prices.items()}


def develop(options: argparse.Namespace) -> None:
    """Train on images of two training videos and judge by the third; the prices are those of the results, always the same."""
    images, maps = some_of_videos(options.held_out, False, options.images or 100)
    model = at.SceneParser(
        costs=known_prices(),
        ignore_label=UNLABELLED,
        class_weight=softened(maps, options.balance),
        max_stages=options.stages,
        random_state=options.seed,
    )
    model.set_params(**settings(options), early_balance=0.0).fit(images, maps)
    plan = model.plan_
    for share in options.early_balance:  # of the same stages
        model.plan_ = _balanced(plan, share)
        confusion, _, ms = parsed(model, *some_of_videos(options.held_out, True, 34))
        print(f"early_balance={share}\nstage  price  processor ms  pixels, %  class recall, %")
        for stage, cost in enumerate(plan.expected_costs, start=1):
            judged = scores(confusion[stage])
            print(
                f"{stage:5}  {cost:5.0f}  {ms[stage]:12.0f}  {judged['pixel']:9.1f}  {judged['class']:15.1f}"
            )


def test(options: argparse.Namespace) -> None:
    """Run the parser over test images, stage by stage."""
    model = at.load(options.folder / "model.anytime")
    images, maps = load("test", options.images)
    confusion, worked, _ = parsed(model, images, maps)
    costs = model.plan_.costs.costs
    share = worked[:, 0] / worked[:, 1]
    judged = {
        "test_images": len(images),
        "prices_ms": {
            n: p for n, p in costs.prices.items() if not n.split()[-1].isdigit() or n.endswith(" 0")
        },
        "order": model.order_,
        "curve": [
            {"stage": t, "work": round(float(share[t]), 4), **scores(c)} for t, c in enumerate(confusion)
        ],
    }
    (options.folder / "judged.json").write_text(json.dumps(judged))
    record(options)


def record(options: argparse.Namespace) -> None:
    """Write the results, where all parts have been run."""
    files = [options.folder / f"{name}.json" for name in ("training", "times", "judged")]
    if not all(file.exists() for file in files):
        print("results are written when all parts have been run")
        return
    training, times, judged = (json.loads(file.read_text()) for file in files)
    ms = np.array(times.pop("ms"))
    curve = [{"ms": float(t), **point} for t, point in zip(ms, judged.pop("curve"), strict=True)]
    half = int(np.searchsorted(ms, 0.5 * ms[-1], side="right")) - 1
    print(
        f"descriptor work at half of the time: {curve[half]['work']} of all, at the end {curve[-1]['work']}"
    )
    write(
        options.name,
        {
            "data": "CamVid 480 x 360, JPEG copies of quality 90; train / test split of SegNet's version",
            "printed": PRINTED,
            **training,
            **times,
            **judged,
            "work_at_half_of_the_time": curve[half]["work"],
            "last": curve[-1],
            "curve": [{k: v for k, v in point.items() if k != "recall"} for point in curve],
        },
    )


def main() -> None:
    """Run one part."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=["train", "time", "test", "develop"])
    parser.add_argument("--folder", type=Path, help="where parts leave what others need; develop needs none")
    parser.add_argument("--images", type=int, default=None)
    parser.add_argument("--stages", type=int, default=40)
    parser.add_argument(
        "--short", action="store_true", help="stages of few trees, for pictures of many moments"
    )
    parser.add_argument("--time-budget", type=float, default=2400.0)
    parser.add_argument(
        "--balance", type=float, default=0.05, help="class weights are frequencies to the power of minus this"
    )
    parser.add_argument(
        "--known-prices",
        action="store_true",
        help="train: by the prices of the results, where the machine is busy",
    )
    parser.add_argument("--processor", action="store_true", help="time: of the processor, in one thread")
    parser.add_argument(
        "--held-out", metavar="VIDEO", default="0006R0", help="develop: judge by this training video"
    )
    parser.add_argument(
        "--set", nargs="*", default=[], metavar="NAME=VALUE", help="train, develop: settings of the parser"
    )
    parser.add_argument(
        "--early-balance",
        nargs="*",
        type=float,
        default=[0.5],
        metavar="SHARE",
        help="develop: compare these",
    )
    parser.add_argument("--seed", type=int, default=0, help="develop: of the parser")
    parser.add_argument("--folds", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--name", default="scene_parsing")
    options = parser.parse_args()
    if options.part != "develop":
        if options.folder is None:
            parser.error(f"{options.part} needs --folder")
        options.folder.mkdir(parents=True, exist_ok=True)
    {"train": train, "time": clock, "test": test, "develop": develop}[options.part](options)


if __name__ == "__main__":
    main()
