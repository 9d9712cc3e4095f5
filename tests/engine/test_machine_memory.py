"""How much memory the pages may take."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine import machine_memory


def _meminfo(monkeypatch: pytest.MonkeyPatch, folder: Path, text: str) -> None:
    (folder / "meminfo").write_text(text)
    monkeypatch.setattr(machine_memory, "_MEMINFO", folder / "meminfo")
    monkeypatch.setattr(machine_memory, "_CGROUPS", ())


def test_the_system_says_what_is_available(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """MemAvailable counts in KiB."""
    _meminfo(monkeypatch, tmp_path, "MemTotal: 9 kB\nMemAvailable:    4194304 kB\n")
    assert machine_memory.available_bytes() == 4 << 30


def test_a_container_with_less_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its limit less what it uses, where cached files are no use."""
    _meminfo(monkeypatch, tmp_path, "MemAvailable: 4194304 kB\n")
    for name, text in (("max", f"{3 << 30}"), ("current", f"{2 << 30}"), ("stat", f"anon 5\ninactive_file {1 << 29}")):
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(machine_memory, "_CGROUPS", ((tmp_path / "max", tmp_path / "current", tmp_path / "stat"),))
    assert machine_memory.available_bytes() == (1 << 30) + (1 << 29)


def test_a_container_without_a_limit_changes_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """cgroup 2 writes "max" then."""
    _meminfo(monkeypatch, tmp_path, "MemAvailable: 1024 kB\n")
    (tmp_path / "max").write_text("max\n")
    monkeypatch.setattr(machine_memory, "_CGROUPS", ((tmp_path / "max", tmp_path / "max", tmp_path / "max"),))
    assert machine_memory.available_bytes() == 1 << 20


def test_a_system_that_says_nothing_is_taken_to_have_little(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As on anything but Linux."""
    _meminfo(monkeypatch, tmp_path, "")
    assert machine_memory.available_bytes() == 2 << 30


def test_half_of_what_is_left_after_the_reserve_is_for_pages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """4.5 GiB available, 0.5 of them kept back."""
    _meminfo(monkeypatch, tmp_path, f"MemAvailable: {(9 << 29) // 1024} kB\n")
    assert machine_memory.pool_bytes(None) == 2 << 30


def test_a_limit_that_was_asked_for_holds() -> None:
    """Without looking at the machine."""
    assert machine_memory.pool_bytes(12345) == 12345


def test_the_cache_of_a_pool_that_nobody_asked_for_is_a_part_of_it():
    """An eighth, and 1 GiB in any case; a pool that was asked for may be filled."""
    assert machine_memory.cache_bytes(None, 64 << 30) == 8 << 30
    assert machine_memory.cache_bytes(None, 2 << 30) == 1 << 30
    assert machine_memory.cache_bytes(64 << 30, 64 << 30) is None
