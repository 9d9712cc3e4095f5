"""Models whose weights and activations are multiplied as int8 (W8A8, one scale a row of activations)."""
