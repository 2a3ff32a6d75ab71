"""After installation `smoothsweep` is the only name that is ours; a user's package called `core` lives beside it."""

import re
import shutil
import subprocess
import sys
import zipfile

import pytest
from checkout import PACKAGES, copy_packages
from ray._private.runtime_env.packaging import create_package

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


def test_an_editable_install_shows_one_name(repository, tmp_path):
    code = (
        "import importlib.util as util, sys, smoothsweep\n"
        f"for name in {(*PACKAGES[:4], 'benchmarks', 'tools', 'tests')!r}:\n"
        "    spec = util.find_spec(name)\n"
        f"    places = list(spec.submodule_search_locations) if spec else []\n"
        f"    assert not any(place == {str(repository)!r} + '/' + name for place in places), places\n"
        f"assert smoothsweep.__path__[0] == {str(repository)!r}\n"
    )
    subprocess.run([sys.executable, "-P", "-c", code], cwd=tmp_path, check=True, timeout=60)


def test_no_file_imports_a_package_by_its_folder(repository):
    """`import core` works in a checkout, under a second name with a second copy of every class."""
    by_folder = re.compile(r"^\s*(?:from|import) (?:core|tasks|sweeps|orchestrator)\b(?! =)", re.MULTILINE)
    wrong = []
    for folder in (*PACKAGES, "tests", "tools", "benchmarks"):
        for path in sorted((repository / folder).rglob("*.py")):
            wrong += [f"{path.relative_to(repository)}: {found[0]}" for found in by_folder.finditer(path.read_text())]
    assert [line for line in wrong if not line.startswith("tests/test_one_name.py")] == []
