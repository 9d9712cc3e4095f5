"""A planted fault for every law that is written by hand: what a server does that has it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from mock_transport import Fault, Json, parsed

from tools.conform.wire import Got, Sent

Change = Callable[[Json, Json], None]


def _status(old: int, new: int) -> Fault:
    return Fault(raw=lambda sent, got: replace(got, status=new) if got.status == old else got)


def _error(**members: Any) -> Fault:
    def raw(sent: Sent, got: Got) -> Got:
        if got.status < 400:
            return got
        return replace(got, body=json.dumps({**json.loads(got.body), **members}).encode())

    return Fault(raw=raw)


def _headers(name: str, value: str | None, status: int | None = None) -> Fault:
    def raw(sent: Sent, got: Got) -> Got:
        if status is not None and got.status != status:
            return got
        kept = {key: old for key, old in got.headers.items() if key != name}
        return replace(got, headers={**kept, **({name: value} if value is not None else {})})

    return Fault(raw=raw)


def _drop(*names: str, when: Callable[[Json], bool] = lambda given: True) -> Fault:
    return Fault(request=lambda given: {k: v for k, v in given.items() if k not in names} if when(given) else None)


def _put(when: Callable[[Json], bool] = lambda given: True, **members: Any) -> Fault:
    return Fault(request=lambda given: {**given, **members} if when(given) else None)


def _unseeded(when: Callable[[Json], bool] = lambda given: True, **members: Any) -> Fault:
    """Every request gets a seed of its own."""
    seeds = itertools.count(1)
    return Fault(request=lambda given: {**given, **members, "seed": next(seeds)} if when(given) else None)


def _choices(change: Change) -> Fault:
    """In every choice of whole answers and events: request, choice."""

    def each(given: Json, answer: Json) -> None:
        for choice in answer.get("choices", []):
            change(given, choice)

    return Fault(answer=each, event=each)


def _whole(change: Change) -> Fault:
    return Fault(answer=change)


def _text(given: Json, choice: Json) -> None:
    """Another text."""
    if "text" in choice:
        choice["text"] += "x"
    else:
        inner = choice.get("delta") or choice["message"]
        inner["content"] = (inner.get("content") or "") + "x"


def _text_when(when: Callable[[Json], bool]) -> Fault:
    return _choices(lambda given, choice: _text(given, choice) if when(given) else None)


def _event_text(given: Json, event: Json) -> None:
    for choice in event.get("choices", []):
        _text(given, choice)


def _usage(name: str, more: int, when: Callable[[Json], bool] = lambda given: True) -> Fault:
    def change(given: Json, answer: Json) -> None:
        if answer.get("usage") and when(given):
            answer["usage"][name] += more

    return Fault(answer=change, event=change)


def _entries(change: Callable[[Json, list[Json]], None]) -> Fault:
    """The tokens of chat logprobs."""

    def each(given: Json, choice: Json) -> None:
        if (choice.get("logprobs") or {}).get("content"):
            change(given, choice["logprobs"]["content"])

    return _choices(each)


def _lists(change: Callable[[Json, Json], None]) -> Fault:
    """The four lists of completions logprobs."""

    def each(given: Json, choice: Json) -> None:
        if "tokens" in (choice.get("logprobs") or {}):
            change(given, choice["logprobs"])

    return _choices(each)


def _both(chat: Fault, completions: Fault) -> dict[str, Fault]:
    return {"chat": chat, "completions": completions}


def _fewer(given: Json, entries: list[Json]) -> None:
    for entry in entries:
        entry["top_logprobs"] = entry["top_logprobs"][:-1]


def _fewer_lists(given: Json, logprobs: Json) -> None:
    for place, top in enumerate(logprobs["top_logprobs"]):
        logprobs["top_logprobs"][place] = dict(list(top.items())[1 if given["temperature"] else 0 : -1 or None])


def _turned(given: Json, entries: list[Json]) -> None:
    for entry in entries:
        entry["top_logprobs"].reverse()


def _turned_lists(given: Json, logprobs: Json) -> None:
    for place, top in enumerate(logprobs["top_logprobs"]):
        logprobs["top_logprobs"][place] = dict(list(top.items())[::-1])


def _lowered(by: float, when: Callable[[Json], bool] = lambda given: True) -> dict[str, Fault]:
    def chat(given: Json, entries: list[Json]) -> None:
        for entry in entries if when(given) else ():
            for one in (entry, *entry["top_logprobs"]):
                one["logprob"] -= by

    def completions(given: Json, logprobs: Json) -> None:
        if when(given):
            logprobs["token_logprobs"] = [value - by for value in logprobs["token_logprobs"]]
            logprobs["top_logprobs"] = [{k: v - by for k, v in top.items()} for top in logprobs["top_logprobs"]]

    return _both(_entries(chat), _lists(completions))


def _chosen_lowered(given: Json, entries: list[Json]) -> None:
    for entry in entries:
        entry["logprob"] -= 5


def _chosen_lists(given: Json, logprobs: Json) -> None:
    logprobs["token_logprobs"] = [value - 5 for value in logprobs["token_logprobs"]]


def _first_text(given: Json, answer: Json) -> None:
    """Every choice has the first one's text."""
    first = answer["choices"][0]
    for choice in answer["choices"]:
        choice.update({name: first[name] for name in ("text", "message") if name in first})


