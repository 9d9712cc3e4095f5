"""The generated models: exact integers, null and unknown members, unions, order, and the JSON of answers."""

from __future__ import annotations

import json
import time
from typing import Any

import jiter
import pytest
from pydantic import ValidationError

from generated import models, operations
from generated.problems import Problem, explain, ignored_parameters
from generated.rules import PLAIN, Deployment

CHAT: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
TEXT: dict[str, Any] = {"model": "m", "prompt": "hello"}


def both_ways(root: str, raw: bytes, deployment: Deployment = PLAIN) -> Any:
    """The model or the problem that a body gives; validating bytes and validating parsed JSON must agree."""
    model, results = getattr(models, root), []
    for validate in (
        model.model_validate_json,
        lambda raw, context: model.model_validate(jiter.from_json(raw), context=context),
    ):
        try:
            results.append(validate(raw, context=deployment))
        except ValidationError as error:
            results.append(explain(error, jiter.from_json(raw), root, deployment))
    assert results[0] == results[1]
    return results[0]


def text(**members: Any) -> Any:
    """What a completions body with these members gives."""
    return both_ways("CompletionRequest", json.dumps({**TEXT, **members}).encode())


def chat(deployment: Deployment = PLAIN, **members: Any) -> Any:
    """What a chat body with these members gives."""
    return both_ways("ChatCompletionRequest", json.dumps({**CHAT, **members}).encode(), deployment)


@pytest.mark.parametrize(("given", "kept"), [("2", 2), ("1.0", 1), ("1e2", 100), ("128", 128)])
def test_an_integral_number_is_an_integer(given: str, kept: int) -> None:
    """1.0 and 1e2 are integers for JSON Schema, and arrive as int."""
    model = both_ways("CompletionRequest", b'{"model": "m", "prompt": "x", "n": %s}' % given.encode())
    assert model.n == kept
    assert type(model.n) is int


@pytest.mark.parametrize("given", ['"2"', "true", "1.5", "[]", "{}"])
def test_nothing_else_is_an_integer(given: str) -> None:
    """Text, booleans, fractions and containers are the wrong type."""
    problem = both_ways("CompletionRequest", b'{"model": "m", "prompt": "x", "n": %s}' % given.encode())
    assert (problem.code, problem.param) == ("wrong_type", "n")


def test_a_seed_is_exact_up_to_the_last_unsigned_64_bit_number() -> None:
    """2^64-1 is kept exactly; 2^64 is refused, also when written as a float, and so are thousands of digits."""
    assert text(seed=2**64 - 1).seed == 2**64 - 1
    assert text(seed=2**63 + 1).seed == 2**63 + 1
    assert text(seed=2**64).code == "out_of_range"
    assert text(seed=1.8446744073709552e19).code == "out_of_range"
    huge = both_ways("CompletionRequest", b'{"model": "m", "prompt": "x", "seed": %s}' % (b"9" * 4000))
    assert huge == Problem(
        "out_of_range",
        "seed",
        "seed was given a number of about 4000 digits; it must be an integer from 1 to 18446744073709551615, or null",
    )


def test_five_thousand_digits_are_refused_without_a_crash() -> None:
    """The JSON parser gives up on them, and the problem says so."""
    raw = b'{"model": "m", "prompt": "x", "seed": %s}' % (b"9" * 5000)
    with pytest.raises(ValidationError) as error:
        models.CompletionRequest.model_validate_json(raw)
    assert explain(error.value, None, "CompletionRequest").code == "json_invalid"


@pytest.mark.parametrize("digits", ["1e400", "1e39", "9" * 4000])
def test_a_number_beyond_its_range_is_out_of_range(digits: str) -> None:
    """Infinite as a double, beyond float32, or very many digits: the range answers, not the type."""
    problem = both_ways("CompletionRequest", b'{"model": "m", "prompt": "x", "temperature": %s}' % digits.encode())
    assert (problem.code, problem.param) == ("out_of_range", "temperature")
    assert problem.message.endswith("it must be a number from 0 to 3.4028234e+38, or null")
    assert len(problem.message) < 300


