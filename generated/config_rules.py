"""The cross-key rules of config.json as plain Python. Generated from the CEL of spec/config.schema.yaml; do not edit."""

from __future__ import annotations

from typing import Any, Final

from .rules import PLAIN, Deployment, Found, Path, Rule, distinct

_SERVER_SECTION: Final[dict[str, Rule]] = {
    "all-zero-address-needs-permission": Rule(
        "all-zero-address-needs-permission",
        "an address of all zeros listens on every network and needs allowAllZeroIpListening true",
        ("ipAddress", "allowAllZeroIpListening"),
        reads=("allowAllZeroIpListening", "ipAddress"),
        accepted='{"ipAddress": "0.0.0.0", "allowAllZeroIpListening": true}',
    ),
    "all-zero-management-needs-permission": Rule(
        "all-zero-management-needs-permission",
        "an address of all zeros listens on every network and needs allowAllZeroIpListening true",
        ("managementIpAddress", "allowAllZeroIpListening"),
        reads=("allowAllZeroIpListening", "managementIpAddress"),
        accepted='{"managementIpAddress": "::", "allowAllZeroIpListening": true}',
    ),
}
_MODEL_ENTRY: Final[dict[str, Rule]] = {
    "weights-unless-mock": Rule(
        "weights-unless-mock",
        "modelWeightPath is required unless modelInstanceType is StandardMock",
        ("modelWeightPath", "modelInstanceType"),
        reads=("modelInstanceType", "modelWeightPath"),
        accepted='{"modelName": "m", "modelInstanceType": "StandardMock"}',
    ),
}
_MODEL_DEPLOY_SECTION: Final[dict[str, Rule]] = {
    "lora-names-unique": Rule(
        "lora-names-unique",
        "every entry of LoraModules needs a name of its own",
        ("LoraModules",),
        reads=("LoraModules",),
        accepted='{"ModelConfig": [{"modelName": "m", "modelWeightPath": "w"}], "LoraModules": [{"name": "a", "path": "p", "baseModelName": "m"}, {"name": "b", "path": "p", "baseModelName": "m"}]}',
    ),
    "lora-base-is-deployed": Rule(
        "lora-base-is-deployed",
        "baseModelName of every entry of LoraModules must be the modelName of the ModelConfig",
        ("LoraModules", "ModelConfig"),
        reads=("LoraModules", "ModelConfig"),
        accepted='{"ModelConfig": [{"modelName": "m", "modelWeightPath": "w"}], "LoraModules": [{"name": "a", "path": "p", "baseModelName": "m"}]}',
    ),
    "lora-name-is-its-own": Rule(
        "lora-name-is-its-own",
        "an entry of LoraModules cannot have the name of the model",
        ("LoraModules", "ModelConfig"),
        reads=("LoraModules", "ModelConfig"),
        accepted='{"ModelConfig": [{"modelName": "m", "modelWeightPath": "w"}], "LoraModules": [{"name": "a", "path": "p"}]}',
    ),
    "loras-within-max-loras": Rule(
        "loras-within-max-loras",
        "LoraModules has more entries than maxLoras",
        ("LoraModules", "maxLoras"),
        reads=("LoraModules", "maxLoras"),
        accepted='{"maxLoras": 1, "ModelConfig": [{"modelName": "m", "modelWeightPath": "w"}], "LoraModules": [{"name": "a", "path": "p", "baseModelName": "m"}]}',
    ),
}
_SCHEDULE_SECTION: Final[dict[str, Rule]] = {
    "prefill-batch-within-batch": Rule(
        "prefill-batch-within-batch",
        "maxPrefillBatchSize must be at most maxBatchSize",
        ("maxPrefillBatchSize", "maxBatchSize"),
        reads=("maxBatchSize", "maxPrefillBatchSize"),
        accepted='{"maxPrefillBatchSize": 5, "maxBatchSize": 5}',
    ),
    "preemptions-within-batch": Rule(
        "preemptions-within-batch",
        "maxPreemptCount must be at most maxBatchSize",
        ("maxPreemptCount", "maxBatchSize"),
        reads=("maxBatchSize", "maxPreemptCount"),
        accepted='{"maxPreemptCount": 5, "maxBatchSize": 5}',
    ),
    "choices-within-batch": Rule(
        "choices-within-batch",
        "maxN must be at most maxBatchSize",
        ("maxN", "maxBatchSize"),
        reads=("maxBatchSize", "maxN"),
        accepted='{"maxN": 5, "maxBatchSize": 5}',
    ),
    "block-size-multiple-of-16": Rule(
        "block-size-multiple-of-16",
        "cacheBlockSize must be a multiple of 16",
        ("cacheBlockSize",),
        reads=("cacheBlockSize",),
        accepted='{"cacheBlockSize": 48}',
    ),
    "chunk-within-prefill": Rule(
        "chunk-within-prefill",
        "prefillChunkSize must be at most maxPrefillTokens",
        ("prefillChunkSize", "maxPrefillTokens"),
        reads=("maxPrefillTokens", "prefillChunkSize"),
        accepted='{"prefillChunkSize": 100, "maxPrefillTokens": 100}',
    ),
    "partial-prefills-within-batch": Rule(
        "partial-prefills-within-batch",
        "maxNumPartialPrefills must be at most maxBatchSize",
        ("maxNumPartialPrefills", "maxBatchSize"),
        reads=("maxBatchSize", "maxNumPartialPrefills"),
        accepted='{"maxNumPartialPrefills": 5, "maxBatchSize": 5}',
    ),
    "long-prefills-within-batch": Rule(
        "long-prefills-within-batch",
        "maxLongPartialPrefills must be at most maxBatchSize",
        ("maxLongPartialPrefills", "maxBatchSize"),
        reads=("maxBatchSize", "maxLongPartialPrefills"),
        accepted='{"maxLongPartialPrefills": 5, "maxBatchSize": 5}',
    ),
    "long-threshold-within-prefill": Rule(
        "long-threshold-within-prefill",
        "longPrefillTokenThreshold must be at most maxPrefillTokens",
        ("longPrefillTokenThreshold", "maxPrefillTokens"),
        reads=("longPrefillTokenThreshold", "maxPrefillTokens"),
        accepted='{"longPrefillTokenThreshold": 100, "maxPrefillTokens": 100}',
    ),
}
_BACKEND_SECTION: Final[dict[str, Rule]] = {
    "output-within-sequence": Rule(
        "output-within-sequence",
        "maxIterTimes must be at most maxSeqLen, since an answer is part of its sequence",
        ("ScheduleConfig.maxIterTimes", "ModelDeployConfig.maxSeqLen"),
        reads=("ModelDeployConfig", "ScheduleConfig"),
        accepted='{"ModelDeployConfig": {"maxSeqLen": 100, "ModelConfig": [{"modelName": "m", "modelWeightPath": "w"}]}, "ScheduleConfig": {"maxIterTimes": 100}}',
    ),
    "prefill-holds-a-prompt": Rule(
        "prefill-holds-a-prompt",
        "maxPrefillTokens must be at least maxInputTokenLen, so that the longest prompt fits into one step",
        ("ScheduleConfig.maxPrefillTokens", "ModelDeployConfig.maxInputTokenLen"),
        reads=("ModelDeployConfig", "ScheduleConfig"),
        accepted='{"ModelDeployConfig": {"maxInputTokenLen": 100, "ModelConfig": [{"modelName": "m", "modelWeightPath": "w"}]}, "ScheduleConfig": {"maxPrefillTokens": 100}}',
    ),
    "preemption-needs-cpu-memory": Rule(
        "preemption-needs-cpu-memory",
        "maxPreemptCount above 0 needs cpuMemSize above 0",
        ("ScheduleConfig.maxPreemptCount", "ModelDeployConfig.ModelConfig"),
        reads=("ModelDeployConfig", "ScheduleConfig"),
        accepted='{"ModelDeployConfig": {"ModelConfig": [{"modelName": "m", "modelWeightPath": "w", "cpuMemSize": 5}]}, "ScheduleConfig": {"maxPreemptCount": 1}}',
    ),
}

