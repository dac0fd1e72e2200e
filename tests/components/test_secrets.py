"""Secrets in the settings of a stack file."""

from __future__ import annotations

import json
from typing import Any

import pulumi
import pytest
from pulumi.runtime import rpc

from gpu_cluster.release.component import GpuPlatform, PlatformArgs
from gpu_cluster.secrets import require_secrets_in_values
from gpu_cluster.settings.charts import ChartsSettings
from gpu_rules.faults import ConfigError
from tests.mocks import declare
from tests.proofs.platform.clusters import plugin
from tests.resolved import platform_of

KEY = "an-api-key"


def test_values_with_a_secret_keep_their_mark() -> None:
    """The engine encrypts marked values in the state and hides them in previews."""
    extra = {"podAnnotations": {"key": KEY}}

    def program(*, secret: bool) -> None:
        platform = platform_of(plugin(devicePlugin={"extraValues": extra}))
        GpuPlatform("gpu", platform, PlatformArgs(charts=ChartsSettings(), secret_values=secret))

    for secret in (True, False):
        recorder = declare(lambda kept=secret: program(secret=kept), preview=True)
        (release,) = recorder.of("kubernetes:helm.sh/v3:Release")
        values: Any = release.inputs["values"]
        assert (rpc._special_sig_key in values) is secret
        assert KEY in json.dumps(values)


STACK = """
config:
  gpu-cluster:cluster:
    devicePlugin:
      extraValues: {{podAnnotations: {{key: {values}}}}}
      namespace: {namespace}
"""
SECRET = "{secure: v1:abc:def}"


@pytest.mark.promise("A secret in extraValues stays secret; in another setting it is refused.")
def test_a_secret_outside_of_extra_values_is_refused() -> None:
    require_secrets_in_values("Pulumi.a.yaml", STACK.format(values=SECRET, namespace="x"))
    require_secrets_in_values("Pulumi.a.yaml", "")
    with pytest.raises(ConfigError, match=r"devicePlugin\.namespace: found a secret") as raised:
        require_secrets_in_values("Pulumi.a.yaml", STACK.format(values="x", namespace=SECRET))
    assert raised.value.source == "Pulumi.a.yaml"


def test_pulumi_tells_that_the_settings_contain_a_secret() -> None:
    pulumi.runtime.set_all_config({"gpu-cluster:cluster": "{}"}, ["gpu-cluster:cluster"])
    assert pulumi.runtime.is_config_secret(pulumi.Config("gpu-cluster").full_key("cluster"))
    pulumi.runtime.set_all_config({}, [])
