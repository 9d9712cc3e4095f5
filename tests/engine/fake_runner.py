"""A model runner without a model: pages hold numbers, and logits are a hash of what is read back from them."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
import torch

from engine.sampling.selector import TorchSelector
from engine.types import ModelInfo

VOCAB = 16
"""Small, so that choices meet again and stop tokens are hit."""
PERIOD = 5
"""Of answers in a rhythm, in tokens: 0, 1, 2, 3, 4."""
GARBAGE = -(2**62)
AXES = 2
"""Of places, in prompts with media."""


class FakeRunner:
    """Each position of a page holds a hash of its token and of *everything that the pages held before it*.

    Logits depend on all entries from the first to the last. So a wrong page, a copy that is missing, a stale prefix
    or a write into a shared page changes what comes out, as it would in a model. It also checks what it is told:
    decode rows first, one page is not written by two spans, extents ascend without gaps and belong to one sequence.
    """

    def __init__(
        self, *, page_size=4, num_pages=64, contiguous=False, eos=(), vocab=VOCAB, max_positions=None, rhythm=0.0
    ):
        positions = max_positions or num_pages * page_size
        self.info = ModelInfo(vocab, positions, tuple(eos), "float32", "cpu", "Fake")
        self.page_size = page_size
        self.num_pages = num_pages
        self.contiguous_pages = contiguous
        self.same_bits = True
        self.bytes_per_page = 8 * page_size
        self.selector = TorchSelector()
        self.pages = np.full((num_pages, page_size), GARBAGE, dtype=np.int64)
        self.plans = []
        self.tokens_run = 0
        self.copied = 0
        self.parts_copied = 0
        self.loads = 100
        self.fail_in = None
        """Raise in so many calls of ``run`` from now."""
        self.fail_copies = False
        self.adapters = {}
        """Loaded ones: what each of them does, a number."""
        self.poisoned = frozenset()
        """Contexts that end with one of these tokens give NaN."""
        self.rhythm = rhythm
        """Added to the logit of one token, which a context's length says; so that answers repeat."""

    def run(self, plan):
        """See ``ModelRunner.run``."""
        self._check(plan)
        self.plans.append(
            ([span.start for span in plan.spans], [len(span.token_ids) for span in plan.spans], plan.decode_count)
        )
        if self.fail_in is not None:
            self.fail_in -= 1
            if self.fail_in <= 0:
                self.fail_in = None
                raise RuntimeError("the device is gone")
        rows = []
        for span in plan.spans:
            pages = list(span.pages)
            unwanted = len(span.token_ids) - span.wanted
            held = self.pages[pages].reshape(-1)[: span.start].tolist()
            for index, token in enumerate(_seen(span)):
                entry = _entry(held, token, self.adapters[span.adapter] if span.adapter else 0)
                page, place = divmod(len(held), self.page_size)
                self.pages[pages[page], place] = entry
                held.append(entry)
                if index >= unwanted:
                    row = logits_of(held, self.info.vocab_size, self.rhythm)
                    rows.append(row * float("nan") if token in self.poisoned else row)
            self.tokens_run += len(span.token_ids)
        return torch.stack(rows) if rows else torch.empty(0, self.info.vocab_size)

    def copy_pages(self, source, target):
        """See ``ModelRunner.copy_pages``."""
        if self.fail_copies:
            raise RuntimeError("no copy")
        assert len(source) == len(target)
        assert not set(source) & set(target)
        for old, new in zip(source, target, strict=True):
            self.pages[new] = self.pages[old]
        self.copied += len(target)

    def copy_beginning(self, source, target, tokens):
        """See ``ModelRunner.copy_beginning``; what is behind is no entry of anything."""
        if self.fail_copies:
            raise RuntimeError("no copy")
        assert 0 < tokens <= self.page_size
        beginning = self.pages[source, :tokens].copy()
        assert GARBAGE not in beginning, "a part is copied that was never computed"
        self.pages[target] = GARBAGE
        self.pages[target, :tokens] = beginning
        self.parts_copied += 1

    def load_adapter(self, name, tensors):
        """See ``ModelRunner.load_adapter``; ``tensors`` is a number that goes into all hashes."""
        self.loads += 1
        self.adapters[self.loads] = tensors
        return self.loads

    def unload_adapter(self, adapter):
        """See ``ModelRunner.unload_adapter``."""
        del self.adapters[adapter]

    def _check(self, plan):
        written = {}
        owned = {}
        for place, span in enumerate(plan.spans):
            end = span.start + len(span.token_ids)
            assert span.token_ids
            assert end <= len(span.pages) * self.page_size
            if place < plan.decode_count:
                assert len(span.token_ids) == span.wanted
            else:
                assert span.wanted <= 1
            for index in range(span.start // self.page_size, (end - 1) // self.page_size + 1):
                assert written.setdefault(span.pages[index], place) == place, "two spans write to one page"
            if self.contiguous_pages:
                assert list(span.pages) == list(range(span.pages[0], span.pages[0] + len(span.pages)))
                for page in span.pages:
                    assert owned.setdefault(page, place) == place, "an extent is not its sequence's own"
        for place, span in enumerate(plan.spans):
            for index, page in enumerate(span.pages[: -(-span.start // self.page_size)]):
                if page in written and written[page] != place:
                    raise AssertionError(f"page {index} of a sequence is written by another one")


def seen(token, places, position):
    """What a token's hash is of: also its places, where these are not its position. An embedding is given as a pair."""
    what = token if isinstance(token, int) else 10**6 + 1000 * token[0] + token[1]
    return what + sum(10 ** (8 + 3 * axis) * (place - position) for axis, place in enumerate(places))


def _seen(span):
    """What the tokens of a span are to the model. Rows with a content's number have to bring their embedding."""
    if span.media is None and not span.shift:
        assert min(span.token_ids) >= 0, "a content's number reached the model"
        return span.token_ids
    tokens = list(span.token_ids)
    places = [[position + span.shift] * AXES for position in range(span.start, span.start + len(tokens))]
    if span.media is not None:
        for first, rows in span.media.embeddings:
            tokens[first : first + len(rows)] = [(int(content), int(row)) for content, row in rows]
        if span.media.places is not None:
            places = span.media.places.T.tolist()
    assert all(isinstance(token, tuple) or token >= 0 for token in tokens), "a row has no embedding"
    return [seen(*row, span.start + index) for index, row in enumerate(zip(tokens, places, strict=True))]


def _entry(held, token, adapter):
    return _hash(np.array([*held, token + 1000 * adapter], dtype=np.int64))


def _hash(data):
    return int.from_bytes(blake2b(data.tobytes(), digest_size=8).digest(), "little", signed=True)


def logits_of(held, vocab, rhythm=0.0):
    """Float32 ``[vocab]``, a pure function of the entries ``held``, from -4 to 4, all different.

    To one of them, chosen by the number of entries, ``rhythm`` is added.
    """
    seed = _hash(np.array(held, dtype=np.int64)) & (2**63 - 1)
    noise = np.random.Generator(np.random.Philox(seed)).permutation(vocab * 8)[:vocab]
    noise = noise / vocab - 4.0
    noise[len(held) % PERIOD] += rhythm
    return torch.from_numpy(noise.astype(np.float32))


def context_logits(token_ids, vocab=VOCAB, adapter=0, rhythm=0.0):
    """The logits after a context, computed without pages, with what an adapter does."""
    held = []
    for token in token_ids:
        held.append(_entry(held, token, adapter))
    return logits_of(held, vocab, rhythm)
