"""Manifests: sealed when they are written, checked whenever they are read.

A seal is a digest over all that the manifest says. `result` is one over what the stage made alone (its identity, its
numbers, the checksums of its files), without times and machine: whoever reads the artifact notes it, so that numbers
which do not belong together are told apart even where a manifest was sealed again.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

RESULT, SEAL = "result", "seal"
TIMED_FILES = ("history.parquet",)  # hold seconds: another making of the same artifact has another
FINGERPRINT = re.compile(r"[0-9a-f]{64}")
KIND = re.compile(r"[a-z][a-z0-9_]{0,63}")
_SHAPE: dict[str, type | tuple[type, ...]] = {"metrics": dict, "files": dict}
_SHAPE_UNSEALED = {"stage": str, "config": dict, "inputs": dict, "seconds": (int, float), "finished_at": (int, float),
                   "code_version": str}  # fmt: skip


class Damage(Exception):
    """What is wrong with something in the store, in a few words."""


def sealed(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest with its result and its seal."""
    plain = json.loads(json.dumps(manifest))  # as it will be read: keys are text, tuples are lists
    plain = {key: value for key, value in plain.items() if key not in (RESULT, SEAL)}
    plain[RESULT] = _digest(_made(plain))
    return {**plain, SEAL: _digest(plain)}


def read_manifest(
    content: bytes, kind: str, fingerprint: str, *, unsealed: Callable[[], bool] = lambda: True
) -> dict[str, Any]:
    """A manifest of this stage from its file. unsealed: whether one without a seal will do, asked where there is none.

    Raises Damage if it is no manifest, was changed after it was sealed, belongs elsewhere, or names files outside of
    its folder.
    """
    try:
        manifest = json.loads(content)
    except (ValueError, RecursionError):
        raise Damage("its manifest is unreadable") from None
    _check_shape(manifest, _SHAPE)
    if SEAL in manifest:
        rest = {key: value for key, value in manifest.items() if key != SEAL}
        if manifest[SEAL] != _digest(rest) or manifest.get(RESULT) != _digest(_made(manifest)):
            raise Damage("its manifest was changed after it was written")
    elif not unsealed():
        raise Damage("its manifest has no seal")
    else:
        _check_shape(manifest, _SHAPE_UNSEALED)
    if (manifest.get("stage", kind), manifest.get("fingerprint", fingerprint)) != (kind, fingerprint):
        raise Damage("its manifest belongs to another stage")
    _check_names(manifest)
    return manifest


def _check_shape(manifest: Any, shape: Mapping[str, type | tuple[type, ...]]) -> None:
    if not isinstance(manifest, dict):
        raise Damage("its manifest is unreadable")
    for key, expected in shape.items():
        if not isinstance(manifest.get(key), expected) or isinstance(manifest[key], bool):
            raise Damage(f"its manifest has no proper {key}")


def _check_names(manifest: Mapping[str, Any]) -> None:
    """Every name in it that becomes part of a path stays below its folder, whoever wrote the manifest."""
    for name, checksum in manifest["files"].items():
        if not is_plain_name(name) or not isinstance(checksum, str) or not FINGERPRINT.fullmatch(checksum):
            raise Damage(f"its manifest names an impossible file {name[:60]!r}")
    if not is_plain_name(manifest.get("attempt", "a")):
        raise Damage("its manifest names an impossible attempt")
    inputs = manifest.get("inputs", {})
    for source in inputs.values() if isinstance(inputs, dict) else [None]:
        kind, fingerprint = (source.get("stage"), source.get("fingerprint")) if isinstance(source, dict) else (0, 0)
        right = isinstance(kind, str) and isinstance(fingerprint, str)
        if not right or not KIND.fullmatch(kind) or not FINGERPRINT.fullmatch(fingerprint):
            raise Damage("its manifest names an impossible input")


def is_plain_name(name: object) -> bool:
    """Whether this is the name of one file in a folder: no way out of it, nothing hidden, nothing unprintable."""
    return _stays_inside(name) and not name.startswith(".")


def is_inner_path(path: str) -> bool:
    """Whether this is a relative path to a place below; hidden names may be on it, as Ray Train's own are."""
    return all(map(_stays_inside, path.split("/")))


def _stays_inside(name: object) -> bool:
    return (
        isinstance(name, str)
        and 0 < len(name.encode(errors="replace")) <= 255
        and name.isprintable()
        and "/" not in name
        and "\\" not in name
        and name not in (".", "..")
    )


def _made(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What the stage made, and of what: the same whenever and wherever it is made again."""
    files = {name: checksum for name, checksum in manifest["files"].items() if name not in TIMED_FILES}
    kept = {key: manifest.get(key) for key in ("stage", "version", "config", "fingerprint", "metrics")}
    return {**kept, "files": files}


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
