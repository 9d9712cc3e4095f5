"""The Kubernetes manifest: valid, and in agreement with the server's planes, paths and times."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from deploy_files import MANIFEST, ROOT, container, last_of, resources

from handlers import plane_server
from handlers.config_file import read_config
from tools.cli import _parser, main

SPEC = yaml.safe_load((ROOT / "spec" / "openapi.yaml").read_text(encoding="utf-8"))
PROBES = ("startupProbe", "readinessProbe", "livenessProbe")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The config.json of the ConfigMap."""
    written = tmp_path / "config.json"
    written.write_text(resources()["ConfigMap"]["data"]["config.json"])
    return written


def test_kubernetes_finds_nothing_wrong() -> None:
    """Each resource fits its schema, unknown fields refused."""
    validate = pytest.importorskip("kubernetes_validate", reason="the extra `dev` has kubernetes-validate")
    for resource in yaml.safe_load_all(MANIFEST.read_text(encoding="utf-8")):
        validate.validate(resource, validate.latest_version(), strict=True)


def test_our_own_check_takes_the_config_map(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All it has to say is that the weights are not on this machine."""
    assert main(["config", "check", str(file), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["faults"] == []
    assert [note["key"] for note in said["notes"]] == ["weights"]


def test_ports_are_those_of_the_planes(file: Path) -> None:
    """By name; the Service offers the business plane alone, and nobody but the node comes to the management plane."""
    config = read_config(file)
    ports = {port["name"]: port["containerPort"] for port in container()["ports"]}
    assert ports == {
        "business": config.value("ServerConfig.port"),
        "management": config.value("ServerConfig.managementPort"),
        "metrics": config.value("ServerConfig.metricsPort"),
    }
    assert [port["targetPort"] for port in resources()["Service"]["spec"]["ports"]] == ["business"]
    (rule,) = resources()["NetworkPolicy"]["spec"]["ingress"]
    assert [port["port"] for port in rule["ports"]] == ["business", "metrics"]
    annotations = resources()["Deployment"]["spec"]["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == str(ports["metrics"])


@pytest.mark.parametrize("name", PROBES)
def test_a_probe_asks_a_path_of_the_plane_whose_port_it_takes(name: str) -> None:
    """Each of them is of the management plane."""
    asked = container()[name]["httpGet"]
    operation: dict[str, Any] = SPEC["paths"][asked["path"]]["get"]
    assert operation["x-plane"] == asked["port"] == "management"


def test_a_start_may_take_half_an_hour() -> None:
    """Liveness and readiness begin after the first token."""
    probe = container()["startupProbe"]
    assert probe["httpGet"]["path"] == "/v2/health/ready"
    assert probe["periodSeconds"] * probe["failureThreshold"] == 1800
    assert container()["livenessProbe"]["httpGet"]["path"] == "/v2/health/live"


def test_the_grace_period_is_longer_than_the_hook_and_the_drain(file: Path) -> None:
    """And closing what is left; the drain is the default."""
    drain_s = read_config(file).value("ServerConfig.drainTimeout")
    assert drain_s == _parser().parse_args(["serve"]).drain_timeout
    program, seconds = container()["lifecycle"]["preStop"]["exec"]["command"]
    assert program == "sleep"
    pod = resources()["Deployment"]["spec"]["template"]["spec"]
    assert int(seconds) + drain_s + plane_server.CLOSE_TIME_S < pod["terminationGracePeriodSeconds"]


def test_the_pod_runs_as_the_image_s_user_without_rights() -> None:
    """On a file system that it cannot write to, but for the cache and what is temporary."""
    pod = resources()["Deployment"]["spec"]["template"]["spec"]
    assert f"{pod['securityContext']['runAsUser']}:{pod['securityContext']['runAsGroup']}" == last_of("USER")
    assert container()["securityContext"]["readOnlyRootFilesystem"] is True
    mounts = {mount["mountPath"]: mount.get("readOnly", False) for mount in container()["volumeMounts"]}
    assert [path for path, read_only in mounts.items() if not read_only] == ["/var/cache/mindspec", "/tmp"]
    assert last_of("VOLUME") == "/var/cache/mindspec"


def test_the_command_is_one_that_the_server_takes() -> None:
    """It names the ConfigMap's file where that is mounted."""
    given = _parser().parse_args(container()["args"])
    (mount,) = [mount for mount in container()["volumeMounts"] if mount["name"] == "config"]
    assert str(given.config) == f"{mount['mountPath']}/config.json"
