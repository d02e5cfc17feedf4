"""Two machines that follow docs/distributed.md: the same file, also when one of them dies, and what a network costs.

    sudo python benchmarks/two_nodes.py            # Linux: each machine is a set of namespaces of this kernel

A machine here has processes, a network address, a /tmp and a /dev/shm of its own; a cable of a given rate joins the two. They
share the processors and a folder. Commands and program are read from the page; only the name of the shared folder is another one.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pandas as pd

import anytime as at

PAGE = Path(__file__).parents[1] / "docs" / "distributed.md"
CABLES = {"without a limit": None, "1 Gbit/s": "1gbit"}

DYING = """
import sys, numpy as np, anytime as at
model = at.GradientBoostingClassifier(n_estimators=300)
with at.distributed.cluster("auto", workers=2) as cluster:
    cluster.crew
    print("fitting", flush=True)
    model.fit(sys.argv[1] + "/rows", "label")
    print(cluster.crew.n_losses, "lost")
model.save(sys.argv[1] + "/model.anytime")
"""

TIMED = """
import sys, json, numpy as np, anytime as at
with at.distributed.cluster("auto", workers=2) as cluster:
    for _ in range(2):
        at.GradientBoostingClassifier(n_estimators=12).fit(sys.argv[1] + "/rows", "label")
    hosts = cluster.crew.together("address", [()] * 2)
    rounds = [max(r.busy_seconds + r.waiting_seconds for r in of_round) for of_round in cluster.reports[2:]]
    sent = [sum(r.bytes_sent for r in of_round) for of_round in cluster.reports]
