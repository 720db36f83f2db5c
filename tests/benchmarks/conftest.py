"""Of the timings of each file one is run by default, to see that they run; all are slow tests."""

from pathlib import Path

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    seen = set()
    for item in items:
        if Path(__file__).parent == item.path.parent and "benchmark" in item.fixturenames:
            if "slow" in item.keywords or "study" in item.keywords:
                continue
            if item.path in seen:
                item.add_marker(pytest.mark.slow)
            seen.add(item.path)


@pytest.fixture
def sized(benchmark):
    """A size as it is where times are taken, and a hundredth of it where calls are only tried."""
    return int if benchmark.enabled else lambda size: -(-size // 100)
