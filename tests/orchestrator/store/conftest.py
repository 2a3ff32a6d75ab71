"""A recorded sweep, whose store the tests copy before they change it."""

import pytest

from tests.recorded import recorded


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    return recorded(tmp_path_factory.mktemp("lab"))
