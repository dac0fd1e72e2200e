"""A kubeconfig for tests of the package, with a token that must not appear anywhere."""

import yaml

CANARY = "canary-91c2-token"
KUBECONFIG = yaml.safe_dump(
    {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": CANARY}}],
        "contexts": [{"name": "test", "context": {"cluster": "c", "user": "u"}}],
    }
)
