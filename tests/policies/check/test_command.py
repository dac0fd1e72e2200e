"""The command line of the checker: files that it reads, cluster facts, and exit codes."""

from __future__ import annotations

import json
import multiprocessing
import os
import pty
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import yaml

from gpu_cluster.guardrails.check import main
from gpu_rules.rules import RULES
from tests.fixtures.documents import stack_document
from tests.fixtures.programs import run_program
from tests.policies.check import running
from tests.policies.check.running import ONLY, ROOT
from tests.policies.check.samples import BAD, GOOD

check = partial(running.check, main=main)
"""Run the checker with the option `--stack`."""
ADVICE = GOOD.replace("nvidia.com/gpu:", "nvidia.com/gpu.shared:").replace(": 1}", ": 2}")
TOLERANT = GOOD.replace(
    "spec:\n", "spec:\n  tolerations: [{key: nvidia.com/gpu, operator: Exists}]\n"
)


def _write(folder: Path, **contents: str) -> None:
    for name, content in contents.items():
        path = folder / f"{name.replace('__', '/')}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def test_the_exit_code_tells_violations_from_unreadable_input(tmp_path: Path) -> None:
    _write(tmp_path, good=GOOD, bad=BAD, advice=ADVICE, broken="apiVersion: v1\nkind: Pod\nspec: [")
    code = {name: check(str(tmp_path / f"{name}.yaml")).code for name in ("good", "bad", "broken")}
    assert code == {"good": 0, "bad": 1, "broken": 2}
    assert check(str(tmp_path)).code == 2
    assert check(str(tmp_path / "advice.yaml")).code == 0
    assert check(str(tmp_path / "advice.yaml"), "--fail-on", "advisory").code == 1
    assert check(str(tmp_path / "bad.yaml"), "--rule", "GPU001=off").code == 0
    assert check(str(tmp_path / "advice.yaml"), "--rule", "GPU023=mandatory").code == 1


def test_an_amount_beyond_any_float_leaves_the_other_files_judged(tmp_path: Path) -> None:
    _write(tmp_path, a_huge=GOOD.replace("nvidia.com/gpu: 1", "nvidia.com/gpu: 1e400"), b_bad=BAD)
    done = check(str(tmp_path), "--stack", "dev", rules=())
    assert done.code == 1
    assert "a_huge.yaml" in done.output
    assert "b_bad.yaml" in done.output


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], "PATH"),
        (["x", "--format", "pdf"], "'pdf'"),
        (["x", "--rule", "GPU899=off"], "'GPU899'"),
        (["x", "--rule", "GPU001=on"], "'on'"),
    ],
)
def test_wrong_arguments_are_told(arguments: list[str], named: str) -> None:
    done = check(*arguments)
    assert done.code == 2
    assert named in done.errors
    assert done.errors.endswith("`python -m gpu_rules.check --help` lists all\n")


def test_folders_patterns_and_files_are_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write(tmp_path, a=GOOD, b__c__d=GOOD)
    _write(tmp_path / ".git", hidden=BAD)
    (tmp_path / "b" / "pod.json").write_text('{"apiVersion": "v1", "kind": "Pod"}')
    (tmp_path / "b" / "notes.txt").write_text("a: [")
    (tmp_path / "loop").symlink_to(tmp_path)
    monkeypatch.chdir(tmp_path)
    objects = {
        arguments: check(*arguments.split()).output.split()[0]
        for arguments in [".", ". ./a.yaml b", "*.yaml", "**/*.yaml", "b/c b/*.json", "a.yaml"]
    }
    assert objects == {
        ".": "3",
        ". ./a.yaml b": "3",
        "*.yaml": "1",
        "**/*.yaml": "2",
        "b/c b/*.json": "2",
        "a.yaml": "1",
    }
    # A pattern matches files with any suffix. Files that are not manifests are left out.
    assert "1 document without Kubernetes objects left out" in check("b/*").output


def test_a_custom_kind_is_judged_by_its_pods_or_said_not_to_be(tmp_path: Path) -> None:
    bad = yaml.safe_load(BAD)
    job = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "a"}}
    job["spec"] = {"pytorchReplicaSpecs": {"Worker": {"template": {"spec": bad["spec"]}}}}
    bad["spec"]["containers"][0]["image"] = "cuda:13"
    spark = {"apiVersion": "sparkoperator.k8s.io/v1beta2", "kind": "SparkApplication"}
    spark["spec"] = {"executor": {"gpuCards": 8}}
    _write(tmp_path, job=json.dumps(job, indent=1), spark=json.dumps(spark))
    done = check(str(tmp_path / "job.yaml"))
    assert (done.code, "GPU001" in done.output, "not checked" in done.output) == (1, True, False)
    assert "1 object checked" in done.output
    done = check(str(tmp_path))
    assert "not checked: 1 SparkApplication (sparkoperator.k8s.io/v1beta2)" in done.output


