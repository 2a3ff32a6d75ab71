"""What of a store a name means, and what it was made of: a walk over manifests, from a trial down to the images."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from smoothsweep.core.errors import InputError
from smoothsweep.core.files import NotPlainError, plain_content
from smoothsweep.core.spelling import suggestion
from smoothsweep.core.text import MINUS, NBSP, counted, quoted, shortened
from smoothsweep.orchestrator.planning.state import DOT, TRIALS_FILE, TrialNote, read_trial_notes
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.store.manifests import Damage, read_manifest
from smoothsweep.tasks.stage_names import stage_label

_DEEPEST = 100  # stages behind one another: the longest chain of a sweep has about ten
GONE = "no manifest in the store: not finished, or deleted"


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """One artifact.

    Attributes:
        manifest: None where it cannot be read, and `why`.
        inputs: Role -> what it was made of.
    """

    kind: str
    fingerprint: str
    manifest: dict[str, Any] | None
    why: str | None = None
    inputs: dict[str, Provenance] = field(default_factory=dict)

    @property
    def label(self) -> str:
        return stage_label(self.kind, self.fingerprint)

    def value_of(self, key: str) -> Any:
        """What the manifest says under a key; None where there is none."""
        return None if self.manifest is None else self.manifest.get(key)


class ProvenanceReader:
    """Reads manifests of one store, each once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[tuple[str, str], Provenance] = {}
        self._reading: list[tuple[str, str]] = []

    def __call__(self, kind: str, fingerprint: str) -> Provenance:
        """The artifact and all that it was made of. Manifests that are gone or damaged are said to be so."""
        key = (kind, fingerprint)
        if key not in self._known:
            self._reading.append(key)
            self._known[key] = self._read(kind, fingerprint)
            self._reading.pop()
        return self._known[key]

    def _input(self, kind: str, fingerprint: str) -> Provenance:
        """An input's artifact; what is being read already, or lies behind more inputs than stages have, is not read."""
        if (kind, fingerprint) in self._reading or len(self._reading) > _DEEPEST:
            why = "its manifest names an input that was made of itself, or of a chain of stages without an end"
            return Provenance(kind=kind, fingerprint=fingerprint, manifest=None, why=why)
        return self(kind, fingerprint)

    def _read(self, kind: str, fingerprint: str) -> Provenance:
        try:
            content = plain_content(self._store.manifest_file(kind, fingerprint))
            manifest = read_manifest(content, kind, fingerprint)
        except FileNotFoundError:
            return Provenance(kind=kind, fingerprint=fingerprint, manifest=None, why=GONE)
        except Damage as damage:
            return Provenance(kind=kind, fingerprint=fingerprint, manifest=None, why=str(damage))
        except NotPlainError:
            return Provenance(kind=kind, fingerprint=fingerprint, manifest=None, why="its manifest is no plain file")
        except OSError as error:
            return Provenance(
                kind=kind, fingerprint=fingerprint, manifest=None, why=f"{error.strerror}: {error.filename}"
            )
        sources = manifest.get("inputs", {})
        inputs = {role: self._input(source["stage"], source["fingerprint"]) for role, source in sorted(sources.items())}
        return Provenance(kind=kind, fingerprint=fingerprint, manifest=manifest, inputs=inputs)


def in_order(ends: Iterable[Provenance]) -> list[Provenance]:
    """All of it, inputs before what was made of them, each once."""
    ordered: dict[tuple[str, str], Provenance] = {}

    def visit(artifact: Provenance) -> None:
        if (artifact.kind, artifact.fingerprint) not in ordered:
            for source in artifact.inputs.values():
                visit(source)
            ordered[artifact.kind, artifact.fingerprint] = artifact

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


@dataclass(frozen=True, kw_only=True)
class NamedTrials:
    """What a name means: the trials of `sweep` that were asked for, at least one."""

    name: str
    sweep: str
    trials: tuple[TrialNote, ...]

    @property
    def is_single_trial(self) -> bool:
        return len(self.trials) == 1

    @property
    def title(self) -> str:
        """What is chosen, as a line says it."""
        if self.is_single_trial:
            return f"trial {self.trials[0].trial} of {self.sweep}: {plain_name(self.trials[0].name)}"
        return f"{self.name}: {counted(len(self.trials), 'trial')}"


def plain_name(text: str) -> str:
    """A name with plain minus signs and single spaces, none at its ends."""
    return " ".join(text.replace(MINUS, "-").replace(NBSP, " ").split())


def _typed(text: str) -> str:
    """As `plain_name`, with a comma for the dot that stands between the parts of a trial's name."""
    return plain_name(text).replace(f" {DOT} ", ", ")


def find_trials(store: Store, name: str) -> NamedTrials:
    """A sweep by its name, a trial by its id, or trials as SWEEP:LABEL, with the name that outputs give to a recipe or
    a trial.

    Raises InputError, naming what there is, for everything else.
    """
    known = store.sweeps()
    sweep, colon, wanted = name.partition(":")
    if sweep in known:
        trials = read_trial_notes(store, sweep)
        if not trials:
            remedy = "smoothsweep report with its sweep file writes it"
            raise InputError(
                f"sweep {shortened(sweep)}: expected {TRIALS_FILE} in {store.location}, got none: {remedy}"
            )
        labels = [{trial.trial, *map(_typed, (trial.recipe, trial.name, trial.label))} for trial in trials]
        named = zip(trials, labels, strict=True)
        chosen = tuple(trial for trial, of_it in named if not colon or _typed(wanted) in of_it)
        if not chosen:
            recipes = list(dict.fromkeys(plain_name(trial.recipe) for trial in trials if trial.recipe))
            near = suggestion(_typed(wanted), set().union(*labels))
            expected = f"expected the name of a recipe ({'; '.join(recipes[:20])}) or of a trial, as `status` has it"
            raise InputError(f"{shortened(sweep)}: {expected}, got {quoted(wanted)}{near}")
        return NamedTrials(name=name, sweep=sweep, trials=chosen)
    for sweep_name in known:
        for trial in read_trial_notes(store, sweep_name):
            if trial.trial == name:
                return NamedTrials(name=name, sweep=sweep_name, trials=(trial,))
    expected = f"expected a sweep of {store.location} ({', '.join(known[:20]) or 'none'}), SWEEP:RECIPE or a trial's id"
    raise InputError(f"{expected}, got {quoted(name)}{suggestion(sweep, known)}")
