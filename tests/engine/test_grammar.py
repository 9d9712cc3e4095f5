"""Choices that are held to a grammar: what comes out is under it, whatever the company, the memory and the sampling."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import numpy as np
import pytest
import torch
from fake_runner import FakeRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from llguidance import LLMatcher
from packed_play import Arrival, ids, play, request

from engine.batching import BatchLimits
from engine.grammar.compiler import GrammarCompiler
from engine.grammar.vocabulary import grammar_vocabulary
from engine.loader import LoadedModel
from engine.packed_executor import PackedExecutor
from engine.runner import TorchExecutor
from engine.scheduler import Scheduler
from engine.text.byte_tokenizer import mock_tokenizer
from engine.text.output import RequestText
from engine.torch_runner import build
from engine.types import GrammarError, ModelInfo, Request, RequestFailure, StepOutput
from tests.engine import families
from tests.engine.tiny_tokenizers import families as tokenizer_families

TOKENIZER = mock_tokenizer()
VOCAB = TOKENIZER.vocab_size
EOS = TOKENIZER.eos_token_ids
POSITIONS = 256
LAYOUT = {"whitespace_flexible": False, "item_separator": ", ?", "key_separator": ": ?"}
SCHEMAS: list[dict[str, Any]] = [
    {"type": "object", "properties": {"a": {"type": "boolean"}, "b": {"enum": ["x", "y"]}}, "required": ["a"]},
    {"type": "array", "items": {"type": "integer", "minimum": -99, "maximum": 99}, "minItems": 1, "maxItems": 3},
    {"type": "string", "pattern": "^[a-c]{2,6}$"},
    {"anyOf": [{"const": None}, {"type": "number", "minimum": 0, "maximum": 1}]},
]


def grammar(schema: dict[str, Any]) -> str:
    """The grammar of a schema; objects have no other members than those listed."""
    closed = {"additionalProperties": False} if "properties" in schema else {}
    return "start: %json " + json.dumps({**schema, **closed, "x-guidance": LAYOUT})


def compiler(info: ModelInfo, **options: Any) -> GrammarCompiler:
    """Grammars over the mock's tokenizer."""
    return GrammarCompiler(lambda: TOKENIZER, info, **options)


def make(pages: int = 400, page_size: int = 4, **limits: int) -> PackedExecutor:
    """An executor over hashed logits, whose vocabulary is the mock's."""
    runner = FakeRunner(page_size=page_size, num_pages=pages, eos=EOS, vocab=VOCAB)
    return PackedExecutor(runner, BatchLimits(**limits), 4, compiler(runner.info))


def text_of(tokens: list[Any]) -> str:
    """The text of a choice."""
    return TOKENIZER.decode(ids(tokens), skip_special_tokens=True)


def held(name: object, schema: dict[str, Any], prompt: list[int], **sampling: Any) -> Request:
    """A request whose answer is held to a schema."""
    plain = request(name, prompt, **{"max_tokens": 60, **sampling})
    return Request(plain.request_id, plain.prompt_ids, plain.sampling, grammar=grammar(schema))


SAMPLING = st.fixed_dictionaries(
    {"seed": st.integers(0, 3), "n": st.sampled_from([1, 1, 2, 3])},
    optional={
        "temperature": st.sampled_from([0.0, 0.7, 2.0]),
        "ignore_eos": st.booleans(),
        "repetition_penalty": st.sampled_from([0.5, 1.7]),
        "top_k": st.sampled_from([1, 3]),
        "top_p": st.just(0.5),
        "logprobs": st.integers(0, 2),
        "max_tokens": st.integers(1, 60),
    },
)
PROMPT = st.lists(st.integers(0, 255), min_size=1, max_size=9)


