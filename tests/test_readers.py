"""Files that people bring are parsed within the bounds of `core/readers`: whoever else calls a parser is listed here.

A new place is either one that reads what the store or the program has written, or it belongs to `core/readers`.
"""

import ast

import pytest

PARSERS = {
    *("read_parquet", "ParquetFile", "read_table", "read_csv", "read_json", "read_pickle", "load_from_disk"),
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
            "orchestrator/commands/reporting/sharing/bundle.py",
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
    "core/data/sources.py": "a folder of `datasets`, by its own library",
    "core/data/stanford_dogs.py": "a list in memory, measured as it decompresses",
    "core/isolation/": "in the process that can only compute",
    "orchestrator/store/": "the store's files have bounds of their own",
    "orchestrator/cluster/": "what Ray has written",
    "orchestrator/commands/reporting/sharing/archive.py": "what it has written",
    "orchestrator/commands/reporting/sharing/provenance.py": "a note in a PNG, of a mebibyte at most, and no pixels",
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


@pytest.mark.parametrize("source", ["pq.ParquetFile(p)", "Image.open(p)", "safe_open(p)", "torch.load(p)"])
def test_a_parser_is_seen(source):
    assert list(parsers_called(ast.parse(source)))
