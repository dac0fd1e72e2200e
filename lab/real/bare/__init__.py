"""A site of bare hosts for real kubelets: its hosts, network, registry and packages.

Hosts are the simulator's, booted with more: a network, control groups and devices of their own. All
else is what `up` brings: packages by apt, images from the site's registry.
"""
