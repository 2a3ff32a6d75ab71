"""The four files of the package `random-face` 2021.7.21.1 that hold the generator: found, compared, never run.

Where they may be: in the installed package, which is found and not imported; in the wheel; in a folder.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path

from smoothsweep.core.errors import InputError
from smoothsweep.core.models.weight_files import find_file, weight_folders
from smoothsweep.core.readers.archives import read_members
from smoothsweep.core.readers.files import read_whole

VERSION = "2021.7.21.1"
WHEEL = f"random_face-{VERSION}-py3-none-any.whl"
PACKAGE, DATA = "random_face", "data"


@dataclass(frozen=True, kw_only=True)
class PublishedFile:
    """A file of the published package.

    Attributes:
        size: The file's size in bytes.
        sha256: SHA-256 of the content, hexadecimal.
    """

    size: int
    sha256: str


FILES: dict[str, PublishedFile] = {
    "MappingNetwork.xml": PublishedFile(
        size=59_865, sha256="73e2096cad6e696e4af47df2477e048ab4c42c0e0dec83c7c66604822689e55b"
    ),
    "MappingNetwork.bin": PublishedFile(
        size=8_405_040, sha256="212dd716bdb556e18db603ea97300d4fa3c872b878c726b2402fea80820e7305"
    ),
    "SynthesisNetwork.xml": PublishedFile(
        size=425_183, sha256="7918fce515243954d3e06628cb39a23902d6b1d5d02932cc0c2faee7a2aeeedd"
    ),
    "SynthesisNetwork.bin": PublishedFile(
        size=32_025_440, sha256="c7da15fa22d508c82e1c30dd6b4cdf67fe3ccdddaf85b310ee764dbf0c289645"
    ),
}

HOW = (
    f"`pip download --no-deps random-face=={VERSION}`, then name the wheel (Apache-2.0; its weights are for "
    "non-commercial use, docs/weights.md)"
)


def find_package(path: Path | None) -> Path:
    """Where the package is: `path`, else the installed one, else its wheel among the staged weight files.

    Raises InputError, one line that says what to fetch and under which licence, where it is nowhere.
    """
    if path is not None:
        if not path.exists():
            raise InputError(f"{path}: expected the wheel or folder of random-face {VERSION}, got nothing; {HOW}")
        return path
    spec = PathFinder.find_spec(PACKAGE)
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        if (Path(place) / DATA).is_dir():
            return Path(place)
    if (staged := find_file(WHEEL, weight_folders())) is not None:
        return staged
    raise InputError(f"import prior random-face: expected the package, which is neither installed nor staged: {HOW}")


def package_files(place: Path) -> dict[str, bytes]:
    """The four files by name, of a wheel or a folder, each of the published content.

    Raises InputError, one line: a file that is missing, of another version, or broken.
    """
    contents = _in_folder(place) if place.is_dir() else _in_wheel(place)
    for name, content in contents.items():
        if (digest := hashlib.sha256(content).hexdigest()) != FILES[name].sha256:
            raise InputError(
                f"{place}: {name}: expected the file of random-face {VERSION} (SHA-256 {FILES[name].sha256[:12]}...), "
                f"got another version or a damaged one ({digest[:12]}...)"
            )
    return contents


def _in_folder(place: Path) -> dict[str, bytes]:
    """The files of a package's folder, its data folder, or a folder that holds the package."""
    candidates = (place, place / DATA, place / PACKAGE / DATA)
    folder = next((folder for folder in candidates if (folder / "SynthesisNetwork.xml").is_file()), None)
    if folder is None:
        raise InputError(f"{place}: expected a folder with {', '.join(FILES)}, got none of them; {HOW}")
    try:
        return {name: read_whole(folder / name, most_bytes=max(file.size, 1)) for name, file in FILES.items()}
    except OSError as error:
        raise InputError(f"{error.filename}: cannot be read: {error.strerror}") from error


def _in_wheel(place: Path) -> dict[str, bytes]:
    sizes = {f"{PACKAGE}/{DATA}/{name}": file.size for name, file in FILES.items()}
    contents = read_members(place, sizes, f"the wheel of random-face {VERSION}")
    return {name.rpartition("/")[2]: content for name, content in contents.items()}
