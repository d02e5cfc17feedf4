"""Finished runs of ``budget_quality.py``, one file each, and what they say together."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from _quality_sets import SHARES

POINTS = 0.003  # by which one entry has to be better to be called clearly better
LEAST = 0.002  # error that ratios are taken of at least: two of a thousand rows
UNIT = "one-LightGBM"  # of training times
BARS = {
    "Auto": {"level or ahead": 0.97, "clearly ahead": 0.30, "relative error": 0.93},
    "SpeedBoost": {"level or ahead": 0.93},
}


@dataclass
class Runs:
    """What is in a folder of finished runs."""

    records: dict[tuple[str, int, str], dict[str, Any]]

    @staticmethod
    def file(folder: Path, name: str, split: int, entry: str) -> Path:
        """Of one run."""
        return folder / f"{name}.{split}.{entry}.json"

    @classmethod
    def keep(cls, folder: Path, name: str, split: int, entry: str, record: dict[str, Any]) -> None:
        """Write a run, whole or not at all."""
        folder.mkdir(parents=True, exist_ok=True)
        file = cls.file(folder, name, split, entry)
        begun = file.with_suffix(".begun")
        begun.write_text(json.dumps(record), encoding="utf-8")
        begun.replace(file)

    @classmethod
    def read(cls, folder: Path) -> Runs:
        """All that are there."""
        records = {}
        for file in sorted(folder.glob("*.json")):
            name, split, entry = file.stem.split(".")
            records[name, int(split), entry] = json.loads(file.read_text())
        return cls(records)

    def expected(self, name: str, entry: str) -> float:
        """Seconds that a run takes: as others of the set, or as all of the entry."""
        times = {key: record["total_seconds"] for key, record in self.records.items() if key[2] == entry}
        of_set = [seconds for key, seconds in times.items() if key[0] == name]
        return float(np.mean(of_set or list(times.values()) or [0.0]))


def summed(
    runs: Runs, names: Sequence[str], ours: Sequence[str], peers: Sequence[str], n_splits: int
) -> dict[str, Any]:
    """Verdict of each of our models over all cells whose splits are there, and its table."""
    told: dict[str, Any] = {}
    for entry in ours:
        table = {}
        for name in names:
            splits = [s for s in range(n_splits) if (name, s, entry) in runs.records]
            splits = [s for s in splits if all((name, s, peer) in runs.records for peer in peers)]
            if splits:
                table[name] = _row(runs, name, splits, entry, peers)
        if table:
            told[entry] = {"verdict": _verdict(table), "sets": table}
    return told


def _row(runs: Runs, name: str, splits: list[int], entry: str, peers: Sequence[str]) -> dict[str, Any]:
    """One set: error of ours and of the rival at each share, and which cells are clear."""
    mine = [runs.records[name, s, entry] for s in splits]
    error = np.array([record["test"] for record in mine])
    rival = np.empty_like(error)
    chosen: list[list[str]] = []
    for k, s in enumerate(splits):
        there = {peer: runs.records[name, s, peer] for peer in peers}
        best = [min(there, key=lambda peer: there[peer]["validation"][b]) for b in range(len(SHARES))]
        rival[k] = [there[peer]["test"][b] for b, peer in enumerate(best)]
        chosen.append(best)
    gain = rival - error
    mean = gain.mean(axis=0)
    # Nadeau and Bengio: training rows of the splits overlap, so that their differences vary less than they should
    spread = (
        np.sqrt(gain.var(axis=0, ddof=1) * (1 / len(splits) + mine[0]["overlap"]))
        if len(splits) > 1
        else np.inf
    )
    clear = (np.abs(mean) > POINTS) & (np.abs(mean) > 2 * spread)
    unit = [runs.records[name, s, UNIT]["seconds"] for s in splits if (name, s, UNIT) in runs.records]
    seconds = float(np.mean([record["seconds"] for record in mine]))
    return {
        "splits": len(splits),
        "ours": error.mean(axis=0).round(4).tolist(),
        "rival": rival.mean(axis=0).round(4).tolist(),
        "rivals": [max(set(of), key=of.count) for of in zip(*chosen, strict=True)],
        "verdict": [
            "ahead" if c and m > 0 else "behind" if c else "level" for c, m in zip(clear, mean, strict=True)
        ],
        "unspent": np.mean([record["unspent"] for record in mine], axis=0).round(3).tolist(),
        "useful": np.mean([record["useful"] for record in mine], axis=0).round(2).tolist(),
        "seconds": round(seconds, 2),
        "times one LightGBM": round(seconds / max(float(np.mean(unit)), 0.005), 1) if unit else None,
    }


def _verdict(table: dict[str, Any]) -> dict[str, Any]:
    """Cells of sets with one split have no standard error, and count for means only."""
    compared = [row for row in table.values() if row["splits"] > 1]
    cells = [verdict for row in compared for verdict in row["verdict"]]
    error, rival = (np.array([row[key] for row in table.values()]) for key in ("ours", "rival"))
    left = np.array([row["unspent"] for row in table.values()])
    useful = np.array([row["useful"] for row in table.values()])
    ratio = np.maximum(error, LEAST) / np.maximum(rival, LEAST)
    times = [row["times one LightGBM"] for row in table.values() if row["times one LightGBM"] is not None]
    return {
        "sets": len(table),
        "splits": sum(row["splits"] for row in table.values()),
        "sets of several splits": len(compared),
        "cells": len(cells),
        "level or ahead": round(1 - cells.count("behind") / max(len(cells), 1), 4),
        "clearly ahead": round(cells.count("ahead") / max(len(cells), 1), 4),
        "clearly behind": cells.count("behind"),
        "less error": round(float((error < rival).mean()), 4),
        "more error": round(float((error > rival).mean()), 4),
        "relative error": round(float(ratio.mean()), 4),
        "relative error by share": ratio.mean(axis=0).round(3).tolist(),
        "more than 5 % unspent": round(float((left > 0.05).mean()), 4),
        "a useful group would fit": round(float(useful.mean()), 4),
        "times one LightGBM": {"median": round(float(np.median(times)), 1), "worst": max(times)}
        if times
        else None,
    }


BEGIN, END = "<!-- budget_quality: begin -->", "<!-- budget_quality: end -->"


def replace_page(results_page: Path, told: dict[str, Any]) -> None:
    """Put what was found between its marks on the results page."""
    text = results_page.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    results_page.write_text(f"{before}{BEGIN}\n{page(told)}{END}{after}", encoding="utf-8")


def page(told: dict[str, Any]) -> str:
    """What was found, as Markdown: a verdict and a table for each of our models."""
    lines = []
    for entry, found in told.items():
        verdict = found["verdict"]
        bars = ", ".join(f"{what} {bar:.0%}" for what, bar in BARS[entry].items())
        times = verdict["times one LightGBM"]
        lines += [
            f"### {entry}",
            "",
            f"{verdict['splits']} splits of {verdict['sets']} sets. Of the {verdict['cells']} cells of the "
            f"{verdict['sets of several splits']} sets with two splits or more, level or ahead in "
            f"{verdict['level or ahead']:.1%}, clearly ahead in {verdict['clearly ahead']:.1%}, clearly behind in "
            f"{verdict['clearly behind']}. Over all sets, less error than the best rival in {verdict['less error']:.1%} of "
            f"cells, more in {verdict['more error']:.1%}; mean relative error {verdict['relative error']:.3f} (aims: {bars}). "
            f"More than 5 % of the budget is unspent in {verdict['more than 5 % unspent']:.1%} of cells; a useful group would "
            f"have fitted in {verdict['a useful group would fit']:.1%}."
            + ("" if times is None else f" Training takes {times['median']:g} times one LightGBM "
               f"(median of sets), {times['worst']:g} times at worst."),
            "",
            "Error in percent, in brackets the best rival's; + clearly ahead, - clearly behind.",
            "",
            "| set (splits) | " + " | ".join(f"{share:.0%}" for share in SHARES) + " | times one LightGBM |",
            "|---|" + "---|" * (len(SHARES) + 1),
        ]  # fmt: skip
        mark = {"ahead": " +", "behind": " -", "level": ""}
        for name, row in found["sets"].items():
            cells = zip(row["ours"], row["rival"], row["verdict"], strict=True)
            shown = " | ".join(f"{100 * a:.1f} ({100 * b:.1f}){mark[v]}" for a, b, v in cells)
            slower = row["times one LightGBM"]
            lines.append(
                f"| {name} ({row['splits']}) | {shown} | {'' if slower is None else f'{slower:.1f}'} |"
            )
        relative = " | ".join(f"{ratio:.3f}" for ratio in verdict["relative error by share"])
        lines += [f"| mean of relative errors | {relative} | |", ""]
    return "\n".join(lines)
