# Sets limits of logins and of the container engine's services: pods inherit the locked memory limit
# of their engine's service, not of a login. Sources: limits.conf(5); systemd.exec(5), LimitMEMLOCK.

apply_limits() {
    step_file /etc/security/limits.d/99-gpu-cluster.conf "$GC_LIMITS_TEXT"
    for unit in ${GC_LIMITS_UNITS-}; do
        unit_drop_in "$unit" limits "$GC_LIMITS_UNIT_TEXT"
    done
    drop_ins_in_force
}