def test_a_pod_is_found_however_deep_and_by_whatever_kind_it_is_listed(tmp_path: Path) -> None:
    bad = yaml.safe_load(BAD)
    nested = bad
    for _ in range(40):
        nested = {"apiVersion": "v1", "kind": "List", "items": [nested]}
    _write(
        tmp_path,
        deep=json.dumps(nested),
        odd=json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "items": [bad]}),
        binary=BAD.replace("kind: Pod", "!!binary a2luZA==: !!binary UG9k"),
        glued=json.dumps(bad) + json.dumps(bad),
    )
    for name in ("deep", "odd", "binary", "glued"):
        done = check(str(tmp_path / f"{name}.yaml"))
        assert done.code == 1, name
        assert done.output.count("GPU001") == (2 if name == "glued" else 1), name


def test_objects_that_name_no_namespace_are_judged_in_the_one_that_is_given(
    tmp_path: Path,
) -> None:
    operand = (
        BAD.replace(", namespace: team", "")
        .replace("500m", "1")
        .replace("spec:\n", "spec:\n  volumes: [{name: d, hostPath: {path: /run/nvidia}}]\n")
    )
    _write(tmp_path, operand=operand)
    rules = ("--rule", "GPU023=off")
    assert "GPU036" in check(str(tmp_path), rules=rules).output
    done = check(str(tmp_path), "--namespace", "kube-system", rules=rules)
    assert (done.code, "GPU036" in done.output) == (0, False)
    assert "GPU036" in check(str(tmp_path), "--namespace", "team", rules=rules).output


def test_a_custom_object_without_a_namespace_is_compared_with_the_others_in_the_given_one(
    tmp_path: Path,
) -> None:
    group = {"replicas": 40, "template": {"spec": yaml.safe_load(BAD.replace("500m", "1"))["spec"]}}
    ray = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "a"}}
    _write(tmp_path, ray=json.dumps(ray | {"spec": {"workerGroupSpecs": [group]}}))
    (tmp_path / ".gpu-rules.yaml").write_text("pools: [{name: a, gpusPerNode: 1, nodes: 2}]")
    settings = ("--config", str(tmp_path / ".gpu-rules.yaml"), "--namespace", "team")
    done = check(str(tmp_path / "ray.yaml"), *settings, rules=())
    assert "GPU040" in done.output
    assert "RayCluster team/a" in done.output


def test_an_argument_that_names_nothing_is_told(tmp_path: Path) -> None:
    (tmp_path / "secret.yaml").symlink_to(tmp_path / "gone")
    for name, says in [
        ("missing.yaml", "no such file"),
        ("*.yml", "no such file"),
        ("secret.yaml", "no such file or directory"),
    ]:
        done = check(str(tmp_path / name))
        assert done.code == 2
        assert says in done.output


def test_a_folder_without_manifests_is_no_error_and_the_summary_says_so(tmp_path: Path) -> None:
    done = check(str(tmp_path))
    assert (done.code, done.output.partition(",")[0]) == (0, "nothing was checked")


def _piped(content: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_program(
        [sys.executable, "-m", "gpu_rules.check", *ONLY, *arguments],
        cwd=ROOT,
        input=content,
        timeout=60,
    )


def test_standard_input_is_read_like_a_file() -> None:
    rendered = f"---\n# Source: chart/templates/a.yaml\n{GOOD}---\n# Source: chart/b.yaml\n{BAD}"
    done = _piped(rendered, "-")
    assert (done.returncode, done.stderr) == (1, "")
    assert "<stdin>:19: mandatory GPU001" in done.stdout


def test_a_clone_has_the_whole_command_without_an_installation() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gpu_rules", "export", "gatekeeper", "--list"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert all(rule in done.stdout for rule in RULES)


def test_a_reader_that_leaves_early_gets_no_traceback() -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "gpu_rules.check", "docs"],
        cwd=ROOT,
        stdout=write,
        stderr=subprocess.PIPE,
        timeout=60,
        check=False,
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (2, b"")


def test_a_terminal_gets_colours_and_a_file_none(tmp_path: Path) -> None:
    _write(tmp_path, bad=BAD)
    main, other = pty.openpty()
    command = [sys.executable, "-m", "gpu_rules.check", str(tmp_path)]
    environment = {**os.environ, "TERM": "xterm", "NO_COLOR": ""}
    shown = subprocess.Popen(command, cwd=ROOT, stdout=other, env=environment)
    os.close(other)
    output = b""
    try:
        while part := os.read(main, 65536):
            output += part
    # On Linux, reading from a pseudo-terminal fails with OSError after its other end is closed.
    except OSError:
        pass
    assert shown.wait(timeout=60) == 1
    os.close(main)
    assert b"\x1b[" in output
    assert b"GPU001" in output
    assert "\x1b[" not in check(str(tmp_path)).output


