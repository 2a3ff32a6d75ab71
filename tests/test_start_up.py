"""What comes with what: modules that are imported, parsers that are called, the one name that is installed."""

import ast
import json
import re
import shutil
import subprocess
import sys
import zipfile

import pytest
from ray._private.runtime_env.packaging import create_package

from tests.checkout import PACKAGES, copy_packages

# Every module of the product is imported; those that define their networks as torchvision's classes are not.
EVERYTHING = """
import importlib, json, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
print(json.dumps(sorted(sys.modules)))
"""
AT_NEED = {"smoothsweep.core.models.fid_network"}
# torchvision and torch's compiler take two seconds, scikit-learn one; one defense, program or report needs the others
NOT_AT_IMPORT = (
    "torchvision",
    "sklearn",
    "torch._dynamo",
    "torch._inductor",
    "facenet_pytorch",
    "opacus",
    "art",
    "cma",
    "onnx",
    "onnxruntime",
    "onnx2torch",
    "timm",
    "transformers",
    "torch_fidelity",
)


@pytest.fixture(scope="module")
def modules(repository):
    """Of the four packages, as `smoothsweep.core.files`."""
    found = []
    for package in ("core", "sweeps", "tasks", "orchestrator"):
        paths = [path.relative_to(repository).with_suffix("") for path in sorted((repository / package).rglob("*.py"))]
        found += [".".join(("smoothsweep", *path.parts)).removesuffix(".__init__") for path in paths]
    return [name for name in found if not name.endswith(".__main__")]


def test_no_module_brings_in_what_few_need(modules, repository):
    assert len(modules) > 150 and set(modules) >= AT_NEED
    asked = [name for name in modules if name not in AT_NEED]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", EVERYTHING, *asked], capture_output=True, text=True, cwd=repository
    )
    assert done.returncode == 0, done.stderr
    loaded = set(json.loads(done.stdout.splitlines()[-1]))
    assert loaded >= {*asked, "torch", "ray", "mlflow"}, "the modules were imported"
    assert loaded & set(NOT_AT_IMPORT) == set(), "import these in the function that needs them"


def test_reading_a_sweep_file_brings_in_nothing_that_computes(repository):
    code = "import sys, smoothsweep.sweeps.load, smoothsweep.sweeps.schema; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=repository)
    loaded = set(done.stdout.split())
    assert "smoothsweep.sweeps.search" in loaded and not loaded & {
        "scipy",
        "torch",
        "pandas",
        "pyarrow",
        "ray",
        "mlflow",
    }


PARSERS = {
    *("read_parquet", "ParquetFile", "read_table", "read_csv", "read_json", "read_pickle", "load_from_disk"),
    *("ParquetDataset", "read_metadata", "read_schema", "read_feather"),
    *("loadmat", "safe_open", "load_file", "fromfile", "memmap", "imread", "genfromtxt", "loadtxt"),
}
OF_MODULES = {
    ("Image", "open"),
    ("np", "load"),
    ("torch", "load"),
    ("zipfile", "ZipFile"),
    ("tarfile", "open"),
    ("gzip", "open"),
    ("pickle", "load"),
    ("yaml", "safe_load"),
    ("pa", "memory_map"),
}
ARTIFACT = "an artifact, which the store has written and measured"
HELD = {
    **dict.fromkeys(("tasks/files.py", "tasks/imported.py", "tasks/unfinished.py"), ARTIFACT),
    **dict.fromkeys(("orchestrator/page/pictures.py", "orchestrator/scheduling/execute.py"), ARTIFACT),
    "core/data/decoding.py": "pictures in memory, of so many pixels at most",
    "core/data/sources.py": "a folder of `datasets`, by its own library",
    "core/data/layouts.py": "a list in memory, measured as it decompresses",
    "core/models/checkpoints.py": "published weights of a digest that was compared, by torch's list of names",
    "core/priors/official.py": "a storage within a pickle, in the process that can only compute",
    "core/priors/random_face.py": "files of the published package, each of a known size and digest",
    "core/isolation/": "in the process that can only compute",
    "orchestrator/store/": "the store's files have bounds of their own",
    "orchestrator/cluster/": "what Ray has written",
    "orchestrator/commands/reporting/bundle.py": "what it has written",
    "orchestrator/page/pictures.py": "a note in a PNG, of a mebibyte at most, and no pixels",
    "orchestrator/commands/reporting/toy_report.py": ARTIFACT,
}
"""File or folder -> what it reads."""


def parsers_called(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = node.func
            owner = (
                called.value.id if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name) else None
            )
            name = getattr(called, "attr", getattr(called, "id", None))
            if name in PARSERS or (owner, name) in OF_MODULES:
                yield node.lineno


