"""The table, the doubts and the JSON of a comparison with known figures."""

from __future__ import annotations

import io
import json

from tools.load.cases import case
from tools.load.figures import Figures
from tools.load.progress import Progress
from tools.load.quiet import Usage
from tools.load.report import Comparison, as_json, doubts, speed_line, table, text
from tools.load.rounds import Patience, Turn


def turn(
    server: str,
    name: str,
    number: int,
    tok_s: float,
    *,
    others: float = 0.01,
    speed: float = 50.0,
    failures: tuple[str, ...] = (),
    short: int = 0,
) -> Turn:
    """A turn with one figure."""
    figures: Figures = {"output_tok_s": tok_s} if tok_s else {}
    usage = Usage(others=others, steal=0, server=1, client=0.1)
    return Turn(server, name, number, figures, usage, (speed, speed), others >= 0.1, 1, list(failures), short)


def comparison(*turns: Turn, cases: tuple[str, ...] = ("c1",), rounds: int = 1) -> Comparison:
    """Two servers."""
    return Comparison(["ours", "peer"], [case(name, 64) for name in cases], rounds, Patience(), list(turns))


def rows(found: Comparison) -> list[list[str]]:
    """The table's cells, split at wide gaps."""
    return [line.split("  ") for line in table(found).splitlines()]


def test_the_table_has_medians_and_ratios() -> None:
    """Two rounds: 20 and 40 against 10 and 10 are 30 : 10, and 2x and 4x make 3x."""
    found = comparison(
        *(turn("ours", "c1", 0, 20), turn("peer", "c1", 0, 10), turn("ours", "c1", 1, 40), turn("peer", "c1", 1, 10)),
        rounds=2,
    )
    lines = table(found).splitlines()

    assert lines[0].split() == ["ours", "peer", "ours", ":", "peer"]
    assert lines[2].split() == ["c1", "output", "tok/s", "30", "10", "3.00x", "(2.00-4.00)"]
    assert lines[3].split() == ["TTFT", "p50", "ms", "–", "–", "–"]


def test_start_up_and_memory_have_rows_of_their_own() -> None:
    """The cold start, the median of the warm ones, and the memory at the end."""
    found = comparison()
    found.starts = {
        "ours": [{"cold_s": 6.0}, {"warm_s": 3.0}, {"warm_s": 5.0}],
        "peer": [{"cold_s": 12}, {"warm_s": 8}],
    }
    found.memory_mb = {"ours": 500.0, "peer": 1500.0}
    lines = [line.split() for line in table(found).splitlines()[-3:]]

    assert lines == [
        ["start", "cold", "start", "s", "6", "12", "2.00x"],
        ["warm", "start", "s", "4", "8", "2.00x"],
        ["memory", "MB", "500", "1500", "3.00x"],
    ]


def test_beside_a_neighbour_the_share_kept_is_shown() -> None:
    """30 instead of 40 tokens a second are 75 %; without the undisturbed case there is no share."""
    found = comparison(
        turn("ours", "c1", 0, 40),
        turn("ours", "c1+half", 0, 30),
        turn("peer", "c1+half", 0, 5),
        cases=("c1", "c1+half"),
    )
    assert table(found).splitlines()[-1].split() == ["of", "undisturbed", "tok/s", "75%", "–"]


def test_a_quiet_run_has_no_doubts() -> None:
    """And says so."""
    found = comparison(turn("ours", "c1", 0, 20), turn("peer", "c1", 0, 10))
    assert doubts(found) == []
    assert "Others used less than 0.1 cores in every turn." in text(found)


def test_every_doubt_is_told() -> None:
    """Noise, failures, short answers, and a host whose speed changed between two neighbours."""
    found = comparison(
        turn("ours", "c1", 0, 20, others=0.4, short=3),
        turn("peer", "c1", 0, 10, speed=30.0, failures=("HTTP 500: x",)),
    )
    assert doubts(found) == [
        "ours, c1: noisy in 1 of 1 rounds (others used up to 0.40 cores, 0.1 are allowed).",
        "ours, c1: 3 answers were shorter than asked for.",
        "peer, c1: 1 requests failed, the first with: HTTP 500: x",
        "c1: the host read memory at different speeds within round 1.",
    ]
    assert speed_line(found).endswith("median 40.0 GB/s, 30.0 to 50.0.")


def test_the_json_holds_every_turn_and_every_ratio() -> None:
    """And can be written."""
    found = comparison(turn("ours", "c1", 0, 20), turn("peer", "c1", 0, 10))
    document = json.loads(json.dumps(as_json(found, {"rounds": 1})))

    assert document["medians"]["c1"] == {"ours": {"output_tok_s": 20}, "peer": {"output_tok_s": 10}}
    assert document["ratios"]["c1"]["ours : peer"]["output_tok_s"] == {"median": 2.0, "least": 2.0, "most": 2.0}
    assert [turn["usage"]["others"] for turn in document["turns"]] == [0.01, 0.01]
    assert document["settings"] == {"rounds": 1}


class Terminal(io.StringIO):
    """A stream that says it is one."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_one_line_that_is_written_over() -> None:
    """The share done, and what is being done."""
    stream = Terminal()
    progress = Progress(4, stream)
    progress.now("first")
    progress.step()
    progress.step()
    progress.now("third")
    progress.close()

    assert "\n" not in stream.getvalue()
    last = stream.getvalue().split("\r")[2]
    assert last.count("█") == last.count("░") == 12
    assert last.endswith("third")
    assert " 2/4" in last


def test_a_file_gets_a_line_for_each_new_thing() -> None:
    """No control characters, no repetitions."""
    stream = io.StringIO()
    progress = Progress(2, stream)
    for what in ("one", "one", "two"):
        progress.now(what)
    progress.step()
    progress.now("three")
    progress.close()

    assert stream.getvalue() == "[0/2] one\n[0/2] two\n[1/2] three\n"
