"""Which code made an artifact."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tomllib
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

from smoothsweep.core.tree import TREE

CODE_VERSION_VARIABLE = "SMOOTHSWEEP_CODE_VERSION"


def released_version() -> str:
    """The version of the package: of the sources beside us where they say it, else of what is installed."""
    project = TREE / "pyproject.toml"
    if project.is_file():
        return str(tomllib.loads(project.read_text(encoding="utf-8"))["project"]["version"])
    return version("smoothsweep")


def code_version() -> str:
    """The commit of this source tree (with + when changed), or a digest of the sources where there is no git."""
    return os.environ.get(CODE_VERSION_VARIABLE) or version_of_tree(TREE)


@lru_cache(maxsize=1)
def version_of_tree(tree: Path) -> str:
    """As `code_version`, of any tree."""
    if (tree / ".git").exists() and shutil.which("git"):
        command = ["git", "-C", str(tree), "describe", "--always", "--dirty=+", "--abbrev=12"]
        described = subprocess.run(command, capture_output=True, text=True, check=False)
        if described.returncode == 0:
            return described.stdout.strip()
    digest = hashlib.sha256()
    for room in ("core", "tasks", "sweeps", "orchestrator"):
        for path in sorted((tree / room).rglob("*.py")):
            digest.update(path.relative_to(tree).as_posix().encode() + b"\0" + path.read_bytes())
    return f"source-{digest.hexdigest()[:12]}"
