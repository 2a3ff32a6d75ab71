"""`smoothsweep study read`: from the annotators' files to what they show."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from smoothsweep.core import screen
from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.reading.study.answers import WHAT, read_answers
from smoothsweep.orchestrator.reading.study.key import KEY_FILE, read_key
from smoothsweep.orchestrator.reading.study.shares import study_result
from smoothsweep.orchestrator.reading.study.text import study_json, study_text


def read_study(answers: Sequence[Path], key_file: Path | None, *, as_json: bool) -> int:
    """Print the result. key_file: None for the one beside the first file. Returns the exit code; raises InputError."""
    if missing := [path for path in answers if not path.exists()]:  # the key's place follows from theirs
        raise InputError(f"{missing[0]}: expected {WHAT}, got nothing there")
    beside = answers[0].parent / KEY_FILE
    if key_file is None and not beside.is_file():
        raise InputError(f"{beside}: expected the key of the study beside the answers, or --study FILE; got neither")
    key = read_key(key_file or beside)
    result = study_result(key, read_answers(answers, key))
    if as_json:
        screen.out_text(json.dumps(study_json(result), indent=1, ensure_ascii=False))
    else:
        screen.out_text(study_text(result))
    return 0