def _stack(folder: Path, document: object) -> None:
    (folder / "Pulumi.test.yaml").write_text(
        yaml.safe_dump({"config": {"gpu-cluster:cluster": document}})
    )


CLUSTER = stack_document(context="test", pools=[{"name": "a", "nodes": ["n-1"], "gpusPerNode": 2}])


def test_the_stack_gives_pools_and_platform(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _stack(tmp_path, CLUSTER)
    _write(tmp_path / "sub", good=GOOD, tolerant=TOLERANT, large=TOLERANT.replace(": 1}", ": 3}"))
    monkeypatch.chdir(tmp_path / "sub")
    assert check("good.yaml").code == 0
    done = check("good.yaml", "--stack", "test")
    assert (done.code, "GPU004" in done.output) == (1, True)
    assert check("tolerant.yaml", "--stack", "test").code == 0
    assert "GPU007" in check("large.yaml", "--stack", "test").output


def test_a_stack_that_is_missing_or_wrong_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _write(tmp_path, good=GOOD)
    done = check("good.yaml", "--stack", "test")
    assert (done.code, "Pulumi.test.yaml" in done.errors) == (2, True)
    _stack(tmp_path, {**CLUSTER, "platform": "magic"})
    done = check("good.yaml", "--stack", "test")
    assert (done.code, "platform" in done.errors) == (2, True)


def test_many_documents_are_judged_as_few_are(tmp_path: Path) -> None:
    pods = [(BAD if i % 10 == 0 else GOOD) for i in range(700)]
    path = tmp_path / "all.yaml"
    path.write_text("---\n".join(pods))
    done = check(str(path))
    assert done.code == 1
    assert done.output.endswith("700 objects checked, 70 mandatory and 70 advisory violations\n")
    lines = [int(line.split(":")[1]) for line in done.output.splitlines() if "GPU001" in line]
    good, bad = GOOD.count("\n"), BAD.count("\n")
    tens = 10 * (good + 1) + bad - good
    assert lines == [9 + index * tens for index in range(70)]


def test_output_that_cannot_be_encoded_is_escaped(tmp_path: Path) -> None:
    (tmp_path / "caf\u00e9.yaml").write_text(BAD)
    done = subprocess.run(
        [sys.executable, "-m", "gpu_rules.check", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, b"")
    assert b"caf\\xe9.yaml:9:" in done.stdout


NAMESPACE = "apiVersion: v1\nkind: Namespace\nmetadata: {name: team}\n"


def test_manifests_of_one_run_are_judged_as_one_stack(tmp_path: Path) -> None:
    _write(tmp_path, a=GOOD, b=f"# the team\n{NAMESPACE}")
    done = check(str(tmp_path), rules=())
    assert done.code == 0
    assert f"{tmp_path}/b.yaml:4: advisory GPU029" in done.output
    assert "GPU029" not in check(str(tmp_path), "--scope", "object", rules=()).output
    assert "GPU029" not in check(str(tmp_path / "a.yaml"), rules=()).output


def test_items_of_a_list_are_judged_as_one_stack(tmp_path: Path) -> None:
    indented = [("- " + text.replace("\n", "\n  ")).rstrip() for text in (GOOD, NAMESPACE)]
    _write(tmp_path, all="\n".join(["apiVersion: v1", "kind: List", "items:", *indented, ""]))
    done = check(str(tmp_path), rules=())
    assert f"{tmp_path}/all.yaml:12: advisory GPU029" in done.output


def test_the_pack_s_configuration_is_taken_after_the_stack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _stack(tmp_path, CLUSTER)
    _write(tmp_path, pod=TOLERANT.replace(": 1}", ": 3}"))
    assert "GPU007" in check("pod.yaml", "--stack", "test", rules=()).output
    settings = {"pools": [{"name": "b", "gpusPerNode": 4}], "rules": {"GPU050": "off"}}
    Path("pack.json").write_text(json.dumps({"gpu-rules-mandatory": settings}))
    done = check("pod.yaml", "--stack", "test", "--config", "pack.json", rules=())
    assert "GPU007" not in done.output
    assert "GPU050" not in done.output


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "no such file"),
        ("a: [", "line 1"),
        ("", "none or several"),
        ("[]", "found no mapping of settings"),
        ('{"gpu-rules-mandatory": []}', "found no mapping gpu-rules-mandatory"),
        ('{"rules": {"GPU001": "loud"}}', "found rules.GPU001: 'loud'"),
        ('{"rules": {"GPU999": "off"}}', "found no rule GPU999"),
        ('{"gpu-rules": {}}', "'gpu-rules' was unexpected"),
        ('{"gpu-rules-mandatory": {"rules": {"GPU001": "loud"}}}', "gpu-rules-mandatory.rules"),
        ('{"gpu-rules-mandatory": {"pool": []}}', "'pool' was unexpected"),
    ],
)
def test_a_configuration_that_is_wrong_is_told(
    content: str | None, says: str, tmp_path: Path
) -> None:
    path = tmp_path / "pack.json"
    if content is not None:
        path.write_text(content)
    done = check(str(tmp_path), "--config", str(path))
    assert (done.code, says in done.errors) == (2, True)


