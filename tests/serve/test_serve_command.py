"""``anytime serve``: what it takes, what it prints, and what it says when something is wrong."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys

import pytest

from anytime.cli.serve import _named
from anytime.serve.settings import Settings
from tests.cli.running import fails, run
from tests.serve.serving import classifier, running, saved, table


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
        assert "/predict" in rest
        requests = [line for line in server.said() if line["message"] == "request"]
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
        ({"drain": -1.0}, "drain must be a number of seconds that is not negative"),
        ({"drain": float("nan")}, "drain must be a number of seconds that is not negative"),
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
