"""Published weight files: which there are, how to know the right one, and how to fetch them before a run.

Nothing here runs at import, and no other module fetches anything: a worker finds a file or says what is missing.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import shutil
import urllib.request
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from smoothsweep.core.errors import InputError
from smoothsweep.core.files import replacing

FOLDER_VARIABLE = "SMOOTHSWEEP_WEIGHTS"
"""Environment variable that may name a folder of weight files; it is searched before torch hub's cache."""

_ZIP_START = b"PK\x03\x04"


@dataclass(frozen=True, kw_only=True)
class WeightFile:
    """One published file.

    Attributes:
        sha256: Hexadecimal digest in full, or as much of it as is public (the publisher's own file name states the
            first eight digits).
        mebibytes: The file's size.
        licence: What its use is bound to.
    """

    name: str
    url: str
    sha256: str
    mebibytes: float | None
    licence: str

    @property
    def file_name(self) -> str:
        """The name under which the file is published, stored and searched."""
        return self.url.rsplit("/", 1)[-1]


@dataclass(frozen=True, kw_only=True)
class StagedFile:
    """What `stage_weights` achieved for one file: where it lies (verified), or None and one line on why not."""

    name: str
    path: Path | None
    reason: str | None


_TORCHVISION = "https://download.pytorch.org/models"


def _imagenet(name: str, stem: str, mebibytes: float, sha256: str) -> WeightFile:
    """stem: of the published name, which goes on with the first eight digits of the checksum."""
    return WeightFile(
        name=name,
        url=f"{_TORCHVISION}/{stem}-{sha256[:8]}.pth",
        sha256=sha256,
        mebibytes=mebibytes,
        licence="torchvision, BSD-3-Clause; trained on ImageNet, whose terms allow non-commercial research",
    )


# torchvision's own table says the same (a test compares), but importing it takes longer than most commands do.
# Full digests are as several independent public projects state them; where only eight digits stand, no full one was
# found in public and the publisher's file name is the source.
_ENTRIES = (
    _imagenet("resnet18", "resnet18", 44.661, "f37072fd47e89c5e827621c5baffa7500819f7896bbacec160b1a16c560e07ec"),
    _imagenet("resnet34", "resnet34", 83.275, "b627a593bcbe140c234610266fe4f8ae95ea42fc881d091c9b6052e6b1d0590f"),
    _imagenet("resnet50", "resnet50", 97.79, "11ad3fa62ca79e40addfd354a8ec4b7c75143b3038b8d2a807fbc68deab379ca"),
    _imagenet("resnet101", "resnet101", 170.53, "cd907fc2a0de2292b2ba2b27d2216bc672d84632d1cf20058d01c0c03b5e020e"),
    _imagenet("resnet152", "resnet152", 230.474, "f82ba261"),
    _imagenet("resnext50", "resnext50_32x4d", 95.833, "1a0047aa"),
    _imagenet("densenet121", "densenet121", 30.845, "a639ec97d7c33b07ae66f0b5fb7d0192f95a3b11b7576c66c0126c2a727c4395"),
    _imagenet("densenet169", "densenet169", 54.708, "b2777c0a"),
    _imagenet("vit_b_16", "vit_b_16", 330.285, "c867db91d3e12c6cbadabb610d73c24a546bf82d8c03a9fea34f43a712ddb0e9"),
    _imagenet(
        "inception_v3",
        "inception_v3_google",
        103.903,
        "0cc3c7bd75056d25e46cba549dc184522069b81e9787eff6df84f397bd52a5ef",
    ),
    _imagenet("vgg16_bn", "vgg16_bn", 527.866, "6c64b313"),
    _imagenet("efficientnet_b0", "efficientnet_b0_rwightman", 20.451, "7f5810bc"),
    _imagenet("efficientnet_b1", "efficientnet_b1_rwightman", 30.134, "bac287d4"),
    _imagenet("efficientnet_b2", "efficientnet_b2_rwightman", 35.174, "c35c1473"),
    WeightFile(
        name="facenet",
        url="https://github.com/timesler/facenet-pytorch/releases/download/v2.2.9/20180402-114759-vggface2.pt",
        sha256="281cebca8662831adb987a874bdcb36e73f5b1c6dc5ee5878f305e985625d99b",
        mebibytes=106.714,
        licence="facenet-pytorch, MIT; trained on VGGFace2, photographs of real people with terms of their own",
    ),
    WeightFile(
        name="swag_vit_b_16",
        url=f"{_TORCHVISION}/vit_b_16_lc_swag-4e70ced5.pth",
        sha256="4e70ced5",
        mebibytes=330.285,
        licence="SWAG (facebookresearch), CC BY-NC 4.0: no commercial use",
    ),
    WeightFile(
        name="fid_inception",
        url=(
            "https://github.com/mseitzer/pytorch-fid/releases/download/fid_weights/pt_inception-2015-12-05-6726825d.pth"
        ),
        sha256="6726825d0af5f729cebd5821db510b11b1cfad8faad88a03f1befd49fb9129b2",
        mebibytes=91.198,
        licence="pytorch-fid and TensorFlow models, Apache-2.0; trained on ImageNet",
    ),
)
WEIGHT_FILES: dict[str, WeightFile] = {entry.name: entry for entry in _ENTRIES}
"""Entries by name: a backbone's name means its ImageNet weights, the others the judges'."""


def weight_file(name: str) -> WeightFile:
    """The entry of this name. Raises InputError for an unknown name, listing the valid ones."""
    if name not in WEIGHT_FILES:
        raise InputError(f"weights: expected one of {', '.join(WEIGHT_FILES)}, got {name!r}")
    return WEIGHT_FILES[name]


