"""cluster.yaml, the manifests for Kubernetes and pages with shell commands, as Ray, KubeRay, bash and we read them."""

import json
import re
import shlex
import subprocess
import tomllib
import zipfile
from importlib.metadata import distribution, version
from pathlib import Path

import jsonschema
import pytest
import yaml
from ray._private.runtime_env.packaging import create_package
from ray.autoscaler._private.kuberay.autoscaling_config import _derive_autoscaling_config_from_ray_cr
from ray.autoscaler._private.util import validate_config

from smoothsweep.orchestrator import cli
from smoothsweep.orchestrator.cluster import connection as cluster
from tests.cluster_files import (
    OTHERWISE_ON_NODES,
    containers_of,
    local_settings,
    on_node,
    parsed_by_ray,
    pods,
    with_change,
)


def test_promised_gpus_are_those_that_can_come(launcher, node, manifest):
    workers = launcher["max_workers"]
    _, environment = on_node(node, launcher["head_start_ray_commands"][0])
    assert int(environment["SMOOTHSWEEP_CLUSTER_GPUS"]) == 8 * workers  # a p4d.24xlarge has eight
    assert environment["SMOOTHSWEEP_NODE_GPUS"] == "8"
    head, gpu = containers_of(manifest)
    settings = {entry["name"]: entry["value"] for entry in head["env"]}
    promised = settings["SMOOTHSWEEP_CLUSTER_GPUS"]
    assert int(settings["SMOOTHSWEEP_NODE_GPUS"]) == gpu["resources"]["limits"]["nvidia.com/gpu"]
    group = manifest["RayJob"]["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]
    assert int(promised) == gpu["resources"]["limits"]["nvidia.com/gpu"] * group["maxReplicas"]


def test_mounted_files_are_all_that_an_installation_needs(launcher, repository):
    mounts = launcher["file_mounts"]
    project = {local for remote, local in mounts.items() if "/smoothsweep/" in remote}
    assert all((repository / local).exists() for local in project)
    declared = tomllib.loads((repository / "pyproject.toml").read_text())
    packages = {name.rstrip("*") for name in declared["tool"]["setuptools"]["packages"]["find"]["include"]}
    links = {link.resolve().name for name in packages for link in (repository / name).iterdir() if link.is_symlink()}
    assert packages == {"smoothsweep"} and len(links) == 4 and packages | links <= project
    assert {"pyproject.toml", declared["project"]["readme"], "constraints.txt"} <= project
    assert mounts["/home/ubuntu/.ray/auth_token"] == "~/.ray/auth_token"


def test_nodes_start_with_the_settings_of_the_orchestrator_and_a_token(launcher, node, monkeypatch):
    groups = ("head_start_ray_commands", "worker_start_ray_commands")
    started = [on_node(node, command)[1] for group in groups for command in launcher[group]]
    expected = local_settings(monkeypatch) | OTHERWISE_ON_NODES
    assert len(started) == 4
    for environment in started:
        assert expected.items() <= environment.items()
        assert environment["SMOOTHSWEEP_WEIGHTS"].startswith("/shared/")
        assert environment["RAY_AUTH_TOKEN_PATH"] in launcher["file_mounts"]


def test_ray_understands_how_it_is_started(launcher, node):
    head, _ = on_node(node, launcher["head_start_ray_commands"][-1])
    worker, _ = on_node(node, launcher["worker_start_ray_commands"][-1])
    asked = parsed_by_ray(head)
    assert asked["head"]
    assert asked["dashboard_host"] == "127.0.0.1"  # reached through ssh alone
    assert asked["autoscaling_config"] == "~/ray_bootstrap_config.yaml"
    assert parsed_by_ray(worker)["address"] == "10.0.0.1:6379"


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


SHAPES = json.loads((Path(__file__).parent / "kuberay_shapes.json").read_text())
"""Kind -> what its custom resource may hold, as a JSON schema cut to the names that our manifests use.

From version v1 in the files ray.io_*.yaml of a release of ray-project/kuberay: a new name of ours is added from there.
"""


def parts(repository):
    found = {}
    for name in ("kuberay-rayjob.yaml", "kuberay-raycluster.yaml"):
        for part in yaml.safe_load_all((repository / "deploy" / name).read_text()):
            found[part["kind"]] = part
    return found


@pytest.mark.parametrize("kind", ["RayJob", "RayCluster"])
def test_the_manifests_are_what_kuberay_reads(repository, kind):
    jsonschema.validate(parts(repository)[kind], SHAPES[kind])


def test_the_cluster_that_stays_is_the_one_of_the_job(repository):
    found = parts(repository)
    assert found["RayCluster"]["spec"] == found["RayJob"]["spec"]["rayClusterSpec"]


def shell_lines(page):
    """Commands of the page's shell blocks, continuation lines joined, comments dropped."""
    for block in re.findall(r"^```sh\n(.*?)^```", page, re.DOTALL | re.MULTILINE):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words:
                yield words


def nested(words):
    """The command itself, then the one that it carries: after --, or as the last word of `ray exec`."""
    while "=" in words[0]:  # variables of the command's environment
        words = words[1:]
    yield words
    if "--" in words:
        yield from nested(words[words.index("--") + 1 :])
    elif words[:2] == ["ray", "exec"]:
        yield from nested(shlex.split(words[-1]))


def test_commands_of_the_pages_are_ones_that_ray_and_we_understand(repository):
    seen = {"ray": 0, "smoothsweep": 0}
    docs = repository / "docs"
    pages = [docs / "cluster.md", *sorted(docs.glob("tutorial/*.md")), *sorted(docs.glob("how-to/*.md"))]
    assert len(pages) >= 7
    for line in (words for page in pages for words in shell_lines(page.read_text())):
        for words in nested(line):
            if words[:3] == ["python", "-m", "orchestrator"]:
                words = ["smoothsweep", *words[3:]]
            if words[0] not in seen:
                continue
            seen[words[0]] += 1
            if words[0] == "ray":
                parsed_by_ray(words[1:])
            else:
                cli._parser().parse_args(words[1:])
    assert seen["ray"] >= 8
    assert seen["smoothsweep"] >= 25


def test_what_a_job_ships_is_all_that_runs_and_far_below_the_limit(repository, tmp_path):
    """As `ray job submit --working-dir .` packs it; the limit is 100 MiB."""
    package = tmp_path / "package.zip"
    create_package(str(repository), package, include_gitignore=True, include_parent_dir=False, excludes=[".git"])
    assert package.stat().st_size < 20 * 2**20
    with zipfile.ZipFile(package) as shipped:
        names = set(shipped.namelist())
    tracked = subprocess.run(["git", "ls-files"], cwd=repository, capture_output=True, text=True, check=True)
    rooms = ("core/", "tasks/", "sweeps/", "orchestrator/")
    needed = {name for name in tracked.stdout.splitlines() if name.startswith(rooms) and (repository / name).exists()}
    assert needed and needed <= names
    assert not [name for name in names if name.startswith((".venv/", ".git/", "store/", "mlruns/"))]
