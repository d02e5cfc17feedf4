"""A small Ray cluster on this machine, shared by the tests that are marked ``ray`` and ended with them."""

import pytest


@pytest.fixture(scope="session")
def running():
    """Ray, with room for four workers."""
    ray = pytest.importorskip("ray", reason='needs Ray: pip install "anytime[ray]"')
    for attempt in range(5):
        try:
            ray.init(
                address="local",  # whatever RAY_ADDRESS says
                num_cpus=4,
                include_dashboard=False,
                log_to_driver=False,
                object_store_memory=128 << 20,
                logging_level="error",
                _system_config={"worker_niceness": 0},  # else any other program comes before its workers
            )
            break
        except Exception as error:  # Ray gives a node 30 s to start, too little for a very busy machine
            if "timed out during startup" not in str(error) or attempt == 4:
                raise
            ray.shutdown()
    yield ray
    ray.shutdown()
