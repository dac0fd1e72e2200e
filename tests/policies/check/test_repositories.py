"""The checker handles folders with charts, kustomizations, patches, templates and other files."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.policies.check.running import Run, check
from tests.policies.check.samples import BAD, GOOD

HAS_KUSTOMIZE = bool(shutil.which("kustomize") or shutil.which("kubectl"))
KUSTOMIZE = pytest.mark.skipif(not HAS_KUSTOMIZE, reason="needs kustomize or kubectl on PATH")

OPERATIONS = "- {op: replace, path: /spec/replicas, value: 2}\n"
GPU_OPERATIONS = (
    "- op: add\n  path: /spec/containers/0/resources/limits/nvidia.com~1gpu\n  value: 500m\n"
)
"""A JSON patch that sets an invalid number of GPUs (half a GPU)."""


def _write(folder: Path, **contents: str) -> None:
    """Write YAML files; in a name, `__` stands for `/`, and the suffix `.yaml` is added."""
    for name, content in contents.items():
        path = folder / f"{name.replace('__', '/')}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def _report(*arguments: str) -> tuple[Run, dict[str, Any]]:
    done = check(*arguments, "--format", "json")
    return done, json.loads(done.output)


def _gpus(amount: str) -> dict[str, Any]:
    pod: dict[str, Any] = yaml.safe_load(GOOD)
    pod["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": amount}}
    return pod


@pytest.mark.promise(
    "A folder with templates, patches and other YAML or JSON files is checked without an error."
)
@pytest.mark.parametrize(
    "content",
    [
        OPERATIONS,
        "- hosts: all\n  tasks: []\n",
        "just a sentence\n",
        '{\n  // a comment\n  "compilerOptions": {},\n}\n',
        "{% for node in nodes %}\n- {{ node }}\n{% endfor %}\n",
        "apiVersion: v1\nkind: Pod\nmetadata:\n  {{- toYaml .Values.metadata | nindent 2 }}\n",
        "kind: Pod\nspec: {{ spec }}\n",
        "a: [\n",
        "apiVersion: 1\nproviders: []\n",
        "apiVersion: v1\nentries: {chart: [{version: 1.0.0}]}\n",
        "kind: [bug, feature]\n",
        "apiVersion: v1alpha1\nmodels: []\n",
        "apiVersion: 1\nkind: Pod\n",
        "apiVersion: v1\nkind: a sentence\n",
        "kind: Pod\nspec: {}\n",
        "- kind: Pod\n",
        "kind: bug\nlabels: [\n",
        "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {name: %s}\n",
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: %[1]s\n",
        "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=//\n\n--//\n%\n"
        "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n--//--\n",
        "apiVersion: 1\ndatasources: [\n",
        '{"apiVersion": {"type": "string"}, "kind": {"type": "string"}}\n',
        'apiVersion: v1\nkind: "${KIND}"\n',
    ],
)
def test_what_is_no_manifest_is_left_out_and_counted(content: str, tmp_path: Path) -> None:
    _write(tmp_path, a=content, good=GOOD)
    done, report = _report(str(tmp_path))
    assert (done.code, report["problems"], report["unjudged"]) == (0, [], [])
    summary = report["summary"]
    assert (summary["objects"], summary["foreign"] + summary["templates"]) == (1, 1)
    mixed, _ = _report("--mixed", str(tmp_path / "a.yaml"))
    assert mixed.code == 0


@pytest.mark.parametrize(
    "content",
    [
        "apiVersion: v1\nkind: Pod\nspec: [\n",
        "- apiVersion: v1\n  kind: Pod\n",
        '{"apiVersion": "v1",\n "kind": "Pod",\n "spec": ]\n',
    ],
)
def test_a_broken_manifest_in_a_folder_is_an_error(content: str, tmp_path: Path) -> None:
    _write(tmp_path, a=content)
    done, report = _report(str(tmp_path))
    assert (done.code, len(report["problems"])) == (2, 1)


def test_a_template_with_gpus_is_named_with_its_line(tmp_path: Path) -> None:
    _write(tmp_path, a=f"kind: Pod\n{{{{- if .x }}}}\nlimits: {{nvidia.com/gpu: 1}}\n")  # noqa: F541
    done, report = _report(str(tmp_path))
    (named,) = report["unjudged"]
    assert (done.code, named["what"], named["line"]) == (0, "template", 3)
    assert check("--fail-on", "unjudged", str(tmp_path)).code == 1


@pytest.mark.parametrize("placeholder", ["${GPUS}", "$GPUS", '"{{ gpus }}"', '"{{inputs.gpus}}"'])
def test_a_placeholder_is_a_value_that_is_not_known(placeholder: str, tmp_path: Path) -> None:
    pod = yaml.safe_dump(_gpus("GPUS")).replace(": GPUS", f": {placeholder}")
    assert placeholder in pod
    _write(tmp_path, pod=pod)
    for name in (tmp_path, tmp_path / "pod.yaml"):
        done, report = _report(str(name))
        assert (done.code, report["problems"], report["violations"]) == (0, [], [])
        assert report["summary"]["objects"] == 1


def test_a_placeholder_leaves_the_other_values_to_be_judged(tmp_path: Path) -> None:
    bad = yaml.safe_load(BAD)
    bad["spec"]["nodeName"] = "${NODE}"
    bad["spec"]["containers"][0]["securityContext"] = {"privileged": "${PRIVILEGED}"}
    _write(tmp_path, pod=yaml.safe_dump(bad))
    done, report = _report(str(tmp_path))
    assert (done.code, report["problems"]) == (1, [])
    assert [found["rule"] for found in report["violations"]] == ["GPU001", "GPU023"]


@pytest.mark.parametrize("image", ["$IMAGE", "$REGISTRY/cuda:$TAG", "${REGISTRY}/cuda:${TAG}"])
def test_an_image_with_a_placeholder_is_not_known(image: str, tmp_path: Path) -> None:
    pod = _gpus("1")
    pod["spec"]["containers"][0]["image"] = image
    _write(tmp_path, pod=yaml.safe_dump(pod))
    done = check(str(tmp_path), "--rule", "GPU051=mandatory", "--rule", "GPU050=off")
    assert (done.code, "GPU051" in done.output) == (0, False)


@KUSTOMIZE
@pytest.mark.promise(
    "A kustomization is built and judged with its patches applied, each fault reported once."
)
def test_a_kustomization_is_judged_with_its_patches(tmp_path: Path) -> None:
    base = yaml.safe_dump({"resources": ["pod.yaml"]})
    over = {
        "resources": ["../../base"],
        "namePrefix": "prod-",
        "patches": [{"path": "patch.yaml", "target": {"kind": "Pod"}}],
    }
    _write(
        tmp_path,
        base__kustomization=base,
        base__pod=f"# a pod\n{yaml.safe_dump(_gpus('1'))}",
        overlays__prod__kustomization=yaml.safe_dump(over),
        overlays__prod__patch=GPU_OPERATIONS,
        overlays__test__kustomization=yaml.safe_dump({**over, "namePrefix": "test-"}),
        overlays__test__patch=GPU_OPERATIONS,
    )
    for arguments in ([tmp_path], [tmp_path / "overlays/prod"], sorted(tmp_path.rglob("*.yaml"))):
        done, report = _report(*map(str, arguments))
        assert (done.code, report["problems"], report["unjudged"]) == (1, [], []), done.output
        (found,) = report["violations"]
        assert (found["rule"], found["subject"]) == ("GPU001", "Pod team/prod-good")
        assert found["file"] == str(tmp_path / "base/pod.yaml")
        line = (tmp_path / "base/pod.yaml").read_text().splitlines()[found["line"] - 1]
        assert "nvidia.com/gpu" in line
        assert "overlays/prod" in found["message"]


@KUSTOMIZE
def test_a_patch_that_a_commit_changes_is_judged_applied(tmp_path: Path) -> None:
    patch = _gpus("500m")
    kustomization = {"resources": ["pod.yaml"], "patchesStrategicMerge": ["patches/gpus.yaml"]}
    _write(
        tmp_path,
        pod=yaml.safe_dump(_gpus("1")),
        kustomization=yaml.safe_dump(kustomization),
        patches__gpus=yaml.safe_dump(patch),
    )
    done, report = _report("--mixed", str(tmp_path / "patches/gpus.yaml"))
    assert (done.code, report["unjudged"], report["summary"]["objects"]) == (1, [], 1)
    (found,) = report["violations"]
    assert (found["rule"], found["file"]) == ("GPU001", str(tmp_path / "pod.yaml"))


@pytest.mark.promise("A kustomization that cannot be built is named with the reason.")
@pytest.mark.parametrize("tools", [True, False])
def test_a_kustomization_that_is_not_built_is_named_and_its_resources_are_judged(
    tools: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if tools and not HAS_KUSTOMIZE:
        pytest.skip("needs kustomize or kubectl on PATH")
    if not tools:
        monkeypatch.setenv("PATH", os.devnull)
    over = {"resources": ["pod.yaml", "absent.yaml"], "patches": [{"path": "patch.yaml"}]}
    _write(tmp_path, kustomization=yaml.safe_dump(over), pod=BAD, patch=GPU_OPERATIONS)
    done, report = _report(str(tmp_path))
    assert (done.code, report["problems"]) == (1, [])
    assert [found["rule"] for found in report["violations"]] == ["GPU001", "GPU023"]
    kustomization, patch = report["unjudged"]
    reason = "absent.yaml" if tools else "neither kustomize nor kubectl is on PATH"
    assert reason in kustomization["message"]
    assert (patch["what"], patch["line"]) == ("patch", 2)


@KUSTOMIZE
def test_nothing_is_fetched_from_another_host(tmp_path: Path) -> None:
    over = {"resources": ["https://localhost:1/pod.yaml", "https://localhost:1/a/b//c?ref=main"]}
    _write(tmp_path, kustomization=yaml.safe_dump(over))
    done, report = _report(str(tmp_path))
    (named,) = report["unjudged"]
    assert (done.code, named["what"]) == (0, "kustomization")


CHART = "apiVersion: v2\nname: train\nversion: 1.0.0\n"


def _chart(folder: Path, template: str) -> Path:
    _write(folder, values="gpus: 500m\n", templates__pod=template, Chart=CHART)
    return folder


@pytest.mark.promise("A chart that cannot be rendered is named with the reason.")
def test_a_chart_that_is_not_rendered_is_named_by_any_of_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", os.devnull)
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path / "none"))
    folder = _chart(tmp_path / "charts/train", "kind: Pod\nspec: {{ .Values.gpus }}\n")
    for name in (tmp_path, folder, folder / "templates/pod.yaml", folder / "Chart.yaml"):
        done, report = _report("--mixed", str(name))
        assert (done.code, report["problems"]) == (0, [])
        (named,) = report["unjudged"]
        assert (named["what"], named["file"]) == ("Helm chart", str(folder))
        assert "helm is not on PATH" in named["message"]
    assert "nothing was checked" in check(str(tmp_path)).output


def test_a_chart_in_the_root_hides_no_other_file(tmp_path: Path) -> None:
    folder = _chart(tmp_path, "kind: Pod\nspec: {{ .Values.gpus }}\n")
    _write(folder, examples__pod=BAD)
    done, report = _report("--no-render", str(tmp_path))
    assert (done.code, len(report["violations"]), len(report["unjudged"])) == (1, 2, 1)


HAS_HELM = shutil.which("helm") is not None
HELM = pytest.mark.skipif(not HAS_HELM, reason="needs helm on PATH")


@pytest.mark.slow
@pytest.mark.promise("A chart in a folder is rendered with its own values and judged.")
@HELM
@pytest.mark.parametrize("dependencies", [[], [{"name": "absent", "version": "1.0.0"}]])
def test_a_chart_is_judged_by_what_it_renders(dependencies: list[Any], tmp_path: Path) -> None:
    template = GOOD.replace("nvidia.com/gpu: 1", "nvidia.com/gpu: {{ .Values.gpus }}")
    assert template != GOOD
    folder = _chart(tmp_path / "charts/train", template)
    described = {**yaml.safe_load(CHART), "dependencies": dependencies}
    (folder / "Chart.yaml").write_text(yaml.safe_dump(described))
    done, report = _report(str(tmp_path))
    (found,) = report["violations"]
    assert (done.code, found["rule"], report["problems"]) == (1, "GPU001", [])
    assert found["file"].startswith(str(folder))
    assert ["absent is not" in left["message"] for left in report["unjudged"]] == [True] * len(
        dependencies
    )
