"""Hu, *Anytime Prediction and Learning* (2019): figures."""

from __future__ import annotations

from common import measured
from report.charts import Chart, Panel, Series
from report.claims import OTHER_TABLES

SCHEMES = {"const": "CONST", "linear": "LINEAR", "adaloss": "AdaLoss", "auto": "auto (ours)"}


def hu_orders() -> Chart:
    """Tables 3.1 and 3.2: timeliness of orders of the same groups."""
    tables = measured("linear_tables")["tables"]
    methods = ("CS-G-FR", "CS-G-OMP", "No-Whiten", "Single", "G-OMP", "Sparse")
    panels = [
        Panel(
            name,
            [
                Series(
                    "look-alike data", [tables[name]["mean"][method] for method in methods], kind="points"
                ),
                Series("printed", [tables[name]["thesis"][method] for method in methods], kind="points"),
            ],
            x_label="timeliness",
            names=methods,
        )
        for name in ("agricultural", "ranking, s = 5", "ranking, s = 20")
    ]
    return Chart(
        "Timeliness of six orders on three tables, printed and here: cost-aware greedy orders lead.", panels
    )


def hu_curves() -> Chart:
    """Figures 3.3 to 3.5: explained variance against cost, to where it levels off."""
    sets = {name: one["first draw"] for name, one in measured("linear_figures")["sets"].items()}
    shown = (
        ("ranking", "3.3 ranking: prices", ("CS-G-OMP", "G-OMP")),
        ("agricultural", "3.4 agricultural: whitening", ("CS-G-OMP", "No-Whiten")),
        ("agricultural", "3.5 agricultural", ("CS-G-OMP", "CS-G-FR", "Single", "Sparse")),
        ("ranking", "3.5 ranking", ("CS-G-OMP", "CS-G-FR", "Single", "Sparse")),
    )
    panels = [
        Panel(
            title,
            [
                Series(
                    method,
                    [100 * share * sets[name]["cut"] for share in sets[name]["shares"]],
                    sets[name]["curves to the cut"][method],
                )
                for method in methods
            ],
            "% of the price",
            "explained variance",
        )
        for name, title, methods in shown
    ]
    return Chart(
        "Explained variance on new rows against cost, up to where CS-G-OMP levels off: selection that knows prices "
        "and whitened groups are ahead, forward regression by little.",
        panels,
        columns=2,
        height=2.6,
    )


def hu_mnist() -> Chart:
    """Section 3.7: training mistakes as features are added."""
    run = measured("mnist_linear")
    features = [int(count) for count in run["mistakes"] if int(count) > 0]
    here = Series("here", features, [run["mistakes"][str(count)] for count in features])
    printed = Series("printed", [2200, 6000, 11000], [150, 105, 101], kind="points")
    return Chart(
        "Mistakes on MNIST's training images fall steeply with the first features and stay above the printed ones.",
        [Panel("MNIST", [here, printed], "features", "mistakes", y_log=True)],
        columns=1,
    )


def hu_networks() -> Chart:
    """Figure 4.3 in shape: error of every exit against its cost."""
    runs = measured("network_schemes")
    panels = []
    for n, c in ((9, 16), (9, 32), (17, 32)):
        same = {"n": n, "c": c, "seed": 0, "epochs": 40}
        by_scheme = {
            r["job"]["scheme"]: r
            for r in runs
            if not OTHER_TABLES & set(r["job"]) and same.items() <= r["job"].items()
        }
        lines = [
            Series(label, [m / 1e6 for m in by_scheme[scheme]["mult_adds"]], by_scheme[scheme]["errors"])
            for scheme, label in SCHEMES.items()
        ]
        alone = [by_scheme[f"opt:{share}"] for share in ("0.25", "0.5", "0.75", "1")]
        lines.append(
            Series(
                "OPT, a network for each",
                [r["mult_adds"][-1] / 1e6 for r in alone],
                [r["errors"][-1] for r in alone],
                kind="points",
            )
        )
        panels.append(
            Panel(f"n = {n}, c = {c}", lines, "million mult-adds", "error, %", x_log=True, y_log=True)
        )
    return Chart(
        "Error of every exit against its cost for three networks: auto ends below a network trained for its last "
        "exit alone, the other schemes end above it.",
        panels,
        height=2.7,
    )


def hu_ensembles() -> Chart:
    """Figure 4.6 in shape: an ensemble of ever deeper networks beside the bar it has to keep."""
    run = measured("network_ensembles")
    opt = sorted((r["mult_adds"], r["error"]) for r in run["opt"].values())
    lines = [
        Series(
            label, [cost / 1e6 for cost in run["ensembles"][name]["costs"]], run["ensembles"][name]["errors"]
        )
        for name, label in (("auto", "auto (ours)"), ("adaloss", "AdaLoss"))
    ]
    bar = "bar: 1.1 times OPT's error, at 2.44 times its cost"
    lines.append(Series(bar, [2.44 * m / 1e6 for m, _ in opt], [1.1 * e for _, e in opt], "dashed"))
    return Chart(
        "Error against cost of two ensembles: that of auto networks stays below the bar, that of AdaLoss does not.",
        [
            Panel(
                "Ensembles of networks of growing depth",
                lines,
                "million mult-adds",
                "error, %",
                x_log=True,
                y_log=True,
            )
        ],
        columns=1,
        height=2.8,
    )


