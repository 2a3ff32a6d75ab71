"""What was made, by its manifests alone: an artifact, what it was made of, and so on down to the images."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from orchestrator.store.base import Store
from orchestrator.store.sealing import Damage, read_manifest

GONE = "no manifest in the store: not finished, or deleted"


@dataclass(frozen=True, kw_only=True)
class Made:
    """One artifact. manifest: None where it cannot be read, and `why`. inputs: role -> what it was made of."""

    kind: str
    fingerprint: str
    manifest: dict[str, Any] | None
    why: str | None = None
    inputs: dict[str, Made] = field(default_factory=dict)

    @property
    def label(self) -> str:
        return f"{self.kind} {self.fingerprint[:8]}"

    def says(self, key: str) -> Any:
        """What the manifest says under a key; None where there is none."""
        return None if self.manifest is None else self.manifest.get(key)


class Maker:
    """Reads manifests of one store, each once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[tuple[str, str], Made] = {}

    def __call__(self, kind: str, fingerprint: str) -> Made:
        """The artifact and all that it was made of. Manifests that are gone or damaged are said to be so."""
        key = (kind, fingerprint)
        if key not in self._known:
            self._known[key] = self._read(kind, fingerprint)
        return self._known[key]

    def _read(self, kind: str, fingerprint: str) -> Made:
        try:
            content = self._store.manifest_file(kind, fingerprint).read_bytes()
            manifest = read_manifest(content, kind, fingerprint)
        except FileNotFoundError:
            return Made(kind=kind, fingerprint=fingerprint, manifest=None, why=GONE)
        except Damage as damage:
            return Made(kind=kind, fingerprint=fingerprint, manifest=None, why=str(damage))
        sources = manifest.get("inputs", {})
        inputs = {role: self(source["stage"], source["fingerprint"]) for role, source in sorted(sources.items())}
        return Made(kind=kind, fingerprint=fingerprint, manifest=manifest, inputs=inputs)


def in_order(ends: Iterable[Made]) -> list[Made]:
    """All of it, inputs before what was made of them, each once."""
    ordered: dict[tuple[str, str], Made] = {}

    def visit(made: Made) -> None:
        if (made.kind, made.fingerprint) not in ordered:
            for source in made.inputs.values():
                visit(source)
            ordered[made.kind, made.fingerprint] = made

    for end in ends:
        visit(end)
    return list(ordered.values())


def leaves(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(dotted key, value) of everything in nested mappings; lists are values."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from leaves(inner, f"{prefix}.{key}" if prefix else str(key))
    else:
        yield prefix, value
