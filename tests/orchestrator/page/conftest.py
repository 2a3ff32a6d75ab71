"""The made-up report, summarised."""

import pytest

from smoothsweep.orchestrator.result.summary import summarise


@pytest.fixture(scope="session")
def summary(make_data):
    return summarise(make_data())
