"""The table of the verbs of `gpu-cluster`: what each does, examples, options.

This module is imported by `gpu-cluster --help`, which must be fast. It must not import Pulumi,
pydantic, or modules of the verbs.
"""

from __future__ import annotations

from typing import NamedTuple


class Option(NamedTuple):
    """An option of a verb.

    Attributes:
        name: Name without dashes, such as ``from-cluster``; the verb's function gets it as
            ``from_cluster``.
        text: What the option does, for the help.
        value: What the value is, in capital letters; empty for a switch, which is on or off.
        choices: The values that are allowed; empty: any value.
        is_position: Whether the value is given without the option's name.
        is_repeated: Whether any number of such values may be given, also none.
        kind: Kind of the value, for completion: ``file``, ``stack`` or another text.
    """

    name: str
    text: str
    value: str = ""
    choices: tuple[str, ...] = ()
    is_position: bool = False
    is_repeated: bool = False
    kind: str = ""

    @property
    def parameter(self) -> str:
        """Return the name of the parameter of the verb's function."""
        return self.name.replace("-", "_")


class Verb(NamedTuple):
    """A verb of `gpu-cluster`.

    Attributes:
        name: Name of the verb.
        text: What the verb does, one line.
        examples: The words of command lines after ``gpu-cluster``, which show each own option.
        options: The verb's own options.
        module: Module whose function ``main`` runs the verb, as `importlib.import_module` takes it
            from this package; another function stands after a colon. By default it is the module
            of the verb's name in this package.
        group: Heading under which the help lists the verb.
        has_data: Whether ``--output json`` prints a JSON document.
        needs_stack: Whether the stack file must exist.
        has_stack: Whether the verb works on a stack.
        passes_on: Whether the function gets all arguments as a list and reads them itself, if the
            first is a choice of the only option.
        wrong: Exit code for wrong arguments.
    """

    name: str
    text: str
    examples: tuple[str, ...]
    options: tuple[Option, ...] = ()
    module: str = ""
    group: str = ""
    has_data: bool = True
    needs_stack: bool = True
    has_stack: bool = True
    passes_on: bool = False
    wrong: int = 2

    @property
    def function(self) -> tuple[str, str]:
        """Return the module and the name of the function that runs the verb."""
        module, _, name = self.module.partition(":")
        return module or f".{self.name.replace('-', '_')}", name or "main"


CHANGE, READ, BEGIN, PART, CI, LAB, OTHER = (
    "Change the cluster",
    "Read only",
    "Begin and end",
    "Parts of a stack",
    "In CI",
    "Embedded cluster",
    "Other",
)
HOSTS = Option("hosts", "only these hosts, such as gpu-[1-2]", "HOSTS")
FILE = "FILE"

SHARED = (
    Option("stack", "the stack; STACK in the environment or dev by default", "NAME", kind="stack"),
    Option("embedded", "run on an embedded fake of the stack's real cluster (EMBEDDED=1)"),
    Option("verbose", "print more: the engine's own output, a traceback (VERBOSE=1)"),
)
"""Options of each verb that works on a stack. A variable of the environment is their default."""
OUTPUT = Option(
    "output",
    "text, or json: one JSON document on standard output, all else on standard error (JSON=1)",
    "FORM",
    ("text", "json"),
)
"""Option of each verb that prints a JSON document."""

