"""Rows with two faults: the field that stands first in the documents' tables is named, and fields come before rules.

The bodies list their keys in the opposite order, so that the order of the request cannot be what decides.
"""

from __future__ import annotations

from typing import Any

from wire import CHAT, COMPLETIONS, MODEL, Refused, Row, bad, dumps, out_of_range, wrong_type

MESSAGES = [{"role": "user", "content": "Hi"}]


def chat_order(name: str, expect: Refused, **body: Any) -> Row:
    """A chat row whose body has exactly these keys in this order, then messages and model where absent."""
    full = {**body}
    full.setdefault("messages", MESSAGES)
    full.setdefault("model", MODEL)
    return Row(f"chat/order-{name}", CHAT, dumps(full), expect)


def completions_order(name: str, expect: Refused, **body: Any) -> Row:
    """A completions row whose body has exactly these keys in this order, then prompt and model where absent."""
    full = {**body}
    full.setdefault("prompt", "Hi")
    full.setdefault("model", MODEL)
    return Row(f"completions/order-{name}", COMPLETIONS, dumps(full), expect)


TOOL = {"type": "function", "function": {"name": "f"}}

CHAT_FIELDS: list[Row] = [
    chat_order("model-messages", wrong_type("model"), messages=5, model=5),
    chat_order(
        "messages-stream", wrong_type("messages[0].content"), stream="x", messages=[{"role": "user", "content": 5}]
    ),
    chat_order("stream-presence", wrong_type("stream"), presence_penalty=3, stream="x"),
    chat_order("presence-frequency", out_of_range("presence_penalty"), frequency_penalty=3, presence_penalty=3),
    chat_order("frequency-repetition", out_of_range("frequency_penalty"), repetition_penalty=3, frequency_penalty=3),
    chat_order("repetition-temperature", out_of_range("repetition_penalty"), temperature=-1, repetition_penalty=3),
    chat_order("temperature-top-p", out_of_range("temperature"), top_p=2, temperature=-1),
    chat_order("top-p-top-k", out_of_range("top_p"), top_k=0, top_p=2),
    chat_order("top-k-seed", out_of_range("top_k"), seed=-1, top_k=0),
    chat_order("seed-stop", out_of_range("seed"), stop=5, seed=-1),
    chat_order("stop-stop-ids", wrong_type("stop"), stop_token_ids=5, stop=5),
    chat_order("stop-ids-include", wrong_type("stop_token_ids"), include_stop_str_in_output="x", stop_token_ids=5),
    chat_order(
        "include-skip", wrong_type("include_stop_str_in_output"), skip_special_tokens=1, include_stop_str_in_output=1
    ),
    chat_order("skip-ignore", wrong_type("skip_special_tokens"), ignore_eos=1, skip_special_tokens=1),
    chat_order("ignore-max", wrong_type("ignore_eos"), max_tokens=0, ignore_eos=1),
    chat_order("max-beams", out_of_range("max_tokens"), use_beam_search=1, max_tokens=0),
    chat_order("beams-best-of", wrong_type("use_beam_search"), best_of=0, use_beam_search=1),
    chat_order("best-of-n", out_of_range("best_of"), n=0, best_of=0),
    chat_order("n-logprobs", out_of_range("n"), logprobs=1, n=0),
    chat_order("logprobs-top", wrong_type("logprobs"), top_logprobs=99, logprobs=1),
    chat_order("top-kwargs", out_of_range("top_logprobs"), chat_template_kwargs=5, top_logprobs=99),
    chat_order("kwargs-tools", wrong_type("chat_template_kwargs"), tools=5, chat_template_kwargs=5),
    chat_order("tools-choice", wrong_type("tools"), tool_choice=5, tools=5),
    chat_order("choice-template", wrong_type("tool_choice"), chat_template=5, tool_choice=5),
    chat_order("temperature-n-far-apart", out_of_range("temperature"), n=0, temperature=-1),
    chat_order(
        "first-message-first",
        wrong_type("messages[0].role"),
        messages=[{"content": "Hi", "role": 5}, {"role": "user", "content": 5}],
    ),
    chat_order("role-before-content", wrong_type("messages[0].role"), messages=[{"content": 5, "role": 5}]),
    chat_order(
        "first-part-first",
        wrong_type("messages[0].content[0].text"),
        messages=[{"role": "user", "content": [{"text": 5}, {"type": 5, "text": "x"}]}],
    ),
    chat_order(
        "content-before-call-id",
        wrong_type("messages[0].content"),
        messages=[{"tool_call_id": 5, "content": 5, "role": "user"}],
    ),
    chat_order("first-list-item-first", wrong_type("stop_token_ids[1]"), stop_token_ids=[1, "x", 1.5]),
]

