"""The project's own Pulumi language host for Python.

It stands in for `pulumi-language-python` where release downloads are refused, because no Go
module of the official host is served. The program runs inside the host's own process when the
host already runs under the project's virtual environment; otherwise, and for plugins such as
policy packs, in a child process under the interpreter that the project names.

Where it differs from the official host: `GetRequiredPackages` names nothing (the engine loads a
plugin when a resource first needs it), code generation is not served, and only `pip` installs
dependencies.
"""
