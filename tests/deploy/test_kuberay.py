"""The KubeRay manifest as Ray's autoscaler and the operator would read it."""

import json
import re
import shlex
from importlib.metadata import distribution, version

import pytest
from cluster_files import OTHERWISE_ON_NODES, containers_of, local_settings, parsed_by_ray, pods, with_change
from ray.autoscaler._private.kuberay.autoscaling_config import _derive_autoscaling_config_from_ray_cr
from ray.autoscaler._private.util import validate_config

from smoothsweep.orchestrator import cli
from smoothsweep.orchestrator.cluster import connection as cluster


def test_ray_reads_the_manifest_as_its_autoscaler_would(manifest):
    job = manifest["RayJob"]
    assert job["apiVersion"] == "ray.io/v1"
    config = as_autoscaler(job["spec"]["rayClusterSpec"])
    validate_config(config)
    head, workers = config["available_node_types"]["headgroup"], config["available_node_types"]["gpu"]
    assert head["resources"][cluster.SLOT] == 64
    assert head["resources"]["CPU"] == 8
    assert "GPU" not in head["resources"]
    assert workers["resources"]["GPU"] == 8
    assert cluster.SLOT not in workers["resources"]
    assert (workers["min_workers"], workers["max_workers"]) == (0, 4)
    assert job["spec"]["rayClusterSpec"]["enableInTreeAutoscaling"] is True


def as_autoscaler(spec):
    return _derive_autoscaling_config_from_ray_cr({"metadata": {"namespace": "x", "name": "y"}, "spec": spec})


def test_slots_survive_the_shell_that_kuberay_pastes_them_into(manifest):
    spec = manifest["RayJob"]["spec"]["rayClusterSpec"]
    given = spec["headGroupSpec"]["rayStartParams"]["resources"]
    assert parsed_by_ray(shlex.split(f"start --head --resources={given}"))["resources"] == '{"trial_slot": 64}'
    unquoted = with_change(spec, ("headGroupSpec", "rayStartParams", "resources"), '{"trial_slot": 64}')
    with pytest.raises(json.JSONDecodeError):
        as_autoscaler(unquoted)


def test_pods_agree_on_image_volumes_and_settings(manifest, monkeypatch):
    containers = containers_of(manifest)
    assert len({container["image"] for container in containers}) == 1
    expected = local_settings(monkeypatch) | OTHERWISE_ON_NODES
    expected.pop("RAY_AUTH_MODE")  # the operator sets it, below
    claim = manifest["PersistentVolumeClaim"]
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    for pod, container in zip(pods(manifest), containers, strict=True):
        mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        assert mounted.keys() == volumes.keys()
        assert volumes["shared"]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
        assert volumes["shm"]["emptyDir"]["medium"] == "Memory"
        environment = {entry["name"]: entry["value"] for entry in container["env"]}
        assert expected.items() <= environment.items()
        assert environment["SMOOTHSWEEP_WEIGHTS"].startswith(mounted["shared"] + "/")
        assert container["resources"]["limits"] == container["resources"]["requests"]


def test_manifest_demands_a_token_from_a_secret(manifest):
    auth = manifest["RayJob"]["spec"]["rayClusterSpec"]["authOptions"]
    assert auth == {"mode": "token", "secretName": "smoothsweep-ray-token"}


def test_entrypoint_is_a_command_of_ours_on_the_shared_volume(manifest, repository):
    """The image installs the package: `python -m orchestrator` works in a checkout alone."""
    command, *arguments = shlex.split(manifest["RayJob"]["spec"]["entrypoint"])
    assert command in {script.name for script in distribution("smoothsweep").entry_points}
    options = cli._parser().parse_args(arguments)
    mounts = containers_of(manifest)[0]["volumeMounts"]
    assert any(str(options.store).startswith(mount["mountPath"] + "/") for mount in mounts)
    assert options.sweep.is_absolute()
    assert (repository / "sweeps" / options.sweep.name).is_file()
    assert options.tracking_uri.startswith("http://")


def test_ray_versions_agree(manifest, repository):
    pinned = re.search(r"^ray==(\S+)$", (repository / "constraints.txt").read_text(), re.MULTILINE)[1]
    assert manifest["RayJob"]["spec"]["rayClusterSpec"]["rayVersion"] == pinned == version("ray")
    assert f"rayproject/ray:{pinned}-py311-gpu" in (repository / "docs" / "cluster.md").read_text()


def test_work_has_most_of_the_time_that_a_worker_pod_has_to_end(manifest):
    """Ray drains a node that is told to end for so long, and Kubernetes kills after its grace."""
    drains = [
        float(entry["value"])
        for container in containers_of(manifest)
        for entry in container["env"]
        if entry["name"] == "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S"
    ]
    graces = [pod["terminationGracePeriodSeconds"] for pod in pods(manifest) if "nodeSelector" in pod]
    assert len(drains) == len(containers_of(manifest)) and graces
    assert all(grace - 30 <= drain < grace for drain in drains for grace in graces)
