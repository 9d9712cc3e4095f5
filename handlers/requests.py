"""From a validated body and the token ids of its prompt to the engine's Request."""

from __future__ import annotations

from collections.abc import Sequence

from engine.types import AnswerForm, MediaItem, Request, ThinkingBudget
from handlers.constraints import Held
from handlers.sampling import AnyRequest, Choices, most_tokens, sampling_params, stop_strings
from handlers.service import Service


def engine_request(
    service: Service,
    body: AnyRequest,
    wanted: Choices,
    prompt_ids: Sequence[int],
    *,
    logprobs: int | None,
    form: AnswerForm | None,
    held: Held,
    thinking_budget: ThinkingBudget | None = None,
    continues_prompt: bool = False,
    media: tuple[MediaItem, ...] = (),
) -> Request:
    """The request with every default filled in and the deployment's limits applied.

    Raises:
        Problem: 503 while no model is there.
    """
    info, limits = service.ready()
    sampling = sampling_params(
        body,
        wanted,
        logprobs=logprobs,
        max_tokens=limits.output_tokens(len(prompt_ids), most_tokens(body)),
        vocab_size=info.vocab_size,
        model=service.defaults,
    )
    return Request(
        request_id=service.engine_id(),
        prompt_ids=tuple(prompt_ids),
        sampling=sampling,
        stop=stop_strings(body),
        include_stop_str_in_output=bool(body.include_stop_str_in_output),
        skip_special_tokens=body.skip_special_tokens is not False,
        continues_prompt=continues_prompt,
        forced_text=held.text,
        grammar=None if service.forces_tool_calls else held.grammar,
        thinking_budget=thinking_budget,
        form=form,
        adapter=service.adapter_of(body.model),
        media=media,
    )
