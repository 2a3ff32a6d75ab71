"""Where a run comes from: its data sets, its sweep file, the commit and the environment."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
from functools import lru_cache
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from smoothsweep.core.allotted import allotted_cpus
from smoothsweep.core.files import write_file
from smoothsweep.core.plugins import named
from smoothsweep.core.readers.files import read_whole
from smoothsweep.core.tree import TREE
from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.stages.stage import Stage, with_ancestors
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.loaded import LoadedSweep
from smoothsweep.sweeps.yaml_reader import MAX_BYTES, as_yaml

DIGEST = 32  # hex digits of the stage's fingerprint; MLflow takes at most 36 characters


def dataset_inputs(trial: Trial, store: Store) -> list[Any]:
    """Data sets of the trial's finished stages, each in its context: training, public, attack.

    The digest is the stage's fingerprint, so equal digests are equal images; the source is where they lie.
    """
    stages = with_ancestors(trial.stages)
    private = [stage.inputs["data"] for stage in trial.stages if stage.name in ("target", "imported")]
    public = [stage for stage in stages if stage.name == "public"]
    pools = [stage for stage in stages if stage.name == "pool"]
    datasets = []
    for context, members in (("training", private), ("public", public), ("attack", pools)):
        datasets += [_input(stage, store, context) for stage in dict.fromkeys(members) if store.has(stage)]
    return datasets


def _input(stage: Stage, store: Store, context: str) -> Any:
    from mlflow.entities import Dataset, DatasetInput, InputTag

    manifest = store.manifest(stage)
    facts = {key: int(value) if float(value).is_integer() else value for key, value in manifest["metrics"].items()}
    dataset = Dataset(
        name=_name(stage),
        digest=stage.fingerprint[:DIGEST],
        source_type="local",
        source=json.dumps({"uri": str(store.place(stage))}),
        schema=json.dumps(_schema(stage)),
        profile=json.dumps({**facts, "seconds": manifest["seconds"]}),
    )
    return DatasetInput(dataset, [InputTag("mlflow.data.context", context)])


def _name(stage: Stage) -> str:
    """`synthetic, private`, `synthetic, public`, `candidate pool of eigenfaces`."""
    if stage.name == "pool":
        return f"candidate pool of {stage.inputs['prior'].config['kind']}"
    return f"{stage.config.get('kind', stage.name)}, {'private' if stage.name == 'data' else 'public'}"


def _schema(stage: Stage) -> dict[str, Any]:
    """Images as MLflow describes tensors; labels where there are any."""
    side = stage.config.get("image_size" if stage.name == "pool" else "size", -1)
    images = {"type": "tensor", "tensor-spec": {"dtype": "uint8", "shape": [-1, 3, side, side]}}
    if stage.name != "data":
        return {"mlflow_tensorspec": {"features": json.dumps([images]), "targets": None}}
    labels = {"type": "tensor", "tensor-spec": {"dtype": "int64", "shape": [-1]}}
    return {"mlflow_tensorspec": {"features": json.dumps([images]), "targets": json.dumps([labels])}}


SHOWN = ("torch", "torchvision", "ray", "mlflow", "optuna", "numpy")


def commit() -> str | None:
    """The full commit of this source tree, None where there is no git."""
    if not (TREE / ".git").exists() or not shutil.which("git"):
        return None
    git = subprocess.run(["git", "-C", str(TREE), "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return git.stdout.strip() if git.returncode == 0 else None


def provenance_tags() -> dict[str, str]:
    """Commit and the versions that matter, as tags of the sweep's run."""
    tags = {"smoothsweep.python": platform.python_version(), "smoothsweep.platform": platform.platform()}
    here = {name.lower(): version for name, version in _installed().items()}
    tags.update({f"smoothsweep.{name}": here[name] for name in SHOWN if name in here})
    head = commit()
    return {**tags, **({"mlflow.source.git.commit": head} if head else {})}


def write_provenance(loaded: LoadedSweep, folder: Path) -> None:
    """sweep/ (the file as given; as run, overrides and defaults filled in) and environment/."""
    sweep, environment = folder / "sweep", folder / "environment"
    sweep.mkdir(parents=True)
    environment.mkdir(parents=True)
    sweep_file = Path(loaded.source)
    if sweep_file.is_file():
        write_file(sweep / "as_given.yaml", read_whole(sweep_file, most_bytes=MAX_BYTES), flush=False)
    for name, content in (("with_overrides", loaded.raw), ("resolved", loaded.sweep.model_dump(mode="json"))):
        write_file(sweep / f"{name}.yaml", as_yaml(content), flush=False)
    facts = {**provenance_tags(), "machine": platform.machine(), "cpus": allotted_cpus(), "host": platform.node()}
    write_file(environment / "environment.json", json.dumps(facts, indent=1), flush=False)
    packages = sorted((f"{name}=={version}" for name, version in _installed().items()), key=str.lower)
    write_file(environment / "packages.txt", "\n".join(packages) + "\n", flush=False)


@lru_cache(maxsize=1)
def _installed() -> dict[str, str]:
    """Name -> version of every distribution, the first on the path of each name: each is a file to be parsed."""
    return dict(told for one in reversed(list(distributions())) if (told := named(one)) is not None)
