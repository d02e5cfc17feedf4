"""What scene parsing is compared with on CamVid: the hierarchical inference machine, and plain boosting without context.

    python benchmarks/scene_baselines.py --folder /tmp/camvid                             # all variants that are not there yet
    python benchmarks/scene_baselines.py --folder /tmp/camvid --variants texture pixels   # these, judged again
    python benchmarks/scene_baselines.py --folder /tmp/rehearsal --images 24 --test-images 6 --trees 10 --no-results
    python benchmarks/scene_baselines.py --folder /tmp/chosen --held-out 0006R0 --variants all    # how settings were chosen
    python benchmarks/scene_baselines.py --folder /tmp/camvid --against /tmp/camvid/model.anytime   # who is better at whose time

Regions, features and trees are those of ``SceneParser``; all of what a variant may read is computed before it says anything.
"all": every descriptor; "texture" and "texture+edges": shape and the codes of these descriptors; "regions": the finest regions
with every descriptor, neither levels nor context; "pixels": descriptors as they are at single points. Models and figures are
kept in the folder as soon as they are there: remove them to repeat a part. ``--against`` times the variants of the folder and the
parser of ``results/scene_parsing.json`` in turns, in one thread each, on ``--test-images`` images. Data (``ANYTIME_DATA``) and
split as in ``scene_parsing.py``. Settings were chosen on training videos held out: 100 images of the others to learn from, 34 of
that one to judge by.
"""

from __future__ import annotations

import argparse
import json
import pickle
import resource
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import anytime as at
from anytime.engine import Run
from anytime.structured import BoostedTreesLearner, ElementTable
from anytime.structured.descriptors import DESCRIPTORS, GRID_STEP
from anytime.structured.scene_parser import _dictionaries
from anytime.structured.scenes import Scene, SceneFeatures, Scenes
from anytime.trees.clock import Clock
from anytime_research.structured import HierarchicalInferenceMachine
from common import RESULTS, write
from scene_parsing import PRINTED, UNLABELLED, load, scores, some_of_videos

KINDS = {
    "all": ("shape", *DESCRIPTORS),
    "texture": ("shape", "texture"),
    "texture+edges": ("shape", "texture", "edges"),
    "regions": ("shape", *DESCRIPTORS),
}  # kinds of columns that a variant reads
VARIANTS = (*KINDS, "pixels")
LEVELS = (6, 4, 3, 1, 0, 1, 3, 4, 6, 4, 3, 1, 0, 3, 0)  # down, up and down
LEARNER: dict[str, Any] = {
    "learning_rate": 0.05,
    "l2_regularization": 20.0,
    "max_leaf_nodes": 15,
    "min_samples_leaf": 60,
}
COLUMNS_DRAWN = 0.15  # share of them that a tree may test
PIXELS_PER_IMAGE = 400  # that the model of pixels learns from

Picture = NDArray[np.uint8]
Maps = list[NDArray[np.uint8]]


def training_images(options: argparse.Namespace) -> tuple[list[Picture], Maps]:
    """Images and label maps to learn from."""
    return some_of_videos(options.held_out, False, 100) if options.held_out else load("train", options.images)


def judged_images(options: argparse.Namespace) -> tuple[list[Picture], Maps]:
    """Images and label maps to judge by."""
    if options.held_out:
        return some_of_videos(options.held_out, True, 34)
    return load(options.split, options.test_images)


