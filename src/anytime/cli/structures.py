"""Pictures, sentences and graphs for ``anytime predict``: files of a folder, or lines of JSON."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anytime.cli.errors import CliError, UsageError
from anytime.cli.tables import amount, note, track

if TYPE_CHECKING:
    from anytime.answer import Answer

LINES = ".jsonl"  # the ending of files of JSON lines


def labels_structures(model: Any) -> bool:
    """Whether a model labels whole structures rather than rows of a table."""
    return bool(getattr(model, "labels_elements", False))


def refuse_structures(model: Any, path: Path) -> None:
    """Say what to do with a model whose examples are not rows of a table."""
    if labels_structures(model):
        raise UsageError(
            f"{path} labels {model._what}s, which are not rows of a table: evaluate it in Python, with anytime.curve(model, X, y)"
        )


def predict_structures(
    model: Any,
    data: Path,
    output: Path | None,
    deadline: float | None,
    *,
    proba: bool,
    with_cost: bool,
    **budgets: float | None,
) -> None:
    """Label pictures of a file or folder into a folder of label maps, or structures of JSON lines into such lines."""
    asked = _StructureRequest(data, output, deadline, proba, with_cost, budgets)
    (_predict_pictures if model._what == "picture" else _predict_lines)(model, asked)


@dataclass(frozen=True)
class _StructureRequest:
    """The structures to label, the wanted outputs, and the bounds."""

    data: Path
    output: Path | None
    deadline: float | None
    proba: bool
    with_cost: bool
    budgets: dict[str, float | None]


# ---------------------------------------------------------------------- pictures


def _predict_pictures(model: Any, asked: _StructureRequest) -> None:
    from anytime.structured.picture_files import label_png, opened_picture

    data, output = asked.data, asked.output
    if asked.proba:
        raise UsageError(
            "--proba works with tables and JSON lines; for probabilities of pixels, use predict_proba in Python"
        )
    if output is None or output.suffix:
        raise UsageError("label maps are files: name a folder for them with --output")
    files = sorted(data.iterdir()) if data.is_dir() else [data]
    files = [file for file in files if file.is_file() and not file.name.startswith(".")]
    if not files:
        raise CliError(f"{data} has no files: give a picture or a folder of pictures")
    output.mkdir(parents=True, exist_ok=True)
    classes, ends = (
        model.classes_.tolist(),
        None if asked.deadline is None else time.monotonic() + asked.deadline,
    )
    lines = []
    for k, file in enumerate(track(files, "labelling pictures")):
        try:
            picture = opened_picture(file.read_bytes(), str(file))
        except ValueError as error:
            raise CliError(str(error)) from None
        left = None if ends is None else max(0.0, (ends - time.monotonic()) / (len(files) - k))
        answer: Answer = model.answer([picture], deadline=left, **asked.budgets)
        codes = answer.scores.like(answer.scores.values.argmax(axis=1)).parts()[0]
        (output / f"{file.stem}.png").write_bytes(label_png(codes, classes))
        lines.append(
            (file.name, float(answer.cost[0]), int(answer.stage[0] if answer.stage.ndim else answer.stage))
        )
    if asked.with_cost:
        print("picture,cost,stage")
        for name, cost, stage in lines:
            print(f"{name},{cost:g},{stage}")
    mean = amount(sum(cost for _, cost, _ in lines) / len(lines), model.costs_.unit)
    named = ", ".join(f"{number} {name}" for number, name in enumerate(classes))
    note(
        f"wrote {len(lines)} label maps to {output}, mean cost {mean}; values of pixels are classes: {named}"
    )


# ---------------------------------------------------------------------- lines of JSON


def _predict_lines(model: Any, asked: _StructureRequest) -> None:
    data = asked.data
    examples = [_example(model, line, f"{data}, line {number}") for number, line in _lines(data)]
    if not examples:
        raise CliError(f"{data} has no lines: give one {model._what} per line, as JSON")
    try:
        answer: Answer = model.answer(examples, deadline=asked.deadline, **asked.budgets)
    except ValueError as error:
        raise CliError(f"{data}: {error}") from None
    out = []
    for i, labels in enumerate(answer.prediction):
        fields: dict[str, Any] = {"labels": labels.tolist()}
        if asked.proba:
            fields["classes"], fields["probabilities"] = (
                model.classes_.tolist(),
                answer.probabilities[i].tolist(),
            )
        if asked.with_cost:
            fields["cost"], fields["stage"] = float(answer.cost[i]), int(answer.stage[i])
        out.append(json.dumps(fields, ensure_ascii=False))
    text = "\n".join(out) + "\n"
    if asked.output is None:
        sys.stdout.write(text)
        return
    asked.output.write_text(text, encoding="utf-8")
    mean = amount(float(answer.cost.mean()), model.costs_.unit)
    note(f"wrote {asked.output}: {len(out)} {model._what}s, mean cost {mean}")


def _lines(data: Path) -> list[tuple[int, str]]:
    if data.is_dir():
        raise CliError(f"{data} is a directory; give a file of JSON lines, or - for standard input")
    text = sys.stdin.read() if str(data) == "-" else data.read_text(encoding="utf-8")
    return [(number, line) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]


def _example(model: Any, line: str, where: str) -> Any:
    try:
        example = json.loads(line)
    except ValueError:
        raise CliError(f"{where} is not JSON: give one {model._what} per line") from None
    if model._what == "sentence":
        return example
    if not isinstance(example, dict) or "nodes" not in example:
        raise CliError(f'{where}: a graph is an object with "nodes" and "edges"')
    return example["nodes"], example.get("edges", [])
