"""Hu, *Anytime Prediction and Learning* (2019): verdicts."""

from __future__ import annotations

from common import measured
from report.claims import MET, NOT, REPRODUCED, SHAPE, Claim, last_exits


def over_alone(scheme: str) -> float:
    """Mean increase of the last error over that of a network of its own, in per cent."""
    found = last_exits().values()
    return sum(100 * (errors[scheme] / errors["opt:1"] - 1) for errors in found) / len(found)


def hu_linear() -> list[Claim]:
    """Hu 2019, chapter 3."""
    tables = measured("linear_tables")["tables"]
    orders = {name: table["whole_order_held"] for name, table in tables.items()}
    sizes = [orders[f"ranking, s = {size}"] for size in (5, 10, 15, 20)]
    oracles = min(
        table["held"][f"{kind} Oracle >= CS-G-{kind}"] for table in tables.values() for kind in ("FR", "OMP")
    )
    oracle = max(table["mean"]["FR Oracle"] - table["mean"]["CS-G-FR"] for table in tables.values())
    drawn = measured("linear_figures")["sets"]
    fields, ranking = (drawn[name]["claims"] for name in ("agricultural", "ranking"))
    fr, single = "3.5, CS-G-FR above CS-G-OMP", "3.5, CS-G-OMP above Single"
    plateau = drawn["ranking"]["stopping_cost"]["0.99"]
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
            "tables 3.1, 3.2",
            "hu_linear",
            "The oracles are at least as good as their orders, and hardly ahead of CS-G-FR",
            REPRODUCED,
            f"in 20 of 20 seeds of all five tables; at most {oracle:.4f} ahead (printed: 0.0026)",
            oracles == 20 and oracle < 0.003,
        ),
        Claim(
            "figure 3.3",
            "hu_linear",
            "The last percent of what is gained costs half of everything",
            SHAPE,
            f"{1 - plateau:.0%} of the price of a look-alike",
            0.4 < 1 - plateau < 0.6,
        ),
        Claim(
            "figure 3.3",
            "hu_linear",
            "Knowing prices is better at every budget (CS-G-OMP against G-OMP)",
            SHAPE,
            f"at {ranking['3.3b, CS-G-OMP above G-OMP']['share']:.0%} of the budgets, on a look-alike",
            ranking["3.3b, CS-G-OMP above G-OMP"]["area_above_in"] == 5,
        ),
        Claim(
            "figure 3.4",
            "hu_linear",
            "Whitening groups is better at every budget",
            SHAPE,
            f"look-alikes: at {fields['3.4, CS-G-OMP above No-Whiten']['share']:.0%} of the budgets on agricultural, "
            f"at {ranking['3.4, CS-G-OMP above No-Whiten']['share']:.0%} on ranking data",
            ranking["3.4, CS-G-OMP above No-Whiten"]["share"] < 0.7,
        ),
        Claim(
            "figure 3.5",
            "hu_linear",
            "FR ≥ OMP ≥ Single and Sparse in explained variance, accuracy and NDCG@5",
            SHAPE,
            f"FR ahead of OMP at {fields[fr]['share']:.0%} and {ranking[fr]['share']:.0%} of the budgets, OMP of Single at "
            f"{fields[single]['share']:.0%} and {ranking[single]['share']:.0%}; by NDCG@5 at "
            f"{ranking[fr + ', NDCG@5']['share']:.0%} and {ranking[single + ', NDCG@5']['share']:.0%}",
            fields[fr]["share"] > 0.8 > 0.6 > ranking[single]["share"],
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


CLAIMS = [*hu_linear(), *hu_networks_streams_growth()]
