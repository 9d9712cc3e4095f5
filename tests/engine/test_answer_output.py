"""From tokens to the parts of an answer: hidden marks, stops inside thinking, exact counts, a single call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.text.byte_tokenizer import TURN_END, mock_tokenizer
from engine.text.output import RequestText, merge_deltas
from engine.types import AnswerForm, ChoiceDelta, Request, SamplingParams, StepOutput, StepToken

MARKS = ("<think>", "</think>", "[TOOL_CALLS]", "[ARGS]")
TOKENIZER = mock_tokenizer(special_tokens=MARKS)
PLAIN = mock_tokenizer()
MARKERS = tuple((TOKENIZER.encode(mark, add_special_tokens=False)[0], mark) for mark in MARKS)
EOS = TOKENIZER.encode(TURN_END, add_special_tokens=False)[0]
THINKING = AnswerForm(thinking="qwen3", markers=MARKERS)
TOOLS = AnswerForm(tools="mistral", tool_names=("get", "get_time"), thinking="qwen3", markers=MARKERS)


def request(form: AnswerForm, *, stop: Sequence[str] = (), include: bool = False, skip: bool = True) -> Request:
    """A request whose sampling does not matter here."""
    return Request(
        "r",
        (1, 2, 3),
        SamplingParams(max_tokens=1000),
        stop=tuple(stop),
        include_stop_str_in_output=include,
        skip_special_tokens=skip,
        form=form,
    )


def run(sent: Request, text: str, *, end: str = "stop", tokenizer: Any = TOKENIZER) -> tuple[ChoiceDelta, RequestText]:
    """All deltas joined, of the text's tokens and an end-of-sequence token, or cut by the budget."""
    ids = tokenizer.encode(text, add_special_tokens=False)
    steps = [StepToken(0, token_id) for token_id in ids]
    if end == "stop":
        steps.append(StepToken(0, EOS, finish_reason="stop"))
    else:
        steps[-1].finish_reason = "length"
    taken = RequestText(sent, tokenizer)
    rounds = [taken.take(StepOutput("r", 1, 0, 0, [step])).deltas for step in steps]
    return merge_deltas(rounds)[0], taken


def arguments(delta: ChoiceDelta) -> list[tuple[int, str | None, str]]:
    """The pieces of calls, those of one call joined."""
    joined: list[tuple[int, str | None, str]] = []
    for piece in delta.calls:
        if piece.name is not None:
            joined.append((piece.index, piece.name, piece.arguments))
        else:
            index, name, text = joined[-1]
            joined[-1] = (index, name, text + piece.arguments)
    return joined


ANSWER = '<think>\nI must look.\n</think>\n\nOne moment.[TOOL_CALLS]get[ARGS]{"a": "é中"}'


@pytest.mark.parametrize("tokenizer", [TOKENIZER, PLAIN], ids=["special tokens", "ordinary tokens"])
@pytest.mark.parametrize("skip", [True, False])
def test_marks_are_read_whether_they_are_hidden_special_tokens_or_text(tokenizer: Any, skip: bool) -> None:
    """Thinking, content and the call are the same; a mark that was read is never content."""
    form = TOOLS if tokenizer is TOKENIZER else replace(TOOLS, markers=())
    delta, _ = run(request(form, skip=skip), ANSWER, tokenizer=tokenizer)

    assert (delta.reasoning, delta.text) == ("I must look.", "One moment.")
    assert arguments(delta) == [(0, "get", '{"a": "é中"}')]
    assert delta.finish_reason == "tool_calls"


@pytest.mark.parametrize(("skip", "content"), [(True, "a sorry"), (False, "a[TOOL_CALLS] sorry")])
def test_a_special_token_without_a_call_is_shown_only_where_special_tokens_are(skip: bool, content: str) -> None:
    """skip_special_tokens holds for what turns out to be content."""
    delta, _ = run(request(TOOLS, skip=skip), "a[TOOL_CALLS] sorry")

    assert (delta.text, delta.calls, delta.finish_reason) == (content, [], "stop")


def test_the_same_text_in_ordinary_tokens_stays_content() -> None:
    """A model that explains the form loses nothing, although the special token of that spelling is hidden."""
    letters = [token_id for letter in "[TOOL_CALLS]" for token_id in PLAIN.encode(letter, add_special_tokens=False)]
    taken = RequestText(request(TOOLS), TOKENIZER)
    steps = [StepToken(0, token_id) for token_id in letters] + [StepToken(0, EOS, finish_reason="stop")]
    (delta,) = merge_deltas([taken.take(StepOutput("r", 1, 0, 0, [step])).deltas for step in steps])

    assert delta.text == "[TOOL_CALLS]"


@pytest.mark.parametrize(
    ("text", "end", "tokens"),
    [
        ("<think>ab</think>c", "stop", 3),
        ("<think>ab", "length", 3),
        ("<think>ab", "stop", 3),
        ("<think></think>c", "stop", 1),
        ("abc", "stop", 0),
    ],
)
def test_reasoning_tokens_count_what_was_thought(text: str, end: str, tokens: int) -> None:
    """The opening mark counts, the closing mark and the end of the sequence do not."""
    delta, _ = run(request(THINKING), text, end=end)

    assert delta.reasoning_tokens == tokens


