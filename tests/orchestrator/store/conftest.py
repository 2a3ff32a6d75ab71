"""A store on a local S3 server."""

import re

import pytest

from smoothsweep.orchestrator.store.manifests import CACHE_VARIABLE
from tests.s3 import BUCKET, s3_server


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
