"""`ray job submit` against a head with a token on this machine: which code runs, where results go, what is left."""

import json
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import yaml
from checkout import copy_packages

from tests.ray_head import RAY, inherited, ray_head, status_without_token
from tests.s3 import BUCKET, keys, s3_server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]
TOY = {"experiment": "toy", "name": "toy", "grid": {"alpha": [0.0, -0.05]}}
JOB_S = 400
SMOOTHSWEEP = str(Path(sys.executable).with_name("smoothsweep"))


@pytest.fixture(scope="module")
def head(tmp_path_factory):
    with s3_server() as service:
        cache = tmp_path_factory.mktemp("cache")
        with ray_head({**inherited(), **service, "SMOOTHSWEEP_CACHE": str(cache)}) as head:
            yield head
        deadline = time.monotonic() + 60
        while psutil.pid_exists(head.pid) and time.monotonic() < deadline:
            time.sleep(0.2)
        assert not psutil.pid_exists(head.pid)


@pytest.fixture(scope="module")
def tree(repository, tmp_path_factory):
    """What is shipped: the rooms that run, and a sweep. No git, so its code version is a digest of its sources."""
    folder = tmp_path_factory.mktemp("job") / "tree"
    copy_packages(repository, folder)
    with (folder / "core" / "words.py").open("a") as file:
        file.write("\n# shipped\n")
    (folder / "toy.yaml").write_text(yaml.safe_dump(TOY))
    return folder


def submit(head, tree, name, *entry):
    command = [RAY, "job", "submit", "--working-dir", str(tree), "--submission-id", name, "--", *map(str, entry)]
    return subprocess.run(command, env=head.environment, capture_output=True, text=True, timeout=JOB_S)


def shipped_version(tree):
    program = (
        "import pathlib; from smoothsweep.orchestrator.stages.stage import version_of_tree; "
        "print(version_of_tree(pathlib.Path('.')))"
    )
    return subprocess.run([sys.executable, "-c", program], cwd=tree, capture_output=True, text=True).stdout.strip()


def test_nobody_without_the_token_is_served(head):
    assert status_without_token(head.dashboard) == 401


def test_a_job_runs_the_shipped_code_and_leaves_its_results_in_the_shared_store(head, tree, tmp_path):
    store = tmp_path / "store"
    done = submit(head, tree, "toy-1", sys.executable, "-m", "smoothsweep", "run", "toy.yaml", "--store", store)
    assert done.returncode == 0, done.stdout + done.stderr
    manifests = [json.loads(path.read_text()) for path in store.glob("toy/*/manifest.json")]
    assert len(manifests) == 2 and {m["code_version"] for m in manifests} == {shipped_version(tree)}
    assert (store / "sweeps" / "toy" / "report.html").is_file()
    wider = ["--set", "grid.alpha=[0.0, -0.05, -0.1]"]
    again = submit(head, tree, "toy-2", SMOOTHSWEEP, "run", "toy.yaml", "--store", store, *wider)
    assert again.returncode == 0, again.stdout + again.stderr
    manifests = [json.loads(path.read_text()) for path in store.glob("toy/*/manifest.json")]
    assert len(manifests) == 3 and {m["code_version"] for m in manifests} == {shipped_version(tree)}
    assert "3 stages, 2 already" in again.stdout


def test_a_job_on_s3_needs_no_shared_path(head, tree):
    store = f"s3://{BUCKET}/jobs"
    done = submit(head, tree, "toy-s3", SMOOTHSWEEP, "run", "toy.yaml", "--store", store)
    assert done.returncode == 0, done.stdout + done.stderr
    found = keys(head.environment, "jobs/")
    assert sum(key.endswith("/manifest.json") for key in found) == 2
    assert "jobs/sweeps/toy/report.html" in found and not [key for key in found if "/drafts/" in key or "/work/" in key]


def test_a_failed_job_says_so(head, tree, tmp_path):
    done = submit(head, tree, "toy-bad", SMOOTHSWEEP, "run", "nowhere.yaml", "--store", tmp_path / "store")
    assert done.returncode == 1 and "nowhere.yaml" in done.stdout and not (tmp_path / "store").exists()
