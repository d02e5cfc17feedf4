"""``anytime serve``: what it takes, what it prints, and what it says when something is wrong."""

from __future__ import annotations

import json
import shlex
import signal
import socket
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import anytime as at
from anytime.cli.serve import _hint, _named
from anytime.serve.settings import Settings
from tests.cli.running import fails, run
from tests.serve.serving import application, classifier, post, regressor, running, saved, table, with_words


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return saved(tmp_path_factory.mktemp("command"), patients=classifier())["patients"]


def test_it_prints_where_it_is_and_what_it_serves(tmp_path):
    with running(tmp_path, "--slo-ms", 250, "--token", "sesame", "--log-requests") as server:
        assert server.request("/predict", {"row": [0] * 5})[0] == 401
        row = table()[0].to_numpy()[0].tolist()
        status, answer = server.request("/predict", {"row": row}, {"Authorization": "Bearer sesame"})
        assert status == 200
        assert answer["model"] == "patients"
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(20) == 0
        rest = server.process.stdout.read()
        assert "patients: " in rest
        assert "20 stages, 5 columns" in rest
        assert "curl" in rest
        assert "-H 'Authorization: Bearer TOKEN' -d '{\"row\": [0, 0, 0, 0, 0]}'" in rest
        assert "sesame" not in rest
        requests = [line for line in server.said() if line["message"] == "request"]
        last = server.said()[-1]
        assert [last[name] for name in ("message", "requests", "refused", "failed")] == ["stopped", 1, 1, 0]
        assert {line["status"] for line in requests} >= {200, 401}
        assert "sesame" not in server.log.read_text()


