"""The library's own bars, and the figures of pages that hold it beside others."""

from __future__ import annotations

from common import measured
from report import cluster
from report.charts import Chart, Panel, Series
from report.claims import MET, MISSED, Claim, last_exits, leading


def quality() -> list[Claim]:
    """Answers at every budget, training time, confidence, cascades."""
    nested = measured("budget_quality_nested")["verdict"]
    near = leading(nested["within 2 % of one model per budget, or better"])
    best = leading(nested["best or within noise of the best"])
    auto, trees = (measured("budget_quality")[name]["verdict"] for name in ("Auto", "SpeedBoost"))
    slower = trees["times one LightGBM"]
    noise = measured("plain_boosting")["data sets within noise"]["lightgbm"]
    growing = [
        measured("tree_growing")[name]["ratio per tree, wall"]
        for name in ("covtype", "covtype-7", "synthetic-130000")
    ]
    kept = measured("confidence")["summary"]["SpeedBoost"]["confidence"]
    within = [kept[level]["within_2_points"] for level in ("0.8", "0.9", "0.95")]
    services = measured("cascades")["bar_met_on"]
    rows, field = measured("acquisition"), measured("acquisition_rivals")
    selection = measured("algorithm_selection")["ten points more on"]
    return [
        Claim(
            "quality",
            "quality",
            "One nested order is within 2 % of one LightGBM per budget on 6 of 10 sets",
            MET,
            f"on {near} of 18; best or within noise of the best on {best} of 18; an earlier version, before branches",
            near / 18 >= 0.6,
        ),
        Claim(
            "quality",
            "quality",
            "Training takes 8 times as long as one LightGBM in the median, 40 at worst",
            MISSED,
            f"{slower['median']:g} times in the median, {slower['worst']:g} at worst",
            slower["median"] > 8 or slower["worst"] > 40,
        ),
        Claim(
            "quality",
            "quality",
            "`Auto*` errs 0.93 times as much as the best rival of each budget",
            MISSED,
            f"{auto['relative error']:.2f} times, mean of {auto['sets']} sets",
            auto["relative error"] > 0.93,
        ),
        Claim(
            "quality",
            "quality",
            "`Auto*` is level with the best rival of each budget or ahead in 97 % of cells, clearly ahead in 30 %",
            MISSED,
            f"{auto['level or ahead']:.0%} and {auto['clearly ahead']:.0%} of {auto['cells']} cells",
            auto["level or ahead"] < 0.97 or auto["clearly ahead"] < 0.3,
        ),
        Claim(
            "quality",
            "quality",
            "SpeedBoost alone is level or ahead in 93 % of cells",
            MISSED,
            f"{trees['level or ahead']:.0%} of {trees['cells']} cells",
            trees["level or ahead"] < 0.93,
        ),
        Claim(
            "quality",
            "quality",
            "Plain boosting errs as LightGBM does on 8 sets",
            MET,
            f"within noise on {noise}",
            leading(noise) >= 8,
        ),
        Claim(
            "quality",
            "quality",
            "Growing a tree takes no longer than in LightGBM",
            MET,
            f"{', '.join(f'{ratio:.2f}' for ratio in growing)} of its time, two threads",
            max(growing) <= 1,
        ),
        Claim(
            "confidence",
            "confidence",
            "Of the rows that stop at a confidence, that share is right, within two points, on 10 of 11 sets",
            MISSED,
            f"on {within[0]}, {within[1]} and {within[2]} of 11 at 0.8, 0.9 and 0.95",
            min(within) < 10,
        ),
        Claim(
            "rows",
            "rows",
            "Row by row, the mean error at small budgets is at most 0.8 of the best order's on 5 of 8 sets",
            MET if rows["bar_met_on"] >= 5 else MISSED,
            f"on {rows['bar_met_on']} of {len(rows['sets'])}; on {rows['means_met_on']} where the budget is a mean",
        ),
        Claim(
            "rows",
            "rows",
            "Row by row, level with GDFS, DIME and AACO or ahead in 80 % of the cells of three sets of AFABench",
            MET,
            f"in {field['level or ahead']} of {field['cells']} cells; three sets, one split each, other sets not measured",
            field["level or ahead"] >= 0.8 * field["cells"],
        ),
        Claim(
            "cascades",
            "cascades",
            "Services: the best one's accuracy at half its price, or a point more at its price, on 8 of 12 tasks",
            MET if services >= 8 else MISSED,
            f"on {services} of 12",
        ),
        Claim(
            "cascades",
            "cascades",
            "Algorithm selection: ten points more of the gap than with all features paid, on 4 of 6 scenarios",
            MET if selection >= 4 else MISSED,
            f"on {selection} of 6",
        ),
    ]


