"""Read inventories of Ansible, without Ansible: groups, hosts and their variables."""
