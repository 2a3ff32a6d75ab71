"""The manifests for Kubernetes held to KubeRay's own schemas: an unknown name, a wrong type, a missing name is found.

`kuberay_shapes.json` is a JSON schema of KubeRay's custom resources (ray-project/kuberay, commit feeaf72f of
2026-08-19), cut to the names that our manifests use. `python -m tools.kuberay_shapes` writes it anew.
"""

import json
from pathlib import Path

import jsonschema
import pytest
import yaml
from cluster_files import with_change

SHAPES = json.loads((Path(__file__).parent / "kuberay_shapes.json").read_text())


def parts(repository):
    found = {}
    for name in ("kuberay-rayjob.yaml", "kuberay-raycluster.yaml"):
        for part in yaml.safe_load_all((repository / "deploy" / name).read_text()):
            found[part["kind"]] = part
    return found


@pytest.mark.parametrize("kind", ["RayJob", "RayCluster"])
def test_the_manifests_are_what_kuberay_reads(repository, kind):
    jsonschema.validate(parts(repository)[kind], SHAPES[kind])


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("spec", "submissionMod"), "K8sJobMode"),
        (("spec", "backoffLimit"), "2"),
        (("spec", "rayClusterSpec", "authOptions", "mode"), "password"),
        (("spec", "rayClusterSpec", "workerGroupSpecs", 0, "maxReplicas"), True),
        (("spec", "rayClusterSpec", "headGroupSpec", "template", "spec", "containrs"), []),
        (("spec", "rayClusterSpec", "headGroupSpec", "template", "spec"), {}),  # containers are required
    ],
)
def test_a_mistake_is_found(repository, path, value):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(with_change(parts(repository)["RayJob"], path, value), SHAPES["RayJob"])


def test_the_cluster_that_stays_is_the_one_of_the_job(repository):
    found = parts(repository)
    assert found["RayCluster"]["spec"] == found["RayJob"]["spec"]["rayClusterSpec"]
