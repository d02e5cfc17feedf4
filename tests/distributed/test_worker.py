"""Workers, their calls and what a checkpoint goes by, without processes of their own."""

from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import anytime as at
from anytime.boosting.objective import MeanLoss
from anytime.boosting.rounds import GradientRounds
from anytime.distributed import sources
from anytime.distributed.checkpoints import fingerprint
from anytime.distributed.crew import Crew, _Lost
from anytime.distributed.peers import PeerLostError
from anytime.distributed.rows import ClusterRounds, TrainingRowsOfCluster
from anytime.distributed.sources import Stretch, read_table
from anytime.distributed.worker import BoostingPart, Worker
from anytime.losses import training_loss
from anytime.trees.binning import BinnedData
from anytime.trees.growing import TreeGrower

COSTS = at.FeatureCosts([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).bind(6)


@dataclass(frozen=True)
class Held(Stretch):
    """Rows of this process."""

    X: object = None

    def chunks(self):
        yield self.X


@pytest.fixture
def lone(table):
    """A worker with all rows, and boosting on the same rows."""
    X, _, three, _ = table
    data = BinnedData.fit(X)
    settings = {"learning_rate": 0.1, "rows": None, "costs": COSTS, "bought": None}
    objective = MeanLoss(training_loss("multinomial"), three)
    grower, start = TreeGrower(cost_penalty=1e-3), np.zeros(3)
    worker = Worker.__new__(Worker)
    worker.rank, worker.threads = 0, 1
    worker._peers = SimpleNamespace(seconds_waiting=0.0, bytes_sent=0, close=lambda: None)
    worker.take(Held(len(X), X))
    worker.bin(data.native.columns())
    worker.aim(objective)
    rows = settings.pop("rows")
    worker.start(BoostingPart(grower, start, rows, place=(0, len(X)), judge=None, options=settings))
    return worker, GradientRounds(data, objective, grower, start, **settings)


def test_catching_up_twice_adds_the_rounds_once(lone):
    worker, boosting = lone
    boosting.run(2)
    for _ in range(2):
        worker.catch_up(boosting.rounds)
        np.testing.assert_array_equal(worker._boosting.scores, boosting.scores)


def test_a_round_that_lost_a_peer_halfway_has_bought_nothing(lone, monkeypatch):
    worker, boosting = lone
    grow, calls = TreeGrower.grow_newton, []

    def grown(self, *arguments, **options):
        calls.append(1)
        if len(calls) == 3:  # of the first round's three trees, the last
            raise PeerLostError("gone")
        return grow(replace(self, peers=None), *arguments, **options)

    monkeypatch.setattr(TreeGrower, "grow_newton", grown)
    peers = worker._peers
    with pytest.raises(PeerLostError):
        worker.round(0)
    assert not worker._boosting.bought.any()
    worker._peers = peers
    worker.round(0)
    monkeypatch.undo()
    boosting.round()
    assert boosting.bought.any()
    np.testing.assert_array_equal(worker._boosting.bought, boosting.bought)
    np.testing.assert_array_equal(worker._boosting.scores, boosting.scores)


def test_a_checkpoint_goes_by_prices_and_by_where_one_part_ends():
    assert fingerprint(COSTS) == fingerprint(at.FeatureCosts([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).bind(6))
    assert fingerprint(COSTS) != fingerprint(at.FeatureCosts([1.0, 2.0, 3.0, 4.0, 5.0, 7.0]).bind(6))
    assert fingerprint("ab", "c") != fingerprint("a", "bc")
    assert fingerprint([1], [2]) != fingerprint([1, 2])
    assert fingerprint(None) != fingerprint("None")


def resumed(n_rounds, losses):
    """Boosting that has taken over rounds of a checkpoint; it counts further ones in ``done``."""
    rounds = ClusterRounds.__new__(ClusterRounds)
    rounds.rounds, rounds.losses, rounds._least, rounds.cut_short = [[]] * n_rounds, losses, 0, False
    rounds.tolerance, rounds._checkpoint = 0.0, SimpleNamespace(keep=lambda *_, **options: None)
    rounds.done = []

    def round_():
        rounds.done.append(1)
        rounds.rounds = [*rounds.rounds, []]
        if losses:
            rounds.losses = [*rounds.losses, 9.0]
        return True

    rounds.round = round_
    return rounds


def test_a_fit_that_goes_on_keeps_to_its_number_of_rounds_its_patience_and_its_time():
    fewer = resumed(5, [6.0, 5.0, 4.0, 3.0, 2.0, 1.0])
    fewer.run(3)
    assert (len(fewer.rounds), len(fewer.losses), fewer.best, len(fewer.done)) == (3, 4, 3, 0)
    more = resumed(5, [])
    more.run(8)
    assert (len(more.rounds), len(more.done)) == (8, 3)
    patient = resumed(4, [5.0, 4.0, 4.5, 4.5, 1.0])
    patient.run(9, 2)  # an undisturbed fit would have ended after the third
    assert (len(patient.rounds), patient.best, len(patient.done)) == (3, 1, 0)
    late = resumed(4, [])
    late.run(9, None, lambda: True)
    assert late.cut_short
    assert not late.done


def test_more_rows_than_native_code_counts_are_refused():
    class Rows:
        def __len__(self):
            return 2**31

    with pytest.raises(ValueError, match="2147483648 rows"):
        TrainingRowsOfCluster(Rows(), (), 255, 1).cuts  # noqa: B018


def test_the_index_of_a_pandas_table_is_no_feature(tmp_path):
    pytest.importorskip("pyarrow", reason="needs pyarrow")
    frame = pd.DataFrame({"a": [1.0, 2.0], "label": [0, 1]}, index=[7, 3])
    frame.to_parquet(tmp_path / "rows.parquet")
    table = read_table(tmp_path)
    assert table.names == ("a", "label")
    assert table.without(["label", "__index_level_0__"]).names == ("a",)


def test_infinite_values_of_files_are_refused_by_their_row(tmp_path):
    pytest.importorskip("pyarrow", reason="needs pyarrow")
    frame = pd.DataFrame({"a": np.zeros(9), "b": np.zeros(9)})
    frame.loc[7, "b"] = -np.inf
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=2)
    part = read_table(tmp_path).part(3, 9)
    with pytest.raises(ValueError, match="row 7, column 'b': the value is infinite"):
        list(part.chunks())
    assert sum(map(len, read_table(tmp_path).part(0, 7).chunks())) == 7


def test_rows_of_files_are_those_of_the_table_however_many_are_read_together(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow", reason="needs pyarrow")
    monkeypatch.setattr(sources, "_ROWS_READ", 40)
    monkeypatch.setattr(sources, "_ROWS_AT_A_TIME", 15)
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"a": random.normal(size=250).astype(np.float32), "b": random.normal(size=250)})
    frame["c"] = pd.array(random.integers(-(2**40), 2**40, 250), dtype="Int64")
    frame["d"] = pd.array(random.random(250) < 0.5, dtype="boolean")
    frame.loc[::7, ["a", "c", "d"]] = pd.NA
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=100)
    chunks = list(read_table(tmp_path).part(30, 230).chunks())
    assert max(map(len, chunks)) == 15
    np.testing.assert_array_equal(np.concatenate(chunks), frame.iloc[30:230].astype(np.float64))