RULES_OF: Final[dict[str, dict[str, Rule]]] = {
    "ServerSection": _SERVER_SECTION,
    "ModelEntry": _MODEL_ENTRY,
    "ModelDeploySection": _MODEL_DEPLOY_SECTION,
    "ScheduleSection": _SCHEDULE_SECTION,
    "BackendSection": _BACKEND_SECTION,
}
"""Schema name to its rules by id, in the order in which they are checked."""


def check_server_section(self: Any, path: Path, server: Deployment, found: Found) -> None:
    """ServerSection: its members' rules, then its own 2, as the spec lists them."""
    if not (
        self.ipAddress is None
        or self.ipAddress not in ["0.0.0.0", "::"]
        or (self.allowAllZeroIpListening is not None and self.allowAllZeroIpListening)
    ):
        found.append((_SERVER_SECTION["all-zero-address-needs-permission"], path))
    if not (
        self.managementIpAddress is None
        or self.managementIpAddress not in ["0.0.0.0", "::"]
        or (self.allowAllZeroIpListening is not None and self.allowAllZeroIpListening)
    ):
        found.append((_SERVER_SECTION["all-zero-management-needs-permission"], path))


def check_model_entry(self: Any, path: Path, server: Deployment, found: Found) -> None:
    """ModelEntry: its members' rules, then its own 1, as the spec lists them."""
    if not (
        self.modelWeightPath is not None
        or (self.modelInstanceType is not None and self.modelInstanceType == "StandardMock")
    ):
        found.append((_MODEL_ENTRY["weights-unless-mock"], path))


