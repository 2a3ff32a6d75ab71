"""The rules of the house that a machine can check: import direction, and what loads torch."""

import ast
import re
import subprocess
import sys
from functools import cache

RANK = {"core": 0, "tasks": 1, "sweeps": 1, "orchestrator": 2}
PRINTING = {"core/screen.py", "orchestrator/tracking/server/exporting.py"}  # the door; a child that answers in JSON
ASKING = {  # who speaks HTTP: without a proxy, .netrc or redirect; public weights, whose digest is known; our own ports
    "core/external/wire.py",
    "core/models/weight_files.py",
    "orchestrator/cluster/listening.py",
}
CLIENTS = ("requests", "urllib3", "http.client", "urllib.request", "httpx", "aiohttp")
ONLY_IN = {"ray": ("tasks", "orchestrator"), "pydantic": ("tasks", "sweeps", "orchestrator")}


@cache
def nodes(path):
    """Every node of a file's syntax tree, the module first; each file is read once."""
    return list(ast.walk(ast.parse(path.read_text())))


def imports(path):
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name.removeprefix("smoothsweep.") for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.removeprefix("smoothsweep.")


def modules(repository):
    for room in RANK:
        yield from ((room, path) for path in sorted((repository / room).rglob("*.py")))


def test_imports_go_one_way(repository):
    wrong = []
    for room, path in modules(repository):
        for name in imports(path):
            other = name.split(".")[0]
            if RANK.get(other, -1) > RANK[room] or (other in RANK and other != room and RANK[other] == RANK[room]):
                wrong.append(f"{path.relative_to(repository)} imports {name}")
            if room not in ONLY_IN.get(other, tuple(RANK)):
                wrong.append(f"{path.relative_to(repository)} imports {name}")
    assert not wrong


def test_only_tracking_imports_mlflow(repository):
    users = {
        path.relative_to(repository).as_posix()
        for _, path in modules(repository)
        if any(name.split(".")[0] == "mlflow" for name in imports(path))
    }
    assert users and all(path.startswith("orchestrator/tracking/") for path in users)


def test_planning_and_driving_load_no_torch():
    """In one process: what loads it is the first of these that says so."""
    names = ("cli", "planning.plan", "planning.trials", "scheduling.scheduler", "commands.run", "running.tuning")
    modules = [f"smoothsweep.orchestrator.{name}" for name in names]
    code = f"import sys, importlib\nfor name in {modules}:\n    importlib.import_module(name)\n"
    code += "    print(name, 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"{module} False" for module in modules]


def test_rooms_are_documented(repository):
    files = [path for _, path in modules(repository) if path.name != "__init__.py"]
    bare = [path for path in files if not ast.get_docstring(nodes(path)[0])]
    assert not bare


def test_nothing_but_the_door_prints(repository):
    for room in ("core", "sweeps", "tasks", "orchestrator"):
        for path in sorted((repository / room).rglob("*.py")):
            name = path.relative_to(repository).as_posix()
            for node in nodes(path):
                if name not in PRINTING and isinstance(node, ast.Call):
                    called = ast.unparse(node.func)
                    assert called not in ("print", "sys.stdout.write", "sys.stderr.write"), f"{name}:{node.lineno}"
                    if called.endswith("console.print"):
                        assert ast.unparse(node.args[0]).startswith("printable(hidden("), f"{name}:{node.lineno}"


def test_http_is_spoken_in_one_place_for_what_is_private(repository):
    """`requests` and its like read proxies and passwords from the environment, unless each session is told not to."""
    users = {
        path.relative_to(repository).as_posix()
        for _, path in modules(repository)
        if any(name == client or name.startswith(f"{client}.") for name in imports(path) for client in CLIENTS)
    }
    assert users - {"orchestrator/tracking/server/moving.py"} == ASKING  # that one takes a path out of a URL


def test_cpus_and_memory_are_asked_for_in_one_place(repository):
    """What the machine has is not what a process may use: `core.allotted` knows affinity and cgroups."""
    asking = {"cpu_count", "process_cpu_count", "sched_getaffinity", "virtual_memory", "cpu_affinity"}
    found = []
    for _, path in modules(repository):
        for node in nodes(path):
            name = node.attr if isinstance(node, ast.Attribute) else node.name if isinstance(node, ast.alias) else None
            if name in asking or (
                isinstance(node, ast.Constant) and node.value in ("/proc/meminfo", "SC_NPROCESSORS_ONLN")
            ):
                found.append(path.relative_to(repository).as_posix())
    # The list of what an isolated program may read names a file, and reads none.
    assert set(found) - {"core/isolation/limits.py"} == {"core/allotted.py"}


def test_every_path_that_the_makefile_names_is_there(repository):
    """A folder that moved would leave a target without its tests, or with all of them."""
    text = (repository / "Makefile").read_text()
    named = re.findall(r"(?:tests|docs|sweeps|benchmarks|tools)/[\w./*-]+", text)
    assert len(named) >= 4 and [name for name in named if not any(repository.glob(name.rstrip(".")))] == []
