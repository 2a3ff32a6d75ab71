"""Files that people bring are parsed within the bounds of `core/readers`: any other caller of a parser is listed here.

A new place is either one that reads what the store or the program has written, or it belongs to `core/readers`.
"""

import ast

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
