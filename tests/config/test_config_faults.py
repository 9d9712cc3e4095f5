"""Every fault of a config.json is one line: the key, what was given, what is allowed; and all of them come at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from config_samples import COMPLETE, DEPLOY, GONE, MODEL, SCHEDULE, changed, written

from handlers.config_file import MOST_BYTES, ConfigError, read_config

TEXTS: list[tuple[str, str]] = [
    ("", "is empty; a JSON object is expected"),
    ("[]", "holds an empty list; a JSON object is expected"),
    ('{"Version": "1.0.0"', "line 1, column 19: not JSON: EOF while parsing an object"),
    ('{"Version": "1.0.0",\n}', "line 2, column 1: not JSON: trailing comma"),
    ('{"Version": "1.0.0",\n "Version": "1.0.0"}', 'line 2, column 12: the key "Version" stands twice in one object; '
     "remove one"),
    ('{\n "Version": NaN}', "line 2, column 13: NaN is no JSON number; write a number"),
    ('{"Version": -Infinity}', "line 1, column 14: Infinity is no JSON number; write a number"),
    ("{'Version': 1}", "line 1, column 2: not JSON: key must be a string"),
    ('{"Version": 1 // one\n}', "line 1, column 15: not JSON: expected `,` or `}`"),
    ('{"Version": "\udcff"}', "line 1, column 14: not JSON: invalid unicode code point"),
]  # fmt: skip
"""What is no JSON."""

VALUES: list[tuple[dict[str, Any], str]] = [
    ({"BackendConfig": GONE}, "BackendConfig: is required and absent; it must be an object"),
    ({"BackendConfig": []}, "BackendConfig: is an empty list; it must be an object"),
    ({"Version": "2.0.0"}, 'Version: is "2.0.0"; it must be the text "1.0.0"'),
    ({"LogConfig": None}, "LogConfig: is null; it must be an object"),
    ({"LogConfig.dynamicLogLevelValidHours": 169}, "LogConfig.dynamicLogLevelValidHours: is 169; it must be an integer "
     "from 1 to 168"),
    ({"LogConfig.dynamicLogLevelValidTime": "2026-13-01 00:00:00"}, "LogConfig.dynamicLogLevelValidTime: is "
     '"2026-13-01 00:00:00"; there is no such time; it must be year-month-day hour:minute:second'),
    ({"EnableDynamicAdjustTimeoutConfig": 1}, "EnableDynamicAdjustTimeoutConfig: is 1; it must be true or false"),
    ({"ServerConfig.ipAddress": "localhost"}, 'ServerConfig.ipAddress: is "localhost"; it must be an IPv4 or IPv6 '
     "address"),
    ({"ServerConfig.ipAddress": "256.0.0.1"}, 'ServerConfig.ipAddress: is "256.0.0.1"; it must be an IPv4 or IPv6 '
     "address"),
    ({"ServerConfig.ipAddress": "0.0.0.0"}, "ServerConfig.ipAddress: an address of all zeros listens on every network "
     'and needs allowAllZeroIpListening true; here ipAddress is "0.0.0.0", allowAllZeroIpListening is false'),
    ({"ServerConfig.managementIpAddress": "::"}, "ServerConfig.managementIpAddress: an address of all zeros listens on "
     'every network and needs allowAllZeroIpListening true; here managementIpAddress is "::", allowAllZeroIpListening '
     "is false"),
    ({"ServerConfig.port": 80}, "ServerConfig.port: is 80; it must be an integer from 1024 to 65535"),
    ({"ServerConfig.port": "1025"}, 'ServerConfig.port: is "1025"; it must be an integer from 1024 to 65535'),
    ({"ServerConfig.port": 1025.5}, "ServerConfig.port: is 1025.5; it must be an integer from 1024 to 65535"),
    ({"ServerConfig.port": True}, "ServerConfig.port: is true; it must be an integer from 1024 to 65535"),
    ({"ServerConfig.maxLinkNum": 0}, "ServerConfig.maxLinkNum: is 0; it must be an integer from 1 to 4096"),
    ({"ServerConfig.httpsEnabled": "true"}, 'ServerConfig.httpsEnabled: is "true"; it must be true or false'),
    ({"ServerConfig.tlsCaFile": "ca.pem"}, 'ServerConfig.tlsCaFile: is "ca.pem"; it must be a list of 1 to 3 items, '
     "each a string of 1 to 4096 characters"),
    ({"ServerConfig.tlsCaFile": []}, "ServerConfig.tlsCaFile: is an empty list; it must be a list of 1 to 3 items, "
     "each a string of 1 to 4096 characters"),
    ({"ServerConfig.tlsCrlFiles": ["a", 7]}, "ServerConfig.tlsCrlFiles[1]: is 7; tlsCrlFiles must be a list of 1 to 3 "
     "items, each a string of 1 to 4096 characters"),
    ({"ServerConfig.inferMode": "pd"}, 'ServerConfig.inferMode: is "pd"; it must be one of "standard", "dmi"'),
    ({"ServerConfig.tokenTimeout": 3601}, "ServerConfig.tokenTimeout: is 3601; it must be an integer from 1 to 3600"),
    ({"ServerConfig.e2eTimeout": 0}, "ServerConfig.e2eTimeout: is 0; it must be an integer from 1 to 65535"),
    ({"ServerConfig.maxRequestLength": 101}, "ServerConfig.maxRequestLength: is 101; it must be an integer from 1 to "
     "100"),
    ({"ServerConfig.mediaDomains": ["a.test", "http://b.test"]}, 'ServerConfig.mediaDomains[1]: is "http://b.test"; '
     "the entry is not a host such as example.org, or example.org:8443 for one port alone"),
    ({"ServerConfig.mediaDomains": ["*.a.test"]}, 'ServerConfig.mediaDomains[0]: is "*.a.test"; the entry has no '
     "usable host; it must be a name of letters, digits, hyphens and underscores (other scripts as xn--), or an IP "
     "address"),
    ({"ServerConfig.mediaPrivateNetworks": ["10.0.0.1/8"]}, 'ServerConfig.mediaPrivateNetworks[0]: is "10.0.0.1/8"; it '
     "must be a network such as 10.0.0.0/8 or fd12::/16, with no address in it"),
    ({"ServerConfig.mediaPrivateNetworks": "10.0.0.0/8"}, 'ServerConfig.mediaPrivateNetworks: is "10.0.0.0/8"; it must '
     "be a list of networks such as 10.0.0.0/8 or fd12::/16"),
    ({"ServerConfig.maxMediaItems": 21}, "ServerConfig.maxMediaItems: is 21; it must be an integer from 1 to 20"),
    ({"ServerConfig.maxJsonDepth": 9}, "ServerConfig.maxJsonDepth: is 9; it must be an integer from 10 to 100"),
    ({"ServerConfig.HealthCheckConfig.npuUsageThreshold": 101}, "ServerConfig.HealthCheckConfig.npuUsageThreshold: "
     "is 101; it must be an integer from 0 to 100"),
    ({"BackendConfig.backendName": "Engine"}, 'BackendConfig.backendName: is "Engine"; it must be 1 to 50 lower-'
     "case letters or underscores"),
    ({"BackendConfig.modelInstanceNumber": 11}, "BackendConfig.modelInstanceNumber: is 11; it must be an integer from "
     "1 to 10"),
    ({"BackendConfig.npuDeviceIds": [[0], [-1]]}, "BackendConfig.npuDeviceIds[1][0]: is -1; npuDeviceIds must be a "
     "list of 1 to 10 items, each a list of 1 to 1024 items, each an integer from 0 to 65535"),
    ({f"{DEPLOY}.maxSeqLen": 0}, "BackendConfig.ModelDeployConfig.maxSeqLen: is 0; it must be an integer from 2 to "
     "4294967295"),
    ({f"{DEPLOY}.maxInputTokenLen": 4194305}, "BackendConfig.ModelDeployConfig.maxInputTokenLen: is 4194305; it must "
     "be an integer from 1 to 4194304"),
    ({f"{DEPLOY}.truncation": 2}, "BackendConfig.ModelDeployConfig.truncation: is 2; it must be an integer from -1 to "
     "1, or true or false"),
    ({f"{DEPLOY}.maxLoras": -1}, "BackendConfig.ModelDeployConfig.maxLoras: is -1; it must be an integer from 0 to "
     "4294967295"),
    ({f"{DEPLOY}.LoraModules.0.path": GONE}, "BackendConfig.ModelDeployConfig.LoraModules[0].path: is required and "
     "absent; it must be a string of 1 to 4096 characters"),
    ({f"{DEPLOY}.LoraModules.0.baseModelName": "other"}, "BackendConfig.ModelDeployConfig.LoraModules: baseModelName "
     "of every entry of LoraModules must be the modelName of the ModelConfig; here LoraModules is a list of 1 items, "
     "ModelConfig is a list of 1 items"),
    ({f"{DEPLOY}.ModelConfig": []}, "BackendConfig.ModelDeployConfig.ModelConfig: is an empty list; it must be a list "
     "of 1 to 1 items"),
    ({f"{MODEL}.modelName": "-x"}, 'BackendConfig.ModelDeployConfig.ModelConfig[0].modelName: is "-x"; it must be 1 '
     "to 256 letters, digits, dots, underscores or hyphens that begin and end with a letter or digit"),
    ({f"{MODEL}.modelWeightPath": GONE}, "BackendConfig.ModelDeployConfig.ModelConfig[0].modelWeightPath: "
     "modelWeightPath is required unless modelInstanceType is StandardMock; here modelInstanceType is "
     '"Standard"'),
    ({f"{MODEL}.npuMemSize": 0}, "BackendConfig.ModelDeployConfig.ModelConfig[0].npuMemSize: is 0; it must be an "
     "integer from -1 to 1048576 but not 0"),
    ({f"{MODEL}.plugin_params": "{'plugin_type': 'mtp'}"}, "BackendConfig.ModelDeployConfig.ModelConfig[0].plugin_"
     "params: is \"{'plugin_type': 'mtp'}\"; it must be a JSON object as text, with plugin_type (not JSON: key must be "
     "a string at line 1 column 2)"),
    ({f"{MODEL}.plugin_params": '{"plugin_type": "cache"}'}, "BackendConfig.ModelDeployConfig.ModelConfig[0].plugin_"
     'params: is "{\\"plugin_type\\": \\"cache\\"}"; its plugin_type names "cache"; known are prefix_cache, mtp, la, '
     "memory_decoding, splitfuse"),
    ({f"{MODEL}.models.qwen3.enable_reasoning": "yes"}, "BackendConfig.ModelDeployConfig.ModelConfig[0].models.qwen3."
     'enable_reasoning: is "yes"; it must be true or false'),
    ({f"{MODEL}.models.qwen3.early_stopping_text": ""}, "BackendConfig.ModelDeployConfig.ModelConfig[0].models.qwen3."
     'early_stopping_text: is ""; it must be a string of 1 to 1024 characters'),
    ({f"{SCHEDULE}.templateType": "mix"}, 'BackendConfig.ScheduleConfig.templateType: is "mix"; it must be one of '
     '"Standard", "Mix"'),
    ({f"{SCHEDULE}.cacheBlockSize": 100}, "BackendConfig.ScheduleConfig.cacheBlockSize: cacheBlockSize must be a "
     "multiple of 16; here cacheBlockSize is 100"),
    ({f"{SCHEDULE}.maxPrefillBatchSize": 201}, "BackendConfig.ScheduleConfig.maxPrefillBatchSize: maxPrefillBatchSize "
     "must be at most maxBatchSize; here maxPrefillBatchSize is 201, maxBatchSize is 200"),
    ({f"{SCHEDULE}.maxIterTimes": 32769}, "BackendConfig.ScheduleConfig.maxIterTimes: maxIterTimes must be at most "
     "maxSeqLen, since an answer is part of its sequence; here maxIterTimes is 32769, maxSeqLen is 32768"),
    ({f"{SCHEDULE}.maxN": 201}, "BackendConfig.ScheduleConfig.maxN: maxN must be at most maxBatchSize; here maxN is "
     "201, maxBatchSize is 200"),
    ({f"{SCHEDULE}.maxPrefillTokens": 16383}, "BackendConfig.ScheduleConfig.maxPrefillTokens: maxPrefillTokens must be "
     "at least maxInputTokenLen, so that the longest prompt fits into one step; here maxPrefillTokens is 16383, "
     "maxInputTokenLen is 16384"),
    ({f"{SCHEDULE}.maxPreemptCount": 1}, "BackendConfig.ScheduleConfig.maxPreemptCount: maxPreemptCount above 0 needs "
     "cpuMemSize above 0; here maxPreemptCount is 1, ModelConfig is a list of 1 items"),
    ({f"{SCHEDULE}.prefillChunkSize": 16385}, "BackendConfig.ScheduleConfig.prefillChunkSize: prefillChunkSize must be "
     "at most maxPrefillTokens; here prefillChunkSize is 16385, maxPrefillTokens is 16384"),
    ({f"{SCHEDULE}.maxQueueDelayMicroseconds": 499}, "BackendConfig.ScheduleConfig.maxQueueDelayMicroseconds: is 499; "
     "it must be an integer from 500 to 1000000"),
]  # fmt: skip
"""What is JSON, and wrong: changes of the complete sample."""


def faults_of(file: Path) -> list[str]:
    """What the loader says, line by line."""
    with pytest.raises(ConfigError) as caught:
        read_config(file)
    return [str(fault) for fault in caught.value.faults]


def test_there_are_fifty_broken_files_at_least() -> None:
    """The tables below."""
    assert len(TEXTS) + len(VALUES) >= 50


@pytest.mark.parametrize(("text", "expected"), TEXTS)
def test_a_file_that_is_no_json_is_one_line_with_its_place(tmp_path: Path, text: str, expected: str) -> None:
    """Line and column where there are any."""
    assert faults_of(written(tmp_path, text)) == [expected]


@pytest.mark.parametrize(("changes", "expected"), VALUES)
def test_a_wrong_value_is_one_line(tmp_path: Path, changes: dict[str, Any], expected: str) -> None:
    """The key's path, what was given, what is allowed."""
    assert faults_of(written(tmp_path, changed(COMPLETE, changes))) == [expected]


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    """10 MB, as in MindIE."""
    assert faults_of(written(tmp_path, " " * (MOST_BYTES + 1))) == ["is larger than 10 MB, the most that is read"]


