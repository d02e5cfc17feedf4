"""Nan, *Learning to predict under a budget* (2018): verdicts and figures."""

from __future__ import annotations

from typing import Any

from common import measured
from report.charts import Chart, Panel, Series
from report.claims import NOT, REPRODUCED, SHAPE, Claim, leading


def nan_margins_and_forests() -> list[Claim]:
    """Nan 2018, chapters 2 to 4."""
    parts = measured("margin_acquisition")["parts"]
    twenty = parts["table_2_1_standardised_without_placeholders"]["125"]["actual"][4]
    margins = [
        parts["miniboone"]["curves"][kind]["mean"][19] for kind in ("margin", "voc_own_labels", "random")
    ]
    forests, pruning = measured("budget_forests"), measured("forest_pruning")
    mini, forest = (forests["sets"][name]["table"]["BudgetRF"]["40"] for name in ("miniboone", "covtype"))
    cheaper = leading(forests["verdict"]["BudgetRF: cheaper than RF at an error within 0.005"])
    any_impurity = leading(
        forests["verdict"]["BudgetRF, any impurity: cheaper than RF at an error within 0.005"]
    )
    miser = leading(forests["verdict"]["BudgetRF: less error than Greedy Miser at equal mean cost"])
    usage = pruning["sets"]["miniboone"]["usage"]
    (cost, error), (pruned_cost, pruned_error) = (
        usage[f"{when}, mean cost and error"] for when in ("before", "after")
    )
    saved = leading(pruning["verdict"]["saving: 30% of the cost within 0.005 of the error"])
    ours = leading(pruning["verdict"]["saving, prune_forest: 30% of the cost within 0.005 of the error"])
    complexity = leading(pruning["verdict"]["BudgetPrune: less error than CCP at equal mean cost"])
    return [
        Claim(
            "table 2.1",
            "nan_margins",
            "Accuracy of 0.879 to 0.883 with 20 of 50 features on MiniBooNE",
            REPRODUCED,
            f"{twenty:.3f} without the rows of placeholders",
            abs(twenty - 0.883) < 0.01,
        ),
        Claim(
            "figure 2.2",
            "nan_margins",
            "Margins beat the value of a classifier and random orders from a few features on",
            SHAPE,
            f"MiniBooNE with 20 features: {margins[0]:.3f}, {margins[1]:.3f} and {margins[2]:.3f}",
            margins[0] > margins[1] > margins[2],
        ),
        Claim(
            "3.4",
            "proofs",
            "The dearest path of a greedy tree costs at most 1 + ln F times the least possible",
            REPRODUCED,
            "7,661 instances; for nearly greedy splits the printed constant is refuted",
        ),
        Claim(
            "table 3.1",
            "nan_forests",
            "BudgetRF is cheaper than a random forest of as many trees, at nearly its error: MiniBooNE",
            REPRODUCED,
            f"{mini['percent']['mean']:.0f} % of the columns at {mini['error']['mean']:.1%} error (printed: 87 % at 6.9 %)",
            mini["error"]["mean"] < 0.075,
        ),
        Claim(
            "table 3.1",
            "nan_forests",
            "The same on Forest",
            NOT,
            f"error {forest['error']['mean']:.3f} at the printed cost (printed: 0.116)",
            forest["error"]["mean"] > 0.13,
        ),
        Claim(
            "figure 3.3",
            "nan_forests",
            "Fewer features than a random forest at equal error",
            NOT,
            f"on {cheaper} of 14 sets; with any impurity on {any_impurity}",
            cheaper < 7,
        ),
        Claim(
            "figure 3.3",
            "nan_forests",
            "Less error than Greedy Miser at equal cost",
            NOT,
            f"on {miser} of 14 sets",
            miser < 7,
        ),
        Claim(
            "4.3",
            "proofs",
            "The pruning program is totally unimodular",
            REPRODUCED,
            "all row subsets of the worked example and of others; equal to trying all prunings",
        ),
        Claim(
            "table 4.1",
            "nan_forests",
            "Pruning MiniBooNE's forest: cost 42.0 → 24.3 at error 6.6 → 6.7 %",
            REPRODUCED,
            f"{cost:.1f} → {pruned_cost:.1f} at {100 * error:.1f} → {100 * pruned_error:.1f} %",
            abs(pruned_cost - 24.3) < 2 and pruned_error - error < 0.002,
        ),
        Claim(
            "figure 4.3",
            "nan_forests",
            "A third of the cost is saved at nearly the same error",
            SHAPE,
            f"30 % within half a point on {saved} of 14 sets, with `prune_forest` on {ours}",
            0 < saved < 10,
        ),
        Claim(
            "figure 4.3",
            "nan_forests",
            "Less error than cost-complexity pruning at equal cost",
            REPRODUCED,
            f"on {complexity} of 14 sets",
            complexity > 9,
        ),
    ]


