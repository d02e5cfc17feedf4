"""Hu, *Anytime Prediction and Learning* (2019): verdicts and figures."""

from __future__ import annotations

from common import measured
from report.charts import Chart, Panel, Series
from report.claims import MET, NOT, OTHER_TABLES, REPRODUCED, SHAPE, Claim, last_exits

SCHEMES = {"const": "CONST", "linear": "LINEAR", "adaloss": "AdaLoss", "auto": "auto (ours)"}


def over_alone(scheme: str) -> float:
    """Mean increase of the last error over that of a network of its own, in per cent."""
    found = last_exits().values()
    return sum(100 * (errors[scheme] / errors["opt:1"] - 1) for errors in found) / len(found)


def hu_linear() -> list[Claim]:
    """Hu 2019, chapter 3."""
    tables = measured("linear_tables")["tables"]
    orders = {name: table["whole_order_held"] for name, table in tables.items()}
    sizes = [orders[f"ranking, s = {size}"] for size in (5, 10, 15, 20)]
    naive = "FR, a refit per candidate / OMP, same general code"
    ratios = measured("sparse_figures")["figures"]["5.6"]["ratios_at_100_columns"]
    faster = measured("linear_peers")["speed-up over the second call"]
    mnist = measured("mnist_linear")
    gained = mnist["share_of_gain_with_20_percent_of_features"]
    return [
        Claim(
            "3.3",
            "proofs",
            "A greedy order is within 1 - exp(-γB/K) of the best at the cost of each of its prefixes",
            REPRODUCED,
            "every random instance, all subsets tried; wrong orders fail",
        ),
        Claim(
            "3.4.1",
            "proofs",
            "No single order is near the best at every budget with a cost factor below 4",
            REPRODUCED,
            "bounded with 4, unbounded with 3.9 and 3",
        ),
        Claim(
            "3.4.3",
            "proofs",
            "The doubling order is near the best at every budget, with a factor of 4",
            REPRODUCED,
            "510 instances, a fine grid of budgets",
        ),
        Claim(
            "table 3.1",
            "hu_linear",
            "Cost-aware FR ≥ OMP ≥ ablations ≥ Sparse on agricultural data",
            SHAPE,
            f"the whole order in {orders['agricultural']} of 20 seeds of a look-alike",
            tables["agricultural"]["held"]["CS-G-FR >= CS-G-OMP"] == 20,
        ),
        Claim(
            "table 3.2",
            "hu_linear",
            "The same on ranking data, with four sizes of groups",
            SHAPE,
            f"the whole order in {', '.join(map(str, sizes))} of 20 seeds of a look-alike",
            min(sizes) > 10,
        ),
        Claim(
            "3",
            "hu_linear",
            "OMP is 8 to 20 times faster than forward regression",
            REPRODUCED,
            f"{ratios[naive]:.0f} times in naive code, {ratios['FR / OMP']:.1f} times with the block factorisation",
            8 <= ratios[naive] <= 20,
        ),
        Claim(
            "3",
            "hu_linear",
            "Greedy methods are much faster than the path of the group lasso",
            SHAPE,
            f"{faster['OMP over skglm']:.0f} times skglm, {faster['OMP over celer']:.0f} times celer, "
            f"but {faster['OMP over adelie']:.2f} times adelie",
            faster["OMP over skglm"] > 5 and faster["OMP over adelie"] < 1,
        ),
        Claim(
            "3.7",
            "hu_linear",
            "A fifth of the features gives nearly all of the accuracy on MNIST",
            REPRODUCED,
            f"{gained:.1%} of the gain",
            gained >= 0.95,
        ),
        Claim(
            "3.7",
            "hu_linear",
            "101 mistakes on MNIST's training images with all features",
            NOT,
            f"{mnist['fewest_mistakes']} mistakes",
            mnist["fewest_mistakes"] > 110,
        ),
    ]


