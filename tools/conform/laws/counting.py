"""Usage: what is counted is what was read and written, alike whole and streamed."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any, Final

from tools.conform.asking import Ask
from tools.conform.law import Finding, Law, Skip, both
from tools.conform.replies import Reply
from tools.conform.sides import CHAT, COMPLETIONS, Side

_TEXT: Final = "The quick brown fox jumps over the lazy dog. 你好, 世界! 42"
_ALIKE_TOKENS: Final = 16
"""So many tokens of unlike texts may be alike by chance, in the cache's eyes."""


def _prompt_alike(ask: Ask, side: Side) -> Iterator[Finding]:
    variants: list[dict[str, Any]] = [{"stream": True}, {"max_tokens": 1}]
    variants += (
        [{"n": 3, "temperature": 1.0}, {"n": 3, "temperature": 1.0, "stream": True}] if _has(ask, side, "n") else []
    )
    variants += [{"use_beam_search": True, "n": 2, "temperature": None}] if _has(ask, side, "beams") else []
    variants += [side.logprobs(1)] if _has(ask, side, "logprobs") else []
    plain = ask.reply(side, temperature=0, max_tokens=4)
    for fields in variants:
        other = ask.reply(side, **{"temperature": 0, "max_tokens": 4, **fields})
        if other.prompt_tokens != plain.prompt_tokens:
            yield Finding(
                f"the same prompt has {plain.prompt_tokens} tokens, with {fields} {other.prompt_tokens}",
                (plain.exchange, other.exchange),
            )


def _has(ask: Ask, side: Side, feature: str) -> bool:
    return ask.lacks(side, feature) is None


def _prompt_grows(ask: Ask, side: Side) -> Iterator[Finding]:
    replies = [
        ask.reply(side, **side.body(ask.target.model, "hello" + " word" * more), temperature=0, max_tokens=1)
        for more in (0, 1, 8, 40)
    ]
    counts = [reply.prompt_tokens for reply in replies]
    if counts != sorted(set(counts)):
        yield Finding(f"prompts of 1, 2, 9 and 41 words have {counts} tokens", tuple(r.exchange for r in replies))


def _prompt_exact(ask: Ask, side: Side) -> Iterator[Finding]:
    for text in (_TEXT, "a", "word " * 20):
        reply = ask.reply(side, prompt=text, max_tokens=1)
        counted = ask.count_tokens(text)
        if reply.prompt_tokens != counted:
            yield Finding(f"prompt_tokens is {reply.prompt_tokens}, /v1/tokenizer counts {counted}", (reply.exchange,))


def _ids_exact(ask: Ask, side: Side) -> Iterator[Finding]:
    for ids in ([5], [5, 6, 7], [9] * 33):
        for fields in ({}, {"stream": True}):
            reply = ask.reply(side, prompt=ids, max_tokens=1, **fields)
            if reply.prompt_tokens != len(ids):
                yield Finding(f"a prompt of {len(ids)} ids has {reply.prompt_tokens} prompt_tokens", (reply.exchange,))


def _template_exact(ask: Ask, side: Side) -> Iterator[Finding]:
    """A template that is the content alone makes chat count what completions counts, but for a start token."""
    bare = "{{ messages[0].content }}"
    chat = ask.reply(CHAT, **CHAT.body(ask.target.model, _TEXT), max_tokens=1, chat_template=bare)
    plain = ask.reply(COMPLETIONS, prompt=_TEXT, max_tokens=1)
    if not plain.prompt_tokens - 1 <= chat.prompt_tokens <= plain.prompt_tokens:
        yield Finding(
            f"the same text has {chat.prompt_tokens} prompt_tokens on chat and {plain.prompt_tokens} on completions",
            (chat.exchange, plain.exchange),
        )


def _sums(ask: Ask, side: Side) -> Iterator[Finding]:
    """Logprobs show the tokens of each choice; a whole answer counts all, a stream's events each their own."""
    fields: dict[str, Any] = {"n": 3, "temperature": 1.0, "seed": 6, "max_tokens": 8, **side.logprobs(0)}
    whole = ask.reply(side, **fields)
    shown = [len(choice.tokens) for choice in whole.choices]
    ended = sum(choice.finish == "stop" for choice in whole.choices)
    if not sum(shown) <= whole.completion_tokens <= sum(shown) + ended:
        yield Finding(f"choices of {shown} tokens count {whole.completion_tokens}", (whole.exchange,))
    stream = ask.reply(side, **fields, stream=True)
    for choice in stream.choices:
        if choice.usage is None:
            raise Skip("usage of the choices comes together")
        counted, tokens = choice.usage.get("completion_tokens"), len(choice.tokens)
        if counted != tokens and not (choice.finish == "stop" and counted == tokens + 1):
            yield Finding(f"choice {choice.index} has {tokens} tokens and counts {counted}", (stream.exchange,))


