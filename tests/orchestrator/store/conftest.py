"""A recorded sweep, whose store the tests copy before they change it; and a store on a local S3 server."""

import re

import pytest

from smoothsweep.orchestrator.store.manifests import CACHE_VARIABLE
from tests.recorded import recorded
from tests.s3 import BUCKET, s3_server


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    return recorded(tmp_path_factory.mktemp("lab"))


@pytest.fixture(scope="module")
def server():
    with s3_server() as environment:
        yield environment


@pytest.fixture
def s3(server, monkeypatch, tmp_path, request):
    """The server's environment, an empty mirror, and a prefix of the test's own: its URL."""
    for name, value in {**server, CACHE_VARIABLE: str(tmp_path / "cache")}.items():
        monkeypatch.setenv(name, value)
    return f"s3://{BUCKET}/{re.sub(r'[^a-z0-9_]+', '-', request.node.name)}"
