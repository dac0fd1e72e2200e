# Limits of log-ins. Source: limits.conf(5).

apply_limits() {
    step_file /etc/security/limits.d/99-gpu-cluster.conf "$GC_LIMITS_TEXT"
}
