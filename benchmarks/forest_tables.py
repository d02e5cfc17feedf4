"""The tables of docs/results/nan_forests.md, from the figures that budget_forests.py and forest_pruning.py have left.

python benchmarks/forest_tables.py
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from common import RESULTS

NAMES = {"miniboone": "MiniBooNE", "covtype": "Forest"}
SIZES = ("1", "10", "20", "40")
METHODS = ("RF, Gini", "RF, entropy", "BudgetRF")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """One table in Markdown."""
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")
    print()


def figures(name: str) -> dict[str, Any]:
    """What an experiment has left."""
    return dict(json.loads((RESULTS / f"{name}.json").read_text()))


def mean(found: dict[str, Any], key: str) -> float:
    """Of a figure over repeats."""
    return float(found[key]["mean"])


def ahead(found: dict[str, Any] | None) -> str:
    """Points of error less, with the deviation over repeats, and share of budgets won."""
    if found is None:
        return "-"
    less = found["error_less_by"]
    lacking = "" if found["common"] == 1 else "†"
    return f"{100 * less['mean']:+.1f} ± {100 * less['sd']:.1f} ({100 * found['share_won']:.0f}){lacking}"


def of_trees(found: dict[str, Any]) -> list[str]:
    """Per cent of the columns and error at each number of trees."""
    return [f"{mean(found[n], 'percent'):.1f} ({mean(found[n], 'error'):.3f})" for n in SIZES]


def table_3_1(all_figures: dict[str, Any]) -> None:
    """Printed and here."""
    rows = []
    for name, label in NAMES.items():
        for method in METHODS:
            printed = [f"{cost:.1f} ({error:.3f})" for cost, error in all_figures["printed"][name][method]]
            here = all_figures["sets"][name]["table"][method]
            rows += [
                [f"{label} {method}, printed", "", *printed],
                ["here", f"±{here['40']['error']['sd']:.4f}", *of_trees(here)],
            ]
    table(["", "", *SIZES], rows)


def equal_errors(all_figures: dict[str, Any]) -> None:
    """All sets with 40 trees, and the cheapest forest that is as good as the better random one."""

    def told(found: dict[str, Any], total: float, which: str = "") -> str:
        return f"{100 * mean(found, which + 'cost') / total:.0f} % ({mean(found, which + 'error'):.3f})"

    rows = []
    for name, found in all_figures["sets"].items():
        total, equal = found["price of everything"], found["equal error"]
        printed, any_impurity = equal["BudgetRF"], equal["BudgetRF, any impurity"]
        holds = [
            mean(e, "cost") < mean(e, "rf_cost") and mean(e, "error") <= mean(e, "rf_error") + 0.005
            for e in (printed, any_impurity)
        ]
        at_40 = [of_trees(found["table"][m])[-1] for m in ("RF, Gini", "BudgetRF")]
        rows.append(
            [
                name, str(found["repeats"]), *at_40, told(printed, total, "rf_"), told(printed, total),
                "yes" if holds[0] else "**no**", told(any_impurity, total), "yes" if holds[1] else "**no**",
            ]
        )  # fmt: skip
    head = [
        "set",
        "repeats",
        "RF, Gini",
        "BudgetRF, alpha 0",
        "better RF",
        "BudgetRF",
        "holds",
        "any impurity",
        "holds",
    ]
    table(head, rows)


def rivals(all_figures: dict[str, Any], asked: Sequence[tuple[str, str]]) -> None:
    """Points of error less than rivals at equal mean cost."""
    rows = [
        [name, *(ahead(found["against"][ours].get(theirs)) for ours, theirs in asked)]
        for name, found in all_figures["sets"].items()
    ]
    table(["set", *(f"{ours}: {theirs}" for ours, theirs in asked)], rows)


def savings(all_figures: dict[str, Any], kinds: Sequence[tuple[str, str]]) -> None:
    """What pruning saves within a quarter of a point on validation rows; cost and error of test rows."""
    rows = []
    for name, found in all_figures["sets"].items():
        row = [name, str(found["repeats"])]
        for key, _ in kinds:
            s = {k: v["mean"] for k, v in found[key].items()}
            row += [
                f"{s['whole_cost']:.1f} ({s['whole_error']:.4f})",
                f"{s['cost']:.1f} ({s['error']:.4f})",
                f"{100 * s['saved']:.0f} %",
            ]
        rows.append(row)
    table(["set", "repeats", *(h for _, label in kinds for h in ("whole", label, "saved"))], rows)


def verdict(all_figures: dict[str, Any]) -> None:
    """On how many sets the claims hold."""
    for claim, holds in all_figures["verdict"].items():
        print(f"- {claim}: {holds}")
    print()


def main() -> None:
    """Print everything."""
    grown, pruned = figures("budget_forests"), figures("forest_pruning")
    table_3_1(grown)
    equal_errors(grown)
    peers = ("Greedy Miser", "ASTC", "CSTC", "cost-weighted lasso", "RF")
    rivals(grown, [("BudgetRF", p) for p in peers] + [("BudgetRF, any impurity", p) for p in peers[:2]])
    verdict(grown)
    savings(
        pruned,
        [("saving", "BudgetPrune"), ("saving, prune_forest", "prune_forest"),
         ("saving, any base against the ordinary forest", "any base, as good as the ordinary forest")],
    )  # fmt: skip
    peers = ("CCP", "GreedyPrune", "early stopping", "Greedy Miser", "cegb")
    others = [(ours, p) for ours in ("prune_forest", "any base") for p in peers[-2:]]
    rivals(pruned, [("BudgetPrune", p) for p in peers] + others)
    verdict(pruned)


if __name__ == "__main__":
    main()
