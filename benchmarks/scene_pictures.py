"""Pictures of scene parsing on CamVid: labels and selected regions at six moments, the time course, the use of features.

    python benchmarks/scene_pictures.py /tmp/camvid/model.anytime --draw time features     # docs/images/scene_*.png
    python benchmarks/scene_pictures.py /tmp/short/model.anytime --draw stages             # of the 225 stages of the paper
    python benchmarks/scene_pictures.py /tmp/rehearsal/model.anytime --folder /tmp --images 4    # a rehearsal

Labels, regions and the use of features come from the model and some test images (``ANYTIME_DATA``, as for ``scene_parsing.py``);
the time course from ``results/scene_parsing.json`` where it is there, with the variants of ``results/scene_baselines.json`` as
points. Photographs and true labels of CamVid are not ours to pass on, so that only what the model says is drawn.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.patches import Patch
from numpy.typing import NDArray

import anytime as at
from anytime.structured.picture_files import label_colours
from scene_parsing import CLASSES, PRINTED, UNLABELLED, load

MOMENTS = (1, 5, 15, 50, 100, 225)  # stages, speedboost_and_structured 6.7
ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
COLOURS = np.array([to_rgb(colour) for colour in label_colours(CLASSES)])
PALE = np.array([0.93, 0.93, 0.94])
LINES = {
    "shape": "#8a8f98", "colour": "#e08a2e", "texture": "#3d4fa3", "patterns": "#b07aa1", "edges": "#4f8f4a",
    "wide_edges": "#2f6f5e", "colour_edges": "#e0475b",
}  # fmt: skip
MEASURES = {"pixel": "pixels that are right, %", "class": "mean recall of the classes, %"}
NAMES = {  # of the variants of scene_baselines.py
    "all": "HIM, all descriptors",
    "texture": "HIM, texture",
    "texture+edges": "HIM, texture and edges",
    "regions": "boosted regions",
    "pixels": "boosted pixels",
}

Map = NDArray[Any]


def course(model: Any, image: Map, truth: Map) -> tuple[list[Map], Map, Map]:
    """The label map after every stage, seconds of processor time until then, and shares of pixels that are right."""
    maps, seconds, right = [], [], []
    there, began = truth < UNLABELLED, time.process_time()
    spent = 0.0
    for answer in model.stages([image]):
        spent += time.process_time() - began
        maps.append(answer.prediction[0])
        seconds.append(spent)
        right.append(np.mean(maps[-1][there] == truth[there]))
        began = time.process_time()
    return maps, np.array(seconds), np.array(right)


def moments_of(model: Any) -> list[int]:
    """The stages to be shown: those of the paper that the model has, and its last."""
    return sorted({t for t in MOMENTS if t < model.n_stages_} | {model.n_stages_})[:6]


def last_selective(selected: list[Map], t: int) -> int:
    """The last stage up to ``t`` that did not work on the whole picture; ``t`` itself where each did."""
    return max((s for s in range(1, t + 1) if not selected[s - 1].all()), default=t)


def draw_stages(model: Any, images: list[Map], truths: list[Map], path: Path) -> None:
    """Labels at some moments, and below them the regions on which the last stage that chose some has worked."""
    stages = moments_of(model)
    figure, axes = plt.subplots(
        2 * len(images),
        len(stages),
        figsize=(2.1 * len(stages), 3.35 * len(images) + 0.4),
        layout="constrained",
    )
    for row, (image, truth) in enumerate(zip(images, truths, strict=True)):
        maps, seconds, right = course(model, image, truth)
        selected = list(at.structured.selected_pixels(model, image))
        for column, t in enumerate(stages):
            labels, worked = COLOURS[maps[t]], last_selective(selected, t)
            chosen = selected[worked - 1]
            upper, lower = axes[2 * row, column], axes[2 * row + 1, column]
            upper.imshow(labels, interpolation="nearest")
            upper.set_title(f"t = {t}, {seconds[t]:.2f} s\n{right[t]:.0%} right", fontsize=9)
            lower.imshow(np.where(chosen[:, :, None], labels, PALE), interpolation="nearest")
            lower.set_title(f"stage {worked} works on {chosen.mean():.0%}", fontsize=9)
            upper.set_axis_off()
            lower.set_axis_off()
    handles = [Patch(color=colour, label=name) for name, colour in zip(CLASSES, COLOURS, strict=True)]
    figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=len(CLASSES),
        fontsize=8,
        frameon=False,
        handlelength=1.0,
        columnspacing=1.0,
    )
    figure.savefig(path, dpi=90)


def draw_course(path: Path) -> None:
    """Accuracy and class recall against time; the inference machine and its variants as points."""
    measured, baselines = RESULTS / "scene_parsing.json", RESULTS / "scene_baselines.json"
    if not measured.exists():
        print(f"{measured.name} is not there: the time course is left out")
        return
    curve = json.loads(measured.read_text())["curve"][1:]
    compared = json.loads(baselines.read_text()) if baselines.exists() else {"variants": {}}
    variants, turns = compared["variants"], compared.get("in_turns")
    seconds = [point["ms"] / 1e3 for point in curve]
    ms = {name: variant["processor_ms"] for name, variant in variants.items()}
    if turns and len(turns["parser_processor_ms"]) == len(curve) + 1:  # all of them timed side by side
        seconds = [t / 1e3 for t in turns["parser_processor_ms"][1:]]
        ms |= {name: variant["processor_ms"] for name, variant in turns["variants"].items()}
    figure, both = plt.subplots(1, 2, figsize=(10, 3.9), layout="constrained")
    for axes, (kind, title) in zip(both, MEASURES.items(), strict=True):
        axes.step(
            seconds,
            [point[kind] for point in curve],
            where="post",
            color="#333a56",
            label="SceneParser, at any moment",
        )
        for (name, variant), marker in zip(variants.items(), "osDv^", strict=False):
            axes.plot(ms[name] / 1e3, variant[kind], marker, label=NAMES.get(name, name))
        axes.axhline(PRINTED["SIM"][kind], color="#8a8f98", lw=1, ls="--", label="SIM as printed")
        axes.set(xlabel="seconds of processor time for an image", title=title)
        axes.grid(alpha=0.3)
    handles, names = both[0].get_legend_handles_labels()
    figure.legend(handles, names, fontsize=8, loc="outside lower center", ncols=4, frameon=False)
    figure.savefig(path, dpi=100)


def draw_features(model: Any, images: list[Map], truths: list[Map], path: Path) -> None:
    """How many codes of each descriptor have been used by then."""
    features = model.features_
    kinds = [name.split()[0] if " " in name else name for name in features.names]
    seconds = np.mean(
        [course(model, image, truth)[1] for image, truth in zip(images, truths, strict=True)], axis=0
    )
    seen: set[int] = set()
    used: dict[str, list[int]] = {kind: [0] for kind in dict.fromkeys(kinds)}
    for block in model.plan_.blocks:
        for update in block.updates:
            seen |= set(update.predictor.columns.tolist())
            for kind, counts in used.items():
                counts.append(sum(kinds[column] == kind for column in seen))
    figure, axes = plt.subplots(figsize=(6.5, 3.9), layout="constrained")
    for kind, counts in used.items():
        axes.step(seconds, counts, where="post", label=kind.replace("_", " "), color=LINES.get(kind))
    axes.set(
        xlabel="seconds of processor time", title="columns in use: shape, colour, and codes of descriptors"
    )
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    figure.savefig(path, dpi=100)


def main() -> None:
    """Draw them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--folder", type=Path, default=ROOT / "docs" / "images")
    parser.add_argument(
        "--images", type=int, default=8, help="test images that times and features are taken from"
    )
    pictures = ("stages", "time", "features")
    parser.add_argument("--draw", nargs="*", choices=pictures, default=pictures, help="which; all by default")
    options = parser.parse_args()
    model = at.load(options.model)
    images, truths = load("test", options.images)
    some = [round(share * (len(images) - 1)) for share in (0.15, 0.5, 0.85)]
    if "stages" in options.draw:
        draw_stages(
            model, [images[i] for i in some], [truths[i] for i in some], options.folder / "scene_stages.png"
        )
    if "time" in options.draw:
        draw_course(options.folder / "scene_time.png")
    if "features" in options.draw:
        draw_features(model, images, truths, options.folder / "scene_features.png")


if __name__ == "__main__":
    main()
