"""Whether a model fits the packed seam: its layers' shapes, and a comparison with its own dense forward at load."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from engine.attention.registry import ATTENTION_NAME, LayerShape, ShapeProbe, register
from engine.forward import ModelMismatch, rope_switch
from engine.plan import ModelRunner, Plan, Span

_CHECK_WINDOW = 5
"""Windows are narrowed to this many tokens while the check runs, so that a short prompt reaches beyond them."""
_WINDOW_FIELDS = ("sliding_window", "attention_chunk_size")
_TRIAL = 8
"""Tokens of a step in which single modules are compared; no page is smaller."""
_TAIL = 12
"""Tokens of the check's prompt beyond one page."""
_DECODED = 4
"""Tokens of them that are run one by one."""
_TOLERANCE = 1e-3
"""Largest error of a row in float32, as a part of the spread of its logits."""
TOLERANCE_HALF = 0.15
"""The same in half precision for the median row: single rows may differ more where an expert is chosen by a hair."""


def refuse_by_kind(model: Any, max_positions: int) -> None:
    """Raise ModelMismatch for models that cannot run packed, by what they say about themselves."""
    name = type(model).__name__
    if model.config.is_encoder_decoder:
        raise ModelMismatch(f"{name} is an encoder-decoder.")
    if not getattr(model, "_supports_attention_backend", False):
        raise ModelMismatch(f"{name} does not call its attention through transformers' attention interface.")
    switch = rope_switch(model.config)
    if switch is not None and switch < max_positions:
        raise ModelMismatch(f"{name} rotates all positions anew when a sequence grows past {switch} tokens.")


def layer_shapes(model: Any) -> list[LayerShape]:
    """The heads of each attention layer of a model whose attention goes through the seam; see :func:`probe_layers`."""
    probe = _probe(model)
    return [probe.shapes[layer] for layer in range(len(probe.shapes))]


def probe_layers(model: Any) -> ShapeProbe:
    """What each layer of a model asks of its attention; which attention the model has does not change.

    Raises:
        ModelMismatch: layers that do not attend through transformers' interface, or not in the known way.
    """
    own_attention = model.config.get_text_config()._attn_implementation
    register()
    model.set_attn_implementation(ATTENTION_NAME)
    try:
        return _probe(model)
    finally:
        model.set_attn_implementation(own_attention)


@torch.inference_mode()
def _probe(model: Any) -> ShapeProbe:
    """The heads and rules of each layer, found by a forward of two tokens in which no row attends.

    Raises:
        ModelMismatch: layers that do not attend through the seam, or not in the known way.
    """
    probe = ShapeProbe()
    tokens = torch.zeros((1, 2), dtype=torch.int64, device=model.device)
    positions = torch.arange(2, device=model.device)[None]
    model(input_ids=tokens, position_ids=positions, use_cache=False, logits_to_keep=positions[0, :1], plan=probe)
    layers = model.config.get_text_config().num_hidden_layers
    if sorted(probe.shapes) != list(range(layers)):
        raise ModelMismatch(
            f"{len(probe.shapes)} of the {layers} layers of {type(model).__name__} are attention that can run packed."
        )
    return probe


@contextmanager
def narrow_windows(model: Any) -> Iterator[None]:
    """Let sliding windows be a few tokens wide for a while, in the configuration and in the modules that copied it."""
    config = model.config.get_text_config()
    holders = [config, *model.modules()]
    changed: list[tuple[Any, str, int]] = []
    for field in _WINDOW_FIELDS:
        width = getattr(config, field, None)
        if isinstance(width, int) and width > _CHECK_WINDOW:
            changed += [(holder, field, width) for holder in holders if getattr(holder, field, None) == width]
    try:
        for holder, field, _ in changed:
            setattr(holder, field, _CHECK_WINDOW)
        yield
    finally:
        for holder, field, width in changed:
            setattr(holder, field, width)


