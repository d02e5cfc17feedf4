"""Every row its own purchases, beside methods of the field: GDFS, DIME and an oracle over neighbours (AACO).

Sets of AFABench (Schütz et al. 2025) that can be had, and its two generators; uniform prices and its hard budgets, in groups. The
rivals are written from their papers, small enough for a processor: a network that was trained with groups hidden at random
answers for all of them.

- GDFS (Covert et al. 2023): a selector, trained through a relaxed choice whose temperature falls.
- DIME (Gadgil et al. 2024): a network of the fall of the loss that each group brings, trained along its own paths.
- AACO (Valancius et al. 2023): of sampled sets of groups the one with which the nearest training rows lose least; its most
  telling group is bought.

    python benchmarks/acquisition_rivals.py [--data DIR] [--sets a,b] [--splits 1] [--development] [--keep DIR]
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn.functional import cross_entropy, gumbel_softmax

import anytime as at
from common import write

BUDGETS = {
    "cube": (3, 5, 10),
    "cube-nm": (3, 5, 7, 10, 14),
    "ckd": (2, 4, 7),
    "actg175": (3, 5, 10),
    "bank": (2, 4, 7),
}
ROWS = 3_000  # that are learned from, and as many judged by
CLEARLY = 0.003


class Split(NamedTuple):
    """Rows as a table, and as standardised inputs with the group of each."""

    train: pd.DataFrame
    test: pd.DataFrame
    y: NDArray[np.intp]
    y_test: NDArray[np.intp]
    groups: dict[str, list[str]]
    Z: torch.Tensor
    Z_test: torch.Tensor
    group_of: NDArray[np.intp]


# ---------------------------------------------------------------------- sets


def cube(random: np.random.Generator, n: int, blocks: int = 0) -> tuple[pd.DataFrame, Any, dict[str, Any]]:
    """CUBE, or CUBE-NM with ``blocks``: which block tells the class is said by a noisy context."""
    y, context = random.integers(8, size=n), random.integers(max(blocks, 1), size=n)
    width = 10 if blocks else 20
    X = random.normal(0.5, 0.3, size=(n, max(blocks, 1), width))
    for j in range(3):
        place = (y + j) % 10 if blocks else y + j
        X[np.arange(n), context, place] = random.normal((y >> j) & 1, 0.1)
    table = {f"x{k}": column for k, column in enumerate(X.reshape(n, -1).T)}
    groups = {name: [name] for name in table}
    if blocks:
        said = np.eye(blocks)[context] + random.normal(0, 0.1, size=(n, blocks))
        table |= {f"c{k}": said[:, k] for k in range(blocks)}
        groups["context"] = [f"c{k}" for k in range(blocks)]
    return pd.DataFrame(table), y, groups


def recorded(folder: Path, name: str) -> tuple[pd.DataFrame, Any, dict[str, Any]]:
    """A table of AFABench."""
    file, label, leaks = {
        "ckd": ("ckd", "class", []),
        "actg175": ("actg175", "cid", ["time", "zprior"]),
        "bank": ("bank_full", "y", []),
    }[name]
    table = pd.read_csv(folder / f"{file}.csv.xz", na_values=["?", "\t?"], skipinitialspace=True)
    y = np.unique(table[label].astype(str).str.strip(), return_inverse=True)[1]
    X = table.drop(columns=[label, *leaks])
    for column in X:
        if not pd.api.types.is_numeric_dtype(X[column]):
            X[column] = X[column].astype(str).str.strip().astype("category")
    return X, y, {column: [column] for column in X}


def split_of(name: str, folder: Path, seed: int) -> Split:
    """A random split: two thirds learn, at most ``ROWS``."""
    random = np.random.default_rng(seed)
    if name.startswith("cube"):
        X, y, groups = cube(random, 2 * 1_500, 5 if name == "cube-nm" else 0)
    else:
        X, y, groups = recorded(folder, name)
    drawn = random.permutation(len(X))
    n = min(len(X) * 2 // 3, ROWS)
    rows, others = drawn[:n], drawn[n : n + ROWS]
    inputs, group_of = [], []
    for g, columns in enumerate(groups.values()):
        for column in columns:
            if isinstance(X[column].dtype, pd.CategoricalDtype):
                coded = np.eye(len(X[column].cat.categories) + 1)[X[column].cat.codes][:, :-1]
            else:
                x = X[column].to_numpy(dtype=float)
                known = x[rows][~np.isnan(x[rows])]
                z = (x - known.mean()) / (known.std() or 1.0) if known.size else np.zeros(len(x))
                coded = np.column_stack([np.nan_to_num(np.clip(z, -8, 8)), np.isnan(x)])
            inputs.append(coded)
            group_of += [g] * coded.shape[1]
    Z = torch.tensor(np.concatenate(inputs, axis=1), dtype=torch.float32)
    at_ = torch.as_tensor
    return Split(
        *(X.iloc[rows], X.iloc[others], y[rows], y[others], groups),
        *(Z[at_(rows)], Z[at_(others)], np.array(group_of)),
    )


# ---------------------------------------------------------------------- rivals


class Masked:
    """Networks that see the groups of a mask, and the mask."""

    def __init__(self, split: Split, seed: int) -> None:
        torch.manual_seed(seed)
        self.split, self.n_groups = split, len(split.groups)
        self.n_classes = int(split.y.max()) + 1
        self.y = torch.as_tensor(split.y)
        self.group_of = torch.as_tensor(split.group_of)
        self.answer = self.network(self.n_classes)
        self.batches = np.random.default_rng(seed)

    def network(self, outputs: int) -> nn.Sequential:
        """Two hidden layers."""
        width = self.split.Z.shape[1] + self.n_groups
        return nn.Sequential(
            nn.Linear(width, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, outputs)
        )

    def seen(self, Z: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Inputs of rows with (n, G) masks."""
        return torch.cat([Z * mask[:, self.group_of], mask], dim=1)

    def epochs(self, n_steps: int, step: Callable[[torch.Tensor], torch.Tensor], *trained: nn.Module) -> None:
        """Minimise what ``step`` says of batches of rows."""
        optimizer = torch.optim.Adam([p for module in trained for p in module.parameters()], lr=1e-3)
        for _ in range(n_steps):
            rows = torch.as_tensor(self.batches.integers(len(self.y), size=128))
            loss = step(rows)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    def learn_to_answer(self, n_steps: int = 3_000) -> None:
        """With groups hidden at random: of each row a share that is drawn evenly."""

        def step(rows: torch.Tensor) -> torch.Tensor:
            mask = (torch.rand(len(rows), self.n_groups) < torch.rand(len(rows), 1)).float()
            return cross_entropy(self.answer(self.seen(self.split.Z[rows], mask)), self.y[rows])

        self.epochs(n_steps, step, self.answer)

    @torch.no_grad()
    def bought(self, budgets: tuple[int, ...]) -> list[NDArray[Any]]:
        """Answers for the test rows after so many purchases."""
        Z, answers = self.split.Z_test, []
        mask = torch.zeros(len(Z), self.n_groups)
        for n in range(1, max(budgets) + 1):
            worth = self.worth(Z, mask, max(budgets) - n + 1).masked_fill(mask > 0, -torch.inf)
            mask[torch.arange(len(Z)), worth.argmax(dim=1)] = 1.0
            if n in budgets:
                answers.append(self.answer(self.seen(Z, mask)).argmax(dim=1).numpy())
        return answers

    def worth(self, Z: torch.Tensor, mask: torch.Tensor, left: int) -> torch.Tensor:
        """(n, G) whose largest is bought next, with ``left`` purchases to come."""
        raise NotImplementedError


