"""Prompts of a wanted length in tokens, each load's salted so that no cache of an earlier one helps."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Final

_SUBJECTS: Final = (
    "The ferry pilot",
    "A patient teacher",
    "The night baker",
    "Our neighbour",
    "The museum guard",
    "A young surveyor",
    "The clock maker",
    "Somebody on the committee",
    "The harbour office",
    "A retired engineer",
)
_ACTIONS: Final = (
    "kept a careful record of",
    "wrote a long letter about",
    "could never quite explain",
    "asked three friends to look at",
    "spent the whole winter on",
    "drew a small map of",
    "finally repaired",
    "told the children a story about",
    "argued in the newspaper over",
)
_OBJECTS: Final = (
    "the bridge behind the mill",
    "an orchard that floods each spring",
    "the price of copper and salt",
    "a timetable that nobody reads",
    "the oldest lamp in the street",
    "a box of unlabelled photographs",
    "the weather of that remarkable year",
    "two ships lost near the northern cape",
    "a violin with a cracked neck",
    "the water supply of the upper town",
)
_ENDS: Final = (
    ", and nobody was surprised.",
    " before the first snow fell.",
    ", although the evidence was thin.",
    "; the costs were shared by all.",
    " while the others waited outside.",
    ", as the minutes of the meeting show.",
    " and then changed the subject.",
    ".",
)
_QUESTIONS: Final = (
    "Who is named first in the text, and why does it matter?",
    "Which of these events could have happened in winter?",
    "Write the next paragraph in the same tone.",
    "Put the main points into one sentence.",
    "What would a careful reader doubt here?",
    "Describe the place where all this happened.",
    "Which detail seems the least likely?",
    "Continue with a conversation between two of these people.",
)

Count = Callable[[str], int]
"""Tokens of a text."""


def token_counter(folder: Path) -> Count:
    """Counts with the tokenizer of a model folder.

    Raises:
        OSError, ValueError: the folder holds no usable tokenizer.json.
    """
    from tokenizers import Tokenizer

    if not (folder / "tokenizer.json").is_file():
        raise ValueError(f"{folder} holds no tokenizer.json")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


def prose(count: Count, tokens: int, seed: int) -> str:
    """Whole sentences, then words, up to ``tokens`` tokens; the same for the same seed."""
    chance = random.Random(seed)
    text = ""
    while count(text) < tokens:
        words = [chance.choice(part) for part in (_SUBJECTS, _ACTIONS, _OBJECTS)]
        text += (" " if text else "") + " ".join(words) + chance.choice(_ENDS)
    words = text.split(" ")
    while len(words) > 1 and count(" ".join(words)) > tokens:
        words.pop()
    return " ".join(words)


class Prompts:
    """Makes the prompts of one run. Texts are kept, salts differ from load to load."""

    def __init__(self, count: Count, run: int) -> None:
        """``run`` marks this run in every salt, for servers that were running before; 0 to 999999."""
        self._count = count
        self._run = run
        self._texts: dict[tuple[int, int], str] = {}

    def separate(self, load: int, requests: int, tokens: int) -> list[str]:
        """Prompts of about ``tokens`` tokens that have nothing but the run's number in common."""
        made = []
        for index in range(requests):
            head = f"{self._salt(load, index)} "
            tail = f"\n\n{_QUESTIONS[index % len(_QUESTIONS)]}"
            made.append(head + self._text(max(1, tokens - self._count(head) - self._count(tail)), index) + tail)
        return made

    def sharing(self, load: int, requests: int, tokens: int) -> list[str]:
        """Prompts with a common beginning of about ``tokens`` tokens and a short question of their own."""
        head = f"{self._salt(load, 0)} "
        shared = head + self._text(max(1, tokens - self._count(head)), -1)
        return [f"{shared}\n\nQuestion {i + 1}: {_QUESTIONS[i % len(_QUESTIONS)]}" for i in range(requests)]

    def _salt(self, load: int, index: int) -> str:
        # Fixed width: the same number of tokens each time. What differs stands first, within any cache's first block.
        return f"{index:03d}-{load:05d}-{self._run:06d}:"

    def _text(self, tokens: int, seed: int) -> str:
        if (tokens, seed) not in self._texts:
            self._texts[tokens, seed] = prose(self._count, tokens, seed)
        return self._texts[tokens, seed]
