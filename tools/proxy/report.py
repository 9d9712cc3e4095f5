"""What the proxy tells: a line for each breach as it is found, and the counts at the end."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from typing import Final, Literal, TextIO

from tools.laws.breach import Breach

Side = Literal["client", "server"]
MAX_LINES: Final = 100_000
"""Breaches that are told one by one; those after them are only counted."""


class Report:
    """Writes lines, and counts."""

    def __init__(self, sink: TextIO, form: Literal["text", "json"]) -> None:
        self._sink = sink
        self._json = form == "json"
        self.breaches: Counter[tuple[Side, str]] = Counter()
        self.counts: Counter[str] = Counter()
        """Requests, answers, streams and events that were judged, and what was not, with why."""

    @property
    def found(self) -> bool:
        """Something was."""
        return bool(self.breaches)

    def tell(self, time_s: float, number: int, answer_id: str | None, side: Side, breaches: list[Breach]) -> None:
        """Breaches of one side in one exchange.

        Args:
            time_s: when what broke them came, in seconds since 1970.
            number: of the request, counted from 1.
            answer_id: where it is known.
            side: whose they are.
            breaches: a line for each.
        """
        for breach in breaches:
            self.breaches[side, breach.law] += 1
            if self.breaches.total() > MAX_LINES:
                continue
            time = datetime.fromtimestamp(time_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            if self._json:
                line = json.dumps(
                    {
                        "time": time,
                        "request": number,
                        "id": answer_id,
                        "side": side,
                        "law": breach.law,
                        "field": breach.field,
                        "message": breach.message,
                        "remedy": breach.remedy,
                    },
                    ensure_ascii=False,
                )
            else:
                name = f"#{number}" if answer_id is None else f"#{number} {answer_id}"
                field = "" if breach.field is None else f" {breach.field}"
                line = f"{time} {name} {side} {breach.law}{field}: {breach.message}. {breach.remedy}"
            self._write(line)

    def finish(self) -> None:
        """The counts."""
        if self._json:
            breaches = [{"side": side, "law": law, "count": n} for (side, law), n in sorted(self.breaches.items())]
            self._write(json.dumps({"counts": dict(sorted(self.counts.items())), "breaches": breaches}))
            return
        self._write(", ".join(f"{name}: {count}" for name, count in sorted(self.counts.items())) or "nothing passed")
        for (side, law), count in sorted(self.breaches.items()):
            self._write(f"  {count} x {side} {law}")
        if not self.breaches:
            self._write("  no breaches")

    def _write(self, line: str) -> None:
        # A line of this report stays one, whatever a server or a client put into it.
        shown = "".join(letter if letter.isprintable() else f"\\u{ord(letter):04x}" for letter in line)
        try:
            self._sink.write(shown + "\n")
            self._sink.flush()
        except OSError:  # nobody reads it, or there is no room; the exit code still tells
            self.counts["lines that could not be written"] += 1
