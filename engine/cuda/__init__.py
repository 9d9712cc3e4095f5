"""NVIDIA GPUs; nothing here is imported where the model runs on another device."""
