"""The manifests for Kubernetes held to KubeRay's own schemas: an unknown name, a wrong type, a missing name is found.

`kuberay_shapes.json` has the names and types of KubeRay's custom resources (ray-project/kuberay, commit feeaf72f of
2026-08-19) at the places that our manifests use. `python -m tools.kuberay_shapes` writes it anew.
"""

import json
import re
from pathlib import Path

import pytest
import yaml
from cluster_files import with_change

SHAPES = json.loads((Path(__file__).parent / "kuberay_shapes.json").read_text())
TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "boolean": bool,
    "number": (int, float),
}


def faults(shape, value, place):
    """What in the value its shape does not allow, a line each."""
    names = shape.get("type", [])
    kinds = tuple(TYPES[name] for name in ([names] if isinstance(names, str) else names))
    if kinds and (not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds)):
        yield f"{place}: a {type(value).__name__}"
        return
    if "enum" in shape and value not in shape["enum"]:
        yield f"{place}: {value!r}"
    if "pattern" in shape and isinstance(value, str) and not re.search(shape["pattern"], value):
        yield f"{place}: {value!r}"
    if isinstance(value, dict):
        yield from (f"{place}: no {name}" for name in shape.get("required", ()) if name not in value)
        for name, part in value.items():
            if "names" in shape and name not in shape["names"]:
                yield f"{place}: unknown {name}"
            elif "values" in shape:
                yield from faults(shape["values"], part, f"{place}.{name}")
            elif name in shape.get("below", {}):
                yield from faults(shape["below"][name], part, f"{place}.{name}")
            elif "names" in shape:
                yield f"{place}.{name}: not in kuberay_shapes.json; python -m tools.kuberay_shapes writes it anew"
    if isinstance(value, list) and "items" in shape:
        for index, part in enumerate(value):
            yield from faults(shape["items"], part, f"{place}[{index}]")


def parts(repository):
    found = {}
    for name in ("kuberay-rayjob.yaml", "kuberay-raycluster.yaml"):
        for part in yaml.safe_load_all((repository / "deploy" / name).read_text()):
            found[part["kind"]] = part
    return found


@pytest.mark.parametrize("kind", ["RayJob", "RayCluster"])
def test_the_manifests_are_what_kuberay_reads(repository, kind):
    assert list(faults(SHAPES[kind], parts(repository)[kind], kind)) == []


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("spec", "submissionMod"), "K8sJobMode", "unknown submissionMod"),
        (("spec", "backoffLimit"), "2", "a str"),
        (("spec", "rayClusterSpec", "authOptions", "mode"), "password", "'password'"),
        (("spec", "rayClusterSpec", "workerGroupSpecs", 0, "maxReplicas"), True, "a bool"),
        (("spec", "rayClusterSpec", "headGroupSpec", "template", "spec"), {}, "no containers"),
    ],
)
def test_a_mistake_is_found(repository, path, value, said):
    job = with_change(parts(repository)["RayJob"], path, value)
    assert any(said in line for line in faults(SHAPES["RayJob"], job, "RayJob"))


def test_the_cluster_that_stays_is_the_one_of_the_job(repository):
    found = parts(repository)
    assert found["RayCluster"]["spec"] == found["RayJob"]["spec"]["rayClusterSpec"]