def nan_adaptive_and_online() -> list[Claim]:
    """Nan 2018, chapters 5 to 7."""
    adaptive, online = measured("adaptive"), measured("online_and_sensing")
    synthetic = adaptive["Synthetic-2"]
    first = adaptive["ADAPT-GBRT on draw 1"]["letters"]
    adapt = 1 - first["ADAPT-GBRT"]["cost"] / first["costly"]["cost"]
    ladder = adaptive["sets"]["letters"]["ladder: saved of the costly model"]["mean"]
    regret = max(one["largest"] / one["bound"] for one in online["coin_tosses"])
    relu, sigmoid = (online["recovery"][panel]["loss"] for panel in ("g", "a"))
    direct, vote = online["sensors"]["direct 0.4"], online["sensors"]["vote of all, 1-NN"]
    return [
        Claim(
            "5",
            "nan_adaptive",
            "Synthetic-2: cost 1.5 where the L1 baseline pays 1.75",
            REPRODUCED,
            f"{synthetic['ADAPT-LIN']:.3f} and {synthetic['L1, the first column']:.3f}; "
            "the printed values need clusters of equal size",
            abs(synthetic["ADAPT-LIN"] - 110 / 70) < 1e-3,
        ),
        Claim(
            "figure 5-5",
            "nan_adaptive",
            "ADAPT-GBRT saves 31 % of the costly model's cost on Letters, within a point of its accuracy",
            REPRODUCED,
            f"{adapt:.0%} on draw 1; `LadderClassifier` saves {ladder:.0%}",
            adapt > 0.31,
        ),
        Claim(
            "6",
            "nan_online_and_sensing",
            "Regret of EXP3.G stays below its bound",
            REPRODUCED,
            f"{regret:.2f} of the bound at most, in 18 worlds of 100 seeds",
            regret < 1,
        ),
        Claim(
            "figure 7.2",
            "nan_online_and_sensing",
            "The truth is recovered from noise, faster with ReLU gates",
            REPRODUCED,
            f"loss {relu:.0e} with ReLU, {sigmoid:.0e} with sigmoid gates, from noise 1 after 100 turns",
            relu < sigmoid < 0.01,
        ),
        Claim(
            "7",
            "nan_online_and_sensing",
            "Sensors that decide for themselves beat a vote of all",
            SHAPE,
            f"made-up sensors: accuracy {direct['accuracy']:.2f} at a participation of {direct['participation']:.2f}, "
            f"the vote {vote['accuracy']:.2f}",
            direct["accuracy"] > vote["accuracy"],
        ),
    ]


def nan_margins() -> Chart:
    """Chapter 2: accuracy against features bought."""
    parts = measured("margin_acquisition")["parts"]
    labels = {"margin": "margins", "voc_own_labels": "value of a classifier", "random": "random order"}
    panels = []
    for name in ("letter", "landsat", "miniboone"):
        lines = [
            Series(label, list(range(1, len(curve["mean"]) + 1)), curve["mean"])
            for key, label in labels.items()
            if (curve := parts[name]["curves"].get(key))
        ]
        panels.append(Panel(name, lines, "features", "accuracy"))
    return Chart("Accuracy against the number of features: margins lead from a few features on.", panels)


def nan_table_31() -> Chart:
    """Table 3.1: cost and error of forests of 1 to 40 trees."""
    run = measured("budget_forests")
    panels = []
    for name, title in (("miniboone", "MiniBooNE (look-alike)"), ("covtype", "Forest (covertype)")):
        lines = []
        for method in ("BudgetRF", "RF, Gini"):
            table = run["sets"][name]["table"][method]
            lines.append(
                Series(
                    method,
                    [table[n]["percent"]["mean"] for n in ("1", "10", "20", "40")],
                    [100 * table[n]["error"]["mean"] for n in ("1", "10", "20", "40")],
                )
            )
            printed = run["printed"][name][method]
            lines.append(
                Series(f"printed, {method}", [c for c, _ in printed], [100 * e for _, e in printed], "dashed")
            )
        panels.append(Panel(title, lines, "% of the columns", "test error, %"))
    return Chart(
        "Error against cost of forests of 1, 10, 20 and 40 trees, printed and here: agreement but for the error of "
        "BudgetRF on Forest.",
        panels,
        columns=2,
        height=2.7,
    )


