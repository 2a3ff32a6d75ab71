"""Archives by hand: what is read; one line for other files, damaged ones and those that unpack to too much."""

import random
import zipfile

import pytest

from smoothsweep.core.errors import InputError
from smoothsweep.core.readers import archives
from smoothsweep.core.readers.archives import members_of, names_of

FILES = {"data.pkl": b"\x80\x02.", "code/a.py": b"def f():\n    pass\n", "data/0": bytes(range(256)) * 9, "empty": b""}


def made(path, files=FILES, root="any/", packed=(), size=None):
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


def test_the_list_of_members_has_a_bound(path, monkeypatch):
    with zipfile.ZipFile(path) as archive:
        length = sum(46 + len(entry.filename) for entry in archive.infolist())  # APPNOTE 4.3.12: 46 bytes and the name
    monkeypatch.setattr(archives, "MOST_DIRECTORY", length)
    assert names_of(path, "x") is not None
    monkeypatch.setattr(archives, "MOST_DIRECTORY", length - 1)
    with pytest.raises(InputError, match=rf"^x of at most 20000 members, got a list of {length} bytes"):
        names_of(path, "x")


def test_what_is_no_zip_has_no_list_and_what_is_no_file_cannot_be_looked_at(tmp_path):
    (tmp_path / "text").write_bytes(b"no archive")
    assert names_of(tmp_path / "text", "x") is None
    with pytest.raises(FileNotFoundError):
        names_of(tmp_path / "nothing", "x")
    for path in (tmp_path / "text", tmp_path / "nothing"):
        with pytest.raises(InputError, match=f"^{path}: expected a program, got: "), members_of(path, "a program"):
            pass


@pytest.mark.parametrize("way", ["zeros", "one in another"])
def test_what_unpacks_to_more_than_the_file_can_hold_is_one_line(tmp_path, way):
    path = made(
        tmp_path / "some.pt", {**FILES, "zeros": bytes(2**26 + 1)} if way == "zeros" else FILES, packed=("zeros",)
    )
    if way != "zeros":
        content = bytearray(path.read_bytes())
        at = content.index(b"PK\1\2") + 20  # compressed and plain size of the first member in the list
        content[at : at + 8] = (2**31).to_bytes(4, "little") * 2
        path.write_bytes(content)
    with pytest.raises(InputError, match=r"got an archive that unpacks to too much$"), members_of(path, "a program"):
        pass


@pytest.mark.parametrize("roots", [("a/", "b/"), ("", ""), ("a/", "")])
def test_one_folder_holds_all(tmp_path, roots):
    with zipfile.ZipFile(tmp_path / "two.pt", "w") as archive:
        for number, root in enumerate(roots):
            archive.writestr(f"{root}{number}", b"")
    with pytest.raises(InputError, match="several folders"), members_of(tmp_path / "two.pt", "a program"):
        pass


def test_a_damaged_member_is_one_line(path):
    content = bytearray(path.read_bytes())
    content[content.index(FILES["data/0"][:64]) + 5] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"expected a program, got: Bad CRC-32"), members_of(path, "a program") as some:
        some.read("data/0")


def test_a_member_comes_in_pieces_and_as_many_bytes_as_the_list_says(tmp_path):
    content = random.Random(1).randbytes(2**20 + 17)
    with members_of(made(tmp_path / "a.zip", {"big": content, "none": b""}), "a bundle") as members:
        pieces = list(members.pieces("big"))
        assert b"".join(pieces) == content and max(map(len, pieces)) <= 2**20
        assert list(members.pieces("none")) == [] and members.size("big") == len(content)


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
