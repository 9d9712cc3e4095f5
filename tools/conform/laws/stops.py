"""Stop strings: cut exactly where they first appear, wherever tokens end, and nothing that only begins like one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from tools.conform.asking import Ask
from tools.conform.law import Finding, Law, Skip, both
from tools.conform.replies import Reply
from tools.conform.sides import COMPLETIONS, Side

_TOKENS: Final = 40
_NEVER: Final = "\u2603\u2604"
"""Ends a stop string that the text begins like and never completes."""


@dataclass(frozen=True)
class Base:
    """A greedy answer that is long enough to be stopped inside, and where its tokens begin if that is known."""

    reply: Reply
    text: str
    starts: tuple[int, ...]


def base(ask: Ask, side: Side) -> Base:
    """Raises Skip where the model wrote too little, or not the same twice."""
    fields: dict[str, Any] = {"temperature": 0, "max_tokens": _TOKENS}
    if ask.lacks(side, "ignore_eos") is None:
        fields["ignore_eos"] = True
    reply = ask.reply(side, **fields)
    if ask.reply(side, **fields, again=1).texts != reply.texts:
        raise Skip("greedy answers vary, so nothing can be said of where they stop (law same.repeated)")
    text = reply.only.text
    if len(text) < 12:
        raise Skip("the model wrote less than 12 characters")
    starts: list[int] = []
    if ask.lacks(side, "logprobs") is None:
        shown, place = ask.reply(side, **fields, **side.logprobs(0)).only, 0
        for token in shown.tokens:
            if token.offset is None and not text.startswith(token.text, place):
                break  # a token that is no whole character: where the next one begins is not known
            starts.append(place if token.offset is None else token.offset)
            place += len(token.text)
    return Base(reply, text, tuple(starts))


def _stopped(ask: Ask, side: Side, stop: Any, **fields: Any) -> Reply:
    more = {"ignore_eos": True} if ask.lacks(side, "ignore_eos") is None else {}
    return ask.reply(side, **{"temperature": 0, "max_tokens": _TOKENS, "stop": stop, **more, **fields})


def _places(found: Base) -> list[str]:
    """Stop strings inside the text: one character, three, the very first, the last, and across token boundaries."""
    text = found.text
    made = [text[4:7], text[6:7], text[:1], text[-2:], text[2:11]]
    for start in found.starts[2:12:3]:
        made.append(text[start - 1 : start + 1])
    for before, after in zip(found.starts[3:], found.starts[5:], strict=False):
        if after - before >= 3:  # the end of one token, a whole token, the beginning of a third
            made.append(text[before - 1 : after + 1])
            break
    return list(dict.fromkeys(stop for stop in made if stop))


def _differs(reply: Reply, stop: str, expected: str, side: Side) -> str | None:
    choice = reply.only
    if choice.text != expected:
        return f"stop {stop!r} must leave {expected[-40:]!r} at the end, not {choice.text[-40:]!r}"
    if choice.finish != "stop":
        return f"an answer that ends at stop {stop!r} has finish_reason {choice.finish!r}"
    if side is COMPLETIONS and choice.stop_reason != stop:
        return f"stop_reason of an answer that ends at stop {stop!r} is {choice.stop_reason!r}"
    return None


def _cut(ask: Ask, side: Side) -> Iterator[Finding]:
    found = base(ask, side)
    for place, stop in enumerate(_places(found)):
        expected = found.text[: found.text.index(stop)]
        given: Any = stop if place % 2 else [stop]
        for fields in ({}, {"stream": True}):
            reply = _stopped(ask, side, given, **fields)
            if (wrong := _differs(reply, stop, expected, side)) is not None:
                yield Finding(wrong, (found.reply.exchange, reply.exchange))


def _included(ask: Ask, side: Side) -> Iterator[Finding]:
    found = base(ask, side)
    for stop in _places(found)[:4]:
        expected = found.text[: found.text.index(stop) + len(stop)]
        for fields in ({}, {"stream": True}):
            reply = _stopped(ask, side, [stop], include_stop_str_in_output=True, **fields)
            if (wrong := _differs(reply, stop, expected, side)) is not None:
                yield Finding(f"with include_stop_str_in_output {wrong}", (found.reply.exchange, reply.exchange))
    reply = ask.reply(
        side, temperature=0, max_tokens=_TOKENS, include_stop_str_in_output=True, **_on(ask, side, "ignore_eos")
    )
    if reply.texts != found.reply.texts:
        yield Finding(
            "include_stop_str_in_output without a stop changes the text", (found.reply.exchange, reply.exchange)
        )


def _list(ask: Ask, side: Side) -> Iterator[Finding]:
    found = base(ask, side)
    text = found.text
    late, early = text[8:11], text[3:5]
    if text.index(late) <= text.index(early):
        raise Skip("the text repeats itself from its beginning")
    for stops in ([late, early], [early, late], [_NEVER, early], [_NEVER + "a", _NEVER + "b", late]):
        first = min((stop for stop in stops if stop in text), key=text.index)
        for fields in ({}, {"stream": True}):
            reply = _stopped(ask, side, stops, **fields)
            if (wrong := _differs(reply, first, text[: text.index(first)], side)) is not None:
                yield Finding(f"of the list {stops} {wrong}", (found.reply.exchange, reply.exchange))


def _flushed(ask: Ask, side: Side) -> Iterator[Finding]:
    found = base(ask, side)
    text = found.text
    for stop in (text[5:9] + _NEVER, text[-3:] + _NEVER, text[:2] + _NEVER, _NEVER):
        for fields in ({}, {"stream": True}):
            reply = _stopped(ask, side, [stop], **fields)
            choice = reply.only
            if (choice.text, choice.finish) != (text, found.reply.only.finish) or choice.stop_reason is not None:
                yield Finding(
                    f"stop {stop!r} does not appear and must change nothing, but the answer ends with "
                    f"{choice.text[-30:]!r} and {choice.finish!r}, not {text[-30:]!r} and {found.reply.only.finish!r}",
                    (found.reply.exchange, reply.exchange),
                )


def _in_prompt(ask: Ask, side: Side) -> Iterator[Finding]:
    stop = "xylophone"
    fields = {
        **side.body(ask.target.model, f"{stop} {stop}. Tell me about rivers."),
        "temperature": 0,
        "max_tokens": 12,
    }
    plain = ask.reply(side, **fields)
    if stop in plain.texts[0]:
        raise Skip("the model repeats the prompt's word")
    stopped = ask.reply(side, **fields, stop=[stop])
    if plain.texts != stopped.texts:
        yield Finding("a stop string in the prompt changes the answer", (plain.exchange, stopped.exchange))


def _last(ask: Ask, side: Side) -> Iterator[Finding]:
    found = base(ask, side)
    if not found.starts:
        raise Skip("nothing shows where tokens begin")
    place, start = _completed(found)
    stop = found.text[start : found.starts[place + 1]]
    for fields in ({}, {"stream": True}):
        reply = _stopped(ask, side, [stop], max_tokens=place + 1, **fields)
        if (wrong := _differs(reply, stop, found.text[:start], side)) is not None:
            yield Finding(f"completed by the last of max_tokens {place + 1}, {wrong}", (reply.exchange,))
        if reply.completion_tokens != place + 1:
            yield Finding(
                f"the token that completes the stop string is the {place + 1}th, {reply.completion_tokens} are counted",
                (reply.exchange,),
            )


def _completed(found: Base) -> tuple[int, int]:
    """A token that completes a text which does not appear before: its place, and where that text begins.

    Raises Skip where there is none.
    """
    for back in (2, 4, 8):
        for place in range(2, len(found.starts) - 1):
            start, end = found.starts[place] - back, found.starts[place + 1]
            if start >= 0 and end - start > back and found.text.index(found.text[start:end]) == start:
                return place, start
    raise Skip("the text repeats itself from its beginning")


def _choices(ask: Ask, side: Side) -> Iterator[Finding]:
    fields: dict[str, Any] = {"temperature": 1.0, "seed": 5, "n": 3, "max_tokens": 24}
    plain = ask.reply(side, **fields)
    texts = {choice.index: choice.text for choice in plain.choices}
    stop = next((text[5:7] for text in texts.values() if len(text) >= 8), None)
    if stop is None:
        raise Skip("the model wrote less than 8 characters")
    for more in ({}, {"stream": True}):
        reply = ask.reply(side, **fields, stop=[stop], **more)
        for choice in reply.choices:
            due = texts.get(choice.index, "")
            due = due[: due.index(stop)] if stop in due else due
            if choice.text != due:
                yield Finding(
                    f"choice {choice.index} of three with stop {stop!r} is {choice.text[-40:]!r}, not {due[-40:]!r}",
                    (plain.exchange, reply.exchange),
                )


def _on(ask: Ask, side: Side, feature: str) -> dict[str, Any]:
    return {feature: True} if ask.lacks(side, feature) is None else {}


_NEEDS: Final = ("greedy", "stop", "stream")
LAWS: Final[list[Law]] = [
    *both("stop.cut", "The text ends where the stop string first appears, also across tokens and in pieces of streams.",
          "stop", _cut, _NEEDS),
    *both("stop.included", "include_stop_str_in_output keeps the stop string, and does nothing without one.",
          "include_stop_str_in_output", _included, (*_NEEDS, "include_stop")),
    *both("stop.list", "Of several stop strings the one that appears first ends the answer.", "stop", _list, _NEEDS),
    *both("stop.flushed", "Text that only begins like a stop string is sent, at the end too.", "stop", _flushed,
        _NEEDS),
    *both("stop.prompt", "A stop string in the prompt stops nothing.", "stop", _in_prompt, ("greedy", "stop")),
    *both("stop.last-token", "A stop string that the last token allowed completes gives stop, not length.",
          "stop, finish_reason", _last, (*_NEEDS, "logprobs")),
    *both("stop.choices", "Each choice stops by itself.", "stop, n", _choices, ("stop", "seed", "n", "stream")),
]  # fmt: skip
