"""What `smoothsweep store` does, on a store in a folder: which sweep uses which artifacts, how large they are, whether
they are what they were, every file read, whatever was verified before."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from rich.filesize import decimal

from smoothsweep.core import screen
from smoothsweep.core.errors import InputError
from smoothsweep.core.files import rename_folder
from smoothsweep.core.text import printable, suggestion
from smoothsweep.orchestrator.commands.lineage import Key, read_lineage
from smoothsweep.orchestrator.commands.requests import GarbageRequest, LinkRequest, OfStore, StoreExport
from smoothsweep.orchestrator.planning.state import read_state, read_trial_notes
from smoothsweep.orchestrator.result.format import aligned
from smoothsweep.orchestrator.store.base import DAMAGED, MANIFEST, Store
from smoothsweep.orchestrator.store.manifests import FINGERPRINT, KIND, RESULT, Damage, check_identity
from smoothsweep.orchestrator.store.opening import (
    LINKS_FILE,
    links_of,
    local_store,
    open_existing_store,
    other_store,
    write_links,
)
from smoothsweep.tasks.registry import TASKS, stage_label, stage_title

DONE, FAILED = 0, 1


def list_sweeps(request: OfStore) -> int:
    """Print the sweeps and the linked stores."""
    usage = usage_of(_local(request.store))
    rows = [("sweep", "artifacts", "size", "of it alone")]
    for name, keys in usage.sweeps.items():
        if keys is None:
            rows.append((name, "not known", "", "no report was written"))
        else:
            there = keys & usage.sizes.keys()
            rows.append((name, str(len(there)), usage.size(there), usage.size(usage.of_one_sweep(name))))
    _print(rows)
    screen.out(f"used by no sweep: {len(usage.unused)} artifacts, {usage.size(usage.unused)}")
    for other in links_of(usage.store):
        screen.out(printable(f"reads through: {other}"))
    return DONE


def list_sizes(request: OfStore) -> int:
    """Print sizes by kind of artifact, and what is unfinished or damaged."""
    usage = usage_of(_local(request.store))
    rows = [("artifact", "count", "size", "used by no sweep")]
    for kind in sorted({kind for kind, _ in usage.sizes}):
        keys = [key for key in usage.sizes if key[0] == kind]
        idle = [key for key in keys if key in usage.unused]
        rows.append((stage_title(kind), str(len(keys)), usage.size(keys), usage.size(idle) if idle else ""))
    for name, folders in zip(("damaged", "unfinished"), leftovers(usage.store), strict=True):
        rows.append((name, str(len(folders)), decimal(sum(map(size_of, folders))), ""))
    _print([*rows, ("all", str(len(usage.sizes)), usage.size(usage.sizes), "")])
    return DONE


def collect_garbage(request: GarbageRequest) -> int:
    """List, or remove, the artifacts that no sweep needs and the damaged ones.

    Raises InputError where that cannot be told: a sweep without notes, a run that is at work.
    """
    usage = usage_of(_local(request.store))
    for name, keys in usage.sweeps.items():
        if keys is None:
            raise InputError(
                f"{name}: expected notes of what this sweep needs (`smoothsweep report` writes them), got none; "
                f"remove {usage.store.root / 'sweeps' / name} if the sweep may go"
            )
        if (state := read_state(usage.store, name)) and state["alive"]:
            raise InputError(f"{name}: expected a store on which nothing runs, got a run that is at work")
    unused, (damaged, _) = sorted(usage.unused), leftovers(usage.store)
    freed = decimal(sum(usage.sizes[key] for key in unused) + sum(map(size_of, damaged)))
    counts = Counter(kind for kind, _ in unused)
    rows = [(stage_title(kind), str(count)) for kind, count in sorted(counts.items())]
    _print([("artifact", "used by no sweep"), *rows, ("damaged", str(len(damaged)))])
    if not request.yes:
        goes = f"{freed} would be freed; --yes deletes them."
        others = "Stores that read through this one make them anew."
        screen.out(f"{goes} {others}" if unused or damaged else "nothing to remove")
        return DONE
    for kind, fingerprint in unused:
        folder = usage.store.root / kind / fingerprint
        (folder / MANIFEST).unlink(missing_ok=True)  # first: what is half removed is then no artifact
        shutil.rmtree(folder, ignore_errors=True)
    for path in damaged:
        shutil.rmtree(path)
    screen.out(f"freed {freed}")
    return DONE


def verify(request: OfStore) -> int:
    """Read every artifact of the store, and of those that it reads through. 1 where something is damaged."""
    store = _local(request.store)
    code = DONE
    for member in (Store(root=store.root), *(other_store(other, store) for other in links_of(store))):
        examined = examine_store(member)
        for line in (*examined.damaged, *examined.unread):
            screen.out(printable(f"{member.location}: {line}"))
            code = FAILED
        screen.out(printable(f"{member.location}: {examined.artifacts} artifacts as they were written"))
    return code


def export_sweep(request: StoreExport) -> int:
    """Copy what a sweep needs into a new store, verified; its page and notes come along.

    Raises InputError for an unknown sweep, one whose notes do not tell, and a folder that is there.
    """
    name, out, store = request.sweep, request.out, open_existing_store(request.store)
    sweeps = _local(request.store).sweeps()
    if name not in sweeps:
        raise InputError(f"{name}: expected a sweep of {store.location}{suggestion(name, sweeps)}, got none")
    keys = needs(store, name)  # also through linked stores: the copy then needs nothing more
    if keys is None:
        raise InputError(f"{name}: expected a sweep whose report was written; `smoothsweep report` writes it, got none")
    if out.exists():
        raise InputError(f"{out}: expected a new folder, got one that is there already")
    draft = out.with_name(f".{out.name}.export")
    shutil.rmtree(draft, ignore_errors=True)
    target = Store(root=draft.absolute())
    target.open_for_writing()
    copied = 0
    for kind, fingerprint in sorted(keys):
        folder = store.manifest_file(kind, fingerprint).parent
        if folder.exists():  # inputs of finished stages may have been removed: nothing needs them
            shutil.copytree(folder, draft / kind / fingerprint)
            copied += 1
    shutil.copytree(store.sweep_folder(name), draft / "sweeps" / name)
    damaged = examine_store(target).damaged
    if damaged:
        shutil.rmtree(draft)
        raise InputError(f"{store.location}: expected artifacts as they were written, got {printable(damaged[0])}")
    rename_folder(draft, out)
    screen.out(printable(f"{out}: {copied} artifacts of {name}, {decimal(size_of(out))}"))
    return DONE


def link(request: LinkRequest) -> int:
    """Add a store to those that this one reads through. Raises InputError where that cannot be."""
    store, root, known = _links(request)
    other_store(request.other, store)
    if root in known:
        raise InputError(f"{root}: expected a store that is not linked yet, got one that is")
    if links_of(Store(root=Path(root))):
        raise InputError(f"{root}: expected a store that reads through no other, got {LINKS_FILE} in it")
    store.open_for_writing()
    write_links(store, [*known, root])
    screen.out(printable(f"{store.location} reads through {root}, and never writes there"))
    return DONE


def unlink(request: LinkRequest) -> int:
    """Take a store from those that this one reads through. Raises InputError for another."""
    store, root, known = _links(request)
    if root not in known:
        raise InputError(f"{root}: expected one of the linked stores ({', '.join(known) or 'there are none'})")
    write_links(store, [linked for linked in known if linked != root])
    screen.out(printable(f"{store.location} no longer reads through {root}"))
    return DONE


def _links(request: LinkRequest) -> tuple[Store, str, list[str]]:
    """A store in a folder, which need not be there, nor what it is linked to; the other's folder; the linked ones."""
    _refuse_bucket(request.store)
    store = local_store(request.store)
    return store, str(Path(request.other).expanduser().resolve()), links_of(store)


