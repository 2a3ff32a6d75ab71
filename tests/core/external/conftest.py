"""What several tests of foreign models ask."""

import pytest

from smoothsweep.core.external.named import KeptAnswers
from tests.made_raw_endpoint import raw_server


@pytest.fixture(scope="module")
def server():
    with raw_server() as made:
        yield made


@pytest.fixture
def kept(tmp_path):
    found = KeptAnswers(tmp_path / "kept.sqlite")
    found.agree(queries=1000, per_second=1e6)
    return found
