"""The laws of answers and streams, and the codes of requests: an id, one sentence, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tools.laws.breach import Breach

_TELL: Final = "Report it to whoever runs the server."


@dataclass(frozen=True, slots=True)
class Law:
    """A law that answers obey, or a code that requests are refused with."""

    sentence: str
    """What holds."""
    remedy: str = _TELL
    """What to do where it does not."""


CODES: Final[dict[str, Law]] = {
    "json_invalid": Law("A body is strict JSON in UTF-8, without NaN and without a key twice.", "Send strict JSON."),
    "missing": Law("Required members are sent.", "Send the member."),
    "wrong_type": Law("A member has a JSON type that the contract lists for it.", "Send another type."),
    "out_of_range": Law("A member is within its bounds.", "Send a value within the bounds."),
    "too_long": Law("Strings, lists and bodies are no longer than their bounds.", "Send less."),
    "too_deep": Law("Arrays and objects are nested no deeper than the deployment reads.", "Nest less."),
    "unknown_field": Law("Where unknown members are refused, there are none.", "Leave the member out."),
    "body_too_large": Law("A body is no larger than the deployment takes.", "Send less."),
    "media_type": Law("A body is application/json without a Content-Encoding.", "Send application/json, uncompressed."),
    "not_found": Law("A request goes to a path of the contract.", "Use a path of the contract."),
    "method_not_allowed": Law("A path is used with a method that it takes.", "Use the path's own method."),
}
"""Code of a refused request to its law; rules have their own ids (``generated.rules.RULES``)."""

LAWS: Final[dict[str, Law]] = {
    # --- every answer
    "answer-status": Law("A status is one that the contract lists for its operation."),
    "answer-media-type": Law("An answer is application/json, a stream text/event-stream."),
    "answer-json": Law("A JSON answer is strict JSON in UTF-8."),
    "answer-schema": Law("A whole answer obeys the schema of its operation and status."),
    "answer-key-order": Law("The members of answers, choices and usage stand in the contract's order."),
    "answer-as-asked": Law("A request with stream true is answered by a stream, another by a whole answer."),
    "answer-model": Law("An answer names the model as its request did."),
    "answer-id": Law("Where the request has a usable req-id, that is the answer's id."),
    "answer-http": Law("An answer is HTTP/1.1 with a body that can be unpacked."),
    "answer-whole": Law("The server keeps the connection until its answer is whole."),
    # --- errors
    "error-schema": Law("An error has MindIE's flat form or OpenAI's, with type, param and code."),
    "error-form": Law("A server keeps to one form, MindIE's or OpenAI's, in errors and in streams."),
    "error-type-of-status": Law("The error's type is the one of its status."),
    "error-retry-after": Law("A 429 says in Retry-After when to come back."),
    # --- choices
    "choices-count": Law("There are as many choices as were asked for."),
    "choices-in-order": Law("The choices of a whole answer are numbered from 0, in order."),
    "choices-best-first": Law("With best_of above n the choices descend by mean logprob."),
    "finish-fits": Law(
        "A choice with tool calls does not finish with stop; only a choice with calls ends in them.", _TELL
    ),
    "stop-reason-fits": Law("stop_reason is null, or a stop text or stop token of the request that ended it."),
    "stop-text-absent": Law("A stop text is not in the text; where it is included it stands at the very end."),
    "json-answer-parses": Law("A choice held to JSON that ends by itself parses as JSON."),
    "tool-call-asked": Law("Tools are called only where they are in use, each by a listed name."),
    "tool-call-ids": Law("Every tool call has an id of its own."),
    "tool-call-arguments": Law("The arguments of a finished tool call are the text of a JSON object."),
    # --- log probabilities
    "logprobs-as-asked": Law("Log probabilities are there where asked for, and null elsewhere."),
    "logprobs-candidates": Law("Each token has as many candidates as asked for, best first, itself among them."),
    "logprobs-lists": Law("The four lists of completions logprobs are of one length."),
    "logprobs-count": Law("There is one entry of logprobs for each token that usage counts."),
    "text-offset-runs": Law("text_offset is where each token's text begins, in characters."),
    # --- usage
    "usage-adds-up": Law("total_tokens is prompt_tokens plus completion_tokens."),
    "usage-details-fit": Law("cached and reasoning tokens are no more than the tokens they are part of."),
    "usage-rounds": Law("batch_size and queue_wait_time have an entry for each token of the longest choice."),
    "usage-within-max-tokens": Law("No choice has more tokens than max_tokens."),
    "usage-one-prompt": Law("All usages of a stream count the same prompt."),
    "decode-times": Law("decode_time_arr has one entry less than there were rounds."),
    # --- streams
    "stream-headers": Law("A stream is sent with Cache-Control no-cache and X-Accel-Buffering no."),
    "stream-sse": Law("A stream is made of server-sent events, each with data, each ended by an empty line."),
    "stream-json": Law("Each event is strict JSON or [DONE]."),
    "stream-schema": Law("Each event obeys the schema of its operation's events."),
    "stream-one-answer": Law("id, object, created and model are the same in all events."),
    "stream-one-choice": Law("An event has news of one choice; without choices it has the usage."),
    "stream-index": Law("A choice's index is below the number of choices asked for."),
    "stream-role-first": Law("A chat choice opens with a delta of the role and empty content."),
    "stream-role-form": Law("The role stands in every delta of a stream, or only in each choice's first."),
    "stream-text-first": Law("A completions stream has no empty event before its text."),
    "stream-one-finish": Law("Each choice has exactly one finish_reason."),
    "stream-nothing-after-finish": Law("Nothing comes for a choice after its finish_reason."),
    "stream-usage-last": Law(
        "usage stands in each choice's last event, or once in an event of its own at the end.", _TELL
    ),
    "stream-beams-in-one": Law("The answer of a beam search is one event with all choices and the usage."),
    "stream-beam-message": Law("A chat beam has the same text in delta and message."),
    "stream-full-text": Law(
        "full_text is the last delta's text, and each delta before it is a beginning of it.", _TELL
    ),
    "stream-call-starts": Law("A tool call's first piece has index, id, type and name; indices run from 0."),
    "stream-call-goes-on": Law(
        "Later pieces of a tool call have more of its arguments, and no other id or name.", _TELL
    ),
    "stream-error-last": Law("After an error event comes only [DONE]."),
    "stream-done-last": Law("A stream ends with one [DONE], and nothing comes after it."),
}
"""Law of answers and streams by id."""


def broken(law: str, field: str | None, message: str) -> Breach:
    """A breach of a law or code of this module, with its own remedy."""
    return Breach(law, field, message, (LAWS.get(law) or CODES[law]).remedy)