def _reverse(given: Json, answer: Json) -> None:
    answer["choices"].reverse()
    for index, choice in enumerate(answer["choices"]):
        choice["index"] = index


def _set_in(choice: Json, **members: Any) -> None:
    choice.update({name: value for name, value in members.items() if choice.get(name) is not None})


def _calls(change: Callable[[list[Json]], Any]) -> Fault:
    def each(given: Json, choice: Json) -> None:
        message = choice.get("message")
        if message is not None:
            message["tool_calls"] = change(message.get("tool_calls") or [])

    return _choices(each)


def _renamed(calls: list[Json]) -> list[Json]:
    for call in calls:
        call["function"]["name"] = "set_colour" if call["function"]["name"] == "set_light" else "set_light"
    return calls


def _header_id(sent: Sent, got: Got) -> Got:
    given = dict(sent.headers).get("req-id")
    if given is None or got.status != 200 or got.kind != "application/json":
        return got
    return replace(got, body=json.dumps({**json.loads(got.body), "id": given or ""}).encode())


def _streams_errors(sent: Sent, got: Got) -> Got:
    if got.status == 422 and (parsed(sent.body) or {}).get("stream"):
        return replace(got, headers={**got.headers, "content-type": "text/event-stream"})
    return got


def _prompt_has_stop(given: Json) -> bool:
    stops = given.get("stop")
    return isinstance(stops, list) and any(
        stop in json.dumps(given.get("prompt") or given["messages"]) for stop in stops
    )


def _dropped_if_space(sent: Sent, got: Got) -> Got:
    return replace(got, status=422) if sent.body.startswith(b" ") else got


def _n_refused(sent: Sent, got: Got) -> Got:
    return replace(got, status=500) if (parsed(sent.body) or {}).get("n") == 128 else got


def _unless_answered(sent: Sent, got: Got) -> Got:
    return replace(got, status=422) if got.status == 200 else got


def _add_call(given: Json, choice: Json) -> None:
    if given.get("tool_choice") == "none" and choice.get("message"):
        choice["message"]["tool_calls"] = [{"function": {"name": "set_light", "arguments": "{}"}, "id": "c"}]


def _cached(given: Json, answer: Json) -> None:
    if answer.get("usage"):
        answer["usage"]["prompt_tokens_details"]["cached_tokens"] = answer["usage"]["prompt_tokens"] + 1


def _all_cached(given: Json, answer: Json) -> None:
    if answer.get("usage"):
        answer["usage"]["prompt_tokens_details"]["cached_tokens"] = answer["usage"]["prompt_tokens"]


def _by_sum(given: Json, answer: Json) -> None:
    if given.get("best_of", 1) > given.get("n", 1) and answer["choices"][0]["logprobs"]:
        found = sorted(answer["choices"], key=_sum, reverse=True)
        answer["choices"] = [{**choice, "index": index} for index, choice in enumerate(found)]


def _sum(choice: Json) -> float:
    logprobs = choice["logprobs"]
    return sum(logprobs.get("token_logprobs") or [token["logprob"] for token in logprobs.get("content") or ()])


def _lengthened(given: Json) -> Json:
    return {**given, "max_tokens": given["max_tokens"] + 1} if isinstance(given.get("max_tokens"), int) else given