VERBS = (
    Verb(
        "up",
        "create or update the stack, and validate its GPUs",
        ("up --stack prod",),
        group=CHANGE,
    ),
    Verb(
        "preview",
        "show what `up` would change, judged by the rules",
        ("preview --stack prod --file change.json", "preview --output json"),
        (Option("file", "write the change document to this file, too", FILE, kind="file"),),
        group=CHANGE,
    ),
    Verb(
        "validate",
        "validate GPUs again, or run user-defined tests",
        (
            "validate --stack prod --nodes 'gpu-[1-2]'",
            "validate --tests all-reduce --junit junit.xml --ctrf ctrf.json",
        ),
        (
            Option("nodes", "only these nodes, such as gpu-[1-2],gpu-7; all by default", "NODES"),
            Option("tests", "run these tests of the stack file, separated by commas", "TESTS"),
            Option("junit", "write the results as JUnit XML, too", FILE, kind="file"),
            Option("ctrf", "write the results as CTRF JSON, too", FILE, kind="file"),
        ),
        group=CHANGE,
    ),
    Verb(
        "destroy",
        "destroy the stack; asks if its cluster is real",
        ("destroy --stack lab",),
        group=CHANGE,
    ),
    Verb(
        "status",
        "show drift, due work, faults and lost GPUs",
        ("status --stack prod --output json",),
        group=READ,
        wrong=1,
    ),
    Verb(
        "who",
        "show which pods use which GPUs, and how many are free",
        ("who --stack prod --verbose",),
        group=READ,
    ),
    Verb(
        "why",
        "print why a pod does not run, or why a node lacks GPUs",
        ("why default/train", "why gpu-1"),
        (
            Option(
                "pod",
                "the pod, the controller that can't create it, or the node",
                "NAMESPACE/NAME|NODE",
                is_position=True,
            ),
        ),
        group=READ,
    ),
    Verb(
        "report",
        "write a page: GPUs, changes, findings, measurements",
        ("report --stack prod --file report.html", "report --change change.json"),
        (
            Option("file", "the page; report-STACK.html by default", FILE, kind="file"),
            Option("change", "a change document, in place of a preview", FILE, kind="file"),
        ),
        module=".report.__main__",
        group=READ,
    ),
    Verb(
        "images",
        "list all images and charts that the stack needs",
        ("images --stack prod", "images --stack prod --packages 'nvidia-driver*'"),
        (Option("packages", "list versions of packages in the declared repositories", "PATTERN"),),
        group=READ,
    ),
    Verb(
        "support-bundle",
        "write an archive for support, without secrets",
        ("support-bundle --only-list", "support-bundle --stack prod --file support.tar.gz"),
        (
            Option("file", "the archive; support-STACK.tar.gz by default", FILE, kind="file"),
            Option("only-list", "only list the contents"),
        ),
        group=READ,
    ),
    Verb(
        "upgrade-check",
        "show what the installed version changes for the stack",
        ("upgrade-check --stack prod", "upgrade-check --since 0.1.0 --output json"),
        (
            Option(
                "since",
                "the version that deployed the stack; by default the one in its state",
                "VERSION",
            ),
        ),
        group=READ,
    ),
    Verb(
        "upgrade-plan",
        "propose newer software for the stack, step by step",
        ("upgrade-plan --stack prod", "upgrade-plan --write --output json"),
        (Option("write", "edit the stack file by the first step"),),
        group=READ,
    ),
    Verb(
        "evidence",
        "sign what the validation found",
        ("evidence --stack prod --key evidence.key --days 30 --file evidence.json",),
        (
            Option("key", "the private key", FILE, kind="file"),
            Option("days", "number of days for which the evidence holds; 30 by default", "DAYS"),
            Option("file", "the evidence; evidence-STACK.json by default", FILE, kind="file"),
        ),
        module=".evidence.__main__",
        group=READ,
    ),
    Verb(
        "verify-evidence",
        "check evidence offline",
        (
            "verify-evidence --stack prod --file evidence-prod.json --public evidence.pub",
            "verify-evidence --file evidence-dev.json --public evidence.pub --simulated",
        ),
        (
            Option("file", "the evidence", FILE, kind="file"),
            Option("public", "the public key of whoever made it", FILE, kind="file"),
            Option("simulated", "accept kernels that were only simulated"),
        ),
        group=READ,
    ),
    Verb(
        "init",
        "write the repository of a site into this folder",
        (
            "init --forge github --stacks prod --owners @org/gpu",
            "init --forge gitlab --constraints gpu-cluster-constraints.txt",
            "init --template",
        ),
        (
            Option(
                "forge",
                "the host of the repository: github or gitlab",
                "FORGE",
                ("github", "gitlab"),
            ),
            Option("stacks", "names of the stacks of real clusters, with commas", "NAMES"),
            Option("owners", "who must review changes, such as @org/gpu", "OWNERS"),
            Option("constraints", "the release's constraints file with hashes", FILE, kind="file"),
            Option("template", "write a template for `pulumi new` in place of a site"),
        ),
        group=BEGIN,
        has_data=False,
        has_stack=False,
        needs_stack=False,
    ),
    Verb(
        "new",
        "write a new stack file from a cluster or an inventory",
        (
            "new --stack lab --from-cluster my-cluster --from-inventory hosts.ini --scan",
            "new --stack lab --nodes 'gpu-[1-4]' --gpus 8 --context c --platform dra",
        ),
        (
            Option("from-cluster", "context of a running cluster", "CONTEXT"),
            Option(
                "from-inventory",
                "inventory of Ansible: INI, YAML, or the output of ansible-inventory",
                FILE,
                kind="file",
            ),
            Option("context", "context of the kubeconfig, if no cluster is read", "CONTEXT"),
            Option("platform", "the platform, if no cluster is read", "NAME"),
            Option("nodes", "nodes with GPUs, such as gpu-[1-4]; empty to find them", "NODES"),
            Option("gpus", "number of GPUs of each node, if nothing else shows it", "NUMBER"),
            Option("scan", "take host keys from the network; compare their fingerprints"),
        ),
        group=BEGIN,
        needs_stack=False,
    ),
    Verb(
        "adopt",
        "adopt a running cluster: write the stack file, preview",
        ("adopt --stack lab --context my-cluster",),
        (Option("context", "context of the cluster, for a new stack file", "CONTEXT"),),
        group=BEGIN,
        needs_stack=False,
    ),
    Verb(
        "leave",
        "stop managing the cluster, which keeps running",
        ("leave --stack prod --pool spare", "leave --stack prod --hosts 'gpu-[1-2]'"),
        (Option("pool", "only this pool", "NAME"), HOSTS),
        group=BEGIN,
    ),
    Verb(
        "host-keys",
        "scan the host keys of new hosts, and write them",
        ("host-keys --stack prod", "host-keys --hosts 'gpu-[1-2]' --confirm 5d41402a"),
        (
            HOSTS._replace(text="scan these hosts again, such as gpu-[1-2]"),
            Option("confirm", "the code of the scan that somebody compared", "CODE"),
        ),
        group=PART,
    ),
    Verb(
        "forget",
        "remove from the state a host that no longer exists",
        ("forget gpu-2",),
        (Option("host", "the host", "HOST", is_position=True),),
        group=PART,
    ),
    Verb(
        "comment",
        "print or post the comment of a pull request",
        (
            "comment --change change.json",
            "comment --forge github --pull 12 --commit 5d41402a --base main --run https://ci/7",
            "comment --forge github --head ann:branch --conclusion failure --expected",
            "comment --forge github --pull 12 --base main --by-base",
            "comment --forge gitlab --pull all --job 'preview prod' --base-job 'fork settings'",
            "comment --forge gitlab --base main --forks forks.txt",
        ),
        (
            Option("change", "the change document; change.json by default", FILE, kind="file"),
            Option(
                "forge",
                "github or gitlab, which gets the comment; without it, it is printed",
                "FORGE",
                ("github", "gitlab"),
            ),
            Option("pull", "number of the pull request; all: each open one of GitLab", "NUMBER"),
            Option("head", "owner and branch of the pull request, as owner:branch", "HEAD"),
            Option("commit", "the commit that was previewed", "COMMIT"),
            Option("base", "the branch that the pull request is for", "BRANCH"),
            Option("run", "address of the run that made the document", "URL"),
            Option("job", "job of a GitLab pipeline that writes the document", "NAME"),
            Option("base-job", "job of this GitLab pipeline that previews forks' settings", "NAME"),
            Option("forks", "write GitLab's open merge requests of forks there", FILE, kind="file"),
            Option("conclusion", "how the preview's run ended", "WORD"),
            Option("expected", "the run had a preview of this stack"),
            Option("by-base", "the base's program made the document, of settings only"),
        ),
        group=CI,
        has_data=False,
        needs_stack=False,
    ),
    Verb(
        "probe-key",
        "create an SSH key for previews, and check it on hosts",
        ("probe-key --stack prod --file probe-key",),
        (Option("file", "the private key; in the cache by default", FILE, kind="file"),),
        group=CI,
    ),
    Verb(
        "preview-state",
        "write a copy of the state without its secrets",
        ("preview-state --stack prod",),
        group=CI,
        has_data=False,
    ),
    Verb(
        "preview-secrets",
        "replace the secrets in this checkout's stack file",
        ("preview-secrets --stack prod",),
        group=CI,
        has_data=False,
    ),
    Verb(
        "start",
        "start the embedded cluster and its hosts",
        ("start --stack dev",),
        group=LAB,
    ),
    Verb(
        "down",
        "destroy the stack and stop its embedded cluster",
        ("down --stack dev",),
        group=LAB,
    ),
    Verb(
        "env",
        "print the environment for plain pulumi",
        ("env --stack lab",),
        module=".environment",
        group=OTHER,
    ),
    Verb(
        "policy-pack",
        "print the folder of the rules, for --policy-pack",
        ("policy-pack",),
        module=".packs",
        group=OTHER,
        has_data=False,
        has_stack=False,
        needs_stack=False,
    ),
    Verb(
        "tools",
        "show the toolchain and build what is missing",
        ("tools", "tools pulumi helm --refresh", "tools --path pulumi", "tools --bin"),
        (
            Option(
                "names",
                "only these tools; all by default",
                "TOOL",
                is_position=True,
                is_repeated=True,
            ),
            Option("path", "print the path of this tool alone", "TOOL"),
            Option("bin", "print the folder for PATH alone"),
            Option("refresh", "look again for official tools in place of our own"),
        ),
        group=OTHER,
        has_stack=False,
        needs_stack=False,
    ),
    Verb(
        "rules",
        "check manifests, list or explain GPU rules",
        ("rules check manifests/", "rules explain GPU001", "rules check --help"),
        (
            Option(
                "command",
                "check, list, settings, explain or export; the help of each lists its options",
                "COMMAND",
                ("check", "list", "settings", "explain", "export"),
                is_position=True,
            ),
        ),
        passes_on=True,
        module="gpu_cluster.guardrails.check:run_rules",
        group=OTHER,
        has_data=False,
        has_stack=False,
        needs_stack=False,
    ),
    Verb(
        "completion",
        "print the completion of a shell",
        ("completion bash",),
        (
            Option(
                "shell",
                "bash, zsh or fish",
                "SHELL",
                ("bash", "zsh", "fish"),
                is_position=True,
            ),
        ),
        module=".command_line:print_completion",
        group=OTHER,
        has_data=False,
        has_stack=False,
    ),
)

BY_NAME = {verb.name: verb for verb in VERBS}
