"""What models buy for single rows, as part of the page of a comparison: a picture and a table for each row."""

from __future__ import annotations

import html
from collections.abc import Mapping

import numpy as np

from anytime.advice import PurchasePath

__all__ = ["render_paths"]

_STEP, _LEAST_WIDTH, _HEIGHT, _LEFT, _TOP = (
    84,
    640,
    190,
    56,
    34,
)  # of a drawing; names and numbers stand left and on top
_LETTERS = 13  # of a group's name in the drawing; the table has all of it


def render_paths(paths: Mapping[str, PurchasePath]) -> str:
    """The section of the page; nothing where there are no rows."""
    if not paths:
        return ""
    return (
        '<section id="rows" aria-labelledby="h-rows">\n<h2 id="h-rows">What single rows buy</h2>\n'
        '<p class="lead">Each step is a purchase, with what the row has paid by then. The line shows how the answer moves.</p>\n'
        + "".join(_of_row(name, path) for name, path in paths.items())
        + "</section>"
    )


def _of_row(name: str, path: PurchasePath) -> str:
    lines, unit = path.table(), f" ({html.escape(path.steps[0].unit)})" if path.steps[0].unit else ""
    certain = lines[0]["probability"] is not None
    head = ["bought", f"paid{unit}", "answer", *(["probability"] if certain else [])]
    cells = []
    for line in lines:
        bought = "nothing" if line["bought"] is None else html.escape(str(line["bought"]))
        numbers = [f"{line['cost']:g}", _in_words(line["prediction"])]
        numbers += [f"{line['probability']:.2f}"] if certain else []
        cells.append(
            f'<tr><th scope="row">{bought}</th>' + "".join(f"<td>{n}</td>" for n in numbers) + "</tr>"
        )
    heads = "".join(f'<th scope="col">{word}</th>' for word in head)
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(cells)}</tbody></table>"
    return (
        f'<div class="buys"><h3>{html.escape(name)}</h3>{_picture(path)}'
        f"<details><summary>The purchases as a table</summary>{table}</details></div>\n"
    )


def _picture(path: PurchasePath) -> str:
    """A staircase: purchases to the right, with what was paid by then; the probability of the answer or the number upwards."""
    lines = path.table()
    certain = lines[0]["probability"] is not None
    heights = np.array([float(line["probability" if certain else "prediction"]) for line in lines])
    low, high = (0.0, 1.0) if certain else (float(heights.min()), float(heights.max()))
    width = max(_STEP * len(lines), _LEAST_WIDTH)
    x = [_LEFT + (width - 2 * _LEFT) * i / max(len(lines) - 1, 1) for i in range(len(lines))]
    y = [_HEIGHT - 24 - (_HEIGHT - 24 - _TOP) * (h - low) / ((high - low) or 1.0) for h in heights.tolist()]
    steps = "".join(f"H{right:.1f}V{up:.1f}" for right, up in zip(x[1:], y[1:], strict=True))
    drawn = [f'<path class="line" d="M{x[0]:.1f} {y[0]:.1f}{steps}"/>']
    for line, right, up in zip(lines, x, y, strict=True):
        said = [_short(str(line["bought"]))] if line["bought"] is not None else []
        said += [_in_words(line["prediction"])] if certain else []
        drawn.append(f'<circle class="dot" cx="{right:.1f}" cy="{up:.1f}" r="5"/>')
        drawn += [
            f'<text x="{right:.1f}" y="{up - 9 - 14 * (len(said) - 1 - i):.1f}" text-anchor="middle">{html.escape(word)}</text>'
            for i, word in enumerate(said)
        ]
        drawn.append(f'<text x="{right:.1f}" y="{_HEIGHT - 4}" text-anchor="middle">{line["cost"]:g}</text>')
    for value, up in ((low, _HEIGHT - 24), (high, _TOP)):
        drawn.append(f'<text x="0" y="{up + 4}">{value:.4g}</text>')
    title = "; ".join(str(path).splitlines())
    return (
        f'<div class="scroll" tabindex="0"><svg width="{width}" height="{_HEIGHT}" role="img" style="--c: var(--c0)">'
        f"<title>{html.escape(title)}</title>{''.join(drawn)}</svg></div>"
    )


def _short(name: str) -> str:
    return name if len(name) <= _LETTERS else name[: _LETTERS - 1] + "…"


def _in_words(prediction: object) -> str:
    values = np.asarray(prediction)
    if values.dtype.kind == "f":
        return ", ".join(f"{value:.4g}" for value in values.ravel().tolist())
    return html.escape(str(values.tolist()))
