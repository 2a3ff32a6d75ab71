"""What a sweep ran with: its file as given and as resolved, the commit, the environment."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
from functools import lru_cache
from importlib.metadata import distributions
from pathlib import Path

from smoothsweep.core.allotted import allotted_cpus
from smoothsweep.core.files import write_file
from smoothsweep.core.plugins import named
from smoothsweep.core.readers.files import read_whole
from smoothsweep.core.tree import TREE
from smoothsweep.sweeps.loaded import LoadedSweep
from smoothsweep.sweeps.yaml_reader import MAX_BYTES, as_yaml

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
