"""The settings of the health checks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HealthLimits:
    """When the server calls itself busy, and its engine dead."""

    npu_usage_threshold: int = 0
    """MindIE's npuUsageThreshold, in percent: a probe of one token that fails while the engine's load is at least
    this means busy, below it abnormal. 0: no such probes."""
    engine_stall_s: float = 60.0
    """An engine that owes an answer and uses no processor for so long counts as dead, in seconds."""
    probe_interval_s: float = 10.0
    """Time between two of these probes, in seconds."""
    probe_timeout_s: float = 10.0
    """What a probe gets, in seconds."""
