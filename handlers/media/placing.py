"""Where media stand in a prompt: one placeholder each as the template writes it, then a token for each embedding."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence

from engine.types import MediaItem, MediaKind
from handlers.errors import Problem, refused
from handlers.media.collect import WORDS
from handlers.media.parts import MediaPart, PreparedMedia
from handlers.settings import Limits
from handlers.template_faults import Source

MediaTokens = Sequence[tuple[MediaKind, int]]
"""``ModelInfo.media_tokens``: the token that stands for one embedding, by kind."""


def check_placeholders(ids: Sequence[int], parts: Sequence[MediaPart], tokens: MediaTokens, source: Source) -> None:
    """Refuse a prompt in which a part has no placeholder, or more than one.

    Raises:
        Problem: 422 template_error.
    """
    sent = Counter(part.kind for part in parts)
    for kind, token in tokens:
        written = ids.count(token)
        if written == sent[kind]:
            continue
        message = (
            f"{source.subject} leaves {written} places for {WORDS[kind]} where the messages have {sent[kind]}; "
            "each must stand in the prompt exactly once"
        )
        raise refused("template_error", message, source.param)


class Placing:
    """Takes prepared media one after the other, and makes the prompt of them."""

    def __init__(self, ids: Sequence[int], parts: Sequence[MediaPart], tokens: MediaTokens, limits: Limits) -> None:
        """Args:
        ids: the prompt with one placeholder for each part; see ``check_placeholders``.
        parts: all of the request.
        tokens: of the model.
        limits: of the deployment.
        """
        self._ids = ids
        self._most = limits.max_prompt_tokens
        self._kind_of = {token: kind for kind, token in tokens}
        self._prepared: list[PreparedMedia] = []
        self._text_tokens = len(ids) - len(parts)
        self._media_tokens = 0

    def add(self, media: PreparedMedia) -> None:
        """Take the next part's.

        Raises:
            Problem: 424 prompt_too_long, naming the part with which the prompt becomes too long.
        """
        self._prepared.append(media)
        self._media_tokens += media.tokens
        if self._text_tokens + self._media_tokens <= self._most:
            return
        before = self._media_tokens - media.tokens
        others = f", those before it {before}" if before else ""
        message = (
            f"messages has too many tokens: {media.part.param} takes {media.tokens}{others}, "
            f"the text {self._text_tokens}; this deployment takes at most {self._most}"
        )
        raise Problem(424, "prompt_too_long", message, media.part.param)

    def placed(self) -> tuple[list[int], tuple[MediaItem, ...]]:
        """The prompt's ids, and where in them the media stand, in the order of the prompt.

        The k-th placeholder of a kind stands for the k-th part of that kind: templates may put all images of a message
        before its text.
        """
        waiting: dict[MediaKind, deque[PreparedMedia]] = {kind: deque() for kind in self._kind_of.values()}
        for media in self._prepared:
            waiting[media.part.kind].append(media)
        ids: list[int] = []
        items = []
        for token in self._ids:
            kind = self._kind_of.get(token)
            if kind is None:
                ids.append(token)
                continue
            media = waiting[kind].popleft()
            items.append(MediaItem(kind, len(ids), media.tokens, media.content_hash, media.features))
            ids += [token] * media.tokens
        return ids, tuple(items)