def check_model_deploy_section(self: Any, path: Path, server: Deployment, found: Found) -> None:
    """ModelDeploySection: its members' rules, then its own 4, as the spec lists them."""
    if isinstance(self.ModelConfig, list):
        for i1, item1 in enumerate(self.ModelConfig):
            if item1 is not None:
                check_model_entry(item1, (*path, "ModelConfig", i1), server, found)
    if not (self.LoraModules is None or len(distinct([l.name for l in self.LoraModules])) == len(self.LoraModules)):
        found.append((_MODEL_DEPLOY_SECTION["lora-names-unique"], path))
    if not (
        self.LoraModules is None
        or all(
            (
                l.baseModelName is None or any((m.modelName == l.baseModelName for m in self.ModelConfig))
                for l in self.LoraModules
            )
        )
    ):
        found.append((_MODEL_DEPLOY_SECTION["lora-base-is-deployed"], path))
    if not (
        self.LoraModules is None
        or all((all((m.modelName != l.name for m in self.ModelConfig)) for l in self.LoraModules))
    ):
        found.append((_MODEL_DEPLOY_SECTION["lora-name-is-its-own"], path))
    if not (
        self.LoraModules is None
        or self.maxLoras is None
        or self.maxLoras == 0
        or (len(self.LoraModules) <= self.maxLoras)
    ):
        found.append((_MODEL_DEPLOY_SECTION["loras-within-max-loras"], path))


def check_schedule_section(self: Any, path: Path, server: Deployment, found: Found) -> None:
    """ScheduleSection: its members' rules, then its own 8, as the spec lists them."""
    if not (
        self.maxPrefillBatchSize is None or self.maxBatchSize is None or self.maxPrefillBatchSize <= self.maxBatchSize
    ):
        found.append((_SCHEDULE_SECTION["prefill-batch-within-batch"], path))
    if not (self.maxPreemptCount is None or self.maxBatchSize is None or self.maxPreemptCount <= self.maxBatchSize):
        found.append((_SCHEDULE_SECTION["preemptions-within-batch"], path))
    if not (self.maxN is None or self.maxBatchSize is None or self.maxN <= self.maxBatchSize):
        found.append((_SCHEDULE_SECTION["choices-within-batch"], path))
    if not (self.cacheBlockSize is None or self.cacheBlockSize in [16, 32, 48, 64, 80, 96, 112, 128]):
        found.append((_SCHEDULE_SECTION["block-size-multiple-of-16"], path))
    if not (
        self.prefillChunkSize is None or self.maxPrefillTokens is None or self.prefillChunkSize <= self.maxPrefillTokens
    ):
        found.append((_SCHEDULE_SECTION["chunk-within-prefill"], path))
    if not (
        self.maxNumPartialPrefills is None
        or self.maxBatchSize is None
        or self.maxNumPartialPrefills <= self.maxBatchSize
    ):
        found.append((_SCHEDULE_SECTION["partial-prefills-within-batch"], path))
    if not (
        self.maxLongPartialPrefills is None
        or self.maxBatchSize is None
        or self.maxLongPartialPrefills <= self.maxBatchSize
    ):
        found.append((_SCHEDULE_SECTION["long-prefills-within-batch"], path))
    if not (
        self.longPrefillTokenThreshold is None
        or self.maxPrefillTokens is None
        or self.longPrefillTokenThreshold <= self.maxPrefillTokens
    ):
        found.append((_SCHEDULE_SECTION["long-threshold-within-prefill"], path))


def check_backend_section(self: Any, path: Path, server: Deployment, found: Found) -> None:
    """BackendSection: its members' rules, then its own 3, as the spec lists them."""
    if self.ModelDeployConfig is not None:
        check_model_deploy_section(self.ModelDeployConfig, (*path, "ModelDeployConfig"), server, found)
    if self.ScheduleConfig is not None:
        check_schedule_section(self.ScheduleConfig, (*path, "ScheduleConfig"), server, found)
    if not (
        self.ScheduleConfig is None
        or self.ScheduleConfig.maxIterTimes is None
        or self.ModelDeployConfig.maxSeqLen is None
        or (self.ScheduleConfig.maxIterTimes <= self.ModelDeployConfig.maxSeqLen)
    ):
        found.append((_BACKEND_SECTION["output-within-sequence"], path))
    if not (
        self.ScheduleConfig is None
        or self.ScheduleConfig.maxPrefillTokens is None
        or self.ModelDeployConfig.maxInputTokenLen is None
        or (self.ScheduleConfig.maxPrefillTokens >= self.ModelDeployConfig.maxInputTokenLen)
    ):
        found.append((_BACKEND_SECTION["prefill-holds-a-prompt"], path))
    if not (
        self.ScheduleConfig is None
        or self.ScheduleConfig.maxPreemptCount is None
        or self.ScheduleConfig.maxPreemptCount == 0
        or all((m.cpuMemSize is None or m.cpuMemSize > 0 for m in self.ModelDeployConfig.ModelConfig))
    ):
        found.append((_BACKEND_SECTION["preemption-needs-cpu-memory"], path))


def check_config(self: Any, path: Path, server: Deployment, found: Found) -> None:
    """Config: its members' rules, then its own 0, as the spec lists them."""
    if self.ServerConfig is not None:
        check_server_section(self.ServerConfig, (*path, "ServerConfig"), server, found)
    if self.BackendConfig is not None:
        check_backend_section(self.BackendConfig, (*path, "BackendConfig"), server, found)


def broken(config: Any) -> Found:
    """Every rule that a whole configuration breaks, with the way to the object that breaks it."""
    found: Found = []
    check_config(config, (), PLAIN, found)
    return found
