"""The made-up report, summarised."""

import pytest

from smoothsweep.orchestrator.result.summary import summarise
from smoothsweep.orchestrator.result.sweep_result import result_of


@pytest.fixture(scope="session")
def summary(make_data):
    return summarise(make_data())


@pytest.fixture(scope="session")
def result(make_data, summary):
    return result_of(make_data(), summary)
