"""Files and archives from outside: what is read, and one line for others, damaged ones and what unpacks to too much."""

import os
import random
import zipfile

import pytest

from smoothsweep.core.cards import read_card
from smoothsweep.core.data.decoding import UnreadablePicture, read_picture
from smoothsweep.core.errors import InputError
from smoothsweep.core.readers.files import MIB, members_of, pieces_of, read_text, read_whole


def test_a_byte_more_is_refused(tmp_path):
    (tmp_path / "x").write_bytes(bytes(2**20 + 1))
    with pytest.raises(InputError, match=r"x: expected at most 1 MiB, got 1\.0 MiB"):
        read_whole(tmp_path / "x", most_bytes=2**20)
    assert len(read_whole(tmp_path / "x", most_bytes=2**20 + 1)) == 2**20 + 1


def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for read in (
        lambda path: read_whole(path, most_bytes=9),
        read_text,
        lambda path: read_card(path, "a card"),
        lambda path: next(pieces_of(path, most_bytes=9)),
    ):
        with pytest.raises(InputError, match="expected a regular file"):
            read(tmp_path / "pipe")
    with pytest.raises(UnreadablePicture, match="expected a regular file"):
        read_picture(tmp_path / "pipe")


@pytest.mark.parametrize("size", [0, 1, MIB, 2 * MIB + 3])
def test_pieces_are_the_file(tmp_path, size):
    (tmp_path / "x").write_bytes(content := os.urandom(size))
    pieces = list(pieces_of(tmp_path / "x", most_bytes=2 * MIB + 3))
    assert b"".join(pieces) == content and all(len(piece) <= MIB for piece in pieces)


def test_pieces_of_a_file_that_grows_end_at_the_bound(tmp_path):
    (tmp_path / "x").write_bytes(bytes(MIB))
    pieces, got = pieces_of(tmp_path / "x", most_bytes=3 * MIB), 0
    with pytest.raises(InputError, match="x: expected at most 3 MiB"):
        for piece in pieces:
            got += len(piece)
            with (tmp_path / "x").open("ab") as file:
                file.write(bytes(2 * MIB))
    assert got <= 3 * MIB


FILES = {"data.pkl": b"\x80\x02.", "code/a.py": b"def f():\n    pass\n", "data/0": bytes(range(256)) * 9, "empty": b""}


def made(path, files=FILES, root="any/", packed=()):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            how = zipfile.ZIP_DEFLATED if name in packed else zipfile.ZIP_STORED
            archive.writestr(f"{root}{name}", content, how)
    return path


@pytest.fixture
def path(tmp_path):
    return made(tmp_path / "any.pt", packed=("code/a.py",))


def test_members_are_named_without_their_folder_and_read_as_they_are(path):
    with members_of(path, "a program") as members:
        assert list(members) == list(FILES)
        assert all(name in members and members.read(name) == content for name, content in FILES.items())
        assert "any/data.pkl" not in members and "other" not in members


def two_roots(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/0", b"")
        archive.writestr("1", b"")


def overlapping(path):
    content = bytearray(made(path).read_bytes())
    at = content.index(b"PK\1\2") + 20  # compressed and plain size of the first member in the list
    content[at : at + 8] = (2**31).to_bytes(4, "little") * 2
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: made(path, {**FILES, "zeros": bytes(2**26 + 1)}, packed=("zeros",)), "unpacks to too much"),
        (overlapping, "unpacks to too much"),
        (two_roots, "several folders"),
        (lambda path: made(path, root=""), "several folders"),
        (lambda path: path.write_bytes(b"no archive"), "no zip archive"),
        (lambda path: path.write_bytes(made(path).read_bytes()[:-30]), "cut off"),
        (lambda path: None, "No such file"),
    ],
    ids=["zeros", "one in another", "two folders", "no folder", "text", "cut", "nothing"],
)
def test_other_archives_are_one_line(tmp_path, make, words):
    make(path := tmp_path / "any.pt")
    with pytest.raises(InputError, match=f"^{path}: expected a program, got.*{words}"), members_of(path, "a program"):
        pass


def test_a_member_comes_in_pieces_and_as_many_bytes_as_the_list_says(tmp_path):
    content = random.Random(1).randbytes(2**20 + 17)
    with members_of(made(tmp_path / "a.zip", {"big": content, "none": b""}), "a bundle") as members:
        pieces = list(members.pieces("big"))
        assert b"".join(pieces) == content and max(map(len, pieces)) <= 2**20
        assert list(members.pieces("none")) == []


@pytest.mark.parametrize("listed", [5, 40])
def test_a_member_of_another_size_than_its_list_says_is_refused(listed, tmp_path):
    """zipfile reads no more than the list says, and then misses the checksum of the rest."""
    path = made(tmp_path / "a.zip", {"a": bytes(range(20)), "b": bytes(200)})
    content = path.read_bytes()
    start = content.rindex(b"PK\1\2", 0, content.rindex(b"PK\1\2"))  # the entry of a in the archive's list
    sizes = start + 20
    path.write_bytes(content[:sizes] + listed.to_bytes(4, "little") * 2 + content[sizes + 8 :])
    with members_of(path, "a bundle") as members, pytest.raises(InputError, match="expected a bundle"):
        list(members.pieces("a"))
