"""An encoder without a model: an item's embeddings are pairs of its content's number and the row's."""

from __future__ import annotations

from dataclasses import replace

import torch
from fake_runner import AXES, seen
from torch import nn

from engine.multimodal.desk import MediaDesk
from engine.multimodal.features import content_hash, save_features
from engine.types import MediaItem

PLACEHOLDER = 3
"""A token that texts have as well."""
CONTENTS = ((1, 1), (3, 2), (4, 6), (6, 3), (3, 2))
"""Tokens of each content, and by how much the place behind it is further on."""
HIDDEN = 2


class FakeEncoder:
    """Takes images. Its module is entered once for each row."""

    def __init__(self):
        self.token_ids = {"image": PLACEHOLDER}
        self.module = nn.Identity()
        self.encoded = []
        """Contents, in the order in which they were begun."""
        self.rows = 0
        """How often the module ran."""
        self.fails = frozenset()
        """Contents that cannot be encoded."""
        self.gives = {}
        """Content -> embeddings that it gives instead of its own."""

    def encode(self, kind, features):
        """See ``MediaEncoder.encode``."""
        content = int(features["content"])
        self.encoded.append(content)
        rows = []
        for row in range(CONTENTS[content][0]):
            rows.append(self.module(torch.tensor([float(content), float(row)])))
            self.rows += 1
        if content in self.fails:
            raise RuntimeError("the device is gone")
        return self.gives.get(content, torch.stack(rows))

    def stops(self, kind):
        """See ``MediaEncoder.stops``."""
        return [self.module]

    def positions(self, kind, features):
        """See ``MediaEncoder.positions``."""
        content = int(features["content"])
        return places_of(content), CONTENTS[content][1]

    def position_features(self, kind):
        """See ``MediaEncoder.position_features``."""
        return ["content"]


class CountingClock:
    """Each look at it takes a millisecond."""

    def __init__(self):
        self.now_s = 0.0

    def __call__(self):
        self.now_s += 0.001
        return self.now_s


def places_of(content):
    """int64 ``[axes, tokens]``: one place for all on the first axis, and each its own, twice as far, on the second."""
    tokens = torch.arange(CONTENTS[content][0])
    return torch.stack([tokens * 0, tokens * 2])


def make_desk(encoder=None, *, slice_s=0.002, cache_bytes=1 << 20, **options):
    """A desk that keeps time by a counting clock."""
    clock = options.pop("clock", None) or CountingClock()
    return MediaDesk(
        encoder or FakeEncoder(),
        HIDDEN,
        torch.float32,
        slice_s=slice_s,
        cache_bytes=cache_bytes,
        clock=clock,
        **options,
    )


def write_contents(folder):
    """The encoder's input for every content: their paths and hashes."""
    files = []
    for content in range(len(CONTENTS)):
        features = {"content": torch.tensor(content)}
        path = folder / str(content)
        save_features(path, features)
        files.append((str(path), content_hash("image", features)))
    return files


def with_media(asked, parts, files):
    """``asked`` with a prompt of ``parts``: lists of tokens, and numbers of contents."""
    prompt, items = [], []
    for part in parts:
        if isinstance(part, int):
            tokens = CONTENTS[part][0]
            items.append(MediaItem("image", len(prompt), tokens, files[part][1], files[part][0]))
            prompt += [PLACEHOLDER] * tokens
        else:
            prompt += part
    return replace(asked, prompt_ids=tuple(prompt), media=tuple(items))


def seen_by_model(parts):
    """What makes of a context that begins with ``parts`` what its tokens are to the fake runner, as ``generate`` does.

    Behind the prompt the places go on behind the largest of its last token's, on all axes.
    """
    rows, place = [], 0
    for part in parts:
        if isinstance(part, int):
            rows += [
                ((part, row), [at + place for at in places]) for row, places in enumerate(places_of(part).T.tolist())
            ]
            place += CONTENTS[part][1]
        else:
            rows += [(token, [place + index] * AXES) for index, token in enumerate(part)]
            place += len(part)
    largest = max(rows[-1][1])
    plain = not any(isinstance(part, int) for part in parts)

    def make(context):
        if plain:
            return list(context)
        answer = [(token, [largest + 1 + index] * AXES) for index, token in enumerate(context[len(rows) :])]
        return [seen(token, places, index) for index, (token, places) in enumerate([*rows, *answer])]

    return make
