"""How large what `mindspec check` reads may be."""

from __future__ import annotations

from typing import Final

MOST_FILE_BYTES: Final = 1 << 30
"""Of a file or of standard input."""
MOST_WHOLE_BYTES: Final = 256 << 20
"""Of a file that has to be read as a whole: a HAR or a single body."""
MOST_LINE_BYTES: Final = 64 << 20
"""Of a line of JSONL, with the body and the answer in it."""
MOST_HAR_ENTRIES: Final = 200_000
"""Requests in one HAR."""
MOST_FILES: Final = 100_000
"""Files in a folder."""
MOST_DEPTH: Final = 200
"""Arrays and objects inside each other in a HAR; a body has the deployment's own limit."""
MOST_REQUESTS: Final = 2_000_000
"""Requests of all files together."""
MOST_BREACHES: Final = 200_000
"""Breaches, and places that cannot be read, of all files together; what comes after them is not read."""
