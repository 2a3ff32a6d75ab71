"""Where the files of a run's Ray may lie: short enough for its sockets, closed to others, in a place that is safe."""

import os
import re
import stat
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.cluster import run_folder
from smoothsweep.orchestrator.cluster.run_folder import folders, new_folder


@pytest.fixture
def place(monkeypatch):
    """A folder with a short name, in which a base may be made; nothing else is a base here."""
    monkeypatch.delenv("RAY_TMPDIR", raising=False)
    with tempfile.TemporaryDirectory(prefix="t", dir="/tmp") as name:
        monkeypatch.setattr(run_folder, "SHORT_BASE", Path(name) / "none")
        yield Path(name)


def base(place, mode=0o700, name="b"):
    found = place / name
    found.mkdir(parents=True, exist_ok=True)
    found.chmod(mode)
    return found


@pytest.mark.parametrize("mask", [0, 0o002, 0o022, 0o077])
def test_it_is_of_mode_700_whatever_the_umask_and_goes_at_the_end(place, monkeypatch, mask):
    monkeypatch.setenv("RAY_TMPDIR", str(base(place)))
    before = os.umask(mask)
    try:
        with new_folder() as folder:
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700 and folder.parent == place / "b"
            assert (os.getpid(), folder) in list(folders())
            (folder / "ray" / "session_1" / "logs").mkdir(parents=True)
    finally:
        os.umask(before)
    assert list((place / "b").iterdir()) == []


@given(extra=st.integers(0, 120))
def test_a_name_too_long_for_a_socket_is_refused_and_no_other(extra):
    """By Ray's own rule, on the longest name that its session can have here."""
    from ray._private.utils import validate_socket_filepath

    with tempfile.TemporaryDirectory(prefix="t", dir="/tmp") as name, pytest.MonkeyPatch.context() as patched:
        made = Path(name) / ("x" * extra or ".")
        made.mkdir(exist_ok=True)
        patched.setenv("RAY_TMPDIR", str(made))
        stamp = "2026-11-23_10-19-48_608098"
        socket = f"ray/session_{stamp}_{os.getpid()}/sockets/plasma_store"
        try:
            with new_folder() as folder:
                validate_socket_filepath(str(folder / socket))
        except InputError as error:
            assert "bytes too long for the names of Ray's sockets" in str(error) and list(made.iterdir()) == []
            with pytest.raises(OSError, match="path length cannot exceed"):
                validate_socket_filepath(f"{os.path.realpath(made)}/ssray-{os.getpid()}-{'x' * 8}/{socket}")


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o720, 0o702])
@pytest.mark.parametrize("above", [False, True])
def test_a_base_in_which_others_may_rename_is_refused(place, monkeypatch, mode, above):
    made = base(place, mode)
    monkeypatch.setenv("RAY_TMPDIR", str(base(made, name="c") if above else made))
    refusal = rf"^RAY_TMPDIR: .* got {re.escape(str(made))}, where others may rename .* \(mode {mode:o}\)$"
    with pytest.raises(InputError, match=refusal), new_folder():
        pass
    assert not list(made.rglob("ssray-*"))
    made.chmod(mode | stat.S_ISVTX)
    with new_folder() as folder:
        assert folder.is_dir()


def test_what_is_no_folder_of_ours_is_refused(place, monkeypatch):
    (place / "f").touch()
    for name, refusal in (("f", "which is no folder"), ("n", "No such file or directory")):
        monkeypatch.setenv("RAY_TMPDIR", str(place / name))
        with pytest.raises(InputError, match=refusal), new_folder():
            pass
    if os.getuid() == 0:
        os.chown(base(place), 12345, -1)
        (place / "l").symlink_to(place / "b")
        for name in ("b", "l"):  # the link is ours, what it leads to is not
            monkeypatch.setenv("RAY_TMPDIR", str(place / name))
            with pytest.raises(InputError, match=r"/b, which belongs to another user \(12345\)$"), new_folder():
                pass


def test_a_usual_temporary_folder_that_will_not_do_makes_way_for_the_short_one(place, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(base(place, 0o777)))
    with pytest.raises(InputError, match=r"^TMPDIR: expected a folder"), new_folder():
        pass
    monkeypatch.setattr(run_folder, "SHORT_BASE", base(place, name="s"))
    with new_folder() as folder:
        assert folder.parent == place / "s" and (os.getpid(), folder) in list(folders())


def test_links_and_what_others_made_are_no_folders_of_ours(place, monkeypatch):
    monkeypatch.setenv("RAY_TMPDIR", str(base(place)))
    (place / "kept").mkdir()
    (place / "b" / "ssray-1-link").symlink_to(place / "kept")
    (place / "b" / "ssray-1-file").touch()
    if os.getuid() == 0:
        (place / "b" / "ssray-1-theirs").mkdir()
        os.chown(place / "b" / "ssray-1-theirs", 12345, -1)
    assert [folder for _, folder in folders() if folder.is_relative_to(place)] == []