def _ids_wrapped(given: Json) -> Json:
    ids = given.get("stop_token_ids")
    return {**given, "stop_token_ids": [number % 2**32 for number in ids]} if ids else given


def _has(name: str) -> Callable[[Json], bool]:
    return lambda given: given.get(name) is not None


def _several(given: Json) -> bool:
    return bool(given.get("n")) and given["n"] > 1


def _streams(given: Json) -> bool:
    return bool(given.get("stream"))


_LONGER: Final = Fault(request=_lengthened)
_ACCEPTS: Final = _status(422, 200)
_EVENTS: Final = Fault(event=_event_text)


def _half_failed(sent: Sent, got: Got) -> Got:
    """A failed stream without its end mark."""
    body = got.body.replace(b"data: [DONE]\n\n", b"") if b'"error_type"' in got.body else got.body
    return replace(got, body=body)


PLANTED: Final[dict[str, Fault | dict[str, Fault]]] = {
    "service.basic": Fault(raw=_unless_answered),
    "service.unknown-path": _status(404, 400),
    "service.method": _headers("allow", None),
    "service.models": _status(200, 201),
    "service.unknown-model": _put(model="mock"),
    "service.unknown-model-named": _error(param="messages"),
    "service.stream-errors": Fault(raw=_streams_errors),
    "service.req-id": Fault(event=lambda given, event: event.update(id="other")),
    "service.unfit-req-id": Fault(raw=_header_id),
    "service.own-ids": _whole(lambda given, answer: answer.update(id="one")),
    "service.model-echo": _whole(lambda given, answer: answer.update(model="another")),
    "service.created": _whole(lambda given, answer: answer.update(created=answer["created"] * 1000)),
    "service.parts": _text_when(lambda given: isinstance(given["messages"][0]["content"], list)),
    "service.unknown-members": _text_when(_has("foo")),
    "service.unknown-named": _headers("x-ignored-parameters", None),
    "service.nulls": _text_when(lambda given: given.get("top_k", 1) is None),
    "bytes.syntax": _ACCEPTS, "bytes.object": _ACCEPTS, "bytes.duplicates": _ACCEPTS, "bytes.nan": _ACCEPTS,
    "bytes.utf8": _ACCEPTS, "bytes.surrogates": _ACCEPTS, "bytes.depth": _ACCEPTS, "bytes.huge-numbers": _ACCEPTS,
    "bytes.error-body": _error(code=""),
    "bytes.taken": Fault(raw=_dropped_if_space),
    "bytes.media-type": _status(415, 422),
    "bytes.media-type-body": _error(code="json_invalid"),
    "limits.vocabulary": _status(424, 422),
    "limits.choices": Fault(raw=_n_refused),
    "limits.body": _status(413, 422),
    "limits.prompt": _status(424, 422),
    "limits.room": _usage("completion_tokens", 1),
    "length.exact": _LONGER, "length.exact-choices": _LONGER, "length.bound": _LONGER,
    "length.max-completion-tokens": _drop("max_completion_tokens"),
    "length.end": _choices(lambda given, choice: _set_in(choice,
        finish_reason="length") if given["max_tokens"] < 200 else None),
    "length.ignore-eos": _drop("ignore_eos"),
    "length.special-shown": _drop("skip_special_tokens"),
    "length.end-hidden": _text_when(lambda given: given.get("skip_special_tokens") is False),
    "same.greedy": _EVENTS, "same.seeded": _EVENTS, "same.choices": _EVENTS, "same.logprobs": _EVENTS,
    "same.beams": _EVENTS, "same.tools": _EVENTS, "same.form": _EVENTS,
    "same.repeated": _unseeded(temperature=1.5),
    "seed.repeats": _unseeded(when=lambda given: (given.get("seed") or 0) >= 2**63),
    "seed.choices-repeat": _unseeded(),
    "seed.differs": Fault(request=lambda given: {**given,
        "seed": given["seed"] % 2**63} if given.get("seed") else None),
    "seed.choices-differ": Fault(request=lambda given: {**given, "temperature": 1e-6}),
    "seed.default-temperature": _put(when=lambda given: "temperature" not in given, temperature=0),
    "seed.zero": _unseeded(when=lambda given: given.get("seed") == 0),
    "stop.cut": _drop("stop"),
    "stop.included": _drop("include_stop_str_in_output"),
    "stop.list": Fault(request=lambda given: {**given, "stop": given["stop"][:1]} if given.get("stop") else None),
    "stop.flushed": _put(when=lambda given: _has("stop")(given), max_tokens=39),
    "stop.prompt": _put(when=_prompt_has_stop, max_tokens=1),
    "stop.last-token": _choices(lambda given, choice: _set_in(choice, finish_reason="length")),
    "stop.choices": _drop("stop", when=_several),
    "stop-ids.first": _drop("stop_token_ids"),
    "stop-ids.named": _choices(lambda given, choice: choice.update(stop_reason=None)),
    "stop-ids.included": _drop("include_stop_str_in_output"),
    "stop-ids.dropped": Fault(request=_ids_wrapped),
    "stop-ids.second": _put(when=_has("stop_token_ids"), stop_token_ids=list(range(160_000))),
    "choices.n": _drop("n", when=_streams),
    "choices.best-of": _drop("best_of"),
    "choices.ranked": _whole(_by_sum),
    "choices.greedy": _put(when=_several, temperature=1.0),
    "beams.width": _put(when=_has("use_beam_search"), n=1),
    "beams.order": _whole(_reverse),
    "beams.fixed": _text_when(_has("seed")),
    "logprobs.present": _both(_entries(lambda given, entries: entries.pop() and None), _lists(
        lambda given, logprobs: [values.pop() for values in logprobs.values()] and None)),
    "logprobs.number": _both(_entries(_fewer), _lists(_fewer_lists)),
    "logprobs.number-drawn": _both(_entries(_fewer), _lists(_fewer_lists)),
    "logprobs.order": _both(_entries(_turned), _lists(_turned_lists)),
    "logprobs.greedy": _both(_entries(_chosen_lowered), _lists(_chosen_lists)),
    "logprobs.spell": _both(
        _entries(lambda given, entries: entries[0].update(bytes=[0])),
        _lists(lambda given, logprobs: logprobs["tokens"].__setitem__(0, "?")),
    ),
    "logprobs.offsets": _lists(lambda given,
        logprobs: logprobs.update(text_offset=[1 + o for o in logprobs["text_offset"]])),
    "logprobs.raw": _lowered(0.5, when=lambda given: given.get("temperature") == 0.5),
    "logprobs.raw-later": _lowered(0.5, when=_has("presence_penalty")),
    "logprobs.turned-on": _drop("top_logprobs", when=lambda given: given.get("logprobs") is None),
    "sampling.greedy-fixed": _put(when=_has("seed"), temperature=1.5),
    "sampling.first-token": _text_when(_has("presence_penalty")),
    "sampling.defaults": _text_when(_has("best_of")),
    "sampling.top-k-off": _text_when(lambda given: given.get("top_k", 0) > 0),
    "usage.prompt-alike": _usage("prompt_tokens", 1, _streams),
    "usage.prompt-grows": Fault(answer=lambda given, answer: answer["usage"].update(prompt_tokens=5)),
    "usage.prompt-exact": _usage("prompt_tokens", 1), "usage.prompt-ids": _usage("prompt_tokens", 1),
    "usage.prompt-template": _usage("prompt_tokens", 1, _has("chat_template")),
    "usage.choices": _usage("completion_tokens", 1, lambda given: _several(given) and _streams(given)),
    "usage.totals": _usage("total_tokens", 1),
    "usage.cached": _whole(_cached), "usage.cached-new": _whole(_all_cached),
    "faults.in-stream": Fault(raw=_half_failed), "faults.whole": _status(500, 502),
    "faults.statuses": _error(error_type="Error"), "faults.retry-after": _headers("retry-after", None),
    "calls.named": _calls(_renamed), "calls.required": _drop("tools", "tool_choice"),
    "calls.none": _choices(_add_call), "calls.single": _calls(lambda calls: calls * 2),
    "calls.empty": _calls(lambda calls: calls or None), "calls.schema": _drop("response_format"),
}  # fmt: skip
"""By the law's id without its endpoint; by endpoint where the two have other forms."""

ON_TOY: Final = frozenset(
    {
        "beams.one", "seed.absent", "sampling.narrow", "sampling.top-k", "sampling.top-p", "sampling.temperature",
        "sampling.presence", "sampling.frequency", "sampling.penalties", "sampling.prompt",
    }
)  # fmt: skip
"""Laws about what is drawn: their faults are planted in a toy model."""
