"""`make mutants`: a seeded sample of faults in the rooms of `targets.ROOMS`; which of them the tests notice.

    python -m tools.mutants [--sample N] [--seed S] [--only TEXT] [--processes P] [--table FILE] [--out FILE]
    python -m tools.mutants --again FILE [--out FILE]

The sample is drawn evenly over the rooms, within a room over all its faults. Results go to a JSON file as they come,
and with --table into the table between the marks in docs/reliability.md. --again asks once more about the faults that
an earlier run's file holds as not noticed, wherever the code still reads as it did. --only takes several beginnings,
separated by commas. --executed names the file where it is kept which tests execute which lines, so that the next run
measures only what has changed.
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

from tools.mutants.covering import Chosen, Executed, choose, read_executed, write_executed
from tools.mutants.mutations import Mutant, Place, places_of
from tools.mutants.report import summary_lines, write_table
from tools.mutants.running import LEAST_S, TIMES, UNNOTICED, Copy, load_libraries
from tools.mutants.targets import ROOMS, Target, targets

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, kw_only=True)
class Question:
    """A fault and the tests to ask about it."""

    mutant: Mutant
    room: str
    chosen: Chosen
    limit_s: float


def main() -> int:
    """Exit code 0: all asked, whatever the tests said; 2: the tests fail without any fault."""
    options = _options()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    started = time.monotonic()
    with Copy(ROOT) as tree:  # whoever goes on working on the sources does not disturb
        begins = tuple(options.only.split(","))
        chosen = [target for target in targets(tree.root) if target.module.startswith(begins)]
        survivors = _survivors(options.again)
        if survivors is None:
            drawn = sample(tree.root, chosen, options.sample, options.seed)
        else:
            drawn = again(tree.root, chosen, survivors)
        # processes of this kind may start others, which some tests do
        forks = multiprocessing.get_context("fork")
        with ProcessPoolExecutor(options.processes, forks, _begin, (tree.root,)) as pool:
            executed = _executed(pool, [target for target, _ in drawn], options.executed, tree.root)
            if executed is None:
                return 2
            questions = [_question(target, place, executed) for target, place in drawn]
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


def sample(root: Path, chosen: list[Target], count: int, seed: int) -> list[tuple[Target, Place]]:
    """As many faults of each room, drawn from all that its modules can have; fewer where there are not as many."""
    rooms, drawn = [room for room in ROOMS if any(target.room == room for target in chosen)], []
    for number, room in enumerate(rooms):
        pool = [(target, place) for target in chosen if target.room == room for place in places_of(root, target.module)]
        share = count // len(rooms) + (number < count % len(rooms))
        drawn += random.Random(f"{seed} {room}").sample(pool, min(share, len(pool)))
    random.Random(seed).shuffle(drawn)  # a run that is interrupted says something of every room
    return drawn


def again(root: Path, chosen: list[Target], survivors: list[dict[str, Any]]) -> list[tuple[Target, Place]]:
    """The same faults; of several that read alike in a module the one nearest to the line where it was."""
    drawn = []
    for target in chosen:
        mine = [one for one in survivors if one["module"] == target.module]
        places = [(place, place.mutant()) for place in places_of(root, target.module)] if mine else []
        for one in mine:
            read = one["before"], one["after"]
            alike = [place for place, mutant in places if (mutant.before, mutant.after) == read]
            if alike:
                drawn.append((target, min(alike, key=lambda place: abs(place.line - one["line"]))))
    return drawn


def _question(target: Target, place: Place, executed: dict[str, Executed]) -> Question:
    first, last = place.statement
    chosen = choose(executed, target.tests, target.module, range(first, last + 1))
    limit_s = max(LEAST_S, TIMES * sum(executed[test].whole_s for test in chosen.tests))
    return Question(mutant=place.mutant(), room=target.room, chosen=chosen, limit_s=limit_s)


def _survivors(earlier: Path | None) -> list[dict[str, Any]] | None:
    """What an earlier run's file holds as not noticed; None where none is named."""
    if earlier is None:
        return None
    return [one for one in json.loads(earlier.read_text()) if one["said"] == UNNOTICED]


def _executed(pool: ProcessPoolExecutor, asked: list[Target], kept: Path, root: Path) -> dict[str, Executed] | None:
    """What each test file executes without a fault; None if one fails so."""
    known = read_executed(kept, root)
    tests = sorted({test for target in asked for test in target.tests} - set(known))
    for test, (answer, found) in zip(tests, pool.map(_watch, tests), strict=True):
        if found is None:
            print(f"without any fault: {test}: {answer.said}\n{answer.tail}", file=sys.stderr)
            return None
        known[test] = found
        print(f"without any fault {answer.seconds:6.1f} s  {test}", flush=True)
        write_executed(kept, known)
    return known


_copy: Copy | None = None


def _begin(tree: Path) -> None:
    global _copy
    load_libraries()
    _copy = Copy(tree)
    multiprocessing.util.Finalize(_copy, _copy.__exit__, exitpriority=10)


def _watch(test: str) -> Any:
    return _copy.watch(test, 1800.0)


def _ask(question: Question) -> dict[str, Any]:
    mutant = question.mutant
    answer = _copy.ask(mutant.module, mutant.source, question.chosen, question.limit_s)
    found = {key: value for key, value in asdict(mutant).items() if key not in ("source", "statement")}
    return {**found, "room": question.room, "said": answer.said, "seconds": round(answer.seconds, 1)}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__.splitlines()[0])
    parser.add_argument("--sample", type=int, default=250, help="how many faults")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="only modules whose path begins with one of these")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path, default=ROOT / "mutants.json")
    parser.add_argument(
        "--executed",
        type=Path,
        default=ROOT / "mutants-executed.json",
        help="where it is kept which tests execute which lines",
    )
    parser.add_argument("--again", type=Path, help="ask about what this file of results holds as not noticed")
    parser.add_argument("--table", type=Path, help="write the kill rates between the marks of this file")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
