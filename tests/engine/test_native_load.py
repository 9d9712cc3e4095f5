"""Which models run on the native step when a server loads them, what is said about the others, and what is left."""

from __future__ import annotations

import dataclasses
import gc
import resource
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from native_models import FAMILIES, PAGE, hide_compilers, loaded, model, need_native, tokens
from packed_play import finish, greedy

from engine import torch_runner
from engine.forward import ModelMismatch
from engine.loader import cpu_flags
from engine.native import load
from engine.native.library import Library, MappedMemory
from engine.native.pages_ahead import AHEAD_BYTES
from engine.native.runner import NativeRunner
from engine.native.variants import VARIANTS, NativeUnavailable
from engine.packed_loader import load_executor
from engine.plan import Plan, Span
from engine.process import EngineSpec, _load
from engine.torch_runner import TorchRunner
from tests.engine import families
from tools.weights import default_model_folder

MEMORY = 64 << 20


@pytest.fixture(autouse=True)
def _own_thread_count() -> Any:
    """Loading changes how many threads torch has."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tiny Llama in bfloat16."""
    model("llama").save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def executor(folder: Path, cache: Path, **options: Any) -> Any:
    """What a server would run."""
    given = {"dtype": "bfloat16", "device": "cpu", "page_size": PAGE, "memory_bytes": MEMORY, "threads": 2, **options}
    return load_executor(str(folder), native_cache=str(cache), **given)


def _said(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was logged about the step; these folders have no tokenizer, of which grammars warn."""
    return [record.getMessage() for record in caplog.records if not record.name.startswith("engine.grammar")]


def test_a_bfloat16_model_runs_natively(folder: Path, library_cache: Path) -> None:
    """By default; torch has one thread then, and answers come."""
    need_native()
    torch.set_num_threads(2)
    found = executor(folder, library_cache)
    assert type(found._runner) is NativeRunner
    assert torch.get_num_threads() == 1
    assert len(finish(found, greedy("a", tokens(40), 5, ignore_eos=True))["a"][0]) == 5


def test_a_float32_model_runs_on_torch(folder: Path, library_cache: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Without a word: it is not what the native step is for."""
    assert type(executor(folder, library_cache, dtype="float32")._runner) is TorchRunner
    assert _said(caplog) == []


def test_torch_can_be_asked_for(folder: Path, library_cache: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Without a word, too."""
    assert type(executor(folder, library_cache, cpu_step="torch")._runner) is TorchRunner
    assert _said(caplog) == []


def test_native_can_be_asked_for_and_then_nothing_else_runs(folder: Path, library_cache: Path) -> None:
    """Instead of a slower way that nobody asked for, the reason."""
    need_native()
    assert type(executor(folder, library_cache, cpu_step="native")._runner) is NativeRunner
    with pytest.raises(ModelMismatch, match="its weights are float32"):
        executor(folder, library_cache, cpu_step="native", dtype="float32")


@pytest.mark.parametrize("variant", [variant.name for variant in VARIANTS])
@pytest.mark.parametrize(("threads", "written"), [(1, "1 thread"), (2, "2 threads")])
def test_a_variant_can_be_asked_for(
    folder: Path, library_cache: Path, variant: str, threads: int, written: str
) -> None:
    """And the progress says which one runs, on how many threads."""
    need_native(variant)
    said: list[str] = []
    found = executor(folder, library_cache, cpu_variant=variant, threads=threads, on_progress=said.append)
    assert type(found._runner) is NativeRunner
    assert said[-1] == f"The native step runs with {variant} on {written}."


def test_without_a_compiler_torch_runs(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One log line says why, and what would help."""
    need_native(build=False)
    hide_compilers(monkeypatch)
    monkeypatch.setattr("engine.native.build.PREBUILT", tmp_path)
    found = executor(folder, tmp_path)
    assert type(found._runner) is TorchRunner
    assert len(finish(found, greedy("a", tokens(40), 5, ignore_eos=True))["a"][0]) == 5
    (said,) = _said(caplog)
    assert said.startswith("the native step is not available: there is no C++ compiler")
    assert "install one" in said


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"hidden_size": 48}, "its hidden size is 48, and the native step needs multiples of 32."),
        ({"head_dim": 16}, "its head size is 16, and the native step needs multiples of 32."),
        ({"hidden_act": "relu"}, "its activation ReLU is neither SiLU nor the tanh form of GELU."),
        (
            {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}},
            "its rotation depends on the length of the sequence.",
        ),
    ],
)
def test_a_model_that_the_step_cannot_hold_is_refused(changes: dict[str, Any], reason: str) -> None:
    """With what is wrong with it, before anything is built."""
    need_native(build=False)
    with pytest.raises(ModelMismatch) as refused:
        load.build_native(loaded(model("llama", **changes)), page_size=PAGE, cache=Path("/nowhere"))
    assert str(refused.value) == reason