class GDFS(Masked):
    """A selector that is trained through relaxed choices."""

    def __init__(self, split: Split, seed: int, most: int) -> None:
        super().__init__(split, seed)
        self.learn_to_answer()
        self.selector = self.network(self.n_groups)
        for temperature in (2.0, 1.0, 0.5, 0.2):

            def step(rows: torch.Tensor, temperature: float = temperature) -> torch.Tensor:
                Z, mask, total = split.Z[rows], torch.zeros(len(rows), self.n_groups), torch.zeros(())
                for _ in range(most):
                    logits = self.selector(self.seen(Z, mask)) - 1e6 * mask
                    soft = gumbel_softmax(logits, tau=temperature)
                    relaxed = torch.maximum(mask, soft)
                    total = total + cross_entropy(self.answer(self.seen(Z, relaxed)), self.y[rows])
                    chosen = nn.functional.one_hot(soft.detach().argmax(dim=1), self.n_groups)
                    mask = torch.maximum(mask, chosen.float())
                return total / most

            self.epochs(400, step, self.selector, self.answer)

    def worth(self, Z: torch.Tensor, mask: torch.Tensor, left: int) -> torch.Tensor:
        """What the selector prefers."""
        return self.selector(self.seen(Z, mask))


class DIME(Masked):
    """A network of what groups are worth."""

    def __init__(self, split: Split, seed: int, most: int) -> None:
        super().__init__(split, seed)
        self.learn_to_answer()
        self.value = self.network(self.n_groups)
        for exploring in (0.5, 0.2, 0.1, 0.05):

            def step(rows: torch.Tensor, exploring: float = exploring) -> torch.Tensor:
                Z, y = split.Z[rows], self.y[rows]
                mask, each = torch.zeros(len(rows), self.n_groups), torch.arange(len(rows))
                total, before = torch.zeros(()), cross_entropy(
                    self.answer(self.seen(Z, mask)), y, reduction="none"
                ).detach()  # fmt: skip
                for _ in range(most):
                    worth = self.value(self.seen(Z, mask))
                    score = torch.where(torch.rand(len(rows), 1) < exploring, torch.rand_like(worth), worth)
                    chosen = score.detach().masked_fill(mask > 0, -torch.inf).argmax(dim=1)
                    mask = mask.clone()
                    mask[each, chosen] = 1.0
                    after = cross_entropy(self.answer(self.seen(Z, mask)), y, reduction="none")
                    fall = before - after.detach()
                    total = total + after.mean() + ((worth[each, chosen] - fall) ** 2).mean()
                    before = after.detach()
                return total / most

            self.epochs(400, step, self.value, self.answer)

    def worth(self, Z: torch.Tensor, mask: torch.Tensor, left: int) -> torch.Tensor:
        """The fall of the loss that is expected."""
        return self.value(self.seen(Z, mask))