def _local(location: str) -> Store:
    """A store in a folder, without those that it reads through. InputError for a bucket, and where there is none."""
    _refuse_bucket(location)
    return Store(root=open_existing_store(location).root)


def _refuse_bucket(location: str) -> None:
    if location.startswith("s3://"):
        raise InputError(f"--store {location}: expected a store in a folder, got a bucket; its service lists sizes")


def _print(rows: Sequence[Sequence[str]]) -> None:
    for line in aligned(rows, {0}):
        screen.out(printable(line))


WORK = ".work"


@dataclass(frozen=True, kw_only=True)
class Usage:
    """A store as its files tell it.

    Attributes:
        sizes: (kind, fingerprint) -> bytes of every finished artifact.
        sweeps: Name -> artifacts that its trials need, inputs included; None where its notes do not tell.
    """

    store: Store
    sizes: dict[Key, int]
    sweeps: dict[str, frozenset[Key] | None]

    @cached_property
    def unused(self) -> set[Key]:
        """Artifacts that no sweep of this store needs, as far as the sweeps' notes tell."""
        return self.sizes.keys() - set[Key]().union(*filter(None, self.sweeps.values()))

    def size(self, keys: Iterable[Key]) -> str:
        return decimal(sum(self.sizes.get(key, 0) for key in keys))

    def of_one_sweep(self, name: str) -> frozenset[Key]:
        """What no other sweep needs: so much is freed when this one goes."""
        others = (keys or () for other, keys in self.sweeps.items() if other != name)
        return (self.sweeps[name] or frozenset()).difference(*others)