def weight_folders() -> list[Path]:
    """Where weight files are searched, in order: the folder in SMOOTHSWEEP_WEIGHTS if set, torch hub's checkpoints."""
    hub = Path(torch.hub.get_dir()) / "checkpoints"
    named = os.environ.get(FOLDER_VARIABLE)
    return [Path(named).expanduser(), hub] if named else [hub]


def find_weight_file(name: str, folders: Sequence[Path]) -> Path | None:
    """The first of the folders that has the file, unverified; None if none has. Raises InputError: unknown name."""
    return find_file(weight_file(name).file_name, folders)


def find_file(file_name: str, folders: Sequence[Path]) -> Path | None:
    """As `find_weight_file`, for any file name."""
    return next((folder / file_name for folder in folders if (folder / file_name).is_file()), None)


def published_file(name: str, where: str) -> Path:
    """The file in `weight_folders`, with the published content. Raises InputError, one line beginning with `where`."""
    entry, folders = weight_file(name), weight_folders()
    path = find_file(entry.file_name, folders)
    if path is None:
        nor = f"; nor is it in {folders[1]}" if len(folders) > 1 else ""
        raise InputError(f"{where} {by_hand(entry, folders[0])}{nor}; nothing is downloaded by itself")
    verify_weight_file(path, entry)
    return path


def verify_weight_file(path: Path, entry: WeightFile) -> None:
    """Raise InputError, one line, unless the file at `path` is the published one.

    Says in words what the usual accidents are (see `wrong_content`); everything else is a wrong checksum, with the
    expected and the found one.
    """
    if not path.is_file():
        raise InputError(f"weights {entry.name}: no file {path}")
    if reason := wrong_content(path):
        raise InputError(f"weights {entry.name}: {path} {reason}")
    got = file_sha256(path)
    if not got.startswith(entry.sha256):
        expected = f"{entry.mebibytes:.1f} MiB with " if entry.mebibytes is not None else ""
        raise InputError(
            f"weights {entry.name}: {path} is damaged or another file: expected {expected}SHA-256 {entry.sha256}, "
            f"got {path.stat().st_size / 2**20:.1f} MiB with {got[: len(entry.sha256)]}"
        )


def wrong_content(path: Path) -> str | None:
    """The end of a sentence on why a file cannot be a weight file, or None.

    Knows an empty file, a web page saved as weights, a pointer left by Git LFS, and a zip archive without its end,
    which is what an interrupted download leaves.
    """
    with path.open("rb") as file:
        start = file.read(1024).lstrip(b"\xef\xbb\xbf \t\r\n")
    if not start:
        return "is empty"
    if start[:15].lower().startswith((b"<!doctype", b"<html", b"<head", b"<?xml", b"<script", b"<!--")):
        return "is a web page saved as weights (HTML): the server answered with an error or a log-in page"
    if start.startswith(b"version https://git-lfs"):
        return "is a Git LFS pointer, not the file it stands for"
    if start.startswith(_ZIP_START) and not _has_zip_end(path):
        return "is cut short or damaged: a zip archive without its end"
    return None


def _has_zip_end(path: Path) -> bool:
    """Whether a zip archive's end can be read; `is_zipfile` itself raises when it stands but contradicts itself."""
    try:
        return zipfile.is_zipfile(path)
    except zipfile.BadZipFile:
        return False


def file_sha256(path: Path) -> str:
    """The hexadecimal SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fetch_weight_file(entry: WeightFile, folder: Path, *, timeout: float = 60.0) -> Path:
    """Download one file into `folder` (created if needed), verify it, and return its path.

    It is written under a temporary name and renamed when it is complete and right; whatever goes wrong, nothing is
    left and a file already there stays. timeout: seconds to wait for an answer, and for every further block.

    Raises InputError, one line, with the cause and with where to put the file by hand.
    """
    path = folder / entry.file_name
    request = urllib.request.Request(entry.url, headers={"User-Agent": "smoothsweep"})
    try:
        with replacing(path, parents=True) as temporary:
            with urllib.request.urlopen(request, timeout=timeout) as answer, temporary.open("wb") as file:
                shutil.copyfileobj(answer, file)
            try:
                verify_weight_file(temporary, entry)
            except InputError as error:
                raise InputError(str(error).replace(str(temporary), "the download")) from None
    except (OSError, http.client.HTTPException, InputError) as error:
        raise InputError(f"{by_hand(entry, folder)} (fetching it failed: {_one_line(error)})") from error
    return path


def by_hand(entry: WeightFile, folder: Path) -> str:
    """The sentence that tells a person what to do about a file that is not there."""
    return f"weights {entry.name}: expected {entry.file_name} in {folder}; download {entry.url} and put it there"


def stage_weights(names: Iterable[str], folder: Path, *, timeout: float = 60.0) -> list[StagedFile]:
    """See that every named file is there and right; fetch into `folder` what is missing, damaged there, or both.

    A file that another of `weight_folders` has counts as there. One result per name, in order and without repeats; a
    failure is a result with a reason, and the rest goes on. Raises InputError for unknown names, before anything
    is fetched.
    """
    entries = [weight_file(name) for name in dict.fromkeys(names)]
    return [_stage(entry, folder, timeout) for entry in entries]


def _stage(entry: WeightFile, folder: Path, timeout: float) -> StagedFile:
    source = find_file(entry.file_name, [folder, *weight_folders()])
    try:
        if source is not None:
            try:
                verify_weight_file(source, entry)
                return StagedFile(name=entry.name, path=source, reason=None)
            except InputError:
                if source.parent != folder:  # not ours to replace, and it would be found first again
                    raise
        return StagedFile(name=entry.name, path=fetch_weight_file(entry, folder, timeout=timeout), reason=None)
    except (InputError, OSError) as error:
        return StagedFile(name=entry.name, path=None, reason=_one_line(error))


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