def labels_of_atoms(scenes: Scenes, maps: Maps) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(E, K) distributions of labels in atoms, and (E,) pixels with a label."""
    counts = []
    for scene, labels in zip(scenes.scenes, maps, strict=True):
        cells = scene.hierarchy.atom.astype(np.intp) * (UNLABELLED + 1) + labels
        count = np.bincount(cells.ravel(), minlength=scene.hierarchy.n_atoms * (UNLABELLED + 1))
        counts.append(count.reshape(-1, UNLABELLED + 1)[:, :UNLABELLED])
    mass = np.concatenate(counts).astype(np.float64)
    weight = mass.sum(axis=1)
    return (mass + 1e-9) / (weight + UNLABELLED * 1e-9)[:, None], weight


@dataclass(eq=False)
class RegionModel:
    """Labels by what a machine says of the regions of a picture."""

    features: SceneFeatures
    machine: HierarchicalInferenceMachine
    balance: float = 0.0  # share of the log frequencies of the classes that is taken off the scores

    def labels(self, image: Picture) -> NDArray[np.intp]:
        """(h, w) a label for each pixel."""
        picture = Scenes([Scene(image, self.features)], self.features)
        scores = np.log(self.machine.predict_proba(picture)) - self.balance * self.machine.base
        said: NDArray[np.intp] = scores.argmax(axis=1)
        return said[picture.scenes[0].hierarchy.atom]


@dataclass(eq=False)
class PixelModel:
    """Labels by the descriptors at single points."""

    machine: HierarchicalInferenceMachine

    def labels(self, image: Picture) -> NDArray[np.intp]:
        """(h, w) a label for each pixel: that of its grid point."""
        height, width = (-(-n // GRID_STEP) for n in image.shape[:2])
        every = np.arange(height * width, dtype=np.int32)
        points = ElementTable(described_points(image, every), [0, every.size])
        said: NDArray[np.intp] = self.machine.predict_proba(points).argmax(axis=1).reshape(height, width)
        return said.repeat(GRID_STEP, axis=0).repeat(GRID_STEP, axis=1)[: image.shape[0], : image.shape[1]]


def told(visit: int, level: int, loss: float) -> None:
    """Print how training goes."""
    print(f"visit {visit}, level {level}: loss {loss:.4f}", flush=True)


def described(images: list[Picture], options: argparse.Namespace) -> tuple[SceneFeatures, Scenes]:
    """Columns with the dictionaries of ``SceneParser``, and the training pictures; a code is computed when it is first read."""
    features = SceneFeatures(
        _dictionaries(
            images, list(DESCRIPTORS), 150, np.random.RandomState(0), options.threads, Clock(None, 0)
        )
    )
    return features, Scenes([Scene(image, features) for image in images], features)


def machine_of(
    options: argparse.Namespace, columns: NDArray[np.int32] | None, levels: tuple[int, ...] = LEVELS
) -> HierarchicalInferenceMachine:
    """The machine of all variants; those that look at one level have as many trees at it as others in all."""
    learner = BoostedTreesLearner(
        n_estimators=options.trees, max_features=COLUMNS_DRAWN, n_threads=options.threads, **LEARNER
    )
    n_trees = options.trees * len(LEVELS) // len(levels)
    return HierarchicalInferenceMachine(
        columns, levels=levels, folds=0, learner=learner, max_trees=n_trees, report=told
    )


def trained_on_regions(
    variant: str, images: list[Picture], maps: Maps, options: argparse.Namespace
) -> RegionModel:
    """An inference machine, or the model of the finest regions."""
    features, scenes = described(images, options)
    columns = np.array(
        [i for i, name in enumerate(features.names) if name.split()[0] in KINDS[variant]], dtype=np.int32
    )
    machine = machine_of(options, columns, (0,) if variant == "regions" else LEVELS)
    machine.fit(scenes, *labels_of_atoms(scenes, maps))
    return RegionModel(features, machine)


def trained_on_pixels(images: list[Picture], maps: Maps, options: argparse.Namespace) -> PixelModel:
    """One boosted model of the descriptors at single points of the grid."""
    random = np.random.RandomState(0)
    tables, labels = [], []
    for image, labels_of_image in zip(images, maps, strict=True):
        at_grid = labels_of_image[::GRID_STEP, ::GRID_STEP].ravel()
        labelled = np.flatnonzero(at_grid < UNLABELLED).astype(np.int32)
        points = np.sort(random.choice(labelled, min(PIXELS_PER_IMAGE, labelled.size), replace=False))
        tables.append(described_points(image, points))
        labels.append(at_grid[points])
    truth = np.eye(UNLABELLED)[np.concatenate(labels)]
    structures = ElementTable(np.concatenate(tables), np.cumsum([0, *map(len, labels)]))
    machine = machine_of(options, None, levels=(0,))
    return PixelModel(machine.fit(structures, truth, np.ones(len(truth))))


def described_points(image: Picture, points: NDArray[np.int32]) -> NDArray[np.float64]:
    """(m, d) place and descriptors of points of the grid."""
    scene = Scene(image, SceneFeatures({}))
    height, width = (-(-n // GRID_STEP) for n in image.shape[:2])
    place = np.stack([points % width / width, points // width / height], axis=1)
    return np.hstack([place, *(scene.planes(name).at(points) for name in DESCRIPTORS)])


def trained(variant: str, options: argparse.Namespace) -> tuple[RegionModel | PixelModel, dict[str, Any]]:
    """A variant, and what its training took; read from the folder where it is there."""
    path = options.folder / f"baseline_{variant}.pickle"
    if path.exists():
        found: tuple[RegionModel | PixelModel, dict[str, Any]] = pickle.loads(path.read_bytes())
        return found
    images, maps = training_images(options)
    began, used = time.perf_counter(), time.process_time()
    model = (
        trained_on_pixels(images, maps, options)
        if variant == "pixels"
        else trained_on_regions(variant, images, maps, options)
    )
    took = {
        "train_images": len(images),
        "train_seconds": round(time.perf_counter() - began, 1),
        "train_processor_seconds": round(time.process_time() - used, 1),
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "trees": options.trees,
    }
    path.write_bytes(pickle.dumps((model, took)))
    return model, took


def judged(variant: str, options: argparse.Namespace) -> dict[str, Any]:
    """Run a variant over the test images one by one, from the image to labels of all pixels, in one thread."""
    model, took = trained(variant, options)
    if options.balance:
        assert isinstance(model, RegionModel)
        model.balance = options.balance
    confusion = np.zeros((UNLABELLED, UNLABELLED))
    wall, processor = [], []
    for image, labels in zip(*judged_images(options), strict=True):
        began, used = time.perf_counter(), time.process_time()
        said = model.labels(image)
        wall.append(time.perf_counter() - began)
        processor.append(time.process_time() - used)
        there = labels < UNLABELLED
        cells = labels[there].astype(np.intp) * UNLABELLED + said[there]
        confusion += np.bincount(cells, minlength=UNLABELLED**2).reshape(UNLABELLED, -1)
    return {
        **scores(confusion),
        "ms": round(1e3 * float(np.median(wall)), 1),
        "processor_ms": round(1e3 * float(np.median(processor)), 1),
        "test_images": len(wall),
        **took,
    }


def compared(options: argparse.Namespace) -> dict[str, Any]:
    """Processor ms of the variants in the folder and of the parser's stages, in turns, and what the parser says by then."""
    parser = at.load(options.against).set_params(n_jobs=1)
    stored = {name: options.folder / f"baseline_{name}.pickle" for name in VARIANTS}
    models = {name: pickle.loads(path.read_bytes())[0] for name, path in stored.items() if path.exists()}
    images, _ = load("test", options.test_images)
    taken: dict[str, list[float]] = {name: [] for name in models}
    stages: list[list[float]] = []
    for image in images:
        for name, model in models.items():
            began = time.process_time()
            model.labels(image)
            taken[name].append(1e3 * (time.process_time() - began))
        began = time.process_time()
        run = Run(parser.plan_, parser._structures([image]))
        by_stage = []
        for stage in range(parser.plan_.n_stages + 1):
            run.advance(stage)
            by_stage.append(1e3 * (time.process_time() - began))
        stages.append(by_stage)
    middle = np.median(stages, axis=0)
    curve = json.loads((RESULTS / "scene_parsing.json").read_text(encoding="utf-8"))["curve"]
    if len(curve) != len(middle):
        raise SystemExit("results/scene_parsing.json is of another parser: run scene_parsing.py test first")
    by_then = {}
    for name, seconds in taken.items():
        ms = float(np.median(seconds))
        stage = int(np.searchsorted(middle, ms, side="right")) - 1
        said = {k: curve[max(stage, 0)][k] for k in ("stage", "pixel", "class")}
        by_then[name] = {"processor_ms": round(ms, 1), "parser": said}
    return {
        "timed_images": len(images),
        "parser_processor_ms": middle.round(1).tolist(),
        "variants": by_then,
    }


