"""The contract as a table of requests, typed by hand from the documents and the rulings; never generated.

It is the check on the specification: a specification can agree with itself and still be wrong.  Topics live in hand/.
"""

from __future__ import annotations

from hand import (
    choices,
    extensions,
    general,
    messages,
    order,
    parts,
    profiles,
    prompts,
    sampling,
    stopping,
    templates,
    tools,
)
from hand import tools_rules as exclusions
from wire import Row

TOPICS = (
    general,
    sampling,
    stopping,
    choices,
    messages,
    parts,
    tools,
    exclusions,
    templates,
    extensions,
    prompts,
    profiles,
    order,
)

ROWS: list[Row] = [row for topic in TOPICS for row in topic.ROWS]