def hu_streams() -> Chart:
    """Figure 5.2 in shape: test loss at equal cost."""
    sets = measured("streaming_tables")["sets"]
    panels = [
        Panel(
            name,
            [Series(method, one["points"], one[method]["curve"]) for method in ("SGB", "GB", "Base, fair")],
            "units of cost",
            "test loss",
            x_log=True,
            y_log=True,
        )
        for name, one in sets.items()
    ]
    return Chart(
        "Test loss against cost on six tasks: streaming boosting (SGB) ends level with boosting one learner after "
        "another (GB) or below it, but behind a fairly trained single learner on convolutions.",
        panels,
    )


def hu_regret() -> Chart:
    """Figure 5.1 in shape: average regret by the number of learners and by rows."""
    regret = measured("streaming_tables")["regret"]
    panels = []
    for by, label in (("by learners", "learners"), ("by rows", "rows")):
        for name, kind in (("pol", "squared"), ("a9a", "logistic")):
            lines = []
            for depth in (1, 3, 5):
                curve = regret[name][f"{kind}, depth {depth}"][by]
                steps = [int(step) for step in curve if by == "by learners" or int(step) >= 128]
                lines.append(Series(f"depth {depth}", steps, [curve[str(step)] for step in steps]))
            panels.append(Panel(name, lines, label, "average regret", x_log=by == "by rows", y_log=True))
    return Chart(
        "Average regret falls with the number of learners and of rows, faster with deeper trees.",
        panels,
        columns=2,
    )


def hu_progressive() -> Chart:
    """Progressive validation beside river's ensembles."""
    ratios = measured("progressive_validation")["verdict"]["StreamingBoost"]["ratios"]
    names = sorted(ratios, key=lambda name: ratios[name])
    return Chart(
        "Error of StreamingBoost over that of the best of river's ensembles by stream: below 1 on most.",
        [
            Panel(
                "Error over the best of river's ensembles (below 1: ahead)",
                [Series("StreamingBoost", [ratios[name] for name in names], kind="points")],
                names=names,
                mark=1,
            )
        ],
        columns=1,
        height=4.6,
    )


def hu_growth() -> Chart:
    """Which model grows next, on NAS-Bench-201."""
    run = measured("growth_nasbench")
    shown = {
        "hull, band 2.5 %": "hull, band 2.5 % (default)",
        "hull": "hull, no band",
        "best model": "the best model",
        "evolution, error": "regularised evolution",
        "random": "random search",
    }
    panels = []
    for data, title in (("cifar10", "CIFAR-10"), ("cifar100", "CIFAR-100")):
        lines = []
        for rule, label in shown.items():
            means = [run["table"][data][cost][rule]["mean"] for cost in run["table"][data]]
            lines.append(
                Series(
                    label, run["evaluations"], [100 * sum(at) / len(at) for at in zip(*means, strict=True)]
                )
            )
        panels.append(Panel(title, lines, "trained cells", "% of the hull's area", x_log=True))
    return Chart(
        "Share of the hull's area against trained cells, means over four costs: the hull with a band leads from 100 "
        "cells on.",
        panels,
        columns=2,
        height=2.8,
    )


def hu_growth_cifar() -> Chart:
    """Networks of six searches on CIFAR-10, and children of one seed by choice of shortcuts."""
    searches = measured("growth_cifar")["seven trainings side by side, batches of 256"]["searches"]
    lines = [
        Series(
            f"by {one['criterion']}, seed {one['random_state']}"
            if one["criterion"] == "weight"
            else f"random, seed {one['random_state']}",
            [network["mult_adds"] / 1e6 for network in one["networks"]],
            [100 * network["held_out_error"] for network in one["networks"]],
            kind="line" if one["criterion"] == "weight" else "dashed",
        )
        for one in searches.values()
    ]
    children = [child for run in measured("growth_choices")["runs"].values() for child in run]
    points = [
        Series(
            label,
            [child["cost"] / 1e6 for child in children if child["name"] in names],
            [100 * child["error"] for child in children if child["name"] in names],
            kind="points",
        )
        for label, names in (
            ("by weight", ("weight",)),
            ("by gradient", ("gradient",)),
            ("drawn", ("random", "random, trained ops")),
        )
    ]
    return Chart(
        "Error against million mult-adds. Searches on CIFAR-10: two of three by weight are below random growth at equal cost. "
        "Children on small images: those chosen by weight are cheaper than drawn ones and no less accurate.",
        [
            Panel("six searches, 13.7 minutes", lines, "million mult-adds", "% wrong"),
            Panel("one growth, 16 x 16", points, "million mult-adds", "% wrong"),
        ],
        columns=2,
        height=2.8,
    )


def stream_speed() -> Chart:
    """Rows a second on a stream."""
    speed = measured("streaming_speed")["speed"]
    return Chart(
        "Rows a second through 100 Hoeffding trees, one by one and in rounds, far above river's AdaBoost with 10 trees "
        "and CapyMOA.",
        [
            Panel(
                "rows a second, test then train",
                [Series("rows a second", [one["rows_per_second"] for one in speed.values()], kind="points")],
                names=list(speed),
                x_log=True,
            )
        ],
        columns=1,
        height=2.5,
    )


FIGURES = {
    chart.__name__: chart
    for chart in (
        hu_orders,
        hu_curves,
        hu_mnist,
        hu_networks,
        hu_ensembles,
        hu_streams,
        hu_regret,
        hu_progressive,
        hu_growth,
        hu_growth_cifar,
        stream_speed,
    )
}
