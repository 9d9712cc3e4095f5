"""The plain data that crosses the engine's door: requests going in, token events and statistics coming out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

FinishReason = Literal["stop", "length"]
"""Why one choice ended: an end-of-sequence token, a stop token or a stop string; or the token budget."""

AnswerReason = Literal[FinishReason, "tool_calls"]
"""The same for an answer whose tool calls are taken out of the text: it may have ended with them."""

FailureCode = Literal[
    "engine_down",
    "timeout",
    "internal",
    "stopping",
    "queue_full",
    "loading",
    "too_long",
    "unknown_model",
    "unsupported",
]
"""Why a request got no (or no whole) answer; the HTTP side maps each code to a status."""

LoadFailureCause = Literal["weights", "device", "other"]
"""What has to be looked at: the model's files, the device that was asked for, or the log."""

MediaKind = Literal["image", "video", "audio"]
"""What a prompt may have besides text."""

GREEDY_BELOW = 1e-5
"""A temperature under this draws the likeliest token; the other sampling fields then do nothing."""


@dataclass(frozen=True, slots=True)
class AnswerForm:
    """How the text of a choice is taken apart into content, thinking and tool calls."""

    tools: str | None = None
    """Name of the family whose way of writing tool calls is read; None to leave calls in the text."""
    tool_names: tuple[str, ...] = ()
    """The functions that may be called."""
    single_call: bool = False
    """The first whole call ends the choice."""
    thinking: str | None = None
    """Name of the family whose marks of thinking are read; None to leave thinking in the text."""
    thinking_open: bool | None = None
    """The prompt ends inside thinking (True) or behind it (False); None where it shows neither."""
    count_only: bool = False
    """Thinking is counted and stays in the text."""
    markers: tuple[tuple[int, str], ...] = ()
    """(token id, text) of the special tokens among the marks; they are read although they may be hidden."""


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How tokens are chosen, already validated and with every default filled in."""

    max_tokens: int
    """Tokens to generate per choice at most, >= 1."""
    temperature: float = 1.0
    top_k: int = -1
    """-1 keeps the whole vocabulary."""
    top_p: float = 1.0
    repetition_penalty: float = 1.0
    """Acts on prompt and output tokens."""
    presence_penalty: float = 0.0
    """Acts on output tokens only."""
    frequency_penalty: float = 0.0
    """Acts on output tokens only."""
    seed: int = 0
    """0..2^64-1; draws are keyed by (seed, choice, position)."""
    n: int = 1
    """Sequences to return: the number of independent choices, or the beam width."""
    use_beam_search: bool = False
    logprobs: int | None = None
    """None: no logprobs. k >= 0: the chosen token's and those of the k likeliest tokens."""
    ignore_eos: bool = False
    stop_token_ids: tuple[int, ...] = ()
    rank_by_logprob: bool = False
    """Fill in ``StepToken.logprob`` although no logprobs were asked for: best_of ranks choices by their mean."""


@dataclass(frozen=True, slots=True)
class ThinkingBudget:
    """How long a chain of thought may become."""

    tokens: int
    """Of the thought at most, >= 1, its marks not counted."""
    opening_id: int
    """The token that opens a thought, where it is an answer's first."""
    closing_id: int
    """The token that closes it."""
    begun: bool
    """The answer is thought from its first token on."""
    ending_ids: tuple[int, ...] = ()
    """What comes where the bound is reached: the last of them is ``closing_id``; empty: that alone."""


@dataclass(frozen=True, slots=True)
class MediaItem:
    """An image, video or recording of a prompt, as far as it goes without the model's weights."""

    kind: MediaKind
    start: int
    """Place in ``prompt_ids`` of the first token that stands for it."""
    tokens: int
    """So many of them, one after the other, stand for it."""
    content_hash: bytes
    """Of all that the encoder sees; see ``engine.multimodal.features``. Equal hashes mean equal embeddings."""
    features: str
    """Path of the encoder's input, a file that stays until the request has ended."""


@dataclass(frozen=True, slots=True)
class Request:
    """One generation request in token ids."""

    request_id: str
    prompt_ids: tuple[int, ...]
    sampling: SamplingParams
    stop: tuple[str, ...] = ()
    """Stop strings, matched on decoded text on this side of the process boundary."""
    include_stop_str_in_output: bool = False
    skip_special_tokens: bool = True
    continues_prompt: bool = False
    """The text goes on with the prompt's, which the client holds, so that both joined read right. Otherwise it is a
    text of its own, as an assistant's message is: tokenizers that drop the first space of a text drop it here."""
    forced_text: str | None = None
    """What an engine that can be told its words (``forces_tool_calls``) writes, within max_tokens."""
    form: AnswerForm | None = None
    """How the text is taken apart, on this side of the process boundary; None: all of it is content."""
    grammar: str | None = None
    """What every choice's tokens are held to, in llguidance's dialect of Lark; not with beams. The choice ends where
    the grammar does, also with ignore_eos."""
    thinking_budget: ThinkingBudget | None = None
    """Bounds each choice's thought; not with beams."""
    adapter: str | None = None
    """Name of the adapter that changes the model; None for the model as it is."""
    adapter_number: int = 0
    """Which load of that name; the front fills it in."""
    media: tuple[MediaItem, ...] = ()
    """In the order of the prompt; no two overlap."""
    reserved: bool = False
    """It has a place of its own beside all others and passes the queue: for the front's own probes, of one token."""


