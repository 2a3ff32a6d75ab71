"""What a store on S3 costs beside a local one: planning by listing, and the stages of a tiny trial.

python -m benchmarks.remote_store

The server is moto's on this machine, in Python and without a disk: rates are its own, ratios an upper bound for a
service nearby and no measure of one far away.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import yaml

from benchmarks.many_recipes import ATTACKS, many_recipes

BUCKET, TRIALS, SEEDS = "bench", 10_000, 5


def measure() -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="smoothsweep-bench-") as folder, _server(Path(folder)):
        return {**_plan(Path(folder)), **_stages(Path(folder))}


@contextmanager
def _server(folder: Path) -> Generator[None]:
    import logging

    import boto3
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    os.environ.update(
        AWS_ENDPOINT_URL=f"http://{host}:{port}",
        AWS_ACCESS_KEY_ID="x",
        AWS_SECRET_ACCESS_KEY="x",
        AWS_REGION="us-east-1",
        AWS_EC2_METADATA_DISABLED="true",
        SMOOTHSWEEP_CACHE=str(folder / "cache"),
    )
    client = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"], region_name="us-east-1")
    client.create_bucket(Bucket=BUCKET)
    try:
        yield
    finally:
        server.stop()


def _plan(folder: Path) -> dict[str, float]:
    """A grid of which every stage is in the store: what `plan` lists and reads beside its own arithmetic."""
    from smoothsweep.orchestrator.planning.plan import make_plan, plan_summary
    from smoothsweep.orchestrator.planning.trials import trials_of
    from smoothsweep.orchestrator.store.local import LocalStore
    from smoothsweep.orchestrator.store.opening import open_store
    from smoothsweep.sweeps.load import load_sweep

    alphas = [round(-0.0001 * i, 4) for i in range(TRIALS // SEEDS // len(ATTACKS))]
    settings = many_recipes(alphas, seeds=SEEDS)
    (folder / "plan.yaml").write_text(yaml.safe_dump(settings))
    trials = trials_of(load_sweep(folder / "plan.yaml", []))
    started = time.perf_counter()
    plan = make_plan(trials, LocalStore(root=folder / "none"))
    local = time.perf_counter() - started
    _fill(plan.stages)
    store = open_store(f"s3://{BUCKET}/plan")
    started = time.perf_counter()
    plan = make_plan(trials, store)
    listed = time.perf_counter() - started
    assert not plan.missing
    started = time.perf_counter()
    plan_summary(plan, store)
    summed = time.perf_counter() - started
    started = time.perf_counter()
    plan_summary(plan, store)
    return {
        "stages": len(plan.stages),
        "plan_nothing_local_s": local,
        "plan_all_there_s3_s": listed,
        "history_first_time_s": summed,
        "history_from_the_mirror_s": time.perf_counter() - started,
    }


def _fill(stages: list) -> None:
    """Manifests straight into the server's memory: putting 60,000 objects by HTTP would take longer than all else."""
    from moto.s3.models import s3_backends

    (account,) = [account for account in s3_backends if BUCKET in s3_backends[account]["aws"].buckets]
    backend = s3_backends[account]["aws"]
    for stage in stages:
        manifest = {
            **stage.identity(),
            "seconds": 1.0,
            "device": "cpu",
            "files": {},
            "attempt": "a.1.b",
            "inputs": {name: {"stage": s.name, "fingerprint": s.fingerprint} for name, s in stage.inputs.items()},
        }
        key = f"plan/{stage.name}/{stage.fingerprint}/manifest.json"
        backend.put_object(BUCKET, key, json.dumps(manifest).encode())


def _stages(folder: Path) -> dict[str, float]:
    """One trial of a sweep of seconds, in this process: wall clock on s3 over wall clock on the disk."""
    from smoothsweep.orchestrator.planning.trials import trials_of
    from smoothsweep.orchestrator.scheduling.execute import execute_with_inputs
    from smoothsweep.orchestrator.store.opening import open_store
    from smoothsweep.sweeps.load import load_sweep
    from tests.tiny import write_tiny

    (trial, *_) = trials_of(load_sweep(write_tiny(folder), []))
    seconds = {}
    for name, where in (("warm-up", folder / "0"), ("local", folder / "1"), ("s3", f"s3://{BUCKET}/stages")):
        store = open_store(str(where))
        store.open_for_writing()
        started = time.perf_counter()
        for stage in trial.stages:
            execute_with_inputs(store, stage)
        seconds[name] = time.perf_counter() - started
    return {
        "tiny_trial_local_s": seconds["local"],
        "tiny_trial_s3_s": seconds["s3"],
        "tiny_trial_ratio": seconds["s3"] / seconds["local"],
    }


def main() -> None:
    for name, value in measure().items():
        print(f"{name:<40} {value:10.3f}")


if __name__ == "__main__":
    main()
