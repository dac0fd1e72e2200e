"""The project's own Pulumi language host for Python.

It replaces `pulumi-language-python` if releases can't be downloaded, because no Go module of the
official host is published. If the host already runs in the project's virtual environment, the
Pulumi program runs inside the host's process. Otherwise the program runs in a child process with
the interpreter that the project names, and so do plugins such as policy packs.

Differences from the official host: `GetRequiredPackages` returns nothing (the engine loads a plugin
when a resource needs it), SDKs are generated but not linked into a program, programs are not
generated, and dependencies are only installed with `pip`.
"""
