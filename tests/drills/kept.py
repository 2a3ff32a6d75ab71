"""How much work a disturbance cost: what lay finished in the store when it came, and whether any of it was redone."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from smoothsweep.tasks.unfinished import load_checkpoint


@dataclass(kw_only=True)
class Kept:
    """What a store holds at one moment. `check` after the end: nothing of it was done twice.

    artifacts: manifest -> inode. epochs: target fingerprint -> seconds of each checkpointed epoch, by which an epoch is
    known: doing it again takes another time. lost_s: stage label -> seconds since it last left something finished.
    """

    store: Path
    artifacts: dict[Path, int] = field(default_factory=dict)
    epochs: dict[str, list[float]] = field(default_factory=dict)
    lost_s: dict[str, float] = field(default_factory=dict)

    @classmethod
    def now(cls, store: Path, *, since: float = 0.0) -> Kept:
        """since: when the run went on, before which nothing of it was in work (s since 1970)."""
        kept = cls(store=store)
        for manifest in store.glob("*/[!.]*/manifest.json"):  # a draft has a dot before its name, and may go at once
            kept.artifacts[manifest] = manifest.stat().st_ino
        for work in store.glob("*/*.work"):
            kept._look_at(work, since)
        return kept

    def _look_at(self, work: Path, since: float) -> None:
        """A stage in the middle: its last checkpoint, its finished classes, or when it began."""
        marks = [*work.glob("checkpoint.pt"), *work.glob("classes/*"), *work.glob("ray_train/checkpoint_*/*.pt")]
        try:
            last = max([since, *([path.stat().st_mtime for path in marks] or [work.stat().st_ctime])])
            self.lost_s[f"{work.parent.name} {work.name[:8]}"] = max(0.0, time.time() - last)
            state = load_checkpoint(work / "checkpoint.pt")
        except OSError:
            return  # finished, or lost its place to the finished artifact, while we looked
        records = (state or {}).get("records")  # of a target; parts of attacks keep another state
        if isinstance(records, list):
            self.epochs[work.name.removesuffix(".work")] = [record["seconds"] for record in records]

    @property
    def lost(self) -> float:
        """Seconds of work that this disturbance can have cost, over all stages in work."""
        return sum(self.lost_s.values())

    def check(self) -> int:
        """Assert that no finished artifact and no checkpointed epoch was made again; how many epochs were kept."""
        for manifest, inode in self.artifacts.items():
            assert manifest.stat().st_ino == inode, f"{manifest} was made again"
        for fingerprint, seconds in self.epochs.items():
            history = self.store / "target" / fingerprint / "history.parquet"
            if history.is_file():
                again = pd.read_parquet(history)["seconds"].tolist()[: len(seconds)]
                assert again == seconds, f"target {fingerprint[:8]}: epochs before the checkpoint were trained again"
        return sum(map(len, self.epochs.values()))
