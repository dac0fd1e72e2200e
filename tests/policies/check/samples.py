"""Sample manifests: a pod that breaks no rule, and a pod that breaks two rules."""

GOOD = """\
apiVersion: v1
kind: Pod
metadata: {name: good, namespace: team}
spec:
  containers:
    - {name: c, resources: {limits: {nvidia.com/gpu: 1}}}
"""
BAD = """\
apiVersion: v1
kind: Pod
metadata: {name: bad, namespace: team}
spec:
  containers:
    - name: cuda
      resources:
        limits:
          nvidia.com/gpu: 500m
    - {name: share, resources: {limits: {nvidia.com/gpu.shared: 2}}}
"""
