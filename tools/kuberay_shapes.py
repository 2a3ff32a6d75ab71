"""What KubeRay's custom resources may hold, cut to what our manifests use: `python -m tools.kuberay_shapes CRD... `.

CRD: files ray.io_rayjobs.yaml and ray.io_rayclusters.yaml of a release of ray-project/kuberay. Writes
tests/deploy/kuberay_shapes.json: for each place of our manifests the names that are allowed there, the required ones
and the types. Names and types alone: no text of theirs.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml

REPOSITORY = Path(__file__).resolve().parents[1]
OUT = REPOSITORY / "tests" / "deploy" / "kuberay_shapes.json"
MANIFESTS = ("kuberay-rayjob.yaml", "kuberay-raycluster.yaml")
VERSION = "v1"


def shape(schema: dict[str, Any], example: Any) -> dict[str, Any]:
    """The schema without words, and below only what the example has."""
    kept: dict[str, Any] = {key: schema[key] for key in ("type", "enum", "pattern", "required") if key in schema}
    if schema.get("x-kubernetes-int-or-string"):
        kept["type"] = ["integer", "string"]
    if "additionalProperties" in schema:
        values = list(example.values()) if isinstance(example, dict) else []
        kept["values"] = shape(schema["additionalProperties"], values[0] if values else None)
    if "properties" in schema:
        kept["names"] = sorted(schema["properties"])
        used = example if isinstance(example, dict) else {}
        kept["below"] = {
            name: shape(part, used[name]) for name, part in sorted(schema["properties"].items()) if name in used
        }
    if "items" in schema and isinstance(example, list):
        merged: dict[str, Any] = {}
        for item in example:
            merged |= item if isinstance(item, dict) else {}
        kept["items"] = shape(schema["items"], merged or (example[0] if example else None))
    return kept


def schema_of(path: Path) -> tuple[str, dict[str, Any]]:
    """(kind, the schema of its version that we use)."""
    spec = yaml.safe_load(path.read_text())["spec"]
    version = next(one for one in spec["versions"] if one["name"] == VERSION)
    return spec["names"]["kind"], version["schema"]["openAPIV3Schema"]


def main() -> None:
    schemas = dict(schema_of(Path(name)) for name in sys.argv[1:])
    parts = [part for name in MANIFESTS for part in yaml.safe_load_all((REPOSITORY / "deploy" / name).read_text())]
    shapes = {part["kind"]: shape(schemas[part["kind"]], part) for part in parts if part["kind"] in schemas}
    OUT.write_text(json.dumps(shapes, indent=None, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
