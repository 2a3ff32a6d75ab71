"""What the tests of the cluster's files share: commands run with stand-ins, and Ray's own parsers."""

import copy
import os
import subprocess

from ray.scripts.scripts import cli as ray_cli

from smoothsweep.orchestrator.cluster import connection as cluster

# what a node sets otherwise than a laptop: a token is required, and work without a GPU must not see one
OTHERWISE_ON_NODES = {"RAY_AUTH_MODE": "token", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1"}


def local_settings(monkeypatch):
    """What a connection sets where nothing is set, without the code's version (each node finds its own)."""
    environment = {"HOME": "/nowhere", "PATH": os.environ["PATH"], cluster.CODE_VERSION_VARIABLE: "any"}
    monkeypatch.setattr(os, "environ", environment)
    cluster._quiet_environment()
    return {name: value for name, value in environment.items() if name.startswith("RAY_")}


def on_node(home, command):
    environment = {"HOME": str(home), "PATH": os.environ["PATH"], "RAY_HEAD_IP": "10.0.0.1"}
    done = subprocess.run(["bash", "-c", command], env=environment, capture_output=True, text=True, check=True)
    pairs = [line.partition("=") for line in done.stdout.splitlines()]
    return (
        [value for name, _, value in pairs if name == "argument"],
        {name: value for name, _, value in pairs if name != "argument"},
    )


def parsed_by_ray(arguments):
    """The options of the innermost command, parsed and not run. Raises click's UsageError for a wrong one."""
    command, name = ray_cli, "ray"
    while hasattr(command, "resolve_command"):
        context = command.make_context(name, list(arguments))
        name, command, arguments = command.resolve_command(context, [*context._protected_args, *context.args])
    return command.make_context(name, list(arguments)).params


def with_change(config, path, value):
    changed = copy.deepcopy(config)
    place = changed
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return changed


def pods(manifest):
    spec = manifest["RayJob"]["spec"]["rayClusterSpec"]
    return [group["template"]["spec"] for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"])]


def containers_of(manifest):
    return [pod["containers"][0] for pod in pods(manifest)]
