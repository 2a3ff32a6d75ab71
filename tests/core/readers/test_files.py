import os

import pytest

from smoothsweep.core.cards.cards import read_card
from smoothsweep.core.data.decoding import UnreadablePicture, read_picture
from smoothsweep.core.errors import InputError
from smoothsweep.core.readers.files import MIB, pieces_of, read_text, read_whole


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


def test_a_file_that_says_it_is_empty_and_is_not_is_bounded_too(tmp_path):
    """As those of /proc are: their size is 0, whatever comes out."""
    with pytest.raises(InputError, match="expected at most 0 MiB"):
        read_whole("/proc/self/status", most_bytes=10)


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
