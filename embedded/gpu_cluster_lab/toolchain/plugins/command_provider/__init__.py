"""The project's own Pulumi command plugin, a replacement for `pulumi-resource-command` 1.2.1.

It is only used if releases can't be downloaded, because no Go module of the official plugin is
published. Types, inputs, outputs, defaults and replacement rules are those of pulumi-command 1.2.1
(github.com/pulumi/pulumi-command, provider/pkg/provider). The following points are stricter, and no
stack may depend on them:

- `assetPaths`, `archivePaths`, an SSH agent and passwords (`agentSocketPath`, `password` and
  `privateKeyPassword` of `connection`) and the function `command:local:run` are refused.
- A failed login is explained as the inspection explains it (`gpu_cluster.ssh.login`).
- `connection.hostKey` (and `connection.proxy.hostKey`) is required; the official plugin accepts any
  key if it is absent. `ssh-keyscan -t ed25519 -p PORT HOST` prints the key to compare and pin.
- A refused login, such as a wrong host key or key, is an error immediately; the official plugin
  connects again up to `dialErrorLimit` times.
- A cancelled update ends its commands: SIGTERM, 3 s later SIGKILL, to the remote or local process
  group. The official plugin leaves remote commands running.
- A resource's `customTimeouts` limit its commands. A connection without an answer for 60 s is
  regarded as lost.
- `perDialTimeout` limits a whole attempt (TCP, key exchange, login), not only TCP.
- Error texts contain the host, the exit status and the last output, but not the command. Values of
  secret inputs and of `environment` are replaced there, and secrets in logged lines too.
- Outputs of an earlier run that are longer than 128 KiB are not passed on as
  `PULUMI_COMMAND_STDOUT` (Linux rejects such a variable: MAX_ARG_STRLEN); the plugin prints a
  warning.
"""

VERSION = "1.2.1"