def learners() -> list[Claim]:
    """Networks, growth and streams, where no work sets the bar."""
    networks = last_exits()
    below = sum(errors["auto"] < errors["opt:1"] for errors in networks.values())
    table = measured("growth_nasbench")["table"]
    cells = measured("growth_nasbench")["evaluations"].index(100)
    share = {
        rule: sum(costs[cost][rule]["mean"][cells] for costs in table.values() for cost in costs) / 8
        for rule in ("hull, band 2.5 %", "evolution, error")
    }
    streams = measured("progressive_validation")["verdict"]["StreamingBoost"]
    kills = measured("growth_kills")
    return [
        Claim(
            "networks",
            "hu_networks",
            "One network with exits ends no worse than one trained for its last exit",
            MET,
            f'"auto" ends below it on {below} of {len(networks)}',
            below == len(networks),
        ),
        Claim(
            "growth",
            "hu_growth",
            "The hull with a band leads other search rules on NAS-Bench-201",
            MET,
            f"{share['hull, band 2.5 %']:.1%} of the hull's area after 100 cells, evolution {share['evolution, error']:.1%}",
            share["hull, band 2.5 %"] > share["evolution, error"],
        ),
        Claim(
            "growth",
            "hu_growth",
            "A search that is killed at random moments ends with the networks of one that is not",
            MET,
            f"{kills['networks']} networks, bit for bit, after {kills['kills']} kills -9",
            kills["the same networks as undisturbed, bit for bit"]
            and kills["kills that kept all that was finished"] == kills["kills"] == 20,
        ),
        Claim(
            "streams",
            "hu_streams",
            "Progressive error is that of the best of river's ensembles, or less",
            MET,
            f"on {streams['as_good_or_better']} of {streams['streams']} streams",
            streams["as_good_or_better"] / streams["streams"] > 0.5,
        ),
    ]


def runtime() -> list[Claim]:
    """Deadlines, speed, files, serving."""
    in_time = measured("deadline_fidelity")["share_within_50_microseconds"]
    imported = measured("imported_model")
    tenth = {
        meter: run["time_ratio_to_all_trees"]
        for meter, run in imported["tenth_of_the_trees_1000_rows"].items()
    }
    fits = [fit["in time"] for fit in measured("time_budgets")["fits"].values()]
    files = measured("fuzz_files")["plain"]
    serving = measured("serving")["parts"]
    overload = serving["overload"]["anytime"]["10"]
    return [
        Claim(
            "runtime",
            "runtime",
            "99.9 % of single-row answers come within 50 µs of their deadline",
            MET if in_time >= 0.999 else MISSED,
            f"{in_time:.2%} in the published run; 99.84 to 99.99 % in four earlier ones",
        ),
        Claim(
            "runtime",
            "runtime",
            "One row of an imported model takes at most half of LightGBM's time",
            MET,
            f"{imported['one_row_ratio_to_booster']:.2f} of it; a thousand rows {imported['rows_1000_ratio_to_booster']:.2f}",
            imported["one_row_ratio_to_booster"] <= 0.5,
        ),
        Claim(
            "runtime",
            "runtime",
            "A budget for a tenth of the trees takes 0.15 of the time",
            MISSED,
            f"{tenth['model']:.2f} by the model meter, {tenth['realised']:.2f} by the realised one",
            min(tenth.values()) > 0.15,
        ),
        Claim(
            "runtime",
            "runtime",
            "Training keeps to `time_budget`, plus 10 % and a second",
            MET,
            f"in {sum(fits)} of {len(fits)} cases",
            all(fits),
        ),
        Claim(
            "runtime",
            "runtime",
            "No damaged file crashes the loader",
            MET,
            f"{files['failures']} of {files['cases']:,} files",
            files["failures"] == 0,
        ),
        Claim(
            "serving",
            "serving",
            "At ten times its capacity the server answers within 10 ms, without errors",
            MET,
            f"{overload['within_slo']:.1%} within 10 ms, {len(overload['errors'])} errors; an earlier version",
            overload["within_slo"] > 0.99 and not overload["errors"],
        ),
        Claim(
            "serving",
            "serving",
            "1.5 times the requests a second of a plain FastAPI handler",
            MET,
            f"{serving['single']['throughput_ratio']:.2f} times; an earlier version",
            serving["single"]["throughput_ratio"] >= 1.5,
        ),
    ]


