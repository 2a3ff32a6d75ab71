"""`make mutants`: a seeded sample of faults in the rooms of `targets.ROOMS`; which of them the tests notice.

    python -m tools.mutants [--sample N] [--seed S] [--only TEXT] [--processes P] [--table FILE] [--out FILE]
    python -m tools.mutants --again FILE [--out FILE]

The sample is drawn evenly over the rooms, within a room over all its faults. Results go to a JSON file as they come,
and with --table into the table between the marks in docs/reliability.md. --again asks once more about the faults that
an earlier run's file holds as not noticed, wherever the code still reads as it did.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tools.mutants.mutations import Mutant, places_of
from tools.mutants.report import summary_lines, write_table
from tools.mutants.running import LEAST_S, TIMES, UNNOTICED, Copy, load_libraries
from tools.mutants.targets import ROOMS, Target, targets

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, kw_only=True)
class Question:
    """A fault and the tests to ask about it."""

    mutant: Mutant
    room: str
    tests: tuple[str, ...]
    limit_s: float


def main() -> int:
    """Exit code 0: all asked, whatever the tests said; 2: the tests fail without any fault."""
    options = _options()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    started = time.monotonic()
    with Copy(ROOT) as tree:  # whoever goes on working on the sources does not disturb
        chosen = [target for target in targets(tree.root) if target.module.startswith(options.only)]
        survivors = _survivors(options.again)
        if survivors is not None:
            chosen = [target for target in chosen if any(one["module"] == target.module for one in survivors)]
        # processes of this kind may start others, which some tests do
        forks = multiprocessing.get_context("fork")
        with ProcessPoolExecutor(options.processes, forks, _begin, (tree.root,)) as pool:
            seconds = _seconds(pool, chosen)
            if seconds is None:
                return 2
            if survivors is None:
                questions = sample(tree.root, chosen, options.sample, options.seed, seconds)
            else:
                questions = again(tree.root, chosen, survivors, seconds)
            results = _asked(pool, questions, options.out)
    results.sort(key=lambda result: (result["module"], result["line"], result["after"]))
    options.out.write_text(json.dumps(results, indent=1))
    print("\n".join(summary_lines(results, options.seed, time.monotonic() - started)))
    if options.table:
        write_table(options.table, results, options.seed)
    return 0


def _asked(pool: ProcessPoolExecutor, questions: list[Question], out: Path) -> list[dict[str, Any]]:
    """Every answer, said and kept as it comes."""
    results: list[dict[str, Any]] = []
    for future in as_completed([pool.submit(_ask, question) for question in questions]):
        results.append(result := future.result())
        out.write_text(json.dumps(results, indent=1))
        said = f"{len(results)}/{len(questions)} {result['said']:9} {result['module']}:{result['line']}"
        print(f"{said}  {result['before'][:60]}  ->  {result['after'][:60]}", flush=True)
    return results


def sample(
    root: Path, chosen: list[Target], count: int, seed: int, seconds: dict[str, float]
) -> list[Question]:
    """As many faults of each room, drawn from all that its modules can have; fewer where there are not as many."""
    rooms, questions = [room for room in ROOMS if any(target.room == room for target in chosen)], []
    for number, room in enumerate(rooms):
        pool = [(target, place) for target in chosen if target.room == room
                for place in places_of(root, target.module)]  # fmt: skip
        share = count // len(rooms) + (number < count % len(rooms))
        for target, place in random.Random(f"{seed} {room}").sample(pool, min(share, len(pool))):
            questions.append(_question(target, place.mutant(), seconds))
    random.Random(seed).shuffle(questions)  # a run that is interrupted says something of every room
    return questions


def again(
    root: Path, chosen: list[Target], survivors: list[dict[str, Any]], seconds: dict[str, float]
) -> list[Question]:
    """The same faults; of several that read alike in a module the one nearest to the line where it was."""
    questions = []
    for target in chosen:
        mutants = [place.mutant() for place in places_of(root, target.module)]
        for one in survivors:
            read = (one["module"], one["before"], one["after"])
            alike = [mutant for mutant in mutants if (mutant.module, mutant.before, mutant.after) == read]
            if alike:
                nearest = min(alike, key=lambda mutant: abs(mutant.line - one["line"]))
                questions.append(_question(target, nearest, seconds))
    return questions


def _question(target: Target, mutant: Mutant, seconds: dict[str, float]) -> Question:
    limit_s = max(LEAST_S, TIMES * sum(seconds[test] for test in target.tests))
    return Question(mutant=mutant, room=target.room, tests=target.tests, limit_s=limit_s)


def _survivors(earlier: Path | None) -> list[dict[str, Any]] | None:
    """What an earlier run's file holds as not noticed; None where none is named."""
    if earlier is None:
        return None
    return [one for one in json.loads(earlier.read_text()) if one["said"] == UNNOTICED]


def _seconds(pool: ProcessPoolExecutor, chosen: list[Target]) -> dict[str, float] | None:
    """Seconds that each test file takes without a fault; None if one fails so."""
    tests = sorted({test for target in chosen for test in target.tests})
    seconds = {}
    for test, answer in zip(tests, pool.map(_ask_without, tests), strict=True):
        if answer.said != UNNOTICED:
            print(f"without any fault: {test}: {answer.said}\n{answer.tail}", file=sys.stderr)
            return None
        seconds[test] = answer.seconds
        print(f"without any fault {answer.seconds:6.1f} s  {test}", flush=True)
    return seconds


_copy: Copy | None = None


def _begin(tree: Path) -> None:
    global _copy
    load_libraries()
    _copy = Copy(tree)
    multiprocessing.util.Finalize(_copy, _copy.__exit__, exitpriority=10)


def _ask_without(test: str) -> Any:
    return _copy.ask(None, None, (test,), 900.0)


def _ask(question: Question) -> dict[str, Any]:
    mutant = question.mutant
    answer = _copy.ask(mutant.module, mutant.source, question.tests, question.limit_s)
    found = {key: value for key, value in asdict(mutant).items() if key != "source"}
    return {**found, "room": question.room, "said": answer.said, "seconds": round(answer.seconds, 1)}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__.splitlines()[0])
    parser.add_argument("--sample", type=int, default=250, help="how many faults")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="only modules whose path begins with this")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path, default=ROOT / "mutants.json")
    parser.add_argument("--again", type=Path, help="ask about what this file of results holds as not noticed")
    parser.add_argument("--table", type=Path, help="write the kill rates between the marks of this file")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
