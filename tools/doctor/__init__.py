"""`mindspec doctor`: why a model does not run on an NPU of this machine, each fault with its remedy."""
