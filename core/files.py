"""How files come to be: under a temporary name, flushed to the disk, renamed. Nothing else here writes a file.

A reader sees the old file or the new one, never half of one, also after a power failure: the content is flushed
before the rename, the folder after it. A new file is for whomever the process's umask lets read it, whatever wrote it
(safetensors makes files for their owner alone).
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path

from smoothsweep.core.writers import WRITER, is_gone, machine_id, writer_name

QUOTED_ERRNO = re.compile(r"\b(?:os error|errno) (\d+)", re.IGNORECASE)  # Rust's spelling (safetensors), Arrow's


def temporary_name(path: Path) -> Path:
    """A name beside `path` that says who writes it: .<name>.<writer>, see core/writers.py and `half_written`."""
    return path.with_name(f".{path.name}.{writer_name()}")


def half_written(folder: Path) -> list[Path]:
    """Temporary files in a folder whose writer was killed in the middle."""
    named = [path for path in folder.glob(".*.*.*") if WRITER.fullmatch(path.name) and path.is_file()]
    return [path for path in named if not path.is_symlink() and is_gone(_writer(path.name), path)]


def _writer(name: str) -> str:
    """The writer at the end of a temporary name, as far as it can be told from the name of the file: of this place, or
    of any other."""
    where, pid, random = name.rsplit(".", 2)
    return f"{machine_id() if where.endswith(f'.{machine_id()}') else 'elsewhere'}.{pid}.{random}"


class NotPlainError(OSError):
    """A folder, a pipe, a device or a link stands where a file should."""


def plain_content(path: Path) -> bytes:
    """Read a file whole. Raises FileNotFoundError, NotPlainError for what is no plain file (a pipe would never end),
    and OSError naming it for what cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.ENODEV):  # a link; a socket or device without a reader
            raise NotPlainError(error.errno, "no plain file", str(path)) from None
        raise
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NotPlainError(errno.EINVAL, "no plain file", str(path))
        try:
            return file.read()
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(path)) from None


@contextmanager
def replacing(path: Path, *, parents: bool = False, flush: bool = True) -> Generator[Path]:
    """A temporary file beside `path`, empty, to be written in the block; takes its place when the block ends well.

    Whatever goes wrong, `path` is as it was and nothing is left. parents: make the folder if there is none. flush:
    False for what may be lost with the power, such as marks of progress. Raises OSError naming `path` where the
    system refuses, of a full disk too, whichever library wrote.
    """
    if parents:
        path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_name(path)
    try:
        descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
        mode = os.fstat(descriptor).st_mode & 0o777  # what the umask leaves; asking for the umask would change it
        os.close(descriptor)
        yield temporary
        os.chmod(temporary, mode)
        if flush:
            _flush(temporary)
        os.replace(temporary, path)
        if flush:
            _flush(path.parent)
    except Exception as error:
        if refusal := _refusal(error, temporary, path):
            raise refusal from error
        raise
    finally:
        with suppress(OSError):  # renamed, or never made
            temporary.unlink()


def write_file(
    path: Path, content: bytes | bytearray | memoryview | str, *, parents: bool = False, flush: bool = True
) -> None:
    """Replace `path` as a whole; text as UTF-8. As `replacing`."""
    with replacing(path, parents=parents, flush=flush) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)


def write_pieces(path: Path, pieces: Iterable[bytes]) -> None:
    """As `write_file`, of content that need not be in memory at once. What reading it raises passes through."""
    with replacing(path) as temporary, temporary.open("wb") as file:
        file.writelines(pieces)


def rename_folder(draft: Path, final: Path) -> None:
    """Let a finished folder take its name: all files and folders in it are flushed, then it is renamed.

    Both lie on one file system. Raises OSError (ENOTEMPTY, EEXIST or ENOTDIR) if `final` holds something; then the
    draft stays.
    """
    for folder, _, names in os.walk(draft, topdown=False):
        for name in names:
            _flush(Path(folder) / name)
        _flush(Path(folder))
    os.replace(draft, final)
    _flush(final.parent)


@contextmanager
def making_folder(final: Path) -> Generator[Path]:
    """A folder beside `final` under a temporary name, which takes that name when the block ends well.

    Raises OSError as `rename_folder`; whatever goes wrong, nothing is left.
    """
    final.parent.mkdir(parents=True, exist_ok=True)
    draft = temporary_name(final)
    draft.mkdir()
    try:
        yield draft
        rename_folder(draft, final)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def move(path: Path, place: Path) -> None:
    """Give a file or folder that is finished another name. Raises OSError; FileNotFoundError if it has gone."""
    place.parent.mkdir(parents=True, exist_ok=True)
    os.replace(path, place)
    _flush(place.parent)
    _flush(path.parent)


def _refusal(error: Exception, temporary: Path, path: Path) -> OSError | None:
    """The system's refusal to write, where the error does not name `path`: libraries quote its number in a text of
    their own, or name the temporary file, or none. None of any other error, such as one about a file that was read.
    """
    quoted = QUOTED_ERRNO.search(str(error))
    number = error.errno if isinstance(error, OSError) else int(quoted[1]) if quoted else None
    if number is None or getattr(error, "filename", None) not in (None, str(temporary), temporary):
        return None
    return OSError(number, os.strerror(number), str(path))


def _flush(path: Path) -> None:
    """Wait until a file's content, or a folder's list of names, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if not path.is_dir() or error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):
            raise  # some network file systems flush no folder: they need none
    finally:
        os.close(descriptor)