def nested_orders() -> Chart:
    """Area under the error curve, relative to one LightGBM per budget."""
    sets = measured("budget_quality_nested")["sets"]
    names = sorted(
        sets, key=lambda name: sets[name]["SpeedBoost"]["area"] / sets[name]["LightGBM per budget"]["area"]
    )
    methods = {
        "SpeedBoost": "SpeedBoost",
        "LightGBM, cegb": "LightGBM, cegb frontier",
        "Greedy Miser": "Greedy Miser",
        "LightGBM, cost-blind": "LightGBM, cost-blind",
    }
    series = [
        Series(
            label,
            [sets[name][key]["area"] / sets[name]["LightGBM per budget"]["area"] for name in names],
            kind="points",
        )
        for key, label in methods.items()
    ]
    return Chart(
        "Area under the error curve relative to one LightGBM per budget by set: SpeedBoost is near 1 on nearly "
        "all, the others are above.",
        [
            Panel(
                "area relative to one LightGBM per budget (1: level)", series, names=names, x_log=True, mark=1
            )
        ],
        columns=1,
        height=4.0,
    )


def training_time() -> Chart:
    """Training time in units of one LightGBM."""
    fits = sorted(measured("training_time")["fits"], key=lambda fit: fit["ratio"])
    ratios = Series("SpeedBoost", [fit["ratio"] for fit in fits], kind="points")
    return Chart(
        "Training time of SpeedBoost in units of one LightGBM by table, from 3 to 70.",
        [
            Panel(
                "processor time, times one LightGBM of 300 rounds",
                [ratios],
                names=[fit["set"] for fit in fits],
                x_log=True,
                mark=8,
            )
        ],
        columns=1,
        height=4.0,
    )


def confidence() -> Chart:
    """Share of right answers among rows that stop, against the promise."""
    summary = measured("confidence")["summary"]["SpeedBoost"]
    panels = []
    for level in ("0.8", "0.9", "0.95"):
        kept, control = (summary[key][level]["by_set"] for key in ("confidence", "control"))
        names = sorted(kept)
        panels.append(
            Panel(
                f"confidence {level}",
                [
                    Series("calibrated", [100 * kept[name]["right"] for name in names], kind="points"),
                    Series(
                        "as the model says",
                        [100 * control[name]["right"] if name in control else None for name in names],
                        kind="points",
                    ),
                ],
                x_label="% right of rows that stop",
                names=names,
                mark=100 * float(level),
            )
        )
    return Chart(
        "Share of right answers among rows that stop, by set, against the promise (dotted): calibrated stops are "
        "close to it, raw probabilities mostly far above.",
        panels,
        height=3.0,
    )


def coverage() -> Chart:
    """Coverage of sets and intervals."""
    by_set = measured("confidence")["summary"]["SpeedBoost"]["coverage"]
    panels = []
    for level in ("0.9", "0.95"):
        found = by_set[level]["by_set"]
        names = sorted(found)
        panels.append(
            Panel(
                f"promised {level}",
                [
                    Series(label, [100 * found[name][key] for name in names], kind="points")
                    for key, label in (("mean", "mean"), ("lowest", "lowest"), ("highest", "highest budget"))
                ],
                x_label="% covered",
                names=names,
                mark=100 * float(level),
            )
        )
    return Chart(
        "Coverage of prediction sets and intervals by set: means over budgets are near the promise.",
        panels,
        columns=2,
        height=3.6,
    )


def cascades() -> Chart:
    """Cascades of recorded services beside FrugalML."""
    panels = [
        Panel(
            name,
            [
                Series("cascade", task["shares"], task["accuracy"]),
                Series("FrugalML's strategy", task["shares"], task["frugalml"]),
            ],
            "share of the price",
            "accuracy",
            mark=task["single_accuracy"],
        )
        for name, task in measured("cascades")["tasks"].items()
    ]
    return Chart(
        "Accuracy against the share of the best service's price on twelve tasks; the dotted line is that service "
        "alone. The cascade is above FrugalML's strategy nearly everywhere.",
        panels,
        height=2.1,
    )


