"""The program of docs/distributed.md on a cluster of two nodes ends with the model of one process."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import anytime as at

pytestmark = pytest.mark.ray
PAGE = Path(__file__).parents[2] / "docs" / "distributed.md"
COUNTED = """
from anytime.distributed.crew import Crew
close = Crew.close
Crew.close = lambda crew: (print(crew.size, "workers"), close(crew))
"""


@pytest.fixture
def nodes(running, monkeypatch):
    """A cluster of two nodes beside the one of this process."""
    cluster_utils = pytest.importorskip("ray.cluster_utils", reason="needs Ray's utility for tests")
    options = {"num_cpus": 1, "object_store_memory": 100 << 20}
    cluster = cluster_utils.Cluster(
        initialize_head=True, head_node_args={**options, "include_dashboard": False}
    )
    cluster.add_node(**options)
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    yield cluster
    cluster.shutdown()


def test_the_program_of_the_page_gives_the_model_of_one_process(nodes, tmp_path):
    random = np.random.default_rng(0)
    (tmp_path / "rows").mkdir()
    tables = []
    for number in range(3):
        X = pd.DataFrame(random.normal(size=(400, 4)), columns=list("abcd"))
        tables.append(X.assign(label=(X["a"] * X["b"] > 0).astype(int)))
        tables[-1].to_parquet(tmp_path / "rows" / f"{number}.parquet")
    (program,) = re.findall(r'```text\n([^`]*"/shared/rows"[^`]*)```', PAGE.read_text())
    program = COUNTED + program.replace("/shared", str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, timeout=180, capture_output=True, text=True
    )
    assert "2 workers" in done.stdout  # one for the processor of each node
    rows = pd.concat(tables)
    alone = at.GradientBoostingClassifier(n_estimators=100).fit(rows.drop(columns="label"), rows["label"])
    alone.save(tmp_path / "alone.anytime")
    assert (tmp_path / "model.anytime").read_bytes() == (tmp_path / "alone.anytime").read_bytes()
    assert not list((tmp_path / "checkpoints").iterdir())
