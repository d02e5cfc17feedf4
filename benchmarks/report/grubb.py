"""Grubb, *Anytime Prediction* (2014), and Grubb and Bagnell, *SpeedBoost* (2012): verdicts."""

from __future__ import annotations

from common import measured
from report.claims import NOT, REPRODUCED, SHAPE, Claim


def grubb_theory_and_selection() -> list[Claim]:
    """Grubb 2014, chapters 2 to 5."""
    descent = {
        name: {method: one[method]["training_loss"][-1] for method in ("basic", "repeated", "residual")}
        for name, one in measured("descent_figures")["sets"].items()
    }
    letter, connect, ranking = descent["letter"], descent["connect-4"], descent["mq2008"]
    imitated = measured("imitation")["mean_at_the_end"]
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
            "figure 2.3",
            "grubb_descent_and_selection",
            "Repeated and residual projection lead in imitation learning",
            NOT,
            f"a task of our own: planned paths {imitated['basic']['regret']:.0%} dearer than the best with basic, "
            f"{imitated['repeated']['regret']:.0%} with repeated, {imitated['residual']['regret']:.0%} with residual projection",
            imitated["basic"]["regret"] < min(imitated[a]["regret"] for a in ("repeated", "residual")),
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
    runs = measured("filters")["runs"]
    shares = [run["share updated by stages 1, 2, 3, 5, 10, 30, 100, last"]["filtered"] for run in runs]
    early, later = [share for one in shares for share in one[1:4]], [one[5] for one in shares]
    areas = [run["area under the ROC"] for run in runs]
    few = [area["filtered"]["8"] for area in areas]
    whole = [value for area in areas for value in area["cascade"].values()]
    cascade_cost = max(float(cost) for area in areas for cost in area["cascade"])
    ratio, maps = "at vehicles over elsewhere", measured("detection_pictures")["mean"]
    filtered_map, cascade_map = maps["filtered"]["21"], maps["cascade"]["21"]
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
            "figure 6.4",
            "grubb_speedboost",
            "Most examples are left out early, and visited again later",
            REPRODUCED,
            f"stages 2 to 5 work on {min(early):.0%} to {max(early):.0%} of the patches, stage 30 on {min(later):.0%}",
            max(early) < 0.2 and min(later) > 0.9,
        ),
        Claim(
            "figure 6.5",
            "grubb_speedboost",
            "The ROC after a few features is near that of the whole cascade",
            REPRODUCED,
            f"area {min(few):.3f} with 8 features, the cascade's {max(whole):.3f} with {cascade_cost:.0f}",
            min(few) > max(whole) - 0.01,
        ),
        Claim(
            "figure 6.6",
            "grubb_speedboost",
            "The detector with filters works where vehicles are, the cascade everywhere",
            SHAPE,
            f"painted scenes, 21 features per window: {filtered_map[ratio]:.1f} times as many at vehicles as elsewhere, "
            f"the cascade {cascade_map[ratio]:.1f}",
            filtered_map[ratio] > 2 and cascade_map[ratio] < 1.2,
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


CLAIMS = [*grubb_theory_and_selection(), *grubb_speedboost_and_scenes()]
