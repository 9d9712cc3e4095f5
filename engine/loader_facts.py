"""What can be known of a model from its files alone, without torch."""

from __future__ import annotations

from typing import Final

POSITION_FIELDS: Final = (
    "max_position_embeddings",
    "n_positions",
    "max_sequence_length",
    "max_seq_len",
    "seq_length",
)
"""Names under which a config.json says how long a sequence may be, the usual one first."""
