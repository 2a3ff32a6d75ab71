"""The tiny trials that the tests of tasks share."""

import pytest
from pipeline import Pipeline, made_pipeline


@pytest.fixture(scope="session")
def paper(tmp_path_factory) -> Pipeline:
    return made_pipeline(tmp_path_factory.mktemp("paper"), "paper")


@pytest.fixture(scope="session")
def clean(tmp_path_factory) -> Pipeline:
    return made_pipeline(tmp_path_factory.mktemp("clean"), "clean")


@pytest.fixture(params=["paper", "clean"])
def pipeline(request) -> Pipeline:
    return request.getfixturevalue(request.param)