class AACO(Masked):
    """The best of sampled sets for the nearest training rows."""

    n_sets, n_neighbors, at_once = 60, 5, 64

    def __init__(self, split: Split, seed: int, most: int) -> None:
        super().__init__(split, seed)
        self.learn_to_answer(6_000)

    def worth(self, Z: torch.Tensor, mask: torch.Tensor, left: int) -> torch.Tensor:
        """Groups of the best set first, by what each saves alone."""
        return torch.cat(
            [
                self._some(Z[i : i + self.at_once], mask[i : i + self.at_once], left)
                for i in range(0, len(Z), self.at_once)
            ]
        )

    def _some(self, Z: torch.Tensor, mask: torch.Tensor, left: int) -> torch.Tensor:
        owned = mask[:, self.group_of]
        reference = self.split.Z
        # squared distances on what rows own
        distance = (owned * Z**2).sum(1)[:, None] - 2 * (owned * Z) @ reference.T + owned @ (reference**2).T
        near = distance.topk(self.n_neighbors, dim=1, largest=False).indices
        if not mask.any():  # nothing is known: rows are all alike
            near = torch.as_tensor(
                self.batches.integers(len(reference), size=(1, self.n_neighbors * 40))
            ).expand(len(Z), -1)
        sizes = torch.as_tensor(self.batches.integers(1, left + 1, size=self.n_sets))
        order = torch.rand(self.n_sets, self.n_groups).argsort(dim=1).argsort(dim=1)
        sampled = torch.cat([(order < sizes[:, None]).float(), torch.eye(self.n_groups)])
        n, m, k = len(Z), len(sampled), near.shape[1]
        if not mask.any():
            n, near, mask = 1, near[:1], mask[:1]
        after = torch.maximum(mask[:, None], sampled[None])  # (n, m, G)
        rows = near[:, None].expand(n, m, k).reshape(-1)
        masks = after[:, :, None].expand(n, m, k, -1).reshape(-1, self.n_groups)
        lost = cross_entropy(
            self.answer(self.seen(self.split.Z[rows], masks)), self.y[rows], reduction="none"
        )
        lost = lost.reshape(n, m, k).mean(dim=2)
        best = sampled[lost.argmin(dim=1)]  # (n, G)
        single = -lost[:, self.n_sets :]
        new = (best > 0) & (mask == 0)
        worth = torch.where(new, single, single - 1e3)
        return worth if n == len(Z) else worth.expand(len(Z), -1)


