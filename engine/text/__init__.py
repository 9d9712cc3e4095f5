"""From token ids to text: incremental decoding, stop strings and token pieces."""
