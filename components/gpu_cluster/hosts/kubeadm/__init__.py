"""Clusters that the stack creates with kubeadm."""
