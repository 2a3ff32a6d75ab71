"""What `smoothsweep store` does, on a store in a folder."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from smoothsweep.core import screen
from smoothsweep.core.errors import InputError
from smoothsweep.core.files import rename_folder
from smoothsweep.core.spelling import suggestion
from smoothsweep.core.text import printable
from smoothsweep.orchestrator.commands.health.examining import examine_store
from smoothsweep.orchestrator.commands.health.storage.usage import Key, Usage, leftovers, needs, size_of, usage_of
from smoothsweep.orchestrator.planning.state import read_state
from smoothsweep.orchestrator.store.base import DAMAGED, MANIFEST, Store
from smoothsweep.orchestrator.store.opening import LINKS_FILE, links_of, open_existing_store, other_store, write_links
from smoothsweep.tasks.stage_names import stage_title

DONE, FAILED = 0, 1
UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def list_sweeps(location: str) -> int:
    """Print the sweeps and the linked stores."""
    usage = usage_of(_local(location))
    rows = [("sweep", "artifacts", "size", "of it alone")]
    for name, keys in usage.sweeps.items():
        if keys is None:
            rows.append((name, "not known", "", "no report was written"))
        else:
            there = [key for key in keys if key in usage.sizes]
            rows.append(
                (name, str(len(there)), in_words(usage.size(there)), in_words(usage.size(usage.of_one_sweep(name))))
            )
    _print(rows)
    unused = usage.unused
    screen.out(f"used by no sweep: {len(unused)} artifacts, {in_words(usage.size(unused))}")
    for other in links_of(usage.store):
        screen.out(printable(f"reads through: {other}"))
    return DONE


def list_sizes(location: str) -> int:
    """Print sizes by kind of artifact, and what is unfinished or damaged."""
    usage = usage_of(_local(location))
    used = usage.used
    kinds = sorted({kind for kind, _ in usage.sizes})
    rows = [("artifact", "count", "size", "used by no sweep")]
    for kind in kinds:
        keys = [key for key in usage.sizes if key[0] == kind]
        idle = [key for key in keys if key not in used]
        left_over = in_words(usage.size(idle)) if idle else ""
        rows.append((stage_title(kind), str(len(keys)), in_words(usage.size(keys)), left_over))
    left = leftovers(usage.store)
    for name, chosen in (("damaged", True), ("unfinished", False)):
        folders = [path for path in left if (path.parent.parent.name == DAMAGED) == chosen]
        rows.append((name, str(len(folders)), in_words(sum(map(size_of, folders))), ""))
    rows.append(("all", str(len(usage.sizes)), in_words(usage.size(list(usage.sizes))), ""))
    _print(rows)
    return DONE


def collect_garbage(location: str, *, remove: bool) -> int:
    """List, or remove, the artifacts that no sweep needs and the damaged ones.

    Raises InputError where that cannot be told: a sweep without notes, a run that is at work.
    """
    usage = usage_of(_local(location))
    _refuse_unclear(usage)
    unused: Sequence[Key] = usage.unused
    damaged = [path for path in leftovers(usage.store) if path.parent.parent.name == DAMAGED]
    freed = usage.size(list(unused)) + sum(map(size_of, damaged))
    counts = Counter(kind for kind, _ in unused)
    rows = [(stage_title(kind), str(count)) for kind, count in sorted(counts.items())]
    _print([("artifact", "used by no sweep"), *rows, ("damaged", str(len(damaged)))])
    if not remove:
        goes = f"{in_words(freed)} would be freed; --yes deletes them."
        others = "Stores that read through this one make them anew."
        screen.out(f"{goes} {others}" if unused or damaged else "nothing to remove")
        return DONE
    for kind, fingerprint in unused:
        _remove(usage.store.root / kind / fingerprint)
    for path in damaged:
        shutil.rmtree(path)
    screen.out(f"freed {in_words(freed)}")
    return DONE


def verify(location: str) -> int:
    """Read every artifact of the store, and of those that it reads through. 1 where something is damaged."""
    store = _local(location)
    code = DONE
    for member in (Store(root=store.root), *(other_store(other, store) for other in links_of(store))):
        examined = examine_store(member)
        for line in (*examined.damaged, *examined.unread):
            screen.out(printable(f"{member.location}: {line}"))
            code = FAILED
        screen.out(printable(f"{member.location}: {examined.artifacts} artifacts as they were written"))
    return code


def export_sweep(location: str, name: str, out: Path) -> int:
    """Copy what a sweep needs into a new store, verified; its page and notes come along.

    Raises InputError for an unknown sweep, one whose notes do not tell, and a folder that is there.
    """
    store = open_existing_store(location)
    sweeps = _local(location).sweeps()
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
    screen.out(printable(f"{out}: {copied} artifacts of {name}, {in_words(size_of(out))}"))
    return DONE


def change_links(location: str, other: str, *, add: bool) -> int:
    """Add a store to those that this one reads through, or take it away. Raises InputError where that cannot be."""
    store = _plain(location)
    root = str(Path(other).expanduser().resolve())
    known = links_of(store)
    if add:
        other_store(other, store)
        if root in known:
            raise InputError(f"{root}: expected a store that is not linked yet, got one that is")
        if links_of(Store(root=Path(root))):
            raise InputError(f"{root}: expected a store that reads through no other, got {LINKS_FILE} in it")
        store.open_for_writing()
        write_links(store, [*known, root])
        screen.out(printable(f"{store.location} reads through {root}, and never writes there"))
        return DONE
    if root not in known:
        raise InputError(f"{root}: expected one of the linked stores ({', '.join(known) or 'there are none'})")
    write_links(store, [linked for linked in known if linked != root])
    screen.out(printable(f"{store.location} no longer reads through {root}"))
    return DONE


def in_words(size: int) -> str:
    """Bytes with a unit."""
    number = float(size)
    for unit in UNITS:
        if number < 1024 or unit == UNITS[-1]:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    raise AssertionError("the last unit has no end")


def _local(location: str) -> Store:
    """A store in a folder, without those that it reads through. InputError for a bucket, and where there is none."""
    _refuse_bucket(location)
    return Store(root=open_existing_store(location).root)


def _plain(location: str) -> Store:
    """A store in a folder whether it is there or not: what it is linked to need not be there."""
    _refuse_bucket(location)
    return Store(root=Path(location.removeprefix("file://")).expanduser().resolve())


def _refuse_bucket(location: str) -> None:
    if location.startswith("s3://"):
        raise InputError(f"--store {location}: expected a store in a folder, got a bucket; its service lists sizes")


def _refuse_unclear(usage: Usage) -> None:
    for name in usage.unknown_sweeps[:1]:
        raise InputError(
            f"{name}: expected notes of what this sweep needs (`smoothsweep report` writes them), got none; "
            f"remove {usage.store.root / 'sweeps' / name} if the sweep may go"
        )
    for name in usage.sweeps:
        state = read_state(usage.store, name)
        if state and state["alive"]:
            raise InputError(f"{name}: expected a store on which nothing runs, got a run that is at work")


def _remove(folder: Path) -> None:
    """The manifest goes first: what is half removed is then no artifact."""
    (folder / MANIFEST).unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


def _print(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    for row in rows:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        screen.out(printable("  ".join(cells).rstrip()))
