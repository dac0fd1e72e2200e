"""Builds the policy pack; the engine runs this folder."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from pulumi_policy import PolicyPack

from policies.pack import NAME, policies
from policies.settings import mark_secrets, receive_stack_configuration

receive_stack_configuration()
mark_secrets()
PolicyPack(NAME, policies())