@pytest.mark.parametrize("family", ["qwen3_moe", "glm4", "deepseek_v3", "gpt_oss"])
def test_other_families_are_refused(family: str) -> None:
    """Experts, other orders of operations, other attention: none is taken for what it is not."""
    need_native(build=False)
    other = families.build(family).to(torch.bfloat16)
    with pytest.raises(ModelMismatch):
        load.build_native(families.loaded(other), page_size=PAGE, cache=Path("/nowhere"))


def test_page_sizes_that_the_kernel_cannot_hold_are_refused(folder: Path, library_cache: Path, caplog: Any) -> None:
    """By name, and torch runs."""
    assert type(executor(folder, library_cache, page_size=48)._runner) is TorchRunner
    assert "its pages hold multiples of 32 tokens, not 48" in caplog.text


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("llama", {"attention_scale": 0.1}),
        ("llama", {"gelu": True}),
        ("gemma2", {"logit_cap": 5.0}),
        ("gemma2", {"attention_cap": 0.0}),
        ("granite", {"residual_factor": 1.0}),
        ("gemma", {"embedding_factor": 1.0}),
    ],
)
def test_the_comparison_at_load_finds_mistakes(
    name: str, change: dict[str, Any], library_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A description that is wrong in one number."""
    need_native()
    right = load.describe
    monkeypatch.setattr(load, "describe", lambda *given: dataclasses.replace(right(*given), **change))
    with pytest.raises(ModelMismatch, match="packed logits differ from its dense ones"):
        load.build_native(loaded(model(name)), page_size=PAGE, max_tokens=2048, cache=library_cache)


@pytest.mark.parametrize("name", ["mistral", "gemma3"])
def test_the_comparison_at_load_finds_a_missing_window(name: str, library_cache: Path, monkeypatch: Any) -> None:
    """Although its prompt is shorter than the window: that is narrowed for it."""
    need_native()
    monkeypatch.setattr(NativeRunner, "set_windows", lambda self, windows: None)
    with pytest.raises(ModelMismatch, match="packed logits differ"):
        load.build_native(loaded(model(name)), page_size=PAGE, max_tokens=2048, cache=library_cache)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_model_is_left_as_it_was(name: str, library_cache: Path) -> None:
    """Its attention and its windows are its own after the comparison, so another runner can be built of it."""
    need_native()
    reduced = model(name)
    before = (reduced.config._attn_implementation, getattr(reduced.config, "sliding_window", None))
    load.build_native(loaded(reduced), page_size=PAGE, max_tokens=2048, cache=library_cache)
    assert (reduced.config._attn_implementation, getattr(reduced.config, "sliding_window", None)) == before
    assert type(torch_runner.build(loaded(reduced), page_size=PAGE, max_tokens=2048)) is TorchRunner


def test_the_weights_are_in_memory_once(folder: Path, library_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model's own tensors are gone when the server starts."""
    need_native()
    kept: list[weakref.ref[Any]] = []
    real = torch_runner.load

    def watched(*arguments: Any, **options: Any) -> Any:
        found = real(*arguments, **options)
        kept.extend(weakref.ref(parameter) for parameter in found.model.parameters())
        return found

    monkeypatch.setattr(torch_runner, "load", watched)
    found = executor(folder, library_cache)
    gc.collect()
    assert len(kept) > 20
    assert [reference() for reference in kept if reference() is not None] == []
    assert type(found._runner) is NativeRunner


def test_pages_take_memory_only_when_they_are_written(folder: Path, library_cache: Path) -> None:
    """Room for two GiB of them costs what is kept ahead of their use, and next to nothing more, until then."""
    need_native()
    before = _resident_bytes()
    found = executor(folder, library_cache, memory_bytes=2 << 30)
    last = found._runner.num_pages - 1
    assert found._runner.run(Plan([Span([last], 0, tokens(9), True)], 0)).isfinite().all()
    assert last > 10_000
    assert _resident_bytes() - before < AHEAD_BYTES + (256 << 20)


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def test_a_failure_that_nobody_thought_of_leaves_torch(
    folder: Path, library_cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """With its traceback in the log."""
    need_native()

    def fail(*_: Any) -> None:
        raise AttributeError("no such part")

    monkeypatch.setattr(load, "describe", fail)
    assert type(executor(folder, library_cache)._runner) is TorchRunner
    assert "no such part" in caplog.text


@pytest.mark.parametrize(("huge", "warnings"), [(0, 1), (1 << 40, 0)])
def test_weights_in_small_pages_are_said(
    huge: int, warnings: int, library_cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Once, with what would help."""
    need_native()
    monkeypatch.setattr(load, "_HUGE_FROM", 0)
    monkeypatch.setattr(MappedMemory, "huge_bytes", lambda self: huge)
    load.build_native(loaded(model("llama")), page_size=PAGE, max_tokens=2048, cache=library_cache)
    assert len(_said(caplog)) == warnings
    assert all("set transparent_hugepage to 'madvise'" in message for message in _said(caplog))


def test_huge_pages_are_counted_as_the_system_does(
    library_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the mappings that the memory lies in, and of no other."""
    need_native()
    memory = load.with_library(load.choose(cpu_flags()), Library, cache=library_cache)
    mapped = MappedMemory(memory, 6 << 20)
    start = mapped.address
    text = ""
    for first, last, huge in (
        (0, start, 7),
        (start, start + (2 << 20), 2048),
        (start + (2 << 20), start + (9 << 20), 4096),
    ):
        text += f"{first:x}-{last:x} rw-p 00000000 00:00 0\nRss: 1 kB\nAnonHugePages:  {huge} kB\n"
    (tmp_path / "smaps").write_text(text)
    monkeypatch.setattr("engine.native.library._SMAPS", tmp_path / "smaps")
    assert mapped.huge_bytes() == 6 << 20


class Channel:
    """Notes what the engine process would send."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def send(self, message: Any) -> None:
        self.sent.append(message)


def threads_of(threads: int | None = None) -> Any:
    """A factory: the executor is the number that it was given."""
    return threads


def test_a_factory_hears_how_many_threads_were_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the setting, else by the environment, else nobody has asked."""
    for name in ("OMP_WAIT_POLICY", "KMP_BLOCKTIME", "GOMP_SPINCOUNT"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)
    channel: Any = Channel()
    found = []
    for environment, setting in (("3", 5), ("3", None), ("", None)):
        monkeypatch.setenv("OMP_NUM_THREADS", environment)
        found.append(_load(EngineSpec(f"{__name__}:threads_of", threads=setting), channel))
    assert found == [5, 3, None]


@pytest.mark.weights
@torch.inference_mode()
def test_the_default_model_is_nearer_to_float32_than_transformers(library_cache: Path) -> None:
    """On real weights in bfloat16, over a prompt of several pages; and the argmax is nearly always float32's."""
    need_native()
    from engine.loader import load as load_model

    reduced = load_model(default_model_folder(), dtype="bfloat16", device="cpu")
    step = load.build_native(reduced, page_size=128, max_tokens=2048, threads=2, cache=library_cache)
    ids = tokens(300, 40_000)
    found = torch.cat([step.run(Plan([Span([2, 0, 1], at, ids[at : at + 1], True)], 1)) for at in range(300)])
    rounded = reduced.model(input_ids=torch.tensor([ids]), use_cache=False).logits[0].float()
    exact = reduced.model.float()(input_ids=torch.tensor([ids]), use_cache=False).logits[0]
    assert (found - exact).abs().mean() < 0.7 * (rounded - exact).abs().mean()
    assert (found.argmax(-1) != exact.argmax(-1)).sum() <= (rounded.argmax(-1) != exact.argmax(-1)).sum()


def test_an_unavailable_step_is_an_error_where_it_was_asked_for(folder: Path, library_cache: Path) -> None:
    """A variant that nobody has."""
    with pytest.raises(NativeUnavailable):
        executor(folder, library_cache, cpu_step="native", cpu_variant="sse")
