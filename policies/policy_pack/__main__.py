"""Entry point of the policy pack with one policy for each GPU rule."""

from gpu_rules.pack_by_rule import start

start()
