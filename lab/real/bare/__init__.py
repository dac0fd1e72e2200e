"""Test site of unprepared hosts, on which real kubelets are installed.

The site has hosts, a network, an image registry and a package repository. The hosts are those of
`gpu_cluster_lab.simulator.hosts`, with their own network, control groups and devices. `pulumi up`
installs everything else: packages with apt, and images from the site's registry.
"""
