"""What KubeRay's custom resources may hold, cut to what our manifests use: `python -m tools.kuberay_shapes CRD... `.

CRD: files ray.io_rayjobs.yaml and ray.io_rayclusters.yaml of a release of ray-project/kuberay. Writes
tests/deploy/kuberay_shapes.json: a JSON schema of the names that our manifests use, with their types and what is
required. Names and types alone: no text of theirs.
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
    """The JSON schema without words, cut to what the example has: any other name is refused."""
    kept: dict[str, Any] = {key: schema[key] for key in ("type", "enum", "pattern", "required") if key in schema}
    if schema.get("x-kubernetes-int-or-string"):
        kept["type"] = ["integer", "string"]
    used = example if isinstance(example, dict) else {}
    if "additionalProperties" in schema:
        kept["additionalProperties"] = shape(schema["additionalProperties"], next(iter(used.values()), None))
    if "properties" in schema:
        known = schema["properties"]
        kept["properties"] = {name: shape(known[name], used[name]) for name in sorted(known.keys() & used.keys())}
        kept["additionalProperties"] = False
    if "items" in schema and isinstance(example, list):
        merged = {name: part for item in example if isinstance(item, dict) for name, part in item.items()}
        kept["items"] = shape(schema["items"], merged or next(iter(example), None))
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
