"""The project's own Pulumi command plugin, standing in for `pulumi-resource-command` 1.2.1.

Used only where release downloads are refused, because no Go module of the official plugin is
served. Types, inputs, outputs, defaults and replace rules are those of pulumi-command 1.2.1
(github.com/pulumi/pulumi-command, provider/pkg/provider). It is stricter in these points, and
nothing in a stack may depend on them:

- `connection.hostKey` (and `connection.proxy.hostKey`) is required; the official plugin takes any
  key when it is absent. `ssh-keyscan -t ed25519 -p PORT HOST` prints the key to compare and pin.
- A host key that does not match is refused at once; the official plugin dials again up to
  `dialErrorLimit`.
- A cancelled update ends its commands: SIGTERM, 5 s later SIGKILL, to the remote process group
  or the local one. The official plugin leaves remote commands running.
- A resource's `customTimeouts` bound its commands. A connection that is silent for 60 s is lost.
- `perDialTimeout` bounds a whole attempt (TCP, key exchange, log-in), not only TCP.
- Error texts name the host and the exit status and end with the last output, without the command;
  values of secret inputs and of `environment` are blanked there, secrets in logged lines too.
- Outputs of an earlier run longer than 128 KiB are not passed on as `PULUMI_COMMAND_STDOUT`
  (Linux refuses such a variable: MAX_ARG_STRLEN); a warning says so.
"""

VERSION = "1.2.1"
