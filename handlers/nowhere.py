"""What a client is told whose path or method there is not: the methods, or the path that it should use."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Final

from handlers.errors import Problem
from handlers.paths import PathTable

NOTHING: Final = "There is nothing at this path"

_TEXT: Final = "use POST /v1/completions, or POST /v1/chat/completions, with stream for events"
_IDS: Final = "use POST /v1/completions, whose prompt may be a list of token ids"
_CHAT: Final = "use POST /v1/chat/completions"
_TEXT_ONLY: Final = "this server only generates text; use POST /v1/chat/completions or POST /v1/completions"
_ONE_ROLE: Final = "prefill and decode are not divided among servers here; GET /v1/status says what this one does"
_COUNT: Final = "use POST /v1/tokenizer, which counts the tokens of a text and shows them"
_STATE: Final = "an engine that fails is started again by itself; use GET /health, which says in what state it is"
_VERSIONS: Final = "models have no versions here; leave /versions and the number behind it out"
_MODEL: Final = "this is asked of a model; put /v2/models/ and its name before it"

_NOT_OFFERED: Final = tuple(
    (re.compile(pattern, re.DOTALL), advice)
    for pattern, advice in (
        (r"/|/generate|/generate_stream|/infer|/api/generate|/v2/models/.+/generate(_stream)?", _TEXT),
        (r"/infer_token|/v2/models/.+/infer", _IDS),
        (r"/v2/models/.+/versions/[^/]+(/.+)?", _VERSIONS),
        (r"/dresult|/v1/role/.+|/v2/role/.+", _ONE_ROLE),
        (r"/metrics-json", "use GET /metrics"),
        (r"/v2/status", "use GET /v1/status"),
        (r"/v1/engine-server/.+", _STATE),
        (r"(/v1)?/(de)?tokenize", _COUNT),
        (r"(/v1)?/(embeddings|rerank|score|classify|pooling|images/.+|audio/.+|moderations)", _TEXT_ONLY),
        (r"/v1/responses|/v1/messages|/api/chat", _CHAT),
        (r"(/v2)?/(getSlotCount|stopInfer)", _MODEL),
    )
)
"""Paths that MindIE or servers like it offer and this one does not, and what to do instead."""

_OF_MODEL: Final = "/v2/models/{model}"
_LONGEST: Final = 100
"""Characters of a path that may still be a slip of the pen."""
_NEAR: Final = 0.8
"""Likeness from which on one path is taken for a slip of another; 1: the same."""


class Nowhere:
    """Knows what there is."""

    def __init__(self, routes: Mapping[str, Mapping[str, Any]], others: Mapping[str, tuple[str, ...]]) -> None:
        """Args:
        routes: the paths of generated/routes.yaml with their methods.
        others: paths that are no part of the contract, with their methods in capitals.
        """
        methods = {path: tuple(method.upper() for method in entry) for path, entry in routes.items()}
        # The router answers HEAD wherever there is GET.
        methods = {path: (*found, "HEAD") if "GET" in found else found for path, found in methods.items()}
        self._methods: dict[str, tuple[str, ...]] = {**methods, **others}
        self._table = PathTable(self._methods)
        self._plain = {path.lower(): path for path in self._methods if "{" not in path}
        ends = {path.removeprefix(_OF_MODEL): path for path in routes if path.startswith(_OF_MODEL + "/")}
        self._ends = {end.lower(): path for end, path in ends.items()}

    def instead(self, path: str) -> str | None:
        """What to do instead, where others offer the path and this server does not."""
        return next((advice for pattern, advice in _NOT_OFFERED if pattern.fullmatch(path)), None)

    def problem(self, method: str, path: str) -> Problem:
        """404 or 405 for a request that no operation takes."""
        tidy = _tidy(path)
        found = self.refusal(method, tidy)
        if found is not None and (found.status == 404 or tidy == path):
            return found
        near = self._near(tidy)
        return Problem(404, "not_found", NOTHING if near is None else f"{NOTHING}; {self._shown(near)} may be meant")

    def refusal(self, method: str, path: str) -> Problem | None:
        """The same where it is certain that the path is no name of a model; None where it may be one."""
        advice = self.instead(path)
        if advice is not None:
            return Problem(404, "not_found", f"{NOTHING}: {advice}")
        known = self._table.find(path)
        if known is None:
            return None
        if known == _OF_MODEL and path.count("/") > known.count("/"):
            meant = get_close_matches("/" + path.rpartition("/")[2].lower()[:_LONGEST], self._ends, 1, _NEAR)
            if meant:
                message = f"{NOTHING}; {self._shown(self._ends[meant[0]])} may be meant"
                return Problem(404, "not_found", message)
        allowed = self._methods[known]
        if method in allowed:
            return None
        message = f"This path takes {' and '.join(allowed)} only"
        return Problem(405, "method_not_allowed", message, headers={"Allow": ", ".join(allowed)})

    def _near(self, path: str) -> str | None:
        """The path of the contract that another one is a slip of."""
        known = self._table.find(path)
        if known is not None or len(path) > _LONGEST:
            return known
        lower = path.lower()
        guesses = [guess for guess in (lower, "/v1" + lower) if guess in self._plain]
        guesses += get_close_matches(lower, self._plain, 1, _NEAR)
        return self._plain[guesses[0]] if guesses else None

    def _shown(self, known: str) -> str:
        return f"{self._methods[known][0]} {known}"


def _tidy(path: str) -> str:
    """A path without empty parts."""
    return "/" + "/".join(part for part in path.split("/") if part)