def test_a_file_is_decoded_a_column_at_a_time(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow")
    frame = pd.DataFrame(
        np.random.default_rng(0).normal(size=(20_000, 20)), columns=list(map(str, range(20)))
    )
    frame.to_parquet(tmp_path / "rows.parquet")
    table = read_table(tmp_path)
    columns = sources._columns(table.pieces[0], table.names, 0, 20_000)
    in_arrow = max(pyarrow.total_allocated_bytes() for _ in columns)
    whole = sources.arrow_of(table.pieces[0], table.names)
    assert in_arrow < whole.nbytes / 5
    assert pyarrow.total_allocated_bytes() >= whole.nbytes  # the negative control


class FakeRay:
    """Calls that have ended, one at a time, each with a result or an error."""

    class exceptions:  # noqa: N801
        """Those of Ray."""

        class RayError(Exception):
            """A worker is gone."""

        class RayTaskError(RayError):
            """A call has failed."""

            def __init__(self, cause):
                self.cause = cause

    def __init__(self):
        self.timeouts = []

    def wait(self, futures, num_returns, timeout):
        self.timeouts.append(timeout)
        return futures[:1], futures[1:]

    def get(self, future):
        if isinstance(future.result, Exception):
            raise future.result
        return future.result


def crew_of(method, *results):
    crew, crew._ray = Crew.__new__(Crew), FakeRay()
    crew.size = len(results)
    crew.workers = [
        SimpleNamespace(**{method: SimpleNamespace(remote=lambda r=result: Future(r))}) for result in results
    ]
    return crew


class Future:
    """What a call gives at once."""

    def __init__(self, result):
        self.result = result


def test_an_error_of_the_rows_is_told_though_a_worker_died_too():
    pytest.importorskip("ray", reason='needs Ray: pip install "anytime[ray]"')
    wrong = FakeRay.exceptions.RayTaskError(ValueError("column 'word' holds string"))
    dead = FakeRay.exceptions.RayError("died")
    with pytest.raises(ValueError, match="column 'word'"):
        crew_of("bin", dead, wrong)._called("bin", [()] * 2)
    with pytest.raises(_Lost):
        crew_of("bin", dead, 1)._called("bin", [()] * 2)


@pytest.mark.parametrize(("method", "timeout"), [("bin", None), ("round", 15.0)])
def test_only_calls_that_wait_for_peers_have_a_time_to_notice_a_loss(method, timeout):
    pytest.importorskip("ray", reason='needs Ray: pip install "anytime[ray]"')
    crew = crew_of(method, FakeRay.exceptions.RayError("died"), 1)
    with pytest.raises(_Lost):
        crew._called(method, [()] * 2)
    assert crew._ray.timeouts == [None, timeout]
