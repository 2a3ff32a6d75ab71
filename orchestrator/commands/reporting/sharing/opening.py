"""`smoothsweep report OUT.zip`: a colleague's bundle, checked and laid out as a folder."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from smoothsweep.core import screen
from smoothsweep.core.errors import InputError
from smoothsweep.core.files import making_folder, write_file, write_pieces
from smoothsweep.core.readers.archives import Members, members_of
from smoothsweep.core.readers.files import read_text
from smoothsweep.orchestrator.commands import run
from smoothsweep.orchestrator.commands.reporting.sharing.archive import INDEX, Index, index_of
from smoothsweep.orchestrator.commands.reporting.sharing.bundle import SETTINGS, STORE, TEXT
from smoothsweep.orchestrator.commands.reporting.sharing.folder import draft_folder, put_in_place, refuse_other_content

PAGE = "report.html"
DEFAULT_STORE = "store"
"""What `--store` is where it is not given: a bundle has no use for another."""
MOST_TEXT = 16 * 2**20


def report_or_open(sweep: Path, overrides: list[str], store: str, out: Path | None) -> int:
    """The report of a sweep, or of the bundle that is named in its place. Returns the exit code."""
    if sweep.suffix != ".zip":
        return run.report_only(sweep, overrides, store, out)
    for flag, is_given in (("--set", overrides), ("--store", store != DEFAULT_STORE)):
        if is_given:
            raise InputError(f"{flag}: expected a sweep file beside it, got the bundle {sweep}")
    return report_bundle(sweep, out)


def report_bundle(path: Path, out: Path | None) -> int:
    """Check the bundle, lay it out at `out` (by default beside it), print its table. Returns the exit code.

    Nothing in it is run or unpickled. Raises InputError for what is no whole bundle, and leaves nothing then.
    """
    out = out or path.with_suffix("")
    refuse_other_content(out, INDEX)
    if not path.is_file():
        raise InputError(f"{path}: expected a bundle, got no such file")
    with members_of(path, "a bundle of smoothsweep") as members:
        index, digest = index_of(members, str(path))
        for needed in (PAGE, TEXT, SETTINGS):
            if needed not in index.files:
                raise InputError(f"{path}: expected a bundle with {needed}, got one without")
        with making_folder(draft_folder(out)) as draft:
            for name, expected in index.files.items():
                _take_out(members, name, expected, draft / name, path)
            write_file(draft / INDEX, members.read(INDEX))
    put_in_place(draft_folder(out), out)
    _tell(out, index, digest)
    return 0


def _take_out(members: Members, name: str, expected: str, place: Path, where: Path) -> None:
    digest = sha256()

    def pieces() -> Iterator[bytes]:
        for piece in members.pieces(name):
            digest.update(piece)
            yield piece
        if digest.hexdigest() != expected:
            raise InputError(f"{where}: {name}: expected the content whose digest {INDEX} has, got another")

    place.parent.mkdir(parents=True, exist_ok=True)
    write_pieces(place, pieces())


def _tell(out: Path, index: Index, digest: str) -> None:
    screen.out_text(read_text(out / TEXT, most_bytes=MOST_TEXT).rstrip("\n"))
    screen.out(f"bundle of {index.sweep}: {len(index.files)} files as listed, digest {digest}")
    screen.out(f"report: {out / PAGE}")
    used = "; the artifacts in it are used" if index.artifacts else ""
    screen.out(f"to go on: smoothsweep run {out / SETTINGS} --store {out / STORE}{used}")
