# Limits of log-ins, and of what the container engine starts: pods have the locked memory of its
# service, not a log-in's. Sources: limits.conf(5); systemd.exec(5), LimitMEMLOCK.

apply_limits() {
    step_file /etc/security/limits.d/99-gpu-cluster.conf "$GC_LIMITS_TEXT"
    for unit in ${GC_LIMITS_UNITS-}; do
        file=/etc/systemd/system/$unit.service.d/50-gpu-cluster-limits.conf
        # Nothing reloads systemd's manager here (effects.sh, unit_on).
        [ -f "$root$file" ] || note "$unit has the declared memlock from the next boot on"
        step_file "$file" "$GC_LIMITS_UNIT_TEXT"
    done
}
