"""Grubb, *Anytime Prediction* (2014), and Grubb and Bagnell, *SpeedBoost* (2012): figures."""

from __future__ import annotations

from common import measured
from report.charts import Chart, Panel, Series


def grubb_descent() -> Chart:
    """Chapter 2: training loss of three projections."""
    panels = []
    for name, one in measured("descent_figures")["sets"].items():
        lines = [
            Series(method, one[method]["stumps"], one[method]["training_loss"])
            for method in ("basic", "repeated", "residual")
        ]
        panels.append(Panel(name, lines, "stumps", "training loss", x_log=True, y_log=True))
    return Chart(
        "Training loss against stumps on five sets: basic projection fails on letter, residual projection is lowest.",
        panels,
    )


def grubb_selection() -> Chart:
    """Figures 5.3 and 5.6: objective against cost, and time."""
    figures = measured("sparse_figures")["figures"]
    shares = (10, 25, 50, 75, 100)
    panels = []
    for name in ("housing", "wine-quality"):
        objective = figures["5.3"][f"{name}, ridge 0.01"]["objective"]
        lines = [
            Series(method, shares, [objective[method][f"at {share}%"] for share in shares])
            for method in ("OPT", "FR", "OMP", "L1")
        ]
        panels.append(Panel(f"5.3 {name}", lines, "% of the price", "training objective"))
    seconds = figures["5.6"]["seconds"]
    timed = [
        Series(label, [int(count) for count in seconds[key]], list(seconds[key].values()), kind)
        for key, label, kind in (
            ("FR", "FR", "line"),
            ("OMP", "OMP", "line"),
            ("FR, a refit per candidate", "FR, naive", "dashed"),
            ("OMP, same general code", "OMP, naive", "dashed"),
        )
    ]
    panels.append(Panel("5.6 time, 519 columns", timed, "columns chosen", "seconds", x_log=True, y_log=True))
    return Chart(
        "Training objective against the share of the price: the optimum, then FR, OMP and L1. Time: the block "
        "factorisation makes FR as fast as OMP.",
        panels,
        height=2.7,
    )


def grubb_filters() -> Chart:
    """Figure 6.3: detection error against features per patch."""
    runs = measured("filters")["runs"]
    methods = {
        "filtered": "SpeedBoost with filters",
        "unfiltered": "without filters",
        "AdaBoost": "AdaBoost",
        "cascade": "cascade",
    }
    panels = []
    for seed, run in enumerate(runs):
        errors = run["error at mean features per patch"]
        lines = []
        for key, label in methods.items():
            counts = [int(count) for count in errors[key] if int(count) > 0]
            lines.append(Series(label, counts, [errors[key][str(count)] for count in counts]))
        panels.append(Panel(f"seed {seed}", lines, "features per patch", "error", x_log=True, y_log=True))
    return Chart(
        "Detection error against features per patch: filters lead, a cascade starts far above.",
        panels,
        columns=2,
        height=2.7,
    )


def grubb_work() -> Chart:
    """Figure 6.6: where a detector works."""
    maps = measured("detection_pictures")["maps of the first scene"]

    def shades(rows: list[str]) -> list[list[int]]:
        return [[int(digit, 36) for digit in row] for row in rows]

    scene = Panel("the scene", [], picture=shades(maps["scene"]))
    panels = []
    for spent in ("21", "28"):
        panels += [
            Panel(f"{label}: features, {spent} on average", [], picture=shades(maps[key]["work"][spent]))
            for key, label in (("filtered", "filters"), ("cascade", "cascade"))
        ]
    return Chart(
        "Features computed for each window of a painted scene after 21 and 28 per window on average: with filters more at "
        "vehicles and boxes, in the cascade the same everywhere and then more at some places.",
        [
            scene,
            Panel("filters: probability of a vehicle", [], picture=shades(maps["filtered"]["vehicle"]["28"])),
            *panels,
        ],
        columns=2,
        height=1.5,
    )


def grubb_imitation() -> Chart:
    """Figure 2.3: losses of three ways to learn what ground costs."""
    run = measured("imitation")
    panels = [
        Panel(
            title,
            [
                Series(a, run["worlds"][0][a]["networks"], run["worlds"][0][a][key])
                for a in ("basic", "repeated", "residual")
            ],
            "networks",
            title,
            x_log=True,
        )
        for key, title in (
            ("training_loss", "training loss"),
            ("loss", "test loss"),
            ("regret", "test regret"),
        )
    ]
    return Chart(
        "Losses and regret of learned costs against networks, first world: residual projection has the least training "
        "loss; on new maps its loss and its regret rise again.",
        panels,
    )


