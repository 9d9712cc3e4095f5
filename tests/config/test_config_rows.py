"""No honoured key of config.json and no variable is without a test that sees its effect."""

from __future__ import annotations

from pathlib import Path

import test_config_effects
import test_config_tls

from generated.config_keys import KEYS, VARIABLES

ELSEWHERE = {
    "allowAllZeroIpListening": "test_an_address_of_all_zeros_needs_the_file_s_word",
    "apiKeysFile": "test_api_keys_file_and_open_paths_change_who_is_answered",
    "openPaths": "test_api_keys_file_and_open_paths_change_who_is_answered",
    "modelWeightPath": "test_the_complete_sample_serves_a_model_with_its_adapter",
    "trustRemoteCode": "test_weights_that_bring_their_own_code_are_refused_by_name",
    "npuDeviceIds": "test_each_instance_runs_on_its_own_set",
    "worldSize": "test_ranks_of_world_size_share_the_model",
    "ASCEND_RT_VISIBLE_DEVICES": "test_numbers_beyond_the_visible_cards",
    "MIES_CONFIG_JSON_PATH": "test_the_variable_names_the_file_unless_a_model_is_given",
}
"""Keys that no row of a table suits, and the tests beside the tables that see their effect."""
PARTS = {
    "ModelConfig": "modelName",
    "models": "enable_reasoning",
    "name": "LoraModules",
    "path": "LoraModules",
    "baseModelName": "LoraModules",
    "dynamicLogLevel": "LogConfig",
    "dynamicLogLevelValidTime": "dynamicLogLevelValidHours",
}
"""Keys whose effect the row of another one sees: the object around it, or a part of it."""


def test_every_honoured_key_has_a_row() -> None:
    """Or a test of its own that exists."""
    rows = {row.key.split()[0] for row in (*test_config_effects.ROWS, *test_config_tls.ROWS)}
    honoured = {pattern.rpartition(".")[2] for pattern, key in KEYS.items() if key.honoured}
    honoured |= {name for name, variable in VARIABLES.items() if variable.honoured}
    assert {PARTS.get(name, name) for name in honoured - ELSEWHERE.keys()} <= rows


def test_the_tests_that_are_named_here_exist() -> None:
    """In this folder."""
    text = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_*.py"))
    assert [name for name in ELSEWHERE.values() if f"def {name}(" not in text] == []