def test_reasoning_tokens_are_counted_where_thinking_stays_in_the_text() -> None:
    """As a text completion has it: the text is whole, its hidden marks aside."""
    form = replace(THINKING, count_only=True)
    delta, _ = run(request(form), "<think>ab</think>c")

    assert (delta.text, delta.reasoning, delta.reasoning_tokens) == ("abc", "", 3)


@pytest.mark.parametrize("include", [True, False])
def test_a_stop_text_inside_thinking_ends_the_choice_and_stays_in_the_thinking(include: bool) -> None:
    """include_stop_str_in_output makes no difference there."""
    delta, _ = run(request(THINKING, stop=["END"], include=include), "<think>ab END cd</think>e")

    assert (delta.reasoning, delta.text, delta.finish_reason, delta.stop_reason) == ("ab END", "", "stop", "END")
    assert delta.reasoning_tokens == delta.token_count


@pytest.mark.parametrize(("include", "content"), [(True, "c END"), (False, "c ")])
def test_a_stop_text_in_the_content_is_cut_as_ever(include: bool, content: str) -> None:
    """Behind thinking the request's own choice holds."""
    delta, _ = run(request(THINKING, stop=["END"], include=include), "<think>ab</think>c END d")

    assert (delta.reasoning, delta.text, delta.finish_reason) == ("ab", content, "stop")


def test_a_hidden_mark_does_not_break_a_stop_text() -> None:
    """Stops are looked for in the text that is shown, where the mark is not."""
    delta, _ = run(request(THINKING, stop=["ab"]), "x<think>a</think>b")

    assert (delta.text, delta.finish_reason) == ("x", "stop")


def test_marks_keep_their_place_while_text_waits_for_a_stop() -> None:
    """Text that may become a stop is held back; what comes behind it stays behind it."""
    delta, _ = run(request(THINKING, stop=["b!", "aab?"]), "<think>aab</think>aab")

    assert (delta.reasoning, delta.text) == ("aab", "aab")


def test_a_single_call_ends_the_choice() -> None:
    """parallel_tool_calls false: nothing of a second call, and the engine is told to stop."""
    form = replace(TOOLS, single_call=True)
    sent = request(form)
    ids = TOKENIZER.encode("[TOOL_CALLS]get[ARGS]{}[TOOL_CALLS]get_time[ARGS]{}", add_special_tokens=False)
    taken = RequestText(sent, TOKENIZER)
    progress = [taken.take(StepOutput("r", 1, 0, 0, [StepToken(0, token_id)])) for token_id in ids]
    (delta,) = merge_deltas([part.deltas for part in progress])

    assert arguments(delta) == [(0, "get", "{}")]
    assert (delta.finish_reason, [part.ended_by_text for part in progress].count([0])) == ("tool_calls", 1)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[TOOL_CALLS]get[ARGS]{}", "tool_calls"),
        ('[TOOL_CALLS]get[ARGS]{"a', "length"),
        ("[TOOL_CALLS]get[ARGS]{}[TOOL_CALLS]get_time[ARGS]{", "length"),
        ("[TOOL_CALLS]get", "length"),
        ("[TOOL_CALLS]get[ARGS]{}[TOOL_CALLS]ge", "length"),
        ("[TOOL_CALLS]get[ARGS]{}[TOOL", "length"),
    ],
)
def test_the_budget_leaves_half_a_call_with_length(text: str, reason: str) -> None:
    """tool_calls only where every call that has begun is whole."""
    delta, _ = run(request(TOOLS), text, end="length")

    assert delta.finish_reason == reason


@settings(max_examples=150, deadline=None)
@given(
    text=st.lists(
        st.sampled_from(
            ["a", "b", " ", "\n", "中", "<think>", "</think>", "[TOOL_CALLS]", "get", "[ARGS]", '{"a": "é"}']
        ),
        min_size=1,
        max_size=10,
    ).map("".join),
    stops=st.lists(st.text("ab \n", min_size=1, max_size=3), max_size=2),
    include=st.booleans(),
    skip=st.booleans(),
    data=st.data(),
)
def test_rounds_that_are_read_together_give_the_same(
    text: str, stops: list[str], include: bool, skip: bool, data: st.DataObject
) -> None:
    """However many rounds a slow reader gets at once, the parts, counts and reasons add up to the same."""
    ids = TOKENIZER.encode(text, add_special_tokens=False)
    steps = [StepToken(0, token_id) for token_id in ids] + [StepToken(0, EOS, finish_reason="stop")]
    taken = RequestText(request(TOOLS, stop=stops, include=include, skip=skip), TOKENIZER)
    rounds = [taken.take(StepOutput("r", 1, 0, 0, [step])).deltas for step in steps]
    at = data.draw(st.integers(0, len(rounds)))
    halves = [merge_deltas(rounds[:at]), merge_deltas(rounds[at:])]
    (together,), (joined,) = merge_deltas(rounds), merge_deltas(halves)

    assert joined == together
    assert together.reasoning_tokens is not None
    assert 0 <= together.reasoning_tokens <= together.token_count