def test_errors_are_one_line(file, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert f"port {port} of 127.0.0.1 is taken; choose another" in fails("serve", file, "--port", port)
    assert fails("serve", tmp_path / "nix.anytime") == f"{tmp_path / 'nix.anytime'}: no such file"
    assert "is a directory" in fails("serve", tmp_path)
    assert "two models are called 'patients'" in fails("serve", file, file, code=2)
    assert "log_level must be one of" in fails("serve", file, "--log-level", "loud", code=2)
    assert "cannot be a model's name" in fails("serve", f"a/b={file}", code=2)
    assert "token must be of printable ASCII" in fails("serve", file, "--token", "a b", code=2)
    assert "cannot listen at no.such.host.invalid" in fails(
        "serve", file, "--host", "no.such.host.invalid", "--port", 0
    )
    broken = tmp_path / "broken.anytime"
    broken.write_bytes(b"no model")
    assert "broken.anytime" in fails("serve", broken, "--port", 0)
    assert "features.py: no such file" in fails("serve", file, "--features", tmp_path / "features.py")
    for options in (("--max-workers", 2), ("--ray", "--workers", 3, "--max-workers", 2)):
        assert "--max-workers needs --ray" in fails("serve", file, *options, code=2)


def test_without_ray_it_says_what_to_install(file, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray.serve", None)
    assert "pip install 'anytime[ray,serve]'" in fails("serve", file, "--ray")


_LIGHT = """
import sys
from anytime.cli.app import app
for arguments in sys.argv[1:]:
    try:
        app(arguments.split("|"), prog_name="anytime")
    except SystemExit as ended:
        assert ended.code in (1, 2), ended.code
print(sorted({"numpy", "sklearn", "uvicorn", "fastapi"} & set(sys.modules)))
"""


def test_what_arguments_and_files_show_is_said_before_anything_is_imported(file, tmp_path):
    wrong = [
        ("serve", tmp_path / "nix.anytime"),
        ("serve", tmp_path),
        ("serve", file, file),
        ("serve", file, "--token", "a b"),
        ("serve", file, "--features", tmp_path / "features.py"),
        ("serve", file, "--costly", tmp_path / "nix.anytime"),
        ("simulate", "--model", file),
        ("simulate", "--model", file, "--rate", "9", "--target", "label"),
        ("simulate", "--model", tmp_path / "nix.anytime", "--rate", "9"),
        ("simulate", "--model", tmp_path, "--rate", "9"),
        ("simulate", "--model", file, tmp_path / "log.csv"),
    ]
    command = [sys.executable, "-c", _LIGHT, *("|".join(map(str, arguments)) for arguments in wrong)]
    outcome = subprocess.run(command, capture_output=True, text=True, check=True)
    assert outcome.stdout == "[]\n"
    assert len(outcome.stderr.splitlines()) == len(wrong)


def pasted(line):
    """What a shell would send for a line of the kind ``try: curl ADDRESS -d BODY``."""
    words = shlex.split(line.removeprefix("  try: "))
    assert words[0] == "curl"
    assert words[-2] == "-d"
    return json.loads(words[-1])


def test_the_line_to_try_can_be_pasted(tmp_path):
    X, y = table()
    wards = np.where(X["age"] > 0, "St. Mary's", "other")
    quoted = at.GradientBoostingClassifier(n_estimators=5).fit(X.assign(ward=pd.Categorical(wards)), y)
    for models in (
        {"patients": classifier()},
        {"words": with_words()},
        {"quoted": quoted},
        {"value": regressor(), "patients": classifier()},
    ):
        server = application(tmp_path, models)
        line = _hint(server, "http://127.0.0.1:8000")
        answer = post(server, "/predict", pasted(line))
        assert answer.status_code == 200, line
        assert answer.json()["model"] == next(iter(models))


def test_a_line_that_would_be_long_gives_way_to_the_page(tmp_path):
    X = np.random.default_rng(0).normal(size=(50, 60))
    wide = at.GradientBoostingRegressor(n_estimators=3)
    address = "http://127.0.0.1:8000"
    fits = application(tmp_path, {"m": wide.fit(X[:, :40], X[:, 0])})
    assert len(pasted(_hint(fits, address))["row"]) == 40
    too_many = application(tmp_path, {"m": wide.fit(X, X[:, 0])})
    assert _hint(too_many, address) == f"  open {address}/ in a browser to try it"


def test_files_are_named_by_themselves_or_by_who_starts_the_server(file, tmp_path):
    folder = tmp_path / "seed=1"
    folder.mkdir()
    odd = saved(folder, patients=classifier())["patients"]
    assert _named([str(odd), f"others={file}"]) == {"patients": odd, "others": file}


def test_wide_models_are_refused_by_a_limit(file):
    assert "has 5 columns; max_columns is 4" in fails("serve", file, "--port", 0, "--max-columns", 4)


def test_features_that_cannot_be_used_are_refused_at_the_start(file, tmp_path):
    features = tmp_path / "features.py"
    features.write_text("x = 1\n")
    assert "has to set features" in fails("serve", file, "--port", 0, "--features", features)


def test_help_shows_an_example():
    assert "Example: anytime serve heart.anytime --slo-ms 10" in run("serve", "--help").stdout


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"models": {}}, "between 1 and 64 models"),
        ({"slo": 0.0}, "slo must be a positive number"),
        ({"slo": float("inf")}, "slo must be a positive number"),
        ({"workers": 0}, "workers must be at least 1"),
        ({"port": 70_000}, "port must be between"),
        ({"token": ""}, "token must not be empty"),
        ({"max_rows": 0}, "max_rows must be at least 1"),
        ({"drain": -1.0}, "drain must be a non-negative number of seconds"),
        ({"drain": float("nan")}, "drain must be a non-negative number of seconds"),
        ({"models": {"stats": "m.anytime"}}, "'stats' cannot be a model's name"),
    ],
)
def test_settings_are_checked(file, wrong, sentence):
    with pytest.raises(ValueError, match=sentence):
        Settings(**{"models": {"m": file}, **wrong})


def test_a_token_is_not_shown(file):
    assert "sesame" not in repr(Settings(models={"m": file}, token="sesame"))


_WITHOUT = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"fastapi", "starlette", "uvicorn", "uvloop", "httptools", "orjson", "prometheus_client"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name.partition(".")[0])
sys.meta_path.insert(0, Missing())
import anytime.serve.pace, anytime.serve.policy, anytime.serve.simulate, anytime.serve.settings
sys.argv = ["anytime", "serve", sys.argv[1]]
from anytime.cli import main
main()
"""


def test_without_the_packages_for_serving_it_says_what_to_install(file):
    """What needs none of them, such as the policy and the simulator, can be imported all the same."""
    outcome = subprocess.run(
        [sys.executable, "-c", _WITHOUT, str(file)], capture_output=True, text=True, check=False
    )
    assert outcome.returncode == 1
    assert "is not installed: pip install 'anytime[serve]'" in outcome.stderr
    assert len(outcome.stderr.splitlines()) == 1
