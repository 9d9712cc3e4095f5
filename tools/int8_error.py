"""Measures what int8 weights cost a model on this CPU: its native step's logits against the float32 model's."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from engine.without_torchvision import leave_out_torchvision

PROMPTS = (
    "Why is the sky blue in the day and red in the evening? Explain it to a child of ten years.",
    "Write a Python function that returns the n-th Fibonacci number, with a docstring and two tests.",
    "Summarise: The meeting was moved from Tuesday to Thursday, since two of the five members are travelling until "
    "then. The agenda stays as it was sent, but the budget comes first.",
    "Translate into French: The library opens at nine and closes at six, except on Sundays.",
    "A train leaves at 14:20 and arrives at 17:05. It stops three times for four minutes. How long does it move?",
    "List five vegetables that grow in shade, and for each one sentence on when to sow it.",
    "Once upon a time, at the edge of a very old forest, there lived a fox who could not sleep.",
    "Which is larger, the population of Norway or of Switzerland? Answer in one sentence, then say how sure you are.",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each kind of weights; returns the exit status."""
    options = _options().parse_args(arguments)
    import torch

    leave_out_torchvision()
    from engine.loader import load
    from engine.native.load import build_native
    from engine.native.rounding import compare, logits_in_pieces
    from engine.plan import Plan, Span
    from engine.text.tokenizer import tokenizer_from_folder
    from engine.torch_runner import PAGE_SIZE

    tokenizer = tokenizer_from_folder(options.model)
    loaded = load(options.model, dtype="bfloat16", device="cpu")
    runners = {
        weights: build_native(loaded, page_size=PAGE_SIZE, max_tokens=4096, threads=options.threads, weights=weights)
        for weights in ("bf16", "int8")
    }
    texts = []
    for prompt in PROMPTS:
        tokens = tokenizer.encode(prompt, add_special_tokens=True)
        pages = range(-(-(len(tokens) + options.answer) // PAGE_SIZE))
        step = tokens
        for _ in range(options.answer):
            logits = runners["bf16"].run(Plan([Span(pages, len(tokens) - len(step), step, True)], 1))
            step = [int(logits.argmax())]
            tokens = [*tokens, *step]
        texts.append(tokens)
    found = {
        weights: torch.cat([logits_in_pieces(runner, tokens, 1)[1] for tokens in texts])
        for weights, runner in runners.items()
    }
    with torch.inference_mode():
        model = loaded.model
        found["transformers bf16"] = torch.cat(
            [model(input_ids=torch.tensor([tokens])).logits[0].float() for tokens in texts]
        )
        exact = model.float()
        wanted = torch.cat([exact(input_ids=torch.tensor([tokens])).logits[0] for tokens in texts])
    print(f"{len(texts)} prompts with {options.answer} tokens of answer each; against the float32 model:")
    for weights, logits in found.items():
        distance = compare(logits, wanted)
        print(
            f"{weights:18s} mean |logit difference| {distance.error:.3f} ({distance.share:.1%} of their spread)  "
            f"KL {distance.divergence:.5f}  same argmax {distance.same_best} of {distance.rows}"
        )
    return 0


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.int8_error", description=__doc__)
    parser.add_argument("model", type=Path, help="model folder with a tokenizer")
    parser.add_argument("--answer", type=int, default=48, metavar="TOKENS", help="drawn greedily after each prompt")
    parser.add_argument("--threads", type=int, default=1)
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
