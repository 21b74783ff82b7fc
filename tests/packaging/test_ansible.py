"""The roles of Ansible: what `make ansible-test` does not see on its machines."""

import os
import re
import subprocess
from pathlib import Path

from tests import needs

TOP = Path(__file__).resolve().parents[2]
PLAYS = TOP / "packaging/ansible"
ROLES = sorted(path.name for path in (PLAYS / "roles").iterdir())
OF_A_TASK = re.compile(r"^ +([a-z_]+\.[a-z_]+\.[a-z_]+):", re.M)


@needs.mark("ansible-playbook")
def test_ansible_reads_the_plays_and_the_example(tmp_path: Path) -> None:
    environment = {**os.environ, "ANSIBLE_LOCAL_TEMP": str(tmp_path), "HOME": str(tmp_path)}
    for play in ("site.yml", "add-command.yml"):
        command = ["ansible-playbook", "--syntax-check", play]
        subprocess.run(command, cwd=PLAYS, env=environment, check=True, capture_output=True)


def test_each_variable_of_a_role_is_declared_and_explained() -> None:
    page = (TOP / "docs/ansible.md").read_text()
    for role in ROLES:
        folder = PLAYS / "roles" / role
        defaults = re.findall(r"^(\w+):", (folder / "defaults/main.yml").read_text(), re.M)
        specs = (folder / "meta/argument_specs.yml").read_text()
        assert re.findall(rf"^      ({role}\w*):", specs, re.M) == defaults
        assert [name for name in defaults if f"| `{name}` |" not in page] == []


def test_the_core_of_ansible_is_enough() -> None:
    for file in (*PLAYS.glob("*.yml"), *PLAYS.glob("roles/*/*/*.yml")):
        for module in OF_A_TASK.findall(file.read_text()):
            assert module.startswith("ansible.builtin."), f"{file}: {module}"


def test_no_task_shows_a_secret() -> None:
    secret = re.compile(r"_secrets|maintd_users|maintd\.users\.j2")
    for file in PLAYS.glob("roles/*/tasks/*.yml"):
        tasks = re.split(r"^ *- name: ", file.read_text(), flags=re.M)
        shown = [task for task in tasks if secret.search(task) and "no_log: true" not in task]
        assert shown == [], file
