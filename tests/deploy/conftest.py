"""The cluster's files, as their parsers read them."""

import pytest
import yaml

from tests.cluster_files import on_node


@pytest.fixture(scope="module")
def launcher(repository):
    return yaml.safe_load((repository / "cluster.yaml").read_text())


@pytest.fixture(scope="module")
def manifest(repository):
    parts = list(yaml.safe_load_all((repository / "deploy" / "kuberay-rayjob.yaml").read_text()))
    assert len({part["kind"] for part in parts}) == len(parts)
    return {part["kind"]: part for part in parts}


@pytest.fixture(scope="module")
def node(launcher, tmp_path_factory):
    """A home folder after the set-up's first command, with a `ray` that tells what it was called with."""
    home = tmp_path_factory.mktemp("home")
    stub = home / "venv" / "bin" / "ray"
    stub.parent.mkdir(parents=True)
    stub.write_text('#!/bin/sh\nenv\nprintf "argument=%s\\n" "$@"\n')
    stub.chmod(0o755)
    on_node(home, launcher["setup_commands"][0])
    return home