def hu_networks_streams_growth() -> list[Claim]:
    """Hu 2019, chapters 4 to 6."""
    networks = last_exits()
    below = sum(errors["adaloss"] < errors["const"] for errors in networks.values())
    ensembles = {name: run["against_opt"] for name, run in measured("network_ensembles")["ensembles"].items()}
    streams = measured("streaming_tables")
    sets = {name: one for name, one in streams["sets"].items() if name != "mnist, convolutions"}
    level = sum(one["SGB / GB"] <= 1.01 for one in sets.values())
    ahead = sum(one["SGB / Base, fair"] < 0.9 for one in sets.values())
    regret = streams["regret"]["pol"]["squared, depth 5"]["by learners"]
    kinks = streams["counter-example"]
    growth = measured("growth_cifar")
    by_seven = growth["seven trainings side by side, batches of 256"]
    alone = by_seven["seed alone"]["held_out_error"]
    best = {
        way: min(
            one["networks"][-1]["held_out_error"]
            for one in by_seven["searches"].values()
            if one["criterion"] == way
        )
        for way in ("weight", "random")
    }
    areas = by_seven["areas"]
    choices = measured("growth_choices")
    tables = [one["dominates"] for one in measured("growth_tables")["sets"]]
    better = choices["weight is more accurate and no dearer than so many of the drawn"]
    last = growth["last network"]
    return [
        Claim(
            "table 4.1",
            "hu_networks",
            "AdaLoss ends below constant weights",
            REPRODUCED,
            f"on {below} of {len(networks)} networks",
            below >= 5,
        ),
        Claim(
            "table 4.1",
            "hu_networks",
            "AdaLoss ends 2.7 % above a network trained for its last exit alone",
            NOT,
            f'{over_alone("adaloss"):.0f} % above; `loss_weights="auto"` ends {-over_alone("auto"):.0f} % below',
            over_alone("adaloss") > 10,
        ),
        Claim(
            "tables 4.3 to 4.5",
            "hu_networks",
            "γ = 0 is the best constant of AdaLoss at the last exit",
            NOT,
            "the worst of five settings, in 40 epochs",
        ),
        Claim(
            "4",
            "hu_networks",
            "An ensemble of ever deeper networks errs at most 1.1 times as often as OPT at 1/2.44 of its cost",
            SHAPE,
            f'{ensembles["auto"]["worst_ratio"]:.2f} at worst with "auto", {ensembles["adaloss"]["worst_ratio"]:.2f} '
            "with AdaLoss",
            ensembles["auto"]["holds"] and not ensembles["adaloss"]["holds"],
        ),
        Claim(
            "figure 5.1",
            "hu_streams",
            "Regret falls with the number of learners and of rows; deeper trees have less",
            SHAPE,
            f"{regret['0']:.3f} → {regret['20']:.3f} on pol with 20 trees of depth 5",
            regret["20"] < regret["0"] / 5,
        ),
        Claim(
            "table 5.1",
            "hu_streams",
            "Streaming boosting ends level with boosting one learner after another, or better",
            SHAPE,
            f"on {level} of {len(sets)} sets, two of them stand-ins",
            level == len(sets),
        ),
        Claim(
            "table 5.1",
            "hu_streams",
            "It ends far below a single learner",
            SHAPE,
            f"far below a fairly trained one on {ahead} of {len(sets)} sets",
            0 < ahead < len(sets),
        ),
        Claim(
            "5.8.4",
            "hu_streams",
            "On a loss with kinks plain streaming boosting stalls; passing residuals on does not",
            REPRODUCED,
            f"loss {kinks['smooth (Algorithm 6)'][-1]} against {kinks['residual (Algorithm 7)'][-1]} after 10,000 learners",
            kinks["smooth (Algorithm 6)"][-1] > 100 * kinks["residual (Algorithm 7)"][-1],
        ),
        Claim(
            "6",
            "hu_growth",
            "Networks that grow by weight beat random growth on CIFAR-10",
            NOT,
            f"larger hull area in {areas['growth by weight ahead, random']} of 3 seeds up to 43 M mult-adds, in "
            f"{areas['growth by weight ahead, all']} of 3 up to 69 M",
            areas["growth by weight ahead, random"] < 3 and areas["growth by weight ahead, all"] < 3,
        ),
        Claim(
            "6",
            "hu_growth",
            "The best network that grows is 1.5 points better on CIFAR-10 than its seed trained for as long",
            NOT,
            f"{best['random']:.1%} wrong by random growth and {best['weight']:.1%} by weight after 13.7 minutes, the seed alone "
            f"{alone:.1%} after 19",
            min(best.values()) > alone - 0.015,
        ),
        Claim(
            "6",
            "hu_growth",
            "Shortcuts chosen by weight are better than drawn ones",
            SHAPE,
            f"more accurate and no dearer than {better} of {choices['drawn']} drawn ones on small images",
            better > choices["drawn"] / 2,
        ),
        Claim(
            "6",
            "hu_growth",
            "A network found by growth, made deeper and wider, has at most 5 % error on CIFAR-10",
            MET,
            f"{last['test_error']:.1%} with {last['parameters'] / 1e6:.1f} M parameters, "
            f"{last['training_seconds'] / 60:.0f} minutes",
            last["test_error"] <= 0.05,
        ),
        Claim(
            "growth",
            "hu_growth",
            "The hull dominates an MLP tuned for the same 120 processor seconds on four of six tables",
            MET,
            f"on {sum(tables)} of {len(tables)}",
            sum(tables) >= 4,
        ),
    ]


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


CLAIMS = [*hu_linear(), *hu_networks_streams_growth()]
FIGURES = {
    chart.__name__: chart
    for chart in (
        hu_orders,
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