def algorithms() -> Chart:
    """Algorithm selection: how much of the gap is closed."""
    scenarios = measured("algorithm_selection")["scenarios"]
    names = sorted(scenarios, key=lambda name: -scenarios[name]["points more"])
    series = [
        Series(label, [scenarios[name]["gap closed"][key] for name in names], kind="points")
        for key, label in (
            ("step by step", "features bought step by step"),
            ("all paid", "all features paid"),
        )
    ]
    return Chart(
        "Share of the gap between the single best solver and the best of each instance that is closed, on six "
        "scenarios: buying step by step is ahead on two.",
        [Panel("share of the gap closed", series, names=names)],
        columns=1,
        height=2.4,
    )


def evaluation() -> Chart:
    """Time to evaluate an imported model, and lateness."""
    imported, exported = measured("imported_model"), measured("export_speed")["one_row_microseconds"]
    late = measured("deadline_fidelity")["microseconds_after_deadline"]
    speeds = {
        "C header": exported["c_header"],
        "predict_one": exported["predict_one"],
        "LightGBM": exported["lightgbm_predict"],
        "ONNX Runtime": exported["onnx_runtime"],
    }
    shares = [entry["tree_ratio"] for entry in imported["budget_1000_rows"].values()]
    times = [entry["time_ratio_to_all_trees"] for entry in imported["budget_1000_rows"].values()]
    percentiles = ("p10", "p50", "p90", "p99", "p99.9", "p100")
    return Chart(
        "One row is fastest in C and in Python with predict_one; time grows with the trees that are bought; nearly all "
        "answers come within 50 µs of their deadline.",
        [
            Panel(
                "one row, 500 trees, µs",
                [Series("time", list(speeds.values()), kind="bars")],
                names=list(speeds),
            ),
            Panel(
                "a budget for part of the trees",
                [Series("time", shares, times)],
                "share of trees",
                "share of time",
            ),
            Panel(
                "µs after the deadline",
                [Series("time", [late[p] for p in percentiles], kind="points")],
                names=[p.replace("p", "") + " %" for p in percentiles],
                x_log=True,
                mark=50,
            ),
        ],
        height=2.3,
    )


def overload() -> Chart:
    """Serving at multiples of the capacity."""
    overload = measured("serving")["parts"]["overload"]
    panels = []
    for key, title, scale in (("within_slo", "% answered within 10 ms", 100), ("accuracy", "accuracy", 1)):
        panels.append(
            Panel(
                title,
                [
                    Series(label, [float(load) for load in overload[name]], [scale * run[key] for run in overload[name].values()])
                    for name, label in (("anytime", "anytime"), ("plain", "FastAPI + LightGBM"))
                ],
                "load, times the capacity",
                x_log=True,
            )
        )  # fmt: skip
    answered = [
        Series(
            label,
            [float(load) for load in overload[name]],
            [100 * run["answered"] / run["sent"] for run in overload[name].values()],
        )
        for name, label in (("anytime", "anytime"), ("plain", "FastAPI + LightGBM"))
    ]
    panels.append(Panel("% answered at all", answered, "load, times the capacity", x_log=True))
    return Chart(
        "Up to ten times its capacity the server answers nearly all requests within 10 ms, and gives up some accuracy; "
        "a plain handler answers none in time.",
        panels,
    )


def growing() -> Chart:
    """Time per tree beside LightGBM."""
    run = measured("tree_growing")
    names = {
        "covtype": "covtype, two classes",
        "covtype-7": "covtype, seven classes",
        "synthetic-130000": "130,000 x 50, made up",
    }
    series = [
        Series(
            "two threads, wall clock", [run[name]["ratio per tree, wall"] for name in names], kind="points"
        ),
        Series(
            "one thread", [run[name]["one thread"]["ratio per tree, wall"] for name in names], kind="points"
        ),
    ]
    return Chart(
        "Time per tree over LightGBM's on three tables: below 1 on all.",
        [Panel("time per tree, times LightGBM's", series, names=list(names.values()), mark=1)],
        columns=1,
        height=1.6,
    )


CLAIMS = [*quality(), *learners(), *runtime(), *cluster.claims()]
FIGURES = {
    chart.__name__: chart
    for chart in (
        nested_orders,
        training_time,
        confidence,
        coverage,
        cascades,
        algorithms,
        evaluation,
        overload,
        growing,
    )
}
