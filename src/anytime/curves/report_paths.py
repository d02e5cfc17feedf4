"""What models buy for single rows and what moved the answers, as part of the page of a comparison: a picture and a table each."""

from __future__ import annotations

import html
from collections.abc import Mapping

import numpy as np

from anytime.advice import PurchasePath
from anytime.explanations import Explanation

__all__ = ["render_paths"]

_STEP, _LEAST_WIDTH, _HEIGHT, _LEFT, _TOP = (
    84,
    640,
    190,
    56,
    34,
)  # of a drawing; names and numbers stand left and on top
_LETTERS = 12  # of a group's name in the drawing; the table has all of it


def render_paths(paths: Mapping[str, PurchasePath | Explanation]) -> str:
    """The section of the page; nothing where there are no rows."""
    if not paths:
        return ""
    return (
        '<section id="rows" aria-labelledby="h-rows">\n<h2 id="h-rows">What single rows buy</h2>\n'
        '<p class="lead">Each step is a purchase, with what the row has paid by then. The line shows how the answer moves.</p>\n'
        + "".join(_of_row(name, path) for name, path in paths.items())
        + "</section>"
    )


def _of_row(name: str, path: PurchasePath | Explanation) -> str:
    picture, head, rows = _explained(path) if isinstance(path, Explanation) else _bought(path)
    heads = "".join(f'<th scope="col">{word}</th>' for word in head)
    cells = "".join(
        f'<tr><th scope="row">{html.escape(bought)}</th>'
        + "".join(f"<td>{n}</td>" for n in numbers)
        + "</tr>"
        for bought, *numbers in rows
    )
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{cells}</tbody></table>"
    return (
        f'<div class="buys"><h3>{html.escape(name)}</h3>{picture}'
        f"<details><summary>The purchases as a table</summary>{table}</details></div>\n"
    )


def _bought(path: PurchasePath) -> tuple[str, list[str], list[list[str]]]:
    """Purchases as recommended one by one: the answer after each, with its probability."""
    lines, unit = path.table(), f" ({html.escape(path.steps[0].unit)})" if path.steps[0].unit else ""
    certain = lines[0]["probability"] is not None
    answers = [_in_words(line["prediction"]) for line in lines]
    names = ["nothing" if line["bought"] is None else str(line["bought"]) for line in lines]
    numbers = [[f"{line['cost']:g}", answer] for line, answer in zip(lines, answers, strict=True)]
    if certain:
        numbers = [[*row, f"{line['probability']:.2f}"] for row, line in zip(numbers, lines, strict=True)]
    picture = _picture(
        [line["cost"] for line in lines],
        [float(line["probability" if certain else "prediction"]) for line in lines],
        [[*([_short(name)] * (i > 0)), *([answers[i]] * certain)] for i, name in enumerate(names)],
        "; ".join(str(path).splitlines()),
        certain,
    )
    head = ["bought", f"paid{unit}", "answer", *(["probability"] if certain else [])]
    return picture, head, [[name, *row] for name, row in zip(names, numbers, strict=True)]


def _explained(path: Explanation) -> tuple[str, list[str], list[list[str]]]:
    """Purchases with the changes of one value, which add up to the last."""
    lines = path.table()
    names = [line["bought"] or "nothing" for line in lines]
    changes = ["", *(f"{line['change']:+.3g}".replace("-", "\u2212") for line in lines[1:])]
    picture = _picture(
        [line["cost"] for line in lines],
        [line["value"] for line in lines],
        [[_short(name), change] if change else [] for name, change in zip(names, changes, strict=True)],
        "; ".join(str(path).splitlines()),
        path.label is not None,
    )
    rows = [
        [name, f"{line['cost']:g}", change, f"{line['value']:.4g}"]
        for name, line, change in zip(names, lines, changes, strict=True)
    ]
    return picture, ["bought", "paid", "change", html.escape(path.what)], rows


def _picture(costs: list[float], heights: list[float], said: list[list[str]], title: str, share: bool) -> str:
    """A staircase: purchases to the right, with what was paid by then; a probability (``share``) or a number upwards."""
    low, high = (0.0, 1.0) if share else (min(heights), max(heights))
    n, width = len(costs), max(_STEP * len(costs), _LEAST_WIDTH)
    x = [_LEFT + (width - 2 * _LEFT) * i / max(n - 1, 1) for i in range(n)]
    y = [_HEIGHT - 24 - (_HEIGHT - 24 - _TOP) * (h - low) / ((high - low) or 1.0) for h in heights]
    steps = "".join(f"H{right:.1f}V{up:.1f}" for right, up in zip(x[1:], y[1:], strict=True))
    drawn = [f'<path class="line" d="M{x[0]:.1f} {y[0]:.1f}{steps}"/>']
    for cost, words, right, up in zip(costs, said, x, y, strict=True):
        drawn.append(f'<circle class="dot" cx="{right:.1f}" cy="{up:.1f}" r="5"/>')
        drawn += [
            f'<text x="{right:.1f}" y="{up - 9 - 14 * (len(words) - 1 - i):.1f}" text-anchor="middle">{html.escape(word)}</text>'
            for i, word in enumerate(words)
        ]
        drawn.append(f'<text x="{right:.1f}" y="{_HEIGHT - 4}" text-anchor="middle">{cost:g}</text>')
    for value, up in ((low, _HEIGHT - 24), (high, _TOP)):
        drawn.append(f'<text x="0" y="{up + 4}">{value:.4g}</text>')
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
