"""The tiny trials that the tests of tasks share."""

import pytest
from pipeline import Pipeline, made_pipeline

from tests.tasks.settings_tables import made, outcome


@pytest.fixture(scope="session")
def paper(tmp_path_factory) -> Pipeline:
    return made_pipeline(tmp_path_factory.mktemp("paper"), "paper")


@pytest.fixture(scope="session")
def clean(tmp_path_factory) -> Pipeline:
    return made_pipeline(tmp_path_factory.mktemp("clean"), "clean")


@pytest.fixture(params=["paper", "clean"])
def pipeline(request) -> Pipeline:
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="session")
def travels(tmp_path_factory):
    """Asserts that the artifact under the changed configuration is another; what is made of a base is made once."""
    known = {}

    def check(stage, base, changed, inputs):
        key = repr((stage, sorted(base.items()), inputs))
        if key not in known:
            known[key] = outcome(stage, base, inputs, tmp_path_factory.mktemp("before"))
        assert not known[key].startswith("refused"), known[key]
        assert outcome(stage, changed, inputs, tmp_path_factory.mktemp("after")) != known[key]

    return check


@pytest.fixture(scope="session")
def private(tmp_path_factory):
    """A tiny `data` artifact."""
    folder = tmp_path_factory.mktemp("data")
    config = {
        "kind": "synthetic",
        "identities": 3,
        "train_per_class": 6,
        "test_per_class": 2,
        "size": 32,
        "spread": 0.4,
        "seed": 0,
    }
    made("data", config, {}, folder)
    return folder