def test_no_file_is_parsed_but_by_the_readers_and_what_is_listed(repository):
    unlisted, seen = [], 0
    for room in ("core", "tasks", "sweeps", "orchestrator"):
        for path in sorted((repository / room).rglob("*.py")):
            name = path.relative_to(repository).as_posix()
            lines = list(parsers_called(ast.parse(path.read_text())))
            seen += len(lines)
            if lines and not name.startswith(("core/readers/", *HELD)):
                unlisted.append(f"{name}: {lines}")
    assert seen > 10 and unlisted == []


USERS = {  # what a user's own code may look like
    "package": {"core/__init__.py": "", "core/net.py": "WHOSE = 'the user'\n"},
    "namespace": {"core/net.py": "WHOSE = 'the user'\n"},
    "module": {"core.py": "class net:\n    WHOSE = 'the user'\n"},
}
PROGRAM = """
import sys
sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in str(finder).lower()]
sys.path[:0] = {places!r}
from core import net
import smoothsweep.core.text, smoothsweep.tasks.registry, smoothsweep.orchestrator
assert net.WHOSE == "the user"
assert "torch" not in sys.modules
print(smoothsweep.core.text.__file__)
if {load!r}:
    assert all(getattr(smoothsweep, name) is not None for name in smoothsweep.__all__)
    import smoothsweep.orchestrator.cli
"""


@pytest.fixture(scope="module")
def shipped(repository, tmp_path_factory):
    """How our code reaches a machine -> the folder that is on the path there."""
    root = tmp_path_factory.mktemp("shipped")
    tree = copy_packages(repository, root / "checkout")
    for name in ("pyproject.toml", "README.md", "LICENSE", ".rayignore"):
        shutil.copy(repository / name, tree)
    create_package(str(tree), root / "job.zip", include_gitignore=True, excludes=[])
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(root)]
    subprocess.run([*build, "--disable-pip-version-check", str(tree)], check=True, timeout=200)
    places = {"checkout": tree, "wheel": root / "installed", "Ray's working directory": root / "job"}
    for file, place in ((next(root.glob("*.whl")), "wheel"), (root / "job.zip", "Ray's working directory")):
        with zipfile.ZipFile(file) as archive:
            archive.extractall(places[place])
    return places


def test_a_wheel_installs_one_name_with_its_files(shipped):
    installed = shipped["wheel"]
    ours = {path.name for path in installed.iterdir() if not path.name.endswith(".dist-info")}
    assert ours == {"smoothsweep"}
    for name in (
        "py.typed",
        "library.py",
        "workbench.py",
        "sweeps/quickstart.yaml",
        "orchestrator/page/style.css",
        "core/models/weights/synthetic_embedder.safetensors",
        "sweeps/paper/tables.csv",
    ):
        assert (installed / "smoothsweep" / name).is_file(), name


def test_a_working_directory_travels_once(shipped):
    names = [path.name for path in shipped["Ray's working directory"].rglob("synthetic_embedder.safetensors")]
    assert names == ["synthetic_embedder.safetensors"]


@pytest.mark.parametrize(
    ("how", "users", "first"),
    [
        ("checkout", "module", True),
        ("checkout", "package", False),
        ("wheel", "package", True),
        ("wheel", "namespace", False),
        ("Ray's working directory", "namespace", True),
        ("Ray's working directory", "module", False),
    ],
)
def test_a_users_core_lives_beside_ours(shipped, how, users, first, tmp_path):
    for name, text in USERS[users].items():
        (tmp_path / "theirs" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "theirs" / name).write_text(text)
    places = [str(tmp_path / "theirs"), str(shipped[how])]
    load = (how, first) == ("wheel", True)  # torch takes seconds
    code = PROGRAM.format(places=places if first else places[::-1], load=load)
    done = subprocess.run([sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().startswith(str(shipped[how]))


def test_no_file_imports_a_package_by_its_folder(repository):
    """`import core` works in a checkout, under a second name with a second copy of every class."""
    by_folder = re.compile(r"^\s*(?:from|import) (?:core|tasks|sweeps|orchestrator)\b(?! =)", re.MULTILINE)
    wrong = []
    for folder in (*PACKAGES, "tests", "tools", "benchmarks"):
        for path in sorted((repository / folder).rglob("*.py")):
            wrong += [f"{path.relative_to(repository)}: {found[0]}" for found in by_folder.finditer(path.read_text())]
    assert [line for line in wrong if not line.startswith("tests/test_start_up.py")] == []
