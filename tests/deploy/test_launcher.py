"""cluster.yaml against Ray's own schema; its commands are run by bash with stand-ins for what they call."""

import copy
import tomllib

import jsonschema
import pytest
from cluster_files import OTHERWISE_ON_NODES, containers_of, local_settings, on_node, parsed_by_ray, with_change
from ray.autoscaler._private.util import prepare_config, validate_config

from smoothsweep.orchestrator.cluster import connection as cluster


def checked(config):
    """The configuration as `ray up` completes and validates it."""
    prepared = prepare_config(copy.deepcopy(config))
    validate_config(prepared)
    return prepared


def test_ray_accepts_the_launcher_file(launcher):
    prepared = checked(launcher)
    assert prepared["head_node_type"] == "head"
    installs = [command for command in prepared["worker_setup_commands"] if "pip install" in command]
    assert any("-c ~/smoothsweep/constraints.txt ~/smoothsweep" in command for command in installs)


@pytest.mark.parametrize(
    ("path", "value", "error"),
    [
        (("max_worker",), 4, jsonschema.ValidationError),
        (("auth", "ssh_usr"), "ubuntu", jsonschema.ValidationError),
        (("available_node_types", "a100_spot", "spot"), True, jsonschema.ValidationError),
        (("head_node_type",), "heat", ValueError),
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
