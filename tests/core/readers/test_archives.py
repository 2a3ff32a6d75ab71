"""Archives by hand: what is read, what is written anew, and every bound from either side."""

import io
import random
import zipfile

import pytest

from smoothsweep.core.errors import InputError
from smoothsweep.core.readers import archives
from smoothsweep.core.readers.archives import Members, members_of, names_of, text_of

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


def test_what_is_kept_is_written_anew_in_the_order_given_and_nothing_else(path):
    out, again = io.BytesIO(), io.BytesIO()
    kept = {"data/0": None, "code/a.py": b"other text", "new": b"added", "data.pkl": None}
    for into in (out, again):
        with members_of(path, "a program") as members:
            members.write(kept, into)
    assert out.tell() == 0 and out.getvalue() == again.getvalue(), "read from the start, and the same each time"
    with zipfile.ZipFile(out) as archive:
        entries = archive.infolist()
        assert [entry.filename for entry in entries] == [f"program/{name}" for name in kept]
        assert {entry.compress_type for entry in entries} == {zipfile.ZIP_STORED} and archive.testzip() is None
        written = [archive.read(entry) for entry in entries]
    assert written == [FILES["data/0"], b"other text", b"added", FILES["data.pkl"]]
    with members_of(path, "a program") as members:
        members.write({"empty": None}, out := io.BytesIO(), root="else")
    assert zipfile.ZipFile(out).namelist() == ["else/empty"]


@pytest.mark.parametrize(("free", "fits"), [(2 * 2304 + 20, True), (2 * 2304 + 18, False)])
def test_what_is_written_takes_at_most_half_of_the_free_memory(path, monkeypatch, free, fits):
    """2304 bytes as they are and ten of text; half of 4628 is 2314."""
    monkeypatch.setattr(archives, "available_memory", lambda: free)
    out = io.BytesIO()
    with members_of(path, "a program") as members:
        if fits:
            return members.write({"data/0": None, "code/a.py": b"0123456789"}, out)
        with pytest.raises(InputError, match=rf"50% of the free memory, {free} bytes, got one of 2314 bytes"):
            members.write({"data/0": None, "code/a.py": b"0123456789"}, out)
    assert not out.getvalue()


@pytest.mark.parametrize("packed", [(), ("code/a.py",), ("code/a.py", "data/0")])
def test_bounds_hold_from_either_side(path, tmp_path, monkeypatch, packed):
    path = made(tmp_path / "some.pt", packed=packed)
    size, inflated = path.stat().st_size, sum(len(FILES[name]) for name in packed)
    for name, fits in (("MOST_BYTES", size), ("MOST_MEMBERS", len(FILES)), ("MOST_TEXT", max(2304, inflated))):
        for bound, fine in ((fits, True), (fits - 1, False)):
            with monkeypatch.context() as patched:
                patched.setattr(archives, name, bound)
                try:
                    with members_of(path, "a program") as members:
                        members.read("data/0")
                    refused = False
                except InputError as error:
                    refused = str(error).startswith(f"{path}: expected a program")
            assert refused is not fine, (name, bound)


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


def test_the_words_of_a_fault_are_one_line_and_short(path):
    with pytest.raises(InputError) as refused, members_of(path, "a program"):
        raise ValueError("many\n  words\t" + "x" * 900)
    said = str(refused.value)
    assert said == f"{path}: expected a program, got: " + ("many words " + "x" * 900)[:200]
    with pytest.raises(InputError, match=r"^of its own$"), members_of(path, "a program"):
        raise InputError("of its own")
    with pytest.raises(KeyError), members_of(path, "a program"):
        raise KeyError("a fault of ours")


@pytest.mark.parametrize(("stored", "fine"), [(0, True), (1, False)])
def test_members_claim_no_more_than_the_file_has(tmp_path, stored, fine):
    """Stored members of together the file's size, and of one byte more."""
    path = made(tmp_path / "some.pt", {"a": b"", "b": b""})
    size = path.stat().st_size
    entries = [zipfile.ZipInfo("any/a"), zipfile.ZipInfo("any/b")]
    entries[0].file_size, entries[1].file_size = size // 2, size - size // 2 + stored
    if fine:
        return archives._check_sizes(entries, size, "x")
    with pytest.raises(InputError, match=r"^x, got an archive that unpacks to too much"):
        archives._check_sizes(entries, size, "x")


def test_text_is_text():
    assert text_of("später".encode(), "x") == "später"
    with pytest.raises(InputError, match=r"^x: expected text, got other bytes"):
        text_of(random.Random(0).randbytes(99), "x")


def test_reading_asks_only_for_what_is_named(path):
    with zipfile.ZipFile(path) as archive:
        entry = archive.getinfo("any/data/0")
        members = Members(archive, {"x": entry}, "here")
        assert list(members) == ["x"] and members.read("x") == FILES["data/0"]


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