def test_a_file_that_is_not_there_says_so(tmp_path: Path) -> None:
    """In the system's words."""
    assert faults_of(tmp_path / "none.json") == ["cannot be read: No such file or directory"]


def test_all_faults_come_at_once(tmp_path: Path) -> None:
    """Two wrong values, an absent one, a broken form and two broken rules of one file."""
    changes = {
        "ServerConfig.port": 80,
        "ServerConfig.ipAddress": "host",
        f"{DEPLOY}.truncation": "left",
        f"{MODEL}.modelName": GONE,
        f"{SCHEDULE}.maxN": 500,
        f"{SCHEDULE}.cacheBlockSize": 17,
    }
    found = faults_of(written(tmp_path, changed(COMPLETE, changes)))
    assert [line.partition(":")[0] for line in found] == [
        "ServerConfig.port",
        "BackendConfig.ModelDeployConfig.truncation",
        "BackendConfig.ModelDeployConfig.ModelConfig[0].modelName",
        "ServerConfig.ipAddress",
        "BackendConfig.ScheduleConfig.maxN",
        "BackendConfig.ScheduleConfig.cacheBlockSize",
    ]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"ServerConfig.prot": 1}, "ServerConfig.prot: is not known and changes nothing; did you mean port?"),
        ({"BackendConfig.interNodeTlsCrlfiles": ["a"]}, "BackendConfig.interNodeTlsCrlfiles: is not known and changes "
         "nothing; did you mean interNodeTlsCrlFiles?"),
        ({"ServerConfig.maxBatchSize": 1}, "ServerConfig.maxBatchSize: is not known and changes nothing; maxBatchSize "
         "belongs to BackendConfig.ScheduleConfig"),
        ({"Zebra": {"a": 1}}, "Zebra: is not known and changes nothing"),
        ({f"{MODEL}.models.qwen3.toolCallOptions": {}}, "BackendConfig.ModelDeployConfig.ModelConfig[0].models.qwen3."
         "toolCallOptions: is not known and changes nothing; did you mean tool_call_options?"),
    ],
)  # fmt: skip
def test_an_unknown_key_is_named_with_the_nearest_known_one(
    tmp_path: Path, changes: dict[str, Any], expected: str
) -> None:
    """It is no fault: the file is used."""
    file = read_config(written(tmp_path, changed(COMPLETE, changes)))
    assert [str(fault) for fault in file.unknown] == [expected]


def test_the_complete_sample_has_no_fault_and_no_unknown_key(tmp_path: Path) -> None:
    """MindIE's shipped keys and common options are all known."""
    file = read_config(written(tmp_path, COMPLETE))
    assert file.unknown == []
    assert file.raw == json.loads(json.dumps(COMPLETE))
    assert file.value("BackendConfig.ModelDeployConfig.ModelConfig[0].modelName") == "Qwen3-32B"
