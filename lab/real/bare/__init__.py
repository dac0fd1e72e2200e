"""Test site of unprepared hosts for real kubelets: hosts, network, registry and packages.

The hosts are the simulator's, with their own network, control groups and devices in addition. `up`
installs everything else: packages with apt, images from the site's registry.
"""
