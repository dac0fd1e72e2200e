"""Installation of a platform: its Helm release, namespace, RuntimeClass and extra objects."""
