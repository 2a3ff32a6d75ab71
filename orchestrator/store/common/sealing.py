"""Manifests: sealed when they are written, checked whenever they are read.

A seal is a digest over all that the manifest says. `result` is one over what the stage made alone (its identity, its
numbers, the checksums of its files), without times and machine: stages that read the artifact note it, so that numbers
which do not belong together are told apart even where a manifest was sealed again.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from smoothsweep.core.judges.columns import BY_KEY

RESULT, SEAL = "result", "seal"
TIMED_FILES = ("history.parquet",)  # hold seconds: another making of the same artifact has another
FINGERPRINT = re.compile(r"[0-9a-f]{64}")
KIND = re.compile(r"[a-z][a-z0-9_]{0,63}")
_DEEPEST = 40  # levels of a manifest: those of a configuration are fewer than ten
_NUMBER = (int, float)
_SHAPE: dict[str, type | tuple[type, ...]] = {
    "metrics": dict,
    "files": dict,
    "stage": str,
    "config": dict,
    "inputs": dict,
    "seconds": _NUMBER,
    "finished_at": _NUMBER,
    "code_version": str,
}
_SHAPE_IF_THERE: dict[str, type | tuple[type, ...]] = {
    "sizes": dict,
    "device": (str, type(None)),
    "host": (str, type(None)),
    "libraries": (dict, type(None)),
    "fingerprint": str,
    "attempt": str,
}
_LATEST = 253_402_300_799.0  # the last second of the year 9999, in seconds since 1970


class Damage(Exception):
    """What is wrong with something in the store, in a few words."""


def sealed(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest with its result and its seal."""
    plain = json.loads(json.dumps(manifest))  # as it will be read: keys are text, tuples are lists
    plain = {key: value for key, value in plain.items() if key not in (RESULT, SEAL)}
    plain[RESULT] = _digest(_made(plain))
    return {**plain, SEAL: _digest(plain)}


def read_manifest(content: bytes, kind: str, fingerprint: str) -> dict[str, Any]:
    """A manifest of this stage from its file.

    Raises Damage if it is no manifest, has no seal, was changed after it was sealed, belongs elsewhere, or names files
    outside of its folder.
    """
    try:
        manifest = json.loads(content)
        _check_depth(manifest)
    except (ValueError, RecursionError):
        raise Damage("its manifest is unreadable") from None
    if not isinstance(manifest, dict) or not isinstance(manifest.get("files"), dict):
        raise Damage("its manifest is unreadable")
    if SEAL not in manifest:
        raise Damage("its manifest has no seal")
    rest = {key: value for key, value in manifest.items() if key != SEAL}
    if manifest[SEAL] != _digest(rest) or manifest.get(RESULT) != _digest(_made(manifest)):
        raise Damage("its manifest was changed after it was written")
    _check_shape(manifest, _SHAPE)
    _check_shape({key: manifest[key] for key in _SHAPE_IF_THERE if key in manifest}, _SHAPE_IF_THERE)
    _check_numbers(manifest)
    if (manifest["stage"], manifest.get("fingerprint", fingerprint)) != (kind, fingerprint):
        raise Damage("its manifest belongs to another stage")
    _check_names(manifest)
    return manifest


def _check_depth(manifest: Any) -> None:
    """Raise RecursionError for what is nested too deeply for those who walk through it later."""
    level = [manifest]
    for _ in range(_DEEPEST):
        inner = (
            value.values() if isinstance(value, dict) else value for value in level if isinstance(value, dict | list)
        )
        level = [value for values in inner for value in values if isinstance(value, dict | list)]
        if not level:
            return
    raise RecursionError


def _check_shape(manifest: Mapping[str, Any], shape: Mapping[str, type | tuple[type, ...]]) -> None:
    for key, expected in shape.items():
        if key in manifest or shape is _SHAPE:
            value = manifest.get(key)
            if not isinstance(value, expected) or isinstance(value, bool):
                raise Damage(f"its manifest has no proper {key}")


def _check_numbers(manifest: Mapping[str, Any]) -> None:
    """Every number that is computed with is one of a size that it can be computed with."""
    if not _is_number(manifest["seconds"], 0.0, _LATEST) or not _is_number(manifest["finished_at"], 0.0, _LATEST):
        raise Damage("its manifest tells an impossible time")
    for key, value in manifest["metrics"].items():
        if value is not None and not _can_be_metric(key, value):
            raise Damage(f"its manifest has no proper number {key[:60]!r}")
    for name, size in manifest.get("sizes", {}).items():
        if type(size) is not int or not 0 <= size < 2**63:
            raise Damage(f"its manifest tells an impossible size of {name[:60]!r}")


def _can_be_metric(key: str, value: Any) -> bool:
    """Whether tables hold such a number: a share is 0 to 1, a known metric is finite, an integer has 64 bits."""
    if isinstance(value, bool):
        return False
    if key not in BY_KEY:
        return isinstance(value, float) or _is_number(value, -(2**63), 2**63 - 1)
    least, most = (0.0, 1.0) if BY_KEY[key].unit == "percent" else (-1e300, 1e300)
    return _is_number(value, least, most) and (isinstance(value, float) or -(2**63) <= value < 2**63)


def _is_number(value: Any, least: float, most: float) -> bool:
    return isinstance(value, _NUMBER) and least <= value <= most  # no NaN is


def _check_names(manifest: Mapping[str, Any]) -> None:
    """Every name in it that becomes part of a path stays below its folder, no matter who wrote the manifest."""
    for name, checksum in manifest["files"].items():
        if not is_plain_name(name) or not isinstance(checksum, str) or not FINGERPRINT.fullmatch(checksum):
            raise Damage(f"its manifest names an impossible file {name[:60]!r}")
    if not is_plain_name(manifest.get("attempt", "a")):
        raise Damage("its manifest names an impossible attempt")
    for source in manifest["inputs"].values():
        kind, fingerprint = (source.get("stage"), source.get("fingerprint")) if isinstance(source, dict) else (0, 0)
        right = isinstance(kind, str) and isinstance(fingerprint, str)
        if not right or not KIND.fullmatch(kind) or not FINGERPRINT.fullmatch(fingerprint):
            raise Damage("its manifest names an impossible input")


def is_plain_name(name: object) -> bool:
    """Whether this is the name of one file in a folder: no way out of it, nothing hidden, nothing unprintable."""
    return isinstance(name, str) and _stays_inside(name) and not name.startswith(".")


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