def nan_pruning() -> Chart:
    """Chapter 4: error against cost of prunings, and what they save."""
    sets = measured("forest_pruning")["sets"]
    labels = ("prune_forest", "BudgetPrune", "CCP", "Greedy Miser", "cegb")
    panels = []
    for name in ("miniboone", "covtype", "spambase"):
        one = sets[name]
        lines = [
            Series(
                label,
                [100 * b / one["price of everything"] for b in one["budgets"]],
                one["error at budgets"][label],
            )
            for label in labels
        ]
        panels.append(Panel(name, lines, "% of the price", "test error", x_log=True, y_log=True))
    return Chart(
        "Test error against mean cost on three sets: prunings of a forest beside boosting with cost penalties.",
        panels,
        height=2.7,
    )


def nan_savings() -> Chart:
    """What pruning saves within a tenth of a point of validation error."""
    sets = measured("forest_pruning")["sets"]
    names = sorted(sets, key=lambda name: -sets[name]["saving, prune_forest"]["saved"]["mean"])
    series = [
        Series(label, [100 * sets[name][key]["saved"]["mean"] for name in names], kind="points")
        for key, label in (("saving, prune_forest", "prune_forest"), ("saving", "BudgetPrune, as printed"))
    ]
    return Chart(
        "Share of the cost that pruning saves by set: more with prune_forest than with BudgetPrune on most.",
        [Panel("% of the cost saved", series, names=names, mark=30)],
        columns=1,
        height=3.2,
    )


def nan_adaptive() -> Chart:
    """Chapter 5: cost at the costly model's accuracy."""
    run = measured("adaptive")
    names = list(run["sets"])
    labels = {
        "ladder": "ladder (ours)",
        "cascade": "plain cascade",
        "pruned forest": "pruned forest",
        "Greedy Miser": "Greedy Miser",
        "cegb": "LightGBM, cegb",
    }
    series = [
        Series(
            label,
            [
                100 * run["sets"][n][key]["cost"]["mean"] / run["sets"][n]["costly"]["cost"]["mean"]
                for n in names
            ],
            kind="points",
        )
        for key, label in labels.items()
    ]
    printed: list[Any] = [run["printed, of the costly model"].get(name) for name in names]
    series.append(
        Series("printed, ADAPT-GBRT", [None if p is None else 100 * (1 - p) for p in printed], kind="points")
    )
    return Chart(
        "Cost at an accuracy within a point of the costly model's, in % of its cost, by set: the ladder is "
        "cheapest.",
        [Panel("cost, % of the costly model's", series, names=names)],
        columns=1,
        height=2.6,
    )


def nan_online() -> Chart:
    """Chapters 6 and 7: regret beside its bounds, and sensors."""
    run = measured("online_and_sensing")
    hard = run["hard_experts"]
    names = [f"{one['experts']} experts, {one['rounds']:,} rounds" for one in hard]
    regret = [
        Series(label, [one[key] for one in hard], kind="points")
        for key, label in (("lower", "lower bound"), ("mean", "mean regret"), ("upper", "upper bound"))
    ]
    sensors = [
        Series(
            kind,
            [v["participation"] for k, v in run["sensors"].items() if k.startswith(kind)],
            [v["accuracy"] for k, v in run["sensors"].items() if k.startswith(kind)],
            "points",
        )
        for kind in ("direct", "relaxed", "relu", "best sensor alone", "vote of all")
    ]
    return Chart(
        "Regret of EXP3.G lies between the lower and the upper bound; accuracy of sensors against participation.",
        [
            Panel("regret", regret, names=names, x_log=True),
            Panel("sensors", sensors, "participation", "accuracy"),
        ],
        columns=2,
        height=3.0,
    )


CLAIMS = [*nan_margins_and_forests(), *nan_adaptive_and_online()]
FIGURES = {
    chart.__name__: chart
    for chart in (nan_margins, nan_table_31, nan_pruning, nan_savings, nan_adaptive, nan_online)
}
