module sigs.k8s.io/structured-merge-diff/v4

go 1.26.0

require sigs.k8s.io/structured-merge-diff/v6 v6.3.3
