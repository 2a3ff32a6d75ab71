"""Digests of folders: what changes them, what does not."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smoothsweep.core.data.sources import path_state, tree_digest, tree_files
from smoothsweep.core.errors import InputError


def plant(root, files):
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return root


FILES = {"a/1.png": b"one", "a/10.png": b"ten", "b/list.txt": b"a 1", "c.mat": b""}


def test_names_and_contents_count_and_the_place_does_not(tmp_path):
    here, there = plant(tmp_path / "here", FILES), plant(tmp_path / "elsewhere", FILES)
    (there / ".hidden").write_text("x")
    assert tree_digest(here) == tree_digest(there)
    renamed = {("a/2.png" if name == "a/1.png" else name): content for name, content in FILES.items()}
    for other in ({**FILES, "a/1.png": b"onE"}, {**FILES, "d": b""}, renamed):
        assert tree_digest(plant(tmp_path / str(len(list(tmp_path.iterdir()))), other)) != tree_digest(here)


@given(st.lists(st.binary(max_size=6), min_size=2, max_size=4))
def test_bytes_cannot_wander_between_files(tmp_path_factory, contents):
    root = tmp_path_factory.mktemp("tree")
    split = plant(root / "split", {str(i): c for i, c in enumerate(contents)})
    merged = plant(root / "merged", {"0": b"".join(contents), **{str(i): b"" for i in range(1, len(contents))}})
    same = all(not content for content in contents[1:])
    assert (tree_digest(split) == tree_digest(merged)) == same


def test_the_state_moves_with_time_and_size(tmp_path):
    root = plant(tmp_path / "t", FILES)
    before, total = path_state(root)
    assert total == sum(map(len, FILES.values())) and path_state(root) == (before, total)
    os.utime(root / "a/1.png", ns=(1, 1))
    assert path_state(root)[0] != before


def test_a_link_in_a_circle_is_one_line(tmp_path):
    root = plant(tmp_path / "t", FILES)
    (root / "a" / "up").symlink_to(root)
    with pytest.raises(InputError, match="again through a link"):
        list(tree_files(root))
