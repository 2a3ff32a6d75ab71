"""The rules that hold the code together: its size, its names, which way imports go, what may be used where."""

import ast
import re
import subprocess
import sys
from collections import Counter, defaultdict
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

MOST_LINES = 600  # of a file
CAPS = {  # lines and files of Python: never raised, lowered when a room shrinks
    ("core", "tasks", "smoothsweep"): (40_300, 189),
    ("orchestrator", "sweeps"): (28_150, 107),
    ("tools", "benchmarks"): (3_500, 18),
    ("tests",): (46_700, 215),
}
TWICE = {  # class names that a room uses for two things; the list only shrinks
    ("core", "tasks", "smoothsweep"): "Judge Stage",
    ("orchestrator", "sweeps"): "Standing",
    ("tools", "benchmarks"): "",
}
RANK = {"core": 0, "tasks": 1, "sweeps": 1, "orchestrator": 2}
PRODUCT = tuple(RANK)
FLOORS = (
    "stages",
    "cluster",
    "store",
    "planning",
    "result",
    "search",
    "page",
    "tracking",
    "scheduling",
    "running",
)
"""Of the orchestrator, each importing only from those before it; `commands` and what lies beside them come last."""

ONLY_IN = {
    "ray": ("tasks/", "orchestrator/"),
    # In core it checks types of settings against their bounds, in one place and when first needed.
    "pydantic": ("core/declared.py", "tasks/", "sweeps/", "orchestrator/"),
    "mlflow": ("orchestrator/tracking/",),
    **dict.fromkeys(  # each reads proxies and passwords from the environment, unless it is told not to
        ("requests", "urllib3", "http.client", "urllib.request", "httpx", "aiohttp"),
        (
            "core/external/",
            "core/models/weight_files.py",
            "orchestrator/tracking/server.py",
        ),
    ),
}
"""Library -> where it may be imported."""

ONE_PLACE = ("core/allotted.py", "core/isolation/")
MACHINE = {"cpu_count", "process_cpu_count", "sched_getaffinity", "virtual_memory", "cpu_affinity", "/proc/meminfo"}
"""What the machine has is not what a process may use: `core.allotted` knows affinity and cgroups. The walls of the
isolated process list what it may read."""

PRINTING = {"core/screen.py", "orchestrator/tracking/exporting.py"}


@cache
def sources(repository: Path, *rooms: str) -> dict[str, ast.Module]:
    """Path from the repository -> syntax tree, of every file of the rooms."""
    paths = [path for room in rooms for path in sorted((repository / room).rglob("*.py"))]
    return {path.relative_to(repository).as_posix(): ast.parse(path.read_text()) for path in paths}


def module_of(path: str) -> str:
    return path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")


def imported(tree: ast.Module, *, at_run_time: bool = False) -> list[str]:
    """The modules that a file imports, also inside functions: `a.b` of `from a import b` as well as `a`."""
    found, pending = [], [tree]
    while pending:
        node = pending.pop()
        if at_run_time and isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        pending += ast.iter_child_nodes(node)
    return [name.removeprefix("smoothsweep.") for name in found]


def circle(graph: dict[str, set[str]]) -> str | None:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return " <- ".join(error.args[1])
    return None


@pytest.mark.parametrize("rooms", CAPS, ids="+".join)
def test_a_room_stays_under_its_cap(rooms, repository):
    counts = {path: len((repository / path).read_text().splitlines()) for path in sources(repository, *rooms)}
    lines, files = CAPS[rooms]
    assert 0 < sum(counts.values()) <= lines and len(counts) <= files
    assert [path for path, count in counts.items() if count > MOST_LINES] == []


