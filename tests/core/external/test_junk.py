"""Archives with junk: bounded by what their own list says, before anything of them is read."""

import io
import os
import pickle
import resource
import struct
import zipfile

import pytest
import torch

from smoothsweep.core.errors import InputError
from smoothsweep.core.external import torchscript as torchscript_reader
from smoothsweep.core.external.consent import agree_to, agreed_to
from smoothsweep.core.external.exported import check_exported
from smoothsweep.core.external.kinds import KINDS, kind_of_file
from smoothsweep.core.external.opening import open_external
from smoothsweep.core.external.torchscript import check_torchscript, open_torchscript
from smoothsweep.core.readers import archives
from smoothsweep.core.readers.archives import MOST_BYTES, MOST_MEMBERS, MOST_TEXT, members_of
from smoothsweep.tasks.external import copy_external
from tests.made_programs import Shades, exported, torchscript

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    return torchscript(Shades(torch.linspace(-1, 1, 4)).eval(), tmp_path_factory.mktemp("good") / "good.pt")


def copied(path, out, add):
    """The archive with more in it: `add(archive, root)`."""
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(out, "w") as target:
        for entry in source.infolist():
            target.writestr(entry.filename, source.read(entry))
        add(target, source.namelist()[0].partition("/")[0])
    return out


