"""Files with SSH private keys that environment variables name."""

from __future__ import annotations

import os
from pathlib import Path

from gpu_rules.faults import Fault, FaultError

KEY_FILE = "GPU_CLUSTER_SSH_PRIVATE_KEY_FILE"
"""Environment variable with the file of the hosts' SSH key."""
PROBE_KEY_FILE = "GPU_CLUSTER_PROBE_KEY_FILE"
"""Environment variable with the file of the probe's own SSH key.

Hosts restrict this key to the probe (`gpu-cluster probe-key`). It is used in preference to the
stack's key, so that previews can run with this key alone.
"""


def key_of_file() -> str:
    """Return the SSH key from the file that `KEY_FILE` names; empty if the variable is not set.

    Raises:
        FaultError: The file can't be read.
    """
    path = os.environ.get(KEY_FILE)
    if not path:
        return ""
    try:
        return Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise FaultError(
            Fault(
                KEY_FILE,
                f"{path!r}, which can't be read ({error})",
                "a file with an SSH private key",
                "name another, or `pulumi config set --secret gpu-cluster:sshPrivateKey`",
            )
        ) from None