def test_what_the_system_refuses_to_open_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "loop.yaml").symlink_to(tmp_path / "loop.yaml")
    done = check(str(tmp_path / "loop.yaml"))
    assert (done.code, "too many levels of symbolic links" in done.output) == (2, True)
    monkeypatch.setattr(os, "scandir", _refuse)
    done = check(str(tmp_path))
    assert (done.code, "found permission denied; wanted: a readable folder" in done.output) == (
        2,
        True,
    )


def _refuse(_: str) -> None:
    raise PermissionError(13, "Permission denied")


def test_a_closed_standard_input_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    done = check("-")
    assert (done.code, "no standard input" in done.output) == (2, True)


@pytest.mark.skipif(
    multiprocessing.get_start_method() != "fork", reason="the judge is replaced before a fork"
)
def test_a_process_that_is_killed_ends_the_run_with_a_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "all.yaml").write_text("---\n".join([GOOD] * 600))
    monkeypatch.setattr("gpu_rules.check.pool.judge", _die)
    done = check(str(tmp_path))
    assert (done.code, "worker process was killed" in done.errors) == (2, True)


def _die(*_: object, **__: object) -> None:
    os.kill(os.getpid(), 9)


CLAIMING = """
apiVersion: v1
kind: Pod
metadata: {name: a}
spec:
  hostPID: true
  resourceClaims: [{name: c, resourceClaimTemplateName: odd}]
  containers: [{name: a, image: "a:1"}]
"""
CLAIM_TEMPLATE = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: odd}
spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: CLASS}}]}}}
"""


def test_a_claim_is_known_by_its_template_in_another_file(tmp_path: Path) -> None:
    _write(tmp_path, a=CLAIMING, b=CLAIM_TEMPLATE.replace("CLASS", "nic.example.com"))
    assert "GPU067" not in check(str(tmp_path), rules=()).output
    assert "GPU067" in check(str(tmp_path), "--scope", "object", rules=()).output
    _write(tmp_path, b=CLAIM_TEMPLATE.replace("CLASS", "gpu.nvidia.com"))
    assert "GPU067" in check(str(tmp_path), rules=()).output


def test_a_number_in_the_place_of_text_is_unreadable(tmp_path: Path) -> None:
    number = GOOD.replace("metadata: {", "metadata: {annotations: {example.com/a: 50}, ")
    assert number != GOOD
    _write(tmp_path, a=number)
    done = check(str(tmp_path / "a.yaml"))
    assert done.code == 2
    assert "metadata.annotations[example.com/a]" in done.output


UNREAD = """
apiVersion: example.com/v1
kind: Train
metadata: {name: a}
spec:
  workers: {gpuCards: 2}
"""
QUIET = UNREAD.replace("gpuCards: 2", "colour: red")


@pytest.mark.promise("Requests for GPUs that no rule reads are listed with their path.")
def test_what_stays_unjudged_is_listed_and_fails_a_run_that_asks_for_it(tmp_path: Path) -> None:
    _write(tmp_path, a=UNREAD, b=QUIET)
    done = check(str(tmp_path))
    assert done.code == 0
    assert f"{tmp_path}/a.yaml:6: not checked Train (example.com/v1)" in done.output
    assert "Train a: spec.workers.gpuCards: " in done.output
    assert "not checked: 1 Train (example.com/v1)" in done.output
    assert check(str(tmp_path), "--fail-on", "unjudged").code == 1
    assert check(str(tmp_path / "b.yaml"), "--fail-on", "unjudged").code == 0
    (listed,) = json.loads(check(str(tmp_path), "--format", "json").output)["unjudged"]
    assert (listed["path"], listed["line"]) == ("spec.workers.gpuCards", 6)
    assert "::warning" in check(str(tmp_path), "--format", "github").output
    _write(tmp_path, c=GOOD.replace("nvidia.com/gpu:", "example.com/gpu:"))
    assert "add the name to resourceNames" in check(str(tmp_path / "c.yaml")).output
    both = ("--fail-on", "advisory", "--fail-on", "unjudged")
    assert check(str(tmp_path / "b.yaml"), *both).code == 0
