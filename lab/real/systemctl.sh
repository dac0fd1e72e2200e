#!/bin/sh
# Replaces systemctl on a real node, which has no systemd. It supports only containerd, as the host
# preparation needs. A reload of units does nothing; docs/explanation/real-parts.md lists this difference.
pid=/run/containerd.pid

alive() { [ -s "$pid" ] && kill -0 "$(cat "$pid")" 2>/dev/null; }

stop() {
    alive || return 0
    kill "$(cat "$pid")"
    for _ in $(seq 100); do
        alive || return 0
        sleep 0.1
    done
    kill -9 "$(cat "$pid")"
}

start() {
    alive && return 0
    setsid sh -c 'echo $$ >/run/containerd.pid; exec /opt/real/containerd' \
        </dev/null >>/var/log/containerd.log 2>&1 &
    for _ in $(seq 200); do
        /opt/real/ctr --connect-timeout 1s version >/dev/null 2>&1 && return 0
        sleep 0.1
    done
    return 1
}

while [ "${1#--}" != "$1" ]; do shift; done
command=$1
case $command in
    is-active)
        if alive; then echo active; else
            echo inactive
            exit 3
        fi
        ;;
    is-enabled) echo enabled ;;
    enable | daemon-reload) ;;
    start) start ;;
    restart) stop; start ;;
    stop) stop ;;
    *) echo "systemctl of a real node: $command is not known" >&2; exit 1 ;;
esac
