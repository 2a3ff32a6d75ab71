"""A file from outside is read by `core/readers` and nothing else, so that no reader can forget its bounds.

Whoever calls a library's reader, or reads a path whole, is listed here with what it reads instead. A new place is
either one of those, which the store or the program has written, or it belongs to `core/readers`.
"""

import ast

import pytest

READERS = "core/readers/"
WHOLE = {"read_bytes", "read_text", "open"}
LIBRARIES = {
    "read_parquet",
    "ParquetFile",
    "read_table",
    "loadmat",
    "safe_open",
    "load_file",
    "fromfile",
    "memmap",
    "imread",
    "read_csv",
    "read_json",
    "read_pickle",
    "genfromtxt",
    "loadtxt",
}
OF_MODULES = {
    ("Image", "open"),
    ("np", "load"),
    ("torch", "load"),
    ("zipfile", "ZipFile"),
    ("tarfile", "open"),
    ("os", "open"),
    ("gzip", "open"),
    ("pickle", "load"),
    ("yaml", "safe_load"),
    ("pa", "memory_map"),
    ("torchvision", "io"),
}

ARTIFACT = "an artifact, which the store has written and measured"
WRITES = "opens what it writes, or its own locks and sockets"
SHIPPED = "a file of the program itself"
BOUNDED = "reads no more than it says"
HELD = {
    **dict.fromkeys(
        (
            "orchestrator/commands/audit/auditing.py",
            "orchestrator/commands/records/ancestry.py",
            "orchestrator/commands/reporting/sweep_report.py",
            "orchestrator/commands/reporting/toy_report.py",
            "orchestrator/page/pictures.py",
            "orchestrator/page/stored.py",
            "orchestrator/planning/history.py",
            "orchestrator/planning/stage_progress.py",
            "orchestrator/planning/power.py",
            "orchestrator/reading/audit/shadows.py",
            "orchestrator/reading/derived.py",
            "orchestrator/reading/results.py",
            "orchestrator/scheduling/execute.py",
            "orchestrator/scheduling/finite.py",
            "orchestrator/stages/fingerprints.py",
            "orchestrator/tracking/models.py",
            "orchestrator/tracking/runs/points.py",
            "orchestrator/tracking/server/exporting.py",
            "orchestrator/tracking/trials.py",
            "tasks/class_names.py",
            "tasks/context.py",
            "tasks/files.py",
            "tasks/imported.py",
            "tasks/lowres_fid.py",
            "tasks/manifests.py",
            "tasks/poison.py",
            "tasks/ray_train.py",
            "tasks/unfinished.py",
        ),
        ARTIFACT,
    ),
    **dict.fromkeys(
        (
            "core/files.py",
            "core/data/packed.py",
            "orchestrator/cli.py",
            "orchestrator/cluster/tokens.py",
            "orchestrator/commands/batch/node.py",
            "orchestrator/tracking/server/sqlite_file.py",
            "orchestrator/commands/reporting/sharing/archive.py",
        ),
        WRITES,
    ),
    **dict.fromkeys(
        (
            "core/citations.py",
            "sweeps/paper_numbers.py",
            "sweeps/paper_settings.py",
            "orchestrator/page/render.py",
            "orchestrator/stages/code_version.py",
        ),
        SHIPPED,
    ),
    **dict.fromkeys(("core/isolation/landlock.py", "core/isolation/worker.py"), "in the process that can only compute"),
    "core/allotted.py": "what the kernel says of cgroups",
    "core/prose.py": SHIPPED,
    "core/same_code.py": SHIPPED,
    "core/writers.py": "what the kernel says of a process, and locks of its own",
    "tasks/planned_files.py": "a digest that it has kept",
    "core/data/decoding.py": "pictures in memory, of so many pixels at most",
    "core/data/sources.py": "feeds a digest, a mebibyte at a time",
    "core/data/trees.py": "feeds a digest",
    "core/data/stanford_dogs.py": "a list in memory, measured as it decompresses",
    "orchestrator/commands/reporting/sharing/provenance.py": "a note in a PNG, of a mebibyte at most, and no pixels",
    "core/models/weight_files.py": "the beginning of a file, and a digest",
    "sweeps/load.py": f"{BOUNDED}: a sweep may come through a pipe",
}
"""Module -> what it reads."""

ELSEWHERE = ("orchestrator/store/", "orchestrator/cluster/")
"""Rooms with bounds of their own: the store's files, what Ray has written."""


def raw_reads(tree):
    """The lines that call a reader."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            name = getattr(node, "attr", None)  # handed over without being called, as in read=path.read_bytes
            if isinstance(node, ast.Attribute) and name in ("read_bytes", "read_text"):
                yield node.lineno
            continue
        called = node.func
        if isinstance(called, ast.Name) and called.id in LIBRARIES | {"open"}:
            yield node.lineno
        elif isinstance(called, ast.Attribute):
            owner = called.value.id if isinstance(called.value, ast.Name) else None
            of_a_path = called.attr in WHOLE - {"open"} or (called.attr == "open" and is_path(node))
            if called.attr in LIBRARIES or (owner, called.attr) in OF_MODULES or of_a_path:
                yield node.lineno


def is_path(call):
    """`path.open()` or `path.open("rb")`: what others open is given something else."""
    modes = [node for node in call.args if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return len(call.args) == len(modes) and {key.arg for key in call.keywords} <= {"encoding", "errors", "mode"}


@pytest.fixture(scope="module")
def found(repository):
    """Module -> the lines that read, outside of `core/readers`."""
    lines = {}
    for room in ("core", "tasks", "sweeps", "orchestrator", "smoothsweep"):
        here = repository / room
        for path in [here] if here.is_file() else sorted(here.rglob("*.py")):
            module = path.relative_to(repository).as_posix()
            if not module.startswith((READERS, *ELSEWHERE)):
                lines[module] = sorted(set(raw_reads(ast.parse(path.read_text()))))
    return lines


def test_nothing_reads_a_file_by_itself_but_what_is_listed(found):
    unlisted = [
        f"{module}: line {', '.join(map(str, lines))}"
        for module, lines in found.items()
        if lines and module not in HELD
    ]
    assert not unlisted, "read by core/readers, or say in HELD what it reads that is not from outside"


@pytest.mark.parametrize(
    "source",
    [
        "import pyarrow.parquet as pq\npq.ParquetFile(p)",
        "pd.read_parquet(p)",
        "Image.open(p)",
        "np.load(p)",
        "p.read_bytes()",
        "Entry(read=p.read_bytes)",
        "with p.open('rb') as f: pass",
        "safe_open(p, framework='pt')",
        "load_file(p)",
        "open(p)",
        "scipy.io.loadmat(p)",
        "torch.load(p)",
    ],
)
def test_a_reader_is_seen(source):
    assert list(raw_reads(ast.parse(source)))


@pytest.mark.parametrize("source", ["webbrowser.open(u)", "read_whole(p, most_bytes=1)", "json.loads(t)"])
def test_what_reads_no_file_is_no_reader(source):
    assert not list(raw_reads(ast.parse(source)))
