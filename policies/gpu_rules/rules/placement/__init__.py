"""Rules for the scheduling of GPU pods and the capacity of GPU pools."""
