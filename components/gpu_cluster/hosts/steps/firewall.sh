# Configures the host's firewall: firewalld or ufw. No rule table is ever flushed, because
# kube-proxy and the CNI have their rules in the same tables. Ports: Kubernetes docs, "Ports and
# Protocols". State: ports (tool and port that these scripts opened), firewalls (tool and its
# previous state). For --no-reload see unit_on.

# Names a firewall that these scripts do not configure: a declared firewall would seem to be done.
check_firewall() {
    ! firewalld_runs && ! ufw_runs || return 0
    closed=$(closing_chain)
    [ -z "$closed" ] ||
        problem "$closed, and neither firewalld nor ufw runs" "a firewall that firewalld or ufw manages" \
            "open what the host needs there ($GC_PORTS), and declare system.firewall: leave"
}

# closing_chain: prints the first chain that drops what comes in, unless a rule allows it: of nftables,
# or of iptables if its own tables are loaded (nft(8); iptables(8), -S). It only reads.
closing_chain() {
    {
        ! have nft || timeout 30 nft list ruleset 2>/dev/null | awk '
            $1 == "table" { table = $2 " " $3 }
            $1 == "chain" { chain = $2; input = 0 }
            / hook input / { input = 1 }
            input && (/policy drop;/ || /^[ \t]*(counter packets [0-9]+ bytes [0-9]+ )?(drop|reject)( with .*)?$/) {
                print "chain " chain " of nftables (table " table "), which drops what no rule of it allows"
                input = 0
            }'
        if grep -qsx filter "$root/proc/net/ip_tables_names" && have iptables &&
            timeout 30 iptables -S INPUT 2>/dev/null | grep -Eq '^-P INPUT DROP|^-A INPUT -j (DROP|REJECT)'; then
            echo "chain INPUT of iptables, which drops what no rule of it allows"
        fi
    } | head -n 1
}

apply_firewall() {
    case $GC_FIREWALL in
        rules)
            firewalls_back
            close_ports "$GC_PORTS"
            open_ports
            ;;
        disable)
            close_ports ""
            firewalls_off
            ;;
    esac
}

undo_firewall() {
    firewalls_back
    close_ports ""
}

firewalld_runs() {
    have firewall-cmd && timeout 30 firewall-cmd --state >/dev/null 2>&1
}

ufw_runs() {
    have ufw && timeout 30 ufw status 2>/dev/null | grep -q '^Status: active'
}

open_ports() {
    if firewalld_runs; then
        tool=firewalld
    elif ufw_runs; then
        tool=ufw
    else
        return 0
    fi
    for port in $GC_PORTS; do
        expect port "$tool" "$port"
        port_open "$tool" "$port" && continue
        record ports "$tool $port"
        port_change "$tool" add "$port" || fail_act "$tool can't open $port; reload the firewall (firewall-cmd --reload, ufw reload), correct what it reports, then run \`gpu-cluster up\` again"
        did "$tool: $port open"
    done
}

# port_change TOOL add|remove PORT: changes the port now and for every boot.
port_change() {
    case $1-$2 in
        firewalld-*)
            timeout 60 firewall-cmd -q --permanent --"$2"-port="$3" &&
                timeout 60 firewall-cmd -q --"$2"-port="$3"
            ;;
        ufw-add) timeout 60 ufw allow "$(ufw_port "$3")" comment gpu-cluster >/dev/null ;;
        ufw-remove) timeout 60 ufw delete allow "$(ufw_port "$3")" >/dev/null ;;
    esac
}

# close_ports KEPT: closes the ports that these scripts opened, except for the KEPT ones.
close_ports() {
    [ -f "$state/ports" ] || return 0
    : >"$state/draft" || fail_file "can't write $state/draft"
    while read -r tool port; do
        case " $1 " in
            *" $port "*)
                printf '%s\n' "$tool $port" >>"$state/draft"
                continue
                ;;
        esac
        its_program=ufw
        [ "$tool" != firewalld ] || its_program=firewall-cmd
        have "$its_program" || {
            note "$its_program is gone, so $port stays open in the files that $tool left"
            continue
        }
        # Without its daemon, firewall-cmd can't read the permanent configuration either (firewalld
        # 2.5.0, src/firewall-cmd.in, NOT_RUNNING).
        if [ "$tool" = firewalld ] && ! firewalld_runs; then
            note "firewalld doesn't run, so $port stays open in its files: firewall-offline-cmd --remove-port=$port closes it"
            continue
        fi
        port_open "$tool" "$port" || continue
        if port_change "$tool" remove "$port"; then
            undid "$tool: $port closed"
        else
            note "$tool can't close $port"
        fi
    done <"$state/ports"
    mv -- "$state/draft" "$state/ports" || fail_file "can't write $state/ports"
}

firewalls_off() {
    if have firewall-cmd; then
        expect inactive firewalld
        active=$(timeout 30 systemctl is-active firewalld 2>/dev/null)
        enabled=$(timeout 30 systemctl is-enabled firewalld 2>/dev/null)
        if [ "$active" = active ] || [ "$enabled" = enabled ]; then
            grep -q '^firewalld ' "$state/firewalls" 2>/dev/null ||
                record firewalls "firewalld ${active:-inactive} ${enabled:-disabled}"
            timeout 120 systemctl --no-reload disable --now firewalld >/dev/null 2>&1 ||
                fail_act "firewalld can't be disabled; check systemctl status firewalld"
            did "firewalld off"
        fi
    fi
    if ufw_runs; then
        record firewalls "ufw active enabled"
        timeout 60 ufw disable >/dev/null || fail_act "ufw can't be disabled; run \`ufw disable\`, correct what it reports, then run \`gpu-cluster up\` again"
        did "ufw off"
    fi
}

firewalls_back() {
    [ -f "$state/firewalls" ] || return 0
    while read -r tool active enabled; do
        case $tool in
            ufw) ufw_runs || timeout 60 ufw --force enable >/dev/null ;;
            firewalld)
                { [ "$enabled" != enabled ] || timeout 60 systemctl --no-reload enable firewalld >/dev/null 2>&1; } &&
                    { [ "$active" != active ] || timeout 120 systemctl start firewalld; }
                ;;
        esac && undid "$tool on" || note "$tool can't be turned on again"
    done <"$state/firewalls"
    rm -f -- "$state/firewalls"
}

# --- found later: the probe has this part too ---

port_open() {
    case $1 in
        firewalld)
            timeout 30 firewall-cmd -q --permanent --query-port="$2" &&
                timeout 30 firewall-cmd -q --query-port="$2"
            ;;
        ufw) timeout 30 ufw show added | grep -q "^ufw allow $(ufw_port "$2")\\( \\|\$\\)" ;;
    esac
}

# ufw(8) writes port ranges with a colon.
ufw_port() {
    printf '%s' "$1" | tr - :
}

found_port() {
    # shellcheck disable=SC2034 # the probe prints this variable
    drifted="port $2"
    case $1 in
        firewalld) timeout 5 firewall-cmd -q --query-port="$2" ;;
        ufw) port_open ufw "$2" ;;
    esac
}
