"""Inventories are read by Ansible's rules; an invalid file is refused with file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_cluster.base.yaml_file import Tagged
from gpu_cluster.commands.ansible import ini
from gpu_cluster.commands.ansible.inventory import (
    Inventory,
    expanded,
    number,
    text,
    truth,
    unreadable,
)
from gpu_cluster.commands.ansible.read import parse_yaml, read
from gpu_rules.faults import ConfigError, InputError


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("gpu", ["gpu"]),
        ("gpu[01:03]", ["gpu01", "gpu02", "gpu03"]),
        ("gpu[8:10]", ["gpu8", "gpu9", "gpu10"]),
        ("gpu[:1].x", ["gpu0.x", "gpu1.x"]),
        ("db-[a:c]", ["db-a", "db-b", "db-c"]),
        ("n[0:4:2]", ["n0", "n2", "n4"]),
        ("r[1:2]-[1:2]", ["r1-1", "r1-2", "r2-1", "r2-2"]),
    ],
)
def test_a_range_has_the_hosts_that_ansible_makes_of_it(pattern: str, names: list[str]) -> None:
    # ansible/ansible, lib/ansible/plugins/inventory/__init__.py, expand_hostname_range.
    assert [*expanded(pattern, 100)] == names


@pytest.mark.parametrize(
    "pattern",
    ["a[1:", "a[1]", "a[1:2:3:4]", "a[1:]", "a[x1:2]", "a[2:1]", "a[c:a]", "a[01:100]", "a[1:2:0]",
     "a[1:999999999]", "a[1:90][1:90]", "a[-1:2]"],
)  # fmt: skip
def test_a_range_without_end_or_sense_is_refused_before_it_is_made(pattern: str) -> None:
    with pytest.raises(ValueError, match="range"):
        [*expanded(pattern, 5000)]


INI = """
# a comment
; another
lonely ansible_host=192.0.2.9
[gpu:children]
a100   # with a comment
h100
[a100]
n[1:2]:2222 x='a b' gpus=4 ok=True labels="{'a': 'b'}"   # a comment
[h100]
n3 x="#no comment"
[a100:vars]
x = of the group # all of the line
ansible_user=ops
[gpu:vars]
ansible_user=outer
y=outer
[all:vars]
y=all
z=all
"""


def test_an_ini_file_is_read_by_ansibles_rules() -> None:
    found = ini.parse(INI)
    assert found.members("gpu") == ("n1", "n2", "n3")
    assert found.members("all") == ("lonely", "n1", "n2", "n3")
    assert found.groups_of("n1") == ("gpu", "a100") or found.groups_of("n1")[-1] == "a100"
    first = found.variables("n1")
    assert first["ansible_port"] == 2222
    assert (first["x"], first["gpus"], first["ok"]) == ("a b", 4, True)
    assert first["labels"] == {"a": "b"}
    assert (first["ansible_user"], first["y"], first["z"]) == ("ops", "outer", "all")
    assert found.variables("n3")["x"] == "#no comment"
    assert found.groups["a100"].variables["x"] == "of the group # all of the line"


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("[a b]", "a section whose name has a blank"),
        ("[a:parents]", "unknown kind"),
        ("[g]\nhost noequals", "key=value"),
        ("[g:vars]\nnoequals", "key=value"),
        ("[g:children]\na b", "name of a group"),
        ('[g]\nhost x="open', "quotation"),
        ("[g]\nhost[1:2", "bracket"),
        ("[g]\nhost a=" + "\N{MICRO SIGN}" * 20_000, "more than 16384 characters"),
    ],
)
def test_a_line_that_is_none_of_an_inventory_is_refused_with_its_number(
    line: str, named: str
) -> None:
    with pytest.raises(InputError) as caught:
        ini.parse(line)
    assert named in caught.value.found
    assert caught.value.line == line.count("\n") + 1


def test_variables_in_files_override_those_of_the_inventory_and_hosts_override_groups(
    tmp_path: Path,
) -> None:
    # docs.ansible.com, "Understanding variable precedence", steps 3 to 9.
    (tmp_path / "inventory").write_text("[g]\nh d=inline e=inline\n[g:vars]\na=g\nb=g\nc=g\n")
    for name, content in {
        "group_vars/all.yml": "b: all-file\nc: all-file\n",
        "group_vars/g/one.yaml": "c: g-file\nd: g-file\n",
        "group_vars/g/.hidden.yml": "c: hidden\n",
        "group_vars/other.yml": "not: [yaml\n",
        "host_vars/h": "e: h-file\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    found = dict(read(tmp_path / "inventory").variables("h"))
    assert found == {"a": "g", "b": "all-file", "c": "g-file", "d": "inline", "e": "h-file"}


def test_a_yaml_inventory_may_nest_groups_and_leave_them_empty() -> None:
    found = parse_yaml(
        "all:\n  children:\n    a:\n      children:\n        b: {hosts: {'n[1:2]': {x: 1}}}\n"
        "      vars: {p: !vault xx, q: '{{ p }}'}\n    c:\n"
    )
    assert found.members("a") == ("n1", "n2")
    assert found.members("c") == ()
    variables = found.variables("n2")
    assert isinstance(variables["p"], Tagged)
    assert unreadable(variables, ["p"]) == "p"
    assert variables["x"] == 1


@pytest.mark.parametrize(
    ("text_", "named"),
    [
        ("- a\n", "a list"),
        ("plugin: aws_ec2\n", "an inventory plugin"),
        ("g: [a]\n", "a list of 1"),
        ("g: {hosts: {'n[1:x1]': }}\n", "range"),
        ("g: {hosts: {a: }\n", "that isn't closed"),
    ],
)
def test_a_text_that_is_no_inventory_is_refused(text_: str, named: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_yaml(text_)
    assert named in caught.value.found


def test_a_program_or_a_folder_is_refused_with_the_way_to_a_file(tmp_path: Path) -> None:
    program = tmp_path / "inventory"
    program.write_text("#!/usr/bin/env python3\n")
    for path, named in ((program, "ansible-inventory -i"), (tmp_path, "a folder")):
        with pytest.raises(ConfigError) as caught:
            read(path)
        assert named in str(caught.value)


def test_groups_that_contain_each_other_have_their_hosts_once() -> None:
    found = ini.parse("[a]\nh\n[a:children]\nb\n[b:children]\na\n[b:vars]\nx=1\n")
    assert found.members("a") == found.members("b") == ("h",)
    assert found.variables("h")["x"] == 1


def test_values_are_read_as_ansible_reads_them() -> None:
    variables = {
        "a": " x ",
        "b": "{{ a }}",
        "c": "{{ a | upper }}",
        "d": 22,
        "e": "yes",
        "f": "{{ f }}",
    }
    assert text(variables, ["missing", "b"]) == "x"
    assert text(variables, ["c"]) is None
    assert text(variables, ["f"]) is None
    assert number(variables, ["d"]) == 22
    assert number(variables, ["a"]) is None
    assert (truth(variables, "e"), truth(variables, "a"), truth(variables, "x")) == (
        True,
        False,
        None,
    )


def test_an_empty_inventory_has_no_hosts() -> None:
    assert ini.parse("") == Inventory(groups={}, hosts={})


HOSTILE = {
    "groups in groups": "\n".join(f"[g{n}]\nh{n}\n[g{n}:children]\ng{n + 1}" for n in range(1_600)),
    "groups in a circle": "\n".join(
        f"[g{n}]\nh{n}\n[g{n}:children]\ng{(n + 1) % 1_600}" for n in range(1_600)
    ),
    "many groups of the same hosts": "[a]\nh[1:5000]\n"
    + "\n".join(f"[g{n}:children]\na" for n in range(1_000)),
    "the same hosts again": "[a]\n" + "h[1:5000]\n" * 1_000,
    "variables of a range": "[a]\nh[1:5000] " + " ".join(f"v{n}=1" for n in range(1_000)),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_short_text_that_stands_for_much_is_refused(name: str) -> None:
    with pytest.raises(InputError, match=r"more than [0-9]+ (groups|names and variables)"):
        ini.parse(HOSTILE[name])


def test_groups_in_a_circle_are_the_deepest() -> None:
    found = ini.parse("[a:children]\nb\n[b:children]\na\n[b]\nn1\n[c]\nn1\n")
    assert found.groups_of("n1") == ("c", "a", "b")


def test_hosts_share_the_variables_of_their_groups() -> None:
    found = ini.parse("[a]\nn1 x=host\nn2\n[all:vars]\nx=all\ny=all\n[a:vars]\ny=group\n")
    assert dict(found.variables("n1")) == {"x": "host", "y": "group"}
    assert dict(found.variables("n2")) == {"x": "all", "y": "group"}
