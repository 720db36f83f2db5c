"""Where the built site is: the folder that `sphinx-build` wrote, named by `DPINFER_SITE`."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def site():
    folder = os.environ.get("DPINFER_SITE")
    if not folder:
        pytest.skip("set DPINFER_SITE to the folder of the built documentation site")
    return Path(folder).resolve()
