"""What the tests of a store on S3 do again and again."""

import os

from benchmarks.sleeping import Sleep
from smoothsweep.orchestrator.store.common.machine import CACHE_VARIABLE
from smoothsweep.orchestrator.store.opening import open_store
from tests.s3 import keys


def other_machine(url, monkeypatch, tmp_path):
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "other"))
    return open_store(url)


def stage(**config):
    return Sleep(config=config)


def fill(store, a_stage, content=b"numbers"):
    draft = store.draft(a_stage)
    (draft / "rows.bin").write_bytes(content)
    return store.commit(a_stage, draft, {"metrics": {"x": 1.0}, "config": dict(a_stage.config), "seconds": 2.0})


def below(url, *parts):
    return keys({"AWS_ENDPOINT_URL": os.environ["AWS_ENDPOINT_URL"]}, "/".join([url.split("/", 3)[3], *parts]))
