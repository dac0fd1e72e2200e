"""Logins that fail on a real sshd, and what the message must say about each.

The expectations were written before the first run of the situations.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Situation:
    """A login that fails, and what its message must contain.

    Attributes:
        name: Name of the situation; the rig has a function of this name that makes it.
        stage: Stage of the login that the message names.
        words: Regular expression for the host's own words. Empty: the host prints none.
        cure: Regular expression for the cure.
        at: Who refuses: `host` or `bastion`.
        source: Public report of the situation, or the manual that describes it.
    """

    name: str
    stage: str
    words: str
    cure: str
    at: str = "host"
    source: str = ""


_NO_KEY = r"authorized_keys.*user|user.*authorized_keys"

SITUATIONS = (
    Situation("unknown_name", "name resolution", "", "correct address"),
    Situation("closed_port", "connection", "", "start the host or its sshd"),
    Situation("stopped_sshd", "greeting", "", "restart sshd"),
    Situation("another_service", "greeting", r"HTTP/1\.[01] 400", "correct port"),
    Situation(
        "max_startups",
        "MaxStartups",
        "Exceeded MaxStartups",
        "raise MaxStartups",
        source="go-gitea/gitea#21732, ronf/asyncssh#55",
    ),
    Situation("old_algorithms", "key exchange", "", "update its SSH server"),
    Situation("other_host_key", "host key", "", "ssh-keygen -lf"),
    Situation("key_not_installed", "key", "", _NO_KEY),
    Situation("unknown_user", "key", "", _NO_KEY),
    Situation("no_root_login", "key", "", "PermitRootLogin", source="sshd_config(5)"),
    Situation("user_not_allowed", "key", "", "AllowUsers", source="sshd_config(5)"),
    Situation("open_home", "key", "", "StrictModes", source="sshd_config(5)"),
    Situation("locked_account", "key", "", _NO_KEY, source="sshd(8), LOGIN PROCESS"),
    Situation("no_keys_accepted", "key", "", "PubkeyAuthentication yes"),
    Situation(
        "password_after_key",
        "second factor",
        "",
        "AuthenticationMethods publickey",
        source="ansible/ansible#77277",
    ),
    Situation(
        "code_after_key",
        "second factor",
        "",
        "AuthenticationMethods publickey",
        source="paramiko/paramiko#467, ansible/ansible#77277",
    ),
    Situation("expired_account", "user", "account has expired", "chage", source="chage(1)"),
    Situation(
        "booting_system",
        "user",
        "System is booting up",
        "pam_nologin",
        source="systemd/systemd#8228, osism/testbed#2470",
    ),
    Situation("access_file", "user", "", r"access\.conf", source="pam_access(8)"),
    Situation(
        "expired_password",
        "expired password",
        "Password change required but no TTY available",
        "chage -M -1",
        source="pingcap/tidb#37836, Gamocosm/Gamocosm#121",
    ),
    Situation(
        "root_of_cloud_image",
        "forced command",
        'Please login as the user "ubuntu"',
        "user: ubuntu",
        source="deployphp/deployer#3542",
    ),
    Situation("key_for_backups", "forced command", "only for backups", "command="),
    Situation("start_file_exits", "forced command", "down for maintenance", "start-up file"),
    Situation("nologin_shell", "shell", "account is currently not available", "chsh"),
    Situation("false_shell", "shell", "", "chsh"),
    Situation("no_sessions", "shell", "open failed", "MaxSessions"),
    Situation("no_sudo", "sudo", "sudo.*not found", "install sudo"),
    Situation(
        "sudo_password",
        "sudo",
        "a password is required",
        "NOPASSWD",
        source="ansible/ansible#14022, nresare/pam-ssh-agent#65",
    ),
    Situation("sudo_for_others", "sudo", "password is required|not allowed", "NOPASSWD"),
    Situation("sudoers_writable", "sudo", "world writable", "visudo -c"),
    Situation(
        "sudo_terminal",
        "sudo's terminal",
        "must have a tty",
        "!requiretty",
        source="net-ssh/net-ssh#103, heketi/heketi#216",
    ),
    Situation("sudo_rs_password", "sudo", "password|authentication", "NOPASSWD"),
    Situation("sudo_rs_for_others", "sudo", "sorry|password|authentication", "NOPASSWD"),
    Situation(
        "no_forwarding",
        "forward through the bastion",
        "open failed",
        "AllowTcpForwarding",
        "bastion",
        "mscdex/ssh2#946, Guimove/terraform-aws-bastion#32",
    ),
    Situation(
        "no_forwarding_there",
        "forward through the bastion",
        "open failed",
        "PermitOpen",
        "bastion",
        "sshd_config(5)",
    ),
    Situation(
        "closed_port_behind_bastion",
        "connection",
        "refused",
        r"start the host or its sshd.*access from the bastion; `ssh -J root@127\.0\.0\.1:\d+ -p",
    ),
    Situation("unknown_name_at_bastion", "name resolution", "", "correct address", "bastion"),
    Situation("bastion_without_key", "key", "", _NO_KEY, "bastion"),
    Situation("bastion_with_other_key", "host key", "", "ssh-keygen -lf", "bastion"),
    Situation("bastion_port_closed", "connection", "", "start the bastion or its sshd", "bastion"),
    Situation(
        "bastion_second_factor",
        "second factor",
        "",
        "AuthenticationMethods publickey",
        "bastion",
        "ansible/ansible#77277",
    ),
    Situation(
        "bastion_expired_password",
        "forward through the bastion",
        "open failed",
        "chage -l",
        "bastion",
        "OpenSSH, auth-pam.c (sshpam_password_change_required)",
    ),
    Situation("slow_account", "slow login", "", "perDialTimeoutSeconds"),
    Situation("slow_shell", "slow login", "", "perDialTimeoutSeconds"),
)

HEALED = (
    "max_startups_for_a_moment",
    "closed_before_the_greeting",
    "reset_in_the_key_exchange",
    "sshd_restarts",
    "bastion_at_max_startups",
    "sshd_restarts_behind_the_bastion",
    "system_still_booting",
)
"""Logins that fail once and work a moment later."""
