"""A finished sweep that is shared: written once, read by all."""

import pytest

from tests.shared_sweep import made_shared


@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    return made_shared(tmp_path_factory.mktemp("shared"))