def test_lists_of_integers_take_integral_floats_too() -> None:
    """[1, 2.0] are two integers; a fraction among them is named by its place."""
    assert text(prompt=[1, 2.0]).prompt == [1, 2]
    assert (text(prompt=[1, 2.5]).code, text(prompt=[1, 2.5]).param) == ("wrong_type", "prompt[1]")
    assert (text(stop_token_ids=[2, None]).code, text(stop_token_ids=[2, None]).param) == (
        "wrong_type",
        "stop_token_ids[1]",
    )


def test_a_million_integers_cost_no_python_call_each() -> None:
    """Lists of plain integers are checked in Rust: a million take well under the second that calls would."""
    body = {**TEXT, "prompt": list(range(1_000_000))}
    spent = []
    for _ in range(3):
        started = time.process_time()
        assert len(models.CompletionRequest.model_validate(body).prompt) == 1_000_000
        spent.append(time.process_time() - started)
    assert min(spent) < 0.3


def test_a_list_of_wrong_values_stops_at_the_first() -> None:
    """A million wrong items give one error an alternative, not a million."""
    with pytest.raises(ValidationError) as error:
        models.CompletionRequest.model_validate(
            {**TEXT, "prompt": ["x"] * 1_000_000, "stop_token_ids": ["x"] * 1_000_000}
        )
    assert error.value.error_count() <= 6


def test_null_is_absent_for_an_optional_field_and_wrong_for_a_required_one() -> None:
    """n: null equals no n; model: null is the wrong type; an absent model is missing."""
    assert text(n=None).n is None
    assert text().n is None
    assert (text(model=None).code, text(model=None).param) == ("wrong_type", "model")
    absent = both_ways("CompletionRequest", b'{"prompt": "x"}')
    assert (absent.code, absent.param) == ("missing", "model")


def test_string_lengths_count_code_points() -> None:
    """64 emoji are 64 characters."""
    assert chat(messages=[{"role": "😀" * 64, "content": "x"}]).messages[0].role == "😀" * 64
    problem = chat(messages=[{"role": "😀" * 65, "content": "x"}])
    assert (problem.code, problem.param) == ("too_long", "messages[0].role")


def test_the_problem_of_a_union_comes_from_the_branch_that_was_meant() -> None:
    """A bad part is named inside the list, a bad url inside the object; a value of no branch is named itself."""
    part = chat(messages=[{"role": "user", "content": [{"text": "a"}, {"image_url": {"url": 5}}]}])
    assert (part.code, part.param) == ("wrong_type", "messages[0].content[1].image_url.url")
    neither = chat(messages=[{"role": "user", "content": 5}])
    assert (neither.code, neither.param) == ("wrong_type", "messages[0].content")
    assert neither.message == "messages[0].content was given 5; it must be a string, or a list, or null"
    assert chat(tool_choice={"type": "function", "function": {}}).param == "tool_choice.function.name"


def test_the_first_problem_is_the_first_field_of_the_spec() -> None:
    """Fields are named in the spec's order whatever the order in the body, and before any rule."""
    assert chat(top_k=0, temperature=-1, n=0).param == "temperature"
    assert chat(n=2, best_of=1, top_k=0).code == "out_of_range"
    assert chat(n=2, best_of=1, messages=[{"role": "tool", "content": "x"}]).code == "tool-message-needs-call-id"


def test_unknown_members_are_kept_and_named_by_path() -> None:
    """At any depth, but not inside free-form objects."""
    body: dict[str, Any] = {
        "messages": [{"role": "user", "content": [{"text": "a", "deep": 1}], "bar": 1}],
        "foo": 1,
        "chat_template_kwargs": {"mine": 1},
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"mine": None}}, "odd": 1}],
    }
    assert ignored_parameters(chat(**body)) == [
        "foo", "messages[0].bar", "messages[0].content[0].deep", "tools[0].odd",
    ]  # fmt: skip
    assert ignored_parameters(chat()) == []


def test_strict_unknown_refuses_an_unknown_member() -> None:
    """The first one is named, after the fields and before the rules."""
    strict = Deployment(strict_unknown=True)
    problem = chat(strict, foo=1, n=2, best_of=1)
    assert problem == Problem("unknown_field", "foo", "foo is not a field of this API")
    assert chat(strict, foo=1, n=0).param == "n"


