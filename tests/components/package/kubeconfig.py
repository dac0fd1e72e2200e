"""A kubeconfig for tests of the package, with a token that must not appear anywhere."""

from tests.fixtures.kubeconfigs import kubeconfig

CANARY = "canary-91c2-token"
KUBECONFIG = kubeconfig(context="test", token=CANARY)
