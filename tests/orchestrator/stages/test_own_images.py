"""The attacker's public images are not the target's private ones."""

import shutil

import pytest
from labelled_files import people, regular_folders
from tiny import write_tiny

from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.planning.proposals import trials_of
from smoothsweep.sweeps.load import load_sweep


def load(tmp_path, private, public):
    data, other = {"kind": "labelled", "path": str(private)}, {"kind": "unlabelled", "path": str(public)}
    return trials_of(load_sweep(write_tiny(tmp_path, data=data, public=other, judges={})))[0].stages


@pytest.mark.parametrize("way", ["the same", "a link", "a hard link", "a copy", "by way of .."])
def test_the_private_file_under_any_name_is_refused(tmp_path, way):
    private, public = people(tmp_path / "faces.parquet"), tmp_path / "other.parquet"
    if way == "a link":
        public.symlink_to(private)
    elif way == "a hard link":
        public.hardlink_to(private)
    elif way == "a copy":
        shutil.copy(private, public)
    else:
        public = private if way == "the same" else tmp_path / "x" / ".." / "faces.parquet"
        (tmp_path / "x").mkdir(exist_ok=True)
    with pytest.raises(InputError, match=r"public\.path: expected images of other people than data\.path"):
        load(tmp_path, private, public)


def test_a_folder_inside_the_other_is_refused(tmp_path):
    private = regular_folders(tmp_path / "faces")
    with pytest.raises(InputError, match="expected images of other people"):
        load(tmp_path, private, private / "ann")


def test_other_files_are_taken(tmp_path):
    assert load(tmp_path, people(tmp_path / "faces.parquet"), people(tmp_path / "other.parquet", per_class=5))