def check_tokens(vocab_size: int, page_size: int, max_positions: int) -> list[int]:
    """The prompt of the check: a little longer than a page."""
    count = min(page_size + _TAIL, max_positions)
    return [(7 + 31 * index + index * index // 5) % vocab_size for index in range(count)]


def trial_plan(tokens: list[int]) -> Plan:
    """A step of a few tokens at the start of the memory, whose modules' inputs are worth comparing."""
    return Plan([Span([0], 0, tokens[:_TRIAL], True)], 0)


@torch.inference_mode()
def dense_logits(model: Any, tokens: list[int], vocab_size: int) -> Tensor:
    """The model's own answer, one sequence at once without a cache: float32 ``[tokens, vocab]``."""
    input_ids = torch.tensor([tokens], device=model.device)
    logits: Tensor = model(input_ids=input_ids, use_cache=False, return_dict=True).logits
    return logits[0, :, :vocab_size].float()


def check(
    runner: ModelRunner, tokens: list[int], wanted: Tensor, dtype: torch.dtype, tolerance_half: float = TOLERANCE_HALF
) -> None:
    """Run the check's prompt packed, in pieces, one by one in company and after a copied page; compare the logits.

    Args:
        runner: with at least three times the pages of the prompt.
        tokens: the prompt.
        wanted: its dense logits, float32 ``[tokens, vocab]``.
        dtype: of the weights.
        tolerance_half: largest error in half precision of the median row, as a part of the spread of its logits.

    Raises:
        ModelMismatch: they differ by more than rounding.
    """
    size, count = runner.page_size, len(tokens)
    per_sequence = -(-count // size)
    pages = [list(range(index * per_sequence, (index + 1) * per_sequence)) for index in range(3)]
    if 3 * per_sequence > runner.num_pages:
        raise ModelMismatch(
            f"its memory for keys and values holds {runner.num_pages} pages of {size} tokens, too few to run anything."
        )

    def span(sequence: int, start: int, stop: int) -> Span:
        return Span(pages[sequence], start, tokens[start:stop], True)

    most, half = count - _DECODED, (count - _DECODED) // 2
    copied = size if size < most - 1 else 0
    steps = [
        Plan([span(0, 0, most), span(1, 0, half)], 0),
        Plan([span(0, most, most + 1), span(1, half, most - 1)], 1),
    ]
    found: list[tuple[int, Tensor]] = []
    for plan in steps:
        found += _rows(runner, plan)
    if copied:
        runner.copy_pages(pages[0][:1], pages[2][:1])
    found += _rows(runner, Plan([span(0, most + 1, most + 2), span(1, most - 1, most), span(2, copied, most)], 2))
    for offset in range(_DECODED - 2):
        at = most + offset
        found += _rows(runner, Plan([span(1, at, at + 1), span(2, at, at + 1), span(0, at + 2, at + 3)], 3))

    rows = torch.tensor([row for row, _ in found])
    logits = torch.stack([row for _, row in found])  # [rows, vocab]
    errors = row_errors(logits, wanted[rows])
    whole = dtype in (torch.float32, torch.float64)
    error = (errors.amax() if whole else errors.median()).item()
    if not error <= (_TOLERANCE if whole else tolerance_half):
        raise ModelMismatch(f"its packed logits differ from its dense ones by {error:.2g} of their spread.")


def row_errors(found: Tensor, wanted: Tensor) -> Tensor:
    """Root mean square difference of each row of logits as a part of the wanted row's spread: ``[rows, vocab]`` to
    ``[rows]``."""
    spread = (wanted - wanted.mean(dim=-1, keepdim=True)).square().mean(dim=-1).sqrt().clamp_min(1e-6)
    return (found - wanted).square().mean(dim=-1).sqrt() / spread


def _rows(runner: ModelRunner, plan: Plan) -> list[tuple[int, Tensor]]:
    """Run a plan: per span the position of its last token, and the logits after it."""
    logits = runner.run(plan)
    return [(span.start + len(span.token_ids) - 1, row) for span, row in zip(plan.spans, logits, strict=True)]
