"""The bars of training, prediction and serving on a cluster."""

from __future__ import annotations

from common import measured
from report.claims import MET, MISSED, Claim


def claims() -> list[Claim]:
    """What docs/results/cluster.md has measured."""
    found = measured("distributed")
    overhead, kills, killed_tasks, disk = (
        found[name] for name in ("overhead", "kills", "prediction_kills", "disk")
    )
    sizes = sorted(disk.items(), key=lambda size: int(size[0]))
    per_row = [of_size["processor_seconds_per_tree"] / int(n) for n, of_size in sizes]
    change = max((of / per_row[0] - 1 for of in per_row[1:]), key=abs)
    most = max(of_size["all_bytes"] for _, of_size in sizes)
    ours, lightgbm, xgboost = (found["rivals"]["of"][name] for name in ("ours", "lightgbm", "xgboost"))
    seconds = [of["seconds_to_loss"]["processor"] for of in (ours, lightgbm, xgboost)]
    workers = found["model"]["workers"].values()
    of_processor, on_clock = (max(abs(of[off]) for of in workers) for off in ("processor_off", "off"))
    served = measured("serving")["parts"]["ray"]
    return [
        _claim(
            "Two machines that follow the page write the file of one process, byte for byte",
            found["two_nodes"]["same"] and found["two_nodes"]["death"]["same"],
            "two network namespaces, the program run on either; also when one is switched off in the middle of a fit",
        ),
        _claim(
            "Two workers need at most 1.4 times the processor time of a local fit",
            overhead["ratio"] <= 1.4,
            f"{overhead['ratio']:.2f} times",
        ),
        _claim(
            "Bytes on the wire are at most 1.2 times the formula",
            overhead["bytes_per_tree"] <= 1.2 * overhead["formula_bytes"],
            f"{overhead['bytes_per_tree'] / overhead['formula_bytes']:.2f} times",
        ),
        _claim(
            "A worker needs at most its share of the data and 300 MB",
            overhead["peak_bytes"] <= overhead["allowed_bytes"],
            f"{overhead['peak_bytes'] / 1e6:.0f} MB of {overhead['allowed_bytes'] / 1e6:.0f}",
        ),
        _claim(
            "50 trees on 20,000,000 rows in files within 8 GB, time per tree linear in rows within 20 %",
            int(sizes[-1][0]) == 20_000_000 and most <= 8e9 and abs(change) <= 0.2,
            f"{most / 1e9:.1f} GB; processor time per tree and row changes by {change:+.0%} from 5 million rows on",
        ),
        _claim(
            "At equal loss, no slower than LightGBM's distributed training",
            seconds[0] <= seconds[1],
            f"{seconds[0]:.1f} processor seconds, LightGBM {seconds[1]:.1f}, XGBoost {seconds[2]:.1f}",
        ),
        _claim(
            "Batch prediction loses, doubles and changes no row when processes are killed 100 times",
            killed_tasks["wrong"] == 0 and killed_tasks["kills"] >= 100,
            f"{killed_tasks['kills']} kills in {killed_tasks['calls']} call{'s' * (killed_tasks['calls'] > 1)}",
        ),
        _claim(
            "20 fits with a killed worker each write the same file",
            kills["same"] == kills["runs"] == 20,
            f"{kills['same']} of {kills['runs']}",
        ),
        _claim(
            "Batch prediction answers 0.8 times as many rows per processor second as one process",
            found["prediction"]["share"] >= 0.8,
            f"{found['prediction']['share']:.2f} times, Ray's daemons included",
        ),
        _claim(
            "A model of the cost is within 25 % of the measured times of 1 to 4 workers",
            on_clock <= 0.25,
            f"{of_processor:.0%} off at most for processor time, {on_clock:.0%} on the clock of two idle cores",
        ),
        _claim(
            "Ray Serve fails no request at three times its capacity, in a rolling update, nor beyond what a killed worker held",
            served["holds"]["overload_errors"]
            and served["holds"]["kill"]
            and served["holds"]["rolling_update"],
            f"{sum(served[load]['sent'] for load in ('overload', 'kill', 'rolling_update'))} requests, "
            f"{sum(sum(served[load]['errors'].values()) for load in ('overload', 'kill', 'rolling_update'))} failed",
        ),
        _claim(
            "Two workers on Ray Serve answer 99 % of requests within 20 ms at three times their capacity",
            served["holds"]["overload_within"],
            f"{served['overload']['within_slo']:.1%} at {served['overload']['offered_rps']:.0f} requests a second, idle cores",
        ),
    ]


def _claim(text: str, met: bool, number: str) -> Claim:
    return Claim("cluster", "cluster", text, MET if met else MISSED, number)