def usage_of(store: Store) -> Usage:
    """Look through a store: its artifacts, and what its sweeps' notes name."""
    kinds = [
        kind for kind in _folders(store.root) if KIND.fullmatch(kind.name) and kind.name not in ("sweeps", DAMAGED)
    ]
    entries = [entry for kind in kinds for entry in _folders(kind) if FINGERPRINT.fullmatch(entry.name)]
    sizes = {(entry.parent.name, entry.name): size_of(entry) for entry in entries if (entry / MANIFEST).exists()}
    return Usage(store=store, sizes=sizes, sweeps={name: needs(store, name) for name in store.sweeps()})


def leftovers(store: Store) -> tuple[list[Path], list[Path]]:
    """Folders of damaged artifacts, and of unfinished work."""
    kinds = [entry for entry in _folders(store.root) if KIND.fullmatch(entry.name)]
    work = [entry for kind in kinds for entry in _folders(kind) if entry.name.endswith(WORK)]
    return [entry for kind in _folders(store.root / DAMAGED) for entry in _folders(kind)], work


def size_of(folder: Path) -> int:
    """Bytes of the files below a folder; links are not followed."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(place, name)).st_size
            except OSError:  # it has just gone
                continue
    return total


def _folders(place: Path) -> list[Path]:
    try:
        return sorted(entry for entry in place.iterdir() if entry.is_dir() and not entry.is_symlink())
    except (FileNotFoundError, NotADirectoryError):
        return []


def needs(store: Store, name: str) -> frozenset[Key] | None:
    """Artifacts that the trials of a sweep need, inputs included; None where its notes do not tell.

    store: one that reads through others also tells what lies there.
    """
    notes = read_trial_notes(store, name)
    if not notes:
        return None
    return frozenset(read_lineage(store, (key for note in notes for key in note.stages.items())))


class ExaminedStore(NamedTuple):
    """How many artifacts are as they were written; a line on each that is damaged, or that could not be read."""

    artifacts: int
    damaged: tuple[str, ...]
    unread: tuple[str, ...]


def examine_store(store: Store) -> ExaminedStore:
    """Read every finished artifact of the store. Changes nothing in it."""
    damaged, unread, manifests = list[str](), list[str](), dict[Key, dict[str, Any]]()
    for key in [(kind, fingerprint) for kind in TASKS for fingerprint in sorted(store.finished(kind))]:
        try:
            manifest = store.examined(*key)
            check_identity(manifest)
            manifests[key] = manifest
        except FileNotFoundError:
            continue  # removed meanwhile
        except Damage as damage:
            damaged.append(f"{stage_label(*key)}: {damage}")
        except OSError as error:  # a disk that fails, a file that this user may not read: the others are read
            where = error.filename or "one of its files"
            unread.append(f"{stage_label(*key)}: {where}: {error.strerror or error}")
    for key, manifest in manifests.items():  # one may have been changed and have a new seal
        for source in manifest.get("inputs", {}).values():
            place = source["stage"], source["fingerprint"]
            stated, actual = source.get(RESULT), manifests.get(place, {}).get(RESULT)
            if stated and actual and stated != actual:
                damaged.append(
                    f"{stage_label(*key)}: was made from another {stage_label(*place)} than the store has: that one's "
                    "numbers or files have changed since"
                )
    return ExaminedStore(len(manifests), tuple(damaged), tuple(unread))
