"""Container images of the real GPU Operator and its validator, and the chart that deploys them.

The images have the built programs and the module's files at the paths of the official images
(gpu-operator v24.3.0, docker/Dockerfile and validator/Dockerfile).
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import yaml

from lab.real import image
from lab.real.build import operator_files
from lab.real.image import LayeredImage
from lab.real.parts import OPERATOR_RELEASE

OPERATOR = f"nvcr.io/nvidia/gpu-operator:{OPERATOR_RELEASE}"
VALIDATOR = f"nvcr.io/nvidia/cloud-native/gpu-operator-validator:{OPERATOR_RELEASE}"
CHART = "gpu-operator"


def images(programs: Mapping[str, Path]) -> dict[str, LayeredImage]:
    """Return both images by name.

    In the validator's image, the test program `probe` stands for the CUDA program `vectorAdd`.

    Args:
        programs: Paths of the built programs, by name.
    """
    module = operator_files()
    assets = "opt/gpu-operator"
    operator = {
        "usr/bin/gpu-operator": programs["gpu-operator"],
        **_files_of_folder(module / "assets", assets),
        **_files_of_folder(module / "manifests", f"{assets}/manifests"),
    }
    validator = {
        **image.system("bash", "chroot", "rm", "sleep"),
        "usr/bin/nvidia-validator": programs["validator"],
        "usr/bin/vectorAdd": programs["probe"],
        **{
            f"var/nvidia/manifests/{path.name}": path
            for path in sorted((module / "validator").glob("*-workload-validation.yaml"))
        },
    }
    return {
        OPERATOR: _operand_image(operator, {"User": "1000:1000"}),
        VALIDATOR: _operand_image(
            validator,
            {},
            "NVIDIA_DISABLE_REQUIRE=true",
            "NVIDIA_DRIVER_CAPABILITIES=utility,compute",
        ),
    }


def charts(folder: Path) -> Path:
    """Write the operator's chart below a folder, and return that folder.

    The module has no version in its chart: it is set as in the published chart.
    """
    chart = folder / CHART
    shutil.copytree(operator_files() / "deployments" / CHART, chart)
    file = chart / "Chart.yaml"
    # Files of a Go module are read-only.
    for path in (chart, file):
        path.chmod(0o755)
    content = yaml.safe_load(file.read_text())
    content |= {"version": OPERATOR_RELEASE, "appVersion": OPERATOR_RELEASE}
    file.write_text(yaml.safe_dump(content))
    return folder


def _files_of_folder(folder: Path, target: str) -> dict[str, Path]:
    return {
        f"{target}/{path.relative_to(folder)}": path
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def _operand_image(
    files: Mapping[str, Path], settings: Mapping[str, object], *variables: str
) -> LayeredImage:
    env = [*image.PATHS, "NVIDIA_VISIBLE_DEVICES=void", *variables]
    return LayeredImage.of(image.layer_of(files), {"Env": env, **settings})