# ---------------------------------------------------------------------- comparison


def ours(split: Split, budgets: tuple[int, ...], seed: int) -> list[NDArray[Any]]:
    """AcquisitionClassifier as it comes."""
    costs = at.FeatureCosts(dict.fromkeys(split.groups, 1.0), groups=split.groups)
    model = at.AcquisitionClassifier(costs=costs, random_state=seed).fit(split.train, split.y)
    assert model.cost(split.test, budget=budgets[0]).max() <= budgets[0]
    return [model.predict(split.test, budget=budget) for budget in budgets]


def one_split(name: str, folder: Path, seed: int) -> dict[str, Any]:
    """Accuracy of all at every budget, and where a rival is clearly ahead."""
    split, budgets = split_of(name, folder, seed), BUDGETS[name]
    right, seconds = {}, {}
    kinds: dict[str, Any] = {"GDFS": GDFS, "DIME": DIME, "AACO": AACO}
    for kind in ("ours", *kinds):
        began = time.process_time()
        told = (
            ours(split, budgets, seed)
            if kind == "ours"
            else kinds[kind](split, seed, max(budgets)).bought(budgets)
        )
        right[kind] = np.array([answer == split.y_test for answer in told])
        seconds[kind] = round(time.process_time() - began, 1)
    cells = {}
    for kind in kinds:
        difference = right["ours"].astype(float) - right[kind]
        error = difference.std(axis=1) / np.sqrt(difference.shape[1])
        behind = (difference.mean(axis=1) < -CLEARLY) & (difference.mean(axis=1) < -2 * error)
        cells[kind] = (~behind).tolist()
    return {
        "set": name,
        "seed": seed,
        "budgets": budgets,
        "rows": len(split.y),
        "accuracy": {kind: hits.mean(axis=1).round(4).tolist() for kind, hits in right.items()},
        "level or ahead": cells,
        "seconds": seconds,
    }


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("ANYTIME_DATA", "data")))
    parser.add_argument("--sets", default=",".join(BUDGETS))
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--development", action="store_true")
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    runs = []
    for seed in range(100 if given.development else 0, (100 if given.development else 0) + given.splits):
        for name in given.sets.split(","):
            kept = None if given.keep is None else given.keep / f"{name}-{seed}.json"
            if kept is not None and kept.exists():
                runs.append(json.loads(kept.read_text(encoding="utf-8")))
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                runs.append(one_split(name, given.data / "afabench", seed))
            print(json.dumps(runs[-1]), flush=True)
            if kept is not None:
                kept.parent.mkdir(parents=True, exist_ok=True)
                kept.write_text(json.dumps(runs[-1]), encoding="utf-8")
    cells = [level for run in runs for levels in run["level or ahead"].values() for level in levels]
    print(f"level or ahead in {sum(cells)} of {len(cells)}")
    if not given.development:
        write("acquisition_rivals", {"cells": len(cells), "level or ahead": sum(cells), "runs": runs})


if __name__ == "__main__":
    main()