def _totals(ask: Ask, side: Side) -> Iterator[Finding]:
    more: dict[str, Any] = {"n": 2, "temperature": 1.0} if _has(ask, side, "n") else {}
    for fields in ({}, {"stream": True}, more, {**more, "stream": True}):
        reply = ask.reply(side, **{"temperature": 0, "max_tokens": 5, **fields})
        for usage in _usages(reply):
            prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens")
            details = usage.get("prompt_tokens_details") or {}
            cached = details.get("cached_tokens") if isinstance(details, dict) else None
            if (
                type(prompt) is not int
                or type(completion) is not int
                or usage.get("total_tokens") != prompt + completion
            ):
                yield Finding(f"usage does not add up: {usage}"[:300], (reply.exchange,))
            elif type(cached) is int and not 0 <= cached <= prompt:
                yield Finding(f"{cached} of {prompt} prompt tokens are cached", (reply.exchange,))


def _usages(reply: Reply) -> list[dict[str, Any]]:
    own = [choice.usage for choice in reply.choices if choice.usage is not None]
    return own or [reply.usage or {}]


def _cached(ask: Ask, side: Side) -> Iterator[Finding]:
    """A long prompt again and again, longer and shorter: cached tokens are never more than the prompt's."""
    for again, words in enumerate((300, 300, 300, 260, 340)):
        text = "cache " * words
        reply = ask.reply(side, again=again, **side.body(ask.target.model, text), temperature=0, max_tokens=2)
        details = (reply.usage or {}).get("prompt_tokens_details") or {}
        cached = details.get("cached_tokens") if isinstance(details, dict) else None
        if type(cached) is int and not 0 <= cached <= reply.prompt_tokens:
            yield Finding(
                f"{cached} of {reply.prompt_tokens} prompt tokens are cached",
                (reply.exchange,),
            )


def _never_seen(ask: Ask, side: Side) -> Iterator[Finding]:
    """Two prompts of fresh words share with earlier ones what a template puts before them, and no more."""
    found = []
    for words in (4, 120):
        text = " ".join(secrets.token_hex(3) for _ in range(words))
        reply = ask.reply(side, **side.body(ask.target.model, text), temperature=0, max_tokens=2)
        details = (reply.usage or {}).get("prompt_tokens_details") or {}
        cached = details.get("cached_tokens") if isinstance(details, dict) else None
        if type(cached) is not int:
            raise Skip("cached tokens are not told")
        found.append((cached, reply))
    (fewer, short), (more, long) = found
    if more > fewer + _ALIKE_TOKENS:
        message = f"{more} of {long.prompt_tokens} tokens of a new prompt are cached, and {fewer} of a short one"
        yield Finding(message, (short.exchange, long.exchange))


LAWS: Final[list[Law]] = [
    *both("usage.prompt-alike", "A prompt has one number of tokens, whatever else is asked.", "usage", _prompt_alike,
          ("greedy", "stream")),
    *both("usage.prompt-grows", "A longer prompt has more tokens.", "usage", _prompt_grows, ("greedy",)),
    Law("usage.prompt-exact.completions", "prompt_tokens is what the tokenizer counts.", "usage, POST /v1/tokenizer",
        _prompt_exact, ("tokenizer",), side=COMPLETIONS),
    Law("usage.prompt-ids.completions", "A prompt of ids has as many tokens as ids.", "prompt", _ids_exact,
        ("prompt_ids", "stream"), side=COMPLETIONS),
    Law("usage.prompt-template.chat", "Chat counts the rendered prompt.", "usage, chat_template", _template_exact,
        ("chat_template",), side=CHAT),
    *both("usage.choices", "A whole answer counts all choices, a stream's last events each their own.", "usage",
          _sums, ("n", "seed", "logprobs", "stream")),
    *both("usage.totals", "total_tokens is the sum, cached_tokens a part of the prompt.", "usage", _totals,
          ("greedy", "stream")),
    *both("usage.cached", "No more tokens are cached than the prompt has.", "prompt_tokens_details", _cached,
        ("greedy",)),
    *both("usage.cached-new", "Words that were never sent before are not in the cache.", "prompt_tokens_details",
          _never_seen, ("greedy",)),
]  # fmt: skip
