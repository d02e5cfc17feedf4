"""Grubb, *Anytime Prediction* (2014), and Grubb and Bagnell, *SpeedBoost* (2012): verdicts and figures."""

from __future__ import annotations

from common import measured
from report.charts import Chart, Panel, Series
from report.claims import NOT, REPRODUCED, SHAPE, Claim


def grubb_theory_and_selection() -> list[Claim]:
    """Grubb 2014, chapters 2 to 5."""
    descent = {
        name: {method: one[method]["training_loss"][-1] for method in ("basic", "repeated", "residual")}
        for name, one in measured("descent_figures")["sets"].items()
    }
    letter, connect, ranking = descent["letter"], descent["connect-4"], descent["mq2008"]
    letters = measured("sequences")["summary"]["letters small"]
    wrong = {key: 1 - letters[key] for key in ("with_context", "without_context", "crf")}
    figures = measured("sparse_figures")["figures"]
    held = {verdict["claim"]: verdict["held_in"] for verdict in figures["5.3"]["verdicts"]}
    housing = [
        held[f"(a) housing, ridge 0.01: {pair} (objective, area)"]
        for pair in ("OPT >= FR", "FR >= OMP", "OMP >= L1")
    ]
    grouped = [verdict["held_in"] for verdict in figures["5.7"]["verdicts"][:2]]
    return [
        Claim(
            "2.2.3",
            "proofs",
            "The edge of multiclass weak learners is d/√N",
            NOT,
            "false for more than two classes; d/((K-1)√N) holds and is attained",
        ),
        Claim(
            "2.4, 2.5",
            "proofs",
            "Rates of basic, repeated and residual projection",
            REPRODUCED,
            "75 to 200 random problems each; constants of 2.5.2 corrected",
        ),
        Claim(
            "2",
            "grubb_descent_and_selection",
            "Basic projection fails on letter, repeating the same stumps",
            REPRODUCED,
            "training loss {basic:.2f} (basic), {repeated:.2f} (repeated), {residual:.2f} (residual)".format(
                **letter
            ),
            letter["basic"] > 1 > letter["repeated"],
        ),
        Claim(
            "2",
            "grubb_descent_and_selection",
            "The same on connect-4",
            SHAPE,
            "for steps up to 3 only; with long first steps {basic:.3f} against {residual:.3f}".format(
                **connect
            ),
            connect["basic"] > connect["residual"],
        ),
        Claim(
            "2",
            "grubb_descent_and_selection",
            "Basic projection is the worst on ranking data",
            NOT,
            "MQ2008: basic {basic:.3f}, repeated {repeated:.3f}".format(**ranking),
            ranking["basic"] < ranking["repeated"],
        ),
        Claim(
            "3, 7.1",
            "proofs",
            "The objective of structured boosting never rises",
            REPRODUCED,
            "trees and linear stages, with and without held-out context",
        ),
        Claim(
            "3, 7",
            "grubb_sequences",
            "Predictions for neighbours make letters in words far easier to read",
            REPRODUCED,
            "{with_context:.1%} wrong with context, {without_context:.1%} without, {crf:.1%} with a CRF".format(
                **wrong
            ),
            letters["error_to_that_without"] < 0.6,
        ),
        Claim(
            "4.3.3",
            "proofs",
            "Approximately greedy orders lose βB/C at most",
            NOT,
            "false as printed; the corrected form holds",
        ),
        Claim(
            "4.4",
            "proofs",
            "Doubling is near the best at every budget, with a factor of 6",
            REPRODUCED,
            "510 instances, a fine grid of budgets",
        ),
        Claim(
            "5.3.4",
            "proofs",
            "Matching pursuit with bounded weights is approximately greedy",
            NOT,
            "refuted by two counter-examples, which are tests",
        ),
        Claim(
            "figure 5.2",
            "grubb_descent_and_selection",
            "Greedy comes closer to the optimum as regularisation grows",
            SHAPE,
            "on the mean of five splits; not monotone on all rows, nor with a norm bound",
        ),
        Claim(
            "figure 5.3",
            "grubb_descent_and_selection",
            "OPT ≥ FR ≥ OMP ≥ L1 on housing and wine",
            REPRODUCED,
            f"in {housing[0]}, {housing[1]} and {housing[2]} of 20 price lists on housing",
            min(housing) >= 18,
        ),
        Claim(
            "figure 5.4",
            "grubb_descent_and_selection",
            "Cost-aware selection beats cost-blind selection; FR ≥ OMP ≥ L1",
            SHAPE,
            "cost-aware ahead in 20 of 20; OMP ≥ L1 in 7 of 20 on pendigits",
        ),
        Claim(
            "figure 5.5",
            "grubb_descent_and_selection",
            "The same order on ranking data",
            SHAPE,
            "on training rows of a look-alike; on new rows 1 of 5 orders fails with 30,000 rows",
        ),
        Claim(
            "figure 5.7",
            "grubb_descent_and_selection",
            "Grouped FR ≥ grouped OMP ≥ L2 with few groups",
            SHAPE,
            f"in {grouped[0]} and {grouped[1]} of 20 groupings of a look-alike",
            min(grouped) >= 18,
        ),
    ]


