"""The made-up report, summarised."""

import pytest

from smoothsweep.orchestrator.reading.numbers.summary import summarise


@pytest.fixture(scope="session")
def summary(make_data):
    return summarise(make_data())