def main() -> None:
    """Run the variants that are not there yet."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, required=True, help="where figures of variants are kept")
    parser.add_argument("--variants", nargs="*", choices=VARIANTS, default=())
    parser.add_argument("--images", type=int, default=None)
    parser.add_argument("--test-images", type=int, default=None)
    parser.add_argument("--split", choices=["val", "test"], default="test", help="which images are judged")
    parser.add_argument("--trees", type=int, default=80, help="of each look at a level")
    parser.add_argument("--threads", type=int, default=1, help="of training; images are parsed by one")
    parser.add_argument(
        "--held-out", metavar="VIDEO", help="judge by this training video; results are not written"
    )
    parser.add_argument(
        "--balance",
        type=float,
        default=0.0,
        metavar="SHARE",
        help="take this share of the log frequencies of the classes off the scores of --variants; figures are printed only",
    )
    parser.add_argument("--no-results", action="store_true", help="a rehearsal: results are not written")
    parser.add_argument(
        "--against", type=Path, help="a parser to be timed beside the variants; nothing is trained"
    )
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    known = json.loads((RESULTS / "scene_baselines.json").read_text(encoding="utf-8"))
    if options.against:
        known["in_turns"] = compared(options)
        print(json.dumps(known["in_turns"]["variants"], indent=1))
        write("scene_baselines", {k: known[k] for k in ("data", "printed", "levels", "variants", "in_turns")})
        return
    for variant in options.variants or VARIANTS:
        path = options.folder / f"baseline_{variant}.json"
        if options.balance:
            print(variant, json.dumps(judged(variant, options)), flush=True)
        elif options.variants or not path.exists():
            print(f"variant {variant}", flush=True)
            path.write_text(json.dumps(judged(variant, options)))
    if options.balance:
        return
    paths = {variant: options.folder / f"baseline_{variant}.json" for variant in VARIANTS}
    figures = {variant: json.loads(path.read_text()) for variant, path in paths.items() if path.exists()}
    if options.no_results or options.held_out:
        print(json.dumps(figures, indent=1))
        return
    write(
        "scene_baselines",
        {
            "data": "CamVid 480 x 360, JPEG copies of quality 90; train / test split of SegNet's version",
            "printed": PRINTED,
            "levels": LEVELS,
            "variants": figures,
            "in_turns": known.get("in_turns"),
        },
    )


if __name__ == "__main__":
    main()
