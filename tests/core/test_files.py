"""Files appear whole, for everybody whom the umask lets read them, and only through `core/files.py`."""

import ast
import errno
import os
import stat

import pytest
import torch
from safetensors.torch import save_file

from smoothsweep.core import files
from smoothsweep.core.files import making_folder, rename_folder, replacing, write_file


@pytest.fixture
def umask():
    """Sets the process's umask for one test."""
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


def names(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def test_a_file_is_replaced_as_a_whole_and_a_failure_leaves_the_old_one(tmp_path):
    path = tmp_path / "a" / "x.json"
    with pytest.raises(FileNotFoundError):
        write_file(path, "1")  # a folder that has gone is not made again
    write_file(path, b"1", parents=True)
    write_file(path, "zwö")
    assert path.read_bytes() == "zwö".encode() and names(tmp_path) == ["a", "a/x.json"]
    with pytest.raises(RuntimeError, match="stop"), replacing(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError("stop")
    assert path.read_text() == "zwö" and names(tmp_path) == ["a", "a/x.json"]


@pytest.mark.parametrize("mask", [0o000, 0o002, 0o022, 0o027, 0o077])
def test_the_umask_decides_who_may_read_whatever_wrote_the_file(tmp_path, umask, mask):
    umask(mask)
    with replacing(tmp_path / "weights") as temporary:
        save_file({"a": torch.zeros(2)}, temporary)  # makes its own file, mode 0600
    write_file(tmp_path / "note", b"")
    with making_folder(tmp_path / "folder") as draft:
        write_file(draft / "note", b"")
    modes = {name: stat.S_IMODE((tmp_path / name).stat().st_mode) for name in names(tmp_path)}
    assert modes == {
        "weights": 0o666 & ~mask,
        "note": 0o666 & ~mask,
        "folder": 0o777 & ~mask,
        "folder/note": 0o666 & ~mask,
    }


def test_content_is_flushed_before_the_rename_and_the_folder_after_it(tmp_path, monkeypatch):
    told, real = [], (os.fsync, os.replace)

    def fsync(descriptor):
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        name = os.path.relpath(path, tmp_path)
        told.append(("flush", name.split(".")[1] if name.startswith(".x") else name))
        real[0](descriptor)

    def replace(old, new):
        told.append(("rename", new.name))
        real[1](old, new)

    monkeypatch.setattr(files.os, "fsync", fsync)
    monkeypatch.setattr(files.os, "replace", replace)
    write_file(tmp_path / "x", b"1")
    assert told == [("flush", "x"), ("rename", "x"), ("flush", ".")]
    told.clear()
    (tmp_path / "draft" / "in").mkdir(parents=True)
    (tmp_path / "draft" / "in" / "y").write_bytes(b"1")
    rename_folder(tmp_path / "draft", tmp_path / "final")
    assert told == [
        ("flush", "draft/in/y"),
        ("flush", "draft/in"),
        ("flush", "draft"),
        ("rename", "final"),
        ("flush", "."),
    ]
    told.clear()
    write_file(tmp_path / "mark", b"1", flush=False)
    assert told == [("rename", "mark")]


def test_a_full_disk_leaves_nothing_behind(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_file(tmp_path / "x", b"1")
    with pytest.raises(OSError, match="No space"), making_folder(tmp_path / "folder") as draft:
        (draft / "y").write_bytes(b"1")
    assert names(tmp_path) == []


def test_a_folder_appears_whole_and_never_over_another(tmp_path):
    with making_folder(tmp_path / "deep" / "final") as draft:
        write_file(draft / "a", b"1")
        assert not (tmp_path / "deep" / "final").exists()
    with pytest.raises(OSError) as caught, making_folder(tmp_path / "deep" / "final") as draft:
        write_file(draft / "b", b"2")
    assert caught.value.errno in (errno.ENOTEMPTY, errno.EEXIST)
    assert names(tmp_path) == ["deep", "deep/final", "deep/final/a"]


# Who writes without core/files.py, and why.
EXCEPTIONS = {
    ("core/isolation/sandbox.py", "open"): "an attempt that must fail, before a program is loaded",
    ("orchestrator/commands/reporting/sharing/bundle.py", "open"): "a member of an archive that `replacing` gave",
    ("orchestrator/commands/study.py", "save"): "a picture into a buffer in memory",
    ("orchestrator/page/tables.py", "to_csv"): "a text, written by the caller",
    ("orchestrator/cli.py", "open"): "the null device, when nobody reads what we print",
    ("orchestrator/commands/batch/node.py", "open"): "what Ray says while it starts, in a folder of this job alone",
    ("orchestrator/commands/health/storage.py", "copytree"): "a new store under a name that is no store's yet",
    ("orchestrator/cluster/tokens.py", "open"): "a secret, which is its owner's alone from the first byte",
    ("orchestrator/store/verified.py", "open"): "a lock, without content",
    ("orchestrator/store/objects.py", "open"): "a download into the temporary name that its callers give",
    ("orchestrator/tracking/recipes.py", "open"): "another process's output, in a folder of this run alone",
}
WRITERS = {
    "rename",
    "renames",
    "mkstemp",
    "NamedTemporaryFile",
    "save_file",
    "write_text",
    "write_bytes",
    "save",
    "savefig",
    "savez",
    "to_parquet",
    "to_csv",
    "to_json",
    "to_pickle",
    "write_table",
    "dump",
    "symlink_to",
    "hardlink_to",
    "touch",
    "link",
    "symlink",
}
WRITERS_OF_MODULES = {"shutil.copy", "shutil.copy2", "shutil.copyfile", "shutil.copytree", "shutil.move"}
OWN = {"replacing", "making_folder"}


def given_by_us(function):
    """Names that a function gets from `with replacing(...) as name`, and buffers in memory."""
    for node in ast.walk(function):
        items = node.items if isinstance(node, ast.With) else []
        for item in items:
            made = isinstance(item.context_expr, ast.Call) and getattr(item.context_expr.func, "id", None) in OWN
            if made and isinstance(item.optional_vars, ast.Name):
                yield item.optional_vars.id
        if isinstance(node, ast.Assign) and ast.unparse(node.value) == "io.BytesIO()":
            yield node.targets[0].id


def written_names(call):
    """Every name in the receiver and the arguments of a call."""
    return {node.id for node in ast.walk(call) if isinstance(node, ast.Name)}


def opens_for_writing(call):
    """Whether open(...) or path.open(...) has a mode that writes; os.open counts by its flags."""
    if ast.unparse(call.func) == "os.open":
        return any(flag in ast.unparse(call) for flag in ("O_WRONLY", "O_RDWR", "O_CREAT"))
    modes = [
        node.value
        for node in [*call.args, *(k.value for k in call.keywords if k.arg == "mode")]
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    return any(set(mode) <= set("rwxabt+") and set(mode) & set("wxa+") for mode in modes)


def writes(tree):
    """(line, name of the call) of everything that writes or renames a file outside of what core/files.py gave."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    for function in [*functions, tree]:
        ours = set(given_by_us(function)) if function is not tree else set()
        inside = {id(n) for f in functions for n in ast.walk(f)} if function is tree else set()
        for call in ast.walk(function):
            if not isinstance(call, ast.Call) or id(call) in inside:
                continue
            name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
            path_replace = isinstance(call.func, ast.Attribute) and name == "replace" and not call.keywords
            renames = path_replace and (len(call.args) == 1 or ast.unparse(call.func) == "os.replace")
            tabular = name == "rename" and {k.arg for k in call.keywords} == {"columns"}  # of a table, no file
            plain = (
                name in WRITERS and (call.args or call.keywords) and ast.unparse(call.func) != "save" and not tabular
            )
            known = plain or ast.unparse(call.func) in WRITERS_OF_MODULES  # a bare save(state) gives bytes
            found = renames or known or (name == "open" and opens_for_writing(call))
            if found and not written_names(call) & ours:
                yield call.lineno, name


def test_files_are_written_in_one_place_only(repository):
    wrong, used = [], set()
    for room in ("core", "tasks", "sweeps", "orchestrator"):
        for path in sorted((repository / room).rglob("*.py")):
            name = path.relative_to(repository).as_posix()
            if name == "core/files.py":
                continue
            for line, call in writes(ast.parse(path.read_text())):
                used.add((name, call))
                if (name, call) not in EXCEPTIONS:
                    wrong.append(f"{name}:{line}: {call}")
    assert not wrong
    assert used == set(EXCEPTIONS)  # no exception outlives its reason


@pytest.mark.parametrize(
    "source",
    [
        "os.replace(a, b)",
        "Path(a).rename(b)",
        "Path(a).rename(target=b)",
        "a.replace(b)",
        "os.rename(a, b)",
        "path.write_text('x')",
        "(out / 'x').write_bytes(b'')",
        "open(path, 'w')",
        "path.open('ab')",
        "open(path, mode='x')",
        "save_file(a, b)",
        "rows.to_parquet(path)",
        "torch.save(state, path)",
        "os.open(path, os.O_WRONLY)",
        "image.save(path)",
        "tempfile.mkstemp(dir=a)",
        "shutil.copy(a, b)",
        "json.dump(a, b)",
    ],
)
def test_the_search_for_writers_finds_them(source):
    assert list(writes(ast.parse(f"def f():\n    {source}"))) and list(writes(ast.parse(source)))
    inside = f"def f():\n    with replacing(x) as path, making_folder(y) as a:\n        {source}"
    allowed = "path" in source or "a" in written_names(ast.parse(source))
    assert bool(list(writes(ast.parse(inside)))) is not allowed


@pytest.mark.parametrize(
    "source", ["text.replace('a', 'b')", "replace(x, a=1)", "table.rename(columns=a)", "open(path)", "path.open('rb')"]
)
def test_the_search_for_writers_leaves_readers_alone(source):
    assert not list(writes(ast.parse(f"def f():\n    {source}")))


class QuotingError(Exception):
    """What a library that writes in another language raises."""


@pytest.mark.parametrize(
    "error",
    [
        QuotingError("Error while serializing: I/O error: No space left on device (os error 28)"),
        QuotingError("Error writing bytes to file. Detail: [errno 28] No space left on device"),
        OSError(28, "No space left on device"),
    ],
)
def test_a_full_disk_is_told_alike_whoever_wrote(tmp_path, error):
    with pytest.raises(OSError, match=r"No space left on device: .*out'$") as told, replacing(tmp_path / "out"):
        raise error
    assert (told.value.errno, told.value.filename) == (28, str(tmp_path / "out")) and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [QuotingError("of 28 rows"), FileNotFoundError(2, "No such file", "/the/source")])
def test_other_errors_in_between_stay_as_they_are(tmp_path, error):
    with pytest.raises(type(error)) as told, replacing(tmp_path / "out"):
        raise error
    assert told.value is error