def grubb_speedboost() -> Chart:
    """Figure 6.2: SpeedBoost and AdaBoost.MM on the same trees, and the two ways out of the trap."""
    uci = measured("speedboost_figures")["uci"]
    panels = []
    for name in ("pendigits", "covtype", "covtype, rows at random"):
        lines = []
        for key, label in (
            ("SpeedBoost.Proj, half steps", "SpeedBoost.Proj"),
            ("AdaBoost.MM, half steps", "AdaBoost.MM"),
        ):
            run = uci[name][key]
            points = dict(zip(run["cost"], run["quality"], strict=True))
            lines.append(Series(label, [c for c in points if c], [points[c] for c in points if c]))
        panels.append(Panel(name, lines, "tests per row", "test error", x_log=True, y_log=True))
    return Chart(
        "Test error against tests per row, half steps: SpeedBoost starts earlier, AdaBoost.MM catches up.",
        panels,
    )


def grubb_ranking() -> Chart:
    """Figure 6.7: NDCG against the share of the price."""
    ranking = measured("speedboost_figures")["ranking"]
    shares = [100 * share for share in ranking["shares_of_price"]]
    panels = []
    for name, title in (
        ("look-alike", "look-alike"),
        ("mq2008", "MQ2008"),
        ("lgb-rank", "LightGBM's example"),
    ):
        run = ranking[name]
        best = run["ndcg_of_best_miser"]
        lines = [
            Series("SpeedBoost, training gain", shares, run["SpeedBoost"]["quality"][: len(shares)]),
            Series(
                "SpeedBoost, held-out gain",
                shares,
                run["SpeedBoost, held-out gain"]["quality"][: len(shares)],
            ),
            Series("best Miser, in hindsight", shares, best[: len(shares)], "dashed"),
        ]
        panels.append(Panel(title, lines, "% of the price", "NDCG@5", x_log=True))
    return Chart(
        "NDCG at 5 against the share of the price: training gain overfits, held-out gain removes most of it.",
        panels,
    )


def grubb_early_and_late() -> Chart:
    """Two ways out of the trap of additive boosting."""
    folds = measured("speedboost_figures")["folds"]
    shares = [100 * share for share in folds["shares_of_price"]]
    labels = {
        "adding": "adding stages",
        "adding, 5 folds": "adding, cross-fitted",
        "replacing": "replacing (default)",
    }
    panels = [
        Panel(
            f"pendigits, {draw} draw of prices",
            [
                Series(label, shares, [100 * e for e in folds[key][i]["errors"]])
                for key, label in labels.items()
            ],
            "% of the price",
            "error, %",
            x_log=True,
            y_log=True,
        )
        for i, draw in enumerate(("first", "second"))
    ]
    return Chart(
        "Error against the share of the price: replacing stages is better at every share.", panels, columns=2
    )


def grubb_sequences() -> Chart:
    """Chapters 3 and 7: labelling sequences as features are bought."""
    parts, summary = measured("sequences")["parts"], measured("sequences")["summary"]
    panels = []
    for part, name, title in (
        ("letters small 0", "letters small", "letters, fold 0"),
        ("conll2000", "conll2000", "CoNLL-2000, F1"),
        ("ud-ewt", "ud-ewt", "UD English EWT"),
    ):
        lines = []
        for key, label in (("with_context", "with context"), ("without_context", "without")):
            curve = [point for point in parts[part][key]["curve"] if point[0] > 0]
            lines.append(
                Series(label, [cost for cost, _ in curve], [100 * (1 - right) for _, right in curve])
            )
        metric = summary[name]["metric"]
        end = max(cost for line in lines for cost in line.x)
        lines.append(
            Series(
                "linear-chain CRF, all features", [end], [100 * (1 - parts[part]["crf"][metric])], "points"
            )
        )
        panels.append(Panel(title, lines, "features bought", "% wrong", y_log=True))
    return Chart(
        "Error against features bought: on letters context beats a CRF by far; on chunks the CRF is ahead.",
        panels,
    )


def grubb_scenes() -> Chart:
    """Chapter 7: pixels and class recall against time."""
    run, baselines = measured("scene_parsing"), measured("scene_baselines")
    times = baselines["in_turns"]["parser_processor_ms"]
    panels = []
    for key, title in (("pixel", "pixels labelled correctly, %"), ("class", "class recall, %")):
        stages = [point for point in run["curve"] if point["stage"] > 0]
        machines = baselines["in_turns"]["variants"]
        lines = [
            Series("SceneParser", [times[p["stage"]] for p in stages], [p[key] for p in stages]),
            Series(
                "inference machines",
                [machine["processor_ms"] for machine in machines.values()],
                [baselines["variants"][name][key] for name in machines],
                "points",
            ),
        ]
        panels.append(Panel(title, lines, "processor ms per image", mark=run["printed"]["SIM"][key]))
    return Chart(
        "Pixels and class recall on CamVid's test images against processor time; inference machines as points, and "
        "the printed figures of the same method as a dotted line. The parser passes both.",
        panels,
        columns=2,
        height=2.8,
    )


FIGURES = {
    chart.__name__: chart
    for chart in (
        grubb_descent,
        grubb_selection,
        grubb_filters,
        grubb_work,
        grubb_imitation,
        grubb_speedboost,
        grubb_ranking,
        grubb_early_and_late,
        grubb_sequences,
        grubb_scenes,
    )
}