machines, seconds, size = len({host for host, _ in hosts}), float(np.median(rounds)), float(np.mean(sent))
print(json.dumps({"machines": machines, "seconds_per_tree": seconds, "bytes_per_tree": size}))
"""


class Node:
    """A machine: namespaces that a sleeping process holds. When that process is killed, so is everything on the machine."""

    def __init__(self, name: str, folder: Path) -> None:
        self.environment: dict[str, str] = {}
        self.folder = folder / name  # which is its /tmp, and its home
        self.folder.mkdir()
        inside = (
            f"mount --bind {self.folder} /tmp && mount -t tmpfs tmpfs /dev/shm && hostname {name} && "
            "ip link set lo up && exec sleep infinity"
        )
        kinds = ["--mount", "--pid", "--net", "--uts", "--ipc"]
        self._holder = subprocess.Popen(
            ["unshare", *kinds, "--fork", "--kill-child", "--mount-proc", "sh", "-c", inside]
        )
        children = Path(f"/proc/{self._holder.pid}/task/{self._holder.pid}/children")
        while not children.read_text().split():
            time.sleep(0.01)
        self.pid = int(children.read_text().split()[0])
        while "sleep" not in Path(f"/proc/{self.pid}/cmdline").read_text():
            time.sleep(0.01)
        self._enter = ["nsenter", "-t", str(self.pid), "--mount", "--pid", "--net", "--uts", "--ipc"]

    def start(self, *command: str) -> subprocess.Popen[str]:
        """Begin a command on the machine."""
        return subprocess.Popen(
            [*self._enter, *command],
            cwd="/",
            env=os.environ | {"HOME": "/tmp", **self.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *command: str) -> str:
        """What a command says on the machine, once it has ended well."""
        done = self.start(*command)
        said, _ = done.communicate(timeout=300)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)}: {said}")
        return said

    def end(self) -> None:
        """Switch the machine off."""
        if self._holder.poll() is None:
            os.kill(self.pid, signal.SIGKILL)
            self._holder.wait()


def cabled(folder: Path, stack: ExitStack) -> list[Node]:
    """Two machines with the addresses 10.0.0.1 and 10.0.0.2."""
    nodes = [Node(f"node-{number}", folder) for number in (1, 2)]
    for node in nodes:
        stack.callback(node.end)
    ends = [f"any{os.getpid()}{end}" for end in "ab"]
    subprocess.run(["ip", "link", "add", ends[0], "type", "veth", "peer", "name", ends[1]], check=True)
    for number, (node, end) in enumerate(zip(nodes, ends, strict=True), 1):
        subprocess.run(["ip", "link", "set", end, "netns", str(node.pid), "name", "eth0"], check=True)
        node.run("ip", "addr", "add", f"10.0.0.{number}/24", "dev", "eth0")
        # the address stays when the other machine, and with it the cable, is gone
        node.run("ip", "addr", "add", f"10.0.0.{number}/32", "dev", "lo")
        node.run("ip", "link", "set", "eth0", "up")
    for number, node in enumerate(nodes, 1):  # Ray asks the way out for the address of the machine
        node.run("ip", "route", "add", "default", "via", f"10.0.0.{3 - number}")
    return nodes


def program_after_the_commands(first: Node, second: Node) -> str:
    """Do what the page tells the machines of a cluster to do, but for the installation; the program that then runs on one."""
    section = PAGE.read_text().split("## Several machines\n")[1].split("\n## ")[0]
    console, program = re.findall(r"```(?:console|text)\n(.*?)```", section, re.DOTALL)[:2]
    for command, who in re.findall(r"^\$ (.*?)  +# (on .*)$", console, re.MULTILINE):
        nodes = {"on every": [first, second], "on the first": [first], "on each of": [second]}
        for node in next(some for beginning, some in nodes.items() if who.startswith(beginning)):
            if command.startswith("export "):
                node.environment |= [command.removeprefix("export ").split("=")]
            elif not command.startswith("pip install"):
                node.run(*command.split())
        if "copy ~/.ray/auth_token" in who:
            shutil.copytree(first.folder / ".ray", second.folder / ".ray")
    return program


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def alone(shared: Path, n_trees: int) -> str:
    rows = pd.concat(map(pd.read_parquet, sorted((shared / "rows").iterdir())))
    model = at.GradientBoostingClassifier(n_estimators=n_trees).fit(rows.drop(columns="label"), rows["label"])
    model.save(shared / "alone.anytime")
    return digest(shared / "alone.anytime")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument(
        "--json", type=Path, default=None, help="a file for the figures, beside those that it has"
    )
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that machines are switched off, too
    os.environ.setdefault("RAY_worker_niceness", "0")
    found: dict[str, object] = {"rows": args.rows}
    with ExitStack() as stack:
        folder = Path(
            stack.enter_context(tempfile.TemporaryDirectory(dir="/var/tmp", ignore_cleanup_errors=True))
        )
        shared = folder / "shared"
        (shared / "rows").mkdir(parents=True)
        _write(shared / "rows", args.rows)
        nodes = cabled(folder, stack)
        program = program_after_the_commands(*nodes)
        for name, node in (("first", nodes[0]), ("second", nodes[1])):
            node.run(sys.executable, "-c", program.replace("/shared", str(shared)))
            found[f"program on the {name}"] = digest(shared / "model.anytime")
            (shared / "model.anytime").unlink()
        found["alone"] = alone(shared, 100)
        found["same"] = (
            len({found[f"program on the {name}"] for name in ("first", "second")} | {found["alone"]}) == 1
        )
        print(
            f"two nodes: the program of the page, run on either, gives the file of one process: {found['same']}",
            flush=True,
        )
        for name, rate in CABLES.items():
            if rate is not None:
                for node in nodes:
                    node.run(
                        *f"tc qdisc replace dev eth0 root tbf rate {rate} burst 1mb latency 50ms".split()
                    )
            said = nodes[0].run(sys.executable, "-c", TIMED, str(shared))
            found[name] = json.loads(said.splitlines()[-1])
            per_tree = 1e3 * found[name]["seconds_per_tree"]
            print(f"two nodes: {args.rows:,} rows, cable {name}: {per_tree:.0f} ms per tree", flush=True)
        fit = nodes[0].start(sys.executable, "-c", DYING, str(shared))
        next(line for line in fit.stdout if "fitting" in line)
        time.sleep(5.0)
        nodes[1].end()
        said, _ = fit.communicate(timeout=300)
        if fit.returncode:
            raise SystemExit(f"the fit did not go on: {said}")
        losses = int(re.search(r"(\d+) lost", said)[1])
        found["death"] = {"losses": losses, "same": digest(shared / "model.anytime") == alone(shared, 300)}
        print(f"two nodes: a machine switched off in the middle of a fit ({losses} losses): {found['death']}")
    if args.json is not None:
        kept = json.loads(args.json.read_text()) if args.json.exists() else {}
        args.json.write_text(json.dumps({**kept, "two_nodes": found}, indent=1) + "\n")


def _write(folder: Path, n: int) -> None:
    random = np.random.default_rng(0)
    for number in range(4):
        X = random.normal(size=(n // 4, 50)).astype(np.float32)
        y = (X[:, 0] * X[:, 1] + X[:, 2] > 0).astype(int)
        pd.DataFrame(X, columns=[f"x{j}" for j in range(50)]).assign(label=y).to_parquet(
            folder / f"{number}.parquet"
        )


if __name__ == "__main__":
    main()
