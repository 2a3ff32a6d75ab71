"""The cluster's files and its page against Ray's own schema, parsers and command line: no network, no cluster."""

import copy
import json
import os
import re
import shlex
import subprocess
import tomllib
import zipfile
from importlib.metadata import version

import jsonschema
import pytest
import yaml
from ray._private.runtime_env.packaging import create_package
from ray.autoscaler._private.kuberay.autoscaling_config import _derive_autoscaling_config_from_ray_cr
from ray.autoscaler._private.util import prepare_config, validate_config
from ray.scripts.scripts import cli as ray_cli

from orchestrator import cli, cluster

# what a node sets otherwise than a laptop: a token is required, and work without a GPU must not see one
OTHERWISE_ON_NODES = {"RAY_AUTH_MODE": "token", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1"}


@pytest.fixture(scope="module")
def launcher(repository):
    return yaml.safe_load((repository / "cluster.yaml").read_text())


@pytest.fixture(scope="module")
def manifest(repository):
    parts = list(yaml.safe_load_all((repository / "deploy" / "kuberay-rayjob.yaml").read_text()))
    assert len({part["kind"] for part in parts}) == len(parts)
    return {part["kind"]: part for part in parts}


def local_settings(monkeypatch):
    """What orchestrator.cluster sets where nothing is set, without the code's version (each node finds its own)."""
    environment = {"HOME": "/nowhere", "PATH": os.environ["PATH"], cluster.CODE_VERSION_VARIABLE: "any"}
    monkeypatch.setattr(os, "environ", environment)
    cluster._quiet_environment()
    return {name: value for name, value in environment.items() if name.startswith("RAY_")}


def checked(config):
    """The configuration as `ray up` completes and validates it."""
    prepared = prepare_config(copy.deepcopy(config))
    validate_config(prepared)
    return prepared


# --- cluster.yaml against Ray's schema


def test_ray_accepts_the_launcher_file(launcher):
    prepared = checked(launcher)
    assert prepared["head_node_type"] == "head"
    installs = [command for command in prepared["worker_setup_commands"] if "pip install" in command]
    assert any("-c ~/smoothsweep/constraints.txt ~/smoothsweep" in command for command in installs)


def with_change(config, path, value):
    changed = copy.deepcopy(config)
    place = changed
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return changed


@pytest.mark.parametrize(
    ("path", "value", "error"),
    [
        (("max_worker",), 4, jsonschema.ValidationError),
        (("max_workers",), "4", jsonschema.ValidationError),
        (("auth", "ssh_usr"), "ubuntu", jsonschema.ValidationError),
        (("provider", "security_group", "Name"), "x", jsonschema.ValidationError),
        (("available_node_types", "a100_spot", "spot"), True, jsonschema.ValidationError),
        (("available_node_types", "head", "resources", "trial_slot"), 0.5, jsonschema.ValidationError),
        (("setup_commands", 0), {"run": "true"}, jsonschema.ValidationError),
        (("head_node_type",), "heat", ValueError),
        (("available_node_types", "a100_spot", "min_workers"), 5, ValueError),
    ],
)
def test_ray_refuses_a_wrong_launcher_file(launcher, path, value, error):
    with pytest.raises(error):
        checked(with_change(launcher, path, value))


def test_head_is_on_demand_and_workers_start_at_none(launcher):
    types = launcher["available_node_types"]
    head, spot, on_demand = types["head"], types["a100_spot"], types["a100_on_demand"]
    assert "InstanceMarketOptions" not in head["node_config"]
    assert spot["node_config"]["InstanceMarketOptions"] == {"MarketType": "spot"}
    assert "InstanceMarketOptions" not in on_demand["node_config"]
    assert spot["min_workers"] == on_demand["min_workers"] == on_demand["max_workers"] == 0
    assert 0 < spot["max_workers"] <= launcher["max_workers"]
    assert launcher["idle_timeout_minutes"] > 0
    slots = {name: kind["resources"].get(cluster.SLOT, 0) for name, kind in types.items()}
    assert slots["head"] > 0
    assert sum(slots.values()) == slots["head"]


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


def test_places_to_edit_are_marked_and_hold_no_real_name(repository):
    text = (repository / "cluster.yaml").read_text()
    placeholders = [line for line in text.splitlines() if re.search(r"\b(ami|fs)-", line)]
    assert placeholders
    assert all(re.search(r"\b(ami|fs)-0(0{16})?(?![0-9a-f])", line) for line in placeholders)
    images = [line for line in placeholders if "ami-" in line]
    assert all("EDIT" in line for line in images)


def test_mounted_files_are_all_that_an_installation_needs(launcher, repository):
    mounts = launcher["file_mounts"]
    project = {local for remote, local in mounts.items() if "/smoothsweep/" in remote}
    assert all((repository / local).exists() for local in project)
    declared = tomllib.loads((repository / "pyproject.toml").read_text())
    packages = {name.rstrip("*") for name in declared["tool"]["setuptools"]["packages"]["find"]["include"]}
    assert packages <= project
    assert {"pyproject.toml", declared["project"]["readme"], "constraints.txt"} <= project
    assert mounts["/home/ubuntu/.ray/auth_token"] == "~/.ray/auth_token"


# --- its commands, run by bash with stand-ins for what they call


ALL_COMMANDS = (
    "initialization_commands",
    "setup_commands",
    "head_setup_commands",
    "worker_setup_commands",
    "head_start_ray_commands",
    "worker_start_ray_commands",
)


def test_every_command_is_valid_shell(launcher):
    for group in ALL_COMMANDS:
        for command in launcher[group]:
            done = subprocess.run(["bash", "-n", "-c", command], capture_output=True, text=True, check=False)
            assert (done.returncode, done.stderr) == (0, ""), command


@pytest.fixture(scope="module")
def node(launcher, tmp_path_factory):
    """A home folder after the set-up's first command, with a `ray` that tells what it was called with."""
    home = tmp_path_factory.mktemp("home")
    stub = home / "venv" / "bin" / "ray"
    stub.parent.mkdir(parents=True)
    stub.write_text('#!/bin/sh\nenv\nprintf "argument=%s\\n" "$@"\n')
    stub.chmod(0o755)
    on_node(home, launcher["setup_commands"][0])
    return home


def on_node(home, command):
    environment = {"HOME": str(home), "PATH": os.environ["PATH"], "RAY_HEAD_IP": "10.0.0.1"}
    done = subprocess.run(["bash", "-c", command], env=environment, capture_output=True, text=True, check=True)
    pairs = [line.partition("=") for line in done.stdout.splitlines()]
    return (
        [value for name, _, value in pairs if name == "argument"],
        {name: value for name, _, value in pairs if name != "argument"},
    )


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


def parsed_by_ray(arguments):
    """The options of the innermost command, parsed and not run. Raises click's UsageError for a wrong one."""
    command, name = ray_cli, "ray"
    while hasattr(command, "resolve_command"):
        context = command.make_context(name, list(arguments))
        name, command, arguments = command.resolve_command(context, [*context._protected_args, *context.args])
    return command.make_context(name, list(arguments)).params


# --- the KubeRay manifest


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


def pods(manifest):
    spec = manifest["RayJob"]["spec"]["rayClusterSpec"]
    return [group["template"]["spec"] for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"])]


def containers_of(manifest):
    return [pod["containers"][0] for pod in pods(manifest)]


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
    python, flag, module, *arguments = shlex.split(manifest["RayJob"]["spec"]["entrypoint"])
    assert (python, flag, module) == ("python", "-m", "orchestrator")
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


# --- the page


def shell_lines(page):
    """Commands of the page's shell blocks, continuation lines joined, comments dropped."""
    for block in re.findall(r"^```sh\n(.*?)^```", page, re.DOTALL | re.MULTILINE):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words:
                yield words


def nested(words):
    """The command itself, then the one that it carries: after --, or as the last word of `ray exec`."""
    yield words
    if "--" in words:
        yield from nested(words[words.index("--") + 1 :])
    elif words[:2] == ["ray", "exec"]:
        yield from nested(shlex.split(words[-1]))


def test_commands_of_the_page_are_ones_that_ray_and_we_understand(repository):
    seen = {"ray": 0, "smoothsweep": 0}
    for line in shell_lines((repository / "docs" / "cluster.md").read_text()):
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
    assert seen["smoothsweep"] >= 3


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


def test_the_page_knows_the_script_it_sends_one_to(repository):
    page = (repository / "docs" / "cluster.md").read_text()
    script = (repository / "deploy" / "mlflow-postgres.sh").read_text()
    (options,) = re.findall(r"^deploy/mlflow-postgres.sh start (.*?)\s+#", page, re.MULTILINE)
    assert all(f"{word})" in script for word in shlex.split(options) if word.startswith("--"))
    assert "start | stop | status" in script


def test_a_mistyped_command_would_be_noticed():
    with pytest.raises(Exception, match="No such option"):
        parsed_by_ray(["job", "submit", "--working-directory", ".", "--", "true"])
    with pytest.raises(Exception, match="No such command"):
        parsed_by_ray(["job", "sumbit"])