# --- From the engine process to the front, one message a step ---------------------------------------------------------


@dataclass(slots=True)
class StepToken:
    """One token of one choice."""

    choice: int
    token_id: int
    logprob: float | None = None
    """Raw log-softmax of the chosen token (before penalties, temperature and filters), where asked for."""
    top: tuple[tuple[int, float], ...] | None = None
    """(token id, raw logprob), descending, as many as ``SamplingParams.logprobs`` asks."""
    finish_reason: FinishReason | None = None
    stop_token_id: int | None = None
    """The matched entry of ``stop_token_ids``; None for EOS and for length."""


@dataclass(slots=True)
class BeamHypothesis:
    """One finished beam, best first in ``StepOutput.beams``."""

    tokens: list[StepToken]
    score: float
    """Cumulative logprob / generated tokens, EOS included."""


@dataclass(slots=True)
class StepOutput:
    """What one scheduler round did for one request."""

    request_id: str
    batch_size: int
    """Sequences that ran in this round, of all requests."""
    queue_wait_us: int
    """Microseconds this request waited between being ready for this round and the round's start."""
    step_us: int
    """Microseconds the round took."""
    tokens: list[StepToken] = field(default_factory=list)
    beams: list[BeamHypothesis] | None = None
    """Set on the last round of a beam request, which sends no tokens before."""
    cached_tokens: int = 0
    """Prompt tokens that came from the prefix cache (first round)."""
    done: bool = False
    """The engine has no sequence of this request left."""


@dataclass(slots=True)
class RequestFailure:
    """The engine could not finish this request."""

    request_id: str
    code: FailureCode
    message: str


# --- From the front to the handlers -----------------------------------------------------------------------------------


@dataclass(slots=True)
class TokenCandidate:
    """A token as text, for logprobs."""

    token_id: int
    text: str
    """Decoded alone; bytes that are no whole character show as U+FFFD."""
    raw: bytes
    """The token's own bytes."""
    logprob: float


@dataclass(slots=True)
class TokenText:
    """A generated token with its logprobs, in the order of generation."""

    token: TokenCandidate
    top: list[TokenCandidate]
    """The k likeliest, descending; the chosen token is among them or not."""
    text_offset: int
    """Code points of this choice's text before this token's text."""


@dataclass(frozen=True, slots=True)
class CallPiece:
    """News of one tool call: its name in the first piece, and more of its arguments' text."""

    index: int
    """The call's place in the answer, from 0."""
    name: str | None
    arguments: str


@dataclass(slots=True)
class ChoiceDelta:
    """New text of one choice. ``tokens`` is filled only where logprobs were asked for."""

    index: int
    text: str
    """Content; all thinking comes before all content."""
    token_count: int
    """Generated tokens that this delta accounts for (EOS and stop tokens included)."""
    tokens: list[TokenText] = field(default_factory=list)
    finish_reason: AnswerReason | None = None
    stop_reason: str | int | None = None
    """The stop string or the stop token's id; None for EOS and length."""
    logprob_sum: float = 0.0
    """Sum of the chosen tokens' raw logprobs in this delta (for best_of ranking; 0.0 where not computed)."""
    reasoning: str = ""
    """Thinking, where ``AnswerForm.thinking`` takes it out of the text."""
    calls: list[CallPiece] = field(default_factory=list)
    """News of tool calls, where ``AnswerForm.tools`` takes them out of the text."""
    reasoning_tokens: int | None = None
    """In a choice's last delta, where thinking is told apart: the tokens of the whole choice that were thinking."""


@dataclass(slots=True)
class Stats:
    """Measurements of one request, grown round by round; every list has one entry a round."""

    prompt_tokens: int
    cached_tokens: int = 0
    batch_size: list[int] = field(default_factory=list)
    queue_wait_us: list[int] = field(default_factory=list)
    round_ms: list[float] = field(default_factory=list)
    """Time from the previous token (or from submission) to this round's token."""


class EngineError(Exception):
    """A request could not be served or finished: carries the code and a sentence for the client."""

    def __init__(self, code: FailureCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class AdapterError(Exception):
    """An adapter cannot be loaded or is not there; the message is a sentence about it, without its name."""


@dataclass(frozen=True, slots=True)
class AdapterSource:
    """An adapter that a deployment has."""

    name: str
    """What requests ask for."""
    folder: str
    """Where it lies."""


class GrammarError(Exception):
    """A grammar cannot be compiled for the loaded model; the message is a sentence for the client."""


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What a loaded (or mock) model is, known once the engine is ready."""

    vocab_size: int
    """Rows of the output layer: a token id at or above this is outside the vocabulary."""
    max_position_embeddings: int
    eos_token_ids: tuple[int, ...]
    dtype: str
    device: str
    architecture: str
    media_tokens: tuple[tuple[MediaKind, int], ...] = ()
    """What the model takes besides text, and the id of the token that stands for it in prompts."""
