"""What a model gets in a step whose spans have media: places of its own, and embeddings in place of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn
from torch.nn.functional import pad

from engine.plan import Span


def media_inputs(
    token_ids: Tensor, positions: Tensor, spans: Sequence[Span], last_rows: Sequence[int], table: nn.Module
) -> dict[str, Any]:
    """Keywords for the model's forward.

    Args:
        token_ids: of the step's rows, ``[1, tokens]``.
        positions: of them, ``[1, tokens]``.
        spans: of the step.
        last_rows: of each span its last row; its rows are a run.
        table: the model's embeddings of tokens.
    """
    keywords: dict[str, Any] = {"input_ids": token_ids, "position_ids": positions}
    axes = max((len(span.media.places) for span in spans if span.media and span.media.places is not None), default=0)
    if axes or any(span.shift for span in spans):
        places = positions.expand(axes, 1, -1).clone() if axes else positions.clone()  # [(axes,) 1, tokens]
        for span, last in zip(spans, last_rows, strict=True):
            rows = slice(last + 1 - len(span.token_ids), last + 1)
            if span.media is not None and span.media.places is not None:
                places[:, 0, rows] = span.media.places.to(places.device)
            elif span.shift:
                places[..., rows] += span.shift
        keywords["position_ids"] = places
    if any(span.media and span.media.embeddings for span in spans):
        embeddings: Tensor = table(token_ids.clamp(min=0))  # [1, tokens, hidden]
        width = max(piece.shape[-1] for span in spans if span.media for _, piece in span.media.embeddings)
        # Of media, inner layers may read more than the first; see ``MediaEncoder.width``.
        embeddings = pad(embeddings, (0, width - embeddings.shape[-1]))
        for span, last in zip(spans, last_rows, strict=True):
            first = last + 1 - len(span.token_ids)
            for row, piece in span.media.embeddings if span.media else ():
                embeddings[0, first + row : first + row + len(piece)] = piece.to(embeddings.device)
        del keywords["input_ids"]
        keywords["inputs_embeds"] = embeddings
    return keywords
