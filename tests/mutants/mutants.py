"""Thirty small mistakes of a server, each an exact change of its source, for judging whatever judges servers.

They were written from the contract alone, by somebody who had not read the laws of ``mindspec conform``. Each breaks a
promise of the contract that a client can see; ``mutant_witnesses`` has the request that shows it.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOMS: Final = ("engine", "generated", "handlers", "tools", "spec")
"""What of the tree a server needs."""


@dataclass(frozen=True, slots=True)
class Change:
    """One replacement of text in one file."""

    path: str
    old: str
    new: str
    within: str = ""
    """The line that begins the class or function in which alone ``old`` is looked for; empty for the whole file."""

    def applied(self, source: str) -> str:
        """The changed source. Raises ValueError unless ``old`` is there exactly once."""
        begin, end = 0, len(source)
        if self.within:
            if source.count(self.within) != 1:
                raise ValueError(f"{self.path} has {source.count(self.within)} times {self.within!r}")
            begin = source.index(self.within)
            follows = re.compile(r"^(?:class|def|async def|@) ?", re.MULTILINE).search(source, begin + len(self.within))
            end = follows.start() if follows else end
        if (found := source.count(self.old, begin, end)) != 1:
            raise ValueError(f"{self.path} has {found} times {self.old!r}")
        return source[:begin] + source[begin:end].replace(self.old, self.new) + source[end:]


@dataclass(frozen=True, slots=True)
class Mutant:
    """One mistake."""

    name: str
    kind: str
    says: str
    changes: tuple[Change, ...]

    def plant(self, source: Path, target: Path) -> None:
        """Copy the tree ``source`` to the new folder ``target``, mistake included. Raises ValueError as ``Change``."""
        copy_tree(source, target)
        for change in self.changes:
            file = target / change.path
            file.write_text(change.applied(file.read_text(encoding="utf-8")), encoding="utf-8")


def copy_tree(source: Path, target: Path) -> None:
    """Copy what a server needs, compiled files and their times too, so that it starts as fast as the original."""
    for room in ROOMS:
        shutil.copytree(source / room, target / room)


_MODELS: Final = "generated/models.py"
_RULES: Final = "generated/rules.py"
_CHAT: Final = "class ChatCompletionRequest(RequestModel):"
_COMPLETION: Final = "class CompletionRequest(RequestModel):"
_PENALTY: Final = "Annotated[float, Field(strict=True, allow_inf_nan=False, ge=-2, le=2)] | None"
_OUTPUT: Final = "engine/text/output.py"
_SAMPLING: Final = "handlers/sampling.py"
_STREAM: Final = "handlers/stream.py"
_USAGE: Final = "handlers/usage.py"
_LOGPROBS: Final = "handlers/logprobs.py"
_MODEL: Final = "engine/mock_model.py"

BOUNDS: Final = (
    Mutant(
        "chat-seed-from-one",
        "bounds",
        "chat refuses seed 0, which only completions may",
        (Change(_MODELS, "seed: Annotated[int, Integer(ge=0,", "seed: Annotated[int, Integer(ge=1,", _CHAT),),
    ),
    Mutant(
        "completions-top-p-below-one",
        "bounds",
        "completions take top_p below 1 only, where 1 is allowed",
        (Change(_MODELS, "gt=1e-06, le=1)", "gt=1e-06, lt=1)", _COMPLETION),),
    ),
    Mutant(
        "chat-frequency-penalty-not-null",
        "bounds",
        "chat refuses frequency_penalty null, which means absent",
        (
            Change(
                _MODELS,
                f"frequency_penalty: {_PENALTY} = None",
                f"frequency_penalty: Annotated[{_PENALTY}, NotNull()] = None",
                _CHAT,
            ),
        ),
    ),
    Mutant(
        "completions-ignore-eos-lax",
        "bounds",
        'completions take "true" and 1 for ignore_eos',
        (Change(_MODELS, "ignore_eos: StrictBool | None", "ignore_eos: bool | None", _COMPLETION),),
    ),
)

RULES: Final = (
    Mutant(
        "completions-stream-best-of-alone",
        "rules",
        "the rule stream-best-of-equals-n is missing on completions",
        (Change(_RULES, 'found.append((_COMPLETION_REQUEST["stream-best-of-equals-n"], path))', "pass"),),
    ),
    Mutant(
        "chat-beams-stop-in-streams-only",
        "rules",
        "chat refuses beams with stop in streams only",
        (
            Change(
                _RULES,
                "not self.use_beam_search or self.stop is None)",
                "not self.use_beam_search or self.stop is None or not self.stream)",
                "def check_chat_completion_request",
            ),
        ),
    ),
    Mutant(
        "completions-stop-longest-counts",
        "rules",
        "completions hold the longest stop string to 32768 characters, not all of them together",
        (
            Change(
                _RULES,
                "sum([len(s) for s in self.stop])",
                "max([len(s) for s in self.stop])",
                "def check_completion_request",
            ),
        ),
    ),
)

STREAMS: Final = (
    Mutant(
        "beams-without-done",
        "streams",
        "the stream of a beam search lacks its [DONE]",
        (Change(_STREAM, 'b"data: " + event + b"\\n\\n" + DONE', 'b"data: " + event + b"\\n\\n"'),),
    ),
    Mutant(
        "role-of-first-choice-only",
        "streams",
        "of a chat stream's choices only the first begins with role and empty content",
        (Change(_STREAM, "+ rest for choice in self._choices)", "+ rest for choice in self._choices[:1])"),),
    ),
    Mutant(
        "chat-usage-after-choices",
        "streams",
        "a chat stream's last events have usage after choices",
        (
            Change(
                _STREAM,
                "members += [self._tally.of_choice(delta), choice.bare, self._role,",
                "members += [choice.bare, self._role,",
            ),
            Change(
                _STREAM,
                'to_json(delta.finish_reason), b"}]}\\n\\n"]',
                'to_json(delta.finish_reason), b"}]", self._tally.of_choice(delta), b"}\\n\\n"]',
            ),
        ),
    ),
    Mutant(
        "completions-event-after-finish",
        "streams",
        "a completions stream sends an empty event of a choice after its finish_reason",
        (
            Change(
                _STREAM,
                '        members.append(b"}\\n\\n")\n',
                '        members.append(b"}\\n\\n")\n'
                "        if delta.finish_reason is not None:\n"
                '            end = b\'"","logprobs":null,"stop_reason":null,"finish_reason":null}]}\\n\\n\'\n'
                "            members += [prefix, end]\n",
            ),
        ),
    ),
)

USAGE: Final = (
    Mutant(
        "end-token-not-counted",
        "usage",
        "completion_tokens leaves out the end-of-sequence or stop token",
        (Change(_OUTPUT, "token_count=len(placed),", "token_count=len(placed) - hidden,"),),
    ),
    Mutant(
        "cached-tokens-are-the-others",
        "usage",
        "cached_tokens counts the prompt tokens that were not in the cache",
        (
            Change(
                _USAGE,
                "cached_tokens=stats.cached_tokens)",
                "cached_tokens=stats.prompt_tokens - stats.cached_tokens)",
            ),
        ),
    ),
    Mutant(
        "whole-usage-of-first-choice",
        "usage",
        "completion_tokens of a whole answer counts the first choice alone",
        (
            Change(
                _USAGE,
                "tokens = sum(choice.token_count for choice in gathered)",
                "tokens = gathered[0].token_count",
            ),
        ),
    ),
    Mutant(
        "stream-usage-sums-choices",
        "usage",
        "the usage in a choice's last event counts the tokens of all choices so far",
        (Change(_STREAM, "count = self._tokens[delta.index]", "count = sum(self._tokens)"),),
    ),
)

SEEDS: Final = (
    Mutant(
        "seed-not-in-streams",
        "seed",
        "streams ignore the seed",
        (Change(_SAMPLING, "if body.seed is None else", "if body.seed is None or body.stream else"),),
    ),
    Mutant(
        "seed-up-to-int64",
        "seed",
        "a seed of 2^63 and more counts as none",
        (Change(_SAMPLING, "if body.seed is None else", "if body.seed is None or body.seed >= 2**63 else"),),
    ),
    Mutant(
        "seed-of-first-choice-only",
        "seed",
        "the seed fixes the first choice alone; the others differ each time",
        (
            Change(_MODEL, "import math\n", "import math\nimport random\n"),
            Change(
                _MODEL,
                "voice.draw_key = mix(mix(seed) ^ mix(choice))",
                "voice.draw_key = random.getrandbits(64) if choice else mix(mix(seed) ^ mix(choice))",
            ),
        ),
    ),
)

STOPS: Final = (
    Mutant(
        "stop-kept-at-the-last-token",
        "stop",
        "a stop string that ends with the last token of max_tokens stays in the text",
        (
            Change(
                _OUTPUT,
                "if stop_string is not None and not self._include_stop:",
                "if stop_string is not None and not self._include_stop and not last:",
            ),
        ),
    ),
    Mutant(
        "stop-cuts-white-space",
        "stop",
        "white space before a stop string that came with its first token is cut too",
        (
            Change(
                _OUTPUT,
                "text = text[: len(text) - len(stop_string)]",
                "text = text[: len(text) - len(stop_string)].rstrip()",
            ),
        ),
    ),
    Mutant(
        "stop-at-token-ends-only",
        "stop",
        "a stop string is found only where it ends with a token",
        (
            Change(
                "engine/text/stops.py",
                "match = stops.state(state).match if state else None",
                "match = stops.state(state).match if state and position == len(text) - 1 else None",
            ),
        ),
    ),
    Mutant(
        "stop-reason-no-token-in-streams",
        "stop",
        "stop_reason is null in streams where a stop token ended the choice",
        (
            Change(
                _STREAM,
                "to_json(delta.stop_reason)",
                "to_json(delta.stop_reason if isinstance(delta.stop_reason, str) else None)",
            ),
        ),
    ),
    Mutant(
        "include-stop-no-token",
        "stop",
        "include_stop_str_in_output keeps stop strings, but not the text of stop tokens",
        (Change(_OUTPUT, "hidden = ends and not (by_stop_token and self._include_stop)", "hidden = ends"),),
    ),
)

CHOICES: Final = (
    Mutant(
        "n-before-best-of",
        "choices",
        "with n and best_of both given, n choices are returned",
        (
            Change(
                _SAMPLING,
                "by_best_of = not beams and body.best_of is not None",
                "by_best_of = not beams and body.best_of is not None and body.n is None",
            ),
        ),
    ),
    Mutant(
        "ranked-by-sum",
        "choices",
        "choices of best_of are ranked by the sum of their logprobs, which favours short ones",
        (Change("handlers/running.py", "-choice.mean_logprob)", "-choice.logprob_sum)"),),
    ),
    Mutant(
        "beam-indices-zero",
        "choices",
        "all choices of a streamed beam search on completions have index 0",
        (Change("handlers/completions.py", "index=index,", "index=0,", "\ndef beam_chunk("),),
    ),
)

LOGPROBS: Final = (
    Mutant(
        "logprobs-after-temperature",
        "logprobs",
        "log probabilities are those after temperature",
        (
            Change(
                "engine/mock.py",
                "self._model.logprobs(voice, token_id, sampling.logprobs)",
                "self._model.logprobs(voice, token_id, sampling.logprobs, sampling.temperature)",
            ),
            Change(
                _MODEL,
                "def logprobs(self, voice: Voice, token_id: int, wanted: int | None)",
                "def logprobs(self, voice: Voice, token_id: int, wanted: int | None, temperature: float = 1.0)",
            ),
            Change(
                _MODEL,
                "        logprob = values[ids.index(token_id)]",
                "        if temperature >= GREEDY_BELOW:\n"
                "            scaled = [(value - values[0]) / temperature for value in values]\n"
                "            values = _normal([math.exp(max(value, -500.0)) for value in scaled])\n"
                "        logprob = values[ids.index(token_id)]",
            ),
        ),
    ),
    Mutant(
        "chosen-token-not-first",
        "logprobs",
        "top_logprobs of completions are ordered by probability, wherever the chosen token stands among them",
        (
            Change(
                _LOGPROBS,
                "    return found\n",
                "    return dict(sorted(found.items(), key=lambda pair: -pair[1]))\n",
            ),
        ),
    ),
    Mutant(
        "bytes-of-the-shown-text",
        "logprobs",
        "bytes are those of the token's text, which has U+FFFD for parts of characters",
        (
            Change(_LOGPROBS, "bytes=list(token.token.raw)", "bytes=list(token.token.text.encode())"),
            Change(_LOGPROBS, "bytes=list(other.raw)", "bytes=list(other.text.encode())"),
        ),
    ),
    Mutant(
        "text-offset-runs-on-in-bytes",
        "logprobs",
        "text_offset of a whole answer's later choices counts the earlier ones in UTF-8 bytes",
        (Change("handlers/completions.py", "offset += len(choice.text)", "offset += len(choice.text.encode())"),),
    ),
)

MUTANTS: Final = (*BOUNDS, *RULES, *STREAMS, *USAGE, *SEEDS, *STOPS, *CHOICES, *LOGPROBS)
