"""The picture of the server's page under overload, docs/images/serve.png.

    python benchmarks/serve_picture.py --data FOLDER

The large forest of ``serving.py`` is served: a calm minute at half of what all its trees can answer, then a
minute at two and a half times as much. Headless Chromium watches, and takes the picture before the second minute ends.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import anytime as at
from _servers import anytime_server, generator, shoot
from serving import Setting, large_forest

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "serve.png"
CALM, BUSY = 0.5, 2.5  # times the capacity of the whole model
WIDTH = 1240


def judged_forest(setting: Setting) -> tuple[str, Path, Any]:
    """The forest whose file says how often it is right after each tree, on rows that it has not learned from; other rows."""
    import lightgbm as lgb

    _, theirs, rows, labels, worth = large_forest(setting)
    costs = at.FeatureCosts([0.0] * rows.shape[1], unit="trees")
    model = at.make_anytime(lgb.Booster(model_file=theirs), costs=costs, evaluation_cost=1.0, meter="model")
    half = len(rows) // 2
    quality = at.curve(model, rows[:half], labels[:half]).values
    model.plan_ = replace(model.plan_, quality=quality)
    file = setting.folder / "judged.anytime"
    model.save(file)
    return worth["data"], file, rows[half:]


def take(
    address: str, load: ProcessPoolExecutor, rows: Any, rates: list[float], asked: Any
) -> list[dict[str, Any]]:
    """Watch both minutes and take the picture; what the load generator saw in each."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        tab = browser.new_page(
            viewport={"width": WIDTH, "height": 800}, device_scale_factor=1.5, color_scheme=asked.theme
        )
        tab.goto(address)
        waiting = [
            load.submit(shoot, f"{address}predict", rows, rate, asked.seconds, slo=asked.slo_ms / 1e3)
            for rate in rates
        ]
        ends = time.monotonic() + 2 * asked.seconds - 3
        tab.wait_for_timeout(1e3 * (ends - time.monotonic()))
        charts = tab.locator(".columns").bounding_box()
        frame = {"x": 0, "y": 0, "width": WIDTH, "height": charts["y"] + charts["height"] + 20}
        tab.screenshot(path=asked.output, full_page=True, clip=frame)
        browser.close()
    return [run.result() for run in waiting]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "--data", default=os.environ.get("ANYTIME_DATA"), help="folder of the public data sets; else digits"
    )
    parser.add_argument("--output", type=Path, default=PICTURE)
    parser.add_argument("--seconds", type=float, default=58.0, help="of each of the two minutes")
    parser.add_argument("--slo-ms", type=float, default=10.0)
    parser.add_argument("--theme", choices=["light", "dark"], default="light")
    asked = parser.parse_args()
    if shutil.which("chromium") is None:
        raise SystemExit("no picture without Chromium: apt-get install chromium")
    with tempfile.TemporaryDirectory() as folder, generator() as load:
        setting = Setting(Path(folder), asked.data, 4.0, 0.0, 0.0, load)
        name, file, rows = judged_forest(setting)
        with anytime_server(file, slo_ms=0, name=name) as server:
            capacity = setting.pound(server.predict, rows, setting.seconds)
        print(f"all trees: {capacity:.0f} requests per second")
        with anytime_server(file, slo_ms=asked.slo_ms, name=name) as server:
            seen = take(f"{server.root}/", load, rows, [CALM * capacity, BUSY * capacity], asked)
    for line in seen:
        print({key: line[key] for key in ("offered_rps", "rps", "within_slo", "p50_ms", "p99_ms", "errors")})
    print(f"{asked.output}: {asked.output.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
