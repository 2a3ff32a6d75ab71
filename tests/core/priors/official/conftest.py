"""A file that hostile pickles are written to, and what they need to be loaded first."""

import pytest

from smoothsweep.core.priors.official.importer import import_prior
from tests.core.priors.official.hostile_files import valid


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return tmp_path_factory.mktemp("hostile") / "network.pkl"


@pytest.fixture(scope="module")
def warm(file):
    """What torch and our networks import at their first use is imported before anybody watches."""
    file.write_bytes(valid(4))
    import_prior(file)
