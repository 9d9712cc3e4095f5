"""What a request asks of its answer: all that the laws between the two need to know."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass

from generated.base import ContractModel
from generated.models import ChatCompletionRequest, CompletionRequest
from generated.operations import Wire
from handlers.messages import tools_in_use
from handlers.record import usable_id
from handlers.sampling import choices, most_tokens, stop_strings


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as its answer has to obey it."""

    wire: Wire
    """The operation."""
    sure: bool = False
    """Whether the members below are known. Laws that need them are not judged where the request itself is at fault."""
    id: str | None = None
    """The req-id, where it is usable."""
    model: str = ""
    stream: bool = False
    beams: bool = False
    choices: int = 1
    ranked: bool = False
    """Choices are sorted by mean logprob."""
    max_tokens: int | None = None
    top: int | None = None
    """Candidates for each token; None where logprobs were not asked for."""
    stop: tuple[str, ...] = ()
    stop_token_ids: frozenset[int] = frozenset()
    include_stop: bool = False
    tools: frozenset[str] = frozenset()
    """Names that may be called; none where no tools are in use."""
    include_usage: bool = False
    json_answer: bool = False
    """The text is held to JSON."""

    @property
    def chat(self) -> bool:
        """Whether this is chat; else completions, or an operation without choices."""
        return self.wire.request is ChatCompletionRequest

    @property
    def generates(self) -> bool:
        """Whether the answer has choices."""
        return self.wire.request in (ChatCompletionRequest, CompletionRequest)


def asked(wire: Wire, body: ContractModel | None, headers: Mapping[str, str]) -> Asked:
    """Read a request that the contract accepts; ``body``: its validated and normalised model.

    ``headers``: by name in lower case.
    """
    given_id = headers.get("req-id")
    own_id = usable_id(given_id.encode("latin-1", "replace")) if given_id is not None else None
    if not isinstance(body, ChatCompletionRequest | CompletionRequest):
        return Asked(wire, sure=True, id=own_id)
    wanted = choices(body, sys.maxsize)
    form, options = body.response_format, body.stream_options
    return Asked(
        wire,
        sure=True,
        id=own_id,
        model=body.model,
        stream=bool(body.stream),
        beams=wanted.beams,
        choices=wanted.count,
        ranked=wanted.ranked,
        max_tokens=most_tokens(body),
        top=_candidates(body),
        stop=stop_strings(body),
        stop_token_ids=frozenset(body.stop_token_ids or ()),
        include_stop=bool(body.include_stop_str_in_output),
        tools=_callable(body),
        include_usage=options is not None and bool(options.include_usage),
        json_answer=form is not None and form.type != "text",
    )


def _callable(body: ChatCompletionRequest | CompletionRequest) -> frozenset[str]:
    if isinstance(body, CompletionRequest) or not tools_in_use(body):
        return frozenset()
    return frozenset(tool.function.name for tool in body.tools or ())


def _candidates(body: ChatCompletionRequest | CompletionRequest) -> int | None:
    if isinstance(body, CompletionRequest):
        return body.logprobs
    return (body.top_logprobs or 0) if body.logprobs else None