def grubb_speedboost_and_scenes() -> list[Claim]:
    """Grubb and Bagnell 2012; Grubb 2014, chapters 6 and 7."""
    filters = [run["error at mean features per patch"] for run in measured("filters")["runs"]]
    envelope = [
        measured("speedboost_figures")["ranking"][name]["training_loss_over_envelope"]
        for name in ("look-alike", "mq2008", "lgb-rank")
    ]
    worst = max(one["worst_ratio"] for one in envelope)
    scenes = measured("scene_parsing")
    stages = {point["stage"]: point for point in scenes["curve"]}
    printed = scenes["printed"]["SIM"]
    machine = measured("scene_baselines")["variants"]["all"]["pixel"]
    return [
        Claim(
            "figure 6.1",
            "grubb_speedboost",
            "OMP overfits sooner than MP at nearly the same objective",
            SHAPE,
            "overfits on all three sets; objectives nearly equal on pendigits only",
        ),
        Claim(
            "figure 6.2",
            "grubb_speedboost",
            "SpeedBoost needs far fewer features than AdaBoost.MM for a given error",
            NOT,
            "a rough answer comes sooner; 0.7 to 1.2 of its features on pendigits after that",
        ),
        Claim(
            "figure 6.3",
            "grubb_speedboost",
            "With filters a detector improves much faster; a cascade starts at 0.83",
            REPRODUCED,
            f"error {filters[0]['filtered']['8']:.3f} with 8 features, {filters[0]['unfiltered']['8']:.3f} without filters",
            all(errors["filtered"]["8"] < errors["unfiltered"]["8"] for errors in filters),
        ),
        Claim(
            "figure 6.7",
            "grubb_speedboost",
            "Training error stays close to the best Greedy Miser of all penalties",
            REPRODUCED,
            f"within {worst - 1:.0%} of the envelope at worst",
            worst < 1.1,
        ),
        Claim(
            "figure 6.7",
            "grubb_speedboost",
            "NDCG is nearly optimal, with slightly more overfitting",
            NOT,
            "0.00 to 0.08 behind the best Miser; held-out gain removes most of it",
        ),
        Claim(
            "figure 6.8",
            "grubb_speedboost",
            "A fixed penalty buys one set of descriptors; held-out gain moves on to dear ones",
            REPRODUCED,
            "nothing is bought after the third of 150 trees with a fixed penalty",
        ),
        Claim(
            "table 7.2",
            "grubb_scenes",
            "CamVid: 81.5 % of pixels and 54.8 % class recall with structured SpeedBoost",
            REPRODUCED,
            "{pixel:.1f} and {class:.1f} % with the default of 30 stages".format(**stages[30]),
            stages[30]["pixel"] >= printed["pixel"] and stages[30]["class"] >= printed["class"],
        ),
        Claim(
            "table 7.2",
            "grubb_scenes",
            "CamVid: 84.9 % of pixels with an inference machine on all descriptors",
            SHAPE,
            f"{machine:.1f} %",
            machine > 83.5,
        ),
        Claim(
            "7",
            "grubb_scenes",
            "Most of the accuracy is there early",
            REPRODUCED,
            "{pixel:.1f} % of pixels after {ms:.0f} ms".format(**stages[3])
            + f" of {scenes['last']['ms']:.0f}",
            stages[3]["pixel"] > 80 and stages[3]["ms"] < scenes["last"]["ms"] / 3,
        ),
    ]


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


CLAIMS = [*grubb_theory_and_selection(), *grubb_speedboost_and_scenes()]
FIGURES = {
    chart.__name__: chart
    for chart in (
        grubb_descent,
        grubb_selection,
        grubb_filters,
        grubb_speedboost,
        grubb_ranking,
        grubb_early_and_late,
        grubb_sequences,
        grubb_scenes,
    )
}