@pytest.mark.parametrize("rooms", TWICE, ids="+".join)
def test_a_class_name_means_one_thing_in_a_room(rooms, repository):
    trees = sources(repository, *rooms).values()
    names = Counter(node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    assert {name for name, count in names.items() if count > 1} <= set(TWICE[rooms].split())


def test_imports_go_down_only(repository):
    def height(path: str) -> tuple[int, int]:
        room, _, rest = path.partition("/")
        floor = rest.split("/")[0]
        return RANK[room], FLOORS.index(floor) if floor in FLOORS else len(FLOORS)

    wrong, looked_at = [], 0
    for path, tree in sources(repository, *PRODUCT).items():
        for name in imported(tree):
            other = name.replace(".", "/")
            if (room := other.split("/")[0]) in RANK:
                looked_at += 1
                same_room = room == path.split("/")[0]
                above = (height(other) > height(path)) if same_room else (RANK[room] >= height(path)[0])
                inner = not same_room or room == "orchestrator"
                if inner and above and other != "orchestrator":
                    wrong.append(f"{path} imports {name}")
    assert looked_at > 1000 and wrong == []


def test_no_circle_between_files_or_folders(repository):
    trees = {module_of(path): tree for path, tree in sources(repository, *PRODUCT).items()}
    files, folders = defaultdict(set), defaultdict(set)
    for module, tree in trees.items():
        for other in {name for name in imported(tree, at_run_time=True) if name in trees} - {module}:
            files[module].add(other)
            here, there = (".".join(name.split(".")[:2]) for name in (module, other))
            folders[here] |= {there} - {here}
    for used in files.values():  # `from package import module` names the package, too, which has begun by then
        used -= {name.rpartition(".")[0] for name in used}
    assert sum(map(len, files.values())) > 1000 and circle(files) is None and circle(folders) is None


def test_libraries_are_used_where_they_may_be(repository):
    trees = sources(repository, *PRODUCT)
    wrong = [
        f"{path} imports {name}"
        for path, tree in trees.items()
        for name in imported(tree)
        for library, places in ONLY_IN.items()
        if (name == library or name.startswith(f"{library}.")) and not path.startswith(places)
    ]
    assert wrong == []


def test_planning_loads_no_torch():
    names = ("cli", "planning.plan", "planning.trial", "scheduling.scheduler", "commands.run", "running.tuning")
    modules = [f"smoothsweep.orchestrator.{name}" for name in names]
    code = f"import sys, importlib\nfor name in {modules}:\n    importlib.import_module(name)\n"
    code += "    print(name, 'torch' in sys.modules)\n"
    code += "from pathlib import Path\nfrom smoothsweep.sweeps.expand import expand\n"
    code += "from smoothsweep.sweeps.load import load_sweep\n"
    code += "expand(load_sweep(Path('defenses_small')))\nprint('its defenses', 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"{module} False" for module in (*modules, "its defenses")]


def test_one_place_asks_for_cpus_and_memory_and_one_prints(repository):
    wrong = []
    for path, tree in sources(repository, *PRODUCT).items():
        for node in ast.walk(tree):
            named = getattr(node, "attr", getattr(node, "name", getattr(node, "value", None)))
            if isinstance(named, str) and named in MACHINE and not path.startswith(ONE_PLACE):
                wrong.append(f"{path} asks for {named}")
            called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            if called in ("print", "sys.stdout.write", "sys.stderr.write") and path not in PRINTING:
                wrong.append(f"{path} prints")
            if called.endswith("console.print") and not ast.unparse(node).startswith(f"{called}(printable(hidden("):
                wrong.append(f"{path} prints without hiding secrets and control characters")
    assert wrong == []


def test_what_pages_and_the_makefile_name_is_there(repository):
    pages = [
        *repository.glob("*.md"),
        *(page for room in ("docs", "core", "sweeps", "deploy") for page in (repository / room).rglob("*.md")),
    ]
    lost, followed = [], 0
    for page in pages:
        text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        links = [link.partition("#")[0] for link in re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", text)]
        places = [page.parent / link for link in links if link and ":" not in link]
        named = re.findall(r"\b((?:core|tasks|sweeps|orchestrator|tests|docs|benchmarks|tools)/[\w/.-]+\.\w+)\b", text)
        places += [repository / name for name in named if name.endswith((".py", ".md", ".yaml", ".csv"))]
        followed += len(places)
        lost += [f"{page.relative_to(repository)}: {place}" for place in places if not place.exists()]
    named = re.findall(r"(?:tests|docs|sweeps|benchmarks|tools)/[\w./*-]+", (repository / "Makefile").read_text())
    lost += [f"Makefile: {name}" for name in named if not any(repository.glob(name.rstrip(".")))]
    assert followed > 300 and lost == []


def defaults_of(tree: ast.Module, name: str) -> list[int]:
    """Lines where a parameter or a field of this name has a value to fall back to."""
    lines = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            plain = [*node.args.posonlyargs, *node.args.args]
            given = dict(zip(reversed(plain), reversed(node.args.defaults), strict=False))
            given |= dict(zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True))
            lines += [argument.lineno for argument, value in given.items() if argument.arg == name and value]
        if isinstance(node, ast.AnnAssign) and node.value and getattr(node.target, "id", None) == name:
            lines.append(node.lineno)
    return lines


def test_under_which_protocol_a_number_is_made_is_said_at_every_call(repository):
    found = {path: defaults_of(tree, "protocol") for path, tree in sources(repository, "core", "tasks").items()}
    assert {path: lines for path, lines in found.items() if lines} == {}


WRITING = r"\.write_(text|bytes)\(|\bos\.(replace|rename)\(|\bsave_file\(|\.to_parquet\(|mkstemp\("


def test_what_writes_files_gets_its_place_from_the_one_module_that_makes_them_whole(repository):
    own = re.compile(r"from smoothsweep\.core\.files import .*?\b(replacing|making_folder|write_file)\b", re.DOTALL)
    texts = {path: (repository / path).read_text() for path in sources(repository, *PRODUCT)}
    found = {path for path, text in texts.items() if re.search(WRITING, text)}
    assert {path for path in found if not own.search(texts[path])} == {"core/files.py"}