@st.composite
def mixes(draw: st.DrawFn) -> list[Request]:
    """A few requests, some of them free."""
    made = []
    for number in range(draw(st.integers(1, 4))):
        sampling, prompt = draw(SAMPLING), draw(PROMPT)
        schema = draw(st.sampled_from([*SCHEMAS, None]))
        if schema is None:
            made.append(request(number, prompt, **{"max_tokens": 12, **sampling}))
        else:
            made.append(held(number, schema, prompt, **sampling))
    return made


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_every_finished_answer_validates_and_is_the_one_alone(data: st.DataObject) -> None:
    """Also with penalties, filters, logprobs, several choices, and a memory that makes requests give way."""
    asked = data.draw(mixes())
    largest = max(len(one.prompt_ids) + one.sampling.max_tokens for one in asked)
    pages = -(-largest // 4) + data.draw(st.sampled_from([1, 4, 200]))
    chunk = data.draw(st.sampled_from([{}, {"prefill_chunk_size": 3}, {"max_batch_size": 2}]))
    executor = make(pages, **chunk)
    arrivals = [Arrival(one, data.draw(st.integers(0, 9))) for one in asked]

    answers = play(executor, arrivals, 8).answers

    for one in asked:
        assert answers[one.request_id] == play(make(), [Arrival(one)]).answers[one.request_id]
        for tokens in answers[one.request_id].values():
            if one.grammar is not None and tokens[-1].finish_reason == "stop":
                schema = json.loads(one.grammar.partition("%json ")[2])
                jsonschema.validate(json.loads(text_of(tokens)), schema)
    assert executor.stats.memory.pages_used == 0


def _tiny(kind: str) -> Any:
    model = families.build("llama", vocab_size=VOCAB, max_position_embeddings=POSITIONS, eos_token_id=list(EOS))
    info = ModelInfo(VOCAB, POSITIONS, EOS, "float32", "cpu", "Llama")
    loaded = LoadedModel(model, info)
    if kind == "packed":
        return PackedExecutor(build(loaded, page_size=8, max_tokens=1024), grammars=compiler(info))
    return TorchExecutor(loaded, grammars=compiler(info))


@pytest.mark.parametrize("kind", ["packed", "one by one"])
def test_a_model_of_random_weights_answers_under_the_schema(kind: str) -> None:
    """On both executors, whole as in pieces: an object of three members, drawn and greedy, three choices at once."""
    schema = {
        "type": "object",
        "properties": {
            "city": {"type": "string", "maxLength": 8},
            "days": {"type": "integer", "minimum": 1, "maximum": 7},
        },
        "required": ["city", "days"],
    }
    asked = [held("drawn", schema, [5, 6, 7], n=3, max_tokens=200), held("greedy", schema, [8], temperature=0.0)]
    executor, texts = _tiny(kind), {one.request_id: RequestText(one, TOKENIZER) for one in asked}
    scheduler = Scheduler(executor, 8)
    pieces: dict[tuple[str, int], str] = {}
    tokens: dict[tuple[str, int], list[Any]] = {}
    for one in asked:
        scheduler.submit(one, 0)
    while scheduler.has_work:
        for output in scheduler.run_round():
            assert isinstance(output, StepOutput)
            for token in output.tokens:
                tokens.setdefault((output.request_id, token.choice), []).append(token)
            for delta in texts[output.request_id].take(output).deltas:
                key = (output.request_id, delta.index)
                pieces[key] = pieces.get(key, "") + delta.text

    assert len(pieces) == 4
    for key, text in pieces.items():
        assert text == text_of(tokens[key])
        assert tokens[key][-1].finish_reason == "stop"
        jsonschema.validate(json.loads(text), schema)


def test_reported_logprobs_are_those_of_the_model() -> None:
    """The grammar chooses among the tokens; the logprobs beside them are the free request's."""
    executor = make()
    free = request("free", [1, 2], max_tokens=1, temperature=0.0, logprobs=2)
    bound = held("held", SCHEMAS[0], [1, 2], max_tokens=1, temperature=0.0, logprobs=2)

    answers = play(executor, [Arrival(free), Arrival(bound)]).answers

    (likeliest,), (allowed,) = answers["free"][0], answers["held"][0]
    assert TOKENIZER.token_bytes(allowed.token_id).startswith(b"{")
    assert likeliest.top == allowed.top
    assert allowed.logprob < likeliest.logprob


def test_ignore_eos_ends_where_the_grammar_does() -> None:
    """An end-of-sequence token comes where nothing else may, and not before: here after all five letters."""
    plain = request("a", [3], max_tokens=60, ignore_eos=True, temperature=2.0)
    asked = Request("a", plain.prompt_ids, plain.sampling, grammar="start: /a{1,5}/")

    (tokens,) = play(make(), [Arrival(asked)]).answers["a"].values()

    assert text_of(tokens) == "aaaaa"
    assert (tokens[-1].finish_reason, tokens[-1].token_id in EOS) == ("stop", True)


def test_an_answer_that_is_cut_ends_with_length() -> None:
    """max_tokens ends it in the middle."""
    (tokens,) = play(make(), [Arrival(held("a", SCHEMAS[0], [3], max_tokens=3))]).answers["a"].values()
    assert (len(tokens), tokens[-1].finish_reason) == (3, "length")


def test_a_dead_end_fails_its_request_alone() -> None:
    """Where no token can go on the request fails with a sentence, and the others go on."""
    executor = make()
    plain = request("lost", [3], max_tokens=9)
    # No token of the vocabulary has this number, so that nothing can follow the first letter.
    lost = Request("lost", plain.prompt_ids, plain.sampling, grammar=f'start: "a" <[{VOCAB - 1}]> "b"')
    poor = ModelInfo(VOCAB - 1, 1600, EOS, "float32", "cpu", "Fake")
    executor._grammars = GrammarCompiler(lambda: TOKENIZER, poor)

    played = play(executor, [Arrival(lost), Arrival(request("fine", [4], max_tokens=3))])

    assert ids(played.answers["fine"][0]) == ids(
        play(make(), [Arrival(request("fine", [4], max_tokens=3))]).answers["fine"][0]
    )
    (failure,) = played.failures
    assert failure.request_id == "lost"


def test_a_grammar_that_does_not_compile_is_refused_in_the_librarys_words() -> None:
    """The request gets the code unsupported; nothing else is touched."""
    plain = request("bad", [3], max_tokens=9)
    bad = Request("bad", plain.prompt_ids, plain.sampling, grammar="start: nowhere")
    scheduler = Scheduler(make(), 8)
    scheduler.submit(bad, 0)
    outputs: list[StepOutput | RequestFailure] = []
    while scheduler.has_work:
        outputs += scheduler.run_round()

    (failure,) = outputs
    assert isinstance(failure, RequestFailure)
    assert failure.code == "unsupported"
    assert "nowhere" in failure.message


def test_requests_pass_one_whose_grammar_is_being_compiled() -> None:
    """A compile holds up nobody else: the later request is admitted first."""
    executor, order = make(), []
    compiling = True
    executor.prepared = lambda one: one.grammar is None or not compiling  # type: ignore[method-assign]  # the clock
    scheduler = Scheduler(executor, 8)
    scheduler.submit(held("held", SCHEMAS[2], [1], max_tokens=4), 0)
    scheduler.submit(request("free", [2], max_tokens=4), 0)
    while scheduler.has_work:
        order += [output.request_id for output in scheduler.run_round() if output.request_id not in order]
        compiling = not order

    assert order == ["free", "held"]


def test_compiled_grammars_are_kept_up_to_a_number() -> None:
    """The oldest one is forgotten, and compiled again when it comes back."""
    grammars = compiler(ModelInfo(VOCAB, 64, EOS, "float32", "cpu", "Fake"), kept=2)
    for schema in [*SCHEMAS[:3], SCHEMAS[0]]:
        assert grammars.start(grammar(schema), ignore_eos=False).failure is None
        assert len(grammars._compiled) <= 2


def test_a_model_without_an_end_takes_no_grammar() -> None:
    """An answer could not end."""
    grammars = compiler(ModelInfo(VOCAB, 64, (), "float32", "cpu", "Fake"))
    with pytest.raises(GrammarError, match="no end-of-sequence token"):
        grammars.start(grammar(SCHEMAS[0]), ignore_eos=False)


def test_executors_without_grammars_say_so() -> None:
    """Instead of dropping what was asked for; nor are beams held to one."""
    executor = PackedExecutor(FakeRunner(eos=EOS, vocab=VOCAB))
    with pytest.raises(GrammarError, match="cannot hold answers"):
        executor.prepared(held("a", SCHEMAS[0], [1]))
    with pytest.raises(GrammarError, match="beams"):
        make().prepared(held("a", SCHEMAS[0], [1], use_beam_search=True))


def test_a_token_that_ends_an_answer_is_no_text() -> None:
    """Also one that the tokenizer does not call special: inside a string it would end the answer."""
    ends = (TOKENIZER.encode("the", add_special_tokens=False)[0], *EOS)
    vocabulary = grammar_vocabulary(TOKENIZER, VOCAB, ends)
    matcher = LLMatcher(vocabulary, 'start: "\\"" /.*/ "\\""')
    assert matcher.consume_token(TOKENIZER.encode('"', add_special_tokens=False)[0])
    bits = np.unpackbits(np.frombuffer(matcher.compute_bitmask(), dtype=np.uint8), bitorder="little")
    assert not bits[list(ends)].any()


@pytest.mark.parametrize("family", ["byte-level", "llama2", "gemma"])
def test_text_becomes_tokens_that_spell_it(family: str) -> None:
    """Also where a tokenizer begins every text with a space, and where no token but single bytes fits."""
    tokenizer = tokenizer_families()[family]
    vocabulary = grammar_vocabulary(tokenizer, tokenizer.vocab_size + 3, tokenizer.eos_token_ids)
    text = '{"a": "中 b"}'
    tokens = vocabulary.tokenize_str(text)
    assert b"".join(tokenizer.token_bytes(token) for token in tokens).decode() == text


def test_allowed_tokens_come_on_the_models_device() -> None:
    """As a tensor of ascending ids."""
    grammars = compiler(ModelInfo(VOCAB, 64, EOS, "float32", "meta", "Fake"))
    start = grammars.start('start: "a" | "b"', ignore_eos=False)
    start.look()
    assert (start.allowed.device, start.allowed.shape) == (torch.device("meta"), torch.Size([2]))
