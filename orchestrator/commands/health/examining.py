"""A whole store looked through: every artifact read and compared with its manifest, whatever was verified before."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from smoothsweep.orchestrator.stages.stage import canonical_json
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.store.manifests import RESULT, Damage
from smoothsweep.tasks.registry import TASKS
from smoothsweep.tasks.stage_names import stage_label


@dataclass(frozen=True, kw_only=True)
class ExaminedStore:
    """What was found. damaged, unread (the system refused to read it): one line each."""

    artifacts: int
    bytes: int
    damaged: tuple[str, ...]
    unread: tuple[str, ...] = ()


def examine_store(store: Store) -> ExaminedStore:
    """Read every finished artifact of the store. Changes nothing in it."""
    damaged, unread, manifests, read = [], [], {}, 0
    for kind, fingerprint in _artifacts(store):
        try:
            manifest = store.examined(kind, fingerprint)
            _check_identity(manifest)
            manifests[kind, fingerprint] = manifest
            read += sum(manifest.get("sizes", {}).values())
        except FileNotFoundError:
            continue  # removed meanwhile
        except Damage as damage:
            damaged.append(f"{stage_label(kind, fingerprint)}: {damage}")
        except OSError as error:  # a disk that fails, a file that this user may not read: the others are read
            where = error.filename or "one of its files"
            unread.append(f"{stage_label(kind, fingerprint)}: {where}: {error.strerror or error}")
    damaged += _made_from_others(manifests)
    return ExaminedStore(artifacts=len(manifests), bytes=read, damaged=tuple(damaged), unread=tuple(unread))


def _artifacts(store: Store) -> Iterator[tuple[str, str]]:
    for kind in TASKS:
        yield from ((kind, fingerprint) for fingerprint in sorted(store.finished(kind)))


def _check_identity(manifest: dict[str, Any]) -> None:
    """Raise Damage if the configuration in a manifest is not the one that its fingerprint stands for."""
    if "version" not in manifest:
        return
    identity = {key: manifest[key] for key in ("stage", "version", "config")}
    inputs = {name: source["fingerprint"] for name, source in manifest["inputs"].items()}
    try:
        text = canonical_json({**identity, "inputs": inputs})
    except ValueError:  # of a number that is none
        raise Damage("its configuration is no configuration") from None
    if hashlib.sha256(text.encode()).hexdigest() != manifest.get("fingerprint"):
        raise Damage("its configuration is not that of its fingerprint")


def _made_from_others(manifests: dict[tuple[str, str], dict[str, Any]]) -> Iterator[str]:
    """Artifacts whose inputs are not those that they were made from: a manifest changed and sealed again, say."""
    for (kind, fingerprint), manifest in manifests.items():
        for source in manifest.get("inputs", {}).values():
            place = source["stage"], source["fingerprint"]
            stated, actual = source.get(RESULT), manifests.get(place, {}).get(RESULT)
            if stated and actual and stated != actual:
                yield (
                    f"{stage_label(kind, fingerprint)}: was made from another {stage_label(*place)} than the store "
                    "has: that one's numbers or files have changed since"
                )