def test_an_unknown_name_is_cut_and_may_look_like_anything() -> None:
    """A name of a million characters comes back as 100; one that looks like an internal mark is a name like others."""
    strict = Deployment(strict_unknown=True)
    long = chat(strict, **{"x" * 1_000_000: 1})
    assert long.param == "x" * 97 + "..."
    assert len(long.message) < 200
    assert chat(strict, **{"<string>": 1}).param == "<string>"


def test_top_k_has_other_bounds_in_openai_form() -> None:
    """Normally -1 is off and 0 refused; in OpenAI's form the other way round, and the sentence follows."""
    openai = Deployment(openai_form=True)
    assert chat(top_k=-1).top_k == -1
    assert chat(top_k=0).message == "top_k was given 0; it must be an integer from -1 to 2147483647 but not 0, or null"
    assert chat(openai, top_k=0).top_k == 0
    assert chat(openai, top_k=-1).message == "top_k was given -1; it must be an integer from 0 to 2147483647, or null"


def test_normalisations_run_before_the_rules() -> None:
    """Empty lists become null, ids outside int32 go, top_logprobs turns logprobs on."""
    assert chat(stop=[], use_beam_search=True).stop is None
    assert chat(stop_token_ids=[1, 2**31, -(2**31)]).stop_token_ids == [1, -(2**31)]
    assert chat(stop_token_ids=[2**31], use_beam_search=True).stop_token_ids is None
    assert chat(top_logprobs=0).logprobs is True
    assert chat(top_logprobs=0, logprobs=False).logprobs is False


def test_a_relaxed_rule_is_not_applied_and_another_cannot_be_relaxed() -> None:
    """relaxed_rules works for rules that the spec marks as relaxable, and for no other."""
    tools = [{"type": "function", "function": {"name": "f"}}]
    assert chat(tools=tools, n=2).code == "tools-exclude-n"
    assert chat(Deployment(relaxed_rules=frozenset(["tools-exclude-n"])), tools=tools, n=2).n == 2
    stubborn = Deployment(relaxed_rules=frozenset(["best-of-at-least-n"]))
    assert chat(stubborn, n=2, best_of=1).code == "best-of-at-least-n"


def test_a_rule_says_what_was_sent() -> None:
    """The sentence ends with the given values, cut where they are long."""
    assert chat(n=2, best_of=1).message.endswith("(given: best_of 1, n 2)")
    message = chat(stop="x" * 30000, use_beam_search=True).message
    assert len(message) < 300


def test_a_model_can_be_checked_alone() -> None:
    """check() on a nested model names the rule relative to it; a good one gives None."""
    bad = models.Message(role="tool", content="x").check()
    assert bad is not None
    assert (bad.rule.id, bad.path) == ("tool-message-needs-call-id", ("tool_call_id",))
    assert models.Message(role="tool", content="x", tool_call_id="1").check() is None


def test_answers_keep_the_order_of_the_spec_and_leave_out_what_was_not_set() -> None:
    """A required null is written, an optional member that was never set is not, and neither is one set to None."""
    delta = models.ChatDelta(content="hi")
    choice = models.ChatChunkChoice(finish_reason=None, logprobs=None, delta=delta, index=0)
    assert choice.wire_json() == '{"index":0,"delta":{"content":"hi"},"logprobs":null,"finish_reason":null}'
    made = models.ChatDelta.model_construct(content=None, role="assistant", reasoning_content=None)
    assert made.wire_json() == '{"role":"assistant","content":null}'
    with pytest.raises(ValidationError):
        models.ChatChunkChoice.model_validate({"index": 0, "delta": {}})


def test_a_handler_cannot_answer_with_an_unlisted_status() -> None:
    """The type checker sees it first; at run time it is an error too."""
    error = models.Error(error="no", error_type="NotFoundError", param=None, code="not_found")
    assert operations.CreateChatCompletion.Error(422, error).status == 422
    with pytest.raises(operations.UnlistedStatusError, match="create_chat_completion may not answer 418"):
        operations.CreateChatCompletion.Error(418, error)  # type: ignore[arg-type] # the point of the test
