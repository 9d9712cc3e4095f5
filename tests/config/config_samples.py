"""Configurations to start from, and changes to them by path."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any
from unittest.mock import sentinel

DEPLOY = "BackendConfig.ModelDeployConfig"
MODEL = f"{DEPLOY}.ModelConfig.0"
SCHEDULE = "BackendConfig.ScheduleConfig"
GONE = sentinel.gone
"""As a value: the key is taken out."""

MOCK: dict[str, Any] = {
    "ServerConfig": {"httpsEnabled": False},
    "BackendConfig": {
        "ModelDeployConfig": {"ModelConfig": [{"modelName": "mock", "modelInstanceType": "StandardMock"}]},
        "ScheduleConfig": {"maxBatchSize": 200},
    },
}
"""The smallest one that starts a server without weights."""

COMPLETE: dict[str, Any] = {
    "Version": "1.0.0",
    "ServerConfig": {
        "ipAddress": "127.0.0.1", "managementIpAddress": "127.0.0.2",
        "port": 1025, "managementPort": 1026, "metricsPort": 1027,
        "allowAllZeroIpListening": False, "maxLinkNum": 300,
        "httpsEnabled": False, "fullTextEnabled": False,
        "tlsCaPath": "security/ca/", "tlsCaFile": ["ca.pem"],
        "tlsCert": "security/certs/server.pem", "tlsPk": "security/keys/server.key.pem",
        "tlsCrlPath": "security/certs/", "tlsCrlFiles": ["server_crl.pem"],
        "managementTlsCaFile": ["management_ca.pem"],
        "managementTlsCert": "security/certs/management/server.pem",
        "managementTlsPk": "security/keys/management/server.key.pem",
        "managementTlsCrlPath": "security/management/certs/", "managementTlsCrlFiles": ["server_crl.pem"],
        "metricsTlsCaFile": ["metrics_ca.pem"],
        "metricsTlsCert": "security/certs/metrics/server.pem",
        "metricsTlsPk": "security/keys/metrics/server.key.pem",
        "metricsTlsCrlPath": "security/metrics/certs/", "metricsTlsCrlFiles": ["server_crl.pem"],
        "inferMode": "standard",
        "interCommTLSEnabled": True, "interCommPort": 1121,
        "interCommTlsCaPath": "security/grpc/ca/", "interCommTlsCaFiles": ["ca.pem"],
        "interCommTlsCert": "security/grpc/certs/server.pem", "interCommPk": "security/grpc/keys/server.key.pem",
        "interCommTlsCrlPath": "security/grpc/certs/", "interCommTlsCrlFiles": ["server_crl.pem"],
        "openAiSupport": "vllm", "tokenTimeout": 600, "e2eTimeout": 600,
        "maxRequestLength": 40, "distDPServerEnabled": False,
        "HealthCheckConfig": {"npuUsageThreshold": 10},
    },
    "BackendConfig": {
        "backendName": "mindieservice_llm_engine",
        "modelInstanceNumber": 1, "npuDeviceIds": [[0, 1]], "tokenizerProcessNumber": 8,
        "multiNodesInferEnabled": False, "multiNodesInferPort": 1120,
        "interNodeTLSEnabled": True,
        "interNodeTlsCaPath": "security/grpc/ca/", "interNodeTlsCaFiles": ["ca.pem"],
        "interNodeTlsCert": "security/grpc/certs/server.pem", "interNodeTlsPk": "security/grpc/keys/server.key.pem",
        "interNodeTlsCrlPath": "security/grpc/certs/", "interNodeTlsCrlFiles": ["server_crl.pem"],
        "kvPoolConfig": {"backend": "", "configPath": ""},
        "ModelDeployConfig": {
            "maxSeqLen": 32768, "maxInputTokenLen": 16384, "truncation": 0,
            "maxLoras": 4, "maxLoraRank": 64,
            "LoraModules": [{"name": "adapter1", "path": "lora/adapter1", "baseModelName": "Qwen3-32B"}],
            "ModelConfig": [{
                "modelInstanceType": "Standard", "modelName": "Qwen3-32B",
                "modelWeightPath": "weights/Qwen3-32B", "worldSize": 2,
                "cpuMemSize": 0, "npuMemSize": -1, "backendType": "atb", "trustRemoteCode": False,
                "async_scheduler_wait_time": 120, "kv_trans_timeout": 10, "kv_link_timeout": 1080,
                "models": {"qwen3": {"enable_reasoning": True, "chat_template": "",
                                     "tool_call_options": {"tool_call_parser": "qwen3"}}},
            }],
        },
        "ScheduleConfig": {
            "templateType": "Standard", "templateName": "Standard_LLM", "cacheBlockSize": 128,
            "maxPrefillBatchSize": 50, "maxPrefillTokens": 16384,
            "prefillTimeMsPerReq": 150, "prefillPolicyType": 0,
            "decodeTimeMsPerReq": 50, "decodePolicyType": 0,
            "maxBatchSize": 200, "maxIterTimes": 4096, "maxPreemptCount": 0,
            "supportSelectBatch": False, "maxQueueDelayMicroseconds": 5000,
            "maxFirstTokenWaitTime": 2500, "maxN": 128,
        },
    },
    "LogConfig": {"dynamicLogLevel": "", "dynamicLogLevelValidHours": 2, "dynamicLogLevelValidTime": ""},
    "EnableDynamicAdjustTimeoutConfig": False,
}  # fmt: skip
"""All keys of the file that MindIE ships plus common options, with values that are valid together."""


def changed(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """A copy with other values; a path is keys and list indices joined by dots."""
    config = copy.deepcopy(base)
    for path, value in changes.items():
        *before, last = path.split(".")
        holder: Any = config
        for step in before:
            holder = holder[int(step)] if isinstance(holder, list) else holder.setdefault(step, {})
        if value is GONE:
            del holder[last]
        elif isinstance(holder, list):
            holder[int(last)] = value
        else:
            holder[last] = value
    return config


def written(folder: Path, config: dict[str, Any] | str, name: str = "config.json") -> Path:
    """A file with this configuration, or with this text."""
    file = folder / name
    text = config if isinstance(config, str) else json.dumps(config)
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    return file
