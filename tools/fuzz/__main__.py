"""``python -m tools.fuzz``: fuzz the native step for so many minutes, or rounds; the first failure ends it."""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from engine.native.variants import NativeUnavailable
from engine.without_torchvision import leave_out_torchvision
from tools.fuzz import sanitised


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0 when nothing was found. A report of the sanitiser ends the process with its own status."""
    given = _parser().parse_args(arguments)
    if not sanitised.inside() and not given.plain:
        library = sanitised.runtime()
        if library is None:
            print("the compiler has no libasan.so; --plain fuzzes without a sanitiser", file=sys.stderr)
            return 2
        sanitised.enter(library, "tools.fuzz", sys.argv[1:] if arguments is None else arguments)
    sanitised.spare_children()
    try:
        return _fuzz(given)
    except NativeUnavailable as reason:
        print(f"the native step cannot be built: {reason}", file=sys.stderr)
        return 2


def _fuzz(given: argparse.Namespace) -> int:
    leave_out_torchvision()  # what it throws while it is imported ends a process under the sanitiser
    # Only now, since they are slow to import under the sanitiser.
    from engine.loader import cpu_flags
    from engine.native.build import with_library
    from engine.native.library import Library
    from engine.native.variants import choose
    from engine.native.variants import sanitised as watched
    from tools.fuzz.models import draw_case
    from tools.fuzz.rounds import run_round

    chosen = choose(cpu_flags(), given.variant)
    library = with_library(chosen if given.plain else watched(chosen), Library, cache=given.cache, on_progress=_say)
    counts: Counter[str] = Counter()
    number = given.first_round
    while number < given.first_round + given.rounds and time.process_time() < given.minutes * 60:
        case = draw_case(random.Random(f"{given.seed} {number}"))
        _say(f"round {number} at {time.process_time():.0f} s of its own time, {_text(counts)}; {case}")
        try:
            run_round(case, library, number, counts)
        except Exception as error:
            _say(f"found in round {number}: {error}")
            _say(f"again: python -m tools.fuzz --seed {given.seed} --first-round {number} --rounds 1")
            raise
        number += 1
    rounds = number - given.first_round
    _say(f"nothing found in {rounds} rounds, {time.process_time():.0f} s of its own time: {_text(counts)}")
    return 0


def _text(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items())) or "nothing yet"


def _say(text: str) -> None:
    print(text, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.fuzz", description=__doc__)
    add = parser.add_argument
    add("--minutes", type=float, default=1.0, help="of the process's own time on the processor; a round is finished")
    add("--rounds", type=int, default=10**9, metavar="N", help="models at most")
    add("--first-round", type=int, default=0, metavar="N", help="as a failure says it")
    add("--seed", type=int, default=0)
    add("--variant", metavar="NAME", help="the instruction set; the best one if absent")
    add("--cache", type=Path, metavar="DIR", help="where libraries are kept; the usual cache if absent")
    add("--plain", action="store_true", help="the library as it is served, without sanitisers")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