COMPLETIONS_FIELDS: list[Row] = [
    completions_order("model-prompt", wrong_type("model"), prompt=5, model=5),
    completions_order("prompt-beams", wrong_type("prompt"), use_beam_search=1, prompt=5),
    completions_order("beams-temperature", wrong_type("use_beam_search"), temperature=-1, use_beam_search=1),
    completions_order("best-of-n", out_of_range("best_of"), n=0, best_of=0),
    completions_order("n-logprobs", out_of_range("n"), logprobs=9, n=0),
    completions_order("logprobs-max", out_of_range("logprobs"), max_tokens=0, logprobs=9),
    completions_order("max-seed", out_of_range("max_tokens"), seed=0, max_tokens=0),
    completions_order("seed-stop", out_of_range("seed"), stop=5, seed=0),
    completions_order("stop-stream", wrong_type("stop"), stream="x", stop=5),
    completions_order("stream-repetition", wrong_type("stream"), repetition_penalty=3, stream="x"),
    completions_order(
        "repetition-presence", out_of_range("repetition_penalty"), presence_penalty=3, repetition_penalty=3
    ),
    completions_order("top-p-top-k", out_of_range("top_p"), top_k=0, top_p=2),
    completions_order("top-k-ignore", out_of_range("top_k"), ignore_eos=1, top_k=0),
    completions_order("ignore-skip", wrong_type("ignore_eos"), skip_special_tokens=1, ignore_eos=1),
]

RULES: list[Row] = [
    chat_order("late-field-before-rule", wrong_type("tool_choice"), n=2, best_of=1, tool_choice=5),
    chat_order("field-before-rule", out_of_range("temperature"), n=2, best_of=1, temperature=-1),
    chat_order("field-before-message-rule", out_of_range("n"), n=0, messages=[{"role": "user", "content": ""}]),
    chat_order(
        "tools-field-before-tools-rule",
        wrong_type("tools[0].function.strict"),
        stop="x",
        tools=[{"type": "function", "function": {"name": "f", "strict": 1}}],
    ),
    completions_order("field-before-rule", out_of_range("top_k"), n=2, best_of=1, top_k=0),
    completions_order(
        "late-field-before-rule", wrong_type("skip_special_tokens"), n=2, best_of=1, skip_special_tokens=1
    ),
    chat_order("best-of-before-temperature", bad(None, "best-of-at-least-n"), temperature=0, n=3, best_of=2),
    chat_order("n-before-best-of-temperature", bad(None, "n-needs-temperature"), temperature=0, best_of=2, n=2),
    chat_order("best-of-before-tools", bad(None, "best-of-at-least-n"), tools=[TOOL], n=3, best_of=2),
    chat_order("tools-stop-before-n", bad(None, "tools-exclude-stop"), n=2, stop="x", tools=[TOOL]),
    chat_order(
        "message-rule-before-request-rule",
        bad("messages[0].content", "content-required"),
        n=2,
        best_of=1,
        messages=[{"role": "user", "content": ""}],
    ),
    chat_order(
        "first-message-rule-first",
        bad("messages[0].content", "content-required"),
        messages=[{"role": "user", "content": ""}, {"role": "system", "content": ""}],
    ),
    completions_order("best-of-before-temperature", bad(None, "best-of-at-least-n"), temperature=0, n=3, best_of=2),
    completions_order("n-before-best-of-temperature", bad(None, "n-needs-temperature"), temperature=0, best_of=2, n=2),
]

ROWS: list[Row] = [*CHAT_FIELDS, *COMPLETIONS_FIELDS, *RULES]
