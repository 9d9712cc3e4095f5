"""Ascend NPUs through torch_npu; nothing here is imported where the model runs on another device."""