JUNK = {
    "many": (
        lambda archive, root: [archive.writestr(f"{root}/extra/{n}", b"") for n in range(MOST_MEMBERS)],
        f"at most {MOST_MEMBERS} members",
    ),
    "inflated": (
        lambda archive, root: archive.writestr(f"{root}/code/a.py", b"\0" * (MOST_TEXT + 1), zipfile.ZIP_DEFLATED),
        "unpacks to too much",
    ),
    "inflated_together": (
        lambda archive, root: [
            archive.writestr(f"{root}/extra/{n}", b"\0" * (MOST_TEXT // 4), zipfile.ZIP_DEFLATED) for n in range(5)
        ],
        "unpacks to too much",
    ),
    "two_folders": (
        lambda archive, root: archive.writestr("other/data.pkl", b""),
        "of several folders or files",
    ),
    "encoded": (
        lambda archive, root: archive.writestr(f"{root}/code/a.py", b"x\n" * 10, zipfile.ZIP_LZMA),
        "in another way than by deflate",
    ),
}


@pytest.mark.parametrize("kind", JUNK)
def test_junk_is_one_line(good, tmp_path, kind):
    add, line = JUNK[kind]
    path = copied(good, tmp_path / "junk.pt", add)
    with pytest.raises(InputError, match=line):
        open_torchscript(path, {}, CPU)


@pytest.mark.parametrize("kind", list(KINDS))
def test_what_is_no_file_is_one_line_and_not_waited_for(kind, tmp_path):
    os.mkfifo(path := tmp_path / KINDS[kind].file)
    assert kind_of_file(path) == (kind if KINDS[kind].is_named(path) else None)
    with pytest.raises(InputError, match="expected a regular file") as refused:
        open_external(kind, path, {}, CPU)
    assert "\n" not in str(refused.value)
    for ask in (agreed_to, agree_to):
        with pytest.raises(InputError, match="expected a regular file"):
            ask(path)


@pytest.mark.parametrize("kind", list(KINDS))
def test_a_file_larger_than_any_model_is_one_line_and_not_read(kind, tmp_path):
    with (path := tmp_path / KINDS[kind].file).open("wb") as file:
        file.truncate(MOST_BYTES + 1)  # a hole
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for refused in (
        lambda: open_external(kind, path, {}, CPU),
        lambda: agreed_to(path),
        lambda: copy_external(path, tmp_path / "copy"),
    ):
        with pytest.raises(InputError, match=f"{path}: expected ") as line:
            refused()
        assert "\n" not in str(line.value)
    assert not (tmp_path / "copy").exists() and [one.name for one in tmp_path.iterdir()] == [path.name]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 256 * 2**10


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_twice_is_one_line(good, tmp_path):
    path = copied(good, tmp_path / "junk.pt", lambda archive, root: archive.writestr(f"{root}/data.pkl", b"x"))
    with pytest.raises(InputError, match="with a name twice"):
        open_torchscript(path, {}, CPU)


def test_members_that_lie_in_one_another_are_one_line(good, tmp_path):
    """A stored member that claims more than the file has: read, it would take the same bytes again and again."""
    content = bytearray(good.read_bytes())
    at = content.index(b"PK\x01\x02")
    for offset in (20, 24):  # compressed and plain size of the first member in the list
        content[at + offset : at + offset + 4] = struct.pack("<I", 2**31)
    (tmp_path / "nested.pt").write_bytes(content)
    with pytest.raises(InputError, match="unpacks to too much"):
        open_torchscript(tmp_path / "nested.pt", {}, CPU)


def test_a_long_list_of_members_is_not_read(good, tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "MOST_DIRECTORY", 100)
    for look in (lambda: kind_of_file(good), lambda: open_torchscript(good, {}, CPU)):
        with pytest.raises(InputError, match=r"good\.pt: expected .* got a list of \d+ bytes"):
            look()


def test_a_large_member_that_is_a_text_is_not_read(good, tmp_path):
    """Also not from a file with a hole in it, which takes no room on the disk."""
    out = tmp_path / "sparse.pt"

    def add(archive, root):
        archive.writestr(f"{root}/code/large.py", b"#" * 100)

    copied(good, out, add)
    with zipfile.ZipFile(out) as archive:
        [entry] = [one for one in archive.infolist() if one.filename.endswith("large.py")]
        members = archives.Members(archive, {"code/large.py": entry}, "x")
        entry.file_size = MOST_TEXT + 1
        with pytest.raises(InputError, match=r"got a larger member code/large\.py"):
            members.read("code/large.py")


def test_weights_that_do_not_fit_into_memory_are_one_line_before_they_are_read(good, tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "available_memory", lambda: 1000)
    written = io.BytesIO()
    with (
        members_of(good, "a program") as members,
        pytest.raises(InputError, match=r"50% of the free memory, 1000 bytes"),
    ):
        members.write(dict.fromkeys(members), written)
    assert not written.getvalue()


def test_sparse_junk_beside_a_program_takes_no_memory(good, tmp_path):
    """2 GiB that no program names, as a hole in the file."""
    path, size = tmp_path / "hole.pt", 2**31
    content = good.read_bytes()
    with zipfile.ZipFile(good) as archive:
        root, start = archive.namelist()[0].partition("/")[0], archive.start_dir
        count = len(archive.infolist())
        directory = content[start:][: len(content) - start - 22]
    directory = directory[: directory.index(b"PK\x06\x06")] if b"PK\x06\x06" in directory else directory
    named = f"{root}/data/999".encode()
    local = struct.pack("<4s5H3I2H", b"PK\x03\x04", 20, 0, 0, 0, 0, 0, size, size, len(named), 0) + named
    listed = struct.pack(
        "<4s6H3I5H2I", b"PK\x01\x02", 20, 20, 0, 0, 0, 0, 0, size, size, len(named), 0, 0, 0, 0, 0, start
    )
    with path.open("wb") as file:
        file.write(content[:start] + local)
        file.seek(size, os.SEEK_CUR)
        at = file.tell()
        file.write(directory + listed + named)
        ends = (count + 1, count + 1, len(directory) + len(listed) + len(named), at, 0)
        file.write(struct.pack("<4s2H2H2IH", b"PK\x05\x06", 0, 0, *ends))
    assert os.stat(path).st_blocks * 512 < 2**20 and path.stat().st_size > size
    with zipfile.ZipFile(path) as archive:
        assert archive.getinfo(f"{root}/data/999").file_size == size
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with members_of(path, "a program") as members:
        members.write(check_torchscript(members, "x"), io.BytesIO())
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 256 * 2**10


def test_exported_programs_leave_unread_what_nothing_names(tmp_path):
    path = exported(Shades(torch.linspace(-1, 1, 4)).eval(), tmp_path / "good.pt2")
    junk = copied(
        path, tmp_path / "junk.pt2", lambda archive, root: archive.writestr(f"{root}/data/weights/weight_99", b"x")
    )
    with members_of(junk, "a program") as members:
        kept = check_exported(members, junk)
    assert "data/weights/weight_99" not in kept
    assert sum(content is None for content in kept.values()) == 2  # its two tensors, which are copied unread


def test_what_names_the_weights_has_a_bound_from_either_side(monkeypatch):
    """A pickle of two texts and their tuple; sixteen megabytes of names are more than any network has."""
    content = pickle.dumps(("data/0", "other"), protocol=2)
    assert torchscript_reader.MOST_PICKLE == 2**24
    monkeypatch.setattr(torchscript_reader, "MOST_PICKLE", len(content))
    assert torchscript_reader._texts(content, "x") == {"data/0", "other"}
    monkeypatch.setattr(torchscript_reader, "MOST_PICKLE", len(content) - 1)
    with pytest.raises(InputError, match=rf"^x: expected names and shapes of at most {len(content) - 1} bytes, got"):
        torchscript_reader._texts(content, "x")
